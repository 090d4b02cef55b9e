/* test_executor_memory.c - emulated accelerators whose memory is limited: they load and unload what they are told,
 * beside the runs, and run nothing without its weights. The test is the central thread and the frontend. How many
 * histories are drawn: histories.h. */
/* Starts threads. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "back/executor/executor.h"
#include "core/data/residency.h"
#include "core/system/clock.h"
#include "core/util/rng.h"
#include "histories.h"
#include "unit/test.h"

#define ACCELERATORS 3
#define MODELS       4 /* model m has m + 1 pages */
#define PAGES        5
#define NEVER_ENDING 3 /* a model whose load takes hours */
#define RUN_NS       (100 * NS_PER_US)
#define LOAD_NS      (200 * NS_PER_US)
#define REQUESTS     512

struct rig {
    struct wiring wiring;
    struct served_model models[MODELS];
    struct profile *profile;
    const struct profile *profiles[MODELS];
    struct executor *executor;
    struct request_card *cards; /* [REQUESTS] */
    struct result_message results[REQUESTS];
    uint32_t sent, zero[MODELS];
    uint32_t ordered[ACCELERATORS][REQUESTS], orders[ACCELERATORS], answers[ACCELERATORS]; /* numbers of the orders */
    struct memory_counters counters[MODELS];
};

static struct rig *rig_start(double noise) {
    struct rig *rig = aligned_alloc(CACHE_LINE, (sizeof(*rig) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    struct wiring *w = &rig->wiring;
    struct sy_error err;

    memset(rig, 0, sizeof(*rig));
    w->central = true;
    w->frontends = w->model_threads = w->executors = 1;
    w->models = MODELS;
    w->accelerators = ACCELERATORS;
    w->batch_max = 1;
    w->thread_of_variant = w->thread_of_served = w->executor_of = rig->zero;
    w->memory_counters = rig->counters;
    assert_int_equal(wiring_init(w, false, &err), 0);
    rig->profile = malloc(profile_bytes(1));
    profile_set_line(rig->profile, 1, 1, RUN_NS);
    for (uint32_t m = 0; m < MODELS; m++) {
        struct served_model *model = &rig->models[m];
        static struct tensor_spec spec = {.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 1}};
        model->signature =
            (struct signature){.input_count = 1, .output_count = 1, .batched = true, .inputs = &spec, .outputs = &spec};
        model->batch_max = 1;
        model->weights_bytes = (m + 1) * PAGE_BYTES;
        model->load_ns = m == NEVER_ENDING ? 10000 * NS_PER_S : LOAD_NS;
        atomic_init(&model->state, MODEL_READY);
        rig->profiles[m] = rig->profile;
    }
    rig->cards = aligned_alloc(CACHE_LINE, REQUESTS * sizeof(*rig->cards));
    w->cards[0] = rig->cards;
    w->regions[0] = (struct region){0, SIZE_MAX, -1}; /* inputs lie anywhere */
    struct executor_config config = {.wiring = w,
                                     .accelerators = ACCELERATORS,
                                     .engine = &engine_emulated,
                                     .models = rig->models,
                                     .profiles = rig->profiles,
                                     .model_count = MODELS,
                                     .memory_bytes = PAGES * PAGE_BYTES,
                                     .noise = noise};
    assert_int_equal(executor_start(&rig->executor, &config, &err), 0);
    assert_int_equal(executor_wait_ready(rig->executor, &err), 0);
    return rig;
}

static void rig_stop(struct rig *rig) {
    assert_int_equal(executor_stop(rig->executor), 0);
    wiring_destroy(&rig->wiring);
    free(rig->profile);
    free(rig->cards);
    free(rig);
}

/* Pushes a batch or an order; returns its number. */
static uint32_t push(struct rig *rig, enum central_action_kind kind, uint32_t accelerator, uint32_t model,
                     int64_t latest_ns) {
    static float input;
    struct ring *ring = &rig->wiring.plans[0];
    uint32_t n = rig->sent++;
    assert_true(n < REQUESTS);
    if (kind != CENTRAL_RUN) {
        struct move_order *order = ring_reserve(wiring_orders(&rig->wiring, 0, 0));
        assert_non_null(order);
        *order = (struct move_order){.kind = (uint8_t)kind,
                                     .accelerator = accelerator,
                                     .variant.n = model,
                                     .place.n = model,
                                     .latest_ns = latest_ns};
        ring_push(wiring_orders(&rig->wiring, 0, 0));
        rig->ordered[accelerator][rig->orders[accelerator]++] = n;
        return n;
    }
    struct batch_plan *plan = ring_reserve_run(ring, batch_plan_slots(1));
    assert_non_null(plan);
    *plan = (struct batch_plan){.accelerator = accelerator,
                                .variant.n = model,
                                .place.n = model,
                                .request_count = 1,
                                .items = 1,
                                .sealed_ns = clock_now_ns(),
                                .earliest_ns = INT64_MIN,
                                .latest_ns = latest_ns,
                                .tag = n};
    rig->cards[n] = (struct request_card){
        .handle = handle_of(0, n, 1),
        .items = 1,
        .deadline_ns = clock_now_ns() + 6000 * NS_PER_S,
        .input_count = 1,
        .inputs = {{.offset = (uintptr_t)&input, .bytes = sizeof(input), .dim_count = 2, .dims = {1, 1}}},
    };
    plan->handles[0] = rig->cards[n].handle;
    ring_push_run(ring, batch_plan_slots(1));
    return n;
}

static void all_send(struct rig *rig) {
    ring_publish(&rig->wiring.plans[0]);
    ring_publish(wiring_orders(&rig->wiring, 0, 0));
    doorbell_ring(&rig->wiring.executor_bells[0]);
}

/* The end of a batch or of an order, or news. */
struct end {
    enum accelerator_news news;
    enum central_action_kind kind;
    uint32_t n, accelerator, model;
    int64_t took_ns; /* 0: it was refused */
};

static bool end_peek(struct rig *rig, struct end *end) {
    struct ring *ring = &rig->wiring.ran[0], *moved_ring = wiring_moved(&rig->wiring, 0, 0);
    const struct ran_message *ran = ring_peek(ring);
    const struct memory_moved *moved = ring_peek(moved_ring);
    if (moved) {
        uint32_t a = moved->accelerator;
        *end = (struct end){.news = NEWS_ENDED,
                            .kind = moved->kind,
                            .n = rig->ordered[a][rig->answers[a]++],
                            .accelerator = a,
                            .model = moved->variant.n,
                            .took_ns = !moved->done         ? 0
                                       : moved->took_ns > 0 ? moved->took_ns
                                                            : 1};
        ring_pop(moved_ring);
        ring_release(moved_ring);
    } else if (ran) {
        *end = (struct end){.news = ran->news,
                            .kind = CENTRAL_RUN,
                            .n = (uint32_t)ran->tag,
                            .accelerator = ran->accelerator,
                            .model = ran->variant.n,
                            .took_ns = ran->run_ns};
        ring_pop(ring);
        ring_release(ring);
    }
    return moved || ran;
}

static struct end take_end(struct rig *rig) {
    struct timespec ts = {.tv_nsec = 100000};
    struct end end;
    while (!end_peek(rig, &end))
        nanosleep(&ts, NULL);
    return end;
}

/* Takes the result of a run, which comes after its report. */
static const struct result_message *take_result(struct rig *rig, uint32_t n) {
    struct ring *ring = &rig->wiring.results[0];
    struct timespec ts = {.tv_nsec = 100000};
    while (!rig->results[n].handle) {
        const struct result_message *result = ring_peek(ring);
        if (!result) {
            nanosleep(&ts, NULL);
            continue;
        }
        rig->results[handle_slot(result->handle)] = *result;
        output_block_put(result->block);
        ring_pop(ring);
        ring_release(ring);
    }
    return &rig->results[n];
}

/* Sends a batch or an order, and waits until it is over. Returns the time that it took; 0: it was refused. */
static int64_t do_between(struct rig *rig, enum central_action_kind kind, uint32_t accelerator, uint32_t model,
                          int64_t latest_ns) {
    uint32_t n = push(rig, kind, accelerator, model, latest_ns);
    all_send(rig);
    struct end end = take_end(rig);
    assert_int_equal(end.news, NEWS_ENDED);
    assert_int_equal(end.kind, kind);
    assert_int_equal(end.n, n);
    assert_int_equal(end.model, model);
    assert_int_equal(end.accelerator, accelerator);
    if (kind == CENTRAL_RUN) {
        const struct result_message *result = take_result(rig, n);
        assert_int_equal(result->status, end.took_ns > 0 ? REQUEST_OK : REQUEST_LOST);
        assert_int_equal(result->absent, end.took_ns == 0);
    }
    return end.took_ns;
}

static int64_t do_now(struct rig *rig, enum central_action_kind kind, uint32_t accelerator, uint32_t model) {
    return do_between(rig, kind, accelerator, model, TIME_NEVER);
}

TEST(test_nothing_runs_without_its_weights) {
    struct rig *rig = rig_start(0);
    assert_int_equal(do_now(rig, CENTRAL_RUN, 1, 0), 0);
    assert_true(do_now(rig, CENTRAL_LOAD, 1, 0) >= LOAD_NS);
    assert_true(do_now(rig, CENTRAL_RUN, 1, 0) >= RUN_NS);
    assert_int_equal(do_now(rig, CENTRAL_RUN, 2, 0), 0); /* another accelerator */
    assert_int_equal(do_now(rig, CENTRAL_RUN, 1, 1), 0); /* another model */
    assert_true(do_now(rig, CENTRAL_UNLOAD, 1, 0) > 0);
    assert_int_equal(do_now(rig, CENTRAL_RUN, 1, 0), 0);
    assert_int_equal(executor_counters(rig->executor, 1)->absent_batches, 3);
    rig_stop(rig);
}

TEST(test_loads_that_cannot_begin_are_refused) {
    struct rig *rig = rig_start(0);
    assert_int_equal(do_between(rig, CENTRAL_LOAD, 0, 2, clock_now_ns() - 1), 0);
    assert_true(do_now(rig, CENTRAL_LOAD, 0, 2) > 0);
    assert_true(do_now(rig, CENTRAL_LOAD, 0, 1) > 0);
    assert_int_equal(do_now(rig, CENTRAL_LOAD, 0, 0), 0); /* the five pages are taken */
    assert_true(do_now(rig, CENTRAL_UNLOAD, 0, 1) > 0);
    assert_true(do_now(rig, CENTRAL_LOAD, 0, 0) > 0);
    rig_stop(rig);
}

/* A load that takes hours hinders no run, and later loads wait for it. */
TEST(test_loads_are_beside_runs) {
    struct rig *rig = rig_start(0);
    assert_true(do_now(rig, CENTRAL_LOAD, 0, 0) > 0);
    push(rig, CENTRAL_LOAD, 0, NEVER_ENDING, TIME_NEVER);
    push(rig, CENTRAL_UNLOAD, 0, 0, TIME_NEVER);
    all_send(rig);
    for (int i = 0; i < 3; i++)
        assert_true(do_now(rig, CENTRAL_RUN, 0, 0) >= RUN_NS);
    assert_true(do_now(rig, CENTRAL_LOAD, 1, 0) > 0); /* another accelerator has a link of its own */
    rig_stop(rig);
}

TEST(test_a_memory_is_emptied_after_the_batches) {
    struct rig *rig = rig_start(0);
    assert_true(do_now(rig, CENTRAL_LOAD, 0, 0) > 0);
    assert_true(do_now(rig, CENTRAL_LOAD, 0, 1) > 0);
    uint32_t first = push(rig, CENTRAL_RUN, 0, 0, TIME_NEVER);
    push(rig, CENTRAL_RUN, 0, 1, TIME_NEVER);
    all_send(rig);
    assert_int_equal(take_end(rig).n, first); /* the other one was taken up, too */
    push(rig, CENTRAL_EMPTY, 0, 0, TIME_NEVER);
    push(rig, CENTRAL_LOAD, 0, 2, TIME_NEVER);
    all_send(rig);
    for (uint32_t i = 1; i < 4; i++)
        assert_true(take_end(rig).took_ns > 0); /* it would be 0, if the weights had gone before */
    assert_int_equal(take_result(rig, first)->status, REQUEST_OK);
    assert_int_equal(take_result(rig, first + 1)->status, REQUEST_OK);
    assert_int_equal(do_now(rig, CENTRAL_RUN, 0, 0), 0);
    assert_true(do_now(rig, CENTRAL_RUN, 0, 2) > 0);
    rig_stop(rig);
}

TEST(test_an_accelerator_that_fails_has_nothing_left) {
    struct rig *rig = rig_start(0);
    assert_true(do_now(rig, CENTRAL_LOAD, 0, 0) > 0);
    uint32_t under_way = push(rig, CENTRAL_LOAD, 0, NEVER_ENDING, TIME_NEVER);
    all_send(rig);
    assert_true(do_now(rig, CENTRAL_RUN, 0, 0) > 0); /* the load has been taken up */
    assert_int_equal(wiring_command(&rig->wiring, 0, ACCELERATOR_FAIL), 0);
    for (bool left = false, lost = false; !left || !lost;) { /* they come by two rings */
        struct end end = take_end(rig);
        left |= end.news == NEWS_LEAVES;
        lost |= end.news == NEWS_ENDED;
        assert_true(end.news == NEWS_LEAVES || (end.n == under_way && end.took_ns == 0));
    }
    assert_int_equal(do_now(rig, CENTRAL_LOAD, 0, 1), 0); /* the scheduler did not know yet */
    assert_int_equal(wiring_command(&rig->wiring, 0, ACCELERATOR_JOIN), 0);
    assert_int_equal(take_end(rig).news, NEWS_JOINS);
    assert_int_equal(do_now(rig, CENTRAL_RUN, 0, 0), 0);
    assert_true(do_now(rig, CENTRAL_LOAD, 0, 2) > 0);
    assert_true(do_now(rig, CENTRAL_RUN, 0, 2) > 0);
    rig_stop(rig);
}

/* ---- drawn histories ---- */

/* What the reports say of an accelerator. */
struct account {
    bool loaded[MODELS], was[MODELS]; /* it is there; it has been */
    uint32_t last_run, last_move;     /* numbers */
};

static void account_take(struct account *account, const struct end *end) {
    struct account *a = &account[end->accelerator];
    uint32_t *last = end->kind == CENTRAL_RUN ? &a->last_run : &a->last_move, pages = 0;
    assert_true(end->n >= *last); /* in the order sent */
    *last = end->n + 1;
    if (end->took_ns == 0)
        return;
    if (end->kind == CENTRAL_RUN)
        assert_true(a->was[end->model]); /* an unload after it may be told before */
    else
        a->loaded[end->model] = end->kind == CENTRAL_LOAD;
    a->was[end->model] |= a->loaded[end->model];
    for (uint32_t m = 0; m < MODELS; m++)
        pages += a->loaded[m] ? m + 1 : 0;
    assert_true(pages <= PAGES);
}

static void history(uint64_t seed) {
    struct rig *rig = rig_start(0.5);
    struct account account[ACCELERATORS] = {{.last_run = 0}};
    struct rng rng;
    uint32_t taken = 0, ran_ok = 0;
    rng_seed(&rng, seed);
    while (taken < REQUESTS) {
        for (uint64_t i = rng_below(&rng, 12); i > 0 && rig->sent < REQUESTS; i--) {
            static const enum central_action_kind kinds[] = {CENTRAL_RUN, CENTRAL_RUN, CENTRAL_LOAD, CENTRAL_UNLOAD};
            enum central_action_kind kind = kinds[rng_below(&rng, 4)];
            int64_t latest_ns = rng_below(&rng, 4) ? TIME_NEVER : clock_now_ns() + (int64_t)rng_below(&rng, NS_PER_MS);
            uint32_t a = (uint32_t)rng_below(&rng, ACCELERATORS);
            if (rig->orders[a] - rig->answers[a] < MEMORY_ORDERS_MOST || kind == CENTRAL_RUN)
                push(rig, kind, a, (uint32_t)rng_below(&rng, NEVER_ENDING), latest_ns);
        }
        all_send(rig);
        for (uint64_t i = rng_below(&rng, 12); i > 0 && taken < rig->sent; i--, taken++) {
            struct end end = take_end(rig);
            account_take(account, &end);
            ran_ok += end.kind == CENTRAL_RUN && end.took_ns > 0;
            if (end.kind == CENTRAL_RUN)
                take_result(rig, end.n);
        }
    }
    assert_true(ran_ok > 0);
    rig_stop(rig);
}

TEST(test_histories) {
    for (uint64_t i = 0, seed = histories_first(); i < histories_count(20); i++, seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        history(seed);
    }
}
