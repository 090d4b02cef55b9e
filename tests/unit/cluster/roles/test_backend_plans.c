/* test_backend_plans.c - a backend hands its executors no more plans than there is room for the results of, and no
 * other items than their cards say. */
/* Starts threads. */
#include "core/system/log.h"
#include "unit/cluster/roles/members.h"
#include "unit/test.h"

#define QUIET_NS  (200 * NS_PER_MS) /* so long is waited for plans that should not come */
#define MEMORY    ((size_t)16 << 20)
#define FRONTENDS 2
#define EACH      (MEMBERS_BATCH / FRONTENDS)
#define BATCHES   (FRONTENDS * MEMBERS_AWAY / MEMBERS_BATCH) /* of all requests that the frontends may have */

static struct scene {
    struct members_scheduler scheduler;
    struct members_frontend frontends[FRONTENDS];
    struct members_backend backend;
    _Atomic uint32_t hold; /* requests that the executor gathers before it answers any; then 1 */
    _Atomic uint32_t most; /* that it ever had */
} scene;

static void number_set(_Atomic uint32_t *number, uint32_t value) {
    atomic_store_explicit(number, value, memory_order_relaxed); /* a lone number */
}

static uint32_t number_of(_Atomic uint32_t *number) {
    return atomic_load_explicit(number, memory_order_relaxed); /* a lone number */
}

/* What the executor has taken, and not answered. */
struct held {
    uint64_t handles[FRONTENDS * MEMBERS_AWAY];
    uint32_t count, batches;
};

/* Takes all plans out of their ring, as the executor of emulated accelerators does. */
static bool plans_take(struct wiring *w, struct held *held) {
    const struct batch_plan *plan;
    bool any = false;
    for (; (plan = ring_peek(&w->plans[0])); ring_pop_run(&w->plans[0], batch_plan_slots(plan->request_count))) {
        memcpy(held->handles + held->count, plan->handles, plan->request_count * sizeof(*plan->handles));
        held->count += plan->request_count;
        held->batches++;
        any = true;
    }
    ring_release(&w->plans[0]);
    return any;
}

/* Answers all of them before the link thread sees any answer; what does not fit is answered later. */
static void answer(struct wiring *w, struct held *held) {
    struct result_message *result;
    while (held->count > 0 && (result = ring_reserve(&w->results[0]))) {
        *result = (struct result_message){.handle = held->handles[--held->count], .status = REQUEST_FAILED};
        ring_push(&w->results[0]);
    }
    for (; held->count == 0 && held->batches > 0; held->batches--) {
        struct freed_message *freed = ring_reserve(&w->freed[0]);
        CHECK(freed);
        *freed = (struct freed_message){.news = NEWS_ENDED, .ended_ns = clock_now_ns()};
        ring_push(&w->freed[0]);
    }
    ring_publish(&w->results[0]);
    ring_publish(&w->freed[0]);
    doorbell_ring(wiring_link_bell(w));
}

static void *execute(void *backend) {
    struct members_backend *b = backend;
    struct wiring *w = &b->wired.wiring;
    struct held *held = calloc(1, sizeof(*held));
    int64_t came_ns = 0;
    CHECK(held);
    while (!atomic_load_explicit(&b->stop, memory_order_acquire)) { /* with members_backend_close() */
        if (plans_take(w, held))
            came_ns = clock_now_ns();
        if (held->count > number_of(&scene.most))
            number_set(&scene.most, held->count);
        uint32_t hold = number_of(&scene.hold);
        if (held->count >= hold && (hold == 1 || clock_now_ns() - came_ns > QUIET_NS)) {
            number_set(&scene.hold, 1);
            answer(w, held);
        }
        usleep(100);
    }
    free(held);
    return NULL;
}

static void shm_only(struct backend_link_config *config) {
    config->transports = TRANSPORT_BIT(TRANSPORT_SHM);
}

static void submit(uint32_t each) {
    for (uint32_t f = 0; f < FRONTENDS; f++) {
        for (uint32_t i = 0; i < each; i++)
            assert_true(members_submit(&scene.frontends[f], 100));
        port_flush(scene.frontends[f].port);
    }
}

/* Batches that have requests of all frontends, or of one each. */
static void mix(bool all) {
    number_set(&scene.scheduler.frontends, all ? FRONTENDS : 0);
    number_set(&scene.scheduler.each, all ? EACH : 1);
}

/* Takes what has come back at all of them. A request that was lost is sent again by who takes it; it may be the only
 * one, which is no batch of all frontends. */
static void take(void) {
    members_wait(&scene.frontends[0], 1);
    for (uint32_t f = 0; f < FRONTENDS; f++)
        members_take(&scene.frontends[f]);
    if (number_of(&scene.hold) == 1)
        mix(false);
}

static void all_back(void) {
    for (uint32_t f = 0; f < FRONTENDS; f++)
        MEMBERS_UNTIL(scene.frontends[f].back == scene.frontends[f].submitted, take());
}

/* The frontends may have more requests out than the ring of results has places for, and the scheduler sends them all to
 * one executor, which answers what it has at once. */
TEST(an_executor_has_no_more_requests_than_results_fit) {
    memset(&scene, 0, sizeof(scene));
    number_set(&scene.hold, 1);
    members_scheduler_open(&scene.scheduler, MEMBERS_BEAT_NS);
    mix(true);
    scene.scheduler.depth = BATCHES;
    members_scheduler_start(&scene.scheduler);
    for (uint32_t f = 0; f < FRONTENDS; f++)
        members_frontend_open(&scene.frontends[f], scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, NULL);
    scene.backend.execute = execute;
    members_backend_open(&scene.backend, scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, shm_only);
    uint32_t room = scene.backend.wired.wiring.results[0].mask + 1;
    assert_true(room < FRONTENDS * MEMBERS_AWAY);
    submit(EACH); /* then the backend has found both */
    all_back();
    number_set(&scene.hold, room - MEMBERS_BATCH);
    mix(true);
    submit(MEMBERS_AWAY);
    all_back();
    assert_in_range(number_of(&scene.most), room - MEMBERS_BATCH, room);
    members_backend_close(&scene.backend);
    for (uint32_t f = 0; f < FRONTENDS; f++)
        members_frontend_close(&scene.frontends[f]);
    members_scheduler_stop(&scene.scheduler);
}

/* So with many emulated accelerators in one thread batches do not wait for each other's answers. */
TEST(results_of_all_plans_fit) {
    uint32_t executor_of[64] = {0}, zero = 0;
    struct wiring w = {.frontends = 1,
                       .model_threads = 1,
                       .executors = 1,
                       .accelerators = 64,
                       .link = LINK_BACKEND,
                       .models = 1,
                       .batch_max = 100,
                       .thread_of_variant = &zero,
                       .thread_of_served = &zero,
                       .executor_of = executor_of};
    struct sy_error err;
    assert_int_equal(wiring_init(&w, false, &err), 0);
    assert_true(w.results[0].mask >= 64 * 3 * 100);
    wiring_destroy(&w);
}

/* The batches that the executor gets, whose cards have MANY items each. */
#define MANY 20
static _Atomic uint32_t batches_right, batches_wrong;

static void items_look(void *context, const struct wiring *wiring, const struct batch_plan *plan) {
    uint32_t items = 0;
    (void)context;
    for (uint32_t i = 0; i < plan->request_count; i++)
        items += wiring_card(wiring, plan->handles[i])->items;
    bool right = items == plan->items && items <= MEMBERS_BATCH && items == plan->request_count * MANY;
    atomic_fetch_add_explicit(right ? &batches_right : &batches_wrong, 1, memory_order_relaxed); /* statistics */
}

/* A frontend says of its requests that they have one item, and their cards have many. The other requests of their
 * batches do not suffer. */
TEST(a_batch_has_the_items_of_its_cards) {
    memset(&scene, 0, sizeof(scene));
    members_scheduler_open(&scene.scheduler, MEMBERS_BEAT_NS);
    mix(false);
    scene.scheduler.depth = 1;
    number_set(&scene.scheduler.each, 2 * MEMBERS_BATCH / MANY);
    members_scheduler_start(&scene.scheduler);
    members_frontend_open(&scene.frontends[0], scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, NULL);
    scene.backend.look = items_look;
    members_backend_open(&scene.backend, scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, NULL);
    members_items = MANY;
    for (uint32_t i = 0; i < 2 * MEMBERS_BATCH / MANY; i++)
        assert_true(members_submit(&scene.frontends[0], 100));
    port_flush(scene.frontends[0].port);
    MEMBERS_UNTIL(atomic_load(&batches_right) + atomic_load(&batches_wrong) > 0, members_take(&scene.frontends[0]));
    number_set(&scene.scheduler.each, 1); /* those that were left out come again */
    members_items = 1;
    assert_true(members_back(&scene.frontends[0], 0));
    assert_int_equal(batches_wrong, 0);
    assert_int_equal(scene.frontends[0].failed, 2 * MEMBERS_BATCH / MANY); /* as the executor answers */
    members_backend_close(&scene.backend);
    members_frontend_close(&scene.frontends[0]);
    members_scheduler_stop(&scene.scheduler);
}

int main(void) {
    log_set_level(LOG_ERROR);
    return tests_run(NULL, NULL);
}
