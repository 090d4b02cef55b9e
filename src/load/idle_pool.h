/* idle_pool.h - the connections of a load that wait for a request, and which of them gets the next one.
 *
 * It matters to a server: a connection that is used again just after its answer is one that the server has looked at a
 * moment ago, and may still have in a list of its own. The pools of Go, urllib3 and nginx take the newest.
 *
 * Connections are numbers under `capacity`. Everything takes constant time. Pure; one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum reuse {
    REUSE_NEWEST, /* the one used last */
    REUSE_OLDEST, /* of the first `kept` numbers the one idle longest, so that all are used; only then of the others
                   * the one used last, so that a burst does not keep all of them warm */
    REUSE_RANDOM, /* any, with equal chances */
};

#define IDLE_NONE UINT32_MAX

struct idle_pool;

/* NULL when memory is out. */
struct idle_pool *idle_pool_create(enum reuse reuse, uint32_t capacity, uint32_t kept);
/* NULL is allowed. */
void idle_pool_free(struct idle_pool *pool);
/* What REUSE_RANDOM draws from here on. */
void idle_pool_seed(struct idle_pool *pool, uint64_t seed);
/* The connection has become idle, or, with `used` false, was just opened: it then comes after all that were used. It is
 * not in the pool. */
void idle_pool_put(struct idle_pool *pool, uint32_t connection, bool used);
/* Takes the one whose turn it is out of the pool; IDLE_NONE if it is empty. */
uint32_t idle_pool_take(struct idle_pool *pool);
/* Takes this one out, if it is in. */
void idle_pool_remove(struct idle_pool *pool, uint32_t connection);
uint32_t idle_pool_count(const struct idle_pool *pool);
