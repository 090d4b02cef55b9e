/* slots.c - shares out the slots of requests, and the memory of requests whose messages come. */
#include "front/net/slots.h"

#include "core/util/time.h"
#include "front/net/frontend.h"

#define SHORT_PART      8  /* part of the slots: they are short while less is free */
#define CONNECTION_PART 16 /* part of the slots that one connection may have while slots are short */
#define ADDRESS_PART    2  /* part of the slots that one address may have while slots are short */
#define LOOKED_AT       64 /* most requests with coming messages that one search looks at */

void coming_on(struct frontend *f, struct coming *c, size_t bytes) {
    c->bytes = bytes;
    list_remove(&c->link);
    list_append(&f->coming, &c->link);
}

bool coming_make_room(struct frontend *f, const struct coming *self, size_t bytes) {
    struct coming *largest = NULL;
    int looked = 0;
    list_for_each (it, &f->coming) {
        struct coming *c = list_entry(it, struct coming, link);
        if (c != self && c->bytes > (largest ? largest->bytes : bytes))
            largest = c;
        if (++looked == LOOKED_AT)
            break;
    }
    if (largest)
        f->protocol->give_up(largest);
    return largest;
}

/* Gives up a request whose message comes: one of this connection or of this peer, if they are given. False: there is
 * none. */
static bool coming_makes_way(struct frontend *f, const struct stream *stream, const struct peer *peer) {
    int looked = 0;
    list_for_each (it, &f->coming) {
        struct coming *c = list_entry(it, struct coming, link);
        if ((!stream || c->stream == stream) && (!peer || c->peer == peer)) {
            f->protocol->give_up(c);
            return true;
        }
        if (++looked == LOOKED_AT)
            return false;
    }
    return false;
}

/* Ends a connection whose client takes its answers too slowly. The client has had a second to take them, unless the
 * slot is for a request for health. False: there is none. */
static bool unsent_makes_way(struct frontend *f, const struct stream *stream, bool health) {
    const struct unsent *least = unsent_least(&f->unsent);
    if (!least || least->stream == stream || unsent_lately(least) >= f->config.rate_min ||
        (!health && f->turn_ns - least->since_ns < NS_PER_S))
        return false;
    f->protocol->dismiss(least->stream);
    return true;
}

void *slot_take(struct frontend *f, const struct stream *stream, struct peer *peer, uint32_t held, bool health,
                int64_t now_ns) {
    uint32_t most = f->config.requests_max, taken = frontend_in_flight(f);
    if (taken >= most - most / SHORT_PART) {
        bool full = taken >= (health ? most + SLOTS_SPARE : most), makes_way = true;
        if (!health && held > most / CONNECTION_PART)
            makes_way = coming_makes_way(f, stream, NULL);
        else if (!health && peer->requests > most / ADDRESS_PART)
            makes_way = coming_makes_way(f, NULL, peer);
        else if (full)
            makes_way = coming_makes_way(f, NULL, NULL) || unsent_makes_way(f, stream, health);
        if (!makes_way)
            return NULL;
    }
    struct inference *inference = inference_take(&f->inferences, now_ns);
    if (!inference)
        return NULL;
    inference->holder = &peer->requests;
    peer->requests++;
    return inference;
}
