/* decision_replay.h - makes the decisions of a scheduling thread again, from the thread's log
 * (sched/core/decision_log.h). Fresh cores get the same messages as the thread's cores, at the same times, the ends of
 * batches included, and must put out the same, byte for byte. Advice on accelerators is replayed, too: a fresh advisor
 * sees the same loads, which must be those that the rank cores put out. Pure but for its memory. */
#pragma once

#include "core/util/error.h"
#include "sched/core/decision_log.h"

/* Accelerator time that the load of a sub-cluster has needed, as put out by the sub-cluster's rank core, or as read by
 * a look at the load. */
struct decision_load {
    double needed_ns;
    uint32_t subcluster;
};

struct decision_replay {
    uint64_t steps;   /* steps of cores */
    uint64_t grants;  /* grants given by rank cores, or answered by model cores, in these steps */
    uint64_t refused; /* requests refused in these steps */
    uint64_t missed;  /* steps that the thread did not log, since the log was full */
    uint64_t looks;   /* looks at the load; 0 unless the log is that of advice */
    /* [load_count] loads in the log of a rank thread or of advice, in the log's order; the caller frees them, after a
     * failure, too. */
    struct decision_load *loads;
    size_t load_count;
};

/* Replays a log. 0; -EBADMSG: a core put out something else than the thread's core, with a sentence that says at which
 * step and time; -EINVAL: `memory` is no log, or a log of another program; -ENOMEM. */
int decision_replay(const char *memory, size_t bytes, struct decision_replay *result, struct sy_error *err);
/* Checks that the loads in the log of advice are those that the rank threads' cores put out, one after the other, as
 * far as the rank threads logged them. 0, or -EBADMSG with a sentence. */
int decision_loads_check(const struct decision_replay *advice, const struct decision_replay *ranks, size_t count,
                         struct sy_error *err);
