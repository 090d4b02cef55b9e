/* test_pages.c - pages of one accelerator, and who was not used for longest, checked by hand and against a plain list.
 */
#include "core/data/pages.h"
#include "core/util/rng.h"
#include "unit/test.h"

#define MODELS 8

static struct pages_entry entries[MODELS];

static struct pages pages_new(uint64_t count) {
    struct pages pages;
    pages_init(&pages, entries, MODELS, count);
    return pages;
}

static void load(struct pages *pages, uint32_t model, uint32_t count) {
    assert_true(pages_take(pages, model, count));
    pages_release(pages, model);
}

TEST(bytes_are_counted_in_whole_pages) {
    assert_int_equal(pages_of(0, PAGE_BYTES), 1); /* it can be told to be there */
    assert_int_equal(pages_of(1, PAGE_BYTES), 1);
    assert_int_equal(pages_of(PAGE_BYTES, PAGE_BYTES), 1);
    assert_int_equal(pages_of(PAGE_BYTES + 1, PAGE_BYTES), 2);
    assert_int_equal(pages_of(102300000, PAGE_BYTES), 7); /* ResNet50, 102.3 MB */
    assert_int_equal(pages_of(102300000, 1 << 20), 98);
    assert_int_equal(pages_of(UINT64_MAX, PAGE_BYTES), UINT32_MAX);
    assert_int_equal(pages_in(UINT64_MAX, 1), UINT32_MAX);
    struct pages pages;
    pages_init(&pages, entries, MODELS,
               pages_in(3 * PAGE_BYTES - 1, PAGE_BYTES)); /* what is left of the last page is of no use */
    assert_int_equal(pages.total, 2);
}

TEST(pages_are_taken_and_given_back) {
    struct pages pages = pages_new(10);
    load(&pages, 0, 4);
    load(&pages, 1, 6);
    assert_int_equal(pages.free, 0);
    assert_false(pages_take(&pages, 2, 1));
    pages_give(&pages, 0);
    assert_int_equal(pages.free, 4);
    assert_false(pages_take(&pages, 2, 5));
    load(&pages, 2, 4);
    assert_int_equal(pages.free, 0);
}

TEST(the_oldest_is_the_one_whose_use_ended_first) {
    struct pages pages = pages_new(10);
    assert_int_equal(pages_oldest(&pages), PAGES_NONE);
    for (uint32_t m = 0; m < 3; m++)
        load(&pages, m, 1);
    assert_int_equal(pages_oldest(&pages), 0);
    pages_hold(&pages, 0);
    assert_int_equal(pages_oldest(&pages), 1);
    pages_hold(&pages, 0); /* two batches to run */
    pages_release(&pages, 0);
    pages_hold(&pages, 1);
    pages_release(&pages, 1);
    assert_int_equal(pages_oldest(&pages), 2);
    pages_release(&pages, 0);
    pages_give(&pages, 2);
    assert_int_equal(pages_oldest(&pages), 1); /* 0 was used after it */
    pages_give(&pages, 1);
    assert_int_equal(pages_oldest(&pages), 0);
    pages_give(&pages, 0);
    assert_int_equal(pages_oldest(&pages), PAGES_NONE);
}

TEST(a_model_that_is_being_loaded_is_held) {
    struct pages pages = pages_new(2);
    assert_true(pages_take(&pages, 3, 2));
    assert_int_equal(pages_oldest(&pages), PAGES_NONE);
    pages_release(&pages, 3);
    assert_int_equal(pages_oldest(&pages), 3);
}

/* Against a list of stamps. */
TEST(random_use_keeps_count_and_order) {
    struct pages pages = pages_new(12);
    struct rng rng;
    uint64_t last_use[MODELS] = {0}, clock = 0;
    uint32_t counts[MODELS] = {0}, holds[MODELS] = {0}, free = 12;
    rng_seed(&rng, 7);
    for (int i = 0; i < 20000; i++) {
        uint32_t m = (uint32_t)rng_below(&rng, MODELS), count = 1 + (uint32_t)rng_below(&rng, 4);
        if (!counts[m]) {
            assert_int_equal(pages_take(&pages, m, count), count <= free);
            if (count <= free) {
                free -= count;
                counts[m] = count;
                holds[m] = 1;
            }
        } else if (holds[m] && rng_below(&rng, 3)) {
            pages_release(&pages, m);
            if (--holds[m] == 0)
                last_use[m] = ++clock;
        } else if (!holds[m] && rng_below(&rng, 2)) {
            pages_give(&pages, m);
            free += counts[m];
            counts[m] = 0;
        } else {
            pages_hold(&pages, m);
            holds[m]++;
        }
        uint32_t oldest = PAGES_NONE;
        for (uint32_t k = 0; k < MODELS; k++)
            if (counts[k] && !holds[k] && (oldest == PAGES_NONE || last_use[k] < last_use[oldest]))
                oldest = k;
        assert_int_equal(pages_oldest(&pages), oldest);
        assert_int_equal(pages.free, free);
    }
}
