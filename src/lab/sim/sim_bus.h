/* sim_bus.h - messages in order, each with its time of arrival: in virtual time what a ring is between live threads.
 * For the files of the simulator only.
 *
 * Every message begins with its time of arrival (int64_t). No message overtakes another of the same bus. */
#pragma once

#include <stdbool.h>

#include "core/util/arena.h"
#include "core/util/assert.h"
#include "core/util/time.h"

struct bus {
    char *slots;
    size_t slot_bytes;
    uint32_t capacity, head, count;
    int64_t last_ns; /* arrival of the newest message, which no other may overtake */
    int64_t told_ns; /* time at which the bus's source of events is set: the arrival of the oldest message */
};

static inline void bus_take(struct arena *arena, struct bus *bus, size_t slot_bytes, uint32_t capacity) {
    *bus = (struct bus){.slot_bytes = slot_bytes, .capacity = capacity, .last_ns = INT64_MIN, .told_ns = TIME_NEVER};
    bus->slots = arena_take(arena, slot_bytes * capacity);
}

/* Wraps an index in the circle that may be up to one round too far. A division would cost more than all else that is
 * done for a message. */
static inline uint32_t bus_wrap(const struct bus *bus, uint32_t at) {
    return at < bus->capacity ? at : at - bus->capacity;
}

static inline void *bus_slot(const struct bus *bus, uint32_t i) {
    return bus->slots + bus_wrap(bus, bus->head + i) * bus->slot_bytes;
}

/* Makes room for one more message, which arrives at at_ns, or with the newest if that arrives later. */
static inline void *bus_push(struct bus *bus, int64_t at_ns) {
    if (at_ns < bus->last_ns)
        at_ns = bus->last_ns;
    bus->last_ns = at_ns;
    CHECK_LT(bus->count, bus->capacity);
    if (bus->count == 0)
        bus->head = 0; /* stays in the cache */
    int64_t *slot = bus_slot(bus, bus->count++);
    *slot = at_ns;
    return slot;
}

static inline void bus_pop(struct bus *bus) {
    bus->head = bus_wrap(bus, bus->head + 1);
    bus->count--;
}

/* The oldest message if it has arrived; else NULL. When the bus is more than half full, the oldest message arrives
 * early. */
static inline void *bus_arrived(const struct bus *bus, int64_t now_ns) {
    if (bus->count == 0)
        return NULL;
    int64_t *at_ns = bus_slot(bus, 0);
    bool full = bus->count > bus->capacity / 2;
    return *at_ns <= now_ns || full ? at_ns : NULL;
}

static inline int64_t bus_next_ns(const struct bus *bus) {
    return bus->count ? *(int64_t *)bus_slot(bus, 0) : TIME_NEVER;
}
