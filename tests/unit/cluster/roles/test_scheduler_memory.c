/* test_scheduler_memory.c - what a scheduler's rank threads are told of the models that accelerators have. */
#include <errno.h>
#include <stdlib.h>

#include "cluster/roles/scheduler_link_state.h"
#include "heard.h"
#include "unit/test.h"

#define MODELS       4
#define BACKENDS_MAX 4
#define LOOK_NS      (10 * NS_PER_MS)

/* A scheduler with backends that have an accelerator each and bring all models, each by the place of its number. The
 * accelerators are dealt to the rank threads in turn; all models are of the first one. */
struct rig {
    struct wiring wiring;
    uint32_t zeros[MODELS];
    uint8_t of_accelerator[BACKENDS_MAX], subclusters[MODELS];
    struct place_id place_of_variant[MODELS];
    struct memory_counters counters[MODELS];
    struct scheduler_link link;
    struct served_model model;
    struct member members[BACKENDS_MAX];
    struct brought_model brought[BACKENDS_MAX][MODELS];
    struct remote_id remotes[CATALOGUE_MODELS_MAX];
    uint32_t accelerators[BACKENDS_MAX];
    int64_t now_ns;
};

static struct rig *rig_of(uint32_t backends, uint32_t rank_threads) {
    struct rig *r = calloc(1, sizeof(*r));
    struct sy_error err;
    assert_non_null(r);
    r->wiring = (struct wiring){
        .frontends = 1,
        .model_threads = 1,
        .rank_threads = rank_threads,
        .executors = 1,
        .accelerators = backends,
        .link = LINK_SCHEDULER,
        .models = MODELS,
        .types = ACCELERATOR_TYPES_MAX,
        .batch_max = 8,
        .port_requests = 16,
        .thread_of_variant = r->zeros,
        .thread_of_served = r->zeros,
        .executor_of = r->zeros,
        .subcluster_of_accelerator = r->of_accelerator,
        .subcluster_of_model = r->subclusters,
        .place_of_variant = r->place_of_variant,
        .memory_counters = r->counters,
    };
    for (uint32_t b = 0; b < backends; b++)
        r->of_accelerator[b] = (uint8_t)(b % rank_threads);
    assert_int_equal(wiring_init(&r->wiring, true, &err), 0);
    struct scheduler_link *l = &r->link;
    l->wiring = &r->wiring;
    l->config.models_max = MODELS;
    l->config.orders_loads = true;
    list_init(&l->members);
    list_init(&l->free_plans);
    assert_int_equal(places_init(l), 0);
    for (uint32_t i = 0; i < MODELS; i++) {
        r->remotes[i].n = 10 + i;
        l->catalogue->known[i].model = &r->model;
        l->catalogue->known[i].place = i;
        l->catalogue->known[i].backends = backends;
        l->places[i] = (struct served_place){.known = i, .runs_on = 1, .joined = 1};
        l->places[i].model.first_variant.n = i;
        l->places[i].model.variant_count = 1;
        l->places[i].model.pages = 2;
    }
    l->catalogue->known_count = MODELS;
    l->memory_ns = TIME_NEVER;
    l->accelerators_most = backends;
    for (uint32_t b = 0; b < backends; b++) {
        r->members[b] = (struct member){.peer = {.closed = true}, /* what is sent goes nowhere */
                                        .told = true,
                                        .brought = r->brought[b],
                                        .brought_count = MODELS,
                                        .remote_of_known = r->remotes,
                                        .accelerators = &r->accelerators[b],
                                        .accelerator_count = 1};
        for (uint32_t i = 0; i < MODELS; i++)
            r->brought[b][i] = (struct brought_model){.known = i, .remote = r->remotes[i]};
        r->accelerators[b] = b;
        l->accelerators[b].member = &r->members[b];
        l->accelerators[b].taken = true;
        assert_int_equal(memory_begin(l, b), 0);
    }
    return r;
}

static struct rig *rig_make(void) {
    return rig_of(1, 1);
}

static void rig_free(struct rig *r) {
    for (uint32_t i = 0; i < MODELS; i++)
        r->link.catalogue->known[i].model = NULL;
    for (uint32_t b = 0; b < r->wiring.accelerators; b++)
        memory_lose(&r->link, b);
    places_free(&r->link);
    wiring_destroy(&r->wiring);
    free(r);
}

static void look(struct rig *r) {
    int64_t until_ns = TIME_NEVER;
    r->link.memory_due = true;
    r->now_ns += LOOK_NS;
    memory_look(&r->link, r->now_ns, &until_ns);
}

/* Compares what a rank thread was told: kinds and models, until kind 0. */
struct telling {
    uint8_t kind, model;
    bool done;
};

static void assert_told(struct rig *r, uint32_t rank_thread, const struct telling *expected) {
    struct ring *ring = wiring_moved(&r->wiring, 0, rank_thread);
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

/* Looks before, with one rank thread. */
static void assert_tells(struct rig *r, const struct telling *expected) {
    look(r);
    assert_told(r, 0, expected);
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
#define TELLS(r, ...)   assert_tells(r, (const struct telling[]){__VA_ARGS__})
#define TOLD(r, k, ...) assert_told(r, k, (const struct telling[]){__VA_ARGS__})

/* A rank thread gives a model up, or orders something else. */
static void orders_by(struct rig *r, uint32_t rank_thread, struct move_order order) {
    struct ring *ring = wiring_orders(&r->wiring, rank_thread, 0);
    struct move_order *place = ring_reserve(ring);
    assert_non_null(place);
    *place = order;
    ring_push(ring);
    ring_publish(ring);
    assert_true(memory_take_orders(&r->link));
    ring = wiring_moved(&r->wiring, 0, rank_thread); /* the answer, of an accelerator that is never ordered anything */
    for (ring_publish(ring); ring_peek(ring); ring_pop(ring)) {
    }
    ring_release(ring);
}

static void orders(struct rig *r, struct move_order order) {
    orders_by(r, 0, order);
}

/* Compares the next order to a model thread: a variant moves to a rank thread. MODELS: there is none. */
static void assert_moves(struct rig *r, uint32_t variant, uint32_t rank_thread) {
    struct ring *ring = &r->wiring.moves[0];
    const struct model_move *move = ring_peek(ring);
    assert_int_equal(move ? move->variant.n : MODELS, variant);
    if (!move)
        return;
    assert_int_equal(move->kind, MODEL_MOVES);
    assert_int_equal(move->subcluster, rank_thread);
    ring_pop(ring);
    ring_release(ring);
}

static void gives_up(struct rig *r, uint32_t place) {
    orders(r, (struct move_order){.kind = CENTRAL_UNLOAD, .yields = true, .variant = {place}, .place = {place}});
}

TEST(one_whose_memory_is_not_limited_has_all_its_models) {
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
TEST(a_model_moves_to_another_place) {
    struct rig *r = rig_make();
    r->link.accelerators[0].up = true;
    r->members[0].brought_count = 1; /* place 1 is to be another one of the first model */
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
TEST(a_model_that_ends_runs_its_last_requests) {
    struct rig *r = rig_make();
    struct known_model *known = r->link.catalogue->known;
    r->link.accelerators[0].up = true;
    TELLS(r, SIZE(true), OFFERED(0, true), OFFERED(1, true), OFFERED(2, true), OFFERED(3, true), BEGINS, END);
    r->brought[0][0].ends = r->brought[0][1].ends = true;
    known[0].backends = 0;
    TELLS(r, WITHDRAWN(1), END);
    known[0].place = CATALOGUE_NONE;
    TELLS(r, END);
    assert_true(memory_holds(&r->link, &r->members[0], 0));
    gives_up(r, 0);
    gives_up(r, 1);
    TELLS(r, END);
    assert_false(memory_holds(&r->link, &r->members[0], 0));
    rig_free(r);
}

/* One with limited memory tells what it has; the rest is offered to be loaded, and what nobody may ask for goes. */
TEST(one_whose_memory_is_limited_tells_what_it_has) {
    struct rig *r = rig_make();
    struct sy_error err;
    struct {
        struct wire_memory memory;
        uint32_t models[2];
    } described = {{.accelerator = 0, .session = 5, .pages = 6, .grain = 2, .count = 2}, {11, 13}};
    assert_int_equal(memory_described(&r->link, &r->members[0], &described.memory, &err), 0);
    r->link.accelerators[0].up = r->link.accelerators[0].joined = true;
    assert_int_equal(memory_described(&r->link, &r->members[0], &described.memory, &err), -EPROTO);
    r->link.places[2].model.pages = 7; /* it fits nowhere */
    r->brought[0][3].ends = true;
    TELLS(r, SIZE(false), OFFERED(0, false), OFFERED(1, true), END);
    assert_true(memory_moves(&r->link, 0)); /* model 3 is unloaded before loads begin */
    assert_int_equal(memory_moved(&r->link, &r->members[0],
                                  &(struct wire_moved){.kind = CENTRAL_UNLOAD, .model = 12, .done = 1}, r->now_ns,
                                  &err),
                     -EPROTO);
    assert_int_equal(memory_moved(&r->link, &r->members[0],
                                  &(struct wire_moved){.kind = CENTRAL_UNLOAD, .model = 13, .done = 1}, r->now_ns,
                                  &err),
                     0);
    assert_false(memory_moves(&r->link, 0));
    TELLS(r, BEGINS, END);
    rig_free(r);
}

/* What goes ahead ends before what was ordered first, and each end is told. */
TEST(what_goes_ahead_ends_before_others) {
    struct rig *r = rig_make();
    struct heard heard;
    struct frame frame;
    struct sy_error err;
    const struct wire_memory memory = {.session = 5, .pages = 6, .grain = 1, .cuts = 1};
    assert_int_equal(memory_described(&r->link, &r->members[0], &memory, &err), 0);
    r->link.accelerators[0].up = r->link.accelerators[0].joined = true;
    r->members[0].brought_count = 3;
    heard_begin(&heard, &r->members[0].peer);
    look(r);
    ring_publish(wiring_moved(&r->wiring, 0, 0));
    const struct memory_moved *size = ring_peek(wiring_moved(&r->wiring, 0, 0));
    assert_non_null(size);
    assert_true(size->cuts);
    TOLD(r, 0, SIZE(false), OFFERED(0, false), OFFERED(1, false), OFFERED(2, false), BEGINS, END);
    for (uint32_t m = 0; m < 3; m++) {
        orders(r, (struct move_order){
                      .kind = CENTRAL_LOAD, .ahead = m == 1, .variant = {m}, .place = {m}, .latest_ns = TIME_NEVER});
        const struct wire_move *move = heard_next(&heard, FRAME_MOVES, &frame);
        assert_non_null(move);
        assert_int_equal(move->ahead, m == 1);
    }
    static const uint32_t ends[] = {1, 0, 2};
    for (uint32_t i = 0; i < 3; i++) {
        const struct wire_moved end = {.kind = CENTRAL_LOAD, .done = 1, .model = 10 + ends[i]};
        assert_int_equal(memory_moved(&r->link, &r->members[0], &end, r->now_ns, &err), 0);
        ring_publish(wiring_moved(&r->wiring, 0, 0));
        const struct memory_moved *told = ring_peek(wiring_moved(&r->wiring, 0, 0));
        assert_non_null(told);
        assert_int_equal(told->variant.n, ends[i]);
        TOLD(r, 0, {.kind = CENTRAL_LOAD, .done = true}, END);
        assert_int_equal(memory_moved(&r->link, &r->members[0], &end, r->now_ns, &err), -EPROTO); /* it has ended */
    }
    heard_end(&heard);
    rig_free(r);
}

/* The rank thread gives up by itself what it could not load: it is not told so. A second later it is offered again. */
TEST(what_cannot_be_loaded_is_offered_again) {
    struct rig *r = rig_make();
    struct heard heard;
    struct frame frame;
    struct sy_error err;
    const struct wire_memory memory = {.accelerator = 0, .session = 5, .pages = 6, .grain = 2};
    assert_int_equal(memory_described(&r->link, &r->members[0], &memory, &err), 0);
    r->link.accelerators[0].up = r->link.accelerators[0].joined = true;
    r->members[0].brought_count = 1;
    heard_begin(&heard, &r->members[0].peer);
    TELLS(r, SIZE(false), OFFERED(0, false), BEGINS, END);
    orders(r, (struct move_order){.kind = CENTRAL_LOAD, .variant = {0}, .place = {0}, .latest_ns = TIME_NEVER});
    assert_non_null(heard_next(&heard, FRAME_MOVES, &frame));
    assert_int_equal(memory_moved(&r->link, &r->members[0],
                                  &(struct wire_moved){.kind = CENTRAL_LOAD, .model = 10, .failed = 1}, r->now_ns,
                                  &err),
                     0);
    TELLS(r, {.kind = CENTRAL_LOAD}, END);
    gives_up(r, 0);
    TELLS(r, END);
    r->now_ns += NS_PER_S;
    TELLS(r, OFFERED(0, false), END);
    heard_end(&heard);
    rig_free(r);
}

/* Of two rank threads each is told of its own accelerators. A model is of the one whose accelerators have it; if both
 * have as many, by its place: half of the models each. */
TEST(a_model_moves_to_a_rank_thread_that_can_run_it) {
    struct rig *r = rig_of(4, 2); /* accelerators 0 and 2 are of the first rank thread */
    for (uint32_t b = 0; b < 4; b++)
        r->link.accelerators[b].up = true;
    r->members[0].brought_count = r->members[2].brought_count = 3;
    r->members[1].brought_count = r->members[3].brought_count = 2;
    r->brought[1][1] = r->brought[3][1] = r->brought[3][3];
    look(r); /* both have models 0; the others have models 1 and 2; the second has model 3 */
    TOLD(r, 0, SIZE(true), OFFERED(0, true), OFFERED(1, true), OFFERED(2, true), BEGINS, SIZE(true), OFFERED(0, true),
         OFFERED(1, true), OFFERED(2, true), BEGINS, END);
    TOLD(r, 1, SIZE(true), BEGINS, SIZE(true), BEGINS, END);
    assert_moves(r, 3, 1);
    assert_moves(r, MODELS, 0);
    assert_false(memory_may_go(&r->link, 3));
    orders_by(r, 1, (struct move_order){.kind = MEMORY_JOINED, .variant = {3}, .place = {3}});
    assert_true(memory_may_go(&r->link, 3));
    look(r);
    TOLD(r, 0, END);
    TOLD(r, 1, OFFERED(3, true), OFFERED(3, true), END);
    /* where accelerators of both have it, place 1 is of the second one: those of the first give it up unasked */
    r->brought[1][1].known = r->brought[3][1].known = 1;
    look(r);
    TOLD(r, 0, END);
    TOLD(r, 1, WITHDRAWN(3), WITHDRAWN(3), END);
    assert_moves(r, 1, 1);
    assert_moves(r, MODELS, 0);
    orders_by(r, 1, (struct move_order){.kind = MEMORY_JOINED, .variant = {1}, .place = {1}});
    look(r);
    TOLD(r, 0, END);
    TOLD(r, 1, OFFERED(1, true), OFFERED(1, true), END);
    assert_false(memory_may_go(&r->link, 1));
    /* it does not move back before both have given it up, though no accelerator of the second has it any more */
    r->members[1].brought_count = r->members[3].brought_count = 1;
    for (uint32_t a = 0; a <= 2; a += 2) {
        look(r);
        assert_moves(r, MODELS, 0);
        orders_by(r, 0,
                  (struct move_order){
                      .kind = CENTRAL_UNLOAD, .yields = true, .accelerator = a, .variant = {1}, .place = {1}});
    }
    for (uint32_t a = 1; a <= 3; a += 2) {
        look(r);
        assert_moves(r, MODELS, 0);
        orders_by(r, 1,
                  (struct move_order){
                      .kind = CENTRAL_UNLOAD, .yields = true, .accelerator = a, .variant = {1}, .place = {1}});
    }
    look(r);
    assert_moves(r, 1, 0);
    rig_free(r);
}

/* Takes the next of the news that the rank thread has, which must be `news`; NEWS_ENDED: there are none. */
static void assert_news(struct rig *r, enum accelerator_news news) {
    struct ring *ring = wiring_freed(&r->wiring, 0, 0);
    ring_publish(ring);
    const struct freed_message *freed = ring_peek(ring);
    assert_int_equal(freed ? freed->news : NEWS_ENDED, news);
    if (!freed)
        return;
    ring_pop(ring);
    ring_release(ring);
}

/* What was granted before it left would run there unknown to the rank thread. */
TEST(one_that_comes_back_joins_when_nothing_of_before_is_left) {
    struct rig *r = rig_make();
    int64_t until_ns = TIME_NEVER;
    member_accelerator_news(&r->link, 0, NEWS_JOINS);
    assert_news(r, NEWS_JOINS);
    wiring_accelerator_news(&r->wiring, 0, NEWS_JOINS, true);
    member_accelerator_news(&r->link, 0, NEWS_LEAVES);
    member_accelerator_news(&r->link, 0, NEWS_JOINS);
    assert_true(places_look(&r->link, r->now_ns, &until_ns));
    assert_news(r, NEWS_LEAVES);
    assert_news(r, NEWS_ENDED);
    wiring_accelerator_news(&r->wiring, 0, NEWS_LEAVES, false); /* the rank thread has heard it: a grant is out */
    assert_true(places_look(&r->link, r->now_ns, &until_ns));
    assert_news(r, NEWS_ENDED);
    wiring_accelerator_news(&r->wiring, 0, NEWS_ENDED, true);
    places_look(&r->link, r->now_ns, &until_ns);
    assert_news(r, NEWS_JOINS);
    assert_false(places_look(&r->link, r->now_ns, &until_ns));
    rig_free(r);
}
