/* test_margin.c - the running 95th percentile. */
#include "core/util/margin.h"
#include "unit/test.h"

TEST(test_first_values_count) {
    struct margin m = {.total = 0};
    assert_int_equal(margin_ns(&m), 0);
    margin_add(&m, 100000);
    assert_in_range(margin_ns(&m), 100000, 142000); /* half an octave at most above */
}

TEST(test_ignores_one_in_thirty) {
    struct margin m = {.total = 0};
    for (int i = 0; i < 5000; i++)
        margin_add(&m, i % 30 == 10 ? 50000000 : 20000);
    assert_in_range(margin_ns(&m), 20000, 30000);
    for (int i = 0; i < 5000; i++)
        margin_add(&m, i % 10 == 5 ? 50000000 : 20000);
    assert_in_range(margin_ns(&m), 50000000, 75000000);
}

TEST(test_forgets) {
    struct margin m = {.total = 0};
    for (int i = 0; i < 3000; i++)
        margin_add(&m, 10000000);
    for (int i = 0; i < 20000; i++)
        margin_add(&m, 5000);
    assert_in_range(margin_ns(&m), 5000, 8000);
}

TEST(test_one_slow_start_is_no_percentile) {
    struct margin m;
    margin_init(&m, 20000);
    assert_in_range(margin_ns(&m), 20000, 29000);
    for (int i = 0; i < 10; i++)
        margin_add(&m, 30000000);
    assert_in_range(margin_ns(&m), 20000, 29000);
    for (int i = 0; i < 10; i++) /* that many are no accident */
        margin_add(&m, 30000000);
    assert_in_range(margin_ns(&m), 30000000, 43000000);
}

TEST(test_relaxes_to_the_guess) {
    struct margin m;
    margin_init(&m, 20000);
    for (int i = 0; i < 5000; i++)
        margin_add(&m, 30000000);
    assert_in_range(margin_ns(&m), 30000000, 43000000);
    int steps = 0;
    while (margin_ns(&m) > 29000) {
        margin_relax(&m);
        assert_true(++steps < 60);
    }
    assert_true(steps > 5); /* not at once either */
}
