/* counter.h - statistics that one thread counts and any thread reads. With one writer no locked instruction is needed.
 * No memory order is needed either, since nothing else depends on a count. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a counter. Any thread. */
static inline uint64_t counter_get(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Adds `n` to a counter. The owner's thread only. */
static inline void counter_add(_Atomic uint64_t *counter, uint64_t n) {
    atomic_store_explicit(counter, counter_get(counter) + n, memory_order_relaxed);
}

/* Adds to a number that may also go down. The owner's thread only. */
static inline void gauge_add(_Atomic uint32_t *gauge, int32_t n) {
    atomic_store_explicit(gauge, atomic_load_explicit(gauge, memory_order_relaxed) + (uint32_t)n, memory_order_relaxed);
}

/* Zeroes a struct whose members are all counters; other threads may read them meanwhile. Call it on the owner's thread,
 * or before the owner has the struct. `bytes`: size of the struct, a multiple of 8. */
static inline void counters_clear(void *counters, size_t bytes) {
    for (_Atomic uint64_t *word = counters; bytes >= sizeof(*word); word++, bytes -= sizeof(*word))
        if (atomic_load_explicit(word, memory_order_relaxed)) /* pages that nobody wrote to take no memory */
            atomic_store_explicit(word, 0, memory_order_relaxed);
}
