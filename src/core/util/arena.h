/* arena.h - hands out the pieces of one block of memory; with a NULL base it only counts what they take. */
#pragma once

#include <stddef.h>

struct arena {
    char *base;
    size_t used;
};

/* A piece on a cache line of its own; NULL while counting. */
static inline void *arena_take(struct arena *arena, size_t bytes) {
    void *piece = arena->base ? arena->base + arena->used : NULL;
    arena->used += (bytes + 63) & ~(size_t)63;
    return piece;
}
