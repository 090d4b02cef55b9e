/* test_cancelled.c - a cancelled request comes back to its frontend's port in time, however long a backend has it; what
 * the backend then reads or answers does no harm. */
/* Starts threads. */
#include "core/system/log.h"
#include "unit/cluster/roles/members.h"
#include "unit/test.h"

#define CANCELLED_NS (50 * NS_PER_MS)
#define MEMORY       ((size_t)16 << 20)
#define EACH         2 /* requests of a batch */

static enum transport_kind transport;

static struct scene {
    struct members_scheduler scheduler;
    struct members_frontend frontend;
    struct members_backend backend;
    struct members_hold hold;
    _Atomic uint32_t ends; /* requests that had ended when their batch was looked at */
    _Atomic bool wrong;    /* an input of one that had not was not as its frontend had made it */
} scene;

static void look(void *context, const struct wiring *wiring, const struct batch_plan *plan) {
    struct scene *s = context;
    members_hold(&s->hold);
    for (uint32_t i = 0; i < plan->request_count; i++) {
        const struct request_card *card = wiring_card(wiring, plan->handles[i]);
        struct tensor_view x = card_view(card, 0, wiring->regions);
        bool filled = members_filled(x.data, x.bytes), ended = card_has_ended(card);
        atomic_fetch_add_explicit(&s->ends, ended, memory_order_relaxed); /* statistics */
        if (!filled && !ended)
            atomic_store_explicit(&s->wrong, true, memory_order_relaxed); /* a lone flag */
    }
}

static void backend_change(struct backend_link_config *config) {
    config->transports = TRANSPORT_BIT(transport);
}

static void frontend_change(struct frontend_link_config *config) {
    config->cancelled_ns = CANCELLED_NS;
}

/* As many as make a batch. */
static void submit(size_t bytes) {
    for (uint32_t i = 0; i < EACH; i++)
        assert_true(members_submit(&scene.frontend, bytes));
    port_flush(scene.frontend.port);
}

/* One batch has run, so the backend has found the frontend. */
static void scene_open(enum transport_kind kind) {
    transport = kind;
    memset(&scene, 0, sizeof(scene));
    members_scheduler_open(&scene.scheduler, MEMBERS_BEAT_NS);
    scene.scheduler.each = EACH;
    members_scheduler_start(&scene.scheduler);
    members_frontend_open(&scene.frontend, scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, frontend_change);
    scene.backend.look = look;
    scene.backend.context = &scene;
    members_backend_open(&scene.backend, scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, backend_change);
    submit(5000);
    assert_true(members_back(&scene.frontend, 0));
}

static void scene_close(void) {
    assert_false(scene.wrong);
    members_backend_close(&scene.backend);
    members_frontend_close(&scene.frontend);
    members_scheduler_stop(&scene.scheduler);
}

/* Of two requests that a backend runs one is cancelled. It comes back while the batch still runs, and its memory is
 * used again; the other one waits for its answer. */
static void who_is_cancelled_does_not_wait_for_its_batch(void **state) {
    struct members_request *cancelled = &scene.frontend.requests[0]; /* of the two that all batches here have */
    scene_open(*(enum transport_kind *)*state);
    members_hold_set(&scene.hold, true);
    submit(6000);
    MEMBERS_UNTIL(members_held(&scene.hold), usleep(100));
    int64_t began_ns = clock_now_ns();
    assert_true(cancelled->away);
    port_cancel(scene.frontend.port, &cancelled->request);
    port_flush(scene.frontend.port);
    assert_true(members_back(&scene.frontend, EACH - 1));
    assert_true(clock_now_ns() - began_ns >= CANCELLED_NS);
    assert_false(cancelled->away);
    assert_int_equal(cancelled->request.status, REQUEST_REFUSED);
    assert_int_equal(cancelled->request.refusal, REFUSAL_CANCELLED);
    submit(7000);
    members_hold_set(&scene.hold, false);
    assert_true(members_back(&scene.frontend, 0));
    assert_int_equal(scene.frontend.failed, 3 * EACH - 1); /* as the executor answers all others */
    assert_int_equal(scene.ends, transport == TRANSPORT_SHM);
    scene_close();
}

int main(void) {
    static enum transport_kind shm = TRANSPORT_SHM, tcp = TRANSPORT_TCP;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(who_is_cancelled_does_not_wait_for_its_batch, &shm),
        cmocka_unit_test_prestate(who_is_cancelled_does_not_wait_for_its_batch, &tcp),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
