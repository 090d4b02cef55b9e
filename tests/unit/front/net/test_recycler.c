/* test_recycler.c - pieces of all sizes, at random. */
#include "unit/test.h"

#include <string.h>

#include "core/util/rng.h"
#include "front/net/recycler.h"

TEST(freed_pieces_come_back) {
    struct recycler r = {{0}};
    char *a = recycler_take(&r, 100), *b = recycler_take(&r, 100);
    assert_ptr_not_equal(a, b);
    recycler_give(&r, a);
    assert_ptr_equal(recycler_take(&r, 128), a); /* of the same size */
    recycler_give(&r, b);
    char *zeroed = recycler_take_zeroed(&r, 25, 4);
    assert_ptr_equal(zeroed, b);
    for (int i = 0; i < 100; i++)
        assert_int_equal(zeroed[i], 0);
    recycler_give(&r, NULL);
    recycler_give(&r, a);
    recycler_give(&r, b);
    recycler_end(&r);
}

TEST(too_much_is_refused) {
    struct recycler r = {{0}};
    assert_null(recycler_take(&r, SIZE_MAX));
    assert_null(recycler_take_zeroed(&r, SIZE_MAX / 2, 3));
    recycler_end(&r);
}

TEST(pieces_keep_what_is_written) {
    enum { COUNT = 200, STEPS = 20000 };
    struct recycler r = {{0}};
    struct rng rng;
    struct {
        unsigned char *data;
        size_t bytes;
        unsigned char mark;
    } pieces[COUNT] = {{0}};
    rng_seed(&rng, 1);
    for (int step = 0; step < STEPS; step++) {
        uint64_t draw = rng_next(&rng);
        int i = (int)(draw % COUNT);
        size_t bytes = (draw >> 8) % ((draw >> 32) % 10 == 0 ? 20000 : 300);
        for (size_t k = 0; k < pieces[i].bytes; k++)
            assert_int_equal(pieces[i].data[k], pieces[i].mark);
        if ((draw >> 40) % 3 == 0) {
            recycler_give(&r, pieces[i].data);
            pieces[i].data = NULL;
            pieces[i].bytes = 0;
            continue;
        }
        pieces[i].data = recycler_resize(&r, pieces[i].data, bytes);
        assert_non_null(pieces[i].data);
        assert_int_equal((uintptr_t)pieces[i].data % 16, 0);
        size_t kept = bytes < pieces[i].bytes ? bytes : pieces[i].bytes;
        for (size_t k = 0; k < kept; k++)
            assert_int_equal(pieces[i].data[k], pieces[i].mark);
        pieces[i].bytes = bytes;
        pieces[i].mark = (unsigned char)step;
        memset(pieces[i].data, step, bytes);
    }
    for (int i = 0; i < COUNT; i++)
        recycler_give(&r, pieces[i].data);
    recycler_end(&r);
}
