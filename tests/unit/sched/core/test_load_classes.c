/* test_load_classes.c - which models have their load in common: cases by hand, and what holds for any. */
#include "core/util/rng.h"
#include "sched/core/load_classes.h"
#include "unit/test.h"

enum { CPU = 1, GPU = 2, BOTH = 3 }; /* types 0 and 1 */

static void divided_as(double cpu, double gpu, double both, const uint32_t *up, uint32_t first, uint32_t second) {
    struct load_classes c;
    load_classes_begin(&c, 2);
    load_classes_add(&c, CPU, cpu);
    load_classes_add(&c, GPU, gpu);
    load_classes_add(&c, 0, both);
    load_classes_divide(&c, up);
    assert_int_equal(c.count, second ? 2 : 1);
    assert_int_equal(c.types_of[0], first);
    if (second)
        assert_int_equal(c.types_of[1], second);
}

TEST(what_is_loaded_most_comes_first) {
    static const uint32_t up[] = {2, 4};
    divided_as(0, 0, 0, up, BOTH, 0);
    divided_as(0, 0, 5, up, BOTH, 0);
    divided_as(1, 0, 0, up, CPU, GPU);
    divided_as(1, 3, 0, up, GPU, CPU);
    divided_as(1, 1, 4, up, BOTH, 0);  /* what runs on both evens it out */
    divided_as(3, 1, 2, up, CPU, GPU); /* 1.5, over the 1.0 of all together */
    divided_as(1, 2, 0, up, BOTH, 0);  /* as loaded as each other */
    divided_as(1e-9, 1e9, 0, up, GPU, CPU);
}

TEST(a_type_without_accelerators_is_loaded_beyond_measure) {
    static const uint32_t up[] = {0, 4}, none[] = {0, 0};
    divided_as(0.1, 100, 0, up, CPU, GPU);
    divided_as(0, 1, 1, up, BOTH, 0);
    divided_as(0, 0, 1, none, BOTH, 0);
}

TEST(a_model_belongs_to_the_last_class_of_its_types) {
    static const uint32_t up[] = {1, 1, 1};
    struct load_classes c;
    load_classes_begin(&c, 3);
    load_classes_add(&c, 1, 2);
    load_classes_add(&c, 3, 1.5); /* has type 1 left only */
    load_classes_add(&c, 4, 1);
    load_classes_divide(&c, up);
    assert_int_equal(c.count, 3);
    assert_true(c.types_of[0] == 1 && c.types_of[1] == 2 && c.types_of[2] == 4);
    assert_int_equal(load_classes_find(&c, 1), 0);
    assert_int_equal(load_classes_find(&c, 2), 1);
    assert_int_equal(load_classes_find(&c, 3), 1);
    assert_int_equal(load_classes_find(&c, 5), 2);
    assert_int_equal(load_classes_find(&c, 0), 2);
}

/* Each type is in one class; each class is loaded no more than the one before it, all that ends in it counted. */
TEST(classes_are_loaded_in_falling_order) {
    struct rng rng;
    rng_seed(&rng, 1);
    for (int round = 0; round < 2000; round++) {
        uint32_t types = 1 + (uint32_t)rng_below(&rng, ACCELERATOR_TYPES_MAX), models = (uint32_t)rng_below(&rng, 20);
        uint32_t up[ACCELERATOR_TYPES_MAX], runs_on[20], seen = 0;
        double load[20], before = 0;
        struct load_classes c;
        for (uint32_t t = 0; t < types; t++)
            up[t] = 1 + (uint32_t)rng_below(&rng, 9);
        load_classes_begin(&c, types);
        for (uint32_t m = 0; m < models; m++) {
            runs_on[m] = 1 + (uint32_t)rng_below(&rng, (1u << types) - 1);
            load[m] = (double)rng_below(&rng, 10);
            load_classes_add(&c, runs_on[m], load[m]);
        }
        load_classes_divide(&c, up);
        for (uint32_t k = 0; k < c.count; k++) {
            uint32_t accelerators = 0;
            double sum = 0;
            assert_true(c.types_of[k] && !(c.types_of[k] & seen));
            seen |= c.types_of[k];
            for (uint32_t t = 0; t < types; t++)
                accelerators += c.types_of[k] >> t & 1 ? up[t] : 0;
            for (uint32_t m = 0; m < models; m++)
                sum += load_classes_find(&c, runs_on[m]) == k ? load[m] : 0;
            assert_true(k == 0 || sum / accelerators <= before + 1e-9);
            before = sum / accelerators;
        }
        assert_int_equal(seen, (1u << types) - 1);
    }
}
