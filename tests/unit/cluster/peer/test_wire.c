/* test_wire.c - frames that fit and frames that do not. */
#include "cluster/peer/wire.h"
#include "unit/test.h"

static struct sy_error err;

static bool is_refused(const struct frame *frame, const void *head) {
    return wire_frame_check(frame, &err) < 0 || (head && wire_head_check(frame, head, &err) < 0);
}

TEST(kinds_are_known_and_arrays_as_long_as_they_say) {
    struct wire_request requests[2] = {{.items = 1}};
    assert_false(
        is_refused(&(struct frame){.kind = FRAME_REQUESTS, .count = 2, .head_bytes = sizeof(requests)}, requests));
    assert_true(is_refused(&(struct frame){.kind = FRAME_REQUESTS, .count = 1, .head_bytes = sizeof(requests)}, NULL));
    assert_true(is_refused(&(struct frame){.kind = FRAME_REQUESTS, .count = 2, .head_bytes = 95}, NULL));
    assert_true(is_refused(&(struct frame){.kind = 0}, NULL));
    assert_true(is_refused(&(struct frame){.kind = 9999}, NULL));
    assert_false(is_refused(&(struct frame){.kind = FRAME_BYE}, NULL));
    assert_true(is_refused(&(struct frame){.kind = FRAME_HELLO, .head_bytes = 1}, NULL));
    assert_true(is_refused(&(struct frame){.kind = FRAME_HELLO, .head_bytes = WIRE_HEAD_MAX + 1}, NULL));
    assert_true(is_refused(&(struct frame){.kind = FRAME_HELLO, .head_bytes = 2, .body_bytes = 1}, NULL));
    struct frame status = {.kind = FRAME_STATUS, .body_bytes = WIRE_BODY_MAX};
    assert_false(is_refused(&status, NULL));
    status.body_bytes++;
    assert_true(is_refused(&status, NULL));
}

TEST(requests_come_as_they_were_sent) {
    const struct request_message sent = {
        .handle = 5, .deadline_ns = 7, .items = 3, .batch_most = 8, .priority = 2, .ready_ns = 9};
    const struct wire_request request = wire_request_of(&sent);
    const struct request_message got = wire_request_message(&request);
    assert_int_equal(got.handle, 5);
    assert_int_equal(got.deadline_ns, 7);
    assert_int_equal(got.items, 3);
    assert_int_equal(got.batch_most, 8);
    assert_int_equal(got.priority, 2);
    assert_int_equal(got.ready_ns, 9);
}

TEST(descriptions_may_be_longer) {
    struct frame frame = {.kind = FRAME_MODEL, .count = 1, .head_bytes = WIRE_MODEL_MAX};
    assert_int_equal(wire_frame_check(&frame, &err), 0);
    frame.head_bytes++;
    assert_true(wire_frame_check(&frame, &err) < 0);
    frame = (struct frame){.kind = FRAME_WELCOME, .count = 1, .head_bytes = WIRE_HEAD_MAX + 1};
    assert_true(wire_frame_check(&frame, &err) < 0);
    frame = (struct frame){.kind = FRAME_MODEL_ENDS, .count = 2, .head_bytes = 8};
    assert_int_equal(wire_frame_check(&frame, &err), 0);
    frame.head_bytes = 7;
    assert_true(wire_frame_check(&frame, &err) < 0);
}

TEST(plans_lie_behind_each_other) {
    _Alignas(8) char head[512] = {0};
    uint32_t bytes = (uint32_t)wire_plan_bytes(3, 2);
    struct batch_plan *first = (struct batch_plan *)head;
    first->request_count = 3;
    wire_plan_passes(first)[0].requests = 2;
    wire_plan_passes(first)[1].requests = 1;
    struct batch_plan *second = (struct batch_plan *)(head + bytes);
    second->request_count = 1;
    wire_plan_passes(second)->requests = 1;
    struct frame frame = {.kind = FRAME_PLANS, .count = 2, .head_bytes = bytes + (uint32_t)wire_plan_bytes(1, 1)};
    assert_false(is_refused(&frame, head));
    assert_int_equal(wire_plan_frontends(first, UINT32_MAX), 2);
    assert_int_equal(wire_plan_length(first), bytes);
    frame.count = 1;
    assert_true(is_refused(&frame, head));
    frame.count = 2;
    first->request_count = 0;
    assert_true(is_refused(&frame, head));
    first->request_count = UINT32_MAX;
    assert_true(is_refused(&frame, head));
    first->request_count = 4; /* the second begins in its middle */
    assert_true(is_refused(&frame, head));
    first->request_count = 3;
    wire_plan_passes(first)[0].requests = 0; /* passes for fewer requests, or for more */
    assert_true(is_refused(&frame, head));
    wire_plan_passes(first)[0].requests = UINT32_MAX;
    assert_true(is_refused(&frame, head));
    wire_plan_passes(first)[0].requests = 2;
    frame.head_bytes -= 8; /* a word of the last pass is missing */
    assert_true(is_refused(&frame, head));
}

TEST(passes_lie_behind_each_other) {
    _Alignas(8) char head[2 * (sizeof(struct wire_pass) + 2 * sizeof(uint64_t))] = {0};
    struct wire_pass *first = (struct wire_pass *)head, *second = (struct wire_pass *)&first->handles[2];
    struct frame frame = {.kind = FRAME_PASS, .count = 2, .head_bytes = sizeof(head)};
    first->count = second->count = 2;
    assert_false(is_refused(&frame, head));
    frame.count = 1;
    assert_true(is_refused(&frame, head));
    frame.count = 2;
    second->count = 3;
    assert_true(is_refused(&frame, head));
    second->count = UINT32_MAX;
    assert_true(is_refused(&frame, head));
    second->count = 1; /* a word too many */
    assert_true(is_refused(&frame, head));
}

TEST(a_run_takes_no_longer_than_since_its_plan) {
    assert_true(wire_run_possible(0, 0));
    assert_true(wire_run_possible(100 * NS_PER_MS, 100 * NS_PER_MS));
    assert_true(wire_run_possible(1001 * NS_PER_MS, NS_PER_S)); /* two clocks differ */
    assert_true(wire_run_possible(-1, 0));
    assert_false(wire_run_possible(11 * NS_PER_MS, 0));
    assert_false(wire_run_possible(2 * NS_PER_S, NS_PER_S));
    assert_false(wire_run_possible(INT64_MAX, NS_PER_S));
}

struct card {
    struct wire_card card;
    struct card_input inputs[TENSORS_MAX + 1];
};

static struct card card_make(struct frame *frame) {
    struct card card = {.card = {.handle = 7, .items = 2, .work = 1, .input_count = 2}};
    card.inputs[0] = (struct card_input){.bytes = 24, .dim_count = 2, .dims = {2, 3}};
    card.inputs[1] = (struct card_input){.offset = 24, .bytes = 8, .dim_count = 1, .dims = {2}};
    *frame = (struct frame){.kind = FRAME_CARD,
                            .count = 1,
                            .head_bytes = sizeof(struct wire_card) + 2 * sizeof(struct card_input),
                            .body_bytes = 32};
    return card;
}

TEST(cards_say_where_each_input_lies) {
    struct frame frame;
    struct card card = card_make(&frame);
    assert_false(is_refused(&frame, &card));
#define REFUSED(change)                                                                                                \
    do {                                                                                                               \
        card = card_make(&frame);                                                                                      \
        change;                                                                                                        \
        assert_true(is_refused(&frame, &card));                                                                        \
    } while (0)
    REFUSED(card.card.items = 0);
    REFUSED(card.card.work = 0);
    REFUSED(card.card.work = -1);
    REFUSED(card.card.input_count = 3);
    REFUSED(card.card.input_count = TENSORS_MAX + 1);
    REFUSED(card.inputs[0].dim_count = TENSOR_DIMS_MAX + 1);
    REFUSED(card.inputs[0].dims[1] = -3);
    REFUSED((card.inputs[0].dims[0] = 1LL << 40, card.inputs[0].dims[1] = 1LL << 40));
    REFUSED(card.inputs[0].bytes = UINT64_MAX);
    REFUSED(card.inputs[1].offset = 16);
    REFUSED(card.inputs[1].region = REGION_NONE);
    REFUSED(frame.body_bytes = 31);
    REFUSED(frame.body_bytes = 33);
    REFUSED(frame.body_bytes = WIRE_BODY_MAX + 1);
    card = card_make(&frame);
    card.inputs[1] = (struct card_input){.offset = 24, .region = REGION_NONE};
    frame.body_bytes = 24;
    assert_false(is_refused(&frame, &card));
}

TEST(inputs_that_lie_elsewhere_have_no_body) {
    struct frame frame;
    struct card card = card_make(&frame);
    frame.kind = FRAME_LIES;
    assert_true(is_refused(&frame, &card));
    frame.body_bytes = 0;
    card.inputs[1].offset = 1 << 20; /* anywhere in its region */
    assert_false(is_refused(&frame, &card));
    card.inputs[1].region = REGION_NONE;
    assert_true(is_refused(&frame, &card));
    card.inputs[1].region = 0;
    card.card.input_count = 3;
    assert_true(is_refused(&frame, &card));
}

TEST(inputs_that_are_prepared_come_later) {
    struct frame frame;
    struct card card = card_make(&frame);
    frame.kind = FRAME_UNREADY;
    assert_true(is_refused(&frame, &card)); /* it has no body */
    frame.body_bytes = 0;
    assert_false(is_refused(&frame, &card));
    card.inputs[1].offset = 16;
    assert_true(is_refused(&frame, &card));
    card = card_make(&frame);
    frame.kind = FRAME_UNREADY;
    frame.body_bytes = 0;
    card.inputs[1].bytes = WIRE_BODY_MAX;
    assert_true(is_refused(&frame, &card));
    card.inputs[1].bytes = UINT64_MAX - 8;
    assert_true(is_refused(&frame, &card));
    frame.head_bytes -= 8;
    assert_true(is_refused(&frame, &card));
    assert_false(is_refused(&(struct frame){.kind = FRAME_READY, .count = 2, .head_bytes = 16}, &card));
    assert_true(is_refused(&(struct frame){.kind = FRAME_READY, .count = 2, .head_bytes = 15}, &card));
}

TEST(memory_for_libfabric_has_as_many_regions_as_it_says) {
    struct {
        struct wire_fabric fabric;
        struct wire_fabric_region regions[2];
    } head = {.fabric = {.region_count = 2}};
    struct frame frame = {.kind = FRAME_FABRIC, .count = 1, .head_bytes = sizeof(head)};
    assert_false(is_refused(&frame, &head));
    head.fabric.region_count = 1;
    assert_true(is_refused(&frame, &head));
    head.fabric.region_count = WIRE_REGIONS_MAX + 1;
    frame.head_bytes = sizeof(head.fabric) + (WIRE_REGIONS_MAX + 1) * sizeof(struct wire_fabric_region);
    assert_true(is_refused(&frame, &head));
    frame.head_bytes = sizeof(head.fabric) - 8;
    assert_true(is_refused(&frame, NULL));
}

TEST(results_bring_outputs_or_a_sentence) {
    struct {
        struct wire_result result;
        struct wire_tensor tensors[2];
    } head = {.result = {.tensor_count = 2}};
    head.tensors[0] = (struct wire_tensor){.bytes = 4, .dim_count = 1, .dims = {1}};
    head.tensors[1] = (struct wire_tensor){.bytes = 6, .dim_count = 1, .dims = {3}};
    struct frame frame = {.kind = FRAME_RESULT, .count = 1, .head_bytes = sizeof(head), .body_bytes = 10};
    assert_false(is_refused(&frame, &head));
    /* what a model makes of nothing may be wide; its backend is not to be lost for it */
    head.tensors[1] =
        (struct wire_tensor){.dim_count = 4, .dims = {0, (int64_t)1 << 30, (int64_t)1 << 30, (int64_t)1 << 30}};
    frame.body_bytes = 4;
    assert_false(is_refused(&frame, &head));
    head.tensors[1].dims[1] = -1;
    assert_true(is_refused(&frame, &head));
    head.tensors[1] = (struct wire_tensor){.bytes = 6, .dim_count = 1, .dims = {3}};
    frame.body_bytes = 11;
    assert_true(is_refused(&frame, &head));
    frame.body_bytes = 10;
    head.result.outcome.status = REQUEST_RELEASED; /* of no concern to anybody else */
    assert_true(is_refused(&frame, &head));
    head.result.outcome.status = REQUEST_REFUSED;
    head.result.outcome.refusal = REFUSAL_COUNT;
    assert_true(is_refused(&frame, &head));
    head.result = (struct wire_result){.outcome = {.status = REQUEST_FAILED}};
    frame.head_bytes = sizeof(head.result);
    assert_false(is_refused(&frame, &head));
    frame.body_bytes = WIRE_TEXT_MAX + 1;
    assert_true(is_refused(&frame, &head));
}
