/* test_scheduler_memory.c - what a scheduler's rank thread is told of the models that an accelerator has. */
#include <errno.h>
#include <stdlib.h>

#include "cluster/roles/scheduler_link_state.h"
#include "unit/cmocka_all.h"

#define MODELS  4
#define LOOK_NS (10 * NS_PER_MS)

/* A scheduler with one backend, which has one accelerator and brings all models, each by the place of its number. */
struct rig {
    struct wiring wiring;
    uint32_t zeros[MODELS];
    uint8_t types[1], subclusters[MODELS];
    struct place_id place_of_variant[MODELS];
    struct memory_counters counters[MODELS];
    struct scheduler_link link;
    struct served_model model;
    struct member member;
    struct brought_model brought[MODELS];
    struct remote_id remotes[CATALOGUE_MODELS_MAX];
    uint32_t accelerators[1];
    int64_t now_ns;
};

static struct rig *rig_make(void) {
    struct rig *r = calloc(1, sizeof(*r));
    struct sy_error err;
    assert_non_null(r);
    r->wiring = (struct wiring){
        .frontends = 1,
        .model_threads = 1,
        .rank_threads = 1,
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
        .place_of_variant = r->place_of_variant,
        .memory_counters = r->counters,
    };
    assert_int_equal(wiring_init(&r->wiring, true, &err), 0);
    struct scheduler_link *l = &r->link;
    l->wiring = &r->wiring;
    l->config.models_max = MODELS;
    l->config.orders_loads = true;
    list_init(&l->members);
    list_init(&l->free_plans);
    assert_int_equal(places_init(l), 0);
    r->member = (struct member){.peer = {.closed = true}, /* what is sent goes nowhere */
                                .told = true,
                                .brought = r->brought,
                                .brought_count = MODELS,
                                .remote_of_known = r->remotes,
                                .accelerators = r->accelerators,
                                .accelerator_count = 1};
    for (uint32_t i = 0; i < MODELS; i++) {
        r->brought[i].known = i;
        r->brought[i].remote.n = r->remotes[i].n = 10 + i;
        l->catalogue->known[i].model = &r->model;
        l->catalogue->known[i].place = i;
        l->catalogue->known[i].backends = 1;
        l->places[i] = (struct served_place){.known = i, .runs_on = 1, .joined = 1};
        l->places[i].model.first_variant.n = i;
        l->places[i].model.pages = 2;
    }
    l->catalogue->known_count = MODELS;
    l->accelerators[0].member = &r->member;
    l->accelerators[0].taken = true;
    l->accelerators_most = 1;
    l->memory_ns = TIME_NEVER;
    assert_int_equal(memory_begin(l, 0), 0);
    return r;
}

static void rig_free(struct rig *r) {
    for (uint32_t i = 0; i < MODELS; i++)
        r->link.catalogue->known[i].model = NULL;
    memory_lose(&r->link, 0);
    places_free(&r->link);
    wiring_destroy(&r->wiring);
    free(r);
}

/* Looks, and compares what the rank thread is told: kinds and models, until kind 0. */
struct telling {
    uint8_t kind, model;
    bool done;
};

static void assert_tells(struct rig *r, const struct telling *expected) {
    struct ring *ring = wiring_moved(&r->wiring, 0, 0);
    int64_t until_ns = TIME_NEVER;
    r->link.memory_due = true;
    r->now_ns += LOOK_NS;
    memory_look(&r->link, r->now_ns, &until_ns);
    ring_publish(ring);
    const struct memory_moved *told;
    for (; (told = ring_peek(ring)); ring_pop(ring), expected++) {
        assert_int_equal(told->kind, expected->kind);
        assert_int_equal(told->done, expected->done);
        if (told->kind == MEMORY_OFFERED || told->kind == MEMORY_WITHDRAWN)
            assert_int_equal(told->variant.n, expected->model);
    }
    ring_release(ring);
    assert_int_equal(expected->kind, 0);
}

#define SIZE(keeps)                                                                                                    \
    { .kind = MEMORY_SIZE, .done = keeps }
#define OFFERED(m, there)                                                                                              \
    { .kind = MEMORY_OFFERED, .model = m, .done = there }
#define WITHDRAWN(m)                                                                                                   \
    { .kind = MEMORY_WITHDRAWN, .model = m }
#define BEGINS                                                                                                         \
    { .kind = MEMORY_BEGINS }
#define END                                                                                                            \
    { .kind = 0 }
#define TELLS(r, ...) assert_tells(r, (const struct telling[]){__VA_ARGS__})

/* The rank thread gives a model up, or orders something else. */
static void orders(struct rig *r, struct move_order order) {
    struct ring *ring = wiring_orders(&r->wiring, 0, 0);
    struct move_order *place = ring_reserve(ring);
    assert_non_null(place);
    *place = order;
    ring_push(ring);
    ring_publish(ring);
    assert_true(memory_take_orders(&r->link));
    ring = wiring_moved(&r->wiring, 0, 0); /* the answer, of an accelerator that is never ordered anything */
    for (ring_publish(ring); ring_peek(ring); ring_pop(ring)) {
    }
    ring_release(ring);
}

static void gives_up(struct rig *r, uint32_t place) {
    orders(r, (struct move_order){.kind = CENTRAL_UNLOAD, .yields = true, .variant = {place}, .place = {place}});
}

static void one_whose_memory_is_not_limited_has_all_its_models(void **state) {
    (void)state;
    struct rig *r = rig_make();
    r->link.places[3].joined = 0; /* the rank thread does not know the model yet */
    TELLS(r, END);                /* nor the accelerator */
    r->link.accelerators[0].up = true;
    TELLS(r, SIZE(true), OFFERED(0, true), OFFERED(1, true), OFFERED(2, true), BEGINS, END);
    TELLS(r, END);
    orders(r, (struct move_order){.kind = MEMORY_JOINED, .variant = {3}, .place = {3}});
    TELLS(r, OFFERED(3, true), END);
    assert_true(memory_offers(&r->link, 3));
    memory_left(&r->link, 0);
    assert_false(memory_offers(&r->link, 3));
    TELLS(r, SIZE(true), OFFERED(0, true), OFFERED(1, true), OFFERED(2, true), OFFERED(3, true), BEGINS, END);
    rig_free(r);
}

/* A model belongs to one place at a time. */
static void a_model_moves_to_another_place(void **state) {
    (void)state;
    struct rig *r = rig_make();
    r->link.accelerators[0].up = true;
    r->member.brought_count = 1; /* place 1 is to be another one of the first model */
    TELLS(r, SIZE(true), OFFERED(0, true), BEGINS, END);
    r->link.catalogue->known[0].place = 1;
    r->link.places[1].known = 0;
    TELLS(r, WITHDRAWN(0), END);
    TELLS(r, END);
    assert_true(memory_offers(&r->link, 0));
    gives_up(r, 0);
    TELLS(r, OFFERED(1, true), END);
    rig_free(r);
}

/* The last backend of a model keeps it until its place has gone, also while the place is still that of the model, since
 * frontends have to know a successor first. Where others have it, it goes at once. */
static void a_model_that_ends_runs_its_last_requests(void **state) {
    (void)state;
    struct rig *r = rig_make();
    struct known_model *known = r->link.catalogue->known;
    r->link.accelerators[0].up = true;
    TELLS(r, SIZE(true), OFFERED(0, true), OFFERED(1, true), OFFERED(2, true), OFFERED(3, true), BEGINS, END);
    r->brought[0].ends = r->brought[1].ends = true;
    known[0].backends = 0;
    TELLS(r, WITHDRAWN(1), END);
    known[0].place = CATALOGUE_NONE;
    TELLS(r, END);
    assert_true(memory_holds(&r->link, &r->member, 0));
    gives_up(r, 0);
    gives_up(r, 1);
    TELLS(r, END);
    assert_false(memory_holds(&r->link, &r->member, 0));
    rig_free(r);
}

/* One with limited memory tells what it has; the rest is offered to be loaded, and what nobody may ask for goes. */
static void one_whose_memory_is_limited_tells_what_it_has(void **state) {
    (void)state;
    struct rig *r = rig_make();
    struct sy_error err;
    struct {
        struct wire_memory memory;
        uint32_t models[2];
    } described = {{.accelerator = 0, .session = 5, .pages = 6, .grain = 2, .count = 2}, {11, 13}};
    assert_int_equal(memory_described(&r->link, &r->member, &described.memory, &err), 0);
    r->link.accelerators[0].up = r->link.accelerators[0].joined = true;
    assert_int_equal(memory_described(&r->link, &r->member, &described.memory, &err), -EPROTO);
    r->link.places[2].model.pages = 7; /* it fits nowhere */
    r->brought[3].ends = true;
    TELLS(r, SIZE(false), OFFERED(0, false), OFFERED(1, true), END);
    assert_true(memory_moves(&r->link, 0)); /* model 3 is unloaded before loads begin */
    assert_int_equal(memory_moved(&r->link, &r->member,
                                  &(struct wire_moved){.kind = CENTRAL_UNLOAD, .model = 12, .done = 1}, r->now_ns,
                                  &err),
                     -EPROTO);
    assert_int_equal(memory_moved(&r->link, &r->member,
                                  &(struct wire_moved){.kind = CENTRAL_UNLOAD, .model = 13, .done = 1}, r->now_ns,
                                  &err),
                     0);
    assert_false(memory_moves(&r->link, 0));
    TELLS(r, BEGINS, END);
    rig_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_whose_memory_is_not_limited_has_all_its_models),
        cmocka_unit_test(a_model_moves_to_another_place),
        cmocka_unit_test(a_model_that_ends_runs_its_last_requests),
        cmocka_unit_test(one_whose_memory_is_limited_tells_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
