/* test_autoscale.c - looks at the load, worked by hand. */
#include "plan/autoscale.h"

#include "base/time.h"
#include "unit/cmocka_all.h"

static struct autoscale make(double headroom, int64_t start_delay_s) {
    struct autoscale a;
    autoscale_init(&a, &(struct autoscale_config){.min = 4,
                                                  .max = 100,
                                                  .headroom = headroom,
                                                  .every_ns = 10 * NS_PER_S,
                                                  .start_delay_ns = start_delay_s * NS_PER_S});
    return a;
}

static void test_what_is_needed_and_the_headroom(void **state) {
    (void)state;
    static const struct {
        double needed, headroom;
        uint32_t wanted;
    } cases[] = {
        {0, 0.1, 4},   {3.2, 0.1, 4}, {9, 0.1, 10},   {9.01, 0.1, 11}, {9.01, 0, 10},
        {10, 0.5, 20}, {89, 0.1, 99}, {91, 0.1, 100}, {1e9, 0.1, 100}, {-1, 0.1, 4},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct autoscale a = make(cases[i].headroom, 0);
        assert_int_equal(autoscale_look(&a, 50, 50, cases[i].needed, 0), cases[i].wanted);
    }
}

static void test_what_is_bad_adds_its_share(void **state) {
    (void)state;
    struct autoscale a = make(0.1, 0);
    assert_int_equal(autoscale_look(&a, 20, 20, 9, 0.01), 10); /* goodput: nothing */
    assert_int_equal(autoscale_look(&a, 20, 20, 9, 0.2), 25);  /* 20 + 20 * 0.2 / 0.8 */
    assert_int_equal(autoscale_look(&a, 20, 25, 9, 0.2), 25);  /* those asked for come: no more of them */
    assert_int_equal(autoscale_look(&a, 20, 20, 9, 0.21), 26); /* 25.3 */
    assert_int_equal(autoscale_look(&a, 20, 20, 9, 1), 40);    /* at most as many again */
    assert_int_equal(autoscale_look(&a, 20, 20, 60, 0.2), 67); /* the need is greater */
    assert_int_equal(autoscale_look(&a, 90, 90, 9, 0.5), 100);
}

static void test_release_waits_as_long_as_a_start_takes(void **state) {
    (void)state;
    struct autoscale a = make(0, 30);                        /* four looks back */
    assert_int_equal(autoscale_look(&a, 50, 50, 20, 0), 50); /* nothing is known of the time before */
    assert_int_equal(autoscale_look(&a, 50, 50, 30, 0), 50);
    assert_int_equal(autoscale_look(&a, 50, 50, 10, 0), 50);
    assert_int_equal(autoscale_look(&a, 50, 50, 10, 0), 30);
    assert_int_equal(autoscale_look(&a, 30, 30, 10, 0), 30);
    assert_int_equal(autoscale_look(&a, 30, 30, 10, 0), 10);
    assert_int_equal(autoscale_look(&a, 10, 10, 60, 0), 60); /* more at once */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_needed_and_the_headroom),
        cmocka_unit_test(test_what_is_bad_adds_its_share),
        cmocka_unit_test(test_release_waits_as_long_as_a_start_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
