/* lost.c - the frames that report lost requests, in all formats. */
#include "peer/lost.h"

#include "peer/peer.h"

static const char *const names[LOST_REASONS] = {"unsaid", "backend", "accelerator", "inputs",
                                                "answer", "plan",    "place",       "misfit"};

const char *lost_reason_name(enum lost_reason reason) {
    return names[reason];
}

void lost_tell(struct peer *peer, enum frame_kind kind, uint64_t handle, enum lost_reason reason) {
    if (peer->format < WIRE_FORMAT_LOST) {
        struct wire_outcome *outcome = peer_frame_more(peer, kind, sizeof(*outcome), WIRE_MANY);
        if (outcome)
            *outcome = (struct wire_outcome){.handle = handle, .status = REQUEST_LOST};
        return;
    }
    struct wire_lost *lost = peer_frame_more(peer, kind, sizeof(*lost), WIRE_MANY);
    if (lost)
        *lost = (struct wire_lost){.handle = handle, .reason = reason};
}

uint64_t lost_read(const struct peer *peer, const void *head, uint32_t i, enum lost_reason *reason) {
    *reason = LOST_UNSAID;
    if (peer->format < WIRE_FORMAT_LOST)
        return ((const struct wire_outcome *)head)[i].handle;
    const struct wire_lost *lost = &((const struct wire_lost *)head)[i];
    if (lost->reason < LOST_REASONS)
        *reason = (enum lost_reason)lost->reason;
    return lost->handle;
}
