/* test_frontend_link.c - what a frontend makes of what its scheduler says of its requests. */
/* Starts threads. */
#include "base/log.h"
#include "unit/cluster/members.h"
#include "unit/cmocka_all.h"

#define MEMORY   ((size_t)16 << 20)
#define REQUESTS 20

static struct scene {
    struct members_scheduler scheduler;
    struct members_frontend frontend;
    struct members_backend backend;
    struct members_hold hold;
} scene;

static void look(void *context, const struct wiring *wiring, const struct batch_plan *plan) {
    (void)context, (void)wiring, (void)plan;
    members_hold(&scene.hold);
}

/* A cancelled request does not end by itself. */
static void patient(struct frontend_link_config *config) {
    config->cancelled_ns = 2 * MEMBERS_WAIT_NS;
}

/* A backend that asks the frontend for each input: once a batch runs, the frontend knows who has taken its requests. */
static void asks(struct backend_link_config *config) {
    config->transports = TRANSPORT_BIT(TRANSPORT_TCP);
}

static void scene_open(uint32_t cancels) {
    memset(&scene, 0, sizeof(scene));
    members_scheduler_open(&scene.scheduler, MEMBERS_BEAT_NS);
    atomic_init(&scene.scheduler.frontends, 1);
    atomic_init(&scene.scheduler.cancels, cancels);
    members_scheduler_start(&scene.scheduler);
    members_frontend_open(&scene.frontend, scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, patient);
    scene.backend.look = look;
    members_backend_open(&scene.backend, scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, asks);
}

static void scene_close(void) {
    members_backend_close(&scene.backend);
    members_frontend_close(&scene.frontend);
    members_scheduler_stop(&scene.scheduler);
}

/* As a scheduler may that has cancelled what came by an earlier connection of the frontend. The scheduler is told to
 * cancel what it may still have of the request, and the request comes to it anew. */
static void what_nobody_here_has_cancelled_is_sent_again(void **state) {
    (void)state;
    scene_open(REQUESTS);
    for (int i = 0; i < REQUESTS; i++)
        assert_true(members_submit(&scene.frontend, 1000));
    port_flush(scene.frontend.port);
    assert_true(members_back(&scene.frontend, 0));
    assert_int_equal(scene.frontend.failed, REQUESTS); /* as the executor answers */
    assert_int_equal(scene.scheduler.cancels, 0);
    assert_true(scene.scheduler.cancelled >= REQUESTS);
    assert_true(scene.scheduler.arrived >= 2 * REQUESTS);
    scene_close();
}

/* The backend that has it goes after the scheduler. */
static void what_a_client_has_left_does_not_wait_for_a_scheduler(void **state) {
    (void)state;
    scene_open(0);
    assert_true(members_submit(&scene.frontend, 1000)); /* the backend finds the frontend */
    port_flush(scene.frontend.port);
    assert_true(members_back(&scene.frontend, 0));
    members_hold_set(&scene.hold, true);
    assert_true(members_submit(&scene.frontend, 1000));
    struct members_request *last = &scene.frontend.requests[scene.frontend.free[scene.frontend.free_count]];
    port_flush(scene.frontend.port);
    MEMBERS_UNTIL(members_held(&scene.hold), usleep(100));
    port_cancel(scene.frontend.port, &last->request);
    port_flush(scene.frontend.port);
    MEMBERS_UNTIL(atomic_load(&scene.scheduler.cancelled) > 0, usleep(100));
    members_scheduler_stop(&scene.scheduler);
    MEMBERS_UNTIL(!link_report_ready(frontend_link_report(scene.frontend.link)), usleep(1000));
    members_take(&scene.frontend);
    assert_int_equal(scene.frontend.back, 1);
    backend_link_stop(scene.backend.link);
    assert_true(members_back(&scene.frontend, 0));
    assert_int_equal(last->request.status, REQUEST_REFUSED);
    assert_int_equal(last->request.refusal, REFUSAL_CANCELLED);
    members_hold_set(&scene.hold, false);
    members_frontend_close(&scene.frontend);
    members_executor_end(&scene.backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_here_has_cancelled_is_sent_again),
        cmocka_unit_test(what_a_client_has_left_does_not_wait_for_a_scheduler),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
