/* infer_metrics.h - what frontends count of infer requests, as Prometheus' text. */
#pragma once

#include "core/util/text.h"
#include "front/bulk/slab.h"
#include "front/net/frontend_metrics.h"
#include "server/stats/shown_models.h"

/* Writes the counts, summed over the frontends of all protocols, with the memory that the bulk threads hold (`bulk`).
 */
void infer_metrics_render(const struct frontend_counters *frontends, uint32_t count, const struct shown_model *models,
                          uint32_t model_count, struct slab_use bulk, struct text *out);
/* Writes the outcomes and times of ensembles' steps; nothing without ensembles. The list stays unchanged meanwhile. */
void infer_metrics_render_steps(const struct frontend_counters *frontends, uint32_t count,
                                const struct model_index *listed, struct text *out);
/* Writes the histogram of latencies with all buckets in which something was counted. For comparison with the latencies
 * that a client measured, not for a time series. */
void infer_metrics_render_fine(const struct frontend_counters *frontends, uint32_t count,
                               const struct shown_model *models, uint32_t model_count, struct text *out);
