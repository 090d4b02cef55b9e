/* test_model_tables.c - a model's latency tables: types of accelerators, corrections, limits of its batches. */
#include "unit/sched/core/model_fixture.h"

TEST(a_type_with_no_accelerator_in_service_does_not_count) {
    script_reset();
    struct fixture *f =
        fixture_with((struct model_core_config){.types = 2, .profiles = {line(10, 20), line(20, 40)}, .slo_ns = 1000});
    struct grant_message message = {.kind = GRANT_PARAMETERS, .admit_share = 1};
    struct model_event parameters = {.kind = MODEL_PARAMETERS, .grant = &message};
    arrive(f, 0, 1, 100, 1);
    message.parameters.type_share[1] = 1; /* only slow ones: l(1) = 60 */
    step(f, 1, parameters);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], TIME_NEVER);
    assert_int_equal(f->out.candidates[1].invalid_after_ns, 40);
    timer(f, 41);
    assert_int_equal(handles(f, f->out.refused), 1);
    arrive(f, 50, 2, 105, 1); /* hopeless on what there is */
    assert_int_equal(handles(f, f->out.refused), 2);
    message.parameters.type_share[1] = 0; /* nothing at all: something may come back */
    step(f, 60, parameters);
    arrive(f, 60, 3, 200, 1);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 170);
    assert_int_equal(f->out.candidates[1].invalid_after_ns, 140);
    timer(f, 171);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_STRANDED);
    assert_int_equal(handles(f, f->out.refused), 3);
    fixture_free(f);
}

TEST(fits_are_averaged_over_accelerators) {
    script_reset();
    struct fixture *f =
        fixture_with((struct model_core_config){.types = 2, .profiles = {line(10, 20), line(20, 40)}, .slo_ns = 1000});
    struct grant_message message = {
        .kind = GRANT_PARAMETERS, .admit_share = 1, .parameters.type_share = {0.75f, 0.25f}};
    step(f, 0, (struct model_event){.kind = MODEL_PARAMETERS, .grant = &message});
    bool reported = false;
    for (int64_t now = 0; !reported; now += NS_PER_MS) {
        arrive(f, now, 1, now + 1000, 1);
        reported = f->out.rates_changed;
        handles(f, f->out.refused);
        grant(f, now, 0);
        reported |= f->out.rates_changed;
        handles(f, f->out.batch);
    }
    /* three quarters are twice as fast, and so run six items of seven */
    assert_true(f->out.rates.alpha_ns > 11.42 && f->out.rates.alpha_ns < 11.44);
    assert_true(f->out.rates.beta_ns > 22.8 && f->out.rates.beta_ns < 22.9);
    fixture_free(f);
}

TEST(measured_runs_correct_the_table_when_learning) {
    script_reset();
    struct fixture *f =
        fixture_with((struct model_core_config){.types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .learn = true});
    arrive(f, 0, 1, 500, 1);
    struct ran_message ran = {.items = 1, .run_ns = 60};
    for (int i = 0; i < 10; i++)
        step(f, i, (struct model_event){.kind = MODEL_RAN, .ran = &ran});
    assert_int_equal(model_core_profile(f->core, 0)->latency_ns[1], 60);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 500 - 60);
    fixture_free(f);
}

/* The first run on each accelerator takes a hundred times as long: what comes next is not refused for that. */
TEST(a_slow_first_run_refuses_nobody) {
    script_reset();
    struct fixture *f = fixture_with((struct model_core_config){
        .types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .learn = true, .accelerators = 3});
    for (uint32_t a = 0; a < 3; a++) {
        struct ran_message ran = {.items = 1, .accelerator = a, .run_ns = 3000};
        step(f, a, (struct model_event){.kind = MODEL_RAN, .ran = &ran});
        arrive(f, 10, 1, 10 + 31, 1);
        assert_quiet(f);
        cancel(f, 10, 1, 10 + 31);
        handles(f, f->out.refused);
    }
    fixture_free(f);
}

/* Runs that are measured before the first parameters do not say that no accelerator is in service. */
TEST(nothing_is_stranded_before_the_first_parameters) {
    script_reset();
    struct fixture *f =
        fixture_with((struct model_core_config){.types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .learn = true});
    struct grant_message message = {.kind = GRANT_PARAMETERS, .admit_share = 1};
    struct ran_message ran = {.items = 1, .run_ns = 60};
    for (int i = 0; i < 10; i++)
        step(f, i, (struct model_event){.kind = MODEL_RAN, .ran = &ran});
    struct request_message request = {
        .handle = 1, .arrival_ns = 10, .deadline_ns = 9000, .items = 1, .priority = PRIORITY_BEST_EFFORT};
    step(f, 10, (struct model_event){.kind = MODEL_ARRIVED, .request = &request});
    assert_quiet(f);
    step(f, 11, (struct model_event){.kind = MODEL_PARAMETERS, .grant = &message}); /* they say so, of all types */
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_STRANDED);
    assert_int_equal(handles(f, f->out.refused), 1);
    fixture_free(f);
}

/* Corrections that refuse what the profile would not are taken back when nothing runs; what the profile refuses, too,
 * is no reason to. */
TEST(only_what_the_profile_allows_takes_corrections_back) {
    script_reset();
    struct fixture *f =
        fixture_with((struct model_core_config){.types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .learn = true});
    struct ran_message ran = {.items = 1, .run_ns = 60};
    for (int i = 0; i < 10; i++)
        step(f, i, (struct model_event){.kind = MODEL_RAN, .ran = &ran});
    int64_t now = NS_PER_MS;
    for (int i = 0; i < 40; i++, now += 100 * NS_PER_MS) {
        arrive(f, now, 1, now + 29, 1);
        handles(f, f->out.refused);
    }
    assert_int_equal(model_core_profile(f->core, 0)->latency_ns[1], 60);
    for (int i = 0; i < 40; i++, now += 100 * NS_PER_MS) {
        arrive(f, now, 1, now + 40, 1);
        handles(f, f->out.refused);
    }
    assert_in_range(model_core_profile(f->core, 0)->latency_ns[1], 30, 40);
    fixture_free(f);
}

/* Ten requests a second for `seconds`. A request that is not refused runs at once, for run_ns. Returns how many ran. */
static int ran_of_requests(struct fixture *f, int64_t *now_ns, int seconds, int64_t run_ns) {
    int count = 0;
    for (int i = 0; i < 10 * seconds; i++, *now_ns += 100 * NS_PER_MS) {
        arrive(f, *now_ns, 1, *now_ns + 100, 1);
        if (handles(f, f->out.refused))
            continue;
        grant(f, *now_ns, 0);
        handles(f, f->out.batch);
        struct ran_message ran = {.items = 1, .run_ns = run_ns, .late = run_ns > 100};
        step(f, *now_ns + run_ns, (struct model_event){.kind = MODEL_RAN, .ran = &ran});
        count++;
    }
    return count;
}

/* Runs that really are too long (of a shape of which the profile says too little, say) are tried ever less often: each
 * delays the requests of other models. When they are short enough again, they are found out, and all is as before. */
TEST(long_runs_are_tried_ever_less_often) {
    script_reset();
    struct fixture *f =
        fixture_with((struct model_core_config){.types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .learn = true});
    int64_t now_ns = 0;
    ran_of_requests(f, &now_ns, 60, 600);
    assert_in_range(ran_of_requests(f, &now_ns, 60, 600), 1, 12);
    ran_of_requests(f, &now_ns, 20, 30);
    assert_int_equal(ran_of_requests(f, &now_ns, 10, 30), 100);
    ran_of_requests(f, &now_ns, 1, 600);
    ran_of_requests(f, &now_ns, 3, 30); /* a short trouble is over soon */
    assert_int_equal(ran_of_requests(f, &now_ns, 10, 30), 100);
    fixture_free(f);
}

/* Items that each request asks a batch to have at most (0: any). */
static void arrive_asking(struct fixture *f, int64_t now_ns, uint64_t handle, uint16_t batch_most) {
    struct request_message request = {
        .handle = handle, .arrival_ns = now_ns, .deadline_ns = 1000 * NS_PER_MS, .items = 1, .batch_most = batch_most};
    step(f, now_ns, (struct model_event){.kind = MODEL_ARRIVED, .request = &request});
}

/* As large as the request of the last 10 ms wants that wants the largest. */
TEST(requests_may_ask_for_small_batches) {
    struct fixture *f = fixture_of(&policy_strict);
    target(f, 0, 1);
    for (int k = 1; k <= 3; k++)
        arrive_asking(f, 0, (uint64_t)k, (uint16_t)(k == 2 ? 2 : 1));
    assert_int_equal(model_core_items(f->core, 0), 3); /* from the next tick on */
    timer(f, 11 * NS_PER_MS);
    assert_int_equal(model_core_items(f->core, 0), 2);
    timer(f, 40 * NS_PER_MS); /* none came in the ticks since */
    assert_int_equal(model_core_items(f->core, 0), 2);
    arrive_asking(f, 41 * NS_PER_MS, 4, 0);
    arrive_asking(f, 41 * NS_PER_MS, 5, 1);
    timer(f, 55 * NS_PER_MS);
    assert_int_equal(model_core_items(f->core, 0), 5);
    fixture_free(f);
}

/* Slow runs of more than two items say nothing about the model's nature, even when the limits are set anew. */
TEST(limits_are_those_of_the_profile) {
    script_reset();
    struct fixture *f = fixture_with((struct model_core_config){
        .types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .learn = true, .policy = &policy_strict});
    target(f, 0, 1);
    for (uint32_t items = 1; items <= BATCH; items++)
        for (int i = 0; i < 10; i++) {
            struct ran_message ran = {.items = items, .run_ns = items > 2 ? 10000 : 20 + 10 * items};
            step(f, 0, (struct model_event){.kind = MODEL_RAN, .ran = &ran});
        }
    assert_int_equal(profile_batch_cheapest(model_core_profile(f->core, 0)), 2);
    arrive_asking(f, 0, 1, 2);
    timer(f, 11 * NS_PER_MS);
    for (uint64_t k = 2; k <= 5; k++)
        arrive_asking(f, 12 * NS_PER_MS, k, 0);
    timer(f, 25 * NS_PER_MS);
    assert_int_equal(model_core_items(f->core, 0), 5);
    fixture_free(f);
}
