/* test_rank_load.c - the load of the sub-cluster, and the parameters derived from it. */
#include "unit/sched/core/rank_rig.h"

TEST(parameters_follow_the_rates_at_most_every_10_ms) {
    static const uint8_t types[2];
    struct fixture f = fixture_of(2, types, 1, &policy_deriving);
    derived = 0;
    timer(&f, 0);
    assert_true(f.out.parameters_changed);
    assert_int_equal(derived_from.models, 0); /* none has reported */
    struct rank_message rates = {.kind = RANK_RATES, .variant = {1}};
    rates.rates = (struct model_rates){.at_ns = 1,
                                       .rate = 100,
                                       .rate_fast = 200,
                                       .arrivals_fast = 50,
                                       .batch_best = 4,
                                       .alpha_ns = 1e6,
                                       .beta_ns = 4e6,
                                       .thread_busy = 0.5};
    send(&f, 1, rates);
    send(&f, 1, (struct rank_message){.kind = RANK_RATES, .rates = {.batch_best = 1}});
    assert_false(f.out.parameters_changed);
    assert_int_equal(derived, 1);
    timer(&f, 10 * NS_PER_MS);
    assert_true(f.out.parameters_changed);
    assert_int_equal(derived, 2);
    assert_true(derived_from.accelerators == 2 && derived_from.models == 2);
    assert_true(derived_rates[1].rate == 100 && derived_rates[1].arrivals_fast == 50);
    struct grant_message message;
    rank_core_parameters(f.core, (struct variant_id){1}, &message);
    assert_int_equal(message.kind, GRANT_PARAMETERS);
    assert_true(message.admit_share == 0.25 && message.parameters.gamma == 0.5 &&
                message.parameters.thread_busy == 0.5);
    rank_core_parameters(f.core, (struct variant_id){2}, &message);
    assert_true(message.admit_share == 1);
    /* 100/s of 1 + 4/4 ms each: a fifth of an accelerator */
    assert_true(rank_core_accelerators_needed(f.core) > 0.1999 && rank_core_accelerators_needed(f.core) < 0.2001);
    free(f.core);
}

/* Without it a batch that waits for company would wait out its SLO after the company has gone. */
TEST(parameters_are_derived_anew_while_a_batch_waits_beside_a_free_accelerator) {
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
    rank_core_parameters(f->core, (struct variant_id){0}, &message);
    return message.parameters.busy;
}

/* One of two accelerators runs 6 ms of every 10. */
TEST(how_busy_accelerators_are_is_told) {
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

TEST(a_silent_models_rates_decay_and_down_accelerators_do_not_count) {
    static const uint8_t types[2];
    struct fixture f = fixture_of(2, types, 1, &policy_deriving);
    struct rank_message rates = {.kind = RANK_RATES, .variant = {1}};
    rates.rates = (struct model_rates){.at_ns = 0, .rate = 100, .rate_fast = 200, .arrivals_fast = 50, .batch_best = 1};
    send(&f, 0, rates);
    event(&f, 2 * NS_PER_S, RANK_ACCELERATOR_DOWN, 1);
    assert_true(derived_rates[0].rate > 36.78 && derived_rates[0].rate < 36.79); /* 100/e */
    assert_true(derived_rates[0].rate_fast < 1e-5 && derived_rates[0].arrivals_fast < 1e-5);
    assert_true(derived_from.accelerators == 1);
    free(f.core);
}

/* In the order of their numbers, whatever the order in which they report. */
TEST(models_that_leave_report_no_more) {
    static const uint8_t types[2];
    struct fixture f = fixture_of(2, types, 1, &policy_deriving);
    for (uint32_t m = MODELS; m-- > 0;)
        send(&f, 0,
             (struct rank_message){.kind = RANK_RATES,
                                   .variant = {m},
                                   .rates = {.at_ns = 10 * NS_PER_MS, .rate = 100 + m, .batch_best = 1}});
    timer(&f, 10 * NS_PER_MS);
    assert_int_equal(derived_from.models, MODELS);
    for (uint32_t m = 0; m < MODELS; m++)
        assert_true(derived_rates[m].rate == 100 + m);
    send(&f, 11 * NS_PER_MS, (struct rank_message){.kind = RANK_LEAVE, .variant = {1}});
    timer(&f, 20 * NS_PER_MS);
    assert_int_equal(derived_from.models, MODELS - 1);
    assert_true(derived_rates[0].rate == 100 && derived_rates[1].rate == 102);
    struct grant_message message;
    rank_core_parameters(f.core, (struct variant_id){1}, &message);
    assert_true(message.admit_share == 1);
    free(f.core);
}

TEST(models_are_told_at_once_by_which_way_the_policy_decides) {
    static const uint8_t types[2];
    struct fixture f = fixture_of(2, types, 1, &policy_deriving);
    struct grant_message message;
    timer(&f, 0);
    rank_core_parameters(f.core, (struct variant_id){0}, &message);
    assert_int_equal(message.parameters.way, 0);
    rank_core_step(f.core, 1, &(struct rank_event){.kind = RANK_WAY, .way = 2}, &f.out); /* not only 10 ms later */
    assert_true(f.out.parameters_changed);
    rank_core_parameters(f.core, (struct variant_id){0}, &message);
    assert_int_equal(message.parameters.way, 2);
    timer(&f, 20 * NS_PER_MS); /* it stays so */
    rank_core_parameters(f.core, (struct variant_id){0}, &message);
    assert_int_equal(message.parameters.way, 2);
    free(f.core);
}

TEST(models_are_told_at_once_which_types_are_in_service) {
    static const uint8_t types[] = {0, 1, 1, 1};
    struct fixture f = fixture_of(4, types, 2, &policy_deriving);
    struct grant_message message;
    timer(&f, 0);
    rank_core_parameters(f.core, (struct variant_id){0}, &message);
    assert_true(message.parameters.type_share[0] == 0.25f && message.parameters.type_share[1] == 0.75f);
    event(&f, 1, RANK_ACCELERATOR_DOWN, 0); /* not only 10 ms later */
    assert_true(f.out.parameters_changed);
    rank_core_parameters(f.core, (struct variant_id){0}, &message);
    assert_true(message.parameters.type_share[0] == 0 && message.parameters.type_share[1] == 1);
    event(&f, 2, RANK_ACCELERATOR_UP, 0);
    assert_true(f.out.parameters_changed);
    rank_core_parameters(f.core, (struct variant_id){0}, &message);
    assert_true(message.parameters.type_share[0] == 0.25f);
    free(f.core);
}

/* Models 1 and 3 run on type 0 only and load it more than the others load type 1. */
TEST(parameters_are_those_of_the_accelerators_that_a_model_may_have) {
    static const uint8_t types[] = {0, 1, 1, 1};
    struct fixture f = fixture_of(4, types, 2, &policy_deriving);
    struct grant_message message;
    for (uint32_t m = 0; m < MODELS; m++)
        send(&f, 0,
             (struct rank_message){
                 .kind = RANK_RATES,
                 .variant = {m},
                 .rates = {.rate = 100 + m, .batch_best = 1, .alpha_ns = 1e6, .runs_on = 1 + !(m & 1)}});
    derived = 0;
    timer(&f, 10 * NS_PER_MS);
    assert_int_equal(derived, 2); /* of the last: */
    assert_true(derived_from.accelerators == 3 && derived_from.models == 2);
    assert_true(derived_rates[0].rate == 100 && derived_rates[1].rate == 102);
    for (uint32_t m = 0; m < MODELS; m++) {
        rank_core_parameters(f.core, (struct variant_id){m}, &message);
        assert_true(message.parameters.gamma == 0.5 && message.parameters.accelerators == 4);
        assert_true(message.parameters.type_share[0] == 0.25f);
        assert_true(message.admit_share == (m < 2 ? 1 : 0.25)); /* the second of each class */
    }
    assert_true(rank_core_accelerators_needed(f.core) > 0.4059 && rank_core_accelerators_needed(f.core) < 0.4061);
    event(&f, 11 * NS_PER_MS, RANK_ACCELERATOR_DOWN, 0);
    assert_true(derived_from.accelerators == 3);
    free(f.core);
}

TEST(the_load_is_what_batches_take_and_not_what_tables_allow) {
    struct fixture f = fixture_of(1, (const uint8_t[]){0}, 1, &policy_deriving);
    int64_t now = 0;
    send(&f, 0,
         (struct rank_message){.kind = RANK_RATES,
                               .variant = {0},
                               .rates = {.rate = 1e9, .batch_best = 2, .alpha_ns = 0.1, .beta_ns = 0.6}});
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

/* A first run a hundred times as long as its table says: what the model asks for is not taken to be seven times as
 * much. If all are, it is soon known. */
TEST(one_slow_run_is_not_the_pace) {
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
    assert_true(needed[60] > 25 * needed[0]);
    free(f.core);
}
