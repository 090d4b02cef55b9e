/* infer_metrics.h - what frontends count of infer requests, as Prometheus' text. */
#pragma once

#include "core/util/text.h"
#include "front/bulk/slab.h"
#include "front/net/frontend_metrics.h"
#include "model/config/ensemble.h"
#include "server/stats/shown_models.h"

/* Writes the counts, summed over the frontends of all protocols, with the memory that the bulk threads hold (`bulk`).
 */
void infer_metrics_render(const struct frontend_counters *frontends, uint32_t count, const struct shown_model *models,
                          uint32_t model_count, struct slab_use bulk, struct text *out);
/* A step of an ensemble that is listed: a copy, as struct shown_model. */
struct shown_step {
    char labels[4 * MODEL_NAME_MAX + ENSEMBLE_LABEL_MAX + 80]; /* of the ensemble, and of the step */
    uint64_t items, ended, took_ns;                            /* summed over the frontends */
    int64_t part_ns;                                           /* part of the ensemble's SLO; negative: not known */
};

/* The steps of all ensembles, which the caller frees. The list stays unchanged meanwhile. NULL: no memory. */
struct shown_step *infer_metrics_steps(const struct frontend_counters *frontends, uint32_t count,
                                       const struct model_index *listed, uint32_t *step_count);
/* Writes the outcomes and times of ensembles' steps; nothing without ensembles. */
void infer_metrics_render_steps(const struct shown_step *steps, uint32_t count, struct text *out);
/* Writes the histogram of latencies with all buckets in which something was counted. For comparison with the latencies
 * that a client measured, not for a time series. */
void infer_metrics_render_fine(const struct frontend_counters *frontends, uint32_t count,
                               const struct shown_model *models, uint32_t model_count, struct text *out);
