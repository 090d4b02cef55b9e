/* test_pace.c - means and deviations of work. */
#include "base/pace.h"
#include "unit/cmocka_all.h"

static void the_first_takes_the_place_of_a_guess(void **state) {
    struct pace pace = {.mean_ns = 1000};
    (void)state;
    assert_true(pace_promise_ns(&pace) == 1000);
    pace_add(&pace, 40);
    assert_true(pace.measured);
    assert_true(pace.mean_ns == 40);
    assert_true(pace.deviation_ns == 15); /* half of it, and a quarter of the way to none */
}

static void promises_follow_both(void **state) {
    struct pace steady = {.mean_ns = 1}, shaky = {.mean_ns = 1};
    (void)state;
    for (int i = 0; i < 100; i++) {
        pace_add(&steady, 100);
        pace_add(&shaky, i % 2 ? 150 : 50);
    }
    assert_true(pace_promise_ns(&steady) > 99.9 && pace_promise_ns(&steady) < 100.1);
    assert_true(shaky.mean_ns > 90 && shaky.mean_ns < 110);
    assert_true(pace_promise_ns(&shaky) > 180 && pace_promise_ns(&shaky) < 220);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_takes_the_place_of_a_guess),
        cmocka_unit_test(promises_follow_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
