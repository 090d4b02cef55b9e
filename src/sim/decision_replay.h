/* decision_replay.h - makes the decisions of a scheduling thread again, from its log (sched/decision_log.h): fresh
 * cores are told what the thread's were told, at the same times, the ends of batches included, and must say the same,
 * byte for byte. Pure but for its memory. */
#pragma once

#include "base/error.h"
#include "sched/decision_log.h"

struct decision_replay {
    uint64_t steps;   /* of cores, */
    uint64_t grants;  /* of accelerators, given or answered, */
    uint64_t refused; /* and requests refused in them */
    uint64_t missed;  /* steps that the thread did not log any more: the log was full */
};

/* 0; -EBADMSG: a core said something else than the thread's, with a sentence that says at which step and time; -EINVAL:
 * this is no log, or one of another program's; -ENOMEM. */
int decision_replay(const char *memory, size_t bytes, struct decision_replay *result, struct sy_error *err);
