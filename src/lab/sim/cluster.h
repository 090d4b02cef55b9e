/* cluster.h - makes the arguments of sim_run() from a scenario: models with their tables, accelerators by type, the
 * workload.
 *
 * Runs at set-up, and allocates. Any thread; no state. */
#pragma once

#include "core/util/error.h"
#include "lab/sim/sim.h"

struct scenario;

/* Do not move the struct: it points into itself. */
struct cluster {
    struct sim_config config; /* configuration of the run, without an observer; points into the tables below */
    struct sim_model *models; /* [config.model_count], in the scenario's order */
    struct sim_pipeline *pipelines;
    uint8_t *accelerator_type;
    double price[ACCELERATOR_TYPES_MAX];
    struct sim_rate_step *steps;
    struct autoscale_config autoscale;
    struct query_sizes *query_sizes; /* NULL: one item a request */
    struct trace *trace;             /* recorded arrivals; NULL: arrivals are drawn */
    struct profile **profiles;       /* [profile_count] profiles; models with the same latencies and SLO share one */
    uint32_t profile_count;
};

/* Makes the cluster; the scenario may be freed afterwards. A cluster of a scenario without a rate has no steps: only a
 * search for its goodput is possible (lab/sim/goodput.h). -ENOTSUP for what cannot be simulated; -ENOMEM. Free it with
 * cluster_free(); after an error it is empty. */
int cluster_make(struct cluster *cluster, const struct scenario *scenario, struct sy_error *err);
/* Frees what the cluster holds, not the struct. */
void cluster_free(struct cluster *cluster);
