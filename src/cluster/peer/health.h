/* health.h - whether the other end of a link is alive, and how its clock differs from ours.
 *
 * Each end pings the other every heartbeat, so that each knows that the other is alive, and learns its clock. A peer
 * that has been silent for HEALTH_BEATS heartbeats counts as dead. A process that was itself stopped meanwhile waits
 * one more heartbeat, to read what has come. Owned by the link thread. */
#pragma once

#include "cluster/peer/own_pause.h"
#include "cluster/peer/peer.h"
#include "core/data/clock_sync.h"

#define HEALTH_BEATS 3

struct health {
    int64_t beat_ns; /* time between two pings; the first ones come faster, to learn the clock */
    int64_t ping_ns; /* time of the next ping */
    struct own_pause pause;
    struct clock_sync clock; /* the peer's clock */
    int64_t error_ns;        /* the largest error of a converted time, at the last look */
};

void health_init(struct health *health, int64_t beat_ns, int64_t now_ns);
/* False: the peer has been silent for too long. *until_ns is lowered to when to call it again, at most a heartbeat. */
bool health_hears(struct health *health, const struct peer *peer, int64_t now_ns, int64_t *until_ns);
/* As health_hears(), and sends a ping if it is time. Lowers *until_ns to when to call it again. */
bool health_look(struct health *health, struct peer *peer, int64_t now_ns, int64_t *until_ns);
/* Takes PING and PONG. False: it is another frame. */
bool health_frame(struct health *health, struct peer *peer, const struct frame *frame, const void *head);

/* Converts a time of the peer's clock to the local one. TIME_NEVER and the like stay unchanged. */
static inline int64_t health_local(const struct health *health, int64_t peer_ns) {
    return clock_sync_local(&health->clock, peer_ns);
}
