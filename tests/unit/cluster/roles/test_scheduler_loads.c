/* test_scheduler_loads.c - orders of a central policy to load and unload, on their way to a backend and back. */
#include <errno.h>
#include <stdlib.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/data/residency.h"
#include "heard.h"
#include "unit/test.h"

#define MODELS 4

/* A scheduler with one backend, which has one accelerator and all models, each in the place of its number. */
struct rig {
    struct wiring wiring;
    uint32_t zeros[MODELS];
    uint8_t types[1], subclusters[MODELS];
    struct memory_counters counters[MODELS];
    struct scheduler_link link;
    struct member member;
    struct remote_id remotes[CATALOGUE_MODELS_MAX];
    uint32_t accelerators[1];
    struct heard heard;
    struct sy_error err;
};

/* `pages` of memory of its own, in MiB; 0: it has its models for good. */
static struct rig *rig_make(uint32_t pages) {
    struct rig *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    r->wiring = (struct wiring){
        .frontends = 1,
        .model_threads = 1,
        .central = true,
        .executors = 1,
        .accelerators = 1,
        .link = LINK_SCHEDULER,
        .models = MODELS,
        .types = ACCELERATOR_TYPES_MAX,
        .batch_max = 8,
        .port_requests = 16,
        .thread_of_variant = r->zeros,
        .thread_of_served = r->zeros,
        .executor_of = r->zeros,
        .subcluster_of_accelerator = r->types,
        .subcluster_of_model = r->subclusters,
        .memory_counters = r->counters,
    };
    assert_int_equal(wiring_init(&r->wiring, true, &r->err), 0);
    struct scheduler_link *l = &r->link;
    l->wiring = &r->wiring;
    l->config.models_max = MODELS;
    l->config.central_loads = true;
    list_init(&l->members);
    list_init(&l->free_plans);
    assert_int_equal(places_init(l), 0);
    r->member = (struct member){
        .told = true, .remote_of_known = r->remotes, .accelerators = r->accelerators, .accelerator_count = 1};
    heard_begin(&r->heard, &r->member.peer);
    for (uint32_t i = 0; i < MODELS; i++) {
        r->remotes[i].n = 10 + i;
        l->places[i] = (struct served_place){.known = i};
    }
    l->accelerators[0].member = &r->member;
    l->accelerators_most = 1;
    assert_int_equal(loads_begin(l, 0), 0);
    const struct wire_memory memory = {.session = 7, .pages = pages, .grain = 16};
    if (pages)
        assert_int_equal(memory_described(l, &r->member, &memory, &r->err), 0);
    l->accelerators[0].up = l->accelerators[0].joined = true;
    return r;
}

static void rig_free(struct rig *r) {
    loads_lose(&r->link, 0);
    heard_end(&r->heard);
    places_free(&r->link);
    wiring_destroy(&r->wiring);
    free(r);
}

/* The central thread orders it; for EMPTY of no model. */
static void orders(struct rig *r, enum central_action_kind kind, uint32_t model) {
    struct ring *ring = wiring_orders(&r->wiring, 0, 0);
    struct move_order *order = ring_reserve(ring);
    assert_non_null(order);
    *order = (struct move_order){
        .kind = (uint8_t)kind, .variant = {model}, .place = {model}, .latest_ns = 1000 + (int64_t)model};
    ring_push(ring);
    ring_publish(ring);
    assert_true(loads_pending(&r->link));
    assert_true(loads_take_orders(&r->link));
    assert_false(loads_pending(&r->link));
}

static void assert_sent(struct rig *r, enum central_action_kind kind, uint32_t model) {
    struct frame frame;
    const struct wire_move *move = heard_next(&r->heard, FRAME_MOVES, &frame);
    assert_non_null(move);
    assert_int_equal(frame.count, 1);
    assert_int_equal(move->kind, kind);
    assert_int_equal(move->session, 7);
    if (kind == CENTRAL_EMPTY)
        return;
    assert_int_equal(move->model, 10 + model);
    assert_int_equal(move->latest_ns, 1000 + model);
}

static void assert_not_sent(struct rig *r) {
    struct frame frame;
    assert_null(heard_next(&r->heard, FRAME_MOVES, &frame));
}

/* The backend tells the end. */
static int ends(struct rig *r, enum central_action_kind kind, uint32_t model, bool done) {
    const struct wire_moved moved = {.kind = (uint8_t)kind,
                                     .model = kind == CENTRAL_EMPTY ? 0 : 10 + model,
                                     .done = done,
                                     .failed = !done,
                                     .took_ns = INT64_MAX};
    return memory_moved(&r->link, &r->member, &moved, 0, &r->err);
}

/* The central thread hears the end of its oldest order. */
static void assert_heard(struct rig *r, enum central_action_kind kind, uint32_t model, bool done) {
    struct ring *ring = wiring_moved(&r->wiring, 0, 0);
    ring_publish(ring);
    const struct memory_moved *moved = ring_peek(ring);
    assert_non_null(moved);
    assert_int_equal(moved->kind, kind);
    assert_int_equal(moved->variant.n, model);
    assert_int_equal(moved->done, done);
    assert_true(moved->took_ns <= 3600 * NS_PER_S);
    ring_pop(ring);
    ring_release(ring);
}

static void assert_silence(struct rig *r) {
    struct ring *ring = wiring_moved(&r->wiring, 0, 0);
    ring_publish(ring);
    assert_null(ring_peek(ring));
}

TEST(orders_are_sent_and_end_in_their_order) {
    struct rig *r = rig_make(64);
    assert_int_equal(loads_memory_bytes(&r->link, 0), 64 * CPU_PAGE_BYTES);
    assert_int_equal(loads_page_bytes(&r->link, 0), 16 * CPU_PAGE_BYTES);
    orders(r, CENTRAL_LOAD, 1);
    assert_sent(r, CENTRAL_LOAD, 1);
    orders(r, CENTRAL_UNLOAD, 2);
    assert_sent(r, CENTRAL_UNLOAD, 2);
    assert_true(loads_hold(&r->link, &r->member, 1));
    assert_false(loads_hold(&r->link, &r->member, 3));
    assert_int_equal(ends(r, CENTRAL_UNLOAD, 2, true), -EPROTO);
    assert_silence(r);
    assert_int_equal(ends(r, CENTRAL_LOAD, 1, false), 0);
    assert_heard(r, CENTRAL_LOAD, 1, false);
    assert_false(loads_hold(&r->link, &r->member, 1));
    assert_int_equal(ends(r, CENTRAL_UNLOAD, 2, true), 0);
    assert_heard(r, CENTRAL_UNLOAD, 2, true);
    assert_int_equal(ends(r, CENTRAL_UNLOAD, 2, true), -EPROTO);
    rig_free(r);
}

/* An accelerator is emptied once all before is over, and nothing is sent before that is over. One that was busy is
 * asked again. */
TEST(it_is_emptied_by_itself) {
    struct rig *r = rig_make(64);
    orders(r, CENTRAL_LOAD, 1);
    assert_sent(r, CENTRAL_LOAD, 1);
    orders(r, CENTRAL_EMPTY, 0);
    orders(r, CENTRAL_LOAD, 2);
    assert_not_sent(r);
    assert_true(loads_hold(&r->link, &r->member, 3)); /* whatever it unloads */
    assert_int_equal(ends(r, CENTRAL_LOAD, 1, true), 0);
    assert_heard(r, CENTRAL_LOAD, 1, true);
    assert_sent(r, CENTRAL_EMPTY, 0);
    assert_int_equal(ends(r, CENTRAL_EMPTY, 0, false), 0);
    assert_silence(r);
    assert_sent(r, CENTRAL_EMPTY, 0);
    assert_not_sent(r);
    assert_int_equal(ends(r, CENTRAL_EMPTY, 0, true), 0);
    assert_heard(r, CENTRAL_EMPTY, 0, true);
    assert_sent(r, CENTRAL_LOAD, 2);
    rig_free(r);
}

/* A model that gets a new place has two for a while. Of loads and unloads about it one is under way at a time. */
TEST(a_model_of_two_places_is_there_once) {
    struct rig *r = rig_make(64);
    r->link.places[3].known = 1;
    orders(r, CENTRAL_LOAD, 1);
    assert_sent(r, CENTRAL_LOAD, 1);
    orders(r, CENTRAL_LOAD, 3);
    assert_not_sent(r);
    assert_int_equal(ends(r, CENTRAL_LOAD, 1, true), 0);
    assert_heard(r, CENTRAL_LOAD, 1, true);
    assert_heard(r, CENTRAL_LOAD, 3, true);
    orders(r, CENTRAL_LOAD, 2);
    assert_sent(r, CENTRAL_LOAD, 2);
    orders(r, CENTRAL_UNLOAD, 3);
    assert_silence(r); /* it ends after the one before */
    assert_int_equal(ends(r, CENTRAL_LOAD, 2, true), 0);
    assert_heard(r, CENTRAL_LOAD, 2, true);
    assert_heard(r, CENTRAL_UNLOAD, 3, true);
    assert_not_sent(r);
    orders(r, CENTRAL_UNLOAD, 1);
    assert_sent(r, CENTRAL_UNLOAD, 1);
    assert_int_equal(ends(r, CENTRAL_UNLOAD, 1, true), 0);
    assert_heard(r, CENTRAL_UNLOAD, 1, true);
    orders(r, CENTRAL_LOAD, 1);
    assert_sent(r, CENTRAL_LOAD, 1);
    orders(r, CENTRAL_EMPTY, 0);
    assert_int_equal(ends(r, CENTRAL_LOAD, 1, true), 0);
    assert_sent(r, CENTRAL_EMPTY, 0);
    assert_int_equal(ends(r, CENTRAL_EMPTY, 0, true), 0);
    orders(r, CENTRAL_LOAD, 1);
    assert_sent(r, CENTRAL_LOAD, 1);
    rig_free(r);
}

TEST(one_that_has_all_does_nothing) {
    struct rig *r = rig_make(0);
    const struct wire_memory memory = {.session = 7, .pages = 64, .grain = 16};
    assert_true(loads_memory_bytes(&r->link, 0) == UINT64_MAX);
    assert_int_equal(memory_described(&r->link, &r->member, &memory, &r->err), -EPROTO); /* it has joined */
    orders(r, CENTRAL_EMPTY, 0);
    orders(r, CENTRAL_LOAD, 1);
    assert_not_sent(r);
    assert_heard(r, CENTRAL_EMPTY, 0, true);
    assert_heard(r, CENTRAL_LOAD, 1, true);
    rig_free(r);
}

/* What is ordered of an accelerator that has left, or is lost, is not done. */
TEST(one_that_is_gone_does_nothing) {
    struct rig *r = rig_make(64);
    orders(r, CENTRAL_LOAD, 1);
    assert_sent(r, CENTRAL_LOAD, 1);
    r->link.accelerators[0].up = false;
    orders(r, CENTRAL_LOAD, 2);
    assert_silence(r); /* it ends after the one before */
    assert_int_equal(ends(r, CENTRAL_LOAD, 1, true), 0);
    assert_heard(r, CENTRAL_LOAD, 1, true);
    assert_heard(r, CENTRAL_LOAD, 2, false);
    r->link.accelerators[0].up = true;
    orders(r, CENTRAL_LOAD, 2);
    orders(r, CENTRAL_EMPTY, 0);
    loads_lose(&r->link, 0);
    assert_heard(r, CENTRAL_LOAD, 2, false);
    assert_heard(r, CENTRAL_EMPTY, 0, false);
    assert_silence(r);
    rig_free(r);
}
