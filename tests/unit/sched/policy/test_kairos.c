/* test_kairos.c - the policy `kairos` and the schemes that it was compared with, by events worked by hand.
 *
 * Two types: `strong` takes 10 ms + 1 ms an item, `weak` 4 ms an item. The largest query has 50 items: 60 ms against
 * 200 ms, so that a weak instance's time is worth 0.3. */
#include <stdlib.h>

#include "sched/core/central.h"
#include "sched/plan/pool_watch.h"
#include "unit/test.h"

#define MS             1000000LL
#define ITEMS_MAX      50
#define INSTANCES_MAX  4
#define REQUESTS_MAX   16
#define NOT_DISPATCHED UINT32_MAX

enum { STRONG, WEAK };

struct fixture {
    struct profile *profiles[2];
    struct central_model models[2];
    uint8_t types[INSTANCES_MAX];
    struct central_config config;
    struct policy_options options;
    struct request_node nodes[REQUESTS_MAX];
    struct request_pool pool;
    void *core;
    struct central_output out;
    uint32_t model_of_run[INSTANCES_MAX], items_of_run[INSTANCES_MAX];
    uint64_t tag_of_run[INSTANCES_MAX];
};

/* Sets options from "KEY=VALUE,..." and builds one core over the instances of `types`, ended by -1. Two models: the
 * second runs on weak instances only. */
static void fixture_init(struct fixture *f, const char *options, const int *types) {
    struct sy_error err;
    char text[128];
    const struct policy_ops *policy;
    *f = (struct fixture){0};
    snprintf(text, sizeof(text), "kairos%s%s", *options ? ":" : "", options);
    assert_int_equal(policy_read(text, &policy, &f->options, &err), 0);
    for (int t = 0; t < 2; t++) {
        f->profiles[t] = malloc(profile_bytes(ITEMS_MAX));
        assert_non_null(f->profiles[t]);
        profile_set_line(f->profiles[t], ITEMS_MAX, t == STRONG ? MS : 4 * MS, t == STRONG ? 10 * MS : 0);
    }
    f->models[0] = (struct central_model){.profiles = {f->profiles[0], f->profiles[1]}, .batch_max = ITEMS_MAX};
    f->models[1] = (struct central_model){.profiles = {NULL, f->profiles[1]}, .batch_max = ITEMS_MAX};
    f->config = (struct central_config){
        .models = f->models,
        .model_count = 2,
        .accelerator_type = f->types,
        .types = 2,
        .seed = 1,
        .options = &f->options,
    };
    for (; types[f->config.accelerators] >= 0; f->config.accelerators++)
        f->types[f->config.accelerators] = (uint8_t)types[f->config.accelerators];
    request_pool_init(&f->pool, f->nodes, REQUESTS_MAX);
    f->out.refused = REQUEST_NONE;
    size_t bytes = policy->central->bytes(&f->config);
    f->core = calloc(1, bytes);
    assert_non_null(f->core);
    policy->central->init(f->core, &f->config, &f->pool);
}

static void fixture_free(struct fixture *f) {
    free(f->core);
    free(f->profiles[0]);
    free(f->profiles[1]);
}

/* What the last step gave back or sent belongs to the caller, who returns it to the pool. */
static void nodes_return(struct fixture *f) {
    for (uint32_t node = f->out.refused, next; node != REQUEST_NONE; node = next) {
        next = f->nodes[node].next;
        request_pool_put(&f->pool, node);
    }
    for (uint32_t i = 0; i < f->out.action_count; i++)
        request_pool_put(&f->pool, f->out.actions[i].first);
}

static void step_ns(struct fixture *f, int64_t now_ns, const struct central_event *event) {
    nodes_return(f);
    policy_kairos.central->step(f->core, now_ns, event, &f->out);
    for (uint32_t i = 0; i < f->out.action_count; i++) {
        const struct central_action *action = &f->out.actions[i];
        assert_int_equal(action->kind, CENTRAL_RUN);
        assert_int_equal(action->requests, 1);
        assert_int_equal(f->nodes[action->first].next, REQUEST_NONE);
        f->model_of_run[action->accelerator] = action->model;
        f->items_of_run[action->accelerator] = action->items;
        f->tag_of_run[action->accelerator] = action->tag;
    }
}

static void step(struct fixture *f, int64_t now_ms, const struct central_event *event) {
    step_ns(f, now_ms * MS, event);
}

static void timer(struct fixture *f, int64_t now_ns) {
    step_ns(f, now_ns, &(struct central_event){.kind = CENTRAL_TIMER});
}

static void arrive_message(struct fixture *f, int64_t now_ms, struct request_message message, int64_t slo_ms) {
    message.arrival_ns = now_ms * MS;
    message.deadline_ns = (now_ms + slo_ms) * MS;
    step(f, now_ms, &(struct central_event){.kind = CENTRAL_ARRIVED, .model = message.place.n, .request = &message});
}

static void arrive_handle(struct fixture *f, int64_t now_ms, uint64_t handle, uint32_t items) {
    arrive_message(f, now_ms, (struct request_message){.handle = handle, .items = items}, 100);
}

/* Handles are the items, so that tests can name a query by its size. */
static void arrive_model(struct fixture *f, int64_t now_ms, uint32_t model, uint32_t items, int64_t slo_ms) {
    arrive_message(f, now_ms, (struct request_message){.handle = items, .place = {model}, .items = items}, slo_ms);
}

static void arrive(struct fixture *f, int64_t now_ms, uint32_t items) {
    arrive_model(f, now_ms, 0, items, 100);
}

static void cancel(struct fixture *f, int64_t now_ms, uint32_t items) {
    struct request_message message = {.handle = items, .kind = REQUEST_CANCELLED};
    step(f, now_ms, &(struct central_event){.kind = CENTRAL_CANCELLED, .model = message.place.n, .request = &message});
}

static void end(struct fixture *f, int64_t now_ms, uint32_t accelerator, int64_t run_ms) {
    struct central_ended ended = {
        .accelerator = accelerator,
        .model = f->model_of_run[accelerator],
        .items = f->items_of_run[accelerator],
        .tag = f->tag_of_run[accelerator],
        .done = run_ms > 0,
        .run_ns = run_ms * MS,
    };
    step(f, now_ms, &(struct central_event){.kind = CENTRAL_ENDED, .ended = &ended});
}

static void tell(struct fixture *f, int64_t now_ms, enum central_event_kind kind, uint32_t accelerator) {
    step(f, now_ms, &(struct central_event){.kind = kind, .accelerator = accelerator});
}

/* Where the last step sent the query of this size. */
static uint32_t sent_to(const struct fixture *f, uint32_t items) {
    for (uint32_t i = 0; i < f->out.action_count; i++)
        if (f->out.actions[i].items == items)
            return f->out.actions[i].accelerator;
    return NOT_DISPATCHED;
}

static bool refused(const struct fixture *f, uint32_t items, enum refusal reason) {
    for (uint32_t node = f->out.refused; node != REQUEST_NONE; node = f->nodes[node].next)
        if (f->nodes[node].items == items)
            return f->nodes[node].refusal == reason;
    return false;
}

static const int one_each[] = {STRONG, WEAK, -1};

/* ---- Kairos ---- */

TEST(a_query_goes_where_its_time_is_worth_least) {
    struct fixture f;
    fixture_init(&f, "", one_each);
    arrive(&f, 0, 5); /* 15 ms of strong, 0.3 * 20 ms of weak */
    assert_int_equal(sent_to(&f, 5), 1);
    end(&f, 20, 1, 20);
    arrive(&f, 20, 30); /* weak would take 120 ms of the SLO's 100 */
    assert_int_equal(sent_to(&f, 30), 0);
    fixture_free(&f);
}

TEST(the_guard_keeps_two_percent_of_the_slo) {
    struct fixture f;
    fixture_init(&f, "", one_each);
    arrive(&f, 0, 24); /* 96 ms on weak */
    assert_int_equal(sent_to(&f, 24), 1);
    end(&f, 96, 1, 96);
    arrive(&f, 96, 25); /* 100 ms, over 98 */
    assert_int_equal(sent_to(&f, 25), 0);
    fixture_free(&f);
    fixture_init(&f, "guard=1", one_each);
    arrive(&f, 0, 25);
    assert_int_equal(sent_to(&f, 25), 1);
    fixture_free(&f);
}

TEST(a_busy_instance_counts_with_the_time_it_still_needs) {
    struct fixture f;
    fixture_init(&f, "", one_each);
    arrive(&f, 0, 10); /* weak is busy until 40 */
    assert_int_equal(sent_to(&f, 10), 1);
    arrive(&f, 0, 2); /* 12 on strong, 0.3 * (40 + 8) = 14.4 on weak */
    assert_int_equal(sent_to(&f, 2), 0);
    end(&f, 12, 0, 12);
    arrive(&f, 20, 3); /* 13 on strong, 0.3 * (20 + 12) = 9.6: waits for weak, though strong is idle */
    assert_int_equal(f.out.action_count, 0);
    end(&f, 40, 1, 40);
    assert_int_equal(sent_to(&f, 3), 1);
    fixture_free(&f);
}

TEST(queries_that_gain_most_get_the_strong_instance) {
    struct fixture f;
    fixture_init(&f, "", one_each);
    tell(&f, 0, CENTRAL_DOWN, 1);
    arrive(&f, 0, 10); /* strong until 20 */
    assert_int_equal(sent_to(&f, 10), 0);
    arrive(&f, 1, 5);
    arrive(&f, 2, 20);
    end(&f, 20, 0, 20); /* alone, strong takes one of the two: the cheaper, 15 ms against 30 */
    assert_int_equal(sent_to(&f, 5), 0);
    end(&f, 35, 0, 15);
    assert_int_equal(sent_to(&f, 20), 0);
    arrive(&f, 36, 4);
    arrive(&f, 37, 19);
    tell(&f, 37, CENTRAL_UP, 1); /* weak for one now, strong in 28 ms for the other: 4 -> weak 4.8, 19 -> strong 57 */
    assert_int_equal(sent_to(&f, 4), 1);
    end(&f, 65, 0, 30);
    assert_int_equal(sent_to(&f, 19), 0);
    fixture_free(&f);
}

TEST(what_no_instance_can_finish_in_time_is_refused) {
    struct fixture f;
    fixture_init(&f, "", one_each);
    arrive_model(&f, 0, 0, 50, 59); /* strong takes 60 ms */
    assert_true(refused(&f, 50, REFUSAL_DEADLINE));
    arrive(&f, 0, 51); /* larger than any batch */
    assert_true(refused(&f, 51, REFUSAL_DEADLINE));
    arrive(&f, 0, 50); /* strong until 60, */
    assert_int_equal(sent_to(&f, 50), 0);
    arrive(&f, 0, 40); /* which this one would need by 50; weak takes 160 ms */
    assert_int_equal(f.out.action_count, 0);
    assert_int_equal(f.out.wake_ns, 50 * MS + 1);
    timer(&f, 50 * MS);
    assert_int_equal(f.out.refused, REQUEST_NONE);
    timer(&f, 50 * MS + 1);
    assert_true(refused(&f, 40, REFUSAL_DEADLINE));
    assert_int_equal(f.out.wake_ns, TIME_NEVER);
    fixture_free(&f);
}

TEST(what_is_late_can_be_served_all_the_same) {
    struct fixture f;
    fixture_init(&f, "late=serve", one_each);
    arrive(&f, 0, 50);
    assert_int_equal(sent_to(&f, 50), 0);
    arrive(&f, 0, 40); /* nowhere in time (60 + 50, 160): the least of both costs is made */
    assert_int_equal(sent_to(&f, 40), 1);
    end(&f, 160, 1, 160);
    arrive(&f, 160, 45);
    end(&f, 170, 0, 170);
    assert_int_equal(f.out.refused, REQUEST_NONE);
    tell(&f, 170, CENTRAL_DOWN, 1);
    arrive_model(&f, 180, 1, 5, 100); /* nothing in service runs it, so there is no use in waiting past the deadline */
    assert_int_equal(f.out.wake_ns, 280 * MS);
    timer(&f, 280 * MS);
    assert_true(refused(&f, 5, REFUSAL_DEADLINE));
    fixture_free(&f);
}

TEST(a_cancelled_query_is_given_back_once) {
    struct fixture f;
    const int strong[] = {STRONG, -1};
    fixture_init(&f, "", strong);
    arrive(&f, 0, 10);
    arrive(&f, 0, 11);
    cancel(&f, 1, 10); /* runs already */
    assert_int_equal(f.out.refused, REQUEST_NONE);
    cancel(&f, 1, 11);
    assert_true(refused(&f, 11, REFUSAL_CANCELLED));
    end(&f, 20, 0, 20);
    assert_int_equal(f.out.action_count, 0);
    fixture_free(&f);
}

TEST(without_an_instance_queries_wait_until_their_deadline) {
    struct fixture f;
    fixture_init(&f, "", one_each);
    arrive(&f, 0, 30);
    tell(&f, 5, CENTRAL_DOWN, 0);
    end(&f, 5, 0, 0); /* lost */
    assert_int_equal(f.out.action_count, 0);
    tell(&f, 5, CENTRAL_DOWN, 1);
    arrive(&f, 10, 31);
    assert_int_equal(f.out.action_count, 0);
    assert_int_equal(f.out.wake_ns, 110 * MS);
    tell(&f, 30, CENTRAL_UP, 0);
    assert_int_equal(sent_to(&f, 31), 0);
    tell(&f, 40, CENTRAL_DOWN, 0);
    end(&f, 40, 0, 0);
    arrive(&f, 40, 32);
    timer(&f, f.out.wake_ns);
    assert_true(refused(&f, 32, REFUSAL_DEADLINE));
    fixture_free(&f);
}

TEST(latencies_are_learned) {
    struct fixture f;
    fixture_init(&f, "", one_each);
    for (int64_t i = 0; i < 40; i++) { /* weak is four times slower for 5 items than its profile says */
        tell(&f, i * 1000, CENTRAL_DOWN, 0);
        arrive(&f, i * 1000, 5);
        end(&f, i * 1000 + 80, 1, 80);
        tell(&f, i * 1000 + 80, CENTRAL_UP, 0);
    }
    arrive(&f, 50000, 5); /* 15 ms of strong, 0.3 * 80 ms of weak */
    assert_int_equal(sent_to(&f, 5), 0);
    fixture_free(&f);

    fixture_init(&f, "start=nothing", one_each);
    arrive(&f, 0, 5);
    assert_int_equal(sent_to(&f, 5), 0); /* nothing is known: the first of equals */
    end(&f, 15, 0, 15);
    arrive(&f, 100, 6);
    assert_int_equal(sent_to(&f, 6), 1); /* nothing is known of it, so it is tried */
    end(&f, 124, 1, 24);
    arrive(&f, 200, 50);
    assert_int_equal(sent_to(&f, 50), 0); /* 15 * 1 ms against 24 * 15/24 ms: of equals the first */
    end(&f, 260, 0, 60);
    arrive(&f, 300, 50);
    assert_int_equal(sent_to(&f, 50), 0);
    arrive(&f, 300, 40); /* strong would be late; weak takes 24 ms, as far as is known */
    assert_int_equal(sent_to(&f, 40), 1);
    end(&f, 360, 0, 60);
    end(&f, 460, 1, 160);
    arrive(&f, 600, 50); /* now both lines are known */
    assert_int_equal(sent_to(&f, 50), 0);
    end(&f, 660, 0, 60);
    arrive(&f, 700, 5);
    assert_int_equal(sent_to(&f, 5), 1);
    fixture_free(&f);
}

TEST(models_share_the_pool) {
    struct fixture f;
    fixture_init(&f, "", one_each);
    arrive_model(&f, 0, 0, 5, 100); /* weak */
    assert_int_equal(sent_to(&f, 5), 1);
    arrive_model(&f, 0, 1, 6, 100); /* runs on weak only, and waits, although strong is idle */
    assert_int_equal(f.out.action_count, 0);
    arrive_model(&f, 10, 0, 4, 100); /* 14 of strong; weak will be taken */
    assert_int_equal(sent_to(&f, 4), 0);
    end(&f, 20, 1, 20);
    assert_int_equal(sent_to(&f, 6), 1);
    assert_int_equal(f.out.actions[0].model, 1);
    tell(&f, 30, CENTRAL_DOWN, 1);
    end(&f, 30, 1, 0);
    arrive_model(&f, 30, 1, 7, 100);
    assert_int_equal(f.out.wake_ns, 130 * MS);
    fixture_free(&f);
}

TEST(a_prediction_may_be_noisy_but_repeats) {
    for (int noisy = 0; noisy < 2; noisy++) {
        uint32_t strong[2] = {0, 0};
        for (int again = 0; again < 2; again++) {
            struct fixture f;
            fixture_init(&f, noisy ? "noise=0.2" : "", one_each);
            for (int64_t i = 0; i < 200; i++) {
                arrive_handle(&f, i * 1000, (uint64_t)i, 24); /* on weak 96 ms, of 98 allowed */
                uint32_t to = sent_to(&f, 24);
                assert_int_not_equal(to, NOT_DISPATCHED);
                strong[again] += to == 0;
                end(&f, i * 1000 + 96, to, to == 0 ? 34 : 96);
            }
            fixture_free(&f);
        }
        assert_int_equal(strong[0], strong[1]);
        if (noisy)
            assert_in_range(strong[0], 60, 140); /* a normal error is over 2/96 about half the time */
        else
            assert_int_equal(strong[0], 0);
    }
}

/* ---- what it was compared with ---- */

TEST(ribbon_serves_in_order_on_the_best_idle_instance) {
    struct fixture f;
    const int weak_first[] = {WEAK, STRONG, STRONG, -1};
    fixture_init(&f, "scheme=ribbon,late=serve", weak_first);
    arrive(&f, 0, 5);
    assert_int_equal(sent_to(&f, 5), 1);
    arrive(&f, 0, 6);
    assert_int_equal(sent_to(&f, 6), 2);
    arrive(&f, 0, 50); /* 200 ms, twice the SLO: it does not look */
    assert_int_equal(sent_to(&f, 50), 0);
    arrive(&f, 1, 7);
    arrive(&f, 2, 8);
    end(&f, 15, 1, 15);
    assert_int_equal(sent_to(&f, 7), 1);
    fixture_free(&f);
    fixture_init(&f, "scheme=ribbon", weak_first);
    arrive(&f, 0, 5);
    arrive(&f, 0, 6);
    arrive(&f, 0, 50);
    assert_true(refused(&f, 50, REFUSAL_DEADLINE)); /* nothing late is started */
    fixture_free(&f);
}

TEST(drs_divides_by_size) {
    struct fixture f;
    fixture_init(&f, "scheme=drs,threshold=10", one_each);
    arrive(&f, 0, 10);
    assert_int_equal(sent_to(&f, 10), 1);
    arrive(&f, 0, 9); /* waits for weak, although strong is idle */
    assert_int_equal(f.out.action_count, 0);
    arrive(&f, 0, 11);
    assert_int_equal(sent_to(&f, 11), 0);
    end(&f, 21, 0, 21);
    assert_int_equal(f.out.action_count, 0);
    end(&f, 40, 1, 40);
    assert_int_equal(sent_to(&f, 9), 1);
    tell(&f, 50, CENTRAL_DOWN, 1); /* without weak instances there is nothing to divide */
    end(&f, 50, 1, 0);
    arrive(&f, 50, 8);
    assert_int_equal(sent_to(&f, 8), 0);
    fixture_free(&f);
}

TEST(drs_climbs_to_a_better_threshold) {
    struct fixture f;
    fixture_init(&f, "scheme=drs,climb_queries=4", one_each); /* begins at 25, in steps of 6 */
    int64_t now_ms = 0;
    bool to_weak = true;
    /* Queries of 24 items take 96 ms on weak: over an SLO of 90 each one is refused there, until they go to strong. */
    for (int i = 0; i < 60 && to_weak; i++, now_ms += 1000) {
        arrive_model(&f, now_ms, 0, 24, 90);
        to_weak = refused(&f, 24, REFUSAL_DEADLINE);
        if (!to_weak)
            end(&f, now_ms + 34, sent_to(&f, 24), 34);
    }
    assert_false(to_weak);
    for (int i = 0; i < 40; i++, now_ms += 1000) { /* and stays where nothing is bad */
        arrive_model(&f, now_ms, 0, 24, 90);
        assert_int_equal(sent_to(&f, 24), 0);
        end(&f, now_ms + 34, 0, 34);
    }
    fixture_free(&f);
}

TEST(clkwrk_joins_the_queue_that_finishes_first) {
    struct fixture f;
    fixture_init(&f, "scheme=clkwrk", one_each);
    arrive(&f, 0, 20); /* strong 30, weak 80 */
    assert_int_equal(sent_to(&f, 20), 0);
    arrive(&f, 0, 10); /* strong 30 + 20, weak 40 */
    assert_int_equal(sent_to(&f, 10), 1);
    arrive(&f, 0, 12); /* strong 52, weak 40 + 48 */
    arrive(&f, 0, 9);  /* strong 52 + 19, weak 40 + 36: behind the other */
    assert_int_equal(f.out.action_count, 0);
    end(&f, 30, 0, 30);
    assert_int_equal(sent_to(&f, 12), 0);
    tell(&f, 35, CENTRAL_DOWN, 0); /* its queue goes where it can */
    assert_int_equal(f.out.action_count, 0);
    end(&f, 35, 0, 0);
    end(&f, 40, 1, 40);
    assert_int_equal(sent_to(&f, 9), 1);
    fixture_free(&f);
}

TEST(clkwrk_refuses_in_time_what_is_stuck) {
    struct fixture f;
    const int strong[] = {STRONG, -1};
    fixture_init(&f, "scheme=clkwrk", strong);
    arrive(&f, 0, 20);
    arrive(&f, 0, 30); /* must begin by 60; the one before takes longer than expected */
    assert_int_equal(f.out.wake_ns, 60 * MS + 1);
    cancel(&f, 10, 99); /* nobody */
    assert_int_equal(f.out.refused, REQUEST_NONE);
    timer(&f, 60 * MS + 1);
    assert_true(refused(&f, 30, REFUSAL_DEADLINE));
    arrive(&f, 61, 8);
    cancel(&f, 62, 8);
    assert_true(refused(&f, 8, REFUSAL_CANCELLED));
    fixture_free(&f);
}

TEST(the_oracle_gives_the_largest_to_strong_and_the_smallest_to_weak) {
    struct fixture f;
    fixture_init(&f, "scheme=oracle", one_each);
    tell(&f, 0, CENTRAL_DOWN, 1);
    arrive(&f, 0, 10);
    arrive(&f, 0, 6);
    arrive(&f, 0, 20);
    arrive(&f, 0, 5);
    tell(&f, 1, CENTRAL_UP, 1);
    assert_int_equal(sent_to(&f, 5), 1);
    end(&f, 20, 0, 20);
    assert_int_equal(sent_to(&f, 20), 0);
    end(&f, 21, 1, 20);
    assert_int_equal(sent_to(&f, 6), 1);
    fixture_free(&f);
}

/* The pool is that of the sizes that came, by what queries took: weak instances that turn out to be slow are not asked
 * for any more. */
TEST(the_pool_is_chosen_while_it_serves) {
    const double price[] = {10, 1};
    struct fixture f;
    fixture_init(&f, "budget=19", one_each);
    fixture_free(&f);
    f.models[0].slo_ns = 100 * MS;
    f.config.price = price;
    f.config.model_count = 1;
    for (int t = 0; t < 2; t++) {
        f.profiles[t] = malloc(profile_bytes(ITEMS_MAX));
        profile_set_line(f.profiles[t], ITEMS_MAX, t == STRONG ? MS : 4 * MS, t == STRONG ? 10 * MS : 0);
        f.models[0].profiles[t] = f.profiles[t];
    }
    f.core = calloc(1, policy_kairos.central->bytes(&f.config));
    policy_kairos.central->init(f.core, &f.config, &f.pool);
    assert_null(policy_kairos.central->pool(f.core));
    assert_true(policy_kairos.central->pool_budget(&f.options) == 19);
    int64_t now_ms = 0;
    for (uint32_t i = 0; i < POOL_WATCH_EVERY; i++, now_ms += 100) {
        arrive(&f, now_ms, i % 2 ? 5 : 50);
        end(&f, now_ms + 60, sent_to(&f, i % 2 ? 5 : 50), i % 2 ? 20 : 60);
    }
    const uint16_t *pool = policy_kairos.central->pool(f.core);
    assert_non_null(pool); /* one strong one for the queries of 50 items; one weak one serves more of 5 than come */
    assert_int_equal(pool[STRONG], 1);
    assert_int_equal(pool[WEAK], 1);
    for (uint32_t i = 0; i < POOL_WATCH_EVERY; i++, now_ms += 300) {
        arrive(&f, now_ms, i % 2 ? 5 : 50);
        uint32_t at = sent_to(&f, i % 2 ? 5 : 50);
        end(&f, now_ms + 200, at, at == 1 ? 200 : 15); /* the weak one takes ten times as long as profiled */
    }
    assert_int_equal(pool[STRONG], 1);
    assert_int_equal(pool[WEAK], 0);
    fixture_free(&f);
}
