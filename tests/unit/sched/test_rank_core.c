/* test_rank_core.c - who gets which accelerator, and when. Time is a number; models and executors are played by hand.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/rank_core.h"
#include "unit/cmocka_all.h"
#include "unit/sched/rank_told.h"

#define MODELS 4

struct fixture {
    struct rank_core *core;
    struct rank_output out;
    uint32_t types;
};

static uint32_t derived; /* calls of the test policy */
static struct cluster_view derived_from;
static struct model_rates derived_rates[MODELS];

static void test_derive(const struct cluster_view *cluster, const struct policy_options *options,
                        struct cluster_parameters *parameters, double *admit_share) {
    (void)options;
    derived++;
    derived_from = *cluster;
    memcpy(derived_rates, cluster->rates, cluster->models * sizeof(*derived_rates));
    parameters->gamma = 0.5;
    admit_share[1] = 0.25;
}

static const struct policy_ops policy_plain = {.name = "plain"};
static const struct policy_ops policy_deriving = {.name = "deriving", .cluster_derive = test_derive};

static struct fixture fixture_of(uint32_t accelerators, const uint8_t *accelerator_type, uint32_t types,
                                 const struct policy_ops *policy) {
    struct policy_options options = {{0}};
    struct rank_core_config config = {.models = MODELS,
                                      .accelerators = accelerators,
                                      .accelerator_type = accelerator_type,
                                      .types = types,
                                      .policy = policy,
                                      .policy_options = &options};
    struct fixture f = {.core = malloc(rank_core_bytes(&config)), .types = types};
    assert_non_null(f.core);
    rank_core_init(f.core, &config);
    return f;
}

static struct fixture fixture_new(uint32_t accelerators) {
    static const uint8_t types[16];
    return fixture_of(accelerators, types, 1, &policy_plain);
}

static void send(struct fixture *f, int64_t now_ns, struct rank_message message) {
    rank_told(f->core, now_ns, message, NULL, 0, &f->out);
}

static struct candidate candidate_at(int64_t start_ns, int64_t invalid_after_ns) {
    return (struct candidate){{start_ns, start_ns, start_ns}, invalid_after_ns, invalid_after_ns, {{0}}};
}

static const struct candidate none = {{TIME_NEVER, TIME_NEVER, TIME_NEVER}, 0, TIME_NEVER, {{0}}};

static void candidate(struct fixture *f, int64_t now_ns, uint32_t model, struct candidate c) {
    rank_told_candidate(f->core, now_ns, model, c, &f->out);
}

static void answer(struct fixture *f, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items,
                   struct candidate next) {
    rank_told_answer(f->core, now_ns, model, (struct rank_answer){.accelerator = accelerator, .items = items}, next,
                     f->types, &f->out);
}

static void ended(struct fixture *f, int64_t now_ns, uint32_t accelerator) {
    rank_told_end(f->core, now_ns, accelerator, 0, false, &f->out);
}

static void event(struct fixture *f, int64_t now_ns, enum rank_event_kind kind, uint32_t accelerator) {
    rank_core_step(f->core, now_ns, &(struct rank_event){.kind = kind, .accelerator = accelerator}, &f->out);
}

static void timer(struct fixture *f, int64_t now_ns) {
    event(f, now_ns, RANK_TIMER, 0);
}

#define assert_granted(f, model_, accelerator_)                                                                        \
    do {                                                                                                               \
        assert_int_equal((f)->out.grant_count, 1);                                                                     \
        assert_int_equal((f)->out.grants[0].model, model_);                                                            \
        assert_int_equal((f)->out.grants[0].accelerator, accelerator_);                                                \
    } while (0)
#define assert_nothing(f) assert_int_equal((f)->out.grant_count, 0)

/* Gives every accelerator to model 0 in turn, so that they are busy. */
static void make_busy(struct fixture *f, uint32_t accelerators) {
    for (uint32_t a = 0; a < accelerators; a++) {
        candidate(f, 0, 0, candidate_at(0, 100));
        assert_granted(f, 0, a);
        answer(f, 0, 0, a, 1, none);
        assert_nothing(f);
    }
}

static void an_accelerator_waits_until_a_candidate_may_start(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 2, candidate_at(50, 90));
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 50);
    timer(&f, 49);
    assert_nothing(&f);
    timer(&f, 50);
    assert_granted(&f, 2, 0);
    free(f.core);
}

/* Of sixteen accelerators, half are ample, and two are scarce. */
static void when_a_candidate_may_start_depends_on_how_many_are_free(void **state) {
    (void)state;
    struct fixture f = fixture_new(16);
    struct candidate c = candidate_at(0, 90);
    c.start_ns[SUPPLY_SCARCE] = 50;
    c.start_ns[SUPPLY_SCARCE + 1] = 30;
    make_busy(&f, 8);
    candidate(&f, 1, 2, c); /* eight are free */
    assert_granted(&f, 2, 8);
    assert_int_equal(f.out.grants[0].supply, SUPPLY_AMPLE);
    answer(&f, 1, 2, 8, 1, c); /* seven are */
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 30);
    ended(&f, 2, 3); /* and eight again */
    assert_granted(&f, 2, 3);
    answer(&f, 2, 2, 3, 1, c);
    timer(&f, 30);
    assert_granted(&f, 2, 9);
    assert_int_equal(f.out.grants[0].supply, SUPPLY_SCARCE + 1);
    answer(&f, 30, 2, 9, 1, none);
    for (uint32_t a = 10; a < 14; a++) {
        candidate(&f, 31, 1, candidate_at(0, 90));
        assert_granted(&f, 1, a);
        answer(&f, 31, 1, a, 1, none);
    }
    candidate(&f, 32, 2, c); /* two are left */
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 50);
    timer(&f, 50);
    assert_granted(&f, 2, 14);
    assert_int_equal(f.out.grants[0].supply, SUPPLY_SCARCE);
    free(f.core);
}

static void levels_of_supply_go_by_parts(void **state) {
    (void)state;
    static const struct {
        uint32_t free, up, level;
    } cases[] = {
        {1, 1, 0}, {1, 2, 0}, {2, 2, 2}, {2, 4, 2}, {2, 5, 1}, {2, 16, 0}, {3, 16, 1}, {8, 16, 2}, {125, 1000, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(supply_level(cases[i].free, cases[i].up), cases[i].level);
        double free = cases[i].free, counted = supply_share(cases[i].level, cases[i].up) * cases[i].up;
        assert_true(counted <= (cases[i].level == SUPPLY_SCARCE + 1 ? 2 : 1) * free); /* what a policy counts on */
    }
}

/* Trap: past-due times must fire at once, not be lost. */
static void a_candidate_whose_time_is_past_starts_at_once(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    candidate(&f, 70, 1, candidate_at(20, 90));
    assert_granted(&f, 1, 0);
    free(f.core);
}

/* Trap: ordering by the time a candidate became ready, which for a late one is its last update. */
static void the_candidate_with_the_earliest_latest_start_is_first(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    make_busy(&f, 1);
    candidate(&f, 1, 1, candidate_at(2, 90));
    candidate(&f, 2, 2, candidate_at(3, 80));
    candidate(&f, 3, 3, candidate_at(3, 85));
    ended(&f, 10, 0);
    assert_granted(&f, 2, 0);
    answer(&f, 10, 2, 0, 1, none);
    ended(&f, 11, 0);
    assert_granted(&f, 3, 0);
    answer(&f, 11, 3, 0, 1, none);
    ended(&f, 12, 0);
    assert_granted(&f, 1, 0);
    free(f.core);
}

static void of_several_due_at_once_the_earliest_latest_start_is_first(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 1, candidate_at(20, 90));
    candidate(&f, 0, 2, candidate_at(20, 80));
    timer(&f, 20);
    assert_granted(&f, 2, 0);
    free(f.core);
}

/* Trap: the earliest-free accelerator is the longest idle one; load would never consolidate. */
static void the_lowest_numbered_free_accelerator_is_taken(void **state) {
    (void)state;
    struct fixture f = fixture_new(3);
    make_busy(&f, 3);
    ended(&f, 5, 2);
    ended(&f, 6, 0);
    ended(&f, 7, 1);
    candidate(&f, 8, 1, candidate_at(8, 90));
    assert_granted(&f, 1, 0);
    free(f.core);
}

static void a_candidate_past_its_latest_start_is_not_granted(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    make_busy(&f, 1);
    candidate(&f, 1, 1, candidate_at(1, 30));
    candidate(&f, 1, 2, candidate_at(1, 60));
    ended(&f, 31, 0);
    assert_granted(&f, 2, 0);
    /* and it is not thrown away for good: its model core sends the next one */
    answer(&f, 31, 2, 0, 1, none);
    candidate(&f, 32, 1, candidate_at(1, 70));
    ended(&f, 33, 0);
    assert_granted(&f, 1, 0);
    free(f.core);
}

/* Trap: a granted accelerator was still in the map, and was granted again or emptied the candidates. */
static void an_accelerator_is_granted_once_until_it_is_free_again(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 1, candidate_at(0, 90));
    assert_granted(&f, 1, 0);
    candidate(&f, 1, 2, candidate_at(0, 90));
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, TIME_NEVER); /* nothing to wake for: no accelerator */
    timer(&f, 5);
    assert_nothing(&f);
    answer(&f, 6, 1, 0, 3, none);
    assert_nothing(&f);
    assert_int_equal(rank_core_accelerators_busy(f.core), 1);
    ended(&f, 20, 0);
    assert_granted(&f, 2, 0); /* the candidate is still there */
    free(f.core);
}

/* Trap: between a grant and its answer candidates are stale; acting on one would give the model two accelerators. */
static void candidates_between_grant_and_answer_are_ignored(void **state) {
    (void)state;
    struct fixture f = fixture_new(2);
    candidate(&f, 0, 1, candidate_at(0, 90));
    assert_granted(&f, 1, 0);
    candidate(&f, 1, 1, candidate_at(0, 95));
    assert_nothing(&f);
    answer(&f, 2, 1, 0, 4, candidate_at(40, 99)); /* the newest comes with the answer */
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 40);
    timer(&f, 40);
    assert_granted(&f, 1, 1);
    free(f.core);
}

static void an_answer_may_bring_a_candidate_that_starts_at_once(void **state) {
    (void)state;
    struct fixture f = fixture_new(2);
    candidate(&f, 0, 1, candidate_at(0, 90));
    answer(&f, 1, 1, 0, 4, candidate_at(0, 99));
    assert_granted(&f, 1, 1);
    free(f.core);
}

/* Trap: a batch that would start in the future idles its accelerator; its model gives the accelerator back. */
static void an_accelerator_given_back_goes_to_the_next(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    make_busy(&f, 1);
    candidate(&f, 0, 1, candidate_at(0, 80));
    candidate(&f, 0, 2, candidate_at(5, 90));
    ended(&f, 10, 0);
    assert_granted(&f, 1, 0);
    answer(&f, 11, 1, 0, 0, candidate_at(70, 95));
    assert_granted(&f, 2, 0);
    answer(&f, 12, 2, 0, 0, none);
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 70);
    assert_int_equal(rank_core_accelerators_busy(f.core), 0);
    free(f.core);
}

static void giving_back_does_not_go_round_in_one_instant(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    struct candidate stubborn = candidate_at(0, 90); /* says it is ready, and gives the accelerator back all the same */
    candidate(&f, 10, 1, stubborn);
    for (int i = 0; i < 3; i++) {
        assert_granted(&f, 1, 0);
        answer(&f, 10 + i, 1, 0, 0, stubborn);
        assert_nothing(&f);
        assert_int_equal(f.out.wake_ns, 11 + i); /* not this instant, but not forgotten */
        timer(&f, 11 + i);
    }
    answer(&f, 13, 1, 0, 1, none);

    struct candidate left = none; /* the same with leftovers */
    candidate_leftovers_set(&left, 90);
    candidate(&f, 14, 2, left);
    ended(&f, 15, 0);
    assert_granted(&f, 2, 0);
    answer(&f, 15, 2, 0, 0, left);
    assert_nothing(&f);
    free(f.core);
}

/* Executor and model thread write to different rings: a short batch may end before the answer is read. */
static void an_end_that_overtakes_its_answer_is_not_lost(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 1, candidate_at(0, 90));
    candidate(&f, 0, 2, candidate_at(0, 95));
    assert_int_equal(f.out.grant_count, 0);
    ended(&f, 3, 0);
    assert_nothing(&f); /* not before the answer: the model may have given it back */
    answer(&f, 4, 1, 0, 1, none);
    assert_granted(&f, 2, 0);
    free(f.core);
}

static void leftovers_run_when_nothing_else_is_ready(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    make_busy(&f, 1);
    struct candidate left = none, later = candidate_at(5, 90);
    candidate_leftovers_set(&left, 60);
    candidate(&f, 1, 1, left);
    candidate_leftovers_set(&left, 40);
    candidate(&f, 1, 3, left);
    candidate(&f, 1, 2, later);
    ended(&f, 10, 0);
    assert_granted(&f, 2, 0);
    assert_false(f.out.grants[0].leftovers);
    answer(&f, 10, 2, 0, 1, none);
    ended(&f, 20, 0);
    assert_granted(&f, 3, 0); /* of leftovers too, the earliest latest start */
    assert_true(f.out.grants[0].leftovers);
    answer(&f, 20, 3, 0, 1, none);
    ended(&f, 61, 0);
    assert_nothing(&f); /* model 1's are too late */
    free(f.core);
}

/* What its share set aside on an idle server must not wait for an accelerator to become free. */
static void leftovers_start_on_an_accelerator_that_is_free_already(void **state) {
    (void)state;
    struct fixture f = fixture_new(2);
    struct candidate left = none, both = candidate_at(50, 90);
    candidate_leftovers_set(&left, 60);
    candidate(&f, 1, 1, left);
    assert_granted(&f, 1, 0);
    assert_true(f.out.grants[0].leftovers);
    candidate_leftovers_set(&both, 60);
    candidate(&f, 50, 2, both);
    assert_granted(&f, 2, 1); /* its own batch goes first */
    assert_false(f.out.grants[0].leftovers);
    free(f.core);
}

/* Who waits for company would want the accelerator that leftovers take. */
static void leftovers_leave_accelerators_to_those_who_wait_for_company(void **state) {
    (void)state;
    struct fixture f = fixture_new(2);
    struct candidate left = none;
    make_busy(&f, 2);
    candidate_leftovers_set(&left, 60);
    candidate(&f, 1, 1, left);
    candidate(&f, 1, 2, candidate_at(50, 90));
    ended(&f, 10, 0);
    assert_nothing(&f);
    ended(&f, 11, 1); /* another is free: one is enough for one who waits */
    assert_granted(&f, 1, 0);
    assert_true(f.out.grants[0].leftovers);
    free(f.core);
}

static void down_and_up(void **state) {
    (void)state;
    struct fixture f = fixture_new(2);
    event(&f, 0, RANK_ACCELERATOR_DOWN, 0); /* while free */
    candidate(&f, 1, 1, candidate_at(0, 90));
    assert_granted(&f, 1, 1);
    candidate(&f, 1, 2, candidate_at(0, 90));
    event(&f, 2, RANK_ACCELERATOR_DOWN, 1); /* while granted: the grant stands */
    answer(&f, 3, 1, 1, 1, none);
    assert_nothing(&f);
    ended(&f, 10, 1); /* its batch may still end, but it gets no other */
    assert_nothing(&f);
    assert_int_equal(rank_core_accelerators_busy(f.core), 0);
    event(&f, 20, RANK_ACCELERATOR_UP, 1);
    assert_granted(&f, 2, 1);
    answer(&f, 20, 2, 1, 1, none);
    candidate(&f, 20, 3, candidate_at(0, 90));
    event(&f, 21, RANK_ACCELERATOR_DOWN, 1); /* while busy */
    event(&f, 22, RANK_ACCELERATOR_UP, 1);   /* back, but its batch has not ended */
    assert_nothing(&f);
    ended(&f, 30, 1);
    assert_granted(&f, 3, 1);
    event(&f, 31, RANK_ACCELERATOR_UP, 1); /* twice is once */
    assert_nothing(&f);
    free(f.core);
}

static void a_model_gets_the_type_it_asks_for(void **state) {
    (void)state;
    static const uint8_t types[] = {0, 1, 1};
    struct fixture f = fixture_of(3, types, 2, &policy_plain);
    struct candidate candidates[] = {none, candidate_at(0, 90)};
    struct rank_event told = {.kind = RANK_CANDIDATES, .model = 1, .candidates = candidates};
    rank_core_step(f.core, 0, &told, &f.out);
    assert_granted(&f, 1, 1);
    assert_int_equal(f.out.grants[0].type, 1);
    /* on both types due: the lowest-numbered accelerator of either */
    told.model = 2;
    candidates[0] = candidate_at(0, 95);
    rank_core_step(f.core, 1, &told, &f.out);
    assert_granted(&f, 2, 0);
    assert_int_equal(f.out.grants[0].type, 0);
    /* one grant a model, though an accelerator of the other type is free */
    told.model = 1;
    rank_core_step(f.core, 2, &told, &f.out);
    assert_nothing(&f);
    free(f.core);
}

static void more_grants_than_one_step_may_give_follow_at_once(void **state) {
    (void)state;
    uint32_t models = RANK_GRANTS_MAX + 6;
    uint8_t *types = calloc(models, 1);
    struct rank_core_config config = {
        .models = models, .accelerators = models, .accelerator_type = types, .types = 1, .policy = &policy_plain};
    struct fixture f = {.core = malloc(rank_core_bytes(&config)), .types = 1};
    rank_core_init(f.core, &config);
    for (uint32_t m = 0; m < models; m++)
        candidate(&f, 0, m, candidate_at(10, 90));
    timer(&f, 10);
    assert_int_equal(f.out.grant_count, RANK_GRANTS_MAX);
    assert_int_equal(f.out.wake_ns, 10);
    timer(&f, 10);
    assert_int_equal(f.out.grant_count, 6);
    assert_true(f.out.wake_ns > 10);
    free(f.core);
    free(types);
}

static void parameters_follow_the_rates_at_most_every_10_ms(void **state) {
    (void)state;
    static const uint8_t types[2];
    struct fixture f = fixture_of(2, types, 1, &policy_deriving);
    derived = 0;
    timer(&f, 0);
    assert_true(f.out.parameters_changed);
    struct rank_message rates = {.kind = RANK_RATES, .model = 1};
    rates.rates = (struct model_rates){.at_ns = 1,
                                       .rate = 100,
                                       .rate_fast = 200,
                                       .arrivals_fast = 50,
                                       .batch_best = 4,
                                       .alpha_ns = 1e6,
                                       .beta_ns = 4e6,
                                       .thread_busy = 0.5};
    send(&f, 1, rates);
    assert_false(f.out.parameters_changed);
    assert_int_equal(derived, 1);
    timer(&f, 10 * NS_PER_MS);
    assert_true(f.out.parameters_changed);
    assert_int_equal(derived, 2);
    assert_true(derived_from.accelerators == 2);
    assert_true(derived_rates[1].rate == 100 && derived_rates[1].arrivals_fast == 50);
    struct grant_message message;
    rank_core_parameters(f.core, 1, &message);
    assert_int_equal(message.kind, GRANT_PARAMETERS);
    assert_true(message.admit_share == 0.25 && message.parameters.gamma == 0.5 &&
                message.parameters.thread_busy == 0.5);
    rank_core_parameters(f.core, 2, &message);
    assert_true(message.admit_share == 1);
    /* 100/s of 1 + 4/4 ms each: a fifth of an accelerator */
    assert_true(rank_core_accelerators_needed(f.core) > 0.1999 && rank_core_accelerators_needed(f.core) < 0.2001);
    free(f.core);
}

/* Without it a batch that waits for company would wait out its SLO after the company has gone. */
static void parameters_are_derived_anew_while_a_batch_waits_beside_a_free_accelerator(void **state) {
    (void)state;
    static const uint8_t types[1];
    struct fixture f = fixture_of(1, types, 1, &policy_deriving);
    timer(&f, 0);
    assert_true(f.out.wake_ns == TIME_NEVER); /* an idle server sleeps */
    candidate(&f, 1, 2, candidate_at(NS_PER_S, 2 * NS_PER_S));
    assert_int_equal(f.out.wake_ns, 10 * NS_PER_MS);
    timer(&f, 10 * NS_PER_MS);
    assert_true(f.out.parameters_changed);
    assert_int_equal(f.out.wake_ns, 20 * NS_PER_MS);
    candidate(&f, 11 * NS_PER_MS, 2, none);
    assert_true(f.out.wake_ns == TIME_NEVER);
    free(f.core);
}

static double busy_part(const struct fixture *f) {
    struct grant_message message;
    rank_core_parameters(f->core, 0, &message);
    return message.parameters.busy;
}

/* One of two accelerators runs 6 ms of every 10. */
static void how_busy_accelerators_are_is_told(void **state) {
    (void)state;
    static const uint8_t types[2];
    struct fixture f = fixture_of(2, types, 1, &policy_deriving);
    int64_t now = 0;
    timer(&f, now);
    assert_true(busy_part(&f) == 0);
    for (; now < 10 * NS_PER_S; now += 10 * NS_PER_MS) {
        candidate(&f, now, 0, candidate_at(now, INT64_MAX - 1));
        assert_granted(&f, 0, 0);
        int64_t end = now + 6 * NS_PER_MS;
        rank_told_answer(f.core, now, 0, (struct rank_answer){.items = 1, .end_ns = end, .run_ns = 6 * NS_PER_MS}, none,
                         1, &f.out);
        rank_told_end(f.core, end, 0, end, false, &f.out);
    }
    timer(&f, now);
    assert_true(busy_part(&f) > 0.29 && busy_part(&f) < 0.3);
    timer(&f, now + 2 * NS_PER_S);
    assert_true(busy_part(&f) > 0.29 / 2.72 && busy_part(&f) < 0.3 / 2.71);
    free(f.core);
}

static void a_silent_models_rates_decay_and_down_accelerators_do_not_count(void **state) {
    (void)state;
    static const uint8_t types[2];
    struct fixture f = fixture_of(2, types, 1, &policy_deriving);
    struct rank_message rates = {.kind = RANK_RATES, .model = 1};
    rates.rates = (struct model_rates){.at_ns = 0, .rate = 100, .rate_fast = 200, .arrivals_fast = 50, .batch_best = 1};
    send(&f, 0, rates);
    event(&f, 2 * NS_PER_S, RANK_ACCELERATOR_DOWN, 1);
    assert_true(derived_rates[1].rate > 36.78 && derived_rates[1].rate < 36.79); /* 100/e */
    assert_true(derived_rates[1].rate_fast < 1e-5 && derived_rates[1].arrivals_fast < 1e-5);
    assert_true(derived_from.accelerators == 1);
    free(f.core);
}

static void models_are_told_at_once_which_types_are_in_service(void **state) {
    (void)state;
    static const uint8_t types[] = {0, 1, 1, 1};
    struct fixture f = fixture_of(4, types, 2, &policy_deriving);
    struct grant_message message;
    timer(&f, 0);
    rank_core_parameters(f.core, 0, &message);
    assert_true(message.parameters.type_share[0] == 0.25f && message.parameters.type_share[1] == 0.75f);
    event(&f, 1, RANK_ACCELERATOR_DOWN, 0); /* not only 10 ms later */
    assert_true(f.out.parameters_changed);
    rank_core_parameters(f.core, 0, &message);
    assert_true(message.parameters.type_share[0] == 0 && message.parameters.type_share[1] == 1);
    event(&f, 2, RANK_ACCELERATOR_UP, 0);
    assert_true(f.out.parameters_changed);
    rank_core_parameters(f.core, 0, &message);
    assert_true(message.parameters.type_share[0] == 0.25f);
    free(f.core);
}

/* Models 1 and 3 run on type 0 only and load it more than the others load type 1. */
static void parameters_are_those_of_the_accelerators_that_a_model_may_have(void **state) {
    (void)state;
    static const uint8_t types[] = {0, 1, 1, 1};
    struct fixture f = fixture_of(4, types, 2, &policy_deriving);
    struct grant_message message;
    for (uint32_t m = 0; m < MODELS; m++)
        send(&f, 0,
             (struct rank_message){
                 .kind = RANK_RATES,
                 .model = m,
                 .rates = {.rate = 100 + m, .batch_best = 1, .alpha_ns = 1e6, .runs_on = 1 + !(m & 1)}});
    derived = 0;
    timer(&f, 10 * NS_PER_MS);
    assert_int_equal(derived, 2); /* of the last: */
    assert_true(derived_from.accelerators == 3 && derived_from.models == 2);
    assert_true(derived_rates[0].rate == 100 && derived_rates[1].rate == 102);
    for (uint32_t m = 0; m < MODELS; m++) {
        rank_core_parameters(f.core, m, &message);
        assert_true(message.parameters.gamma == 0.5 && message.parameters.accelerators == 4);
        assert_true(message.parameters.type_share[0] == 0.25f);
        assert_true(message.admit_share == (m < 2 ? 1 : 0.25)); /* the second of each class */
    }
    assert_true(rank_core_accelerators_needed(f.core) > 0.4059 && rank_core_accelerators_needed(f.core) < 0.4061);
    event(&f, 11 * NS_PER_MS, RANK_ACCELERATOR_DOWN, 0);
    assert_true(derived_from.accelerators == 3);
    free(f.core);
}

/* ---- ahead of time ---- */

/* One accelerator to which a batch takes 10. */
static struct fixture fixture_ahead(void) {
    static const uint8_t types[1];
    struct rank_core_config config = {.models = MODELS,
                                      .accelerators = 1,
                                      .accelerator_type = types,
                                      .types = 1,
                                      .ctrl_ns = 10,
                                      .policy = &policy_plain};
    struct fixture f = {.core = malloc(rank_core_bytes(&config)), .types = 1};
    assert_non_null(f.core);
    rank_core_init(f.core, &config);
    return f;
}

/* A batch is sealed that will run from `begin_ns` for 100. */
static void sealed(struct fixture *f, int64_t now_ns, uint32_t model, int64_t begin_ns, struct candidate next) {
    rank_told_answer(f->core, now_ns, model,
                     (struct rank_answer){.items = 1, .sealed_ns = now_ns, .end_ns = begin_ns + 100, .run_ns = 100},
                     next, 1, &f->out);
}

static void ran_until(struct fixture *f, int64_t now_ns, int64_t ended_ns) {
    rank_told_end(f->core, now_ns, 0, ended_ns, false, &f->out);
}

static void a_batch_is_sealed_while_the_one_before_it_runs(void **state) {
    (void)state;
    struct fixture f = fixture_ahead();
    candidate(&f, 0, 0, candidate_at(0, 1000));
    assert_granted(&f, 0, 0);
    assert_true(f.out.grants[0].free_ns == INT64_MIN);
    sealed(&f, 0, 0, 10, candidate_at(0, 1000));
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 100); /* 10 before it ends at 110 */
    timer(&f, 99);
    assert_nothing(&f);
    assert_int_equal(rank_core_accelerators_free(f.core), 0);
    timer(&f, 100);
    assert_granted(&f, 0, 0);
    assert_int_equal(f.out.grants[0].free_ns, 110);
    sealed(&f, 100, 0, 110, candidate_at(0, 1000));
    /* two are enough, however late the first one is */
    timer(&f, 205);
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, TIME_NEVER);
    /* the second began when the first one ended */
    ran_until(&f, 230, 230);
    assert_nothing(&f);
    assert_true(f.out.wake_ns > 230 && f.out.wake_ns < 330);
    free(f.core);
}

/* When the next batch may be sealed after one of 100 that took 300. */
static int64_t offered_after(bool unlike) {
    struct fixture f = fixture_ahead();
    candidate(&f, 0, 0, candidate_at(0, 1000));
    sealed(&f, 0, 0, 10, candidate_at(0, 1000));
    rank_told_end(f.core, 310, 0, 310, unlike, &f.out);
    assert_granted(&f, 0, 0);
    sealed(&f, 310, 0, 310, candidate_at(0, 10000));
    assert_nothing(&f);
    free(f.core);
    return f.out.wake_ns;
}

static void a_batch_that_did_not_run_as_others_do_says_nothing_of_the_pace(void **state) {
    (void)state;
    assert_true(offered_after(true) < offered_after(false));
}

static void what_ends_before_it_was_due_is_free_at_once(void **state) {
    (void)state;
    struct fixture f = fixture_ahead();
    candidate(&f, 0, 0, candidate_at(0, 1000));
    sealed(&f, 0, 0, 10, candidate_at(0, 1000));
    ran_until(&f, 52, 50);
    assert_granted(&f, 0, 0);
    assert_true(f.out.grants[0].free_ns == INT64_MIN);
    assert_int_equal(rank_core_accelerators_busy(f.core), 1);
    free(f.core);
}

static void ends_while_the_next_is_being_sealed_are_told_apart(void **state) {
    (void)state;
    struct fixture f = fixture_ahead();
    candidate(&f, 0, 0, candidate_at(0, 1000));
    sealed(&f, 0, 0, 10, candidate_at(0, 1000));
    timer(&f, 100);
    assert_granted(&f, 0, 0);
    ran_until(&f, 105, 105); /* the first */
    assert_nothing(&f);
    ran_until(&f, 107, 107); /* the second: a short one that overtook its answer */
    assert_nothing(&f);
    sealed(&f, 108, 0, 110, candidate_at(0, 1000));
    assert_granted(&f, 0, 0);
    assert_true(f.out.grants[0].free_ns == INT64_MIN);
    sealed(&f, 109, 0, 119, none);
    ran_until(&f, 219, 219);
    assert_int_equal(rank_core_accelerators_busy(f.core), 0);
    assert_int_equal(rank_core_accelerators_free(f.core), 1);
    free(f.core);
}

static void nobody_is_woken_for_an_offer_that_nobody_wants(void **state) {
    (void)state;
    struct fixture f = fixture_ahead();
    candidate(&f, 0, 0, candidate_at(0, 1000));
    sealed(&f, 0, 0, 10, none);
    assert_int_equal(f.out.wake_ns, TIME_NEVER);
    /* who comes later finds it free as if it had been before: what is only ready waits for its time */
    candidate(&f, 105, 1, candidate_at(108, 1000));
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 108);
    timer(&f, 108);
    assert_granted(&f, 1, 0);
    assert_int_equal(f.out.grants[0].free_ns, 110);
    free(f.core);
}

static void what_runs_faster_than_its_table_is_offered_earlier(void **state) {
    (void)state;
    struct fixture f = fixture_ahead();
    int64_t now = 0;
    candidate(&f, now, 0, candidate_at(0, 1000000));
    for (int i = 0; i < 200; i++) { /* each takes 60 instead of 100 */
        assert_granted(&f, 0, 0);
        sealed(&f, now, 0, now + 10, none);
        now += 70;
        ran_until(&f, now, now);
        candidate(&f, now, 0, candidate_at(now, 1000000));
    }
    sealed(&f, now, 0, now + 10, candidate_at(now, 1000000));
    assert_in_range(f.out.wake_ns, now + 50, now + 61); /* 10 before 70, less a little for the hops that were seen */
    free(f.core);
}

static void the_load_is_what_batches_take_and_not_what_tables_allow(void **state) {
    (void)state;
    struct fixture f = fixture_of(1, (const uint8_t[]){0}, 1, &policy_deriving);
    int64_t now = 0;
    send(&f, 0,
         (struct rank_message){
             .kind = RANK_RATES, .model = 0, .rates = {.rate = 1e9, .batch_best = 2, .alpha_ns = 0.1, .beta_ns = 0.6}});
    candidate(&f, 0, 0, candidate_at(0, INT64_MAX - 1));
    for (int i = 0; i < 200; i++) { /* each takes 75 instead of 100 */
        sealed(&f, now, 0, now, none);
        now += 75;
        ran_until(&f, now, now);
        candidate(&f, now, 0, candidate_at(0, INT64_MAX - 1));
    }
    timer(&f, 15 * NS_PER_MS);
    assert_true(derived_rates[0].alpha_ns > 0.0749 && derived_rates[0].alpha_ns < 0.0751);
    assert_true(derived_rates[0].beta_ns > 0.449 && derived_rates[0].beta_ns < 0.451);
    assert_true(rank_core_accelerators_needed(f.core) > 0.299 && rank_core_accelerators_needed(f.core) < 0.301);
    free(f.core);
}

static void a_slow_answer_makes_the_next_offer_earlier(void **state) {
    (void)state;
    struct fixture f = fixture_ahead();
    int64_t now = 0;
    candidate(&f, now, 0, candidate_at(0, 1000000));
    for (int i = 0; i < 500; i++) {
        assert_granted(&f, 0, 0);
        now += 5; /* from the grant to the answer */
        sealed(&f, now, 0, now, none);
        now += 100;
        ran_until(&f, now, now);
        candidate(&f, now, 0, candidate_at(now, 1000000));
    }
    sealed(&f, now, 0, now, candidate_at(now, 1000000));
    assert_in_range(f.out.wake_ns, now + 83, now + 86); /* 10 for the way, 5 for the answer */
    free(f.core);
}

static void what_is_given_back_ahead_is_offered_when_it_is_free(void **state) {
    (void)state;
    struct fixture f = fixture_ahead();
    candidate(&f, 0, 0, candidate_at(0, 1000));
    sealed(&f, 0, 0, 10, candidate_at(0, 1000));
    timer(&f, 100);
    assert_granted(&f, 0, 0);
    answer(&f, 101, 0, 0, 0, candidate_at(0, 1000));
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 110);
    assert_int_equal(rank_core_accelerators_busy(f.core), 1);
    ran_until(&f, 109, 109);
    assert_granted(&f, 0, 0);
    free(f.core);
}

static void what_is_down_is_not_offered_and_is_free_when_it_is_back(void **state) {
    (void)state;
    struct fixture f = fixture_ahead();
    candidate(&f, 0, 0, candidate_at(0, 1000));
    sealed(&f, 0, 0, 10, candidate_at(0, 1000));
    timer(&f, 100);
    sealed(&f, 100, 0, 110, candidate_at(0, 1000));
    event(&f, 150, RANK_ACCELERATOR_DOWN, 0);
    ran_until(&f, 160, 160);
    timer(&f, 300);
    assert_nothing(&f);
    ran_until(&f, 310, 310);
    assert_nothing(&f);
    assert_int_equal(rank_core_accelerators_busy(f.core), 0);
    event(&f, 320, RANK_ACCELERATOR_UP, 0);
    assert_granted(&f, 0, 0);
    free(f.core);
}

/* Found by tests/sim/test_grants.c. */
static void what_is_down_is_not_offered_when_it_is_given_back_ahead(void **state) {
    (void)state;
    struct fixture f = fixture_ahead();
    candidate(&f, 0, 0, candidate_at(0, 1000));
    sealed(&f, 0, 0, 10, candidate_at(0, 1000));
    timer(&f, 100);
    assert_granted(&f, 0, 0);
    event(&f, 100, RANK_ACCELERATOR_DOWN, 0);
    answer(&f, 101, 0, 0, 0, candidate_at(0, 1000));
    timer(&f, 300);
    assert_nothing(&f);
    ran_until(&f, 310, 310);
    assert_nothing(&f);
    assert_int_equal(rank_core_accelerators_free(f.core), 0);
    event(&f, 320, RANK_ACCELERATOR_UP, 0);
    assert_granted(&f, 0, 0);
    free(f.core);
}

/* ---- several sub-clusters ---- */

#define assert_left(f, model_) assert_int_equal((f)->out.left, model_)

static void a_model_leaves_at_once_or_with_its_answer(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 1, candidate_at(50, 90));
    send(&f, 1, (struct rank_message){.kind = RANK_LEAVE, .model = 1});
    assert_left(&f, 1);
    assert_false(rank_core_member(f.core, 1));
    timer(&f, 50);
    assert_nothing(&f); /* its candidate went with it */

    candidate(&f, 51, 2, candidate_at(0, 90));
    assert_granted(&f, 2, 0);
    send(&f, 52, (struct rank_message){.kind = RANK_LEAVE, .model = 2});
    assert_left(&f, RANK_NOBODY);
    answer(&f, 53, 2, 0, 1, candidate_at(0, 90));
    assert_left(&f, 2);
    ended(&f, 60, 0);
    assert_nothing(&f); /* the candidate that the answer brought is for the next rank core */

    struct candidate brought = candidate_at(0, 90);
    rank_told(f.core, 61, (struct rank_message){.kind = RANK_JOIN, .model = 2}, &brought, 1, &f.out);
    assert_int_equal(f.out.joined, 2); /* it should know what holds here */
    assert_granted(&f, 2, 0);
    free(f.core);
}

static void a_sub_cluster_has_its_own_accelerators_and_models(void **state) {
    (void)state;
    static const uint8_t types[3], part_of_accelerator[3] = {0, 1, 0}, part_of_model[MODELS] = {0, 1};
    struct rank_core_config config = {.models = MODELS,
                                      .accelerators = 3,
                                      .accelerator_type = types,
                                      .types = 1,
                                      .policy = &policy_plain,
                                      .part = 1,
                                      .part_of_accelerator = part_of_accelerator,
                                      .part_of_model = part_of_model};
    struct fixture f = {.core = malloc(rank_core_bytes(&config)), .types = 1};
    assert_non_null(f.core);
    rank_core_init(f.core, &config);
    assert_int_equal(rank_core_accelerators_free(f.core), 1);
    candidate(&f, 0, 0, candidate_at(0, 90)); /* another's */
    assert_nothing(&f);
    candidate(&f, 1, 1, candidate_at(0, 90));
    assert_granted(&f, 1, 1);
    free(f.core);
}

/* A first run a hundred times as long as its table says: what the model asks for is not taken to be seven times as
 * much. If all are, it is soon known. */
static void one_slow_run_is_not_the_pace(void **state) {
    (void)state;
    struct fixture f = fixture_new(1);
    struct rank_message rates = {.kind = RANK_RATES,
                                 .rates = {.rate = 1e6, .weight = 1, .batch_best = 1, .alpha_ns = 100, .beta_ns = 100}};
    send(&f, 0, rates);
    int64_t now = NS_PER_S;
    double needed[61];
    for (int i = 0; i <= 60; i++, now += NS_PER_S) {
        rates.rates.at_ns = now;
        send(&f, now, rates);
        needed[i] = rank_core_accelerators_needed(f.core);
        candidate(&f, now, 0, candidate_at(0, now + 100));
        assert_granted(&f, 0, 0);
        rank_told_answer(f.core, now, 0,
                         (struct rank_answer){.items = 1, .sealed_ns = now, .end_ns = now + 200, .run_ns = 200}, none,
                         1, &f.out);
        rank_told_end(f.core, now + 20000, 0, now + 20000, false, &f.out);
    }
    assert_true(needed[0] > 0.19 && needed[0] < 0.21);
    assert_true(needed[1] < 1.1 * needed[0]);
    assert_true(needed[60] > 30 * needed[0]);
    free(f.core);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_accelerator_waits_until_a_candidate_may_start),
        cmocka_unit_test(when_a_candidate_may_start_depends_on_how_many_are_free),
        cmocka_unit_test(levels_of_supply_go_by_parts),
        cmocka_unit_test(a_candidate_whose_time_is_past_starts_at_once),
        cmocka_unit_test(the_candidate_with_the_earliest_latest_start_is_first),
        cmocka_unit_test(of_several_due_at_once_the_earliest_latest_start_is_first),
        cmocka_unit_test(the_lowest_numbered_free_accelerator_is_taken),
        cmocka_unit_test(a_candidate_past_its_latest_start_is_not_granted),
        cmocka_unit_test(an_accelerator_is_granted_once_until_it_is_free_again),
        cmocka_unit_test(candidates_between_grant_and_answer_are_ignored),
        cmocka_unit_test(an_answer_may_bring_a_candidate_that_starts_at_once),
        cmocka_unit_test(an_accelerator_given_back_goes_to_the_next),
        cmocka_unit_test(giving_back_does_not_go_round_in_one_instant),
        cmocka_unit_test(an_end_that_overtakes_its_answer_is_not_lost),
        cmocka_unit_test(leftovers_run_when_nothing_else_is_ready),
        cmocka_unit_test(leftovers_start_on_an_accelerator_that_is_free_already),
        cmocka_unit_test(leftovers_leave_accelerators_to_those_who_wait_for_company),
        cmocka_unit_test(down_and_up),
        cmocka_unit_test(a_model_gets_the_type_it_asks_for),
        cmocka_unit_test(more_grants_than_one_step_may_give_follow_at_once),
        cmocka_unit_test(parameters_follow_the_rates_at_most_every_10_ms),
        cmocka_unit_test(parameters_are_derived_anew_while_a_batch_waits_beside_a_free_accelerator),
        cmocka_unit_test(how_busy_accelerators_are_is_told),
        cmocka_unit_test(a_silent_models_rates_decay_and_down_accelerators_do_not_count),
        cmocka_unit_test(models_are_told_at_once_which_types_are_in_service),
        cmocka_unit_test(parameters_are_those_of_the_accelerators_that_a_model_may_have),
        cmocka_unit_test(a_batch_is_sealed_while_the_one_before_it_runs),
        cmocka_unit_test(a_batch_that_did_not_run_as_others_do_says_nothing_of_the_pace),
        cmocka_unit_test(what_ends_before_it_was_due_is_free_at_once),
        cmocka_unit_test(ends_while_the_next_is_being_sealed_are_told_apart),
        cmocka_unit_test(nobody_is_woken_for_an_offer_that_nobody_wants),
        cmocka_unit_test(what_runs_faster_than_its_table_is_offered_earlier),
        cmocka_unit_test(the_load_is_what_batches_take_and_not_what_tables_allow),
        cmocka_unit_test(a_slow_answer_makes_the_next_offer_earlier),
        cmocka_unit_test(what_is_given_back_ahead_is_offered_when_it_is_free),
        cmocka_unit_test(what_is_down_is_not_offered_and_is_free_when_it_is_back),
        cmocka_unit_test(what_is_down_is_not_offered_when_it_is_given_back_ahead),
        cmocka_unit_test(a_model_leaves_at_once_or_with_its_answer),
        cmocka_unit_test(a_sub_cluster_has_its_own_accelerators_and_models),
        cmocka_unit_test(one_slow_run_is_not_the_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
