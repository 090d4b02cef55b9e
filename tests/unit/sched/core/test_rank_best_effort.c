/* test_rank_best_effort.c - who gets accelerators for best effort, when, and for how long. Time is a number; models and
 * executors are played by hand. */
#include <stdlib.h>

#include "sched/core/rank_core.h"
#include "unit/sched/core/rank_told.h"
#include "unit/test.h"

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
    memset(f.core, 0xff, rank_core_bytes(&config));
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

/* The model has so many requests a second with this SLO, of which one takes 30. */
static void rates(struct fixture *f, int64_t now_ns, uint32_t model, double slo_ns, double rate) {
    struct model_rates rates = {
        .at_ns = now_ns, .rate = rate, .slo_ns = slo_ns, .weight = 1, .batch_best = 1, .alpha_ns = 10, .beta_ns = 20};
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

TEST(an_idle_accelerator_runs_best_effort) {
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

TEST(batches_go_first) {
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

/* So long as the tightest SLO leaves beside one run; half of that on the only accelerator. */
TEST(it_runs_so_long_that_who_comes_meanwhile_is_in_time) {
    for (uint32_t accelerators = 1; accelerators <= 2; accelerators++) {
        struct fixture f = fixture_new(accelerators);
        rates(&f, 0, 0, 1030, 1e4);
        rates(&f, 10 * NS_PER_MS, 1, 430, 1e4); /* takes effect with the next parameters */
        candidate(&f, 20 * NS_PER_MS, 2, best_effort(30));
        assert_best_effort(&f, 2, 0);
        assert_int_equal(f.out.grants[0].run_ns, 200 * accelerators);
        answer(&f, 20 * NS_PER_MS, 2, 0, 30, candidate_none());
        ended(&f, 20 * NS_PER_MS + 30, 0);
        candidate(&f, 20 * NS_PER_MS + 30, 3, best_effort(500)); /* one request may always run */
        assert_best_effort(&f, 3, 0);
        assert_int_equal(f.out.grants[0].run_ns, 500);
        free(f.core);
    }
}

/* A model's rate falls in silence by e every two seconds. It took 24 minutes until that was no number any more, and all
 * the while best effort ran in batches short enough for who did not come. */
TEST(who_fell_silent_limits_it_less_and_less) {
    struct fixture f = fixture_new(2);
    rates(&f, 0, 0, 430, 1e4);
    int64_t before_ns = 400;
    for (int64_t second = 1; second <= 60; second++) {
        int64_t now = second * NS_PER_S;
        rank_core_step(f.core, now, &(struct rank_event){.kind = RANK_TIMER}, &f.out);
        candidate(&f, now, 2, best_effort(30));
        assert_best_effort(&f, 2, 0);
        int64_t run_ns = f.out.grants[0].run_ns;
        if (second <= 2) /* 3700 a second: more than one in a thousand runs of 400 ns */
            assert_int_equal(run_ns, 400);
        else
            assert_true(run_ns > before_ns);
        before_ns = run_ns;
        answer(&f, now, 2, 0, 30, candidate_none());
        ended(&f, now + 30, 0);
    }
    assert_true(before_ns > 3600 * NS_PER_S);
    free(f.core);
}

TEST(it_is_over_when_who_waits_for_company_may_start) {
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

TEST(models_take_turns_by_how_long_theirs_has_run) {
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
TEST(accelerators_that_run_best_effort_count_as_free) {
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

/* One standard deviation of the demand, at most half; half, too, while requests are lost. */
TEST(accelerators_are_kept_from_it) {
    static const struct {
        uint32_t accelerators, way, run;
        double demand;
    } cases[] = {
        {.accelerators = 1, .demand = 1, .run = 1},           {.accelerators = 2, .demand = 0.1, .run = 1},
        {.accelerators = 4, .demand = 1, .run = 3},           {.accelerators = 4, .demand = 4, .run = 2},
        {.accelerators = 16, .demand = 0, .run = 16},         {.accelerators = 16, .demand = 0.1, .run = 15},
        {.accelerators = 16, .demand = 8, .run = 13},         {.accelerators = 16, .demand = 16, .run = 12},
        {.accelerators = 1, .way = 1, .demand = 1, .run = 1}, {.accelerators = 16, .way = 2, .demand = 4, .run = 8},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture f = fixture_new(cases[i].accelerators);
        rank_core_step(f.core, 0, &(struct rank_event){.kind = RANK_WAY, .way = cases[i].way}, &f.out);
        rates(&f, 0, 0, NS_PER_S, cases[i].demand * NS_PER_S / 30);
        rank_core_step(f.core, 10 * NS_PER_MS, &(struct rank_event){.kind = RANK_TIMER}, &f.out);
        candidate(&f, 10 * NS_PER_MS, 2, best_effort(30));
        for (uint32_t a = 0; a < cases[i].run; a++) {
            assert_best_effort(&f, 2, a);
            answer(&f, 10 * NS_PER_MS, 2, a, 30, best_effort(30));
        }
        assert_nothing(&f);
        free(f.core);
    }
}

TEST(what_is_down_takes_its_best_effort_along) {
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
