/* test_deferred.c - the rules of the policy `deferred`, one by one, against numbers worked by hand. */
#include "core/util/fmath.h"
#include "sched/core/request_pool.h"
#include "unit/sched/policy/policy_fixture.h"
#include "unit/test.h"

/* ---- a model ---- */

static struct fixture deferred_new(double rate_per_s) {
    struct fixture f = fixture_new(&policy_deferred, rate_per_s);
    f.view.parameters.tau_ns = 0; /* no lead */
    f.view.parameters.accelerators = 8;
    f.view.parameters.busy = 1;
    f.view.parameters.rounds = 19.0 / 6 * 19.0 / 6; /* all are alike: after a run of 6 ms, 19 of 25 are left */
    f.view.parameters.type_share[0] = 1;
    return f;
}

static double start_ms(const struct fixture *f, uint32_t items, uint32_t level) {
    return (double)times(f, items, false).start_ns[level] / MS;
}

TEST(the_batch_to_wait_for_follows_the_rate_and_the_slo) {
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

TEST(a_model_that_hardly_batches_does_not_wait) {
    struct fixture f = deferred_new(1000);
    f.view.items_worth = 1;
    update(&f);
    assert_near(f.view.batch_best, 1, 1e-9);
    for (uint32_t level = 0; level < SUPPLY_LEVELS; level++)
        assert_near(start_ms(&f, 1, level), 0, 1e-9);
    fixture_free(&f);
}

TEST(the_window_drop_aims_at_a_part_of_it) {
    struct fixture f = deferred_new(1000);
    update(&f);
    assert_int_equal(f.view.target_items, 5); /* round(0.5 * 10.5) */
    f.view.parameters.gamma = 0.01;
    update(&f);
    assert_int_equal(f.view.target_items, 1);
    f.view.parameters.gamma = 1;
    update(&f);
    assert_int_equal(f.view.target_items, 7); /* 0.7 at most */
    f.view.parameters.way = 2;                /* longest: all of 10.5 that fit */
    update(&f);
    assert_int_equal(f.view.target_items, 10);
    f.view.parameters.way = 0;
    update(&f);
    assert_int_equal(f.view.target_items, 7);
    f.view.items_worth = 400;
    f.view.slo_ns = 405 * MS;
    f.view.rate_per_ns = 1;
    update(&f);
    assert_int_equal(f.view.target_items, 280);
    f.view.parameters.gamma = 0.6;
    update(&f);
    assert_int_equal(f.view.target_items, 240);
    fixture_free(&f);
}

/* A model has one batch granted at a time. */
TEST(the_window_drop_aims_at_what_comes_until_the_next_grant) {
    struct fixture f = deferred_new(1000);
    f.view.parameters.hop_ns = 2.5 * MS; /* ten come in four hops */
    update(&f);
    assert_int_equal(f.view.target_items, 10);
    f.view.parameters.hop_ns = 100 * MS;
    update(&f);
    assert_int_equal(f.view.target_items, 16); /* no more than pays */
    fixture_free(&f);
}

/* Trap: between frontrun (dl - l(b+1)) and invalid (dl - l(b)) lies one alpha; few accelerators become free in it. */
TEST(while_accelerators_are_scarce_a_batch_may_start_lead_before_due) {
    struct fixture f = deferred_new(1000);
    f.view.parameters.tau_ns = 1 * MS;
    f.view.parameters.accelerators = 1e6; /* the last one is not worth a request that does not come */
    f.view.parameters.rounds_plain = 10;
    update(&f);
    double lead_ms = fmath_log(10 * 10.5 / 5); /* beta*lambda/b* = 5 * 1 / 10.5 */
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 100 - 8 - lead_ms, 1e-4);
    assert_near(start_ms(&f, 2, SUPPLY_AMPLE), 0, 1e-4); /* half of them are worth any company */
    f.view.parameters.rounds *= 3;                       /* the others have more time */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 100 - 8 - 3 * lead_ms, 1e-4);
    f.view.parameters.rounds /= 9; /* or less */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 100 - 8 - lead_ms, 1e-4);
    f.view.parameters.rounds_plain = 20; /* queues may grow: all accelerators are busy for longer */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 100 - 8 - fmath_log(20 * 10.5 / 5), 1e-4);
    option_set(&f, "consolidate", "true"); /* no sooner because many are free */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 100 - 8 - fmath_log(20 * 10.5 / 5), 1e-4);
    assert_near(start_ms(&f, 2, SUPPLY_AMPLE), 100 - 8, 1e-4);
    option_set(&f, "consolidate", "false");
    f.view.parameters.tau_ns = 10.5 * MS;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 100 - 8 - 25, 1e-4); /* the SLO at most */
    f.view.rate_per_ns = 1e-4;                                       /* loads many accelerators by itself: no lead */
    f.view.items_worth = 2;
    update(&f);
    assert_near(start_ms(&f, 1, SUPPLY_SCARCE), 75 + 7, 1e-4); /* the head came at 75 ms, and waits for one run */
    fixture_free(&f);
}

/* With an SLO of a minute nobody waits that long for company: as long as the best batch runs, 16 + 5 ms. */
TEST(a_request_waits_no_longer_than_company_is_worth) {
    struct fixture f = deferred_new(1000);
    f.view.slo_ns = 60000 * MS;
    f.view.parameters.accelerators = 1e15;
    update(&f);
    struct batch_view batch = {
        .items = 1, .items_most = BATCH_MAX, .head_arrival_ns = 1000, .due_ns = (int64_t)(59000 * MS)};
    struct batch_times t = policy_deferred.batch_times(&f.view, f.own, 0, &batch);
    assert_near((double)t.start_ns[SUPPLY_SCARCE], 1000 + 21 * MS, 100);
    option_set(&f, "consolidate", "true"); /* asks for large batches, whatever the wait */
    update(&f);
    t = policy_deferred.batch_times(&f.view, f.own, 0, &batch);
    for (uint32_t level = 0; level < SUPPLY_LEVELS; level++)
        assert_int_equal(t.start_ns[level], batch.due_ns);
    fixture_free(&f);
}

/* Where memory is limited, it waits only as long as there is time for a run of 6 ms before it, and then a load: of a
 * lone request, which must start by 19 ms and would wait until 18. */
TEST(a_batch_waits_only_while_a_load_elsewhere_saves_it) {
    struct fixture f = deferred_new(1000);
    static const struct {
        double load_ms, accelerators, start_ms;
    } cases[] = {
        {0, 1e15, 18}, {10, 1e15, 3}, {10, 1, 18}, {13, 1e15, 18} /* there never is as much time */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        f.view.load_ns = (int64_t)(cases[i].load_ms * MS);
        f.view.parameters.accelerators = cases[i].accelerators;
        f.view.parameters.rounds = cases[i].accelerators > 1 ? 1 : 0; /* accelerators are worth nothing */
        update(&f);
        struct batch_view batch = {
            .items = 1, .items_most = BATCH_MAX, .due_ns = (int64_t)(18 * MS), .invalid_after_ns = (int64_t)(19 * MS)};
        struct batch_times t = policy_deferred.batch_times(&f.view, f.own, 0, &batch);
        assert_near((double)t.start_ns[SUPPLY_SCARCE] / MS, cases[i].start_ms, 1e-3);
    }
    fixture_free(&f);
}

TEST(a_batch_that_cannot_grow_starts_at_once) {
    struct fixture f = deferred_new(1000);
    update(&f);
    assert_true(start_ms(&f, 5, SUPPLY_SCARCE) > 0);
    assert_int_equal(times(&f, 5, true).start_ns[SUPPLY_SCARCE], 0);
    assert_near(start_ms(&f, BATCH_MAX, SUPPLY_SCARCE), 0, 1e-9);
    fixture_free(&f);
}

#define PRICE_LOST 2 /* while requests are lost; else 1 */

/* What the free part `part` of the accelerators is worth to a batch, with beta of 5 ms: the run of items + 5 ms as
 * often as the square of how many runs fit into what is left of the SLO, one at least. */
static double worth(double items, double slo_ms, double part) {
    double run_ms = items + 5, runs = (slo_ms - run_ms) / run_ms, rounds = runs * runs;
    return part * (rounds > 1 ? rounds : 1) * run_ms / 5;
}

/* How many more come, one each millisecond, when they no longer are: E/(b + 1 + E) = worth. */
static double company_ms(double items, double worth) {
    return worth * (items + 1) / (1 - worth);
}

/* The ways that a rehearsal compares, and those that are fixed. */
TEST(batches_wait_as_the_way_says) {
    static const struct {
        const char *waiting;
        uint64_t way;
        double start_ms; /* of a batch of 2, which is due at 92 ms; under 0: as it pays */
    } cases[] = {{"rehearsed", 0, -1}, {"rehearsed", 1, 0}, {"rehearsed", 2, 92}, {"priced", 2, -1},
                 {"none", 0, 0},       {"none", 2, 0},      {"longest", 1, 92}};
    struct fixture f = deferred_new(1000);
    f.view.parameters.accelerators = 16;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double priced_ms = 92 - company_ms(2, worth(2, 25, 1.0 / 16));
        option_set(&f, "waiting", cases[i].waiting);
        f.view.parameters.way = cases[i].way;
        update(&f);
        assert_near(start_ms(&f, 2, SUPPLY_SCARCE), cases[i].start_ms < 0 ? priced_ms : cases[i].start_ms, 1e-4);
        assert_near(start_ms(&f, BATCH_MAX, SUPPLY_SCARCE), 0, 1e-9); /* one that cannot grow does not wait */
    }
    option_set(&f, "waiting", "rehearsed");
    assert_int_equal(policy_ways(&policy_deferred, f.view.options), 3);
    option_set(&f, "waiting", "none");
    assert_int_equal(policy_ways(&policy_deferred, f.view.options), 1);
    option_set(&f, "waiting", "rehearsed");
    option_set(&f, "consolidate", "true");
    assert_int_equal(policy_ways(&policy_deferred, f.view.options), 1);
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_AMPLE), 92, 1e-4); /* whatever the way, which is still 1 */
    fixture_free(&f);
}

/* By 0.1 % of the requests more, one goes earlier by 1 % of the SLO, whatever the way; never by more. */
TEST(who_has_lost_more_goes_first) {
    static const struct {
        double dropped_rate, earlier_ms;
    } cases[] = {{0.01, 0}, {0.0105, 0.125}, {0.011, 0.25}, {0.5, 0.25}, {0.0095, -0.125}, {0, -0.25}};
    struct fixture f = deferred_new(1000);
    update(&f);
    double some_ms = (double)times(&f, 2, false).order_ns / MS,
           full_ms = (double)times(&f, BATCH_MAX, true).order_ns / MS;
    f.view.parameters.loss = 0.01;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (uint64_t way = 0; way < 3; way++) {
            f.view.dropped_rate = cases[i].dropped_rate;
            f.view.parameters.way = way;
            update(&f);
            assert_near((double)times(&f, 2, false).order_ns / MS, some_ms - cases[i].earlier_ms, 1e-5);
            assert_near((double)times(&f, BATCH_MAX, true).order_ns / MS, full_ms - cases[i].earlier_ms, 1e-5);
        }
    fixture_free(&f);
}

TEST(company_is_waited_for_while_it_saves_more_than_free_accelerators_are_worth) {
    struct fixture f = deferred_new(1000);
    f.view.parameters.accelerators = 16;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 25, 1.0 / 16)), 1e-4);
    assert_near(start_ms(&f, 2, SUPPLY_AMPLE), 0, 1e-9); /* half of the accelerators are worth all company */
    f.view.parameters.accelerators = 80;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 25, 1.0 / 80)), 1e-4);
    f.view.slo_ns = 10 * MS; /* 3 ms are left: the run itself is all that there is */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE + 1), 92 - company_ms(2, worth(2, 10, 0.25)), 1e-4);
    assert_near(start_ms(&f, 2, SUPPLY_AMPLE), 0, 1e-9); /* more would have to come than fit */
    assert_near(start_ms(&f, 4, SUPPLY_SCARCE + 1), 0, 1e-9);
    f.view.rate_per_ns = 0; /* nobody comes */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE + 1), 0, 1e-9);
    fixture_free(&f);
}

/* A model with time for many runs does not take accelerators from those that have none: (18 / 7)^2 = 6.6 rounds of
 * its own, 2.5 in the mean. */
TEST(free_accelerators_are_worth_no_more_to_a_model_than_to_all) {
    struct fixture f = deferred_new(1000);
    f.view.parameters.accelerators = 80;
    f.view.parameters.rounds = 6.7;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 25, 1.0 / 80)), 1e-4);
    f.view.parameters.rounds = 2.5;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, 2.5 * 7.0 / 5 / 80), 1e-4);
    f.view.slo_ns = 15 * MS; /* (8 / 7)^2: less than the mean */
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 15, 1.0 / 80)), 1e-4);
    fixture_free(&f);
}

TEST(company_is_cheap_for_batches_that_the_load_allows) {
    struct fixture f = deferred_new(1000);
    f.view.parameters.theta = 0.25; /* from 1 + 0.25 * 9.5 = 3.375 items on */
    f.view.parameters.accelerators = 32;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 25, 1.0 / 32)), 1e-4);
    assert_near(start_ms(&f, 3, SUPPLY_SCARCE), 91 - company_ms(3, worth(3, 25, 1.0 / 32)), 1e-4);
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
TEST(slack_is_doubted_while_requests_are_lost) {
    struct fixture f = deferred_new(1000);
    f.view.parameters.theta = 0.2; /* 1 + 0.2 * 9.5 = 2.9 */
    f.view.parameters.accelerators = 32;
    update(&f);
    assert_near(start_ms(&f, 3, SUPPLY_SCARCE), 0, 1e-9);
    f.view.parameters.loss = 0.0005; /* half believed */
    update(&f);
    double two = worth(2, 25, 1.0 / 32), three = worth(3, 25, 1.0 / 32);
    /* at 1.5 times the price; of that, half for batches that the load allows */
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, two / 1.5), 1e-3);
    assert_near(start_ms(&f, 3, SUPPLY_SCARCE), 91 - company_ms(3, 2 * three / 1.5), 1e-3);
    f.view.parameters.loss = 0.001;
    update(&f);
    assert_near(start_ms(&f, 3, SUPPLY_SCARCE), 91 - company_ms(3, three / PRICE_LOST), 1e-3);
    f.view.parameters.loss = 0.5;
    update(&f);
    assert_near(start_ms(&f, 3, SUPPLY_SCARCE), 91 - company_ms(3, three / PRICE_LOST), 1e-3);
    fixture_free(&f);
}

/* Whoever waits and then finds no accelerator is lost, if the SLO has no time for two runs of 6 ms. */
TEST(loss_makes_company_no_dearer_under_tight_slos) {
    struct fixture f = deferred_new(1000);
    f.view.parameters.accelerators = 80;
    f.view.parameters.loss = 0.01;
    f.view.slo_ns = 12 * MS;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 12, 1.0 / 80) / PRICE_LOST), 1e-4);
    f.view.slo_ns = 11 * MS;
    update(&f);
    assert_near(start_ms(&f, 2, SUPPLY_SCARCE), 92 - company_ms(2, worth(2, 11, 1.0 / 80)), 1e-4);
    fixture_free(&f);
}

static void arrive(struct fixture *f, double at_ms, uint32_t items) {
    struct request_node request = {.arrival_ns = (int64_t)(at_ms * MS), .items = items};
    assert_true(policy_deferred.model_admit(&f->view, f->own, &request));
}

/* As many are expected as came lately: of four at once, 4 / (1 + t / 6.25) still are t ms after. */
TEST(after_a_burst_more_of_it_is_expected) {
    struct fixture f = deferred_new(0.1); /* nobody comes by the mean rate */
    f.view.parameters.loss = 1;
    f.view.parameters.accelerators = 32;
    update(&f);
    double alone =
        1 / (1 + company_ms(1, worth(1, 25, 1.0 / 32) / PRICE_LOST)); /* one may start alone when recent * alone = 1 */
    assert_true(alone > 0.5 && alone < 0.95);
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

/* Small batches take the scheduler's time, and are for when it has some. */
TEST(while_the_scheduler_falls_behind_all_company_is_waited_for) {
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

TEST(a_share_of_the_arrivals_is_admitted_evenly) {
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

/* Of requests that have 40 ms, at 10 items a millisecond of which a quarter is admitted, 1 / POLICY_FULL - 1 of 100
 * more than that are queued, once. */
TEST(requests_that_can_wait_are_admitted_ahead) {
    struct fixture f = deferred_new(1000);
    update(&f);
    f.view.admit_share = 0.25;
    f.view.rate_per_ns = 10 / 1e6;
    struct request_node patient = {.items = 1, .deadline_ns = 40 * MS}, hurried = {.items = 1, .deadline_ns = MS};
    int admitted = 0;
    for (int i = 0; i < 1000; i++)
        admitted += policy_deferred.model_admit(&f.view, f.own, &patient);
    assert_int_equal(admitted, 250 + 8);
    for (int i = 0; i < 100; i++) /* others of the model have their share nevertheless */
        admitted += policy_deferred.model_admit(&f.view, f.own, &hurried);
    assert_int_equal(admitted, 250 + 8 + 25);
    f.view.admit_share = 1;
    for (int i = 0; i < 5; i++)
        assert_true(policy_deferred.model_admit(&f.view, f.own, &patient));
    f.view.admit_share = 0.25;
    admitted = 0;
    for (int i = 0; i < 100; i++)
        admitted += policy_deferred.model_admit(&f.view, f.own, &patient);
    assert_int_equal(admitted, 25 + 5);
    fixture_free(&f);
}

/* A few requests at once of a model that is seldom asked for look like an overload: 1 / POLICY_FULL - 1 of their
 * 200 ms has time for two runs of 6 ms. */
TEST(a_few_requests_are_no_flood) {
    struct fixture f = deferred_new(10);
    update(&f);
    f.view.admit_share = 0.01;
    struct request_node patient = {.items = 1, .deadline_ns = 200 * MS};
    int admitted = 0;
    for (int i = 0; i < 10; i++)
        admitted += policy_deferred.model_admit(&f.view, f.own, &patient);
    assert_int_equal(admitted, 2);
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

TEST(gamma_tau_and_theta_follow_the_load) {
    double share[2];
    /* variable part: 1 + 0.5 accelerators; fixed part 5*0.1 + 4*0.1 = 0.9 */
    struct model_rates rates[] = {load(1000, 1, 5, 10), load(500, 1, 4, 5)};
    struct cluster_parameters p = derive(rates, 2, 4, share);
    assert_near(p.gamma, 0.9 / 2.5, 1e-9);
    assert_near(p.tau_ns, 1e9 / 200, 1);
    assert_near(1.5 + 5 / (1 + 9 * p.theta) + 2 / (1 + 4 * p.theta), 4, 1e-9);
    assert_near(share[0], 1, 1e-9);
    assert_near(p.loss, 0, 1e-12);
    rates[0].dropped_rate = 0.00075; /* of 1000 and 500 a second */
    assert_near(derive(rates, 2, 4, share).loss, 0.0005, 1e-9);
    p = derive(rates, 2, 1.4, share); /* not even the variable part fits */
    assert_near(p.gamma, 1, 1e-9);
    assert_near(p.theta, 1, 1e-9);
    p = derive(rates, 2, 1000, share);
    assert_near(p.theta, 0, 1e-9);
}

/* Where models outnumber accelerators, whoever waits for one has others before it. */
TEST(tau_is_longer_where_models_outnumber_accelerators) {
    double share[3];
    struct model_rates even[] = {load(1000, 1, 5, 10), load(1000, 1, 5, 10), load(1000, 1, 5, 10)};
    assert_near(derive(even, 3, 3, share).tau_ns, 1e9 / 300, 1);
    assert_near(derive(even, 3, 30, share).tau_ns, 1e9 / 300, 1);
    assert_near(derive(even, 3, 2, share).tau_ns, 1.5e9 / 300, 1);
    struct model_rates uneven[] = {load(1000, 1, 5, 10), load(10, 1, 5, 10), load(0, 1, 5, 1)}; /* as if 1.02 models */
    assert_near(derive(uneven, 3, 1, share).tau_ns, 1e9 / 101 * (101.0 * 101.0 / 10001.0), 1);
}

/* The harmonic mean of (left / run)^2, 1 at least, by the loads 1000 * (1 + 5/10) and 500 * (1 + 4/5). The run is
 * the mean over the time of lone runs: of 6 ms, 100 a second, and 5 ms, 100 a second. */
TEST(rounds_are_a_mean_by_load) {
    double share[2];
    struct model_rates rates[] = {load(1000, 1, 5, 10), load(500, 1, 4, 5)};
    double run_ms = (600.0 * 6 + 500 * 5) / 1100, first = 18 / run_ms * (18 / run_ms);
    rates[0].slo_ns = 24 * MS; /* leaves 18 ms */
    rates[1].slo_ns = 8 * MS;  /* leaves 3 ms: less than a round */
    assert_near(derive(rates, 2, 4, share).rounds, (1.5 + 0.9) / (1.5 / first + 0.9), 1e-9);
    assert_near(derive(rates, 2, 4, share).rounds_plain, (1.5 * first + 0.9) / (1.5 + 0.9), 1e-9);
    rates[1].slo_ns = 4 * MS; /* leaves none */
    assert_near(derive(rates, 2, 4, share).rounds, (1.5 + 0.9) / (1.5 / first + 0.9), 1e-9);
    rates[0].rate = rates[1].rate = 0;
    assert_true(derive(rates, 2, 4, share).rounds > 1e6); /* nobody is in anybody's way */
}

/* A model with short runs and an SLO of many of them has time for few of another's long ones. */
TEST(who_is_in_a_hurry_goes_by_the_runs_of_others) {
    double share[2];
    struct model_rates rates[] = {load(100, 1, 1, 1), load(100, 10, 40, 1)};
    rates[0].slo_ns = 22 * MS;  /* ten more runs of its own, but 20 ms hold hardly half of one of 50 ms */
    rates[1].slo_ns = 550 * MS; /* ten more of its own */
    double run_ms = (2.0 * 2 + 50 * 50) / 52, long_ones = 500 / run_ms * (500 / run_ms);
    assert_near(derive(rates, 2, 8, share).rounds, 5.2 / (0.2 + 5 / long_ones), 1e-9);
}

/* Who loses requests decides what free accelerators are worth. */
TEST(who_loses_counts_for_more) {
    double share[2];
    struct model_rates rates[] = {load(100, 1, 4, 1), load(900, 1, 4, 1)};
    rates[0].slo_ns = 10 * MS;  /* one more run */
    rates[1].slo_ns = 105 * MS; /* twenty */
    double calm = derive(rates, 2, 8, share).rounds;
    assert_near(calm, 1 / (0.1 / 1 + 0.9 / 400), 1e-9);
    rates[0].dropped_rate = 0.0005; /* half the weights go by what is lost */
    assert_near(derive(rates, 2, 8, share).rounds, 0.55 / (0.1 / 1 + 0.45 / 400), 1e-9);
    assert_near(derive(rates, 2, 8, share).rounds_plain, 0.1 * 1 + 0.9 * 400, 1e-6); /* not for the plain mean */
    rates[0].dropped_rate = 0.002;
    assert_near(derive(rates, 2, 8, share).rounds, 1, 1e-9);
    rates[1].dropped_rate = 0.001; /* weighs half as much */
    assert_near(derive(rates, 2, 8, share).rounds, 0.55 / (0.1 / 1 + 0.45 / 400), 1e-9);
    rates[0].dropped_rate = 0;
    assert_near(derive(rates, 2, 8, share).rounds, 400, 1e-6);
}

TEST(a_silent_cluster_has_finite_parameters) {
    double share[1];
    struct model_rates rates[] = {{.batch_best = 1}};
    struct cluster_parameters p = derive(rates, 1, 4, share);
    assert_near(p.theta, 0, 1e-9);
    assert_near(p.tau_ns, 0, 1e-9);
    assert_true(p.gamma >= 0 && p.gamma <= 1);
    p = derive(rates, 1, 0, share); /* every accelerator is down */
    assert_true(p.gamma >= 0 && p.gamma <= 1);
    assert_near(share[0], 1, 1e-9);
}

TEST(a_flash_crowd_boosts_and_chance_does_not) {
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
    assert_near(p.gamma, boost * 0.5 / (10 - boost), 1e-4);
}
