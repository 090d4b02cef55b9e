/* test_idle_pool.c - which idle connection gets the next request. */
#include "unit/test.h"

#include "lab/load/idle_pool.h"

/* Five connections opened in order; then 1 and 3 are used, and come back in this order. */
static struct idle_pool *used_pool(enum reuse reuse, uint32_t kept) {
    struct idle_pool *pool = idle_pool_create(reuse, 5, kept);
    assert_non_null(pool);
    for (uint32_t i = 0; i < 5; i++)
        idle_pool_put(pool, i, false);
    idle_pool_remove(pool, 1);
    idle_pool_remove(pool, 3);
    idle_pool_put(pool, 1, true);
    idle_pool_put(pool, 3, true);
    return pool;
}

static void taken_in_order(struct idle_pool *pool, const uint32_t *expected, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(idle_pool_count(pool), count - i);
        assert_int_equal(idle_pool_take(pool), expected[i]);
    }
    assert_int_equal(idle_pool_take(pool), IDLE_NONE);
    idle_pool_free(pool);
}

TEST(newest_is_the_one_used_last) {
    taken_in_order(used_pool(REUSE_NEWEST, 5), (const uint32_t[]){3, 1, 0, 2, 4}, 5);
    taken_in_order(used_pool(REUSE_NEWEST, 2), (const uint32_t[]){3, 1, 0, 2, 4}, 5); /* kept is for oldest only */
}

TEST(oldest_is_the_one_idle_longest) {
    taken_in_order(used_pool(REUSE_OLDEST, 5), (const uint32_t[]){0, 2, 4, 1, 3}, 5);
}

TEST(oldest_takes_those_of_a_burst_last) {
    taken_in_order(used_pool(REUSE_OLDEST, 3), (const uint32_t[]){0, 2, 1, 3, 4}, 5);
}

TEST(one_that_closes_is_gone) {
    for (enum reuse reuse = REUSE_NEWEST; reuse <= REUSE_RANDOM; reuse++) {
        struct idle_pool *pool = used_pool(reuse, 5);
        idle_pool_remove(pool, 3);
        idle_pool_remove(pool, 3); /* twice does no harm */
        idle_pool_remove(pool, 0);
        bool seen[5] = {false};
        for (uint32_t i = 0; i < 3; i++)
            seen[idle_pool_take(pool)] = true;
        assert_true(seen[1] && seen[2] && seen[4]);
        assert_int_equal(idle_pool_take(pool), IDLE_NONE);
        idle_pool_free(pool);
    }
}

TEST(random_takes_any_and_repeats_with_its_seed) {
    uint32_t counts[2][5] = {{0}}, order[2][1000];
    for (int run = 0; run < 2; run++) {
        struct idle_pool *pool = used_pool(REUSE_RANDOM, 5);
        idle_pool_seed(pool, 7);
        for (int i = 0; i < 1000; i++) {
            order[run][i] = idle_pool_take(pool);
            counts[run][order[run][i]]++;
            idle_pool_put(pool, order[run][i], true);
        }
        idle_pool_free(pool);
    }
    assert_memory_equal(order[0], order[1], sizeof(order[0]));
    for (int i = 0; i < 5; i++)
        assert_in_range(counts[0][i], 150, 250);
}
