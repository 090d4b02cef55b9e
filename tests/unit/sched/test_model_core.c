/* test_model_core.c - one model's queue, batches and refusals, with a policy whose every answer the test sets.
 *
 * Time in these tests is in units of 1 ns; l(b) = 10*b + 20 unless said otherwise. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "sched/model_core.h"
#include "sched/model_view.h"
#include "unit/cmocka_all.h"

#define CAPACITY 64
#define BATCH    8

/* What the test policy answers. */
static struct {
    uint32_t target, cap;
    bool admit, no_leftovers;
    int64_t start_ns[SUPPLY_LEVELS];
    struct batch_view seen; /* the last batch it was shown */
} script;

static void script_update(struct model_view *m, void *own) {
    (void)own;
    m->batch_best = 1;
    m->target_items = script.target;
    m->items_cap = script.cap;
    m->no_leftovers = script.no_leftovers;
}

static bool script_admit(struct model_view *m, void *own, const struct request_node *request) {
    (void)m, (void)own, (void)request;
    return script.admit;
}

static struct batch_times script_times(const struct model_view *m, const void *own, uint32_t type,
                                       const struct batch_view *batch) {
    (void)m, (void)own, (void)type;
    script.seen = *batch;
    struct batch_times times = {.order_ns = batch->invalid_after_ns};
    memcpy(times.start_ns, script.start_ns, sizeof(times.start_ns));
    return times;
}

static const struct policy_ops policy_script = {
    .name = "script",
    .model_bytes = 8,
    .model_update = script_update,
    .model_admit = script_admit,
    .batch_times = script_times,
};

struct fixture {
    struct model_core *core;
    struct request_pool pool;
    struct request_node nodes[CAPACITY];
    struct profile *profiles[2];
    struct model_output out;
};

static struct profile *line(double alpha_ns, double beta_ns) {
    struct profile *profile = malloc(profile_bytes(BATCH));
    assert_non_null(profile);
    profile_set_line(profile, BATCH, alpha_ns, beta_ns);
    return profile;
}

static struct fixture *fixture_with(struct model_core_config config) {
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    config.batch_max = BATCH;
    if (!config.policy)
        config.policy = &policy_script;
    f->core = malloc(model_core_bytes(&config));
    assert_non_null(f->core);
    request_pool_init(&f->pool, f->nodes, CAPACITY);
    model_core_init(f->core, &config, &f->pool);
    for (uint32_t t = 0; t < config.types; t++)
        f->profiles[t] = (struct profile *)config.profiles[t];
    return f;
}

static void script_reset(void) {
    memset(&script, 0, sizeof(script));
    script.target = 1;
    script.admit = true;
}

static struct fixture *fixture_new(void) {
    script_reset();
    return fixture_with((struct model_core_config){.types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000});
}

static void fixture_free(struct fixture *f) {
    free(f->profiles[0]);
    free(f->profiles[1]);
    free(f->core);
    free(f);
}

static void step(struct fixture *f, int64_t now_ns, struct model_event event) {
    model_core_step(f->core, now_ns, &event, &f->out);
}

static void arrive(struct fixture *f, int64_t now_ns, uint64_t handle, int64_t deadline_ns, uint32_t items) {
    struct request_message message = {
        .handle = handle, .arrival_ns = now_ns, .deadline_ns = deadline_ns, .items = items};
    step(f, now_ns, (struct model_event){.kind = MODEL_ARRIVED, .request = &message});
}

static void cancel(struct fixture *f, int64_t now_ns, uint64_t handle, int64_t deadline_ns) {
    struct request_message message = {.kind = REQUEST_CANCELLED, .handle = handle, .deadline_ns = deadline_ns};
    step(f, now_ns, (struct model_event){.kind = MODEL_CANCELLED, .request = &message});
}

static void grant_at(struct fixture *f, int64_t now_ns, uint32_t type, uint32_t supply) {
    struct grant_message message = {.kind = GRANT_ACCELERATOR, .type = type, .supply = supply};
    step(f, now_ns, (struct model_event){.kind = MODEL_GRANTED, .grant = &message});
}

static void grant(struct fixture *f, int64_t now_ns, uint32_t type, bool leftovers) {
    struct grant_message message = {.kind = GRANT_ACCELERATOR, .type = type, .leftovers = leftovers};
    step(f, now_ns, (struct model_event){.kind = MODEL_GRANTED, .grant = &message});
}

static void timer(struct fixture *f, int64_t now_ns) {
    step(f, now_ns, (struct model_event){.kind = MODEL_TIMER});
}

/* The target changes with the parameters. */
static void target(struct fixture *f, int64_t now_ns, uint32_t items) {
    struct grant_message message = {.kind = GRANT_PARAMETERS, .parameters.type_share = {1}, .admit_share = 1};
    script.target = items;
    step(f, now_ns, (struct model_event){.kind = MODEL_PARAMETERS, .grant = &message});
}

/* Takes the requests of a list back into the pool and returns their handles as digits: 123 for 1, 2, 3. */
static int handles(struct fixture *f, uint32_t node) {
    int digits = 0;
    while (node != REQUEST_NONE) {
        uint32_t next = f->nodes[node].next;
        digits = digits * 10 + (int)f->nodes[node].handle;
        request_pool_put(&f->pool, node);
        node = next;
    }
    return digits;
}

/* There are leftovers for the first type of accelerators, which may start until then. */
#define assert_leftovers(f, until_ns)                                                                                  \
    do {                                                                                                               \
        assert_true(candidate_leftovers(&(f)->out.candidates[0]));                                                     \
        assert_int_equal((f)->out.candidates[0].leftovers_invalid_after_ns, until_ns);                                 \
    } while (0)

#define assert_quiet(f)                                                                                                \
    do {                                                                                                               \
        assert_int_equal((f)->out.refused, REQUEST_NONE);                                                              \
        assert_int_equal((f)->out.batch, REQUEST_NONE);                                                                \
    } while (0)

static void a_batch_is_what_is_queued_in_deadline_order(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 300, 1);
    assert_true(f->out.candidate_changed);
    assert_int_equal(model_core_items(f->core, 0), 1);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 300 - 30);
    arrive(f, 1, 2, 200, 1); /* an earlier deadline */
    arrive(f, 2, 3, 300, 1);
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 200 - 50);
    assert_int_equal(script.seen.due_ns, 200 - 60);
    assert_int_equal(model_core_queued(f->core), 3);
    grant(f, 10, 0, false);
    assert_int_equal(f->out.batch_requests, 3);
    assert_int_equal(f->out.batch_items, 3);
    assert_int_equal(f->out.batch_finish_ns - f->out.batch_run_ns, 10);
    assert_int_equal(f->out.batch_finish_ns, 60);
    assert_int_equal(handles(f, f->out.batch), 213);
    assert_true(f->out.candidate_changed);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], TIME_NEVER);
    assert_int_equal(f->out.wake_ns, TIME_NEVER);
    assert_true(model_core_idle(f->core));
    fixture_free(f);
}

static void a_batch_is_no_larger_than_its_head_has_time_for(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    for (int i = 1; i <= 5; i++)
        arrive(f, 0, (uint64_t)i, 55, 1); /* time for l(3) = 50 */
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_true(script.seen.full);
    grant(f, 5, 0, false);
    assert_int_equal(handles(f, f->out.batch), 123);
    /* the rest: 50 left, time for three, and there are two */
    assert_int_equal(model_core_items(f->core, 0), 2);
    fixture_free(f);
}

static void an_arrival_that_cannot_join_changes_nothing_for_the_rank(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    for (int i = 0; i < 3; i++)
        arrive(f, 0, (uint64_t)i, 55, 1);
    arrive(f, 1, 3, 55, 1);
    arrive(f, 2, 4, 55, 1);
    assert_false(f->out.candidate_changed);
    fixture_free(f);
}

/* Trap: an invalid candidate was thrown away until the model's next arrival. */
static void a_batch_past_its_latest_start_is_composed_anew(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    for (int i = 1; i <= 3; i++)
        arrive(f, 0, (uint64_t)i, 100, 1);
    assert_int_equal(f->out.wake_ns, 100 - 50 + 1);
    timer(f, 51);
    assert_quiet(f);
    assert_true(f->out.candidate_changed);
    assert_int_equal(model_core_items(f->core, 0), 2);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 60);
    assert_int_equal(f->out.wake_ns, 61);
    fixture_free(f);
}

/* Trap: refused only at the deadline, and without telling the rank core. */
static void a_request_is_refused_as_soon_as_it_is_hopeless(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 100, 1);
    timer(f, 70); /* l(1) = 30 still fits */
    assert_quiet(f);
    timer(f, 71);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_DEADLINE);
    assert_int_equal(handles(f, f->out.refused), 1);
    assert_true(f->out.candidate_changed);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], TIME_NEVER);
    arrive(f, 80, 2, 109, 1); /* hopeless when it comes */
    assert_int_equal(handles(f, f->out.refused), 2);
    arrive(f, 80, 3, 400, BATCH + 1); /* larger than any batch */
    assert_int_equal(handles(f, f->out.refused), 3);
    assert_int_equal(f->pool.used, 0);
    fixture_free(f);
}

/* Trap: dropping only what can no longer make it is not flat-top; the window drop keeps batches at the target. */
static void the_window_drop_gives_up_heads_until_the_target_fits(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    script.target = 3;
    arrive(f, 0, 1, 90, 1);
    arrive(f, 0, 2, 95, 1);
    arrive(f, 0, 3, 120, 1);
    arrive(f, 0, 4, 130, 1);
    target(f, 0, 3);
    assert_int_equal(model_core_items(f->core, 0), 4);
    target(f, 40, 3); /* l(3) = 50 fits before 90 */
    assert_int_equal(f->out.candidates[0].rest, REST_NONE);
    timer(f, 41); /* and now it does not: 1 waits among the leftovers, 2 heads a batch of 3 */
    assert_quiet(f);
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 95 - 50);
    assert_leftovers(f, 90 - 30);
    timer(f, 46); /* two are left, which is all there is: no more is wanted than that */
    assert_int_equal(model_core_items(f->core, 0), 2);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 120 - 40);
    timer(f, 61); /* the leftover 1 dies */
    assert_int_equal(handles(f, f->out.refused), 1);
    fixture_free(f);
}

/* With few queued, all of them are wanted; one more may be too many for the head. */
static void an_arrival_may_cost_the_head_its_place(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    script.target = 3;
    arrive(f, 0, 1, 100, 1);
    target(f, 0, 3);
    arrive(f, 65, 2, 200, 1); /* l(1) = 30 fits before 100, l(2) = 40 does not */
    assert_quiet(f);
    assert_int_equal(model_core_items(f->core, 0), 1);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 200 - 30);
    assert_leftovers(f, 100 - 30);
    fixture_free(f);
}

static void leftovers_run_on_a_grant_for_leftovers_only(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    script.admit = false;
    arrive(f, 0, 1, 100, 1);
    arrive(f, 0, 2, 100, 1);
    arrive(f, 0, 3, 40, 1);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], TIME_NEVER);
    assert_leftovers(f, 10);
    grant(f, 5, 0, false);
    assert_quiet(f);
    grant(f, 5, 0, true); /* 35 left of 40: time for one */
    assert_int_equal(handles(f, f->out.batch), 3);
    grant(f, 5, 0, true);
    assert_int_equal(handles(f, f->out.batch), 12);
    grant(f, 5, 0, true);
    assert_quiet(f);
    assert_int_equal(f->out.batch_items, 0);
    fixture_free(f);
}

/* Trap: a granted batch that starts in the future seals it and idles the accelerator. */
static void a_grant_before_the_batch_is_ready_gives_the_accelerator_back(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    script.start_ns[SUPPLY_SCARCE] = 60;
    script.start_ns[SUPPLY_AMPLE] = 50;
    arrive(f, 0, 1, 500, 1);
    grant(f, 49, 0, false);
    assert_quiet(f);
    assert_int_equal(f->out.batch_items, 0);
    assert_true(f->out.candidate_changed); /* the answer brings the candidate all the same */
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], 60);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_AMPLE], 50);
    grant(f, 50, 0, false); /* of one that is scarce */
    assert_int_equal(f->out.batch_items, 0);
    grant_at(f, 50, 0, SUPPLY_AMPLE);
    assert_int_equal(handles(f, f->out.batch), 1);
    fixture_free(f);
}

/* Trap: `earliest` depends on delay(b), and b on it. */
static void the_delay_before_a_batch_counts_with_its_size(void **state) {
    (void)state;
    script_reset();
    struct fixture *f = fixture_with(
        (struct model_core_config){.types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .ctrl_ns = 5, .data_ns = 2});
    for (int i = 1; i <= 4; i++)
        arrive(f, 0, (uint64_t)i, 70, 1); /* l(4) + delay(4) = 60 + 13 > 70; l(3) + delay(3) = 61 */
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 70 - 61);
    step(f, 0, (struct model_event){.kind = MODEL_DELAYS, .delays = {1, 0}});
    assert_int_equal(model_core_items(f->core, 0), 4);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 70 - 61);
    grant(f, 3, 0, false);
    assert_int_equal(f->out.batch_finish_ns - f->out.batch_run_ns, 4);
    assert_int_equal(f->out.batch_finish_ns, 64);
    fixture_free(f);
}

static void a_batch_counts_items(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 500, 3);
    arrive(f, 0, 2, 500, 2);
    assert_int_equal(model_core_items(f->core, 0), 5);
    arrive(f, 0, 3, 500, 4); /* 9 are too many: the batch is full with 5 */
    assert_int_equal(model_core_items(f->core, 0), 5);
    assert_true(script.seen.full);
    arrive(f, 0, 4, 500, 1); /* it would fit, but a batch is a prefix in deadline order */
    assert_int_equal(model_core_items(f->core, 0), 5);
    grant(f, 0, 0, false);
    assert_int_equal(f->out.batch_requests, 2);
    assert_int_equal(handles(f, f->out.batch), 12);
    assert_int_equal(model_core_items(f->core, 0), 5);
    assert_false(script.seen.full);
    fixture_free(f);
}

/* A table that gets dearer over 4 items caps batches there, but a single request may be larger. */
static void a_request_over_the_usual_cap_runs_alone(void **state) {
    (void)state;
    script_reset();
    struct profile *bent = line(10, 20);
    for (uint32_t b = 5; b <= BATCH + 1; b++)
        bent->latency_ns[b] = 60 + 30 * (b - 4);
    struct fixture *f = fixture_with((struct model_core_config){.types = 1, .profiles = {bent}, .slo_ns = 1000});
    for (int i = 1; i <= 5; i++)
        arrive(f, 0, (uint64_t)i, 500, 1);
    assert_int_equal(model_core_items(f->core, 0), 4);
    grant(f, 0, 0, false);
    assert_int_equal(handles(f, f->out.batch), 1234);
    arrive(f, 0, 6, 400, 7); /* earlier than 5 */
    assert_int_equal(model_core_items(f->core, 0), 7);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 400 - 150);
    grant(f, 0, 0, false);
    assert_int_equal(handles(f, f->out.batch), 6);
    fixture_free(f);
}

static void a_cancelled_request_leaves_wherever_it_waits(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 100, 1);
    arrive(f, 0, 2, 200, 1);
    cancel(f, 1, 1, 100);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_CANCELLED);
    assert_int_equal(handles(f, f->out.refused), 1);
    assert_int_equal(model_core_items(f->core, 0), 1);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 170);
    cancel(f, 1, 1, 100); /* twice */
    assert_quiet(f);
    script.admit = false;
    arrive(f, 1, 3, 300, 1);
    cancel(f, 2, 3, 300); /* among the leftovers */
    assert_int_equal(handles(f, f->out.refused), 3);
    assert_int_equal(f->out.candidates[0].rest, REST_NONE);
    grant(f, 3, 0, false);
    assert_int_equal(handles(f, f->out.batch), 2);
    cancel(f, 4, 2, 200); /* in a batch already */
    assert_quiet(f);
    assert_int_equal(f->pool.used, 0);
    fixture_free(f);
}

static void each_type_has_its_own_candidate(void **state) {
    (void)state;
    script_reset();
    struct fixture *f =
        fixture_with((struct model_core_config){.types = 2, .profiles = {line(10, 20), line(20, 40)}, .slo_ns = 1000});
    arrive(f, 0, 1, 100, 1);
    arrive(f, 0, 2, 110, 1);
    arrive(f, 0, 3, 300, 1);
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 100 - 50);
    assert_int_equal(model_core_items(f->core, 1), 3);
    assert_int_equal(f->out.candidates[1].invalid_after_ns, 100 - 100);
    timer(f, 41); /* the slow type can no longer make 1 (l(1) = 60), but 2 and 3 */
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_int_equal(model_core_items(f->core, 1), 1);
    assert_int_equal(f->out.candidates[1].invalid_after_ns, 110 - 60);
    timer(f, 51); /* nor 2 */
    assert_int_equal(f->out.candidates[1].invalid_after_ns, 300 - 60);
    grant(f, 51, 1, false);
    assert_int_equal(handles(f, f->out.batch), 3); /* out of the middle of the queue */
    assert_int_equal(f->out.batch_finish_ns, 51 + 60);
    assert_int_equal(model_core_items(f->core, 0), 2);
    assert_int_equal(f->out.candidates[1].start_ns[SUPPLY_SCARCE], TIME_NEVER);
    /* nobody is refused while the fast type can make them */
    assert_int_equal(f->out.refused, REQUEST_NONE);
    grant(f, 52, 0, false);
    assert_int_equal(handles(f, f->out.batch), 12);
    fixture_free(f);
}

static void a_type_with_no_accelerator_in_service_does_not_count(void **state) {
    (void)state;
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

static void fits_are_averaged_over_accelerators(void **state) {
    (void)state;
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
        grant(f, now, 0, false);
        reported |= f->out.rates_changed;
        handles(f, f->out.batch);
    }
    assert_true(f->out.rates.alpha_ns > 12.49 && f->out.rates.alpha_ns < 12.51);
    assert_true(f->out.rates.beta_ns > 24.9 && f->out.rates.beta_ns < 25.1);
    fixture_free(f);
}

static void rates_are_reported_once_a_tick_while_requests_come(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    int64_t now = 1000, reports = 0;
    for (int i = 0; i < 1000; i++, now += NS_PER_MS) {
        arrive(f, now, 1, now + 500, 2);
        reports += f->out.rates_changed;
        grant(f, now, 0, false);
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
        grant(f, now + 500, 0, false);
        handles(f, f->out.batch);
    }
    rates_await(f, now);
    double rate = f->out.rates.bad_rate;
    assert_true(f->out.rates.dropped_rate == rate);
    fixture_free(f);
    return rate;
}

static void the_bad_rate_counts_refusals_but_no_cancellations(void **state) {
    (void)state;
    double rate = bad_rate_after(4000);
    assert_true(rate > 0.30 && rate < 0.34); /* one of three */
}

static void the_first_requests_tell_the_bad_rate_soon(void **state) {
    (void)state;
    double rate = bad_rate_after(200);
    assert_true(rate > 0.19 && rate < 0.21); /* 100 of 300, and 200 good ones before them */
}

static void the_bad_rate_counts_late_runs(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    int64_t now = 0;
    for (int i = 0; i < 20000; i++, now += NS_PER_MS) {
        arrive(f, now, 1, now + 500, 1);
        grant(f, now, 0, false);
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
static void in_silence_the_mean_slo_goes_back_to_the_usual_one(void **state) {
    (void)state;
    struct fixture *f = fixture_new(); /* 1000 */
    int64_t now = 1000;
    for (int i = 0; i < 1000; i++, now += NS_PER_MS) {
        arrive(f, now, 1, now + 100, 1);
        grant(f, now, 0, false);
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
static void what_nothing_could_serve_steers_nothing(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    int64_t now = 1000;
    for (int i = 0; i < 1000; i++, now += NS_PER_MS) {
        arrive(f, now, 1, now + 500, 2);
        grant(f, now, 0, false);
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

static void measured_runs_correct_the_table_when_learning(void **state) {
    (void)state;
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
static void a_slow_first_run_refuses_nobody(void **state) {
    (void)state;
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
static void nothing_is_stranded_before_the_first_parameters(void **state) {
    (void)state;
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
static void only_what_the_profile_allows_takes_corrections_back(void **state) {
    (void)state;
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

/* An accelerator that is granted before it is free: the batch ends after that. */
static void a_batch_sealed_ahead_ends_when_its_accelerator_has_had_time(void **state) {
    (void)state;
    script_reset();
    /* without fetch_ahead the 2*b pass on the accelerator, with it they pass before */
    for (int ahead = 0; ahead <= 1; ahead++) {
        struct fixture *f = fixture_with((struct model_core_config){
            .types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .ctrl_ns = 5, .data_ns = 2, .fetch_ahead = ahead});
        for (int i = 1; i <= 6; i++)
            arrive(f, 0, (uint64_t)i, 100, 1);
        assert_int_equal(model_core_items(f->core, 0), 6); /* 5 + 2*6 + 80 */
        struct grant_message message = {.kind = GRANT_ACCELERATOR, .free_ns = 43};
        step(f, 0, (struct model_event){.kind = MODEL_GRANTED, .grant = &message});
        assert_int_equal(f->out.batch_items, 3); /* 43 + 50 and the inputs; l(4) is 60 */
        assert_int_equal(f->out.batch_finish_ns, ahead ? 93 : 99);
        assert_int_equal(f->out.batch_run_ns, ahead ? 50 : 56);
        assert_int_equal(handles(f, f->out.batch), 123);
        assert_int_equal(model_core_items(f->core, 0), 3); /* for the others, every accelerator counts again */
        assert_int_equal(f->out.candidates[0].invalid_after_ns, 100 - 50 - 11);
        fixture_free(f);
    }
}

static void an_accelerator_that_would_be_free_too_late_is_given_back(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 60, 1);
    struct grant_message message = {.kind = GRANT_ACCELERATOR, .free_ns = 31};
    step(f, 0, (struct model_event){.kind = MODEL_GRANTED, .grant = &message});
    assert_quiet(f);
    assert_true(f->out.candidate_changed);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 30); /* another one may be free */
    grant(f, 30, 0, false);
    assert_int_equal(handles(f, f->out.batch), 1);
    fixture_free(f);
}

/* ---- what policies may ask of the mechanism ---- */

static struct fixture *fixture_of(const struct policy_ops *policy) {
    script_reset();
    return fixture_with(
        (struct model_core_config){.types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .policy = policy});
}

static const struct policy_ops policy_blind = {
    .name = "blind",
    .deadline_blind = true,
    .model_update = script_update,
    .batch_times = script_times,
};

static void a_deadline_blind_batch_is_what_is_queued(void **state) {
    (void)state;
    struct fixture *f = fixture_of(&policy_blind);
    arrive(f, 0, 1, 20, 1); /* hopeless from the start: l(1) = 30 */
    assert_quiet(f);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, TIME_NEVER);
    assert_int_equal(f->out.wake_ns, TIME_NEVER);
    arrive(f, 5, 2, 100, 1);
    arrive(f, 50, 3, 100, 1);
    assert_quiet(f);
    assert_int_equal(model_core_items(f->core, 0), 3);
    timer(f, 500); /* all are late */
    assert_quiet(f);
    assert_int_equal(model_core_items(f->core, 0), 3);
    for (int i = 4; i <= 9; i++)
        arrive(f, 500, (uint64_t)i, 510, 1);
    assert_int_equal(model_core_items(f->core, 0), BATCH); /* of nine */
    assert_true(script.seen.full);
    grant(f, 500, 0, false);
    assert_int_equal(handles(f, f->out.batch), 12345678);
    grant(f, 600, 0, false);
    assert_int_equal(handles(f, f->out.batch), 9);
    fixture_free(f);
}

static uint32_t part_of_four(const struct model_view *m, const void *own, uint32_t items, int64_t head_arrival_ns,
                             int64_t now_ns) {
    (void)own;
    assert_int_equal(m->preferred_count, 2); /* of those that may be */
    return items >= 4 && now_ns - head_arrival_ns < 100 ? 4 : items;
}

static const struct policy_ops policy_sized = {
    .name = "sized",
    .deadline_blind = true,
    .model_update = script_update,
    .batch_times = script_times,
    .batch_part = part_of_four,
};

static void a_policy_may_take_a_part_of_a_batch(void **state) {
    (void)state;
    static const uint32_t sizes[] = {4, BATCH, BATCH + 1};
    script_reset();
    struct fixture *f = fixture_with((struct model_core_config){.types = 1,
                                                                .profiles = {line(10, 0)}, /* nothing pays */
                                                                .slo_ns = 1000,
                                                                .policy = &policy_sized,
                                                                .preferred = sizes,
                                                                .preferred_count = 3});
    for (int i = 1; i <= 6; i++)
        arrive(f, 0, (uint64_t)i, 1000, 1);
    assert_int_equal(model_core_items(f->core, 0), 6);
    grant(f, 0, 0, false);
    assert_int_equal(handles(f, f->out.batch), 1234);
    arrive(f, 50, 7, 1000, 3); /* 5 and 6 with it are five items: whole requests, as far as they fit */
    grant(f, 50, 0, false);
    assert_int_equal(handles(f, f->out.batch), 56);
    arrive(f, 60, 8, 1000, 5);
    grant(f, 160, 0, false);
    assert_int_equal(handles(f, f->out.batch), 78);
    arrive(f, 170, 9, 1000, 5); /* alone, larger than the part */
    grant(f, 170, 0, false);
    assert_int_equal(handles(f, f->out.batch), 9);
    fixture_free(f);
}

static void a_deadline_blind_queue_gives_up_no_heads(void **state) {
    (void)state;
    struct fixture *f = fixture_of(&policy_blind);
    target(f, 0, 4);
    for (int i = 1; i <= 4; i++)
        arrive(f, 0, (uint64_t)i, 45, 1); /* l(4) = 60 */
    assert_quiet(f);
    assert_int_equal(model_core_items(f->core, 0), 4);
    assert_int_equal(f->out.candidates[0].rest, REST_NONE);
    cancel(f, 10, 2, 45);
    assert_int_equal(handles(f, f->out.refused), 2);
    grant(f, 10, 0, false);
    assert_int_equal(handles(f, f->out.batch), 134);
    assert_true(model_core_idle(f->core));
    fixture_free(f);
}

/* Nobody would ever take it. */
static void a_deadline_blind_request_that_nothing_can_run_is_refused(void **state) {
    (void)state;
    struct fixture *f = fixture_of(&policy_blind);
    struct grant_message message = {.kind = GRANT_PARAMETERS, .admit_share = 1, .parameters.type_share = {0, 1}};
    arrive(f, 0, 1, 200, 1);
    step(f, 1, (struct model_event){.kind = MODEL_PARAMETERS, .grant = &message});
    assert_quiet(f);
    assert_int_equal(f->out.wake_ns, 201);
    timer(f, 201);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_STRANDED);
    assert_int_equal(handles(f, f->out.refused), 1);
    assert_true(model_core_idle(f->core));
    fixture_free(f);
}

static const struct policy_ops policy_strict = {
    .name = "strict",
    .no_leftovers = true,
    .model_update = script_update,
    .model_admit = script_admit,
    .batch_times = script_times,
};

static void refuses_at_once(const struct policy_ops *policy, bool no_leftovers) {
    struct fixture *f = fixture_of(policy);
    script.no_leftovers = no_leftovers;
    target(f, 0, 2);
    arrive(f, 0, 1, 35, 1);
    assert_quiet(f);
    arrive(f, 0, 2, 70, 1); /* two no longer fit before the head's deadline, one still would */
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_DEADLINE);
    assert_int_equal(handles(f, f->out.refused), 1);
    assert_int_equal(f->out.candidates[0].rest, REST_NONE);
    script.admit = false;
    arrive(f, 1, 3, 500, 1);
    assert_int_equal(handles(f, f->out.refused), 3);
    assert_int_equal(model_core_queued(f->core), 1);
    script.no_leftovers = false;
    fixture_free(f);
}

static void without_leftovers_what_is_given_up_is_refused_at_once(void **state) {
    (void)state;
    refuses_at_once(&policy_strict, false);
    refuses_at_once(&policy_script, true); /* one that has them at other times */
}

static void a_policy_may_cap_batches(void **state) {
    (void)state;
    static const struct policy_ops *const both[] = {&policy_strict, &policy_blind};
    for (size_t i = 0; i < 2; i++) {
        struct fixture *f = fixture_of(both[i]);
        script.cap = 3;
        target(f, 0, 1);
        for (int k = 1; k <= 4; k++)
            arrive(f, 0, (uint64_t)k, 500, 1);
        assert_int_equal(model_core_items(f->core, 0), 3);
        assert_int_equal(script.seen.items_most, 3);
        assert_true(script.seen.full);
        grant(f, 0, 0, false);
        assert_int_equal(handles(f, f->out.batch), 123);
        arrive(f, 1, 5, 900, 5); /* larger than the cap: alone */
        grant(f, 1, 0, false);
        assert_int_equal(handles(f, f->out.batch), 4);
        grant(f, 1, 0, false);
        assert_int_equal(handles(f, f->out.batch), 5);
        fixture_free(f);
    }
}

/* Items that each request asks a batch to have at most (0: any). */
static void arrive_asking(struct fixture *f, int64_t now_ns, uint64_t handle, uint16_t batch_most) {
    struct request_message request = {
        .handle = handle, .arrival_ns = now_ns, .deadline_ns = 1000 * NS_PER_MS, .items = 1, .batch_most = batch_most};
    step(f, now_ns, (struct model_event){.kind = MODEL_ARRIVED, .request = &request});
}

/* As large as the request of the last 10 ms wants that wants the largest. */
static void requests_may_ask_for_small_batches(void **state) {
    (void)state;
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
static void limits_are_those_of_the_profile(void **state) {
    (void)state;
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

static void a_batch_knows_when_it_changed(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    arrive(f, 3, 1, 100, 1);
    assert_int_equal(script.seen.changed_ns, 3);
    arrive(f, 7, 2, 100, 1);
    assert_int_equal(script.seen.changed_ns, 7);
    target(f, 9, 1); /* composed anew, as it was */
    assert_int_equal(script.seen.changed_ns, 7);
    cancel(f, 11, 2, 100);
    assert_int_equal(script.seen.changed_ns, 11);
    arrive(f, 12, 3, 50, 1); /* another head */
    assert_int_equal(script.seen.changed_ns, 12);
    fixture_free(f);
}

/* The refused handles of a list, each a bit, and their nodes back into the pool. */
static uint64_t bits(struct fixture *f, uint32_t node) {
    uint64_t set = 0;
    while (node != REQUEST_NONE) {
        uint32_t next = f->nodes[node].next;
        set |= 1ULL << f->nodes[node].handle % 64;
        request_pool_put(&f->pool, node);
        node = next;
    }
    return set;
}

/* Two cores of two types get the same arrivals, grants and timers; one is told of arrivals one by one, the other that
 * more come. In the end of each instant they say the same, if deadlines come in order: which of two heads is given up
 * may depend on which was known first. */
static void arrivals_of_one_time_settle_as_if_each_had(void **state) {
    (void)state;
    struct rng rng;

    rng_seed(&rng, 11);
    for (int round = 0; round < 200; round++) {
        struct fixture *f[2];
        uint64_t handle = 0;
        int64_t now_ns = 0, deadline_ns = 0, slack_ns = 20 + (int64_t)rng_below(&rng, 200);
        script_reset();
        script.target = 1 + (uint32_t)rng_below(&rng, 6);
        for (int i = 0; i < 2; i++)
            f[i] = fixture_with(
                (struct model_core_config){.types = 2, .profiles = {line(10, 20), line(25, 10)}, .slo_ns = 300});
        for (int turn = 0; turn < 60; turn++) {
            uint64_t refused[2] = {0, 0};
            uint32_t count = (uint32_t)rng_below(&rng, 6), most = CAPACITY - f[0]->pool.used;
            now_ns += (int64_t)rng_below(&rng, 60);
            if (deadline_ns < now_ns + slack_ns)
                deadline_ns = now_ns + slack_ns;
            for (uint32_t n = 0; n < count && n < most; n++) {
                struct request_message message = {.handle = handle++,
                                                  .arrival_ns = now_ns,
                                                  .deadline_ns = deadline_ns += (int64_t)rng_below(&rng, 10),
                                                  .items = 1 + (uint32_t)rng_below(&rng, 2)};
                for (int i = 0; i < 2; i++) {
                    step(f[i], now_ns,
                         (struct model_event){.kind = i ? MODEL_ARRIVING : MODEL_ARRIVED, .request = &message});
                    refused[i] |= bits(f[i], f[i]->out.refused);
                }
            }
            for (int i = 0; i < 2; i++) {
                if (rng_below(&rng, 2) == 0) /* need not be said if something else happens */
                    continue;
                step(f[i], now_ns, (struct model_event){.kind = MODEL_SETTLED});
                refused[i] |= bits(f[i], f[i]->out.refused);
            }
            bool granted = rng_below(&rng, 3) == 0;
            for (int i = 0; i < 2; i++) {
                if (granted)
                    grant(f[i], now_ns, (uint32_t)turn % 2, turn % 4 == 0);
                else
                    timer(f[i], now_ns);
                refused[i] |= bits(f[i], f[i]->out.refused);
            }
            assert_int_equal(f[0]->out.batch_items, f[1]->out.batch_items);
            assert_int_equal(bits(f[0], f[0]->out.batch), bits(f[1], f[1]->out.batch));
            assert_int_equal(refused[0], refused[1]);
            assert_int_equal(f[0]->out.wake_ns, f[1]->out.wake_ns);
            assert_int_equal(model_core_queued(f[0]->core), model_core_queued(f[1]->core));
            if (f[0]->out.candidate_changed && f[1]->out.candidate_changed)
                assert_memory_equal(f[0]->out.candidates, f[1]->out.candidates, 2 * sizeof(struct candidate));
        }
        fixture_free(f[0]);
        fixture_free(f[1]);
    }
}

/* ---- promised inputs ---- */

static void arrive_promised(struct fixture *f, int64_t now_ns, uint64_t handle, int64_t deadline_ns, int64_t ready_ns) {
    struct request_message message = {
        .handle = handle, .arrival_ns = now_ns, .deadline_ns = deadline_ns, .items = 1, .ready_ns = ready_ns};
    step(f, now_ns, (struct model_event){.kind = MODEL_ARRIVED, .request = &message});
}

static void prepared(struct fixture *f, int64_t now_ns, uint64_t handle) {
    struct request_message message = {.kind = REQUEST_READY, .handle = handle};
    step(f, now_ns, (struct model_event){.kind = MODEL_PREPARED, .request = &message});
}

static void promised_requests_join_when_their_inputs_are_there(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    arrive_promised(f, 0, 1, 400, 100);
    assert_int_equal(model_core_items(f->core, 0), 0); /* no batch yet, but it is known */
    assert_int_equal(model_core_queued(f->core), 1);
    assert_false(model_core_idle(f->core));
    assert_int_equal(f->out.wake_ns, 100);
    arrive_promised(f, 1, 2, 390, 50);
    assert_int_equal(f->out.wake_ns, 50);
    arrive(f, 2, 3, 380, 1); /* waits for nobody */
    assert_int_equal(model_core_items(f->core, 0), 1);
    grant(f, 3, 0, false);
    assert_int_equal(handles(f, f->out.batch), 3);
    assert_int_equal(f->out.wake_ns, 50);
    timer(f, 50); /* as promised */
    assert_int_equal(model_core_items(f->core, 0), 1);
    assert_true(f->out.candidate_changed);
    prepared(f, 60, 1); /* before its time */
    assert_int_equal(model_core_items(f->core, 0), 2);
    prepared(f, 61, 2); /* it is in the queue already */
    prepared(f, 61, 9);
    grant(f, 70, 0, false);
    assert_int_equal(handles(f, f->out.batch), 21);
    assert_true(model_core_idle(f->core));
    assert_int_equal(f->out.wake_ns, TIME_NEVER);
    fixture_free(f);
}

static void promised_requests_that_cannot_be_in_time_are_refused_at_once(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    arrive_promised(f, 0, 1, 300, 271); /* l(1) is 30 */
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_DEADLINE);
    assert_int_equal(handles(f, f->out.refused), 1);
    arrive_promised(f, 0, 2, 300, 270);
    assert_quiet(f);
    timer(f, 270);
    grant(f, 270, 0, false);
    assert_int_equal(handles(f, f->out.batch), 2);
    fixture_free(f);
}

static void promised_requests_can_be_cancelled(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    for (uint64_t h = 1; h <= 3; h++)
        arrive_promised(f, 0, h, 400, 100 - (int64_t)h);
    cancel(f, 5, 2, 400);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_CANCELLED);
    assert_int_equal(handles(f, f->out.refused), 2);
    cancel(f, 6, 2, 400);
    assert_quiet(f);
    timer(f, 100);
    assert_int_equal(model_core_items(f->core, 0), 2);
    grant(f, 100, 0, false);
    assert_int_equal(handles(f, f->out.batch), 31); /* of equal deadlines, as they joined */
    fixture_free(f);
}

/* A batch behind one that still runs takes along what is promised until that ends. */
static void batches_sealed_ahead_count_on_promises(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 400, 1);
    arrive_promised(f, 0, 2, 401, 80);
    arrive_promised(f, 0, 3, 402, 81);
    struct grant_message message = {.kind = GRANT_ACCELERATOR, .free_ns = 80};
    step(f, 10, (struct model_event){.kind = MODEL_GRANTED, .grant = &message});
    assert_int_equal(handles(f, f->out.batch), 12);
    assert_int_equal(model_core_queued(f->core), 1);
    timer(f, 81);
    assert_int_equal(model_core_items(f->core, 0), 1);
    fixture_free(f);
}

/* Whatever comes, each request leaves once. */
static void promised_requests_leave_once(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct fixture *f = fixture_new();
        struct rng rng;
        rng_seed(&rng, seed);
        uint64_t away = 0, next = 0;
        int64_t now_ns = 0;
        for (int turn = 0; turn < 300; turn++) {
            now_ns += (int64_t)rng_below(&rng, 30);
            uint64_t some = next ? rng_below(&rng, next) : 0;
            switch (rng_below(&rng, 5)) {
            case 0:
                if (next == 60)
                    continue;
                arrive_promised(f, now_ns, next, now_ns + 40 + (int64_t)rng_below(&rng, 300),
                                rng_below(&rng, 4) ? now_ns + (int64_t)rng_below(&rng, 200) : 0);
                next++;
                break;
            case 1:
                prepared(f, now_ns, some);
                break;
            case 2:
                cancel(f, now_ns, some, 0); /* only who is promised is found without a deadline */
                break;
            case 3: {
                struct grant_message message = {.kind = GRANT_ACCELERATOR,
                                                .free_ns = now_ns + (int64_t)rng_below(&rng, 80),
                                                .leftovers = rng_below(&rng, 2)};
                step(f, now_ns, (struct model_event){.kind = MODEL_GRANTED, .grant = &message});
                break;
            }
            default:
                if (f->out.wake_ns > now_ns && f->out.wake_ns != TIME_NEVER)
                    now_ns = f->out.wake_ns;
                timer(f, now_ns);
            }
            uint64_t left[] = {bits(f, f->out.refused), bits(f, f->out.batch)};
            assert_int_equal(left[0] & left[1], 0);
            assert_int_equal(away & (left[0] | left[1]), 0);
            away |= left[0] | left[1];
            assert_int_equal(model_core_queued(f->core), next - (uint64_t)__builtin_popcountll(away));
        }
        timer(f, now_ns + 10000);
        away |= bits(f, f->out.refused);
        assert_int_equal(away, ((uint64_t)1 << next) - 1);
        assert_true(model_core_idle(f->core));
        fixture_free(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_what_is_queued_in_deadline_order),
        cmocka_unit_test(a_batch_is_no_larger_than_its_head_has_time_for),
        cmocka_unit_test(an_arrival_that_cannot_join_changes_nothing_for_the_rank),
        cmocka_unit_test(a_batch_past_its_latest_start_is_composed_anew),
        cmocka_unit_test(a_request_is_refused_as_soon_as_it_is_hopeless),
        cmocka_unit_test(the_window_drop_gives_up_heads_until_the_target_fits),
        cmocka_unit_test(an_arrival_may_cost_the_head_its_place),
        cmocka_unit_test(leftovers_run_on_a_grant_for_leftovers_only),
        cmocka_unit_test(a_grant_before_the_batch_is_ready_gives_the_accelerator_back),
        cmocka_unit_test(the_delay_before_a_batch_counts_with_its_size),
        cmocka_unit_test(a_batch_sealed_ahead_ends_when_its_accelerator_has_had_time),
        cmocka_unit_test(an_accelerator_that_would_be_free_too_late_is_given_back),
        cmocka_unit_test(a_batch_counts_items),
        cmocka_unit_test(a_request_over_the_usual_cap_runs_alone),
        cmocka_unit_test(a_cancelled_request_leaves_wherever_it_waits),
        cmocka_unit_test(each_type_has_its_own_candidate),
        cmocka_unit_test(a_type_with_no_accelerator_in_service_does_not_count),
        cmocka_unit_test(fits_are_averaged_over_accelerators),
        cmocka_unit_test(rates_are_reported_once_a_tick_while_requests_come),
        cmocka_unit_test(the_bad_rate_counts_refusals_but_no_cancellations),
        cmocka_unit_test(the_first_requests_tell_the_bad_rate_soon),
        cmocka_unit_test(the_bad_rate_counts_late_runs),
        cmocka_unit_test(in_silence_the_mean_slo_goes_back_to_the_usual_one),
        cmocka_unit_test(what_nothing_could_serve_steers_nothing),
        cmocka_unit_test(measured_runs_correct_the_table_when_learning),
        cmocka_unit_test(nothing_is_stranded_before_the_first_parameters),
        cmocka_unit_test(a_slow_first_run_refuses_nobody),
        cmocka_unit_test(only_what_the_profile_allows_takes_corrections_back),
        cmocka_unit_test(a_deadline_blind_batch_is_what_is_queued),
        cmocka_unit_test(a_policy_may_take_a_part_of_a_batch),
        cmocka_unit_test(a_deadline_blind_queue_gives_up_no_heads),
        cmocka_unit_test(a_deadline_blind_request_that_nothing_can_run_is_refused),
        cmocka_unit_test(without_leftovers_what_is_given_up_is_refused_at_once),
        cmocka_unit_test(a_policy_may_cap_batches),
        cmocka_unit_test(requests_may_ask_for_small_batches),
        cmocka_unit_test(limits_are_those_of_the_profile),
        cmocka_unit_test(a_batch_knows_when_it_changed),
        cmocka_unit_test(arrivals_of_one_time_settle_as_if_each_had),
        cmocka_unit_test(promised_requests_join_when_their_inputs_are_there),
        cmocka_unit_test(promised_requests_that_cannot_be_in_time_are_refused_at_once),
        cmocka_unit_test(promised_requests_can_be_cancelled),
        cmocka_unit_test(batches_sealed_ahead_count_on_promises),
        cmocka_unit_test(promised_requests_leave_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
