/* lost.h - requests that are lost on their way: the reasons, and the frames that report them. Their frontend sends them
 * again, if there is time. Owned by the link thread. */
#pragma once

#include "cluster/peer/wire.h"

struct peer; /* cluster/peer/peer.h */

enum lost_reason {
    LOST_UNSAID,      /* the reporting process gives an unknown reason, or none */
    LOST_BACKEND,     /* the backend that had the batch is gone */
    LOST_ACCELERATOR, /* the batch's accelerator failed */
    LOST_INPUTS,      /* the backend did not get the inputs from the frontend */
    LOST_ANSWER,      /* the backend had no connection to the frontend after the run */
    LOST_PLAN,        /* the backend could not take the batch */
    LOST_PLACE,       /* the model had another place in the scheduler when the request came, or the scheduler had just
                       * begun to lead, and the model had no accelerators yet */
    LOST_MISFIT,      /* the backend never takes such inputs: too large, or not as the model wants them */
    LOST_FAILED,      /* the run failed; the request is tried once elsewhere */
    LOST_AVOIDED,     /* the run failed at this backend before, and another one is to try the request */
    LOST_REASONS,
};

/* The reason's name in metrics. */
const char *lost_reason_name(enum lost_reason reason);

/* The sum over all reasons. */
static inline uint64_t lost_sum(const uint64_t lost[LOST_REASONS]) {
    uint64_t sum = 0;
    for (int i = 0; i < LOST_REASONS; i++)
        sum += lost[i];
    return sum;
}

/* Reports one lost request, in FRAME_UNDELIVERED or FRAME_RESULTS. */
void lost_tell(struct peer *peer, enum frame_kind kind, uint64_t handle, enum lost_reason reason);
/* Reads a lost request of such a frame: returns its handle, and sets the reason. */
uint64_t lost_read(const struct wire_lost *lost, enum lost_reason *reason);
