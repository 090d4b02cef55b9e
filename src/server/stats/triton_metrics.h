/* triton_metrics.h - the statistics of models under the names and labels that Triton gives them, `nv_inference_*`. */
#pragma once

#include <stdbool.h>

#include "core/util/text.h"
#include "front/request/statistics.h"
#include "server/stats/shown_models.h"

/* Writes the statistics [count] of models. Not `scheduled`: the scheduler is elsewhere, so batches and queues are not
 * known here. */
void triton_metrics_render(const struct model_statistics *statistics, const struct shown_model *models, uint32_t count,
                           bool scheduled, struct text *out);
