/* slab.h - the memory of requests' inputs: size classes over large mappings, with a bound on the total.
 *
 * A slab belongs to one frontend thread, which alone takes and gives, or is shared: then any thread may, under a lock.
 * Others may read and write a block while its owner lets them. Blocks are aligned to 64 bytes. Small blocks (to 128
 * KiB) are carved from chunks of 1 MiB, larger ones have a mapping of their own; free ones are kept for the next
 * request, since mapping and touching 1 MiB costs ten times what copying into it does, and given up when the bound is
 * reached or slab_trim() is called. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct slab;

/* Maps nothing yet. `bytes_max` bounds what is mapped, free blocks included. NULL when memory is out. */
struct slab *slab_create(size_t bytes_max);
struct slab *slab_create_shared(size_t bytes_max);
/* Unmaps everything, given back or not. */
void slab_destroy(struct slab *slab);
/* A block of at least `bytes` (its content is undefined), or NULL: the bound is reached, or the system's memory. */
void *slab_take(struct slab *slab, size_t bytes);
/* Gives a block back to the slab that it is of; NULL is allowed. */
void slab_give(void *block);
/* What the block holds, which is at least what was asked for. */
size_t slab_block_bytes(const void *block);
/* Returns memory that no block uses to the system. */
void slab_trim(struct slab *slab);
/* Bytes mapped, and bytes of blocks taken. */
size_t slab_bytes_mapped(struct slab *slab);
size_t slab_bytes_taken(struct slab *slab);
struct slab_use {
    size_t taken, mapped;
};
struct slab_use slab_use(struct slab *slab);
/* Less than a quarter of what it may map is taken: what is announced may be believed. */
bool slab_plenty(struct slab *slab);
