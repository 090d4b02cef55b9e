/* lost.c - writes and reads reports of lost requests. */
#include "cluster/peer/lost.h"

#include "cluster/peer/peer.h"

static const char *const names[LOST_REASONS] = {"unsaid", "backend", "accelerator", "inputs", "answer",
                                                "plan",   "place",   "misfit",      "failed", "avoided"};

const char *lost_reason_name(enum lost_reason reason) {
    return names[reason];
}

void lost_tell(struct peer *peer, enum frame_kind kind, uint64_t handle, enum lost_reason reason) {
    peer_add(peer, kind, &(struct wire_lost){.handle = handle, .reason = reason}, sizeof(struct wire_lost));
}

uint64_t lost_read(const struct wire_lost *lost, enum lost_reason *reason) {
    *reason = lost->reason < LOST_REASONS ? (enum lost_reason)lost->reason : LOST_UNSAID;
    return lost->handle;
}
