/* triton_metrics.h - the statistics of models under the names and labels that Triton gives them, `nv_inference_*`. */
#pragma once

#include <stdbool.h>

#include "core/util/text.h"
#include "front/request/statistics.h"
#include "model/repository/model_index.h"

/* Of the models that are listed. Not `scheduled`: the scheduler is elsewhere, so batches and queues are not known here.
 */
void triton_metrics_render(const struct statistics_source *statistics, bool scheduled, const struct model_index *listed,
                           struct text *out);
