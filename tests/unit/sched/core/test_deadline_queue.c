/* test_deadline_queue.c - the skip list against a sorted array. */
#include <stdlib.h>
#include <string.h>

#include "core/util/rng.h"
#include "sched/core/deadline_queue.h"
#include "unit/test.h"

#define CAPACITY 600

struct fixture {
    struct request_pool pool;
    struct request_node nodes[CAPACITY];
    struct deadline_queue queue;
    /* the same requests, sorted by deadline, then by arrival */
    uint32_t sorted[CAPACITY];
    uint32_t count, items;
    uint64_t handles;
};

static struct fixture *fixture_new(void) {
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    request_pool_init(&f->pool, f->nodes, CAPACITY);
    deadline_queue_init(&f->queue);
    return f;
}

static uint32_t insert(struct fixture *f, int64_t deadline_ns, uint32_t items) {
    uint32_t node = request_pool_get(&f->pool);
    assert_int_not_equal(node, REQUEST_NONE);
    f->nodes[node].handle = f->handles++;
    f->nodes[node].deadline_ns = deadline_ns;
    f->nodes[node].items = items;
    f->nodes[node].priority = 0;
    deadline_queue_insert(&f->queue, f->nodes, node);
    uint32_t at = f->count++;
    while (at > 0 && f->nodes[f->sorted[at - 1]].deadline_ns > deadline_ns) {
        f->sorted[at] = f->sorted[at - 1];
        at--;
    }
    f->sorted[at] = node;
    f->items += items;
    return node;
}

static void forget(struct fixture *f, uint32_t at) {
    f->items -= f->nodes[f->sorted[at]].items;
    request_pool_put(&f->pool, f->sorted[at]);
    memmove(&f->sorted[at], &f->sorted[at + 1], (--f->count - at) * sizeof(f->sorted[0]));
}

/* Every level is a subsequence of the level below and ends at its tail. */
static void verify(const struct fixture *f) {
    assert_int_equal(f->queue.count, f->count);
    assert_int_equal(f->queue.items, f->items);
    uint32_t node = deadline_queue_first(&f->queue);
    for (uint32_t i = 0; i < f->count; i++) {
        assert_int_equal(node, f->sorted[i]);
        node = deadline_queue_next(f->nodes, node);
    }
    assert_int_equal(node, REQUEST_NONE);
    for (uint32_t level = 0; level < REQUEST_LEVELS; level++) {
        uint32_t last = REQUEST_NONE, at = 0;
        for (node = f->queue.head[level]; node != REQUEST_NONE; node = f->nodes[node].links[level]) {
            while (at < f->count && f->sorted[at] != node)
                at++;
            assert_true(at < f->count);
            last = node;
        }
        assert_int_equal(f->queue.tail[level], last);
    }
}

TEST(requests_leave_in_deadline_order_and_equal_ones_in_arrival_order) {
    struct fixture *f = fixture_new();
    insert(f, 20, 1);
    insert(f, 10, 2);
    insert(f, 20, 3);
    insert(f, 15, 4);
    insert(f, 10, 5);
    uint32_t expected[] = {2, 5, 4, 1, 3}; /* by items */
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t node = deadline_queue_pop(&f->queue, f->nodes);
        assert_int_equal(f->nodes[node].items, expected[i]);
    }
    assert_int_equal(f->queue.count, 0);
    assert_int_equal(f->queue.items, 0);
    free(f);
}

static uint32_t insert_as(struct fixture *f, uint8_t priority, int64_t deadline_ns, uint32_t items) {
    uint32_t node = request_pool_get(&f->pool);
    f->nodes[node] =
        (struct request_node){.handle = f->handles++, .priority = priority, .deadline_ns = deadline_ns, .items = items};
    deadline_queue_insert(&f->queue, f->nodes, node);
    return node;
}

TEST(higher_priorities_come_first) {
    struct fixture *f = fixture_new();
    uint32_t last = insert_as(f, 2, 1, 5), second = insert_as(f, 0, 20, 2), fourth = insert_as(f, 1, 30, 4);
    uint32_t first = insert_as(f, 0, 10, 1), third = insert_as(f, 1, 5, 3);
    assert_int_equal(deadline_queue_find(&f->queue, f->nodes, 0, 15), second);
    assert_int_equal(deadline_queue_find(&f->queue, f->nodes, 0, 21), third); /* there is none of priority 0 */
    assert_int_equal(deadline_queue_find(&f->queue, f->nodes, 1, INT64_MIN), third);
    assert_int_equal(deadline_queue_find(&f->queue, f->nodes, 2, 2), REQUEST_NONE);
    assert_int_equal(deadline_queue_remove(&f->queue, f->nodes, 1, 20, f->nodes[second].handle), REQUEST_NONE);
    assert_int_equal(deadline_queue_remove(&f->queue, f->nodes, 0, 20, f->nodes[second].handle), second);
    uint32_t expected[] = {first, third, fourth, last};
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(deadline_queue_pop(&f->queue, f->nodes), expected[i]);
    free(f);
}

TEST(removing_needs_the_deadline_and_the_handle) {
    struct fixture *f = fixture_new();
    for (int i = 0; i < 20; i++)
        insert(f, 7, 1);
    insert(f, 8, 1);
    assert_int_equal(deadline_queue_remove(&f->queue, f->nodes, 0, 8, 3), REQUEST_NONE);
    assert_int_equal(deadline_queue_remove(&f->queue, f->nodes, 0, 6, 3), REQUEST_NONE);
    assert_int_equal(deadline_queue_remove(&f->queue, f->nodes, 0, 7, 99), REQUEST_NONE);
    uint32_t node = deadline_queue_remove(&f->queue, f->nodes, 0, 7, 13);
    assert_int_equal(f->nodes[node].handle, 13);
    forget(f, 13);
    verify(f);
    assert_int_equal(deadline_queue_remove(&f->queue, f->nodes, 0, 7, 13), REQUEST_NONE);
    free(f);
}

TEST(find_gives_the_first_at_or_after) {
    struct fixture *f = fixture_new();
    assert_int_equal(deadline_queue_find(&f->queue, f->nodes, 0, 0), REQUEST_NONE);
    for (int i = 1; i <= 50; i++)
        insert(f, i * 10, 1);
    assert_int_equal(deadline_queue_find(&f->queue, f->nodes, 0, 0), f->sorted[0]);
    assert_int_equal(deadline_queue_find(&f->queue, f->nodes, 0, 250), f->sorted[24]);
    assert_int_equal(deadline_queue_find(&f->queue, f->nodes, 0, 251), f->sorted[25]);
    assert_int_equal(deadline_queue_find(&f->queue, f->nodes, 0, 501), REQUEST_NONE);
    free(f);
}

/* In-order appends and head pops, out-of-order inserts, removals anywhere. */
TEST(random_operations_keep_it_equal_to_a_sorted_array) {
    struct rng rng;
    rng_seed(&rng, 7);
    struct fixture *f = fixture_new();
    int64_t now = 0;
    for (int step = 0; step < 20000; step++) {
        uint64_t what = rng_below(&rng, 10);
        if (what < 3 && f->count < CAPACITY) {
            insert(f, now += (int64_t)rng_below(&rng, 3), 1 + (uint32_t)rng_below(&rng, 4));
        } else if (what < 6 && f->count < CAPACITY) {
            insert(f, now - (int64_t)rng_below(&rng, 200), 1);
        } else if (what < 8 && f->count) {
            assert_int_equal(deadline_queue_pop(&f->queue, f->nodes), f->sorted[0]);
            forget(f, 0);
        } else if (f->count) {
            uint32_t at = (uint32_t)rng_below(&rng, f->count);
            const struct request_node *node = &f->nodes[f->sorted[at]];
            assert_int_equal(deadline_queue_remove(&f->queue, f->nodes, 0, node->deadline_ns, node->handle),
                             f->sorted[at]);
            forget(f, at);
        }
        if (step % 50 == 0)
            verify(f);
    }
    free(f);
}

/* A search that looked at every node would need n steps; levels above the first must be populated. */
TEST(in_order_appends_build_a_tall_list) {
    struct fixture *f = fixture_new();
    for (int i = 0; i < 512; i++)
        insert(f, i, 1);
    uint32_t per_level[REQUEST_LEVELS] = {0};
    for (uint32_t level = 0; level < REQUEST_LEVELS; level++)
        for (uint32_t n = f->queue.head[level]; n != REQUEST_NONE; n = f->nodes[n].links[level])
            per_level[level]++;
    assert_int_equal(per_level[0], 512);
    assert_int_equal(per_level[1], 128);
    assert_int_equal(per_level[2], 32);
    assert_int_equal(per_level[4], 2);
    free(f);
}

TEST(a_pool_hands_out_each_node_once_and_says_when_it_is_empty) {
    struct request_pool pool;
    struct request_node nodes[3];
    request_pool_init(&pool, nodes, 3);
    bool seen[3] = {false};
    for (int i = 0; i < 3; i++) {
        uint32_t node = request_pool_get(&pool);
        assert_true(node < 3 && !seen[node]);
        seen[node] = true;
    }
    assert_int_equal(request_pool_get(&pool), REQUEST_NONE);
    assert_int_equal(pool.used, 3);
    request_pool_put(&pool, 1);
    assert_int_equal(request_pool_get(&pool), 1);
}

/* Where requests came in order, nodes of a long queue are told who comes some later; those that left are told nothing.
 */
TEST(nodes_say_who_comes_later) {
    struct fixture *f = fixture_new();
    const uint32_t ahead = DEADLINE_QUEUE_AHEAD, from = DEADLINE_QUEUE_LONG;

    memset(f->nodes, 0xff, sizeof(f->nodes));
    request_pool_init(&f->pool, f->nodes, CAPACITY);
    for (uint32_t i = 0; i < 200; i++)
        insert(f, i, 1);
    for (uint32_t i = 0; i < 200; i++)
        assert_int_equal(f->nodes[f->sorted[i]].next,
                         i + ahead < 200 && i + ahead >= from ? f->sorted[i + ahead] : REQUEST_NONE);
    verify(f);

    uint32_t gone = f->sorted[197]; /* out of the midst: what was known of the last ones is forgotten */
    assert_int_equal(deadline_queue_remove(&f->queue, f->nodes, 0, 197, f->nodes[gone].handle), gone);
    forget(f, 197);
    gone = f->sorted[198];
    assert_int_equal(deadline_queue_remove(&f->queue, f->nodes, 0, 199, f->nodes[gone].handle), gone);
    forget(f, 198);
    for (uint32_t i = 0; i < ahead; i++)
        f->nodes[insert(f, 300 + i, 1)].next = REQUEST_NONE;
    for (uint32_t i = 200 - ahead; i < f->count; i++) /* those before were told already */
        assert_int_equal(f->nodes[f->sorted[i]].next, REQUEST_NONE);
    uint32_t last = insert(f, 400, 1);
    assert_int_equal(f->nodes[f->sorted[f->count - 1 - ahead]].next, last);
    verify(f);
    free(f);
}
