/* test_model_rates.c - what a model says of its rates and losses, and when. */
#include "core/util/rng.h"
#include "histories.h"
#include "unit/sched/core/model_fixture.h"

#define STEPS 3000

TEST(rates_are_reported_once_a_tick_while_requests_come) {
    struct fixture *f = fixture_new();
    int64_t now = 1000, reports = 0;
    for (int i = 0; i < 1000; i++, now += NS_PER_MS) {
        arrive(f, now, 1, now + 500, 2);
        reports += f->out.rates_changed;
        grant(f, now, 0);
        reports += f->out.rates_changed;
        handles(f, f->out.batch);
    }
    assert_int_equal(reports, 99);
    arrive(f, now, 1, now + 500, 2);
    handles(f, f->out.refused);
    if (!f->out.rates_changed)
        fail_msg("no report at the end of a tick");
    assert_true(f->out.rates.rate > 1980 && f->out.rates.rate < 2020); /* items */
    assert_true(f->out.rates.rate_fast > 1980 && f->out.rates.rate_fast < 2020);
    assert_true(f->out.rates.slo_ns > 499 && f->out.rates.slo_ns < 501);
    assert_true(f->out.rates.weight == 1);
    assert_true(f->out.rates.bad_rate == 0);
    assert_int_equal(f->out.rates.at_ns, now);
    /* silence: the rank core decays it by itself */
    timer(f, now + 100 * NS_PER_MS);
    timer(f, now + 200 * NS_PER_MS);
    assert_false(f->out.rates_changed);
    fixture_free(f);
}

/* Until the end of a tick of the rates is reported. */
static void rates_await(struct fixture *f, int64_t now_ns) {
    for (int i = 0; i < 20; i++, now_ns += NS_PER_MS) {
        arrive(f, now_ns, 1, now_ns + 500, 1);
        bool reported = f->out.rates_changed;
        cancel(f, now_ns, 1, now_ns + 500);
        handles(f, f->out.refused);
        if (reported)
            return;
        assert_false(f->out.rates_changed);
    }
    fail_msg("the rates are not reported");
}

/* Of two requests one runs, and the other is refused or cancelled in turn. */
static double bad_rate_after(int pairs) {
    struct fixture *f = fixture_new();
    int64_t now = 0;
    for (int i = 0; i < pairs; i++, now += NS_PER_MS) {
        arrive(f, now, 1, now + 500, 1);
        if (i % 2)
            timer(f, now + 480);
        else
            cancel(f, now, 1, now + 500);
        handles(f, f->out.refused);
        arrive(f, now + 500, 2, now + 1000, 1);
        grant(f, now + 500, 0);
        handles(f, f->out.batch);
    }
    rates_await(f, now);
    double rate = f->out.rates.bad_rate;
    assert_true(f->out.rates.dropped_rate == rate);
    fixture_free(f);
    return rate;
}

TEST(the_bad_rate_counts_refusals_but_no_cancellations) {
    double rate = bad_rate_after(4000);
    assert_true(rate > 0.30 && rate < 0.34); /* one of three */
}

TEST(the_first_requests_tell_the_bad_rate_soon) {
    double rate = bad_rate_after(200);
    assert_true(rate > 0.19 && rate < 0.21); /* 100 of 300, and 200 good ones before them */
}

TEST(the_bad_rate_counts_late_runs) {
    struct fixture *f = fixture_new();
    int64_t now = 0;
    for (int i = 0; i < 20000; i++, now += NS_PER_MS) {
        arrive(f, now, 1, now + 500, 1);
        grant(f, now, 0);
        handles(f, f->out.batch);
        struct ran_message ran = {.items = 1, .late = i % 4 == 0, .run_ns = i % 8 ? 30 : 0}; /* 0: too late to be run */
        step(f, now + 100, (struct model_event){.kind = MODEL_RAN, .ran = &ran});
    }
    rates_await(f, now);
    assert_true(f->out.rates.bad_rate > 0.24 && f->out.rates.bad_rate < 0.27);
    assert_true(f->out.rates.dropped_rate < 0.02); /* those of the last tick */
    fixture_free(f);
}

/* Its best effort runs half of its SLO at most: a client that asked for little time, and is gone, no longer counts. */
TEST(in_silence_the_mean_slo_goes_back_to_the_usual_one) {
    struct fixture *f = fixture_new(); /* 1000 */
    int64_t now = 1000;
    for (int i = 0; i < 1000; i++, now += NS_PER_MS) {
        arrive(f, now, 1, now + 100, 1);
        grant(f, now, 0);
        handles(f, f->out.batch);
    }
    struct request_message message = {.handle = 2, .items = 1, .priority = PRIORITY_BEST_EFFORT};
    for (int minute = 0; minute <= 1; minute++) {
        now += minute * 60 * NS_PER_S;
        for (message.handle = 0; message.handle < 8; message.handle++) {
            message.deadline_ns = now + 100000;
            step(f, now, (struct model_event){.kind = MODEL_ARRIVED, .request = &message});
        }
        struct grant_message best_effort = {.kind = GRANT_ACCELERATOR, .best_effort = true, .run_ns = NS_PER_S};
        step(f, now, (struct model_event){.kind = MODEL_GRANTED, .grant = &best_effort});
        assert_int_equal(f->out.batch_items, minute ? 8 : 3); /* l(3) = 50 */
        handles(f, f->out.batch);
    }
    fixture_free(f);
}

/* Deadlines that are over, that no run is short enough for, and more items than any batch has: refused, and as if they
 * had never come. */
TEST(what_nothing_could_serve_steers_nothing) {
    struct fixture *f = fixture_new();
    int64_t now = 1000;
    for (int i = 0; i < 1000; i++, now += NS_PER_MS) {
        arrive(f, now, 1, now + 500, 2);
        grant(f, now, 0);
        handles(f, f->out.batch);
        arrive(f, now, 2, now - 100 * NS_PER_MS, 1);
        assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_DEADLINE);
        assert_int_equal(handles(f, f->out.refused), 2);
        arrive(f, now, 3, now + 29, 1); /* l(1) = 30 */
        assert_int_equal(handles(f, f->out.refused), 3);
        arrive(f, now, 4, now + 500, BATCH + 1);
        assert_int_equal(handles(f, f->out.refused), 4);
    }
    rates_await(f, now);
    assert_true(f->out.rates.rate > 1900 && f->out.rates.rate < 2020);
    assert_true(f->out.rates.slo_ns > 499 && f->out.rates.slo_ns < 501);
    assert_true(f->out.rates.bad_rate == 0);
    /* one that has to queue has an SLO long enough to count */
    arrive(f, now + 20 * NS_PER_MS, 5, now + 20 * NS_PER_MS + 30, 1);
    assert_quiet(f);
    fixture_free(f);
}

/* A core that puts all parameters in force at once, and one that leaves them to the next event while nothing waits. */
TEST(parameters_that_come_in_silence_are_in_force_for_the_next_request) {
    for (uint64_t seed = histories_first(), end = seed + histories_count(20); seed < end; seed++) {
        struct fixture *cores[] = {fixture_of(&policy_deferred), fixture_of(&policy_deferred)};
        struct rng rng;
        uint32_t waited = 0;
        int64_t now = 0;
        rng_seed(&rng, seed);
        for (uint64_t i = 1; i <= STEPS; i++) {
            now += (int64_t)rng_below(&rng, rng_below(&rng, 2) ? 40 * NS_PER_MS : 100);
            uint64_t what = rng_below(&rng, 8);
            uint32_t items = 1 + (uint32_t)rng_below(&rng, 2);
            int64_t deadline = now + 100 + (int64_t)rng_below(&rng, 400);
            struct grant_message message = {
                .kind = GRANT_PARAMETERS,
                .admit_share = 1 - rng_uniform(&rng) / 2,
                .parameters = {.gamma = rng_uniform(&rng),
                               .theta = rng_uniform(&rng),
                               .loss = rng_uniform(&rng) / 100,
                               .rounds = 1 + 9 * rng_uniform(&rng),
                               .rounds_plain = 1 + 9 * rng_uniform(&rng),
                               .tau_ns = 50 * rng_uniform(&rng),
                               .accelerators = 4,
                               .type_share = {1},
                               .way = rng_below(&rng, 3)},
            };
            for (uint32_t c = 0; c < 2; c++) {
                struct fixture *f = cores[c];
                if (what < 4)
                    step(f, now, (struct model_event){.kind = MODEL_PARAMETERS, .grant = &message});
                else if (what < 7)
                    arrive(f, now, i % 1000 + 1, deadline, items);
                else
                    grant(f, now, 0);
                handles(f, f->out.refused);
                handles(f, f->out.batch);
                if (what < 4 && c == 1)
                    step(f, now, (struct model_event){.kind = MODEL_SETTLED});
            }
            const struct model_output *late = &cores[0]->out, *soon = &cores[1]->out;
            const struct candidate *a = late->candidates, *b = soon->candidates;
            waited += late->candidate_changed && a->start_ns[SUPPLY_SCARCE] > now;
            if (model_core_queued(cores[0]->core) != model_core_queued(cores[1]->core) ||
                late->wake_ns != soon->wake_ns ||
                (late->candidate_changed && (llabs(a->start_ns[SUPPLY_SCARCE] - b->start_ns[SUPPLY_SCARCE]) > 1 ||
                                             llabs(a->order_ns - b->order_ns) > 1)))
                fail_msg("seed %d, step %d: they differ", (int)seed, (int)i);
        }
        assert_true(waited > 0);
        fixture_free(cores[0]);
        fixture_free(cores[1]);
    }
}
