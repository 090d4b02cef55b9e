/* slots.h - who gets the slots of a frontend's requests when slots become short.
 *
 * While an eighth of requests_max is free, every request gets a slot. The last eighth is for clients that have few: a
 * connection that has a sixteenth of all slots, or an address that has half, gets a slot only in the place of a request
 * of its own whose message is still coming. If no slot is free, one request makes way: the request whose message has
 * brought no byte for longest; if there is none, a connection that takes its answers slower than rate_min, the slowest
 * first. A request whose message is complete, and whose client takes its answers, keeps its slot. Requests for health
 * have slots of their own, and make others make way, too. Owned by the frontend's thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/list.h"

struct frontend;
struct peer;
struct stream;

/* A request that has a slot while its message comes. */
struct coming {
    struct list_node link;
    const struct stream *stream;
    const struct peer *peer;
    size_t bytes; /* bytes of the message that have come */
};

/* The sentence for the client of a request that is given up. */
#define REQUEST_GIVEN_UP "the server is short of slots or of memory for requests, and this one had not come in time"

/* A slot for a request that arrives now by this stream's connection, which has `held` slots; `health`: the request asks
 * for health. NULL: there is no slot for the request. */
void *slot_take(struct frontend *frontend, const struct stream *stream, struct peer *peer, uint32_t held, bool health,
                int64_t now_ns);

static inline void coming_init(struct coming *coming, const struct stream *stream, const struct peer *peer) {
    list_init(&coming->link);
    coming->stream = stream;
    coming->peer = peer;
}
/* A request's message has brought bytes, `bytes` of them so far, and is not complete. */
void coming_on(struct frontend *frontend, struct coming *coming, size_t bytes);
/* The memory for inputs is exhausted, and a request's message, of which `bytes` have come, needs more: gives up the
 * largest other request whose message comes, if that is larger. Whether one was given up. */
bool coming_make_room(struct frontend *frontend, const struct coming *coming, size_t bytes);
/* The message is complete, or nobody waits for it any more. */
static inline void coming_over(struct coming *coming) {
    if (!list_empty(&coming->link))
        list_remove(&coming->link);
}
