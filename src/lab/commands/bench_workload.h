/* bench_workload.h - the workload of a scenario, as `symphony bench --scenario` puts it on a server. */
#pragma once

#include "core/util/error.h"
#include "lab/sim/cluster.h"

struct bench_workload {
    struct cluster cluster;
    char *names; /* "A,B": of its models, in its order */
};

/* Reads it; `sets` change the scenario (lab/scenario/scenario.h). -EINVAL with a sentence, also for what cannot be
 * sent. Free with bench_workload_free(), after an error, too. */
int bench_workload_read(struct bench_workload *workload, const char *path, const char *const *sets, uint32_t set_count,
                        struct sy_error *err);
void bench_workload_free(struct bench_workload *workload);
