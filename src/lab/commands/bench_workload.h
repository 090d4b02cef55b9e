/* bench_workload.h - the workload of a scenario, as `symphony bench --scenario` puts it on a server. */
#pragma once

#include "core/util/error.h"
#include "lab/sim/cluster.h"

struct bench_workload {
    struct cluster cluster;
    char *names; /* names of the scenario's models, in its order: "A,B" */
};

/* Reads a scenario, changed by `sets` (lab/scenario/scenario.h). -EINVAL with a sentence, also for workloads that
 * cannot be sent. Free with bench_workload_free(), after an error, too. */
int bench_workload_read(struct bench_workload *workload, const char *path, const char *const *sets, uint32_t set_count,
                        struct sy_error *err);
void bench_workload_free(struct bench_workload *workload);
