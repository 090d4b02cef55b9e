/* triton_metrics.h - the statistics of models under the names and labels that Triton gives them, `nv_inference_*`. */
#pragma once

#include "core/util/text.h"
#include "front/request/statistics.h"
#include "model/repository/model_index.h"
#include "server/stats/scheduler_metrics.h"

/* Writes the statistics of the listed models. `scheduler` NULL: the scheduler is in another process, so that batches
 * and queues are not known here. */
void triton_metrics_render(const struct statistics_source *statistics, const struct scheduler_counters *scheduler,
                           const struct model_index *listed, struct text *out);
