/* test_backend_link.c - how a backend that reads in its frontend's memory ends: the requests that wait in the scheduler
 * are sent again if it dies, for it may have read them, and only then. */
#include "base/log.h"
#include "unit/cluster/members.h"
#include "unit/cmocka_all.h"

#define BEAT_NS (20 * NS_PER_S) /* nobody is taken for dead while a test runs */
#define WAIT_NS (60 * NS_PER_S)
#define MEMORY  ((size_t)16 << 20)
#define WAITING 20 /* requests */
#define TRIES   10
#define NOBODY  2 /* frontends that a batch waits for: there is one only, so none is sealed */

static struct scene {
    struct members_scheduler scheduler;
    struct members_frontend frontend;
    struct members_backend backends[2];
    uint64_t once;     /* how many requests have arrived if each that waits was sent once */
    _Atomic bool hold; /* batches are kept from ending */
    _Atomic bool held; /* one is kept so */
} scene;

static void look(void *context, const struct wiring *wiring, const struct batch_plan *plan) {
    struct scene *s = context;
    (void)wiring, (void)plan;
    while (atomic_load_explicit(&s->hold, memory_order_relaxed)) {   /* a lone flag */
        atomic_store_explicit(&s->held, true, memory_order_relaxed); /* likewise */
        usleep(100);
    }
}

static void shm_only(struct backend_link_config *config) {
    config->transports = TRANSPORT_BIT(TRANSPORT_SHM);
}

static void backend_open(uint32_t i) {
    scene.backends[i].look = look;
    scene.backends[i].context = &scene;
    members_backend_open(&scene.backends[i], scene.scheduler.port, BEAT_NS, MEMORY, shm_only);
}

/* Each batch has a request of each of so many frontends. */
static void seal_for(uint32_t frontends) {
    atomic_store_explicit(&scene.scheduler.frontends, frontends, memory_order_relaxed); /* a lone number */
    doorbell_ring(&scene.scheduler.bell);
}

static void submit(uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        assert_true(members_submit(&scene.frontend, 1000));
    port_flush(scene.frontend.port);
}

static uint64_t arrived(void) {
    return atomic_load_explicit(&scene.scheduler.arrived, memory_order_relaxed);
}

static void arrived_wait(uint64_t wanted) {
    int64_t until_ns = clock_now_ns() + WAIT_NS;
    while (arrived() < wanted) {
        assert_true(clock_now_ns() < until_ns);
        members_wait(&scene.frontend, 1);
        members_take(&scene.frontend);
    }
}

static void ended_wait(struct backend_link *link) {
    int64_t until_ns = clock_now_ns() + WAIT_NS;
    while (!backend_link_ended(link)) {
        assert_true(clock_now_ns() < until_ns);
        usleep(100);
    }
}

/* One batch has run at the only backend, so it reads in the frontend's memory; then WAITING requests wait. (The first
 * request may have been sent twice: its batch may have come before the backend had found the frontend.) */
static void scene_open(void) {
    memset(&scene, 0, sizeof(scene));
    members_scheduler_open(&scene.scheduler, BEAT_NS);
    members_scheduler_start(&scene.scheduler);
    members_frontend_open(&scene.frontend, scene.scheduler.port, BEAT_NS, MEMORY, NULL);
    backend_open(0);
    seal_for(1);
    submit(1);
    assert_true(members_all_back(&scene.frontend, clock_now_ns() + WAIT_NS));
    seal_for(NOBODY);
    scene.once = arrived() + WAITING;
    submit(WAITING);
    arrived_wait(scene.once);
}

/* What waits is answered by another backend. */
static void scene_close(void) {
    backend_open(1);
    seal_for(1);
    assert_true(members_all_back(&scene.frontend, clock_now_ns() + WAIT_NS));
    assert_int_equal(scene.frontend.failed, 1 + WAITING); /* as these executors answer */
    members_backend_close(&scene.backends[1]);
    members_frontend_close(&scene.frontend);
    members_scheduler_stop(&scene.scheduler);
}

/* Whether each of the waiting requests was sent once, although a backend has drained. On a slow machine the second
 * backend may not find the frontend in time for a batch, whose requests are then sent again, too. */
static bool sent_once(void (*drain)(struct members_backend *backend)) {
    scene_open();
    drain(&scene.backends[0]);
    members_backend_close(&scene.backends[0]);
    scene_close();
    return arrived() == scene.once;
}

static void drains(void (*drain)(struct members_backend *backend)) {
    for (int i = 0; i < TRIES; i++)
        if (sent_once(drain))
            return;
    fail_msg("requests are sent again each time");
}

static void drain_idle(struct members_backend *backend) {
    backend_link_quiesce(backend->link);
    ended_wait(backend->link);
}

/* A batch runs meanwhile, which is answered first. */
static void drain_busy(struct members_backend *backend) {
    int64_t until_ns = clock_now_ns() + WAIT_NS;
    atomic_store_explicit(&scene.hold, true, memory_order_relaxed); /* a lone flag */
    seal_for(1);
    while (!atomic_load_explicit(&scene.held, memory_order_relaxed)) { /* a lone flag */
        assert_true(clock_now_ns() < until_ns);
        usleep(100);
    }
    seal_for(NOBODY);
    backend_link_quiesce(backend->link);
    usleep(20000);
    assert_false(backend_link_ended(backend->link));
    atomic_store_explicit(&scene.hold, false, memory_order_relaxed); /* a lone flag */
    ended_wait(backend->link);
}

static void who_has_drained_leaves_waiting_requests_alone(void **state) {
    (void)state;
    drains(drain_idle);
}

static void who_drains_answers_what_runs_first(void **state) {
    (void)state;
    drains(drain_busy);
}

static void who_dies_has_waiting_requests_sent_again(void **state) {
    (void)state;
    scene_open();
    members_backend_close(&scene.backends[0]);
    arrived_wait(scene.once + WAITING);
    scene_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_drained_leaves_waiting_requests_alone),
        cmocka_unit_test(who_drains_answers_what_runs_first),
        cmocka_unit_test(who_dies_has_waiting_requests_sent_again),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
