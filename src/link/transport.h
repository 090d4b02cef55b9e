/* transport.h - how executors get the inputs of requests and give back their results: a table, one row per way.
 *
 * A handle names a request to every thread of the scheduler; only the transport knows what is behind it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "link/request.h"

struct transport_ops {
    const char *name;
    /* The request's own copy here, which the executor may read and whose result it writes. NULL if the request lies on
     * another machine and must be pulled first. Any thread. */
    struct request *(*request)(uint64_t handle);
    /* Copies one input, whole, to `into`, which has room for `bytes`. 0 or -errno. Executor threads. */
    int (*pull)(uint64_t handle, uint32_t input, void *into, size_t bytes, struct sy_error *err);
};

/* Frontend and executor share memory: the handle is the request's address, a pull is a copy. */
extern const struct transport_ops transport_local;
