/* slab.h - the memory of requests' inputs: blocks of size classes, in chunks of one range of addresses, with a bound on
 * the memory.
 *
 * A slab belongs to one frontend's thread, which alone takes and gives blocks; or it is shared, and any thread may do
 * so, under a lock. Other threads may read and write a block while its owner lets them. Blocks are aligned to 64 bytes.
 * Small blocks (to 128 KiB) are carved from chunks of 1 MiB, larger ones have a chunk of their own. Free blocks are
 * kept for the next request, since getting and touching 1 MiB costs ten times as much as copying into it; they are
 * returned to the system when the bound is reached or slab_trim() is called. All blocks lie in one range of addresses,
 * so a block is known by its offset there (core/data/card.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slab;

/* Reserves addresses, and no memory yet. `bytes_max` bounds the memory, free blocks included. NULL: not enough
 * addresses or memory. */
struct slab *slab_create(size_t bytes_max);
struct slab *slab_create_shared(size_t bytes_max);
/* Creates a slab of memory that other processes of this host may map (core/data/visible.h). `pinned`: a device may lock
 * the memory in place, too; pages once used then keep their memory, and the range of addresses is no longer than the
 * bound. */
struct slab *slab_create_visible(size_t bytes_max, bool shared, bool pinned);
/* The descriptor by which other processes map the memory; -1: none may map it. */
int slab_fd(const struct slab *slab);
/* Frees all memory, even blocks that were not given back. */
void slab_destroy(struct slab *slab);
/* The range of addresses of all blocks, and its length: the same from slab_create() on. */
uintptr_t slab_range(const struct slab *slab, size_t *bytes);
/* A block of at least `bytes` (its content is undefined), or NULL: the bound is reached, or the system has no memory.
 */
void *slab_take(struct slab *slab, size_t bytes);
/* Whether the bound allows a block of so many bytes at all, were no other taken. */
bool slab_bound_allows(const struct slab *slab, size_t bytes);
/* Gives a block back to its slab; NULL is allowed. */
void slab_give(void *block);
/* The size of the block: at least the size that was asked for. */
size_t slab_block_bytes(const void *block);
/* Returns to the system the memory that no taken block uses. */
void slab_trim(struct slab *slab);
/* Bytes that are mapped, and bytes of the blocks that are taken. */
size_t slab_bytes_mapped(struct slab *slab);
size_t slab_bytes_taken(struct slab *slab);
struct slab_use {
    size_t taken, mapped;
};
struct slab_use slab_use(struct slab *slab);
/* Whether less than a quarter of the bound is taken: memory for announced lengths may then be given at once. */
bool slab_plenty(struct slab *slab);
