/* test_time.c - when what is done at regular times is due again, and what has to rest. */
#include "core/util/time.h"

#include "unit/test.h"

TEST(missed_times_are_left_out) {
    static const struct {
        int64_t now_ns, next_ns;
    } cases[] = {
        {0, 1000},      {999, 1000},  /* woken early: it is still due then */
        {1000, 1100},   {1099, 1100}, /* in time, or a little late */
        {1100, 1200},                 /* so late that the next one is due, too */
        {12345, 12400},               /* many were missed */
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(time_due_again(1000, 100, cases[i].now_ns), cases[i].next_ns);
}

TEST(a_job_takes_its_part_of_the_time) {
    int64_t now_ns = 1000, worked_ns = 0;
    for (int64_t took_ns = 1; took_ns <= 4; took_ns++) {
        worked_ns += took_ns;
        now_ns = time_rested(now_ns, now_ns + took_ns);
    }
    assert_int_equal(now_ns, 1000 + worked_ns * TIME_REST_PARTS);
    assert_int_equal(time_rested(5, 5), 5);
}
