/* ring.c - set-up of the single-producer single-consumer ring. */
#include "core/util/ring.h"

#include <errno.h>
#include <stdlib.h>

int ring_init(struct ring *ring, uint32_t capacity, size_t slot_bytes) {
    return ring_init_runs(ring, capacity, slot_bytes, 1);
}

int ring_init_runs(struct ring *ring, uint32_t capacity, size_t slot_bytes, uint32_t run_max) {
    uint32_t slots = 2;
    while (slots < capacity)
        slots *= 2;
    memset(ring, 0, sizeof(*ring));
    ring->slots =
        aligned_alloc(CACHE_LINE, ((slots + run_max - 1) * slot_bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!ring->slots)
        return -ENOMEM;
    ring->mask = slots - 1;
    ring->slot_bytes = (uint32_t)slot_bytes;
    return 0;
}

void ring_destroy(struct ring *ring) {
    free(ring->slots);
    ring->slots = NULL;
}
