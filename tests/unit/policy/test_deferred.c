/* test_deferred.c - the rules of the policy `deferred`, one by one, against numbers worked by hand. */
#include <stdlib.h>
#include <string.h>

#include "base/fmath.h"
#include "sched/request_pool.h"
#include "unit/policy/policy_fixture.h"

/* ---- a model ---- */

static struct fixture deferred_new(double rate_per_s) {
    struct fixture f = fixture_new(&policy_deferred, rate_per_s);
    f.view.parameters.tau_ns = 0; /* no lead */
    f.view.parameters.accelerators = 8;
    f.view.parameters.busy = 1;
    f.view.parameters.rounds = 1e9; /* the others have time enough */
    f.view.parameters.type_share[0] = 1;
    return f;
}

static double start_ms(const struct fixture *f, uint32_t items, uint32_t level) {
    return (double)times(f, items, false).start_ns[level] / MS;
}

static void the_batch_to_wait_for_follows_the_rate_and_the_slo(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000); /* one a millisecond: (25 - 5 + 1) / (1 + 1) */
    update(&f);
    assert_near(f.view.batch_best, 10.5, 1e-6);
    f.view.rate_per_ns = 0;
    update(&f);
    assert_near(f.view.batch_best, 1, 1e-9);
    f.view.rate_per_ns = 1;
    update(&f);
    assert_near(f.view.batch_best, 16, 1e-4); /* no more than pays */
    f.view.slo_ns = 17 * MS;
    update(&f);
    assert_near(f.view.batch_best, 12, 1e-4); /* nor than the SLO has time for */
    f.view.ctrl_ns = 1000000;
    update(&f);
    assert_near(f.view.batch_best, 11, 1e-4); /* delays included */
    f.view.slo_ns = 3 * MS;
    update(&f);
    assert_near(f.view.batch_best, 1, 1e-9);
    fixture_free(&f);
}

static void a_model_that_hardly_batches_does_not_wait(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    f.view.items_worth = 1;
    update(&f);
    assert_near(f.view.batch_best, 1, 1e-9);
    for (uint32_t level = 0; level < SUPPLY_LEVELS; level++)
        assert_near(start_ms(&f, 1, level), 0, 1e-9);
    fixture_free(&f);
}

static void the_window_drop_aims_at_a_part_of_it(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    update(&f);
    assert_int_equal(f.view.target_items, 5); /* round(0.5 * 10.5) */
    f.view.parameters.tau_ns = 5.3 * MS;      /* more than half of all batches are its own: up rather than down */
    update(&f);
    assert_int_equal(f.view.target_items, 6);
    f.view.parameters.tau_ns = 5.2 * MS;
    update(&f);
    assert_int_equal(f.view.target_items, 5);
    f.view.parameters.gamma = 0.01;
    update(&f);
    assert_int_equal(f.view.target_items, 1);
    f.view.parameters.gamma = 0.95;
    update(&f);
    assert_int_equal(f.view.target_items, 8); /* 0.75 at most: 1 + 3 * 0.505 items less than 0.95 is less than that */
    f.view.parameters.tau_ns = 10.5 * MS;     /* its own: 0.95 less one item, and rounded up: 9.375 */
    update(&f);
    assert_int_equal(f.view.target_items, 9);
    f.view.parameters.tau_ns = 5.2 * MS;
    f.view.parameters.hop_ns = 2.5 * MS; /* ten come while one batch is granted, and a few more */
    update(&f);
    assert_int_equal(f.view.target_items, 10);
    f.view.parameters.hop_ns = 100 * MS;
    update(&f);
    assert_int_equal(f.view.target_items, 16); /* no more than pays */
    f.view.parameters.hop_ns = 0;
    f.view.parameters.gamma = 0.01;
    f.view.slo_ns = 11 * MS; /* one run of 6 ms leaves no time for another: 0.7 * (11 - 5 + 1) / 2 */
    update(&f);
    assert_int_equal(f.view.target_items, 2);
    f.view.slo_ns = 12.1 * MS;
    update(&f);
    assert_int_equal(f.view.target_items, 1);
    fixture_free(&f);
}

/* Trap: between frontrun (dl - l(b+1)) and invalid (dl - l(b)) lies one alpha; few accelerators become free in it. */
static void while_accelerators_are_scarce_a_batch_may_start_lead_before_due(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    f.view.parameters.tau_ns = 1 * MS;
    f.view.parameters.accelerators = 1e6; /* the last one is not worth a request that does not come */
    update(&f);
    /* beta*lambda/b* = 5 * 1 / 10.5; a 10.5th of the batches is its own: the lead is 1 + 3 * 9.5/10.5 times as long */
    double lead_ms = (1 + 3 * 9.5 / 10.5) * fmath_log(2.5 * 10.5 / 5);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 100 - 8 - lead_ms, 1e-4);
    f.view.parameters.theta = 0.125; /* small batches are all that the load asks for: (0.125 / 0.5)^2 of it */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 100 - 8 - lead_ms / 16, 1e-4);
    f.view.parameters.theta = 1;
    f.view.parameters.tau_ns = 10.5 * MS; /* all batches are its own */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 100 - 8 - 12.5, 1e-4); /* half the SLO at most */
    f.view.rate_per_ns = 1e-4;                                         /* loads many accelerators by itself: no lead */
    f.view.items_worth = 2;
    update(&f);
    assert_near(start_ms(&f, 1, SUPPLY_SCARCE), 100 - 7, 1e-4);
    fixture_free(&f);
}

/* With an SLO of a minute nobody waits that long for company: four times the best batch, 4 * (16 + 5) ms. */
static void a_request_waits_no_longer_than_company_is_worth(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    f.view.slo_ns = 60000 * MS;
    f.view.parameters.accelerators = 1e15;
    update(&f);
    struct batch_view batch = {
        .items = 1, .items_most = BATCH_MAX, .head_arrival_ns = 1000, .due_ns = (int64_t)(59000 * MS)};
    struct batch_times t = policy_deferred.batch_times(&f.view, f.own, 0, &batch);
    assert_near((double)t.start_ns[SUPPLY_SCARCE], 1000 + 84 * MS, 100);
    option_set(&f, "consolidate", "true"); /* asks for large batches, whatever the wait */
    update(&f);
    t = policy_deferred.batch_times(&f.view, f.own, 0, &batch);
    for (uint32_t level = 0; level < SUPPLY_LEVELS; level++)
        assert_int_equal(t.start_ns[level], batch.due_ns);
    fixture_free(&f);
}

static void a_batch_that_cannot_grow_starts_at_once(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    update(&f);
    assert_true(start_ms(&f, 5, SUPPLY_SCARCE) > 0);
    assert_int_equal(times(&f, 5, true).start_ns[SUPPLY_SCARCE], 0);
    assert_near(start_ms(&f, BATCH_MAX, SUPPLY_SCARCE), 0, 1e-9);
    fixture_free(&f);
}

/* What the free part `part` of the accelerators is worth to a batch, against a price of 2 and beta of 5 ms: the run of
 * items + 5 ms as often as twice the square of how many runs fit into what is left of the SLO. */
static double worth(double items, double slo_ms, double part) {
    double run_ms = items + 5, runs = (slo_ms - run_ms) / run_ms, rounds = 2 * runs * runs;
    return part * (rounds > 1 ? rounds : 1) * run_ms / (2 * 5);
}

/* How many more come, one each millisecond, when they no longer are: E/(b + 1 + E) = worth. */
static double company_ms(double items, double worth) {
    return worth * (items + 1) / (1 - worth);
}

static void company_is_waited_for_while_it_saves_more_than_free_accelerators_are_worth(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    f.view.parameters.accelerators = 16;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 25, 1.0 / 16)), 1e-4);
    assert_near(start_ms(&f, 2, SUPPLY_AMPLE), 0, 1e-9); /* half of the accelerators are worth 4.6 */
    f.view.parameters.accelerators = 80;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 25, 1.0 / 80)), 1e-4);
    f.view.slo_ns = 10 * MS; /* 3 ms are left: the run itself is all that there is; and it is tight: 0.8 of the price */
    f.view.parameters.loss = 0.0055;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE + 1), 92 - company_ms(2, 7.0 / 4 / 10 / 0.8), 1e-4);
    assert_near(start_ms(&f, 2, SUPPLY_AMPLE), 92 - company_ms(2, 7.0 / 2 / 10 / 0.8), 1e-4);
    assert_near(start_ms(&f, 4, SUPPLY_AMPLE), 0, 1e-9); /* for fewer than would not fit */
    f.view.rate_per_ns = 0;                              /* nobody comes */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_AMPLE), 0, 1e-9);
    fixture_free(&f);
}

/* Under a tight SLO bursts always cost some: 0.15 of the price until 0.35 % of all requests are lost. */
static void company_is_cheap_under_tight_slos_while_little_is_lost(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    f.view.parameters.accelerators = 160;
    f.view.slo_ns = 10 * MS;
    f.view.parameters.loss = 0.0035;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, 7.0 / 160 / 10 / 0.8 / 0.15), 1e-4);
    f.view.parameters.loss = 0.0045;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, 7.0 / 160 / 10 / 0.8 / 0.575), 1e-4);
    f.view.parameters.loss = 0.0035;
    f.view.parameters.thread_busy = 0.6 + fmath_log(5) / 10; /* at 5^3 times the price, 1 - 0.85 of it is 1 - 0.17 */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, 7.0 / 160 / 10 / 0.8 / 0.83 / 125), 1e-4);
    fixture_free(&f);
}

/* A model with time for many runs does not take accelerators from those that have none: 2 * (18 / 7)^2 = 13.2 rounds of
 * its own, 5 in the mean. */
static void free_accelerators_are_worth_no_more_to_a_model_than_to_all(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    f.view.parameters.accelerators = 80;
    f.view.parameters.rounds = 13.3;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 25, 1.0 / 80)), 1e-4);
    f.view.parameters.rounds = 5;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, 5 * 7.0 / 10 / 80), 1e-4);
    f.view.slo_ns = 15 * MS; /* 2 * (8 / 7)^2: less than the mean */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 15, 1.0 / 80)), 1e-4);
    fixture_free(&f);
}

static void company_is_cheap_for_batches_that_the_load_allows(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    f.view.parameters.theta = 0.25; /* from 1 + 0.25 * 9.5 = 3.375 items on */
    f.view.parameters.accelerators = 32;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 25, 1.0 / 32)), 1e-4);
    assert_near(start_ms(&f, 3, SUPPLY_SCARCE), 91 - company_ms(3, worth(3, 25, 1.0 / 32) / 0.375), 1e-4);
    assert_near(start_ms(&f, 4, SUPPLY_SCARCE), 0, 1e-9);
    f.view.parameters.theta = 2 / 9.5; /* 3 precisely */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 25, 1.0 / 32)), 1e-2);
    assert_near(start_ms(&f, 3, SUPPLY_SCARCE), 0, 1e-9);
    f.view.parameters.theta = 0;
    update(&f);
    assert_near(start_ms(&f, 1, SUPPLY_SCARCE), 0, 1e-9);
    option_set(&f, "consolidate", "true");
    update(&f);
    assert_true(start_ms(&f, 4, SUPPLY_AMPLE) > 0);
    fixture_free(&f);
}

/* What the load allows, losses deny: bursts meet accelerators busy with small batches. */
static void slack_is_doubted_while_requests_are_lost(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000); /* the best batch, 10.5, costs 1.48 ms an item, a single one 6 */
    f.view.parameters.theta = 0.2;         /* 1 + 0.2 * 9.5 = 2.9 */
    f.view.parameters.accelerators = 16;
    update(&f);
    assert_near(start_ms(&f, 3, SUPPLY_SCARCE), 0, 1e-9);
    f.view.parameters.loss = 0.0005; /* half believed: theta 0.6, 6.7 items */
    update(&f);
    double six = worth(6, 25, 1.0 / 16), seven = worth(7, 25, 1.0 / 16);
    assert_near(start_ms(&f, 6, SUPPLY_SCARCE), 100 - 12 - company_ms(6, six / (0.7 + 0.3 / 2)), 1e-3);
    assert_near(start_ms(&f, 7, SUPPLY_SCARCE), 100 - 13 - company_ms(7, 2 * seven), 1e-3); /* half the price */
    f.view.parameters.loss = 0.5;
    update(&f);
    assert_near(start_ms(&f, 7, SUPPLY_SCARCE), 100 - 13 - company_ms(7, seven), 1e-3);
    fixture_free(&f);
}

static void arrive(struct fixture *f, double at_ms, uint32_t items) {
    struct request_node request = {.arrival_ns = (int64_t)(at_ms * MS), .items = items};
    assert_true(policy_deferred.model_admit(&f->view, f->own, &request));
}

/* How long before it is due a batch may start that comes much later than all arrivals. */
static double early_ms(const struct fixture *f, uint32_t items, uint32_t level) {
    struct batch_view batch = {.items = items,
                               .items_most = BATCH_MAX,
                               .due_ns = (int64_t)(100000 * MS),
                               .head_arrival_ns = (int64_t)(100000 * MS)};
    return 100000 - (double)policy_deferred.batch_times(&f->view, f->own, 0, &batch).start_ns[level] / MS;
}

/* Accelerators that are free most of the time, and requests that are lost all the same: bursts do it. */
static void free_accelerators_are_kept_for_bursts(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    f.view.parameters.accelerators = 80;
    f.view.parameters.tau_ns = 1 * MS;
    f.view.parameters.theta = 0.5;
    f.view.parameters.busy = 0.4;
    update(&f);
    double lead_ms = (1 + 3 * 9.5 / 10.5) * fmath_log(2.5 * 10.5 / 5), part = worth(2, 25, 1.0 / 80);
    assert_near(early_ms(&f, 2, SUPPLY_SCARCE), lead_ms, 1e-4);
    f.view.parameters.loss = 0.01;
    update(&f); /* but there are none */
    assert_near(early_ms(&f, 2, SUPPLY_SCARCE), lead_ms, 1e-4);
    for (int i = 0; i < 400; i++)
        arrive(&f, 0, 1);
    update(&f);
    assert_near(early_ms(&f, 2, SUPPLY_SCARCE), company_ms(2, part / 2), 1e-4); /* no lead, twice the price */
    f.view.parameters.busy = 0.7;
    update(&f); /* half of it is the bursts', which lengthen the lead */
    assert_near(early_ms(&f, 2, SUPPLY_SCARCE), 2.5 * lead_ms / 2, 1e-4);
    assert_near(early_ms(&f, 8, SUPPLY_SCARCE + 1), company_ms(8, worth(8, 25, 1.0 / 4) / 1.5), 1e-4);
    f.view.parameters.busy = 0.8;
    update(&f);
    assert_near(early_ms(&f, 2, SUPPLY_SCARCE), 12.5, 1e-4); /* half the SLO at most */
    fixture_free(&f);
}

/* With 3 ms left of 10: 0.8 of the price for company that comes by chance, twice it for bursts; and the lead is shorter
 * by the alpha in which a batch may start in any case, and no longer for bursts. */
static void tight_slos_wait_for_bursts(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    f.view.slo_ns = 10 * MS;
    f.view.parameters.accelerators = 80;
    f.view.parameters.loss = 0.0055;
    update(&f);
    assert_near(early_ms(&f, 2, SUPPLY_SCARCE), company_ms(2, 7.0 / 80 / 10 / 0.8), 1e-4);
    f.view.parameters.tau_ns = 1 * MS;
    update(&f);
    double lead_ms = (1 + 3 * (1 - 1 / 3.0)) * fmath_log(2.5 * 3 / 5) - 1; /* b* is 3, and a third of all batches */
    assert_near(early_ms(&f, 2, SUPPLY_SCARCE), lead_ms, 1e-4);
    for (int i = 0; i < 400; i++)
        arrive(&f, 0, 1);
    update(&f);
    assert_near(early_ms(&f, 2, SUPPLY_SCARCE), lead_ms, 1e-4);
    f.view.parameters.tau_ns = 0;
    update(&f);
    assert_near(early_ms(&f, 2, SUPPLY_SCARCE), company_ms(2, 7.0 / 80 / 10 / 2), 1e-4);
    fixture_free(&f);
}

/* As many are expected as came lately: of four at once, 4 / (1 + t / 6.25) still are t ms after. */
static void after_a_burst_more_of_it_is_expected(void **state) {
    (void)state;
    struct fixture f = deferred_new(0.1); /* nobody comes by the mean rate */
    f.view.parameters.loss = 1;
    f.view.parameters.accelerators = 32;
    update(&f);
    double alone = 1 / (1 + company_ms(1, worth(1, 25, 1.0 / 32))); /* one may start alone when recent * alone = 1 */
    assert_near(alone, 0.453, 1e-3);
    arrive(&f, 75, 1);
    assert_near(start_ms(&f, 1, SUPPLY_SCARCE), 75 + 6.25 * (alone - 1), 1e-4); /* the first: at once */
    arrive(&f, 75, 1);
    arrive(&f, 75, 2);
    assert_near(start_ms(&f, 1, SUPPLY_SCARCE), 75 + 6.25 * (4 * alone - 1), 1e-4);
    assert_near(start_ms(&f, 1, SUPPLY_AMPLE), 0, 1e-9);
    arrive(&f, 81.25, 1); /* of the four, two are left */
    assert_near(start_ms(&f, 1, SUPPLY_SCARCE), 81.25 + 6.25 * (3 * alone - 1), 1e-4);
    arrive(&f, 80, 1); /* another frontend's, late */
    assert_near(start_ms(&f, 1, SUPPLY_SCARCE), 81.25 + 6.25 * (4 * alone - 1), 1e-4);
    arrive(&f, 81.25, 30);
    assert_near(start_ms(&f, 1, SUPPLY_SCARCE), 93, 1e-4); /* due at the latest */
    f.view.items_worth = 1;                                /* batching does not pay: nobody waits */
    update(&f);
    assert_near(start_ms(&f, 1, SUPPLY_SCARCE), 0, 1e-9);
    fixture_free(&f);
}

/* As many come after an arrival as before one: the first of a burst waits for what the last ones had. */
static void where_requests_come_in_bursts_the_first_expects_one(void **state) {
    (void)state;
    struct fixture f = deferred_new(0.1);
    f.view.parameters.loss = 1;
    f.view.parameters.accelerators = 32;
    update(&f);
    for (int burst = 0; burst < 200; burst++) /* of nine each second, of which each finds 0 to 8: 4 in the mean */
        for (int i = 0; i < 9; i++)
            arrive(&f, 1000 * burst, 1);
    double alone = 1 / (1 + company_ms(1, worth(1, 25, 1.0 / 32)));
    arrive(&f, 300000, 1);
    struct batch_view batch = {.items = 1,
                               .items_most = BATCH_MAX,
                               .due_ns = (int64_t)(400000 * MS),
                               .head_arrival_ns = (int64_t)(300000 * MS)};
    struct batch_times t = policy_deferred.batch_times(&f.view, f.own, 0, &batch);
    double waits_ms = (double)t.start_ns[SUPPLY_SCARCE] / MS - 300000;
    /* while 4 / (1 + t / 6.25) * alone > 1; the last arrivals weigh a little more, and found more */
    assert_near(waits_ms, 6.25 * (4 * alone - 1), 1.5);
    fixture_free(&f);
}

/* Accelerators are scarce for longer: with nine at once of one a second, the lead is 1 + 1.5 times as long. */
static void bursts_lengthen_the_lead(void **state) {
    (void)state;
    struct fixture f = deferred_new(1);
    f.view.parameters.accelerators = 1e6;
    update(&f);
    for (int burst = 0; burst < 200; burst++)
        for (int i = 0; i < 9; i++)
            arrive(&f, 1000 * burst, 1);
    f.view.parameters.tau_ns = 0.1 * MS;
    f.view.parameters.theta = 0.5;
    update(&f);
    struct batch_view batch = {.items = 1,
                               .items_most = BATCH_MAX,
                               .due_ns = (int64_t)(199020 * MS),
                               .head_arrival_ns = (int64_t)(199000 * MS)};
    struct batch_times t = policy_deferred.batch_times(&f.view, f.own, 0, &batch);
    double load = 5 * 1e-3 / f.view.batch_best,
           lead_ms = 0.1 * fmath_log(2.5 / load) * (4 - 3 * 1e-4 / f.view.batch_best);
    assert_near((199020 * MS - (double)t.start_ns[SUPPLY_SCARCE]) / MS, 2.5 * lead_ms, 1e-3);
    fixture_free(&f);
}

/* Small batches take the scheduler's time, and are for when it has some. */
static void while_the_scheduler_falls_behind_all_company_is_waited_for(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    f.view.parameters.theta = 0;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_AMPLE), 0, 1e-9);
    f.view.parameters.thread_busy = 0.6; /* nobody minds */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_AMPLE), 0, 1e-9);
    f.view.parameters.thread_busy = 0.6 + fmath_log(5) / 10;
    update(&f); /* of slack batches 1 - 1/5, at 5^3 times the price */
    assert_near(start_ms(&f, 2, SUPPLY_AMPLE), 92 - company_ms(2, worth(2, 25, 0.5) / 125 / 0.8), 1e-3);
    f.view.parameters.thread_busy = 1;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_AMPLE), 92, 1e-2);
    fixture_free(&f);
}

static void a_share_of_the_arrivals_is_admitted_evenly(void **state) {
    (void)state;
    struct fixture f = deferred_new(1000);
    update(&f);
    f.view.admit_share = 0.25;
    struct request_node request = {.items = 1};
    int admitted = 0, run = 0, longest = 0;
    for (int i = 0; i < 1000; i++) {
        bool yes = policy_deferred.model_admit(&f.view, f.own, &request);
        admitted += yes;
        run = yes ? 0 : run + 1;
        longest = run > longest ? run : longest;
    }
    assert_int_equal(admitted, 250);
    assert_int_equal(longest, 3);
    f.view.admit_share = 1;
    assert_true(policy_deferred.model_admit(&f.view, f.own, &request));
    fixture_free(&f);
}

/* ---- the sub-cluster ---- */

/* rate items a second of `alpha` + `beta` ms, b* `best`; as busy over 0.1 s as over 2 s */
static struct model_rates load(double rate, double alpha_ms, double beta_ms, double best) {
    return (struct model_rates){
        .rate = rate,
        .rate_fast = rate,
        .arrivals_fast = rate / 10,
        .weight = 1,
        .batch_best = best,
        .alpha_ns = alpha_ms * MS,
        .beta_ns = beta_ms * MS,
    };
}

static struct cluster_parameters derive(const struct model_rates *rates, uint32_t models, double accelerators,
                                        double *admit_share) {
    struct cluster_view view = {.models = models, .rates = rates, .accelerators = accelerators};
    struct policy_options options = {{0}};
    struct cluster_parameters parameters = {0};
    policy_deferred.cluster_derive(&view, &options, &parameters, admit_share);
    return parameters;
}

static void gamma_tau_and_theta_follow_the_load(void **state) {
    (void)state;
    double share[2];
    /* variable part: 1 + 0.5 accelerators; fixed part 5*0.1 + 4*0.1 = 0.9 */
    struct model_rates rates[] = {load(1000, 1, 5, 10), load(500, 1, 4, 5)};
    struct cluster_parameters p = derive(rates, 2, 4, share);
    assert_near(p.gamma, 0.95 * 0.9 / 2.5, 1e-9);
    assert_near(p.tau_ns, 1e9 / 200, 1);
    /* theta: 1.5 + 5/(1 + 9 theta) + 2/(1 + 4 theta) <= 4.24: theta 0.25 gives 1.5 + 1.5385 + 1 = 4.04, and 0.2
     * gives 1.5 + 1.7857 + 1.1111 = 4.40 */
    assert_near(p.theta, 0.25, 1e-9);
    assert_near(share[0], 1, 1e-9);
    assert_near(p.loss, 0, 1e-12);
    rates[0].dropped_rate = 0.00075; /* of 1000 and 500 a second: half doubted, 3.92; 0.3 gives 3.76 */
    p = derive(rates, 2, 4, share);
    assert_near(p.loss, 0.0005, 1e-9);
    assert_near(p.theta, 0.3, 1e-9);
    rates[0].dropped_rate = 0.03; /* doubted entirely: 3.6; 0.35 gives 1.5 + 1.2048 + 0.8333 = 3.54 */
    p = derive(rates, 2, 4, share);
    assert_near(p.loss, 0.02, 1e-9);
    assert_near(p.theta, 0.35, 1e-9);
    p = derive(rates, 2, 1.4, share); /* not even the variable part fits */
    assert_near(p.gamma, 0.95, 1e-9);
    assert_near(p.theta, 1, 1e-9);
    p = derive(rates, 2, 1000, share);
    assert_near(p.theta, 0, 1e-9);
}

/* The harmonic mean of 2 * (left / run)^2, one at least, by the loads 1000 * (1 + 5/10) and 500 * (1 + 4/5). */
static void rounds_are_a_mean_by_load(void **state) {
    (void)state;
    double share[2];
    struct model_rates rates[] = {load(1000, 1, 5, 10), load(500, 1, 4, 5)};
    rates[0].slo_ns = 24 * MS; /* three more runs of 6 ms: 18 */
    rates[1].slo_ns = 8 * MS;  /* 0.72 */
    assert_near(derive(rates, 2, 4, share).rounds, (1.5 + 0.9) / (1.5 / 18 + 0.9), 1e-9);
    rates[1].slo_ns = 4 * MS; /* none */
    assert_near(derive(rates, 2, 4, share).rounds, (1.5 + 0.9) / (1.5 / 18 + 0.9), 1e-9);
    rates[0].rate = rates[1].rate = 0;
    assert_true(derive(rates, 2, 4, share).rounds > 1e6); /* nobody is in anybody's way */
}

static void a_silent_cluster_has_finite_parameters(void **state) {
    (void)state;
    double share[1];
    struct model_rates rates[] = {{.batch_best = 1}};
    struct cluster_parameters p = derive(rates, 1, 4, share);
    assert_near(p.theta, 0, 1e-9);
    assert_near(p.tau_ns, 0, 1e-9);
    assert_true(p.gamma >= 0 && p.gamma <= 0.95);
    p = derive(rates, 1, 0, share); /* every accelerator is down */
    assert_true(p.gamma >= 0 && p.gamma <= 0.95);
    assert_near(share[0], 1, 1e-9);
}

static void a_flash_crowd_boosts_and_chance_does_not(void **state) {
    (void)state;
    double share[1];
    struct model_rates rates[] = {load(1000, 1, 5, 10)};
    rates[0].rate_fast = 1300; /* 3 standard errors, of 7 % each: 4/sqrt(201) = 0.28 */
    assert_near(1e7 / derive(rates, 1, 4, share).tau_ns, 1.3 - 4 / 14.1774, 1e-4); /* 100 batches a second, boosted */
    rates[0].rate_fast = 1200;
    assert_near(1e7 / derive(rates, 1, 4, share).tau_ns, 1, 1e-9);
    rates[0].rate_fast = 3000;
    rates[0].arrivals_fast = 300;
    struct cluster_parameters p = derive(rates, 1, 10, share);
    double boost = 3 - 4 / 24.5153;
    assert_near(p.tau_ns, 1e7 / boost, 1e3);
    assert_near(p.gamma, 0.95 * boost * 0.5 / (10 - boost), 1e-4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_batch_to_wait_for_follows_the_rate_and_the_slo),
        cmocka_unit_test(a_model_that_hardly_batches_does_not_wait),
        cmocka_unit_test(the_window_drop_aims_at_a_part_of_it),
        cmocka_unit_test(while_accelerators_are_scarce_a_batch_may_start_lead_before_due),
        cmocka_unit_test(a_request_waits_no_longer_than_company_is_worth),
        cmocka_unit_test(a_batch_that_cannot_grow_starts_at_once),
        cmocka_unit_test(company_is_waited_for_while_it_saves_more_than_free_accelerators_are_worth),
        cmocka_unit_test(company_is_cheap_under_tight_slos_while_little_is_lost),
        cmocka_unit_test(free_accelerators_are_worth_no_more_to_a_model_than_to_all),
        cmocka_unit_test(company_is_cheap_for_batches_that_the_load_allows),
        cmocka_unit_test(slack_is_doubted_while_requests_are_lost),
        cmocka_unit_test(free_accelerators_are_kept_for_bursts),
        cmocka_unit_test(tight_slos_wait_for_bursts),
        cmocka_unit_test(after_a_burst_more_of_it_is_expected),
        cmocka_unit_test(where_requests_come_in_bursts_the_first_expects_one),
        cmocka_unit_test(bursts_lengthen_the_lead),
        cmocka_unit_test(while_the_scheduler_falls_behind_all_company_is_waited_for),
        cmocka_unit_test(a_share_of_the_arrivals_is_admitted_evenly),
        cmocka_unit_test(gamma_tau_and_theta_follow_the_load),
        cmocka_unit_test(rounds_are_a_mean_by_load),
        cmocka_unit_test(a_silent_cluster_has_finite_parameters),
        cmocka_unit_test(a_flash_crowd_boosts_and_chance_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
