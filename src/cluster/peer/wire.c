/* wire.c - checks received frames. */
#include "cluster/peer/wire.h"

#include <errno.h>

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

/* What frames of a kind look like. */
struct kind {
    bool (*fits)(const struct frame *frame, const char *head); /* whether a head's numbers fit; NULL: any do */
    uint32_t each;  /* bytes of each struct of the head; 0: the head is no array of structs */
    uint32_t least; /* least bytes of a head that is no array */
    bool plain;     /* any head will do */
    bool body;      /* the frame may have a body */
};

static const struct kind kinds[] = {
    [FRAME_HELLO] = {.least = 2},
    [FRAME_WELCOME] = {.least = 2},
    [FRAME_REFUSED] = {.plain = true},
    [FRAME_PING] = {.each = sizeof(struct wire_ping)},
    [FRAME_PONG] = {.each = sizeof(struct wire_ping)},
    [FRAME_BYE] = {.plain = true},
    [FRAME_MODEL] = {.least = sizeof(uint32_t) + 2},
    [FRAME_ACCELERATORS] = {.each = sizeof(struct wire_accelerator)},
    [FRAME_REQUESTS] = {.each = sizeof(struct wire_request)},
    [FRAME_RAN] = {.each = sizeof(struct ran_message)},
    [FRAME_FREED] = {.each = sizeof(struct freed_message)},
    [FRAME_UNDELIVERED] = {.each = sizeof(struct wire_lost)},
    [FRAME_MODEL_LEFT] = {.each = sizeof(uint32_t)},
    [FRAME_MEMORY] = {.fits = memory_fits, .least = sizeof(struct wire_memory)},
    [FRAME_MOVED] = {.fits = moved_fit, .each = sizeof(struct wire_moved)},
    [FRAME_SERVE] = {.least = sizeof(uint32_t) + 2},
    [FRAME_MODEL_GONE] = {.each = sizeof(uint32_t)},
    [FRAME_REFUSALS] = {.each = sizeof(struct refusal_message)},
    [FRAME_RESULTS] = {.each = sizeof(struct wire_lost)},
    [FRAME_FRONTEND] = {.least = 2},
    [FRAME_FRONTEND_GONE] = {.each = sizeof(uint32_t)},
    [FRAME_TOLD] = {.plain = true},
    [FRAME_PLANS] = {.fits = plans_fit, .least = sizeof(struct batch_plan)},
    [FRAME_HEARTBEAT] = {.each = sizeof(struct wire_heartbeat)},
    [FRAME_RESTS] = {.each = sizeof(uint32_t)},
    [FRAME_MODEL_ENDS] = {.each = sizeof(uint32_t)},
    [FRAME_MODEL_RESTS] = {.each = sizeof(uint32_t)},
    [FRAME_ADVICE] = {.each = sizeof(uint32_t)},
    [FRAME_ASIDE] = {.least = 2},
    [FRAME_MOVES] = {.fits = moves_fit, .each = sizeof(struct wire_move)},
    [FRAME_ROLLOUTS] = {.least = 2},
    [FRAME_PULL] = {.each = sizeof(uint64_t)},
    [FRAME_TAKEN] = {.each = sizeof(uint64_t)},
    [FRAME_RESULT] = {.fits = result_fits, .least = sizeof(struct wire_result), .body = true},
    [FRAME_WHERE] = {.each = sizeof(uint64_t)},
    [FRAME_READ] = {.each = sizeof(uint64_t)},
    [FRAME_PASS] = {.fits = passes_fit, .least = sizeof(struct wire_pass)},
    [FRAME_CARD] = {.fits = card_fits, .least = sizeof(struct wire_card), .body = true},
    [FRAME_NO_CARD] = {.each = sizeof(uint64_t)},
    [FRAME_REGIONS] = {.each = sizeof(struct wire_region)},
    [FRAME_FABRIC] = {.fits = fabric_fits, .least = sizeof(struct wire_fabric)},
    [FRAME_LIES] = {.fits = card_fits, .least = sizeof(struct wire_card)},
    [FRAME_UNREADY] = {.fits = card_fits, .least = sizeof(struct wire_card)},
    [FRAME_READY] = {.each = sizeof(uint64_t)},
    [FRAME_FAULTS] = {.each = sizeof(uint64_t)},
    [FRAME_STATUS] = {.plain = true, .body = true},
    [FRAME_DRAIN] = {.plain = true},
    [FRAME_CORDON] = {.plain = true},
    [FRAME_UNCORDON] = {.plain = true},
    [FRAME_ROLLOUT] = {.least = 2},
};

int wire_frame_check(const struct frame *frame, struct sy_error *err) {
    static const struct kind unknown;
    const struct kind *kind = frame->kind < ARRAY_COUNT(kinds) ? &kinds[frame->kind] : &unknown;
    uint32_t most = frame->kind == FRAME_MODEL || frame->kind == FRAME_SERVE ? WIRE_MODEL_MAX : WIRE_HEAD_MAX;
    if (!kind->each && !kind->least && !kind->plain)
        return error_set(err, -EPROTO,
                         "the other end is no process of a cluster, or one of another release: a frame of kind %u",
                         frame->kind);
    if (frame->head_bytes > most || frame->body_bytes > (kind->body ? WIRE_BODY_MAX : 0))
        return error_set(err, -EPROTO, "a frame of kind %u with a head of %u and a body of %llu bytes", frame->kind,
                         frame->head_bytes, (unsigned long long)frame->body_bytes);
    if (kind->each ? frame->head_bytes != (uint64_t)kind->each * frame->count : frame->head_bytes < kind->least)
        return error_set(err, -EPROTO, "a frame of kind %u with %u structs in %u bytes", frame->kind, frame->count,
                         frame->head_bytes);
    return 0;
}

int wire_head_check(const struct frame *frame, const void *head, struct sy_error *err) {
    const struct kind *kind = &kinds[frame->kind]; /* wire_frame_check() knows it */
    if (!kind->fits || kind->fits(frame, head))
        return 0;
    return error_set(err, -EPROTO, "a frame of kind %u whose numbers do not fit it", frame->kind);
}

int wire_refused(const struct frame *frame, const void *head, struct sy_error *err) {
    uint32_t most = sizeof(err->text) - 1;
    return error_set(err, -EACCES, "%.*s", (int)(frame->head_bytes < most ? frame->head_bytes : most),
                     (const char *)head);
}
