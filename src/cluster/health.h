/* health.h - whether the other end of a link lives, and what its clock says.
 *
 * Each end pings the other every heartbeat, so that each hears of the other and learns its clock. Who has not been
 * heard for HEALTH_BEATS of them is taken for dead. Owned by the link thread. */
#pragma once

#include "cluster/peer.h"
#include "link/clock_sync.h"

#define HEALTH_BEATS 3

struct health {
    int64_t beat_ns; /* between two pings; at first they come faster, for the clock's sake */
    int64_t ping_ns; /* when the next one is due */
    struct clock_sync clock;
    int64_t error_ns; /* by how much a converted time may be wrong, as of the last look */
};

void health_init(struct health *health, int64_t beat_ns, int64_t now_ns);
/* Pings if it is time. *until_ns is lowered to when to look again. False: the peer has been silent for too long. */
bool health_look(struct health *health, struct peer *peer, int64_t now_ns, int64_t *until_ns);
/* Takes PING and PONG. False: it is another frame. */
bool health_frame(struct health *health, struct peer *peer, const struct frame *frame, const void *head);

/* A time of the peer's clock by the local one. TIME_NEVER and the like stay what they are. */
static inline int64_t health_local(const struct health *health, int64_t peer_ns) {
    return clock_sync_local(&health->clock, peer_ns);
}
