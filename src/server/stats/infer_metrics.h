/* infer_metrics.h - what frontends count of infer requests, as Prometheus' text. */
#pragma once

#include "core/util/text.h"
#include "front/bulk/slab.h"
#include "front/net/frontend_metrics.h"
#include "model/repository/model_index.h"

/* Summed over all frontends, of whatever protocol, with the memory that the bulk threads hold. */
void infer_metrics_render(const struct frontend_counters *frontends, uint32_t count, const struct model_index *models,
                          struct slab_use bulk, struct text *out);
/* Refusals by reason, as the frontends of a cluster see them; in one process the scheduler's own counters say it. */
void infer_metrics_render_refused(const struct frontend_counters *frontends, uint32_t count,
                                  const struct model_index *models, struct text *out);
/* The histogram of latencies as finely as it is kept, with only those edges between which something was counted: to be
 * compared with what a client saw, not for a time series. */
void infer_metrics_render_fine(const struct frontend_counters *frontends, uint32_t count,
                               const struct model_index *models, struct text *out);
