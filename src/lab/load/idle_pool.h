/* idle_pool.h - the connections of a load that wait for a request, and which of them gets the next one.
 *
 * The choice matters to a server: if a connection is used again just after its answer, the server has looked at it a
 * moment ago, and may still have it in a list of its own. The pools of Go, urllib3 and nginx take the newest.
 *
 * Connections are numbers under `capacity`. Everything takes constant time. Pure; one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum reuse {
    REUSE_NEWEST, /* the one used last */
    REUSE_OLDEST, /* of the first `kept` numbers the one idle longest, so that all are used; when none of these is idle,
                     of the others the one used last, so that a burst does not keep all of them in use */
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
/* Adds a connection that has become idle or, with `used` false, was just opened; such a one comes after all that were
 * used. It must not be in the pool. */
void idle_pool_put(struct idle_pool *pool, uint32_t connection, bool used);
/* Takes out the connection whose turn it is; IDLE_NONE if the pool is empty. */
uint32_t idle_pool_take(struct idle_pool *pool);
/* Takes this one out, if it is in. */
void idle_pool_remove(struct idle_pool *pool, uint32_t connection);
uint32_t idle_pool_count(const struct idle_pool *pool);
