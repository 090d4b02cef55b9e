/* decision_replay.h - makes the decisions of a scheduling thread again, from its log (sched/core/decision_log.h): fresh
 * cores are told what the thread's were told, at the same times, the ends of batches included, and must say the same,
 * byte for byte. So is advice on accelerators: a fresh advisor sees the same loads, which must be what the rank cores
 * said. Pure but for its memory. */
#pragma once

#include "core/util/error.h"
#include "sched/core/decision_log.h"

/* Accelerator time that the load of a sub-cluster has needed, as its rank core said, or a look at the load read. */
struct decision_load {
    double needed_ns;
    uint32_t part;
};

struct decision_replay {
    uint64_t steps;   /* of cores, */
    uint64_t grants;  /* of accelerators, given or answered, */
    uint64_t refused; /* and requests refused in them */
    uint64_t missed;  /* steps that the thread did not log any more: the log was full */
    uint64_t looks;   /* at the load; only the log of advice has any */
    /* Of the log of a rank thread or of advice, in its order; the caller frees it, after a failure, too. */
    struct decision_load *loads;
    size_t load_count;
};

/* 0; -EBADMSG: a core said something else than the thread's, with a sentence that says at which step and time; -EINVAL:
 * this is no log, or one of another program's; -ENOMEM. */
int decision_replay(const char *memory, size_t bytes, struct decision_replay *result, struct sy_error *err);
/* Whether the loads that `advice` looked at are what these rank threads' cores said, one after the other, as far as
 * they logged it. 0, or -EBADMSG with a sentence. */
int decision_loads_check(const struct decision_replay *advice, const struct decision_replay *ranks, size_t count,
                         struct sy_error *err);
