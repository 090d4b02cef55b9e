/* slots.h - who has the slots of a frontend's requests when these become short.
 *
 * While an eighth of requests_max is free, whoever wants a slot takes one: no share binds. The last eighth is for those
 * who have little: a connection that has a sixteenth of all, or an address that has half, gets one only in the place of
 * a request of its own whose message is still coming. Where no slot is free, one makes way: first the request whose
 * message has brought no byte for longest, then the connection that takes its answers slower than rate_min, the slowest
 * first. What has come whole, and whose client takes its answer, keeps its slot. What asks for health has slots of its
 * own, and makes others make way, too. The frontend's thread. */
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
    size_t bytes; /* that have come */
};

/* What the client of a request that is given up is told. */
#define REQUEST_GIVEN_UP "the server is short of slots or of memory for requests, and this one had not come in time"

/* A slot for a request that arrives now by this stream's connection, which has `held`; NULL: there is none for it. */
void *slot_take(struct frontend *frontend, const struct stream *stream, struct peer *peer, uint32_t held, bool health,
                int64_t now_ns);

static inline void coming_init(struct coming *coming, const struct stream *stream, const struct peer *peer) {
    list_init(&coming->link);
    coming->stream = stream;
    coming->peer = peer;
}
/* Bytes of the message have come, so many now, and more are to come. */
void coming_on(struct frontend *frontend, struct coming *coming, size_t bytes);
/* The memory for inputs is exhausted, and a message needs more, of which so many bytes have come: the largest of the
 * others that come is given up, if it is larger. Whether one was. */
bool coming_make_room(struct frontend *frontend, const struct coming *coming, size_t bytes);
/* All of it has come, or nobody waits for it. */
static inline void coming_over(struct coming *coming) {
    if (!list_empty(&coming->link))
        list_remove(&coming->link);
}
