/* test_backend_link.c - how a backend that reads in its frontend's memory ends: the requests that wait in the scheduler
 * are sent again if it dies, for it may have read them, and only then. */
/* Starts threads. */
#include "core/system/log.h"
#include "unit/cluster/roles/members.h"
#include "unit/test.h"

#define MEMORY  ((size_t)16 << 20)
#define WAITING 20 /* requests */
#define TRIES   10
#define NOBODY  2 /* frontends that a batch waits for: there is one only, so none is sealed */

static struct scene {
    struct members_scheduler scheduler;
    struct members_frontend frontend;
    struct members_backend backends[2];
    uint64_t once; /* how many requests have arrived if each that waits was sent once */
    struct members_hold hold;
} scene;

static void look(void *context, const struct wiring *wiring, const struct batch_plan *plan) {
    (void)context, (void)wiring, (void)plan;
    members_hold(&scene.hold);
}

static void shm_only(struct backend_link_config *config) {
    config->transports = TRANSPORT_BIT(TRANSPORT_SHM);
}

static void backend_open(uint32_t i) {
    scene.backends[i].look = look;
    members_backend_open(&scene.backends[i], scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, shm_only);
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

static void take(void) {
    members_wait(&scene.frontend, 1);
    members_take(&scene.frontend);
}

/* One batch has run at the only backend, so it reads in the frontend's memory; then WAITING requests wait. (The first
 * request may have been sent twice: its batch may have come before the backend had found the frontend.) */
static void scene_open(void) {
    memset(&scene, 0, sizeof(scene));
    members_scheduler_open(&scene.scheduler, MEMBERS_BEAT_NS);
    members_scheduler_start(&scene.scheduler);
    members_frontend_open(&scene.frontend, scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, NULL);
    backend_open(0);
    seal_for(1);
    submit(1);
    assert_true(members_back(&scene.frontend, 0));
    seal_for(NOBODY);
    scene.once = arrived() + WAITING;
    submit(WAITING);
    MEMBERS_UNTIL(arrived() >= scene.once, take());
}

/* What waits is answered by another backend, which is there. */
static void scene_close(void) {
    seal_for(1);
    assert_true(members_back(&scene.frontend, 0));
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
    backend_open(1);
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
    MEMBERS_UNTIL(backend_link_ended(backend->link), usleep(100));
}

/* A batch runs meanwhile, which is answered first. */
static void drain_busy(struct members_backend *backend) {
    members_hold_set(&scene.hold, true);
    seal_for(1);
    MEMBERS_UNTIL(members_held(&scene.hold), usleep(100));
    seal_for(NOBODY);
    backend_link_quiesce(backend->link);
    MEMBERS_UNTIL(atomic_load(&scene.scheduler.leaves) > 0, usleep(100));
    usleep(20000); /* in which it would end, if it did not wait for the batch */
    assert_false(backend_link_ended(backend->link));
    members_hold_set(&scene.hold, false);
    MEMBERS_UNTIL(backend_link_ended(backend->link), usleep(100));
}

TEST(who_has_drained_leaves_waiting_requests_alone) {
    drains(drain_idle);
}

TEST(who_drains_answers_what_runs_first) {
    drains(drain_busy);
}

TEST(who_dies_has_waiting_requests_sent_again) {
    scene_open();
    members_backend_close(&scene.backends[0]);
    backend_open(1); /* without any, they wait at the frontend */
    MEMBERS_UNTIL(arrived() >= scene.once + WAITING, take());
    scene_close();
}

int main(void) {
    log_set_level(LOG_ERROR);
    return tests_run(NULL, NULL);
}
