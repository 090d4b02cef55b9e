/* request_digits.h - the requests of a list that a core has given away, as a number that a test can compare. */
#pragma once

#include "sched/core/request_pool.h"

/* Takes the list back into the pool and returns the handles as digits: 123 for 1, 2, 3. */
static inline int request_digits(struct request_pool *pool, struct request_node *nodes, uint32_t node) {
    int digits = 0;
    while (node != REQUEST_NONE) {
        uint32_t next = nodes[node].next;
        digits = digits * 10 + (int)nodes[node].handle;
        request_pool_put(pool, node);
        node = next;
    }
    return digits;
}
