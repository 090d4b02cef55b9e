/* test_backend_memory.c - orders to load and unload, on their way through a backend's link; what it tells when an
 * accelerator joins. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/backend_link_state.h"
#include "core/data/residency.h"
#include "heard.h"
#include "unit/test.h"

#define MODELS 4
#define PAGE   (16 * CPU_PAGE_BYTES)

/* A backend with one accelerator of limited memory, whose executor is played by the test. */
struct rig {
    struct wiring wiring;
    uint32_t zeros[MODELS];
    uint8_t types[1], subclusters[MODELS];
    struct place_id place_of_variant[MODELS];
    struct memory_counters counters[MODELS];
    struct backend_link link;
    struct accelerator_queue queue;
    struct heard heard;
    struct sy_error err;
};

static struct rig *rig_make(void) {
    struct rig *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    r->wiring = (struct wiring){
        .frontends = 1,
        .model_threads = 1,
        .executors = 1,
        .accelerators = 1,
        .link = LINK_BACKEND,
        .models = MODELS,
        .batch_max = 8,
        .port_requests = 16,
        .thread_of_variant = r->zeros,
        .thread_of_served = r->zeros,
        .executor_of = r->zeros,
        .subcluster_of_accelerator = r->types,
        .subcluster_of_model = r->subclusters,
        .place_of_variant = r->place_of_variant,
        .memory_counters = r->counters,
    };
    assert_int_equal(wiring_init(&r->wiring, true, &r->err), 0);
    struct backend_link *l = &r->link;
    l->wiring = &r->wiring;
    l->config = (struct backend_link_config){.model_count = MODELS, .memory_bytes = 5 * PAGE + 1, .page_bytes = PAGE};
    l->queues = &r->queue;
    list_init(&r->queue.plans);
    l->introduced = true;
    heard_begin(&r->heard, &l->uplink.peer);
    assert_int_equal(backend_memory_init(l), 0);
    return r;
}

static void rig_free(struct rig *r) {
    backend_memory_free(&r->link);
    heard_end(&r->heard);
    wiring_destroy(&r->wiring);
    free(r);
}

/* It says what it has, by `models` bits, and that it joins. */
static void assert_joins(struct rig *r, uint32_t session, uint32_t models) {
    struct frame frame;
    const struct wire_memory *memory = heard_next(&r->heard, FRAME_MEMORY, &frame);
    assert_non_null(memory);
    const uint32_t *has = (const uint32_t *)(memory + 1);
    assert_int_equal(memory->session, session);
    assert_int_equal(memory->pages, 5 * 16);
    assert_int_equal(memory->grain, 16);
    assert_int_equal(memory->cuts, r->link.config.page_bytes == PAGE_BYTES);
    for (uint32_t i = 0; i < memory->count; i++, models &= models - 1)
        assert_int_equal(has[i], __builtin_ctz(models));
    assert_int_equal(models, 0);
    const struct freed_message *joins = heard_next(&r->heard, FRAME_FREED, &frame);
    assert_non_null(joins);
    assert_int_equal(joins->news, NEWS_JOINS);
}

static void assert_says_nothing(struct rig *r) {
    struct frame frame;
    assert_null(heard_next(&r->heard, FRAME_MOVED, &frame));
}

static int orders(struct rig *r, uint32_t session, enum central_action_kind kind, uint32_t model) {
    const struct wire_move move = {.session = session, .model = model, .kind = kind, .latest_ns = TIME_NEVER};
    return backend_take_moves(&r->link, &move, 1, &r->err);
}

/* The executor gets its next order, and has carried it out. */
static void executor_does(struct rig *r, enum central_action_kind kind, uint32_t model, bool done) {
    struct ring *from = wiring_orders(&r->wiring, 0, 0), *to = wiring_moved(&r->wiring, 0, 0);
    backend_orders_publish(&r->link);
    const struct move_order *order = ring_peek(from);
    assert_non_null(order);
    assert_int_equal(order->kind, kind);
    assert_int_equal(order->place.n, model);
    struct memory_moved *moved = ring_reserve(to);
    assert_non_null(moved);
    *moved = (struct memory_moved){
        .kind = order->kind, .done = done, .failed = !done, .variant = order->variant, .took_ns = 5};
    ring_pop(from);
    ring_release(from);
    ring_push(to);
    ring_publish(to);
    assert_false(backend_memory_look(&r->link));
}

static void assert_tells_end(struct rig *r, enum central_action_kind kind, uint32_t model, bool done) {
    struct frame frame;
    const struct wire_moved *moved = heard_next(&r->heard, FRAME_MOVED, &frame);
    assert_non_null(moved);
    assert_int_equal(moved->kind, kind);
    assert_int_equal(moved->model, model);
    assert_int_equal(moved->done, done);
}

TEST(orders_go_to_the_executor_and_their_ends_back) {
    struct rig *r = rig_make();
    backend_tell_joins(&r->link, 0);
    assert_joins(r, 1, 0);
    assert_int_equal(orders(r, 1, CENTRAL_LOAD, 2), 0);
    assert_int_equal(orders(r, 1, CENTRAL_LOAD, 3), 0);
    executor_does(r, CENTRAL_LOAD, 2, true);
    assert_tells_end(r, CENTRAL_LOAD, 2, true);
    executor_does(r, CENTRAL_LOAD, 3, false);
    assert_tells_end(r, CENTRAL_LOAD, 3, false);
    assert_int_equal(orders(r, 1, CENTRAL_LOAD, MODELS), -EPROTO);
    assert_int_equal(orders(r, 1, CENTRAL_EMPTY, MODELS), 0); /* of no model */
    executor_does(r, CENTRAL_EMPTY, 0, true);
    assert_tells_end(r, CENTRAL_EMPTY, 0, true);
    assert_false(r->queue.resident[2]);
    rig_free(r);
}

/* Where loads are cut by page, some go ahead, and end before those that were ordered first. */
TEST(what_goes_ahead_ends_before_others) {
    struct rig *r = rig_make();
    const struct wire_move moves[] = {
        {.session = 1, .model = 2, .kind = CENTRAL_LOAD, .latest_ns = TIME_NEVER},
        {.session = 1, .model = 3, .kind = CENTRAL_LOAD, .ahead = 1, .latest_ns = TIME_NEVER},
    };
    backend_tell_joins(&r->link, 0);
    assert_joins(r, 1, 0);
    assert_int_equal(backend_take_moves(&r->link, moves, 2, &r->err), 0);
    backend_orders_publish(&r->link);
    for (uint32_t i = 0; i < 2; i++) {
        const struct move_order *order = ring_peek(wiring_orders(&r->wiring, 0, 0));
        assert_non_null(order);
        assert_int_equal(order->place.n, moves[i].model);
        assert_int_equal(order->ahead, moves[i].ahead);
        ring_pop(wiring_orders(&r->wiring, 0, 0));
    }
    for (uint32_t model = 3; model >= 2; model--) {
        struct ring *to = wiring_moved(&r->wiring, 0, 0);
        struct memory_moved *moved = ring_reserve(to);
        assert_non_null(moved);
        *moved = (struct memory_moved){.kind = CENTRAL_LOAD, .done = true, .variant = {model}};
        ring_push(to);
        ring_publish(to);
        assert_false(backend_memory_look(&r->link));
        assert_tells_end(r, CENTRAL_LOAD, model, true);
    }
    rig_free(r);
}

/* Orders of before it left and joined again are refused, and it tells what it has. */
TEST(another_joining_has_another_number) {
    struct rig *r = rig_make();
    backend_tell_joins(&r->link, 0);
    assert_joins(r, 1, 0);
    for (uint32_t m = 1; m < 4; m++) {
        assert_int_equal(orders(r, 1, CENTRAL_LOAD, m), 0);
        executor_does(r, CENTRAL_LOAD, m, true);
        assert_tells_end(r, CENTRAL_LOAD, m, true);
    }
    backend_memory_forget(&r->link, 3); /* the model has gone */
    assert_int_equal(orders(r, 1, CENTRAL_UNLOAD, 1), 0);
    r->queue.told = false; /* another scheduler */
    backend_tell_joins(&r->link, 0);
    assert_says_nothing(r); /* an order is not over */
    executor_does(r, CENTRAL_UNLOAD, 1, true);
    assert_tells_end(r, CENTRAL_UNLOAD, 1, true);
    assert_joins(r, 2, 1u << 2);
    assert_int_equal(orders(r, 1, CENTRAL_UNLOAD, 2), 0);
    assert_tells_end(r, CENTRAL_UNLOAD, 2, false);
    assert_true(r->queue.resident[2]);
    rig_free(r);
}

/* What one had that its executor took out of service is unloaded before it joins again. */
TEST(one_that_was_lost_has_nothing) {
    struct rig *r = rig_make();
    backend_tell_joins(&r->link, 0);
    assert_joins(r, 1, 0);
    assert_int_equal(orders(r, 1, CENTRAL_LOAD, 2), 0);
    executor_does(r, CENTRAL_LOAD, 2, true);
    assert_tells_end(r, CENTRAL_LOAD, 2, true);
    r->queue.told = false;
    r->queue.lost = true;
    backend_tell_joins(&r->link, 0);
    assert_says_nothing(r);
    executor_does(r, CENTRAL_EMPTY, 0, true); /* whose end is nobody's news */
    assert_joins(r, 2, 0);
    rig_free(r);
}

/* Else its weights, which the executor gives back without a word, would be told to whoever asks when it comes again. */
TEST(a_model_that_is_being_loaded_has_not_gone) {
    struct rig *r = rig_make();
    struct model_offer offers[MODELS] = {{.state = OFFER_COMES, .told = TOLD_MODEL}};
    struct doorbell bell;
    int64_t until_ns = TIME_NEVER;
    assert_int_equal(doorbell_init(&bell, false, false), 0);
    r->link.loop.bell = &bell;
    r->link.offers = offers;
    backend_tell_joins(&r->link, 0);
    assert_joins(r, 1, 0);
    assert_int_equal(orders(r, 1, CENTRAL_LOAD, 0), 0);
    backend_models_untold(&r->link); /* the scheduler has gone, */
    backend_link_model_goes(&r->link, 0);
    backend_models_look(&r->link, 0, &until_ns);
    assert_false(backend_link_model_gone(&r->link, 0));
    executor_does(r, CENTRAL_LOAD, 0, true);
    backend_models_look(&r->link, until_ns, &until_ns);
    assert_true(backend_link_model_gone(&r->link, 0));
    assert_false(r->queue.resident[0]);
    doorbell_destroy(&bell);
    rig_free(r);
}

/* Each scheduler is told what loads took last, as it is told of the models: until a model has been loaded, what was
 * measured beforehand. */
TEST(a_new_scheduler_is_told_what_loads_took) {
    struct rig *r = rig_make();
    struct served_model *models = calloc(MODELS, sizeof(*models));
    struct model_offer offers[MODELS] = {{.state = OFFER_COMES}};
    struct frame frame;
    assert_non_null(models);
    models[0].load_ns = 1000;
    r->link.config.models = models;
    r->link.offers = offers;
    static const char *const expected[] = {"\"load_ns\":1000,", "\"load_ns\":5,", "\"load_ns\":1000,"};
    for (int n = 0; n < 3; n++) {
        backend_models_introduce(&r->link);
        const char *head = heard_next(&r->heard, FRAME_MODEL, &frame);
        assert_non_null(head);
        assert_non_null(memmem(head, frame.head_bytes, expected[n], strlen(expected[n])));
        if (n == 0) {
            backend_tell_joins(&r->link, 0);
            assert_joins(r, 1, 0);
            assert_int_equal(orders(r, 1, CENTRAL_LOAD, 0), 0);
            executor_does(r, CENTRAL_LOAD, 0, true);
            assert_tells_end(r, CENTRAL_LOAD, 0, true);
        } else {
            backend_memory_forget(&r->link, 0); /* another model has its number */
        }
    }
    free(models);
    rig_free(r);
}
