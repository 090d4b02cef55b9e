/* infer_metrics.h - what frontends count of infer requests, as Prometheus' text. */
#pragma once

#include "base/text.h"
#include "repository/model_index.h"
#include "request/infer_counters.h"
#include "request/slab.h"

/* The frontends' counters, summed, of whatever protocol, and what the bulk threads hold. */
void infer_metrics_render(const struct infer_counters *const *counters, uint32_t count,
                          const struct model_index *models, struct slab_use bulk, struct text *out);
/* The histogram of latencies as finely as it is kept, with those edges only between which something was counted: for
 * one who compares it with what a client saw, not for a time series. */
void infer_metrics_render_fine(const struct infer_counters *const *counters, uint32_t count,
                               const struct model_index *models, struct text *out);
