/* test_advisor.c - looks: when they are due, and what they say. */
#include "core/util/time.h"
#include "sched/plan/advisor.h"
#include "unit/test.h"

static const struct autoscale_config config = {
    .min = 1, .max = 8, .headroom = 0.1, .every_ns = 10 * NS_PER_S, .start_delay_ns = 0};

static uint32_t looked(struct advisor *advisor, struct autoscale_seen load) {
    advisor_look(advisor, advisor->looked_ns + config.every_ns, &(struct advisor_load){.all = load});
    assert_true(advisor->advises);
    return advisor->wanted;
}

TEST(looks_are_due) {
    struct advisor advisor;
    int64_t start_ns = 5 * NS_PER_S;
    advisor_init(&advisor, &config, 1, start_ns);
    assert_false(advisor.advises);
    assert_false(advisor_due(&advisor, start_ns));
    assert_false(advisor_due(&advisor, start_ns + 9 * NS_PER_S));
    assert_true(advisor_due(&advisor, start_ns + 10 * NS_PER_S - NS_PER_S / 10)); /* not a whole tick later */
    assert_true(advisor_due(&advisor, start_ns + 60 * NS_PER_S));
    advisor_look(&advisor, start_ns + 11 * NS_PER_S, &(struct advisor_load){.all = {.present = 1}});
    assert_false(advisor_due(&advisor, start_ns + 20 * NS_PER_S));
    assert_true(advisor_due(&advisor, start_ns + 21 * NS_PER_S));
}

TEST(load_is_followed) {
    struct advisor advisor;
    advisor_init(&advisor, &config, 1, 0);
    assert_int_equal(looked(&advisor, (struct autoscale_seen){.present = 2, .needed = 1.5, .requests = 100000}), 2);
    assert_true(advisor.bad_rate == 0);
    assert_true(looked(&advisor, (struct autoscale_seen){.present = 2, .needed = 3.5, .requests = 100000}) >= 4);
    assert_true(looked(&advisor, (struct autoscale_seen){.present = 2, .needed = 2, .requests = 100000, .bad = 50000}) >
                2);
    assert_true(advisor.bad_rate == 0.5);
    assert_int_equal(looked(&advisor, (struct autoscale_seen){.present = 8, .needed = 100, .requests = 100000}), 8);
    advisor_init(&advisor, &config, 1, 0);
    assert_false(advisor.advises);
}

/* Counts that are not of one moment. */
TEST(no_more_is_bad_than_there_was) {
    struct advisor advisor;
    advisor_init(&advisor, &config, 1, 0);
    looked(&advisor, (struct autoscale_seen){.present = 1, .requests = 10, .bad = 11});
    assert_true(advisor.bad_rate == 1);
    looked(&advisor, (struct autoscale_seen){.present = 1, .requests = 0, .bad = 1});
    assert_true(advisor.bad_rate == 0);
}

TEST(without_load_none_is_wanted_if_none_may_be) {
    struct autoscale_config none = config;
    struct advisor advisor;
    none.min = 0;
    advisor_init(&advisor, &none, 1, 0);
    assert_int_equal(looked(&advisor, (struct autoscale_seen){.present = 0}), 0);
    assert_int_equal(looked(&advisor, (struct autoscale_seen){.present = 0, .needed = 0.05}), 0);
    assert_int_equal(looked(&advisor, (struct autoscale_seen){.present = 0, .requests = 1}), 1);
}

TEST(counters_begin_anew) {
    uint64_t before = 0;
    assert_int_equal(advisor_since(&before, 7), 7);
    assert_int_equal(advisor_since(&before, 7), 0);
    assert_int_equal(advisor_since(&before, 10), 3);
    assert_int_equal(advisor_since(&before, 4), 4);
    assert_int_equal(advisor_since(&before, 5), 1);
}
