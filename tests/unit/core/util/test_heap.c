/* test_heap.c - the indexed heap against a plain search, over random operations. */
#include "core/util/heap.h"
#include "core/util/rng.h"
#include "unit/test.h"

#define ITEMS 40

static uint32_t least(const int64_t *key, const bool *in) {
    uint32_t best = HEAP_ABSENT;
    for (uint32_t i = 0; i < ITEMS; i++)
        if (in[i] && (best == HEAP_ABSENT || key[i] < key[best])) /* equal keys: the lower item first */
            best = i;
    return best;
}

TEST(test_random_operations) {
    struct heap heap;
    struct heap_entry entries[ITEMS];
    uint32_t position[ITEMS], count = 0;
    int64_t key[ITEMS] = {0};
    bool in[ITEMS] = {false};
    struct rng rng;

    rng_seed(&rng, 7);
    heap_init(&heap, entries, position, ITEMS);
    for (int step = 0; step < 20000; step++) {
        uint32_t item = (uint32_t)rng_below(&rng, ITEMS);
        if (rng_below(&rng, 3)) {
            count += !in[item];
            in[item] = true;
            key[item] = (int64_t)rng_below(&rng, 50) - 25;
            heap_set(&heap, item, key[item]);
        } else {
            count -= in[item];
            in[item] = false;
            heap_remove(&heap, item);
        }
        assert_int_equal(heap.count, count);
        assert_int_equal(heap_contains(&heap, item), in[item]);
        if (count) {
            assert_int_equal(heap_top(&heap).item, least(key, in));
            assert_int_equal(heap_top(&heap).key, key[heap_top(&heap).item]);
        } else {
            assert_true(heap_empty(&heap));
        }
    }
}

/* A look finds each entry up to a key once, however few it touches of the others. */
TEST(test_looks) {
    struct heap heap;
    struct heap_entry entries[ITEMS];
    uint32_t position[ITEMS];
    int64_t key[ITEMS];
    struct rng rng;

    rng_seed(&rng, 8);
    heap_init(&heap, entries, position, ITEMS);
    for (uint32_t count = 0; count <= ITEMS; count++) {
        for (int64_t most = -1; most <= 50; most++) {
            struct heap_look look = heap_look_begin();
            bool found[ITEMS] = {false};
            for (const struct heap_entry *entry; (entry = heap_look_next(&heap, &look, most));) {
                assert_false(found[entry->item]);
                found[entry->item] = true;
            }
            for (uint32_t i = 0; i < ITEMS; i++)
                assert_int_equal(found[i], i < count && key[i] <= most);
        }
        if (count < ITEMS)
            heap_set(&heap, count, key[count] = (int64_t)rng_below(&rng, 50));
    }
}
