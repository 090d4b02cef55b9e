/* test_model_classes.c - priorities and best effort in one model's queue, with a policy that starts batches at once.
 *
 * Time in these tests is in units of 1 ns; l(b) = 10*b + 20. */
#include <stdlib.h>
#include <string.h>

#include "sched/core/model_core.h"
#include "unit/sched/core/plain_policy.h"
#include "unit/sched/core/request_digits.h"
#include "unit/test.h"

#define CAPACITY 2048
#define BATCH    8

struct fixture {
    struct model_core *core;
    struct profile *profile;
    struct request_pool pool;
    struct request_node nodes[CAPACITY];
    struct model_output out;
};

static struct fixture *fixture_with(struct model_core_config config) {
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->profile = malloc(profile_bytes(BATCH));
    assert_non_null(f->profile);
    profile_set_line(f->profile, BATCH, 10, 20);
    config.types = 1;
    config.profiles[0] = f->profile;
    config.batch_max = BATCH;
    config.slo_ns = 200;
    config.policy = &policy_plain;
    f->core = malloc(model_core_bytes(&config));
    assert_non_null(f->core);
    request_pool_init(&f->pool, f->nodes, CAPACITY);
    target = 1;
    admit = true;
    memset(f->core, 0xff, model_core_bytes(&config));
    model_core_init(f->core, &config, &f->pool);
    return f;
}

static struct fixture *fixture_new(void) {
    return fixture_with((struct model_core_config){0});
}

static void fixture_free(struct fixture *f) {
    free(f->profile);
    free(f->core);
    free(f);
}

static void say(struct fixture *f, int64_t now_ns, enum model_event_kind kind, uint64_t handle, uint8_t priority,
                int64_t deadline_ns) {
    struct request_message message = {
        .handle = handle, .arrival_ns = now_ns, .deadline_ns = deadline_ns, .items = 1, .priority = priority};
    model_core_step(f->core, now_ns, &(struct model_event){.kind = kind, .request = &message}, &f->out);
}

static void arrive(struct fixture *f, int64_t now_ns, uint64_t handle, uint8_t priority, int64_t deadline_ns) {
    say(f, now_ns, MODEL_ARRIVED, handle, priority, deadline_ns);
}

static void grant(struct fixture *f, int64_t now_ns, struct grant_message message) {
    message.kind = GRANT_ACCELERATOR;
    model_core_step(f->core, now_ns, &(struct model_event){.kind = MODEL_GRANTED, .grant = &message}, &f->out);
}

static void timer(struct fixture *f, int64_t now_ns) {
    model_core_step(f->core, now_ns, &(struct model_event){.kind = MODEL_TIMER}, &f->out);
}

static void target_set(struct fixture *f, int64_t now_ns, uint32_t items) {
    struct grant_message message = {.kind = GRANT_PARAMETERS, .admit_share = 1};
    target = items;
    model_core_step(f->core, now_ns, &(struct model_event){.kind = MODEL_PARAMETERS, .grant = &message}, &f->out);
}

/* The handles of a list as digits: 123 for 1, 2, 3. */
static int handles(struct fixture *f, uint32_t node) {
    return request_digits(&f->pool, f->nodes, node);
}

/* ---- priorities ---- */

TEST(all_that_fits_runs_together_in_deadline_order) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 2, 150);
    arrive(f, 0, 2, 0, 170);
    arrive(f, 0, 3, 1, 160);
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 150 - 50); /* the earliest deadline binds */
    grant(f, 100, (struct grant_message){0});
    assert_int_equal(handles(f, f->out.batch), 132);
    assert_true(model_core_idle(f->core));
    fixture_free(f);
}

TEST(of_more_than_a_batch_the_higher_priorities_go_first) {
    struct fixture *f = fixture_new();
    for (uint64_t i = 1; i <= 6; i++)
        arrive(f, 0, i, 1, 400);
    for (uint64_t i = 7; i <= 9; i++)
        arrive(f, 0, i, 0, 500); /* later and with more time */
    assert_int_equal(model_core_items(f->core, 0), BATCH);
    grant(f, 380 - 80, (struct grant_message){0});
    assert_int_equal(handles(f, f->out.batch), 12345789);
    grant(f, 300, (struct grant_message){0});
    assert_int_equal(f->out.batch, REQUEST_NONE); /* 6 may still wait for company */
    fixture_free(f);
}

/* 1 has time for two only; with both of the others it would be late, and they go first. */
TEST(a_lower_priority_does_not_make_a_batch_smaller) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 1, 40);
    arrive(f, 0, 2, 0, 400);
    assert_int_equal(model_core_items(f->core, 0), 2);
    arrive(f, 0, 3, 0, 400);
    assert_int_equal(model_core_items(f->core, 0), 2);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 400 - 40);
    grant(f, 360, (struct grant_message){0});
    assert_int_equal(handles(f, f->out.refused), 1); /* it waited for another accelerator, in vain */
    assert_int_equal(handles(f, f->out.batch), 23);
    fixture_free(f);
}

/* The target is four: what is lower is dropped for it, what is higher only when it cannot make it with its like. */
TEST(the_window_drop_spares_the_higher_priority) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 0, 100);
    for (uint64_t i = 2; i <= 5; i++)
        arrive(f, 0, i, 1, i == 2 ? 100 : 300);
    target_set(f, 0, 4);
    assert_int_equal(model_core_items(f->core, 0), 5);
    timer(f, 41); /* four take 60 */
    assert_int_equal(handles(f, f->out.refused), 2);
    assert_int_equal(model_core_items(f->core, 0), 3); /* 1 and who has time to come along */
    timer(f, 70);
    assert_int_equal(model_core_items(f->core, 0), 1);
    grant(f, 70, (struct grant_message){0});
    assert_int_equal(handles(f, f->out.batch), 1);
    fixture_free(f);
}

TEST(who_is_not_admitted_takes_the_place_of_a_lower_priority) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 1, 300);
    arrive(f, 0, 2, 2, 300);
    admit = false;
    arrive(f, 0, 3, 0, 300);
    assert_int_equal(handles(f, f->out.refused), 2);
    assert_int_equal(model_core_items(f->core, 0), 2);
    arrive(f, 0, 4, 1, 300); /* nobody is lower */
    assert_int_equal(handles(f, f->out.refused), 4);
    assert_int_equal(model_core_items(f->core, 0), 2);
    grant(f, 260, (struct grant_message){0});
    assert_int_equal(handles(f, f->out.batch), 31);
    fixture_free(f);
}

TEST(a_request_of_any_priority_can_be_cancelled) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 1, 300);
    arrive(f, 0, 2, 0, 300);
    arrive(f, 0, 3, PRIORITY_BEST_EFFORT, 9000);
    say(f, 1, MODEL_CANCELLED, 1, 1, 300);
    assert_int_equal(handles(f, f->out.refused), 1);
    say(f, 1, MODEL_CANCELLED, 3, PRIORITY_BEST_EFFORT, 9000);
    assert_int_equal(handles(f, f->out.refused), 3);
    say(f, 1, MODEL_CANCELLED, 2, 0, 300);
    assert_int_equal(handles(f, f->out.refused), 2);
    assert_true(model_core_idle(f->core));
    fixture_free(f);
}

TEST(nobody_waits_for_company_longer_than_the_configuration_says) {
    struct fixture *f = fixture_with((struct model_core_config){.wait_ns = 25});
    arrive(f, 10, 1, 0, 300);
    for (uint32_t level = 0; level < SUPPLY_LEVELS; level++)
        assert_int_equal(f->out.candidates[0].start_ns[level], 35);
    arrive(f, 20, 2, 0, 50); /* its own time is up before */
    assert_int_equal(f->out.candidates[0].start_ns[0], 50 - 40);
    fixture_free(f);
}

/* ---- best effort ---- */

TEST(best_effort_is_no_candidate_and_runs_when_it_is_granted) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, PRIORITY_BEST_EFFORT, 9000);
    assert_true(f->out.candidate_changed);
    assert_false(candidate_any(&f->out.candidates[0]));
    assert_true(f->out.candidates[0].best_effort_run_ns > 0);
    assert_int_equal(f->out.candidates[0].best_effort_run_ns, 30);
    assert_int_equal(f->out.wake_ns, 9000 - 30 + 1);
    assert_false(f->out.rates_changed);
    grant(f, 5, (struct grant_message){0});
    assert_int_equal(f->out.batch, REQUEST_NONE);
    grant(f, 5, (struct grant_message){.best_effort = true, .run_ns = 29});
    assert_int_equal(f->out.batch, REQUEST_NONE); /* there is no time for it */
    grant(f, 5, (struct grant_message){.best_effort = true, .run_ns = 30});
    assert_int_equal(handles(f, f->out.batch), 1);
    assert_int_equal(f->out.candidates[0].best_effort_run_ns, 0);
    fixture_free(f);
}

/* The SLO is 200: an ordinary batch takes 100, eight items. */
TEST(best_effort_runs_no_longer_than_it_may) {
    struct fixture *f = fixture_new();
    for (uint64_t i = 0; i < 20; i++)
        arrive(f, 0, i, PRIORITY_BEST_EFFORT, 9000);
    grant(f, 0, (struct grant_message){.best_effort = true, .run_ns = 59});
    assert_int_equal(f->out.batch_items, 3);
    grant(f, 0, (struct grant_message){.best_effort = true, .run_ns = 1000});
    assert_int_equal(f->out.batch_items, 8);
    assert_int_equal(f->out.batch_run_ns, 100);
    fixture_free(f);
}

TEST(best_effort_has_a_batch_of_its_own) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, PRIORITY_BEST_EFFORT, 9000);
    arrive(f, 0, 2, 0, 300);
    grant(f, 270,
          (struct grant_message){.best_effort = true, .run_ns = 1000}); /* meanwhile 2 may start: it goes first */
    assert_int_equal(handles(f, f->out.batch), 2);
    grant(f, 270, (struct grant_message){.best_effort = true, .run_ns = 1000});
    assert_int_equal(handles(f, f->out.batch), 1);
    fixture_free(f);
}

TEST(best_effort_that_found_no_gap_is_refused) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, PRIORITY_BEST_EFFORT, 1000);
    timer(f, 970);
    assert_int_equal(f->out.refused, REQUEST_NONE);
    timer(f, 971);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_DEADLINE);
    assert_int_equal(handles(f, f->out.refused), 1);
    assert_int_equal(f->out.candidates[0].best_effort_run_ns, 0);
    fixture_free(f);
}

TEST(best_effort_does_not_wait_for_accelerators_to_come_back) {
    struct fixture *f = fixture_with((struct model_core_config){.delays = 1});
    struct grant_message message = {.kind = GRANT_PARAMETERS, .admit_share = 1, .parameters.type_share = {1}};
    struct model_event parameters = {.kind = MODEL_PARAMETERS, .grant = &message};
    model_core_step(f->core, 0, &parameters, &f->out);
    arrive(f, 0, 1, PRIORITY_BEST_EFFORT, 9000);
    arrive(f, 0, 2, 0, 100);
    message.parameters.type_share[0] = 0; /* the last one has left */
    model_core_step(f->core, 1, &parameters, &f->out);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_STRANDED);
    assert_int_equal(handles(f, f->out.refused), 1);
    arrive(f, 2, 3, PRIORITY_BEST_EFFORT, 9000);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_STRANDED);
    assert_int_equal(handles(f, f->out.refused), 3);
    timer(f, 81); /* late, and best effort from now on */
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_STRANDED);
    assert_int_equal(handles(f, f->out.refused), 2);
    assert_true(model_core_idle(f->core));
    fixture_free(f);
}

TEST(so_much_best_effort_may_wait_and_no_more) {
    struct fixture *f = fixture_new();
    for (uint64_t i = 0; i < BEST_EFFORT_MAX; i++) {
        arrive(f, 0, i, PRIORITY_BEST_EFFORT, 9000);
        assert_int_equal(f->out.refused, REQUEST_NONE);
    }
    arrive(f, 0, 7, PRIORITY_BEST_EFFORT, 9000);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_BEST_EFFORT_FULL);
    arrive(f, 0, 8, 0, 300); /* others are not hindered */
    assert_int_equal(f->out.refused, REQUEST_NONE);
    fixture_free(f);
}

TEST(what_may_be_delayed_is_best_effort_instead_of_refused) {
    struct fixture *f = fixture_with((struct model_core_config){.delays = 1u << 1});
    arrive(f, 0, 1, 0, 100);
    arrive(f, 0, 2, 1, 100);
    timer(f, 81);
    assert_int_equal(handles(f, f->out.refused), 1);
    assert_true(f->out.candidates[0].best_effort_run_ns > 0);
    arrive(f, 90, 3, 1, 100); /* hopeless when it comes */
    assert_int_equal(f->out.refused, REQUEST_NONE);
    say(f, 91, MODEL_CANCELLED, 3, 1, 100);
    assert_int_equal(handles(f, f->out.refused), 3);
    grant(f, 95, (struct grant_message){.best_effort = true, .run_ns = 1000});
    assert_int_equal(handles(f, f->out.batch), 2);
    fixture_free(f);
}
