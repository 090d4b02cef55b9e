/* test_slab.c - blocks do not overlap, the bound holds, memory comes back. */
#include "unit/test.h"

#include <string.h>

#include "core/util/container.h"
#include "core/util/rng.h"
#include "front/bulk/slab.h"

#define MIB ((size_t)1 << 20)

TEST(blocks_hold_what_was_asked_for) {
    struct slab *slab = slab_create(64 * MIB);
    static const size_t sizes[] = {0,   1,    255,    256,    257,    320,    321,    512,
                                   513, 4096, 100000, 131072, 131073, 600000, 3000000};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        void *block = slab_take(slab, sizes[i]);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        assert_true(slab_block_bytes(block) >= sizes[i]);
        assert_true(slab_block_bytes(block) <= sizes[i] + sizes[i] / 4 + 256);
        memset(block, 1, slab_block_bytes(block));
        slab_give(block);
    }
    slab_give(NULL);
    assert_int_equal(slab_bytes_taken(slab), 0);
    slab_destroy(slab);
}

/* Random takes and gives; every block carries its own mark from end to end. */
TEST(blocks_do_not_overlap) {
    enum { LIVE = 200 };
    struct slab *slab = slab_create(256 * MIB);
    struct {
        unsigned char *block;
        size_t bytes;
        unsigned char mark;
    } live[LIVE] = {0};
    struct rng rng;
    rng_seed(&rng, 3);
    for (int i = 0; i < 20000; i++) {
        uint32_t k = (uint32_t)rng_below(&rng, LIVE);
        if (live[k].block) {
            for (size_t b = 0; b < live[k].bytes; b += 1 + live[k].bytes / 64)
                assert_int_equal(live[k].block[b], live[k].mark);
            assert_int_equal(live[k].block[live[k].bytes - 1], live[k].mark);
            slab_give(live[k].block);
            live[k].block = NULL;
        } else {
            live[k].bytes = 1 + rng_below(&rng, (uint64_t)64 << rng_below(&rng, 14));
            live[k].mark = (unsigned char)rng_next(&rng);
            live[k].block = slab_take(slab, live[k].bytes);
            assert_non_null(live[k].block);
            memset(live[k].block, live[k].mark, live[k].bytes);
        }
    }
    for (uint32_t k = 0; k < LIVE; k++)
        slab_give(live[k].block);
    assert_int_equal(slab_bytes_taken(slab), 0);
    slab_trim(slab);
    assert_int_equal(slab_bytes_mapped(slab), 0);
    slab_destroy(slab);
}

TEST(the_bound_holds) {
    struct slab *slab = slab_create(4 * MIB);
    assert_null(slab_take(slab, 4 * MIB));
    assert_null(slab_take(slab, SIZE_MAX / 2));
    assert_false(slab_bound_allows(slab, 4 * MIB) || slab_bound_allows(slab, SIZE_MAX / 2));
    assert_true(slab_bound_allows(slab, 3 * MIB));
    void *blocks[64];
    int n = 0;
    while (n < 64 && (blocks[n] = slab_take(slab, 100000)))
        n++;
    assert_in_range(n, 30, 42); /* 4 MiB of some 112 KiB */
    assert_true(slab_bytes_mapped(slab) <= 4 * MIB);
    assert_null(slab_take(slab, 100000));
    assert_true(slab_bound_allows(slab, 100000));
    slab_give(blocks[--n]);
    assert_non_null(blocks[n] = slab_take(slab, 100000));
    n++;
    while (n > 0)
        slab_give(blocks[--n]);
    /* free blocks of one class do not stand in the way of another */
    void *large = slab_take(slab, 3 * MIB);
    assert_non_null(large);
    slab_give(large);
    slab_destroy(slab);
}

TEST(memory_is_used_again) {
    struct slab *slab = slab_create(64 * MIB);
    void *first = slab_take(slab, 1000), *large = slab_take(slab, 2 * MIB);
    size_t mapped = slab_bytes_mapped(slab);
    slab_give(first);
    slab_give(large);
    assert_int_equal(slab_bytes_mapped(slab), mapped);
    assert_ptr_equal(slab_take(slab, 900), first);
    assert_ptr_equal(slab_take(slab, 2 * MIB - 5), large);
    slab_trim(slab); /* takes nothing that is used */
    assert_int_equal(slab_bytes_mapped(slab), mapped);
    memset(first, 1, 900);
    memset(large, 1, 2 * MIB - 5);
    slab_destroy(slab);
}

static void assert_inside(const struct slab *slab, const char *block) {
    size_t bytes;
    uintptr_t range = slab_range(slab, &bytes);
    assert_true((uintptr_t)block >= range);
    assert_true((uintptr_t)block + slab_block_bytes(block) <= range + bytes);
}

/* Large blocks between small ones that stay: the range has room for as much memory as the bound allows, wherever the
 * small ones lie, and every block is in it. */
TEST(large_blocks_find_room_in_the_range) {
    enum { SMALL = 8, ROUNDS = 50 };
    struct slab *slab = slab_create(64 * MIB);
    void *small[SMALL];
    struct rng rng;
    rng_seed(&rng, 5);
    for (int i = 0; i < SMALL; i++) { /* a chunk of each class, with a large block given up behind each */
        small[i] = slab_take(slab, (size_t)300 << i);
        void *between = slab_take(slab, 5 * MIB);
        assert_non_null(small[i]);
        assert_non_null(between);
        assert_inside(slab, small[i]);
        assert_inside(slab, between);
        slab_give(between);
        slab_trim(slab);
    }
    for (int i = 0; i < ROUNDS; i++) {
        size_t bytes = MIB + rng_below(&rng, 40 * MIB);
        char *large = slab_take(slab, bytes);
        assert_non_null(large);
        assert_inside(slab, large);
        large[0] = large[bytes - 1] = 'x';
        slab_give(large);
        slab_trim(slab);
    }
    for (int i = 0; i < SMALL; i++)
        slab_give(small[i]);
    slab_trim(slab);
    assert_int_equal(slab_bytes_mapped(slab), 0);
    slab_destroy(slab);
}

/* A pinned range is no longer than the bound, and blocks of 200 KB leave most of the memory that it may have: free ones
 * give their addresses to blocks of another size. */
TEST(free_blocks_do_not_keep_the_addresses_of_a_pinned_range) {
    enum { MOST = 32 };
    struct slab *slab = slab_create_visible(8 * MIB, false, true);
    void *blocks[MOST];
    int count = 0;
    while (count < MOST && (blocks[count] = slab_take(slab, 200000)))
        count++;
    assert_in_range(count, 8, MOST - 1);
    assert_true(slab_bytes_mapped(slab) < 4 * MIB);
    assert_null(slab_take(slab, 3 * MIB)); /* they are in use */
    while (count > 0)
        slab_give(blocks[--count]);
    char *large = slab_take(slab, 3 * MIB);
    assert_non_null(large);
    assert_inside(slab, large);
    memset(large, 'x', 3 * MIB);
    slab_destroy(slab);
}

/* What was trimmed is zeros when it is used again: the memory did go back to the system. */
TEST(trimmed_memory_is_given_back) {
    struct slab *slab = slab_create(8 * MIB);
    char *block = slab_take(slab, 2 * MIB);
    memset(block, 'x', 2 * MIB);
    slab_give(block);
    slab_trim(slab);
    for (int i = 0; i < 40; i++) { /* round the range, and over the same place again */
        block = slab_take(slab, 2 * MIB);
        assert_non_null(block);
        assert_int_equal(block[MIB], 0);
        block[MIB] = 'x';
        slab_give(block);
        slab_trim(slab);
    }
    slab_destroy(slab);
}
