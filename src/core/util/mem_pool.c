/* mem_pool.c - a list of pieces of memory, counted by its holders. */
#include "core/util/mem_pool.h"

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    struct piece *earlier;
    void (*end)(void *object); /* NULL: the piece is plain memory */
    void *object;
    alignas(max_align_t) char memory[];
};

struct mem_pool {
    _Atomic uint32_t holders;
    struct piece *last;
};

static struct piece *piece_add(struct mem_pool **pool, size_t bytes) {
    struct mem_pool *p = *pool ? *pool : calloc(1, sizeof(*p));
    struct piece *piece = p ? calloc(1, sizeof(*piece) + bytes) : NULL;
    if (!*pool && p)
        atomic_init(&p->holders, 1);
    *pool = p;
    if (!piece)
        return NULL;
    piece->earlier = p->last;
    return p->last = piece;
}

void *mem_pool_take(struct mem_pool **pool, size_t bytes) {
    struct piece *piece = piece_add(pool, bytes);
    return piece ? piece->memory : NULL;
}

char *mem_pool_text(struct mem_pool **pool, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = mem_pool_take(pool, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

int mem_pool_own(struct mem_pool **pool, void (*end)(void *object), void *object) {
    struct piece *piece = piece_add(pool, 0);
    if (!piece)
        return -ENOMEM;
    piece->end = end;
    piece->object = object;
    return 0;
}

struct mem_pool *mem_pool_hold(struct mem_pool *pool) {
    if (pool)
        atomic_fetch_add_explicit(&pool->holders, 1, memory_order_relaxed); /* the caller is a holder already */
    return pool;
}

void mem_pool_release(struct mem_pool *pool) {
    /* acq_rel: the last holder sees what the others wrote */
    if (!pool || atomic_fetch_sub_explicit(&pool->holders, 1, memory_order_acq_rel) > 1)
        return;
    for (struct piece *piece = pool->last; piece; piece = piece->earlier)
        if (piece->end)
            piece->end(piece->object);
    for (struct piece *piece = pool->last, *earlier; piece; piece = earlier) {
        earlier = piece->earlier;
        free(piece);
    }
    free(pool);
}
