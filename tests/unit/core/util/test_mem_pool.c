/* test_mem_pool.c - pools: pieces are zeros, objects end once, with the last holder, what came last first. */
#include "core/util/mem_pool.h"

#include <string.h>

#include "unit/test.h"

static char ended[8];

static void note_end(void *object) {
    strcat(ended, object);
}

TEST(what_was_taken_stays_until_the_last_holder_goes) {
    struct mem_pool *pool = NULL;
    char *piece = mem_pool_take(&pool, 100);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(piece[i], 0);
    char *text = mem_pool_text(&pool, "a text");
    assert_int_equal(mem_pool_own(&pool, note_end, "1"), 0);
    assert_non_null(mem_pool_take(&pool, 0));
    assert_int_equal(mem_pool_own(&pool, note_end, "2"), 0);
    struct mem_pool *other = mem_pool_hold(pool);
    assert_ptr_equal(other, pool);
    mem_pool_release(pool);
    assert_string_equal(ended, "");
    assert_string_equal(text, "a text");
    mem_pool_release(other);
    assert_string_equal(ended, "21");
}

TEST(there_may_be_no_pool) {
    assert_null(mem_pool_hold(NULL));
    mem_pool_release(NULL);
}
