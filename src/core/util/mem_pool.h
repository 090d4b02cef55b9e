/* mem_pool.h - memory that is freed all at once, when the last of its holders gives it back.
 *
 * A pool is a pointer that is NULL until the first piece is taken. Its first taker is its first holder. Set-up only;
 * one thread at a time takes pieces, any thread holds and releases. */
#pragma once

#include <stddef.h>

struct mem_pool;

/* Takes a piece, which is all zeros. NULL: out of memory. */
void *mem_pool_take(struct mem_pool **pool, size_t bytes);
/* Takes a copy of a text. NULL: out of memory. */
char *mem_pool_text(struct mem_pool **pool, const char *text);
/* Hands `object` over to the pool, which calls end(object) before it frees its pieces; what came last ends first.
 * -ENOMEM: the object is still the caller's. */
int mem_pool_own(struct mem_pool **pool, void (*end)(void *object), void *object);

/* Adds a holder. Returns `pool`, which may be NULL. */
struct mem_pool *mem_pool_hold(struct mem_pool *pool);
/* Takes a holder away; the last one frees the pool. NULL is allowed. */
void mem_pool_release(struct mem_pool *pool);
