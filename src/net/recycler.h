/* recycler.h - small pieces of memory for a library that allocates and frees for every request: freed ones are kept, by
 * size, and given out again, so that in the long run the system's allocator is not asked.
 *
 * Belongs to one thread. What it keeps is bounded by the most that was in use at once; up to 8 KiB a piece, longer
 * ones come from malloc() and go back to it. */
#pragma once

#include <stddef.h>

#define RECYCLER_CLASSES 9 /* 32 bytes to 8 KiB, each twice the one before */

struct recycler {
    struct recycled *free[RECYCLER_CLASSES];
};

/* As malloc(), calloc(), realloc() and free(). Zero the recycler before the first; all pieces are freed before the
 * end. */
void *recycler_take(struct recycler *recycler, size_t bytes);
void *recycler_take_zeroed(struct recycler *recycler, size_t count, size_t bytes);
void *recycler_resize(struct recycler *recycler, void *piece, size_t bytes);
void recycler_give(struct recycler *recycler, void *piece);
/* Gives what it keeps to the system. */
void recycler_end(struct recycler *recycler);
