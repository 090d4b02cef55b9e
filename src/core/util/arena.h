/* arena.h - hands out the pieces of one block of memory. An arena with a NULL base only counts the bytes that the
 * pieces would take. */
#pragma once

#include <stddef.h>

struct arena {
    char *base;
    size_t used;
};

/* Takes a piece that shares no cache line with other pieces; NULL while the arena only counts. */
static inline void *arena_take(struct arena *arena, size_t bytes) {
    void *piece = arena->base ? arena->base + arena->used : NULL;
    arena->used += (bytes + 63) & ~(size_t)63;
    return piece;
}
