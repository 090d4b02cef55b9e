/* test_query.c - fan-outs, stages' deadlines, and how queries go and end. */
#include <stdlib.h>

#include "core/util/time.h"
#include "sched/plan/query.h"
#include "unit/test.h"

#define MS NS_PER_MS

/* detect (40 ms of 100), then cars (30) and faces (20) side by side, then a join (20). */
static const struct pipeline fork_join = {
    .slo_ns = 100 * MS,
    .stage_count = 4,
    .stages = {{.after = 0, .fan_out = {FAN_OUT_FIXED, 1, 0}, .part_ns = 40 * MS, .least_ns = 5 * MS},
               {.after = 1, .fan_out = {FAN_OUT_FIXED, 2, 0}, .part_ns = 30 * MS, .least_ns = 5 * MS},
               {.after = 1, .fan_out = {FAN_OUT_CHANCE, 0.5, 0}, .part_ns = 20 * MS, .least_ns = 5 * MS},
               {.after = 6, .fan_out = {FAN_OUT_QUERY, 3, 0}, .part_ns = 20 * MS, .least_ns = 5 * MS}},
};

struct fixture {
    struct pipeline pipeline;
    struct pipeline_times times;
    struct query *query;
};

static void begin(struct fixture *f, enum pipeline_deadlines deadlines) {
    f->pipeline = fork_join;
    f->pipeline.deadlines = deadlines;
    f->query = malloc(query_bytes(4));
    assert_non_null(f->query);
    pipeline_times_init(&f->times, &f->pipeline);
    query_begin(f->query, &f->pipeline, &f->times, 0, 100 * MS);
}

/* The stage that is ready begins with so many items, all of which are sent. */
static void stage_begins(struct fixture *f, uint32_t want, uint32_t want_before, int64_t now_ns, uint32_t items) {
    uint32_t stage = 99, before = 99;
    assert_true(query_stage_ready(f->query, &stage, &before));
    assert_int_equal(stage, want);
    assert_int_equal(before, want_before);
    query_stage_begin(f->query, stage, now_ns, items);
    for (uint32_t i = 0; i < items; i++)
        query_request_sent(f->query, stage);
}

static bool any_ready(const struct fixture *f) {
    uint32_t stage, before;
    return query_stage_ready(f->query, &stage, &before);
}

TEST(a_query_goes_through_its_stages_and_is_good) {
    struct fixture f;
    begin(&f, PIPELINE_FLOATING);
    stage_begins(&f, 0, 1, 0, 1);
    assert_false(any_ready(&f));
    query_request_ended(f.query, 0, 10 * MS, true);
    stage_begins(&f, 1, 1, 10 * MS, 2);
    stage_begins(&f, 2, 1, 10 * MS, 0); /* it ends at once, but the join waits for the other */
    assert_false(any_ready(&f));
    query_request_ended(f.query, 1, 20 * MS, true);
    assert_false(any_ready(&f));
    query_request_ended(f.query, 1, 25 * MS, true);
    stage_begins(&f, 3, 2, 25 * MS, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f.query->end, QUERY_RUNS);
        query_request_ended(f.query, 3, 100 * MS, true);
    }
    assert_int_equal(f.query->end, QUERY_GOOD);
    assert_int_equal(f.query->away, 0);
    query_cancel(f.query); /* too late */
    assert_int_equal(f.query->end, QUERY_GOOD);
    free(f.query);
}

/* A query with more time than the SLO gives its stages more, by the same measure. */
TEST(stages_stretch_with_their_query) {
    struct fixture plain, stretched;
    begin(&plain, PIPELINE_FIXED);
    stage_begins(&plain, 0, 1, 0, 1);
    begin(&stretched, PIPELINE_FIXED);
    stretched.query->deadline_ns = 300 * MS;
    query_stretch(stretched.query, 3);
    stage_begins(&stretched, 0, 1, 0, 1);
    assert_int_equal(plain.query->stages[0].deadline_ns, 40 * MS);
    assert_int_equal(stretched.query->stages[0].deadline_ns, 120 * MS);
    free(plain.query);
    free(stretched.query);
}

/* Refused at its stage's deadline, a request has what is left beyond 1.5 times its part, but not what is kept for the
 * stages behind it. */
TEST(a_stage_has_a_second_chance) {
    struct fixture f;
    int64_t deadline_ns;
    begin(&f, PIPELINE_FLOATING);
    stage_begins(&f, 0, 1, 0, 1);
    assert_int_equal(f.query->stages[0].deadline_ns, 50 * MS); /* 30 and 20 are kept */
    assert_false(query_request_again(f.query, 0, 45 * MS, 50 * MS, 100 * MS, &deadline_ns));
    query_request_ended(f.query, 0, 10 * MS, true);
    stage_begins(&f, 1, 1, 10 * MS, 1);
    assert_int_equal(f.query->stages[1].deadline_ns, 55 * MS); /* of the 80 that it could have */
    assert_true(query_request_again(f.query, 1, 50 * MS, 55 * MS, 100 * MS, &deadline_ns));
    assert_int_equal(deadline_ns, 80 * MS);
    assert_true(query_request_again(f.query, 1, 50 * MS, 55 * MS, 90 * MS, &deadline_ns)); /* aimed at */
    assert_int_equal(deadline_ns, 70 * MS);
    assert_true(query_request_again(f.query, 1, 75 * MS, 55 * MS, 100 * MS, &deadline_ns));
    assert_false(query_request_again(f.query, 1, 75 * MS + 1, 55 * MS, 100 * MS, &deadline_ns)); /* it takes 5 */
    assert_false(query_request_again(f.query, 1, 50 * MS, 80 * MS, 100 * MS, &deadline_ns));     /* it had that */
    pipeline_times_add(&f.times, &f.pipeline, 3, 4 * MS);
    assert_int_equal(query_latest_ns(f.query, 1, 100 * MS), 80 * MS); /* as it was when the stage began */
    query_request_refused(f.query, REFUSAL_DEADLINE);
    assert_false(query_request_again(f.query, 1, 50 * MS, 55 * MS, 100 * MS, &deadline_ns));
    free(f.query);
    begin(&f, PIPELINE_FIXED);
    stage_begins(&f, 0, 1, 0, 1);
    assert_false(query_request_again(f.query, 0, 30 * MS, 40 * MS, 100 * MS, &deadline_ns));
    free(f.query);
}

/* However short a query's own time, its stages leave what one item takes of those behind them. */
TEST(the_least_is_kept_for_stages_behind) {
    struct fixture f;
    begin(&f, PIPELINE_FLOATING);
    f.query->deadline_ns = 16 * MS;
    query_stretch(f.query, 0.16);
    stage_begins(&f, 0, 1, 0, 1);
    assert_int_equal(f.query->stages[0].deadline_ns, 6 * MS); /* 5 and 5, not 0.16 times 30 and 20 */
    free(f.query);
}

TEST(a_dead_query_begins_nothing_and_its_requests_come_back) {
    struct fixture f;
    begin(&f, PIPELINE_FLOATING);
    stage_begins(&f, 0, 1, 0, 1);
    query_request_ended(f.query, 0, 10 * MS, true);
    stage_begins(&f, 1, 1, 10 * MS, 2);
    query_request_refused(f.query, REFUSAL_DEADLINE);
    assert_int_equal(f.query->end, QUERY_DROPPED);
    assert_int_equal(f.query->reason, REFUSAL_DEADLINE);
    assert_false(any_ready(&f)); /* stage 2 could have begun */
    assert_int_equal(f.query->away, 1);
    query_request_refused(f.query, REFUSAL_CANCELLED);
    assert_int_equal(f.query->reason, REFUSAL_DEADLINE);
    assert_int_equal(f.query->away, 0);
    free(f.query);
}

TEST(lateness_loss_and_a_client_that_leaves_end_a_query) {
    static const struct {
        int64_t at_ns;
        bool ran, leaves;
        enum query_end want;
    } cases[] = {{100 * MS, true, false, QUERY_RUNS},
                 {100 * MS + 1, true, false, QUERY_LATE},
                 {10 * MS, false, false, QUERY_LATE},
                 {10 * MS, true, true, QUERY_CANCELLED}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct fixture f;
        begin(&f, PIPELINE_FIXED);
        stage_begins(&f, 0, 1, 0, 1);
        if (cases[i].leaves)
            query_cancel(f.query);
        query_request_ended(f.query, 0, cases[i].at_ns, cases[i].ran);
        assert_int_equal(f.query->end, cases[i].want);
        assert_int_equal(any_ready(&f), cases[i].want == QUERY_RUNS);
        free(f.query);
    }
}

TEST(a_fixed_stage_has_its_part_and_never_more_than_the_query) {
    struct fixture f;
    begin(&f, PIPELINE_FIXED);
    stage_begins(&f, 0, 1, 0, 1);
    assert_int_equal(f.query->stages[0].deadline_ns, 40 * MS);
    query_request_ended(f.query, 0, 10 * MS, true);
    stage_begins(&f, 1, 1, 10 * MS, 1);
    assert_int_equal(f.query->stages[1].deadline_ns, 40 * MS);
    query_request_ended(f.query, 1, 90 * MS, true);
    stage_begins(&f, 2, 1, 90 * MS, 1);
    assert_int_equal(f.query->stages[2].deadline_ns, 100 * MS);
    free(f.query);
}

TEST(a_floating_stage_has_what_is_left_less_what_comes_after) {
    struct fixture f;
    begin(&f, PIPELINE_FLOATING);
    stage_begins(&f, 0, 1, 0, 1);
    assert_int_equal(f.query->stages[0].deadline_ns, 50 * MS); /* nothing is known yet: 100 less 30 and 20 */
    query_request_ended(f.query, 0, 5 * MS, true);
    stage_begins(&f, 1, 1, 5 * MS, 1);
    assert_int_equal(f.query->stages[1].deadline_ns, 50 * MS); /* 80 are left to it, but at most 1.5 times its part */
    stage_begins(&f, 2, 1, 5 * MS, 0);
    query_request_ended(f.query, 1, 15 * MS, true);       /* it took 10 of its 30 */
    assert_int_equal(f.times.rest_ns[0], (20 + 20) * MS); /* 15 for it, but 20 for the stage beside it */
    query_begin(f.query, &f.pipeline, &f.times, 0, 100 * MS);
    stage_begins(&f, 0, 1, 0, 1);
    assert_int_equal(f.query->stages[0].deadline_ns, 60 * MS); /* 100 less those; 1.5 times its part, too */
    query_request_ended(f.query, 0, 85 * MS, true);
    stage_begins(&f, 1, 1, 85 * MS, 1);
    assert_int_equal(f.query->stages[1].deadline_ns, 80 * MS); /* it is lost, and so refused at once */
    free(f.query);
}

TEST(means_are_of_the_last_stages_and_within_their_bounds) {
    struct pipeline_times times;
    pipeline_times_init(&times, &fork_join);
    assert_int_equal(times.rest_ns[0], 50 * MS);
    assert_int_equal(times.rest_ns[1], 20 * MS);
    assert_int_equal(times.rest_ns[3], 0);
    for (int i = 0; i < 3000; i++)
        pipeline_times_add(&times, &fork_join, 3, 90 * MS);
    assert_int_equal(times.rest_ns[1], 20 * MS); /* no more than its part */
    for (int i = 0; i < 5000; i++)
        pipeline_times_add(&times, &fork_join, 3, 4 * MS);
    assert_true(times.rest_ns[1] >= 8 * MS && times.rest_ns[1] < 8 * MS + 1000);
}

TEST(fan_outs_have_their_means_and_bounds) {
    static const struct {
        struct fan_out fan_out;
        uint32_t items, least, most;
        double mean;
    } cases[] = {
        {{FAN_OUT_FIXED, 3, 0}, 5, 15, 15, 15},
        {{FAN_OUT_FIXED, 3, 0}, 0, 0, 0, 0},
        {{FAN_OUT_FIXED, 1000, 0}, 5, PIPELINE_ITEMS_MAX, PIPELINE_ITEMS_MAX, PIPELINE_ITEMS_MAX},
        {{FAN_OUT_QUERY, 2, 0}, 0, 2, 2, 2},
        {{FAN_OUT_CHANCE, 0.25, 0}, 8, 0, 8, 2},
        {{FAN_OUT_UNIFORM, 1, 3}, 4, 4, 12, 8},
        {{FAN_OUT_POISSON, 0.1, 0}, 1, 0, 10, 0.1},
        {{FAN_OUT_POISSON, 10, 0}, 3, 1, 90, 30},
        {{FAN_OUT_POISSON, 1000, 0}, 900, PIPELINE_ITEMS_MAX, PIPELINE_ITEMS_MAX, PIPELINE_ITEMS_MAX},
    };
    struct rng rng;
    rng_seed(&rng, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        double sum = 0;
        for (int draw = 0; draw < 4000; draw++) {
            uint32_t items = fan_out_draw(&cases[i].fan_out, cases[i].items, &rng);
            assert_in_range(items, cases[i].least, cases[i].most);
            sum += items;
        }
        assert_true(sum / 4000 >= 0.85 * cases[i].mean && sum / 4000 <= 1.15 * cases[i].mean);
    }
}

TEST(mean_items_follow_the_graph) {
    struct pipeline p = fork_join;
    double items[4];
    pipeline_items(&p, items);
    assert_true(items[0] == 1 && items[1] == 2 && items[2] == 0.5 && items[3] == 3);
    p.stages[3].fan_out = (struct fan_out){FAN_OUT_UNIFORM, 0, 4};
    pipeline_items(&p, items);
    assert_true(items[3] == 5);
    assert_true(pipeline_requests(&p) == 8.5);
}
