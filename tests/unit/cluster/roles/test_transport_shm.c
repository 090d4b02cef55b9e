/* test_transport_shm.c - a request that ends while its inputs are copied leaves nothing behind in the backend. */
#include "cluster/roles/backend_link_state.h"
#include "front/bulk/slab.h"
#include "unit/cluster/roles/members.h"
#include "unit/test.h"

#define NUMBER 1 /* the frontend's, in the cluster */
#define SLOTS  4
#define BYTES  CACHE_LINE /* of an input */
#define MEMORY ((size_t)1 << 20)

/* A frontend on this host, its memory, and a backend that has a plan of one request of it: without connections. */
static struct scene {
    struct members_wiring wired;
    struct backend_link link;
    struct frontend_peer frontend, *by_number[HELLO_NUMBERS];
    struct frontend_memory memory;
    struct accelerator_queue queue;
    struct pulled_plan *plan;
    uint32_t running;
    struct request_card cards[SLOTS];
    struct card_input more[SLOTS * CARD_INPUTS_MORE]; /* behind them, as in a frontend's memory */
    char input[BYTES];
} scene;

static struct landed *landed(void) {
    return &scene.frontend.landing.landed[0];
}

/* The request is asked for as soon as the frontend has handed its memory over. */
static void scene_open(void) {
    struct backend_link *l = &scene.link;
    struct frontend_peer *f = &scene.frontend;
    uint64_t own = handle_of(0, 0, 1), handle = handle_of(NUMBER * HELLO_LANES_MAX, 0, 1);

    memset(&scene, 0, sizeof(scene));
    members_wire(&scene.wired, LINK_BACKEND);
    *l = (struct backend_link){.config = {.wiring = &scene.wired.wiring, .models = &members_model, .model_count = 1},
                               .wiring = &scene.wired.wiring,
                               .slab = slab_create(MEMORY),
                               .by_number = scene.by_number,
                               .queues = &scene.queue,
                               .running = &scene.running,
                               .pulling = 1};
    assert_non_null(l->slab);
    l->wiring->regions[0].base = slab_range(l->slab, &l->wiring->regions[0].bytes);
    f->hello.number = NUMBER;
    f->transport = &transport_shm;
    f->memory = &scene.memory;
    f->peer.closed = true; /* there is none: nothing is sent */
    scene.by_number[NUMBER] = f;
    scene.memory.cards[0] = scene.cards;
    scene.memory.slots = SLOTS;
    scene.memory.regions[0].base = scene.input;
    scene.memory.regions[0].bytes = BYTES;
    assert_int_equal(landing_init(&f->landing, l->wiring, l->slab, &members_model, NUMBER, 1, SLOTS), 0);
    scene.cards[0] = (struct request_card){.handle = own,
                                           .items = 1,
                                           .work = 1,
                                           .deadline_ns = TIME_NEVER,
                                           .input_count = 1,
                                           .inputs = {{.bytes = BYTES, .dim_count = 2, .dims = {1, BYTES}}}};
    scene.plan = calloc(1, sizeof(*scene.plan) + sizeof(handle));
    assert_non_null(scene.plan);
    scene.plan->memory.room = scene.plan->missing = 1;
    scene.plan->plan = (struct batch_plan){.request_count = 1, .items = 1};
    scene.plan->plan.handles[0] = handle;
    list_init(&l->free_plans);
    list_init(&scene.queue.plans);
    list_append(&scene.queue.plans, &scene.plan->memory.node);
    *landed() = (struct landed){.handle = handle, .plan = scene.plan, .state = LANDED_PULLING};
}

static void scene_close(void) {
    landing_destroy(&scene.frontend.landing);
    slab_destroy(scene.link.slab);
    free(scene.plan);
    wiring_destroy(&scene.wired.wiring);
}

/* The copy of an input goes to where the frontend's card is, instead of the backend's memory: so the card has another
 * handle once it is over. */
static void copy_ends_the_request(void) {
    struct slab *slab = scene.link.slab;
    size_t bytes;
    void *block = slab_take(slab, BYTES); /* the next one will be the same */
    size_t at = (size_t)((uintptr_t)block - slab_range(slab, &bytes));
    slab_give(block);
    scene.wired.wiring.regions[0].base = (uintptr_t)&scene.cards[0].handle - at;
}

TEST(who_has_not_ended_is_run) {
    scene_open();
    backend_pulls_begin(&scene.link, &scene.frontend);
    assert_int_equal(landed()->state, LANDED_ALL);
    assert_false(landed()->arrives);
    assert_true(list_empty(&scene.queue.plans));
    assert_int_equal(scene.running, 1);
    scene_close();
}

TEST(who_ends_during_the_copy_leaves_nothing) {
    scene_open();
    copy_ends_the_request();
    backend_pulls_begin(&scene.link, &scene.frontend);
    assert_int_equal(scene.cards[0].handle, 0);
    assert_true(list_empty(&scene.queue.plans)); /* its plan had no other */
    assert_int_equal(scene.running, 0);
    assert_int_equal(landed()->handle, 0);
    scene_close();
}

/* A frontend's card may say anything: the frontend is not asked. */
TEST(cards_with_inputs_that_none_has_are_left_out) {
    static const uint32_t inputs[] = {CARD_INPUTS + 1, TENSORS_MAX + 1, UINT32_MAX}; /* the model has one */
    for (size_t i = 0; i < ARRAY_COUNT(inputs); i++) {
        scene_open();
        scene.cards[0].input_count = inputs[i];
        scene.more[0] = (struct card_input){.region = UINT32_MAX - 7, .offset = UINT64_MAX, .bytes = 1};
        backend_pulls_begin(&scene.link, &scene.frontend);
        assert_true(list_empty(&scene.queue.plans)); /* its plan had no other */
        assert_int_equal(scene.running, 0);
        assert_int_equal(slab_bytes_taken(scene.link.slab), 0);
        scene_close();
    }
}
