/* recycler.h - memory for a library that allocates and frees small pieces for every request: freed pieces are kept by
 * size and given out again, so that after a while the system's allocator is not asked any more.
 *
 * Belongs to one thread. It keeps no more memory than was in use at once, and pieces of up to 8 KiB only: longer ones
 * come from malloc() and go back to it. */
#pragma once

#include <stddef.h>

#define RECYCLER_CLASSES 9 /* sizes from 32 bytes to 8 KiB, each twice the one before */

struct recycler {
    struct recycled *free[RECYCLER_CLASSES]; /* free pieces by size */
};

/* As malloc(), calloc(), realloc() and free(). Zero the recycler before the first call; give all pieces back before
 * recycler_end(). */
void *recycler_take(struct recycler *recycler, size_t bytes);
void *recycler_take_zeroed(struct recycler *recycler, size_t count, size_t bytes);
void *recycler_resize(struct recycler *recycler, void *piece, size_t bytes);
void recycler_give(struct recycler *recycler, void *piece);
/* Gives the kept pieces to the system. */
void recycler_end(struct recycler *recycler);
