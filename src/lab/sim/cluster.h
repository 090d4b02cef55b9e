/* cluster.h - a scenario made into what sim_run() takes: models with their tables, accelerators by type, the workload.
 *
 * Set-up, not a core: it allocates. Any thread; no state. */
#pragma once

#include "core/util/error.h"
#include "lab/sim/sim.h"

struct scenario;

/* Not to be moved: it points into itself. */
struct cluster {
    struct sim_config config; /* everything but the observer; points into the tables below */
    struct sim_model *models; /* [config.model_count], in the scenario's order */
    struct sim_pipeline *pipelines;
    uint8_t *accelerator_type;
    struct sim_rate_step *steps;
    struct autoscale_config autoscale;
    struct query_sizes *query_sizes; /* NULL: one item a request */
    struct trace *trace;             /* of recorded arrivals, or NULL */
    struct profile **profiles;       /* [profile_count]; models with the same lines and SLO share theirs */
    uint32_t profile_count;
};

/* Makes the cluster; the scenario may be freed afterwards. A scenario without a rate gives no steps, and can only be
 * searched (lab/sim/goodput.h). -ENOTSUP for what is not simulated, -ENOMEM. Free it with cluster_free(); after an
 * error it is empty. */
int cluster_make(struct cluster *cluster, const struct scenario *scenario, struct sy_error *err);
/* Frees what the cluster holds, not the struct. */
void cluster_free(struct cluster *cluster);
