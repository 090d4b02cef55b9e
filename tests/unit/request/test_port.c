/* test_port.c - requests that come back because their accelerator failed. */
#include "request/port.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/time.h"
#include "sched/wiring.h"
#include "unit/cmocka_all.h"

struct rig {
    struct wiring wiring;
    struct port *port;
    struct request request;
    uint32_t zero[1];
};

static struct rig *rig_start(int64_t deadline_ns) {
    struct rig *rig = aligned_alloc(CACHE_LINE, (sizeof(*rig) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    struct sy_error err;

    memset(rig, 0, sizeof(*rig));
    rig->wiring.frontends = rig->wiring.model_threads = rig->wiring.executors = rig->wiring.accelerators =
        rig->wiring.models = rig->wiring.batch_max = 1;
    rig->wiring.thread_of_model = rig->wiring.thread_of_served = rig->wiring.executor_of = rig->zero;
    assert_int_equal(wiring_init(&rig->wiring, false, &err), 0);
    rig->port = port_create(&rig->wiring, 0, 0);
    assert_non_null(rig->port);
    rig->request = (struct request){.items = 1, .deadline_ns = deadline_ns, .alone = true, .breaks = 77};
    assert_int_equal(port_submit(rig->port, &rig->request), 0);
    port_flush(rig->port);
    return rig;
}

static void rig_stop(struct rig *rig) {
    port_destroy(rig->port);
    wiring_destroy(&rig->wiring);
    free(rig);
}

/* What the scheduler has got, and no more of. */
static void expect_sent(struct rig *rig) {
    const struct request_message *message = ring_peek(&rig->wiring.requests[0]);
    assert_non_null(message);
    assert_int_equal(message->kind, REQUEST_ARRIVED);
    ring_pop(&rig->wiring.requests[0]);
    assert_null(ring_peek(&rig->wiring.requests[0]));
    ring_release(&rig->wiring.requests[0]);
}

/* An executor gives it back: `broke` more accelerators failed while they ran it. */
static struct request *lost(struct rig *rig, uint8_t broke) {
    struct done_message *message = ring_reserve(&rig->wiring.done[0]);

    rig->request.status = REQUEST_LOST;
    rig->request.breaks = (uint8_t)(rig->request.breaks + broke);
    message->handle = (uintptr_t)&rig->request;
    ring_push(&rig->wiring.done[0]);
    ring_publish(&rig->wiring.done[0]);
    return port_next(rig->port);
}

static void what_breaks_accelerators_is_sent_on_once(void **state) {
    (void)state;
    struct rig *rig = rig_start(clock_now_ns() + 600 * NS_PER_S);

    expect_sent(rig);
    assert_false(rig->request.alone); /* nobody's before */
    for (int i = 0; i < 5; i++) {
        assert_null(lost(rig, 0)); /* it had not run */
        expect_sent(rig);
    }
    assert_null(lost(rig, 1));
    expect_sent(rig);
    assert_ptr_equal(lost(rig, 1), &rig->request);
    assert_int_equal(rig->request.status, REQUEST_FAILED);
    assert_string_equal(rig->request.failure,
                        "2 accelerators failed while they ran this request; it is not sent to another");
    assert_null(ring_peek(&rig->wiring.requests[0]));
    rig_stop(rig);
}

static void what_has_no_time_left_is_refused_with_its_reason(void **state) {
    (void)state;
    static const struct {
        bool alone;
        uint8_t broke;
        enum refusal refusal;
    } cases[] = {
        {false, 0, REFUSAL_LOST},    /* its accelerator failed */
        {true, 1, REFUSAL_LOST},     /* while it ran */
        {true, 0, REFUSAL_DEADLINE}, /* the accelerator serves, but had to run it apart */
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct rig *rig = rig_start(clock_now_ns() - 1);
        expect_sent(rig);
        rig->request.alone = cases[i].alone;
        assert_ptr_equal(lost(rig, cases[i].broke), &rig->request);
        assert_int_equal(rig->request.status, REQUEST_REFUSED);
        assert_int_equal(rig->request.refusal, cases[i].refusal);
        rig_stop(rig);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_breaks_accelerators_is_sent_on_once),
        cmocka_unit_test(what_has_no_time_left_is_refused_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
