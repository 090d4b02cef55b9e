/* test_pace.c - backends that become slow, and recover. */
#include "cluster/membership/speed.h"

#include "unit/test.h"

#define PROFILED_NS (10 * NS_PER_MS)

static struct speed speed;
static int64_t now_ns;

static int begin(void **state) {
    (void)state;
    now_ns = 5 * NS_PER_S;
    speed_init(&speed);
    return 0;
}

static void runs(uint32_t count, double ratio) {
    for (uint32_t i = 0; i < count; i++, now_ns += NS_PER_MS)
        speed_run(&speed, (int64_t)(ratio * PROFILED_NS), PROFILED_NS, now_ns);
}

TEST_WITH(three_of_four_runs_are_needed, begin, NULL) {
    runs(SPEED_RUNS - 1, 3);
    assert_int_equal(speed_look(&speed, 1, now_ns), SPEED_AS_BEFORE);
    runs(1, 3);
    assert_int_equal(speed_look(&speed, 0, now_ns), SPEED_AS_BEFORE);   /* there are no others */
    assert_int_equal(speed_look(&speed, 2.1, now_ns), SPEED_AS_BEFORE); /* nor are they much faster */
    runs(SPEED_RUNS / 4 + 1, 1);
    assert_int_equal(speed_look(&speed, 1, now_ns), SPEED_AS_BEFORE); /* the machine stalled for a while */
    runs(SPEED_RUNS - SPEED_RUNS / 4, 3.1);
    assert_int_equal(speed_look(&speed, 1.2, now_ns), SPEED_IS_SLOW);
    assert_true(speed.slow && speed.factor == 3.25 && speed.than > 2.5 && speed.than < 2.6);
}

TEST_WITH(it_recovers, begin, NULL) {
    runs(SPEED_RUNS, 2);
    assert_int_equal(speed_look(&speed, 1, now_ns), SPEED_IS_SLOW);
    assert_int_equal(speed_look(&speed, 1, now_ns), SPEED_AS_BEFORE); /* its runs from before do not count */
    runs(SPEED_RUNS, 1.3);
    assert_int_equal(speed_look(&speed, 1, now_ns), SPEED_AS_BEFORE);
    runs(SPEED_RUNS, 1.1);
    assert_int_equal(speed_look(&speed, 1, now_ns), SPEED_IS_WELL);
    assert_true(!speed.slow && speed.factor == 1);
}

TEST_WITH(it_is_tried_again_if_it_gets_no_batches, begin, NULL) {
    for (int64_t wait_ns = SPEED_AGAIN_NS, i = 0; i < 6; i++) {
        runs(SPEED_RUNS, 2);
        assert_int_equal(speed_look(&speed, 1, now_ns), SPEED_IS_SLOW);
        runs(SPEED_RUNS - 1, 1);
        int64_t since_ns = speed.since_ns;
        now_ns = since_ns + wait_ns;
        assert_int_equal(speed_look(&speed, 1, now_ns), SPEED_AS_BEFORE);
        now_ns++;
        assert_int_equal(speed_look(&speed, 1, now_ns), SPEED_IS_TRIED);
        wait_ns = 2 * wait_ns < SPEED_AGAIN_MOST_NS ? 2 * wait_ns : SPEED_AGAIN_MOST_NS;
    }
    runs(SPEED_RUNS, 2);
    assert_int_equal(speed_look(&speed, 1, now_ns), SPEED_IS_SLOW);
    runs(SPEED_RUNS, 1);
    assert_int_equal(speed_look(&speed, 1, now_ns), SPEED_IS_WELL);
    assert_int_equal(speed.again_ns, SPEED_AGAIN_NS);
}

TEST_WITH(what_does_not_count, begin, NULL) {
    speed_run(&speed, 0, PROFILED_NS, now_ns);                          /* it failed */
    speed_run(&speed, 10 * SPEED_LEAST_NS, SPEED_LEAST_NS - 1, now_ns); /* too short */
    assert_int_equal(speed.count, 0);
    runs(SPEED_FEW - 1, 1);
    assert_true(speed_usual(&speed, now_ns) == 0);
    runs(1, 1);
    assert_true(speed_usual(&speed, now_ns) == 1);
    assert_true(speed_usual(&speed, now_ns + SPEED_OLD_NS) == 0);
}

TEST_WITH(the_others, begin, NULL) {
    static const double many[] = {1, 2, 3, 4};
    assert_true(speed_others(many, 0, 1) == 0);
    assert_true(speed_others(many, 1, 1) == 0);
    assert_true(speed_others(many, 1, 0) == 1); /* it is not among them */
    assert_true(speed_others(many, 2, 1) == 2);
    assert_true(speed_others(many, 2, 2) == 1);
    assert_true(speed_others(many, 3, 3) == 1);
    assert_true(speed_others(many, 4, 4) == 2);
    assert_true(speed_others(many, 4, 1) == 3);
}
