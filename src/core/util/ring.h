/* ring.h - bounded single-producer single-consumer ring of fixed-size messages.
 *
 * The producer's and the consumer's words lie on cache lines of their own, and each side keeps a copy of the other's
 * index, so that a batch of messages costs one shared cache miss instead of one a message. Pushing makes messages
 * visible only at ring_publish(), so a producer writes a batch and publishes it once. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/util/container.h"

struct ring {
    /* shared, written at set-up only */
    char *slots;               /* messages, one a slot; in rings of runs also longer ones */
    uint32_t mask, slot_bytes; /* number of slots, a power of two, less 1; size of a slot */
    /* written by the producer */
    _Alignas(CACHE_LINE) _Atomic uint32_t tail; /* slots published; pairs with the acquire load in ring_peek() */
    uint32_t tail_local, head_seen;             /* number of slots pushed, published or not; last known `head` */
    /* written by the consumer */
    _Alignas(CACHE_LINE) _Atomic uint32_t head; /* slots released; pairs with the acquire load in ring_reserve() */
    uint32_t head_local, tail_seen;             /* number of slots popped, released or not; last known `tail` */
};
_Static_assert(offsetof(struct ring, tail) % CACHE_LINE == 0, "the producer's line");
_Static_assert(offsetof(struct ring, head) % CACHE_LINE == 0, "the consumer's line");

/* Allocates slots for at least `capacity` messages of `slot_bytes` bytes; rounds the number up to a power of two. 0 or
 * -ENOMEM. */
int ring_init(struct ring *ring, uint32_t capacity, size_t slot_bytes);
/* As ring_init(), for messages that are runs of up to `run_max` slots. A run that begins near the end of the slots goes
 * on in extra room behind them, where no run begins. So every message lies in one piece. */
int ring_init_runs(struct ring *ring, uint32_t capacity, size_t slot_bytes, uint32_t run_max);
/* Frees the slots. Neither side may use the ring any more. */
void ring_destroy(struct ring *ring);

/* Producer: the place of the next message; NULL: the ring is full. Fill the place, then call ring_push(). */
static inline void *ring_reserve(struct ring *ring) {
    if (ring->tail_local - ring->head_seen > ring->mask) {
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire); /* with ring_release() */
        if (ring->tail_local - ring->head_seen > ring->mask)
            return NULL;
    }
    return ring->slots + (size_t)(ring->tail_local & ring->mask) * ring->slot_bytes;
}

/* Producer: whether `count` more messages fit. */
static inline bool ring_fits(struct ring *ring, uint32_t count) {
    if (ring->tail_local - ring->head_seen + count <= ring->mask + 1)
        return true;
    ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire); /* with ring_release() */
    return ring->tail_local - ring->head_seen + count <= ring->mask + 1;
}

/* Producer: adds the reserved message to those that the next ring_publish() makes visible. */
static inline void ring_push(struct ring *ring) {
    ring->tail_local++;
}

/* Producer, rings of runs: the place of a message of `slots` slots; NULL: the message does not fit. Fill the place,
 * then call ring_push_run(). */
static inline void *ring_reserve_run(struct ring *ring, uint32_t slots) {
    if (!ring_fits(ring, slots))
        return NULL;
    return ring->slots + (size_t)(ring->tail_local & ring->mask) * ring->slot_bytes;
}

static inline void ring_push_run(struct ring *ring, uint32_t slots) {
    ring->tail_local += slots;
}

/* Producer: makes the pushed messages visible to the consumer. True if there were any: ring the consumer's doorbell
 * then. */
static inline bool ring_publish(struct ring *ring) {
    if (ring->tail_local == atomic_load_explicit(&ring->tail, memory_order_relaxed)) /* the producer's own word */
        return false;
    atomic_store_explicit(&ring->tail, ring->tail_local, memory_order_release); /* with ring_peek() */
    return true;
}

/* Producer: whether the consumer has popped and released all that was pushed and published. */
static inline bool ring_drained(const struct ring *ring) {
    return atomic_load_explicit(&ring->head, memory_order_acquire) == ring->tail_local; /* with ring_release() */
}

/* Consumer: the oldest message; NULL: the ring is empty. The consumer may read the message until ring_release(). */
static inline void *ring_peek(struct ring *ring) {
    if (ring->head_local == ring->tail_seen) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire); /* with ring_publish() */
        if (ring->head_local == ring->tail_seen)
            return NULL;
    }
    return ring->slots + (size_t)(ring->head_local & ring->mask) * ring->slot_bytes;
}

/* Consumer: how many messages, the oldest included, ring_peek_ahead() can read, counted up to `most`. */
static inline uint32_t ring_ready(struct ring *ring, uint32_t most) {
    if (ring->tail_seen - ring->head_local < most)
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire); /* with ring_publish() */
    uint32_t ready = ring->tail_seen - ring->head_local;
    return ready < most ? ready : most;
}

/* Consumer: the message that came `ahead` messages after the oldest one; not for rings of runs. */
static inline void *ring_peek_ahead(const struct ring *ring, uint32_t ahead) {
    return ring->slots + (size_t)((ring->head_local + ahead) & ring->mask) * ring->slot_bytes;
}

/* Consumer: is done with the message of ring_peek(). The message's slot goes back to the producer at ring_release(). */
static inline void ring_pop(struct ring *ring) {
    ring->head_local++;
}

/* Consumer, rings of runs: as ring_pop(), for a message of `slots` slots. */
static inline void ring_pop_run(struct ring *ring, uint32_t slots) {
    ring->head_local += slots;
}

/* Consumer: gives the popped slots back. */
static inline void ring_release(struct ring *ring) {
    atomic_store_explicit(&ring->head, ring->head_local, memory_order_release); /* with ring_reserve() */
}

/* Consumer: whether messages wait. For the check before the consumer sleeps. */
static inline bool ring_pending(struct ring *ring) {
    return ring->head_local != atomic_load_explicit(&ring->tail, memory_order_acquire); /* with ring_publish() */
}
