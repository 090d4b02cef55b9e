/* test_port.c - requests that come back because their accelerator failed, and those whose inputs are prepared. */
#include "front/request/port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/container.h"
#include "core/util/time.h"
#include "histories.h"
#include "sched/threads/wiring.h"
#include "unit/test.h"

struct rig {
    struct wiring wiring;
    struct port *port;
    struct request request;
    uint64_t handle; /* as it was sent last */
    uint32_t zero[1];
};

static struct rig *rig_start_most(int64_t deadline_ns, uint32_t most) {
    struct rig *rig = aligned_alloc(CACHE_LINE, (sizeof(*rig) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    struct sy_error err;

    memset(rig, 0, sizeof(*rig));
    rig->wiring.frontends = rig->wiring.model_threads = rig->wiring.executors = rig->wiring.accelerators =
        rig->wiring.models = rig->wiring.batch_max = 1;
    rig->wiring.port_requests = most;
    rig->wiring.thread_of_variant = rig->wiring.thread_of_served = rig->wiring.executor_of = rig->zero;
    assert_int_equal(wiring_init(&rig->wiring, false, &err), 0);
    rig->port = port_create(&rig->wiring, 0, 0);
    assert_non_null(rig->port);
    rig->request = (struct request){.items = 1, .deadline_ns = deadline_ns};
    assert_int_equal(port_submit(rig->port, &rig->request), 0);
    port_flush(rig->port);
    return rig;
}

static struct rig *rig_start(int64_t deadline_ns) {
    return rig_start_most(deadline_ns, 0);
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
    assert_int_not_equal(message->handle, rig->handle); /* another submission is another handle */
    assert_int_equal(wiring_card(&rig->wiring, message->handle)->items, rig->request.items);
    rig->handle = message->handle;
    ring_pop(&rig->wiring.requests[0]);
    assert_null(ring_peek(&rig->wiring.requests[0]));
    ring_release(&rig->wiring.requests[0]);
}

static void push_result(struct rig *rig, struct result_message result) {
    struct result_message *message = ring_reserve(&rig->wiring.results[0]);

    assert_non_null(message);
    *message = result;
    ring_push(&rig->wiring.results[0]);
    ring_publish(&rig->wiring.results[0]);
}

/* An executor loses it: as its run broke the accelerator, or with `suspect` alone. */
static struct request *lost(struct rig *rig, bool suspect, bool broke) {
    push_result(rig, (struct result_message){
                         .handle = rig->handle, .status = REQUEST_LOST, .suspect = suspect || broke, .broke = broke});
    return port_next(rig->port);
}

TEST(what_breaks_accelerators_is_sent_on_once) {
    struct rig *rig = rig_start(clock_now_ns() + 600 * NS_PER_S);

    expect_sent(rig);
    assert_false(wiring_card(&rig->wiring, rig->handle)->alone);
    for (int i = 0; i < 5; i++) {
        assert_null(lost(rig, false, false)); /* it had not run */
        expect_sent(rig);
    }
    assert_null(lost(rig, true, true));
    expect_sent(rig);
    assert_ptr_equal(lost(rig, true, true), &rig->request);
    assert_int_equal(rig->request.status, REQUEST_FAILED);
    assert_string_equal(request_failure(&rig->request),
                        "2 accelerators failed while they ran this request; it is not sent to another");
    assert_null(ring_peek(&rig->wiring.requests[0]));
    output_block_put(rig->request.block);
    rig_stop(rig);
}

/* Others may: they have more memory. */
TEST(what_backends_do_not_take_is_sent_on_twice) {
    struct rig *rig = rig_start(clock_now_ns() + 600 * NS_PER_S);
    const struct result_message misfit = {.status = REQUEST_LOST, .misfit = true};

    for (int i = 1; i <= REQUEST_MISFIT_MAX; i++) {
        struct result_message result = misfit;
        expect_sent(rig);
        result.handle = rig->handle;
        push_result(rig, result);
        assert_ptr_equal(port_next(rig->port), i < REQUEST_MISFIT_MAX ? NULL : &rig->request);
    }
    assert_int_equal(rig->request.status, REQUEST_FAILED);
    assert_non_null(strstr(request_failure(&rig->request), "--inputs-max-mib"));
    assert_null(ring_peek(&rig->wiring.requests[0]));
    output_block_put(rig->request.block);
    rig_stop(rig);
}

/* Backends that ended while they had it may have ended because of it. */
TEST(what_backends_end_with_is_doubtful_then_sent_on_no_more) {
    struct rig *rig = rig_start(clock_now_ns() + 600 * NS_PER_S);

    for (int i = 1; i <= REQUEST_GONE_MAX; i++) {
        const struct request_message *message = ring_peek(&rig->wiring.requests[0]);
        assert_int_equal(message->doubtful, i > REQUEST_GONE_DOUBTFUL);
        expect_sent(rig);
        assert_int_equal(wiring_card(&rig->wiring, rig->handle)->alone, i > REQUEST_GONE_DOUBTFUL);
        push_result(rig, (struct result_message){.handle = rig->handle, .status = REQUEST_LOST, .gone = true});
        assert_ptr_equal(port_next(rig->port), i < REQUEST_GONE_MAX ? NULL : &rig->request);
    }
    assert_int_equal(rig->request.status, REQUEST_FAILED);
    assert_string_equal(request_failure(&rig->request),
                        "3 backends were lost while they had this request; it is not sent to another");
    assert_null(ring_peek(&rig->wiring.requests[0]));
    output_block_put(rig->request.block);
    rig_stop(rig);
}

/* Backend 7 fails at it. */
static struct request *fails_at_a_backend(struct rig *rig) {
    push_result(rig, (struct result_message){.handle = rig->handle,
                                             .status = REQUEST_LOST,
                                             .failed = true,
                                             .failed_at = 7,
                                             .block = output_block_failed("at 7")});
    return port_next(rig->port);
}

/* The second run's outcome is the answer, whichever it is. */
TEST(what_fails_at_a_backend_is_tried_elsewhere) {
    for (int fails = 0; fails < 2; fails++) {
        struct rig *rig = rig_start(clock_now_ns() + 600 * NS_PER_S);
        expect_sent(rig);
        assert_int_equal(wiring_card(&rig->wiring, rig->handle)->avoid, 0);
        assert_null(fails_at_a_backend(rig));
        const struct request_message *message = ring_peek(&rig->wiring.requests[0]);
        assert_int_equal(message->failed_at, 7);
        expect_sent(rig);
        assert_int_equal(wiring_card(&rig->wiring, rig->handle)->avoid, 7);
        push_result(rig, (struct result_message){.handle = rig->handle,
                                                 .status = fails ? REQUEST_FAILED : REQUEST_OK,
                                                 .block = fails ? output_block_failed("at 8") : NULL});
        assert_ptr_equal(port_next(rig->port), &rig->request);
        assert_int_equal(rig->request.status, fails ? REQUEST_FAILED : REQUEST_OK);
        if (fails)
            assert_string_equal(request_failure(&rig->request), "at 8");
        output_block_put(rig->request.block);
        rig_stop(rig);
    }
}

/* That backend is the only one that takes it, or no time is left. */
TEST(what_nobody_else_runs_is_answered_as_it_failed) {
    struct rig *rig = rig_start(clock_now_ns() + 600 * NS_PER_S), *late = rig_start(clock_now_ns() - 1);
    expect_sent(rig);
    assert_null(fails_at_a_backend(rig));
    for (int i = 1; i <= REQUEST_AVOIDS_MAX; i++) {
        expect_sent(rig);
        push_result(rig, (struct result_message){.handle = rig->handle, .status = REQUEST_LOST, .failed = true});
        assert_ptr_equal(port_next(rig->port), i < REQUEST_AVOIDS_MAX ? NULL : &rig->request);
    }
    expect_sent(late);
    assert_ptr_equal(fails_at_a_backend(late), &late->request);
    struct rig *each[] = {rig, late};
    for (size_t i = 0; i < ARRAY_COUNT(each); i++) {
        assert_int_equal(each[i]->request.status, REQUEST_FAILED);
        assert_string_equal(request_failure(&each[i]->request), "at 7");
        assert_null(ring_peek(&each[i]->wiring.requests[0]));
        output_block_put(each[i]->request.block);
        rig_stop(each[i]);
    }
}

TEST(what_has_no_time_left_is_refused_with_its_reason) {
    static const struct {
        bool suspect, broke;
        enum refusal refusal;
    } cases[] = {
        {false, false, REFUSAL_LOST},    /* its accelerator failed */
        {true, true, REFUSAL_LOST},      /* while it ran */
        {true, false, REFUSAL_DEADLINE}, /* the accelerator serves, but had to run it apart */
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct rig *rig = rig_start(clock_now_ns() - 1);
        expect_sent(rig);
        assert_ptr_equal(lost(rig, cases[i].suspect, cases[i].broke), &rig->request);
        assert_int_equal(rig->request.status, REQUEST_REFUSED);
        assert_int_equal(rig->request.refusal, cases[i].refusal);
        rig_stop(rig);
    }
}

/* Its slot is kept until the runs are over, though it has come back; another request gets another slot. */
TEST(what_is_still_read_keeps_its_slot) {
    struct rig *rig = rig_start(clock_now_ns() + 600 * NS_PER_S);
    struct request others[2] = {{.items = 1, .deadline_ns = clock_now_ns() + 600 * NS_PER_S},
                                {.items = 1, .deadline_ns = clock_now_ns() + 600 * NS_PER_S}};

    expect_sent(rig);
    uint64_t read = rig->handle;
    for (int runs = 0; runs < 2; runs++) {
        push_result(
            rig, (struct result_message){.handle = rig->handle, .status = REQUEST_LOST, .suspect = true, .read = true});
        assert_null(port_next(rig->port));
        assert_true(request_is_read(&rig->request));
        expect_sent(rig); /* elsewhere */
    }
    push_result(rig, (struct result_message){.handle = rig->handle, .status = REQUEST_OK});
    assert_ptr_equal(port_next(rig->port), &rig->request);
    for (int runs = 0; runs < 2; runs++) {
        assert_true(request_is_read(&rig->request));
        assert_int_equal(port_submit(rig->port, &others[runs]), 0);
        assert_int_not_equal(others[runs].slot, rig->request.slot);
        push_result(rig, (struct result_message){.handle = read, .status = REQUEST_RELEASED});
        assert_null(port_next(rig->port));
    }
    assert_false(request_is_read(&rig->request));
    assert_int_equal(port_submit(rig->port, &rig->request), 0);
    assert_int_equal(rig->request.slot, handle_slot(read));
    rig_stop(rig);
}

/* 0 stands for no request, as in a cluster's frontend; so also when the submissions to a slot come round, which is
 * looked at only at full length (histories.h). */
TEST(no_request_has_handle_0) {
    struct rig *rig = rig_start(TIME_NEVER);
    struct ring *requests = &rig->wiring.requests[0], *refusals = &rig->wiring.refusals[0];
    const uint32_t round = 1u << 24, submissions = histories_count(round) == round ? round + 1 : 1000;
    assert_int_equal(submission_next(round - 1), 1);
    for (uint32_t i = 0; i < submissions; i++) {
        const struct request_message *message = ring_peek(requests);
        if (!message || !message->handle)
            fail_msg("submission %u of slot 0 has handle 0", i + 1);
        struct refusal_message *refusal = ring_reserve(refusals);
        *refusal = (struct refusal_message){.handle = message->handle, .reason = REFUSAL_PLANS_FULL};
        ring_pop(requests);
        ring_release(requests);
        ring_push(refusals);
        ring_publish(refusals);
        if (port_next(rig->port) != &rig->request || port_submit(rig->port, &rig->request) < 0)
            fail_msg("submission %u does not come back", i + 1);
        port_flush(rig->port);
    }
    rig_stop(rig);
}

/* The port of a frontend that may have few requests. */
TEST(as_many_are_outstanding_as_the_wiring_says) {
    struct rig *rig = rig_start_most(clock_now_ns() + 600 * NS_PER_S, 8);
    struct request others[8];

    assert_int_equal(port_most(rig->port, false), 8);
    assert_int_equal(port_most(rig->port, true), 2);
    assert_int_equal(port_room_most(rig->port, false), 7);
    assert_int_equal(port_room_most(rig->port, true), 2);
    for (int i = 0; i < 8; i++) {
        int outstanding = 1 + i - (i > 2); /* with the rig's own; of 8, one place is for others */
        assert_int_equal(port_room(rig->port, false), outstanding < 7 ? 7 - outstanding : 0);
        assert_int_equal(port_room(rig->port, true), i < 2 ? 2 - i : 0);
        others[i] = (struct request){.items = 1, .deadline_ns = rig->request.deadline_ns};
        others[i].priority = i < 3 ? PRIORITY_BEST_EFFORT : 0;
        assert_int_equal(port_submit(rig->port, &others[i]), i == 2 ? -EBUSY : 0);
    }
    assert_int_equal(port_submit(rig->port, &others[2]), -EAGAIN);
    assert_int_equal(port_room(rig->port, false), 0);
    rig_stop(rig);
}

/* Inputs are known by where they lie: in the frontend's region, in that of the bulk threads, or nowhere. */
TEST(inputs_are_found_in_their_region) {
    struct rig *rig = rig_start(clock_now_ns() + 600 * NS_PER_S);
    char own[64], bulk[64], elsewhere[64];
    struct tensor_view inputs[] = {
        {.data = own + 8, .bytes = 56, .dim_count = 1, .dims = {56}},
        {.data = bulk, .bytes = 64, .dim_count = 1, .dims = {64}},
        {.data = NULL},
        {.data = elsewhere, .bytes = 0, .dim_count = 1, .dims = {0}}, /* nothing to be read */
    };
    struct request r = {.items = 1, .deadline_ns = rig->request.deadline_ns, .inputs = inputs, .input_count = 4};

    port_region(rig->port, (uintptr_t)own, sizeof(own), -1);
    rig->wiring.regions[1] = (struct region){(uintptr_t)bulk, sizeof(bulk), -1};
    expect_sent(rig);
    assert_int_equal(port_submit(rig->port, &r), 0);
    const struct request_card *card = &rig->wiring.cards[0][r.slot];
    for (uint32_t i = 0; i < 4; i++) {
        struct tensor_view view = card_view(card, i, rig->wiring.regions);
        assert_int_equal(view.bytes, inputs[i].bytes);
        assert_int_equal(view.dims[0], inputs[i].dims[0]);
        if (i < 3)
            assert_ptr_equal(view.data, inputs[i].data);
    }
    assert_int_not_equal(card->inputs[3].region, REGION_NONE); /* it is given */
    inputs[0].bytes = 57;                                      /* a byte too far */
    struct request beyond = r;
    assert_int_equal(port_submit(rig->port, &beyond), -EFAULT);
    inputs[0].bytes = 56;
    inputs[1].data = elsewhere;
    assert_int_equal(port_submit(rig->port, &beyond), -EFAULT);
    rig_stop(rig);
}

/* What finds no room in the card lies behind all cards, where other processes find it by the slot. */
TEST(many_inputs_are_found_too) {
    struct rig *rig = rig_start(clock_now_ns() + 600 * NS_PER_S);
    static char own[TENSORS_MAX];
    struct tensor_view inputs[TENSORS_MAX];
    struct request r = {
        .items = 1, .deadline_ns = rig->request.deadline_ns, .inputs = inputs, .input_count = TENSORS_MAX};
    for (uint32_t i = 0; i < TENSORS_MAX; i++)
        inputs[i] = (struct tensor_view){.data = own + i, .bytes = 1, .dim_count = 1, .dims = {i}};
    port_region(rig->port, (uintptr_t)own, sizeof(own), -1);
    expect_sent(rig);
    assert_int_equal(port_submit(rig->port, &r), 0);
    const struct request_card *cards = rig->wiring.cards[0];
    for (uint32_t i = 0; i < TENSORS_MAX; i++) {
        struct tensor_view view = card_view(&cards[r.slot], i, rig->wiring.regions);
        assert_ptr_equal(view.data, own + i);
        assert_int_equal(view.dims[0], i);
    }
    const struct card_input *more = cards_more(cards, rig->wiring.port_requests, r.slot);
    assert_int_equal(more[CARD_INPUTS_MORE - 1].offset, TENSORS_MAX - 1);
    rig_stop(rig);
}

/* ---- inputs that are prepared ---- */

static uint32_t kinds_sent(struct rig *rig) {
    uint32_t kinds = 0; /* a digit each, from 1 on */
    for (const struct request_message *m; (m = ring_peek(&rig->wiring.requests[0]));
         ring_pop(&rig->wiring.requests[0])) {
        kinds = kinds * 10 + m->kind + 1u;
        if (m->kind == REQUEST_ARRIVED)
            rig->handle = m->handle;
    }
    ring_release(&rig->wiring.requests[0]);
    return kinds;
}

#define ARRIVED   (REQUEST_ARRIVED + 1)
#define CANCELLED (REQUEST_CANCELLED + 1)
#define READY     (REQUEST_READY + 1)

/* A rig whose only request is one that is promised. */
static struct rig *rig_promised(int64_t deadline_ns, int64_t late_until_ns, uint8_t priority, bool central) {
    struct rig *rig = rig_start(clock_now_ns() + 600 * NS_PER_S);
    expect_sent(rig);
    push_result(rig, (struct result_message){.handle = rig->handle, .status = REQUEST_OK});
    assert_ptr_equal(port_next(rig->port), &rig->request);
    rig->wiring.central = central;
    rig->request = (struct request){.items = 1,
                                    .deadline_ns = deadline_ns,
                                    .late_until_ns = late_until_ns,
                                    .priority = priority,
                                    .preparing = true,
                                    .ready_ns = clock_now_ns() + NS_PER_S};
    assert_int_equal(port_submit(rig->port, &rig->request), 0);
    port_flush(rig->port);
    return rig;
}

static bool unready(const struct rig *rig) {
    return atomic_load(port_unready(rig->port, &rig->request));
}

/* The executor had it before its inputs were there. */
static struct request *left_out(struct rig *rig) {
    push_result(rig, (struct result_message){.handle = rig->handle, .status = REQUEST_LOST, .unready = true});
    return port_next(rig->port);
}

static struct request *refused(struct rig *rig, enum refusal reason) {
    struct ring *refusals = &rig->wiring.refusals[0];
    struct refusal_message *message = ring_reserve(refusals);
    assert_non_null(message);
    *message = (struct refusal_message){.handle = rig->handle, .reason = reason};
    ring_push(refusals);
    ring_publish(refusals);
    return port_next(rig->port);
}

TEST(promised_inputs_are_told_of_when_they_are_there) {
    struct rig *rig = rig_promised(clock_now_ns() + 600 * NS_PER_S, 0, 0, false);
    assert_int_equal(((struct request_message *)ring_peek(&rig->wiring.requests[0]))->ready_ns, rig->request.ready_ns);
    assert_int_equal(kinds_sent(rig), ARRIVED);
    assert_true(unready(rig) && request_is_read(&rig->request));
    port_prepared(rig->port, &rig->request, true);
    assert_false(unready(rig) || request_is_read(&rig->request));
    assert_null(port_next(rig->port)); /* publishes */
    assert_int_equal(kinds_sent(rig), READY);
    push_result(rig, (struct result_message){.handle = rig->handle, .status = REQUEST_OK});
    assert_ptr_equal(port_next(rig->port), &rig->request);
    rig_stop(rig);
}

TEST(a_request_left_out_waits_for_its_inputs) {
    struct rig *rig = rig_promised(clock_now_ns() + 600 * NS_PER_S, 0, 0, false);
    assert_int_equal(kinds_sent(rig), ARRIVED);
    assert_null(left_out(rig));
    assert_int_equal(rig->request.left_out, 1);
    assert_int_equal(kinds_sent(rig), 0);
    port_prepared(rig->port, &rig->request, true);
    assert_null(port_next(rig->port));
    assert_int_equal(kinds_sent(rig), ARRIVED);
    assert_false(unready(rig));
    push_result(rig, (struct result_message){.handle = rig->handle, .status = REQUEST_OK});
    assert_ptr_equal(port_next(rig->port), &rig->request);
    rig_stop(rig);
}

/* The inputs came between the batch and its report. */
TEST(a_request_left_out_late_is_sent_at_once) {
    struct rig *rig = rig_promised(clock_now_ns() + 600 * NS_PER_S, 0, 0, false);
    port_prepared(rig->port, &rig->request, true);
    assert_null(port_next(rig->port));
    assert_int_equal(kinds_sent(rig), ARRIVED * 10 + READY);
    assert_null(left_out(rig));
    assert_int_equal(kinds_sent(rig), ARRIVED);
    rig_stop(rig);
}

/* Central policies and best effort plan with what is there. */
TEST(some_are_submitted_when_their_inputs_are_there) {
    for (int central = 0; central < 2; central++) {
        struct rig *rig = rig_promised(clock_now_ns() + 600 * NS_PER_S, 0, central ? 0 : PRIORITY_BEST_EFFORT, central);
        assert_int_equal(kinds_sent(rig), 0);
        port_prepared(rig->port, &rig->request, true);
        assert_null(port_next(rig->port));
        assert_int_equal(kinds_sent(rig), ARRIVED);
        push_result(rig, (struct result_message){.handle = rig->handle, .status = REQUEST_OK});
        assert_ptr_equal(port_next(rig->port), &rig->request);
        rig_stop(rig);
    }
}

TEST(inputs_that_never_come_end_the_request) {
    for (int held = 0; held < 2; held++) {
        struct rig *rig = rig_promised(clock_now_ns() + 600 * NS_PER_S, clock_now_ns() + 900 * NS_PER_S, 0, held);
        port_prepared(rig->port, &rig->request, false);
        if (!held) {
            port_flush(rig->port);
            assert_int_equal(kinds_sent(rig), ARRIVED * 10 + CANCELLED);
            port_cancel(rig->port, &rig->request); /* its client leaves: nothing more to say */
            assert_ptr_equal(left_out(rig), &rig->request);
            assert_int_equal(kinds_sent(rig), 0);
        } else {
            assert_ptr_equal(port_next(rig->port), &rig->request);
        }
        assert_int_equal(rig->request.status, REQUEST_REFUSED);
        assert_int_equal(rig->request.refusal, held ? REFUSAL_UNPREPARED : REFUSAL_CANCELLED);
        assert_null(port_next(rig->port));
        assert_int_equal(port_submit(rig->port, &rig->request), 0); /* its slot is free again */
        rig_stop(rig);
    }
}

/* What is too late once its inputs are there goes on only if nobody asked for its deadline. */
TEST(inputs_that_come_late) {
    for (int waits = 0; waits < 2; waits++) {
        int64_t now_ns = clock_now_ns();
        struct rig *rig = rig_promised(now_ns - 1, waits ? now_ns + 600 * NS_PER_S : 0, 0, false);
        assert_int_equal(kinds_sent(rig), ARRIVED);
        struct request *back = left_out(rig);
        assert_ptr_equal(back, waits ? NULL : &rig->request);
        assert_int_equal(kinds_sent(rig), 0);
        if (!waits)
            assert_int_equal(rig->request.refusal, REFUSAL_UNPREPARED);
        port_prepared(rig->port, &rig->request, true);
        assert_null(port_next(rig->port));
        assert_int_equal(kinds_sent(rig), waits ? ARRIVED : 0);
        rig_stop(rig);
    }
}

/* Whatever a request lacked until its deadline, it goes on if nobody asked for that deadline; but only once. */
TEST(what_runs_out_of_time_goes_on_once) {
    const struct {
        enum refusal reason;
        enum wiring_link link;
        bool chosen, waits;
    } cases[] = {
        {REFUSAL_DEADLINE, LINK_NONE, true, true},        {REFUSAL_DEADLINE, LINK_NONE, false, false},
        {REFUSAL_STRANDED, LINK_NONE, true, false}, /* nothing would wait for an accelerator here */
        {REFUSAL_STRANDED, LINK_FRONTEND, true, true},    {REFUSAL_STRANDED, LINK_FRONTEND, false, false},
        {REFUSAL_UNSCHEDULED, LINK_FRONTEND, true, true}, {REFUSAL_UNSCHEDULED, LINK_FRONTEND, false, false},
        {REFUSAL_QUEUE_FULL, LINK_FRONTEND, true, false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        enum refusal reason = cases[i].reason;
        bool chosen = cases[i].chosen, waits = cases[i].waits;
        int64_t now_ns = clock_now_ns();
        struct rig *rig = rig_promised(now_ns - 1, chosen ? now_ns + 600 * NS_PER_S : 0, 0, false);
        assert_int_equal(kinds_sent(rig), ARRIVED);
        port_prepared(rig->port, &rig->request, true);
        port_flush(rig->port);
        assert_int_equal(kinds_sent(rig), READY);
        rig->wiring.link = cases[i].link;
        if (waits) {
            assert_null(refused(rig, reason));
            assert_int_equal(rig->request.priority, PRIORITY_BEST_EFFORT);
            assert_int_equal(rig->request.deadline_ns, rig->request.late_until_ns);
            assert_int_equal(kinds_sent(rig), ARRIVED);
        }
        assert_ptr_equal(refused(rig, reason), &rig->request);
        assert_int_equal(rig->request.refusal, reason);
        assert_int_equal(kinds_sent(rig), 0);
        rig->wiring.link = LINK_NONE;
        rig_stop(rig);
    }
}

/* Cancelled while it is held, it comes back at once; its slot is kept until nobody writes its inputs. */
TEST(a_held_request_is_cancelled) {
    struct rig *rig = rig_promised(clock_now_ns() + 600 * NS_PER_S, 0, 0, true);
    struct request other = {.items = 1, .deadline_ns = rig->request.deadline_ns};
    uint32_t slot = rig->request.slot;
    port_cancel(rig->port, &rig->request);
    assert_false(port_arm(rig->port, TIME_NEVER)); /* there is something to take */
    assert_ptr_equal(port_next(rig->port), &rig->request);
    assert_int_equal(rig->request.refusal, REFUSAL_CANCELLED);
    assert_true(request_is_read(&rig->request));
    assert_int_equal(port_submit(rig->port, &other), 0);
    assert_int_not_equal(other.slot, slot);
    port_prepared(rig->port, &rig->request, true);
    assert_false(request_is_read(&rig->request));
    assert_null(port_next(rig->port));
    port_flush(rig->port);
    assert_int_equal(kinds_sent(rig), ARRIVED); /* the other's */
    assert_int_equal(port_submit(rig->port, &rig->request), 0);
    assert_int_equal(rig->request.slot, slot);
    rig_stop(rig);
}

/* Its time is over before its inputs are there: only what waits here comes back for that. */
TEST(a_held_request_is_given_up) {
    for (int held = 0; held < 2; held++) {
        struct rig *rig = rig_promised(clock_now_ns() + 600 * NS_PER_S, 0, 0, held);
        port_give_up(rig->port, &rig->request);
        assert_ptr_equal(port_next(rig->port), held ? &rig->request : NULL);
        if (held) {
            assert_int_equal(rig->request.status, REQUEST_REFUSED);
            assert_int_equal(rig->request.refusal, REFUSAL_UNPREPARED);
            assert_true(request_is_read(&rig->request)); /* still written */
            port_give_up(rig->port, &rig->request);
        }
        port_prepared(rig->port, &rig->request, true);
        assert_null(port_next(rig->port));
        assert_int_equal(kinds_sent(rig), held ? 0 : ARRIVED * 10 + READY);
        rig_stop(rig);
    }
}

/* Hints never take the room of arrivals and cancellations, though the scheduler reads nothing. */
TEST(hints_leave_room_for_what_must_be_said) {
    enum { MOST = 8 };
    struct rig *rig = rig_start_most(clock_now_ns() + 600 * NS_PER_S, MOST);
    struct request r[MOST - 1];
    struct ring *ring = &rig->wiring.requests[0];
    uint32_t hints = 0;
    for (int i = 0; i < MOST - 1; i++) { /* each may say three things */
        r[i] = (struct request){.items = 1, .deadline_ns = rig->request.deadline_ns, .preparing = true, .ready_ns = 1};
        assert_int_equal(port_submit(rig->port, &r[i]), 0);
    }
    for (int round = 0; round < 40; round++) {
        port_prepared(rig->port, &r[0], true);
        port_flush(rig->port);
        uint64_t handle = rig->wiring.cards[0][r[0].slot].handle;
        while (((struct request_message *)ring_peek(ring))->handle != handle)
            ring_pop(ring);
        ring_pop(ring); /* its arrival is read, but not the hint, and it runs */
        ring_release(ring);
        hints += ring_peek(ring) != NULL;
        push_result(rig, (struct result_message){.handle = handle, .status = REQUEST_OK});
        assert_ptr_equal(port_next(rig->port), &r[0]);
        r[0] = (struct request){.items = 1, .deadline_ns = rig->request.deadline_ns, .preparing = true, .ready_ns = 1};
        assert_int_equal(port_submit(rig->port, &r[0]), 0);
    }
    assert_true(hints > 0);
    for (int i = 0; i < MOST - 1; i++) {
        port_prepared(rig->port, &r[i], true);
        port_cancel(rig->port, &r[i]);
    }
    rig_stop(rig);
}

/* Requests to a model that shares its first layers queue for the place of these; their card says whose they are. */
TEST(a_model_with_a_suffix_is_scheduled_as_its_prefix) {
    uint32_t hosts[] = {0, 3, 2, 3}, threads[4] = {0};
    uint8_t suffixes[] = {0, 9, 0, 0};
    struct rig *rig = rig_start(TIME_NEVER);
    struct request other = {.model = 1, .items = 1, .deadline_ns = TIME_NEVER};

    expect_sent(rig);
    rig->wiring.thread_of_served = threads;
    rig->wiring.host_of_served = hosts;
    rig->wiring.suffix_of_served = suffixes;
    assert_int_equal(port_submit(rig->port, &other), 0);
    port_flush(rig->port);
    const struct request_message *message = ring_peek(&rig->wiring.requests[0]);
    assert_non_null(message);
    assert_int_equal(message->place.n, 3);
    assert_int_equal(wiring_card(&rig->wiring, message->handle)->suffix, 9);
    rig->wiring.thread_of_served = rig->zero;
    rig_stop(rig);
}
