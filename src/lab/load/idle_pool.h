/* idle_pool.h - the connections of a load that wait for a request, and which of them gets the next one.
 *
 * The choice matters to a server: a connection that is used again just after its answer may still be in a list of
 * connections that the server has just looked at. The pools of Go, urllib3 and nginx take the newest.
 *
 * Connections are numbers under `capacity`. Everything takes constant time. Pure; one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum reuse {
    REUSE_NEWEST, /* the connection used last */
    REUSE_OLDEST, /* of the first `kept` connections the one that has been idle longest, so that all of these are used;
                   * if none of them is idle, of the others the one used last, so that a burst does not keep all of
                   * those in use */
    REUSE_RANDOM, /* any connection, with equal chances */
};

#define IDLE_NONE UINT32_MAX

struct idle_pool;

/* NULL when memory is out. */
struct idle_pool *idle_pool_create(enum reuse reuse, uint32_t capacity, uint32_t kept);
/* NULL is allowed. */
void idle_pool_free(struct idle_pool *pool);
/* Sets the seed of REUSE_RANDOM. */
void idle_pool_seed(struct idle_pool *pool, uint64_t seed);
/* Adds a connection, not in the pool yet, that has become idle or, with `used` false, was just opened. A connection
 * that was just opened comes after all that were used. */
void idle_pool_put(struct idle_pool *pool, uint32_t connection, bool used);
/* Takes out the connection whose turn it is; IDLE_NONE if the pool is empty. */
uint32_t idle_pool_take(struct idle_pool *pool);
/* Takes the connection out, if it is in the pool. */
void idle_pool_remove(struct idle_pool *pool, uint32_t connection);
uint32_t idle_pool_count(const struct idle_pool *pool);
