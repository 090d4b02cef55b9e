/* wire.c - checks received frames. */
#include "cluster/peer/wire.h"

#include <errno.h>

/* Bytes of each struct of a head; 0: the head is no array of structs. */
static size_t struct_bytes(uint16_t kind) {
    switch (kind) {
    case FRAME_PING:
    case FRAME_PONG:
        return sizeof(struct wire_ping);
    case FRAME_HEARTBEAT:
        return sizeof(struct wire_heartbeat);
    case FRAME_ACCELERATORS:
        return sizeof(struct wire_accelerator);
    case FRAME_REQUESTS:
        return sizeof(struct wire_request);
    case FRAME_RAN:
        return sizeof(struct ran_message);
    case FRAME_FREED:
        return sizeof(struct freed_message);
    case FRAME_UNDELIVERED:
    case FRAME_RESULTS:
        return sizeof(struct wire_lost);
    case FRAME_REFUSALS:
        return sizeof(struct refusal_message);
    case FRAME_MODEL_LEFT:
    case FRAME_MODEL_GONE:
    case FRAME_FRONTEND_GONE:
    case FRAME_RESTS:
    case FRAME_MODEL_ENDS:
    case FRAME_MODEL_RESTS:
    case FRAME_ADVICE:
        return sizeof(uint32_t);
    case FRAME_MOVES:
        return sizeof(struct wire_move);
    case FRAME_MOVED:
        return sizeof(struct wire_moved);
    case FRAME_REGIONS:
        return sizeof(struct wire_region);
    case FRAME_PULL:
    case FRAME_TAKEN:
    case FRAME_NO_CARD:
    case FRAME_WHERE:
    case FRAME_READ:
    case FRAME_READY:
    case FRAME_FAULTS:
        return sizeof(uint64_t);
    default:
        return 0;
    }
}

/* The least bytes of a head that is no array. */
static size_t head_least(uint16_t kind) {
    switch (kind) {
    case FRAME_HELLO:
    case FRAME_WELCOME:
    case FRAME_FRONTEND:
    case FRAME_ASIDE:
    case FRAME_ROLLOUTS:
    case FRAME_ROLLOUT:
        return 2;
    case FRAME_MODEL:
    case FRAME_SERVE:
        return sizeof(uint32_t) + 2;
    case FRAME_PLANS:
        return sizeof(struct batch_plan);
    case FRAME_PASS:
        return sizeof(struct wire_pass);
    case FRAME_RESULT:
        return sizeof(struct wire_result);
    case FRAME_CARD:
    case FRAME_LIES:
    case FRAME_UNREADY:
        return sizeof(struct wire_card);
    case FRAME_FABRIC:
        return sizeof(struct wire_fabric);
    case FRAME_MEMORY:
        return sizeof(struct wire_memory);
    default:
        return 0;
    }
}

uint32_t wire_head_most(uint16_t kind) {
    return kind == FRAME_MODEL || kind == FRAME_SERVE ? WIRE_MODEL_MAX : WIRE_HEAD_MAX;
}

int wire_frame_check(const struct frame *frame, struct sy_error *err) {
    uint16_t kind = frame->kind;
    size_t each = struct_bytes(kind);
    bool known = each || head_least(kind) || kind == FRAME_REFUSED || kind == FRAME_BYE || kind == FRAME_TOLD ||
                 kind == FRAME_STATUS || kind == FRAME_DRAIN || kind == FRAME_CORDON || kind == FRAME_UNCORDON;
    bool has_body = kind == FRAME_RESULT || kind == FRAME_CARD || kind == FRAME_STATUS;
    if (!known)
        return error_set(err, -EPROTO,
                         "the other end is no process of a cluster, or one of another release: a frame of kind %u",
                         kind);
    if (frame->head_bytes > wire_head_most(kind) || frame->body_bytes > (has_body ? WIRE_BODY_MAX : 0))
        return error_set(err, -EPROTO, "a frame of kind %u with a head of %u and a body of %llu bytes", frame->kind,
                         frame->head_bytes, (unsigned long long)frame->body_bytes);
    if (each ? frame->head_bytes != each * frame->count : frame->head_bytes < head_least(kind))
        return error_set(err, -EPROTO, "a frame of kind %u with %u structs in %u bytes", frame->kind, frame->count,
                         frame->head_bytes);
    return 0;
}

static bool plans_fit(const struct frame *frame, const char *head) {
    uint32_t at = 0, plans = 0;
    for (; at + sizeof(struct batch_plan) <= frame->head_bytes; plans++) {
        const struct batch_plan *plan = (const struct batch_plan *)(head + at);
        uint32_t left = frame->head_bytes - at;
        if (plan->zero != 0 || plan->request_count < 1 || plan->request_count > WIRE_HEAD_MAX / sizeof(uint64_t) ||
            wire_plan_bytes(plan->request_count, 0) > left)
            return false;
        size_t room = left - wire_plan_bytes(plan->request_count, 0);
        if (wire_plan_frontends(plan, room / sizeof(struct wire_plan_pass)) == UINT32_MAX)
            return false;
        at += wire_plan_length(plan);
    }
    return at == frame->head_bytes && plans == frame->count;
}

static bool passes_fit(const struct frame *frame, const char *head) {
    uint32_t at = 0, passes = 0;
    for (; at + sizeof(struct wire_pass) <= frame->head_bytes; passes++) {
        const struct wire_pass *pass = (const struct wire_pass *)(head + at);
        at += sizeof(*pass);
        if (pass->count > (frame->head_bytes - at) / sizeof(uint64_t))
            return false;
        at += pass->count * (uint32_t)sizeof(uint64_t);
    }
    return at == frame->head_bytes && passes == frame->count;
}

/* Whether a card's inputs are in the body, one after the other; of FRAME_LIES they may be anywhere, and of
 * FRAME_UNREADY the body comes later. */
static bool card_fits(const struct frame *frame, const char *head) {
    bool unready = frame->kind == FRAME_UNREADY;
    uint64_t body_bytes = unready ? WIRE_BODY_MAX : frame->body_bytes;
    const struct wire_card *card = (const struct wire_card *)head;
    const struct card_input *inputs = (const struct card_input *)(card + 1);
    if (card->input_count > TENSORS_MAX || card->items < 1 || !(card->work > 0) ||
        frame->head_bytes != sizeof(*card) + card->input_count * sizeof(*inputs))
        return false;
    uint64_t at = 0;
    for (uint32_t i = 0; i < card->input_count; i++) {
        bool none = inputs[i].region == REGION_NONE;
        uint32_t dim_count = inputs[i].dim_count;
        /* no sum or product of a shape's sizes may overflow */
        if (dim_count > TENSOR_DIMS_MAX || dims_extent(inputs[i].dims, 0, dim_count) < 0 ||
            dims_product(inputs[i].dims, 0, dim_count) < 0 || (none && inputs[i].bytes > 0))
            return false;
        if (frame->kind == FRAME_LIES)
            continue;
        if (inputs[i].offset != at || inputs[i].bytes > body_bytes - at)
            return false;
        at += inputs[i].bytes;
    }
    return unready || at == frame->body_bytes;
}

static bool fabric_fits(const struct frame *frame, const char *head) {
    const struct wire_fabric *fabric = (const struct wire_fabric *)head;
    return fabric->region_count <= WIRE_REGIONS_MAX &&
           frame->head_bytes == sizeof(*fabric) + fabric->region_count * sizeof(struct wire_fabric_region);
}

static bool memory_fits(const struct frame *frame, const char *head) {
    const struct wire_memory *memory = (const struct wire_memory *)head;
    return memory->pages >= 1 && memory->pages < MEMORY_PAGES_MOST && memory->grain >= 1 &&
           memory->grain <= WIRE_GRAIN_MAX && memory->cuts <= 1 &&
           memory->count == (frame->head_bytes - sizeof(*memory)) / sizeof(uint32_t) &&
           frame->head_bytes % sizeof(uint32_t) == 0;
}

static bool moves_fit(const struct frame *frame, const char *head) {
    const struct wire_move *moves = (const struct wire_move *)head;
    for (uint32_t i = 0; i < frame->count; i++)
        if (moves[i].kind < CENTRAL_LOAD || moves[i].kind > CENTRAL_EMPTY || moves[i].ahead > 1)
            return false;
    return true;
}

static bool moved_fit(const struct frame *frame, const char *head) {
    const struct wire_moved *moved = (const struct wire_moved *)head;
    for (uint32_t i = 0; i < frame->count; i++)
        if (moved[i].kind < CENTRAL_LOAD || moved[i].kind > CENTRAL_EMPTY || moved[i].done > 1 || moved[i].failed > 1 ||
            moved[i].took_ns < 0)
            return false;
    return true;
}

static bool result_fits(const struct frame *frame, const char *head) {
    const struct wire_result *result = (const struct wire_result *)head;
    const struct wire_tensor *tensors = (const struct wire_tensor *)(result + 1);
    if (result->tensor_count > TENSORS_MAX || result->outcome.status > REQUEST_LOST ||
        result->outcome.refusal >= REFUSAL_COUNT || result->outcome.batch_items > UINT16_MAX ||
        frame->head_bytes != sizeof(*result) + result->tensor_count * sizeof(*tensors))
        return false;
    if (result->tensor_count == 0)
        return frame->body_bytes <= WIRE_TEXT_MAX;
    uint64_t at = 0;
    for (uint32_t i = 0; i < result->tensor_count; i++) {
        /* without elements a model's output may be as wide as it likes */
        if (tensors[i].dim_count > TENSOR_DIMS_MAX || dims_product(tensors[i].dims, 0, tensors[i].dim_count) < 0 ||
            tensors[i].bytes > frame->body_bytes - at)
            return false;
        at += tensors[i].bytes;
    }
    return at == frame->body_bytes;
}

int wire_head_check(const struct frame *frame, const void *head, struct sy_error *err) {
    bool fits = frame->kind == FRAME_PLANS     ? plans_fit(frame, head)
                : frame->kind == FRAME_PASS    ? passes_fit(frame, head)
                : frame->kind == FRAME_CARD    ? card_fits(frame, head)
                : frame->kind == FRAME_LIES    ? card_fits(frame, head)
                : frame->kind == FRAME_UNREADY ? card_fits(frame, head)
                : frame->kind == FRAME_FABRIC  ? fabric_fits(frame, head)
                : frame->kind == FRAME_RESULT  ? result_fits(frame, head)
                : frame->kind == FRAME_MEMORY  ? memory_fits(frame, head)
                : frame->kind == FRAME_MOVES   ? moves_fit(frame, head)
                : frame->kind == FRAME_MOVED   ? moved_fit(frame, head)
                                               : true;
    return fits ? 0 : error_set(err, -EPROTO, "a frame of kind %u whose numbers do not fit it", frame->kind);
}

int wire_refused(const struct frame *frame, const void *head, struct sy_error *err) {
    uint32_t most = sizeof(err->text) - 1;
    return error_set(err, -EACCES, "%.*s", (int)(frame->head_bytes < most ? frame->head_bytes : most),
                     (const char *)head);
}
