/* replay.h - the workload of a scenario as arrivals: the same requests at the same times as in a simulation of it.
 *
 * Pure: a function of the workload, which has its seed. One thread. */
#pragma once

#include "lab/load/arrivals.h"
#include "lab/sim/workload.h"

struct replay {
    const struct sim_config *workload;
    struct heap heap;
    struct heap_entry *entries;        /* [model_count] */
    uint32_t *position;                /* [model_count] */
    struct workload_stream *streams;   /* [model_count] */
    struct workload_request *requests; /* [model_count] the next request of each model */
    int64_t start_ns;
};

/* Begins at start_ns; `workload` must outlive the replay. 0 or -ENOMEM; free with replay_free. */
int replay_init(struct replay *replay, const struct sim_config *workload, int64_t start_ns);
void replay_free(struct replay *replay);
/* The next request, never earlier than the one before. False: there are no more requests. */
bool replay_next(struct replay *replay, struct arrival *arrival);
