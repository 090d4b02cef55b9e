/* test_rank_best_effort.c - who gets accelerators for best effort, when, and for how long. Time is a number; models and
 * executors are played by hand. */
#include <stdlib.h>
#include <string.h>

#include "sched/core/rank_core.h"
#include "unit/cmocka_all.h"
#include "unit/sched/core/rank_told.h"

#define MODELS 4

struct fixture {
    struct rank_core *core;
    struct rank_output out;
};

static const struct policy_ops policy_plain = {.name = "plain"};

static struct fixture fixture_new(uint32_t accelerators) {
    static const uint8_t types[16];
    struct policy_options options = {{0}};
    struct rank_core_config config = {.models = MODELS,
                                      .accelerators = accelerators,
                                      .accelerator_type = types,
                                      .types = 1,
                                      .policy = &policy_plain,
                                      .policy_options = &options};
    struct fixture f = {.core = malloc(rank_core_bytes(&config))};
    assert_non_null(f.core);
    rank_core_init(f.core, &config);
    return f;
}

static struct candidate at(int64_t start_ns) {
    struct candidate c = candidate_none();
    for (uint32_t level = 0; level < SUPPLY_LEVELS; level++)
        c.start_ns[level] = start_ns;
    return c;
}

/* Best effort whose first batch takes so long. */
static struct candidate best_effort(int64_t run_ns) {
    struct candidate c = candidate_none();
    c.best_effort_run_ns = run_ns;
    return c;
}

static void candidate(struct fixture *f, int64_t now_ns, uint32_t model, struct candidate c) {
    rank_told_candidate(f->core, now_ns, model, c, &f->out);
}

static void answer(struct fixture *f, int64_t now_ns, uint32_t model, uint32_t accelerator, int64_t run_ns,
                   struct candidate next) {
    struct rank_answer answer = {.accelerator = accelerator,
                                 .items = run_ns > 0,
                                 .sealed_ns = now_ns,
                                 .end_ns = now_ns + run_ns,
                                 .run_ns = run_ns};
    rank_told_answer(f->core, now_ns, model, answer, next, 1, &f->out);
}

static void ended(struct fixture *f, int64_t now_ns, uint32_t accelerator) {
    rank_told_end(f->core, now_ns, accelerator, now_ns, false, &f->out);
}

/* The model has requests with this SLO, of which one takes 30. */
static void rates(struct fixture *f, int64_t now_ns, uint32_t model, double slo_ns) {
    struct model_rates rates = {
        .at_ns = now_ns, .rate = 1, .slo_ns = slo_ns, .weight = 1, .batch_best = 1, .alpha_ns = 10, .beta_ns = 20};
    rank_told(f->core, now_ns, (struct rank_message){.kind = RANK_RATES, .variant = {model}, .rates = rates}, NULL, 0,
              &f->out);
}

#define assert_best_effort(f, model_, accelerator_)                                                                    \
    do {                                                                                                               \
        assert_int_equal((f)->out.grant_count, 1);                                                                     \
        assert_int_equal((f)->out.grants[0].variant.n, model_);                                                        \
        assert_int_equal((f)->out.grants[0].accelerator, accelerator_);                                                \
        assert_true((f)->out.grants[0].best_effort);                                                                   \
    } while (0)
#define assert_nothing(f) assert_int_equal((f)->out.grant_count, 0)

static void an_idle_accelerator_runs_best_effort(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 2, best_effort(30));
    assert_best_effort(&f, 2, 0);
    answer(&f, 0, 2, 0, 30, best_effort(30));
    assert_nothing(&f); /* it is busy */
    ended(&f, 30, 0);
    assert_best_effort(&f, 2, 0);
    answer(&f, 30, 2, 0, 0, candidate_none()); /* given back */
    assert_nothing(&f);
    assert_int_equal(rank_core_accelerators_busy(f.core), 0);
    assert_int_equal(rank_core_accelerators_free(f.core), 1);
    free(f.core);
}

static void batches_go_first(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 0, at(0));
    answer(&f, 0, 0, 0, 50, candidate_none());
    candidate(&f, 1, 1, best_effort(30));
    candidate(&f, 2, 3, at(0));
    ended(&f, 50, 0);
    assert_int_equal(f.out.grants[0].variant.n, 3);
    answer(&f, 50, 3, 0, 30, candidate_none());
    ended(&f, 80, 0);
    assert_best_effort(&f, 1, 0);
    free(f.core);
}

/* Half of what the tightest SLO leaves beside one run. */
static void it_runs_so_long_that_who_comes_meanwhile_is_in_time(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    rates(&f, 0, 0, 1030);
    rates(&f, 10 * NS_PER_MS, 1, 430); /* takes effect with the next parameters */
    candidate(&f, 20 * NS_PER_MS, 2, best_effort(30));
    assert_best_effort(&f, 2, 0);
    assert_int_equal(f.out.grants[0].run_ns, 200);
    answer(&f, 20 * NS_PER_MS, 2, 0, 30, candidate_none());
    ended(&f, 20 * NS_PER_MS + 30, 0);
    candidate(&f, 20 * NS_PER_MS + 30, 3, best_effort(300)); /* its least batch is no longer than an ordinary one */
    assert_best_effort(&f, 3, 0);
    assert_int_equal(f.out.grants[0].run_ns, 300);
    free(f.core);
}

/* A model's rate falls in silence by e every two seconds. It took 24 minutes until that was no number any more, and all
 * the while best effort ran in batches short enough for who did not come. */
static void who_fell_silent_does_not_limit_it_for_long(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    rates(&f, 0, 0, 430); /* one a second */
    for (int64_t second = 1; second <= 16; second++) {
        int64_t now = second * NS_PER_S;
        rank_core_step(f.core, now, &(struct rank_event){.kind = RANK_TIMER}, &f.out);
        candidate(&f, now, 2, best_effort(30));
        assert_best_effort(&f, 2, 0);
        if (second <= 13)
            assert_int_equal(f.out.grants[0].run_ns, 200);
        else if (second >= 15)
            assert_int_equal(f.out.grants[0].run_ns, NS_PER_S);
        answer(&f, now, 2, 0, 30, candidate_none());
        ended(&f, now + 30, 0);
    }
    free(f.core);
}

static void it_is_over_when_who_waits_for_company_may_start(void **state) {
    (void)state;
    struct fixture f = fixture_new(2);
    candidate(&f, 0, 0, at(100));
    candidate(&f, 0, 2, best_effort(30));
    assert_best_effort(&f, 2, 0); /* another one is left for model 0 */
    assert_true(f.out.grants[0].run_ns > 1000);
    answer(&f, 0, 2, 0, 500, best_effort(30));
    assert_best_effort(&f, 2, 1);
    assert_int_equal(f.out.grants[0].run_ns, 100);
    answer(&f, 0, 2, 1, 60, best_effort(30));
    ended(&f, 60, 1);
    assert_best_effort(&f, 2, 1);
    assert_int_equal(f.out.grants[0].run_ns, 40);
    answer(&f, 60, 2, 1, 30, best_effort(30));
    ended(&f, 90, 1);
    assert_nothing(&f); /* 10 are too few */
    assert_int_equal(f.out.wake_ns, 100);
    free(f.core);
}

static void models_take_turns_by_how_long_theirs_has_run(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 0, at(0));
    answer(&f, 0, 0, 0, 10, candidate_none());
    candidate(&f, 0, 1, best_effort(10));
    candidate(&f, 0, 2, best_effort(20));
    int64_t now_ns = 10, ran_ns[MODELS] = {0};
    for (uint32_t i = 0; i < 30; i++) {
        ended(&f, now_ns, 0);
        assert_int_equal(f.out.grant_count, 1);
        uint32_t model = f.out.grants[0].variant.n;
        int64_t run_ns = model == 1 ? 10 : 20;
        answer(&f, now_ns, model, 0, run_ns, best_effort(run_ns));
        ran_ns[model] += run_ns;
        now_ns += run_ns;
    }
    assert_int_equal(ran_ns[1], ran_ns[2]);
    /* who comes later does not catch up on the time before */
    candidate(&f, now_ns, 3, best_effort(10));
    for (uint32_t i = 0; i < 8; i++) {
        ended(&f, now_ns, 0);
        uint32_t model = f.out.grants[0].variant.n;
        answer(&f, now_ns, model, 0, 10, best_effort(10));
        ran_ns[model] += 10;
        now_ns += 10;
    }
    assert_in_range(ran_ns[3], 20, 40);
    free(f.core);
}

/* To the others it is as if the accelerators were free: four of eight are ample, one is scarce. */
static void accelerators_that_run_best_effort_count_as_free(void **state) {
    (void)state;
    struct fixture f = fixture_new(8);
    for (uint32_t a = 0; a < 7; a++) {
        candidate(&f, 0, 2, best_effort(30));
        assert_best_effort(&f, 2, a);
        answer(&f, 0, 2, a, 30, candidate_none());
    }
    struct candidate c = at(0);
    c.start_ns[SUPPLY_SCARCE] = 500;
    candidate(&f, 1, 0, c);
    assert_int_equal(f.out.grant_count, 1);
    assert_int_equal(f.out.grants[0].accelerator, 7);
    assert_int_equal(f.out.grants[0].supply, SUPPLY_AMPLE);
    free(f.core);
}

/* Batches that had to wait for best effort keep accelerators from it: half of them at most. */
static void accelerators_are_kept_from_it_when_it_was_in_the_way(void **state) {
    (void)state;
    struct fixture f = fixture_new(4);
    int64_t now_ns = 0;
    for (uint32_t a = 0; a < 4; a++) {
        candidate(&f, now_ns, 2, best_effort(30));
        answer(&f, now_ns, 2, a, 30, candidate_none());
    }
    for (uint32_t i = 0; i < 20; i++) { /* model 0 finds all busy */
        candidate(&f, now_ns, 0, at(0));
        assert_nothing(&f);
        ended(&f, now_ns, 0);
        assert_int_equal(f.out.grants[0].variant.n, 0);
        answer(&f, now_ns, 0, 0, 30, candidate_none());
    }
    candidate(&f, now_ns, 2, best_effort(30));
    for (uint32_t a = 0; a < 2; a++) {
        ended(&f, now_ns, a);
        assert_nothing(&f);
    }
    ended(&f, now_ns, 2);
    assert_best_effort(&f, 2, 0); /* two are left */
    answer(&f, now_ns, 2, 0, 30, best_effort(30));
    assert_nothing(&f);
    free(f.core);
}

/* Three batches in 23 had to wait: one accelerator is kept for long only while requests are lost. */
static void accelerators_are_kept_for_longer_while_requests_are_lost(void **state) {
    (void)state;
    for (uint32_t way = 0; way < 3; way += 2) {
        struct fixture f = fixture_new(4);
        rank_core_step(f.core, 0, &(struct rank_event){.kind = RANK_WAY, .way = way}, &f.out);
        for (uint32_t a = 0; a < 4; a++) {
            candidate(&f, 0, 2, best_effort(30));
            answer(&f, 0, 2, a, 30, candidate_none());
        }
        for (uint32_t i = 0; i < 3; i++) { /* model 0 finds all busy */
            candidate(&f, 0, 0, at(0));
            assert_nothing(&f);
            ended(&f, 0, 0);
            assert_int_equal(f.out.grants[0].variant.n, 0);
            answer(&f, 0, 0, 0, 30, candidate_none());
        }
        ended(&f, 0, 1);
        for (uint32_t i = 0; i < 20; i++) { /* and now one that is free */
            candidate(&f, 0, 0, at(0));
            assert_int_equal(f.out.grants[0].variant.n, 0);
            answer(&f, 0, 0, 1, 30, candidate_none());
            ended(&f, 0, 1);
        }
        candidate(&f, 0, 2, best_effort(30));
        if (way == 0)
            assert_best_effort(&f, 2, 1);
        else
            assert_nothing(&f);
        free(f.core);
    }
}

static void what_is_down_takes_its_best_effort_along(void **state) {
    (void)state;
    struct fixture f = fixture_new(2);
    candidate(&f, 0, 2, best_effort(30));
    answer(&f, 0, 2, 0, 30, candidate_none());
    rank_core_step(f.core, 5, &(struct rank_event){.kind = RANK_ACCELERATOR_DOWN, .accelerator = 0}, &f.out);
    ended(&f, 6, 0);
    rank_core_step(f.core, 7, &(struct rank_event){.kind = RANK_ACCELERATOR_UP, .accelerator = 0}, &f.out);
    struct candidate c = at(0); /* one of two is ample, with none that runs best effort */
    c.start_ns[SUPPLY_SCARCE] = c.start_ns[SUPPLY_SCARCE + 1] = 500;
    candidate(&f, 8, 0, c);
    assert_int_equal(f.out.grant_count, 1);
    answer(&f, 8, 0, 0, 30, candidate_none());
    candidate(&f, 9, 1, c);
    assert_nothing(&f); /* the last one is scarce */
    free(f.core);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_accelerator_runs_best_effort),
        cmocka_unit_test(batches_go_first),
        cmocka_unit_test(it_runs_so_long_that_who_comes_meanwhile_is_in_time),
        cmocka_unit_test(who_fell_silent_does_not_limit_it_for_long),
        cmocka_unit_test(it_is_over_when_who_waits_for_company_may_start),
        cmocka_unit_test(models_take_turns_by_how_long_theirs_has_run),
        cmocka_unit_test(accelerators_that_run_best_effort_count_as_free),
        cmocka_unit_test(accelerators_are_kept_from_it_when_it_was_in_the_way),
        cmocka_unit_test(accelerators_are_kept_for_longer_while_requests_are_lost),
        cmocka_unit_test(what_is_down_takes_its_best_effort_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
