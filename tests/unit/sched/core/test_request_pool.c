/* test_request_pool.c - every node is given out once, and the last one put back comes first. */
#include <stdlib.h>

#include "core/util/rng.h"
#include "sched/core/request_pool.h"
#include "unit/test.h"

TEST(test_a_stack_whatever_its_size) {
    static const uint32_t capacities[] = {0, 1, 3, 7, 8, 9, 64, 1000};
    struct rng rng;

    rng_seed(&rng, 2);
    for (unsigned c = 0; c < sizeof(capacities) / sizeof(capacities[0]); c++) {
        uint32_t capacity = capacities[c], taken_count = 0, stack_count = 0;
        struct request_node *nodes = calloc(capacity + 1, sizeof(*nodes));
        uint32_t *taken = calloc(capacity + 1, sizeof(*taken)), *stack = calloc(capacity + 1, sizeof(*stack));
        struct request_pool pool;
        request_pool_init(&pool, nodes, capacity);
        for (uint32_t i = capacity; i > 0; i--)
            stack[stack_count++] = i - 1;
        for (int step = 0; step < 20000; step++) {
            if (rng_below(&rng, 2)) {
                uint32_t node = request_pool_get(&pool);
                assert_int_equal(node, stack_count ? stack[--stack_count] : REQUEST_NONE);
                if (node != REQUEST_NONE) {
                    taken[taken_count++] = node;
                    for (uint32_t level = 0; level < REQUEST_LEVELS; level++) /* its owner uses all of it */
                        nodes[node].links[level] = nodes[node].next = 12345;
                }
            } else if (taken_count) {
                uint32_t at = (uint32_t)rng_below(&rng, taken_count), node = taken[at];
                taken[at] = taken[--taken_count];
                stack[stack_count++] = node;
                request_pool_put(&pool, node);
            }
            assert_int_equal(pool.used, taken_count);
        }
        free(nodes);
        free(taken);
        free(stack);
    }
}
