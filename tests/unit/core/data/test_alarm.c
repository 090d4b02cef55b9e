/* test_alarm.c - shares of bad requests, second by second, and what is said of them. */
#include "core/data/alarm.h"
#include "unit/test.h"

/* A model's requests as they are counted. */
struct model {
    struct alarm alarm;
    struct alarm_counts counts;
    int64_t now_ns;
};

/* One second with so many requests more, of which `refused` are refused and `late` late. */
static enum alarm_news second(struct model *m, uint64_t requests, uint64_t refused, uint64_t late) {
    m->counts.requests += requests;
    m->counts.refused += refused;
    m->counts.late += late;
    m->now_ns += NS_PER_S;
    return alarm_look(&m->alarm, m->now_ns, &m->counts);
}

TEST(good_requests_are_no_news) {
    struct model m = {.now_ns = 0};
    for (int s = 0; s < 200; s++)
        assert_int_equal(second(&m, 1000, 0, s > 10 && s % 2 ? 16 : 0), ALARM_NONE); /* at most 48 of 5000 */
}

TEST(one_bad_request_is_no_news) {
    struct model m = {.now_ns = 0};
    for (int s = 0; s < 60; s++)
        assert_int_equal(second(&m, 1, s % 6 == 0, 0), ALARM_NONE);
    assert_int_equal(second(&m, 2, 2, 0), ALARM_BEGINS);
}

TEST(begins_goes_on_and_ends) {
    struct model m = {.now_ns = 0};
    for (int s = 0; s < 20; s++)
        assert_int_equal(second(&m, 100, 0, 0), ALARM_NONE);
    assert_int_equal(second(&m, 100, 3, 1), ALARM_NONE); /* 4 of 500 */
    assert_int_equal(second(&m, 100, 0, 2), ALARM_BEGINS);
    assert_int_equal(m.alarm.told.requests, 500);
    assert_int_equal(m.alarm.told.refused, 3);
    assert_int_equal(m.alarm.told.late, 3);
    for (int s = 1; s < 60; s++)
        assert_int_equal(second(&m, 100, 50, 0), ALARM_NONE);
    assert_int_equal(second(&m, 100, 50, 0), ALARM_GOES_ON);
    assert_int_equal(m.alarm.told.requests, 6000);
    assert_int_equal(m.alarm.told.refused, 3000);
    int seconds = 1;
    while (second(&m, 100, 0, 0) == ALARM_NONE)
        seconds++;
    assert_int_equal(seconds, ALARM_LOOKS - 1 + ALARM_CALM_LOOKS); /* the last bad second is judged four times more */
    assert_false(m.alarm.on);
    assert_int_equal(m.alarm.told.requests, 500 + 6000 + 1400);
    assert_int_equal(m.alarm.told.refused, 3003);
    assert_int_equal(m.now_ns - m.alarm.since_ns, 74 * NS_PER_S);
    assert_int_equal(second(&m, 100, 0, 0), ALARM_NONE);
}

/* What comes and goes within ten seconds is one story. */
TEST(a_short_calm_is_not_the_end) {
    struct model m = {.now_ns = 0};
    assert_int_equal(second(&m, 0, 0, 0), ALARM_NONE);
    assert_int_equal(second(&m, 100, 90, 0), ALARM_BEGINS);
    for (int s = 1; s < 60; s++)
        assert_int_equal(second(&m, 100, s % 12 == 0 ? 90 : 0, 0), ALARM_NONE);
    assert_int_equal(second(&m, 100, 0, 0), ALARM_GOES_ON);
}

/* As of a process that was stopped for two minutes. */
TEST(a_minute_without_bad_requests_is_no_news) {
    struct model m = {.now_ns = 0};
    assert_int_equal(second(&m, 0, 0, 0), ALARM_NONE);
    assert_int_equal(second(&m, 100, 90, 0), ALARM_BEGINS);
    m.now_ns += 120 * NS_PER_S;
    assert_int_equal(second(&m, 0, 0, 0), ALARM_NONE);
    assert_int_equal(second(&m, 100, 0, 0), ALARM_NONE);
    assert_int_equal(second(&m, 100, 1, 0), ALARM_GOES_ON);
    assert_int_equal(m.alarm.told.requests, 200);
}

/* Nobody asks any more: that is the end, too. */
TEST(counts_may_begin_anew) {
    struct model m = {.now_ns = 0};
    for (int s = 0; s < 20; s++)
        second(&m, 100, 50, 0);
    assert_true(m.alarm.on);
    m.counts = (struct alarm_counts){.requests = 0};
    for (int s = 0; s < 20; s++)
        assert_int_equal(second(&m, 1, 0, 0), ALARM_NONE);
    assert_int_equal(second(&m, 2, 2, 0), ALARM_BEGINS);
    assert_int_equal(m.alarm.told.requests, 6);
}

TEST(a_late_request_may_prove_to_be_in_time) {
    struct model m = {.now_ns = 0};
    second(&m, 1, 0, 1);
    m.counts.late = 0;
    for (int s = 0; s < 20; s++)
        assert_int_equal(second(&m, 1, 0, 0), ALARM_NONE);
}

TEST(silence_is_the_end) {
    struct model m = {.now_ns = 0};
    assert_int_equal(second(&m, 0, 0, 0), ALARM_NONE);
    assert_int_equal(second(&m, 100, 90, 0), ALARM_BEGINS);
    int seconds = 1;
    while (second(&m, 0, 0, 0) == ALARM_NONE)
        seconds++;
    assert_int_equal(seconds, ALARM_LOOKS - 1 + ALARM_CALM_LOOKS);
    assert_int_equal(m.alarm.told.requests, 100);
}
