/* lost.h - requests that are lost on their way: the reasons, and the frames that report them. Their frontend sends them
 * again, if there is time. Owned by the link thread. */
#pragma once

#include "cluster/peer/wire.h"

struct peer; /* cluster/peer/peer.h */

enum lost_reason {
    LOST_UNSAID,      /* the reporting process gives an unknown reason, or none */
    LOST_BACKEND,     /* the backend that had the batch is gone */
    LOST_ACCELERATOR, /* its accelerator failed */
    LOST_INPUTS,      /* the backend did not get its inputs from its frontend */
    LOST_ANSWER,      /* after the run the backend had no connection to its frontend */
    LOST_PLAN,        /* the backend could not take its batch */
    LOST_PLACE,       /* when it came, its model had another place in the scheduler */
    LOST_MISFIT,      /* the backend never takes its inputs: too large, or not as its model wants them */
    LOST_REASONS,
};

/* Its name in metrics. */
const char *lost_reason_name(enum lost_reason reason);

/* The sum over all reasons. */
static inline uint64_t lost_sum(const uint64_t lost[LOST_REASONS]) {
    uint64_t sum = 0;
    for (int i = 0; i < LOST_REASONS; i++)
        sum += lost[i];
    return sum;
}

/* Reports one, in FRAME_UNDELIVERED or FRAME_RESULTS. */
void lost_tell(struct peer *peer, enum frame_kind kind, uint64_t handle, enum lost_reason reason);
/* Reads one of such a frame. */
uint64_t lost_read(const struct wire_lost *lost, enum lost_reason *reason);
