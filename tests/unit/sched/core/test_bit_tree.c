/* test_bit_tree.c - the least item, held against a plain array of flags. */
#include <stdlib.h>
#include <string.h>

#include "core/util/rng.h"
#include "sched/core/bit_tree.h"
#include "unit/test.h"

static struct bit_tree *tree_new(struct bit_tree *tree, uint32_t capacity) {
    struct arena arena = {NULL, 0};
    bit_tree_take(&arena, tree, capacity);
    arena = (struct arena){aligned_alloc(64, arena.used), 0};
    memset(arena.base, 0xff, 64);
    bit_tree_take(&arena, tree, capacity);
    return tree;
}

TEST(test_against_flags) {
    static const uint32_t capacities[] = {1, 63, 64, 65, 4096, 4097, 300000};
    struct rng rng;

    rng_seed(&rng, 3);
    for (unsigned c = 0; c < sizeof(capacities) / sizeof(capacities[0]); c++) {
        uint32_t capacity = capacities[c], count = 0;
        bool *flags = calloc(capacity, sizeof(*flags));
        struct bit_tree tree;
        tree_new(&tree, capacity);
        assert_true(bit_tree_empty(&tree));
        for (int step = 0; step < 3000; step++) {
            uint32_t item = (uint32_t)rng_below(&rng, capacity), first = 0;
            bool add = rng_below(&rng, step < 1500 ? 3 : 8) < 2; /* it grows, then shrinks to nearly nothing */
            if (!add && count && rng_below(&rng, 2))
                item = bit_tree_first(&tree);
            count += (uint32_t)add - flags[item];
            flags[item] = add;
            if (add)
                bit_tree_add(&tree, item);
            else
                bit_tree_remove(&tree, item);
            assert_int_equal(bit_tree_has(&tree, item), add);
            assert_int_equal(tree.count, count);
            assert_int_equal(bit_tree_empty(&tree), count == 0);
            while (first < capacity && !flags[first])
                first++;
            if (count)
                assert_int_equal(bit_tree_first(&tree), first);
        }
        free(tree.words[0]);
        free(flags);
    }
}
