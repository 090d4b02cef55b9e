/* frontend_link.c - requests out, results in, and what backends pull. */
#include "cluster/frontend_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/uplink.h"
#include "engine/engine.h"
#include "net/auth.h"
#include "tensor/strings.h"

#define TAKE_MOST     256              /* messages from one ring a turn */
#define SWEEP_NS      (10 * NS_PER_MS) /* while no scheduler takes requests: looks for those that are too late */
#define LOOK_NS       (5 * NS_PER_MS)  /* how often the owner looks at its models */
#define GREET_NS      (5 * NS_PER_S)   /* from being accepted to the introduction */
#define STRANGERS_MAX 64               /* connected, and not introduced */
/* A model that no backend has any more is kept for a while, with its requests: a backend, or another scheduler that
 * knows of one, may be back soon. */
#define FORGET_NS  (2 * NS_PER_S)
#define NO_MODEL   UINT32_MAX
#define NO_OUTPUTS "the backend sent no outputs that the model gives"

/* A request that the port handed over and that has not come back to it. */
struct away {
    struct request_message message; /* as it came; handle 0: there is none */
    uint32_t remote;                /* the scheduler's number of its model, as it was sent */
    uint32_t sent;                  /* uplink.times when it was sent to a scheduler; 0: it waits here */
    uint32_t taker;                 /* the backend that has pulled it, by its place; NO_TAKER */
    uint32_t readers;               /* of its inputs: pieces that are being sent */
    bool over;                      /* its end waits in `last` for them */
    bool cancelled;
    bool refused; /* by the scheduler: a refusal, no result */
    struct wire_outcome last;
    struct output_block *block; /* of `last` */
};
#define NO_TAKER UINT32_MAX

/* A backend that is connected, or who may become one. */
struct backend {
    struct peer peer;
    struct health health;
    struct hello hello;
    bool known; /* it has introduced itself */
    bool local; /* it has come by the Unix socket */
    uint32_t place;
    int64_t since_ns;
    /* the result whose body is under way */
    struct wire_result result;
    struct received_block *block;
};

/* Outputs of one request that came over a link. */
struct received_block {
    struct output_block block;
    size_t *rows; /* [..] behind the data: where rows of strings begin */
    char *text;   /* of a failure */
    _Alignas(CACHE_LINE) char data[];
};

struct frontend_link {
    struct frontend_link_config config;
    struct wiring *wiring;
    struct link_loop loop;
    struct uplink uplink;
    struct away *away;         /* [frontends * port_requests] */
    uint32_t held;             /* of them wait here */
    uint32_t number;           /* ours, by the last scheduler; 0: none yet */
    uint32_t *remote_of_local; /* [models_max] the scheduler's number; NO_MODEL: it serves none such now */
    int64_t *forget_ns; /* [models_max] of one that was served and now is not: until when it is kept; else TIME_NEVER */
    bool *served;       /* [models_max] by the scheduler, as far as it has told */
    bool *told;         /* [models_max] since the uplink came up */
    struct backend **backends; /* by place */
    uint32_t backend_room, backend_count;
    int64_t sweep_ns, look_ns;
    bool result_rung, refusal_rung;
    uint64_t lost, again;
    struct link_report report;
};

/* ---- handles: a port's here, and the cluster's ---- */

static uint64_t handle_out(const struct frontend_link *l, uint64_t handle) {
    return handle + ((uint64_t)l->number * HELLO_LANES_MAX << HANDLE_SLOT_BITS);
}

/* The request of a handle as others know it, if it is away. */
static struct away *away_find(const struct frontend_link *l, uint64_t handle) {
    uint32_t number = handle_frontend(handle), lane = number % HELLO_LANES_MAX, slot = handle_slot(handle);
    if (number / HELLO_LANES_MAX != l->number || lane >= l->wiring->frontends || slot >= l->wiring->port_requests)
        return NULL;
    struct away *a = &l->away[(size_t)lane * l->wiring->port_requests + slot];
    return a->message.handle && handle_out(l, a->message.handle) == handle ? a : NULL;
}

static uint32_t away_lane(const struct away *a) {
    return handle_frontend(a->message.handle);
}

/* ---- back to the port ---- */

static void give_result(struct frontend_link *l, const struct away *a) {
    struct ring *ring = &l->wiring->results[away_lane(a)];
    struct result_message *message = ring_reserve(ring);
    CHECK(message); /* a port has at most as many requests outstanding as the ring has slots */
    *message = (struct result_message){
        .handle = a->message.handle,
        .run_start_ns = a->last.run_start_ns,
        .run_end_ns = a->last.run_end_ns,
        .block = a->block,
        .batch_items = a->last.batch_items,
        .status = a->last.status,
        .refusal = a->last.refusal,
        .suspect = a->last.suspect,
        .broke = a->last.broke,
        .absent = a->last.absent,
    };
    ring_push(ring);
    l->result_rung = true;
}

static void give_refusal(struct frontend_link *l, struct away *a, uint32_t reason) {
    struct ring *ring = &l->wiring->refusals[away_lane(a)];
    struct refusal_message *message = ring_reserve(ring);
    CHECK(message); /* likewise */
    *message =
        (struct refusal_message){.handle = a->message.handle, .served_model = a->message.model, .reason = reason};
    ring_push(ring);
    l->refusal_rung = true;
}

static void give_back(struct frontend_link *l, struct away *a) {
    l->held -= !a->sent;
    if (a->refused)
        give_refusal(l, a, a->last.refusal);
    else
        give_result(l, a);
    a->message.handle = 0;
}

/* A request's end: its port learns of it once nobody reads its inputs any more. */
static void away_over(struct frontend_link *l, struct away *a, const struct wire_outcome *last,
                      struct output_block *block, bool refused) {
    if (a->over) { /* the first end counts */
        output_block_put(block);
        return;
    }
    a->last = *last;
    a->block = block;
    a->refused = refused;
    a->over = true;
    if (a->readers == 0)
        give_back(l, a);
}

static void refuse(struct frontend_link *l, struct away *a, uint32_t reason) {
    away_over(l, a, &(struct wire_outcome){.status = REQUEST_REFUSED, .refusal = (uint8_t)reason}, NULL, true);
}

/* ---- to the scheduler ---- */

/* The scheduler is up, and knows the model. */
static bool can_send(const struct frontend_link *l, const struct away *a) {
    return l->uplink.up && l->remote_of_local[a->message.model] != NO_MODEL;
}

/* One more request in the frame that is being filled. */
static void frame_add(struct frontend_link *l, const struct away *a, uint8_t kind) {
    struct peer *peer = &l->uplink.peer;
    struct request_message *message = peer_frame_more(peer, FRAME_REQUESTS, sizeof(*message), WIRE_MANY);
    if (!message)
        return; /* the connection is about to end, and then it is sent again */
    *message = a->message;
    message->handle = handle_out(l, a->message.handle);
    message->model = a->remote;
    message->port = 0;
    message->kind = kind;
}

static void send_request(struct frontend_link *l, struct away *a) {
    a->remote = l->remote_of_local[a->message.model];
    if (!a->sent)
        l->held--;
    else
        l->again++;
    a->sent = l->uplink.times;
    frame_add(l, a, REQUEST_ARRIVED);
}

static void take_request(struct frontend_link *l, const struct request_message *message) {
    struct away *a =
        &l->away[(size_t)handle_frontend(message->handle) * l->wiring->port_requests + handle_slot(message->handle)];
    if (message->kind == REQUEST_CANCELLED) {
        if (a->message.handle != message->handle || a->over)
            return;
        a->cancelled = true;
        if (a->sent && l->uplink.up)
            frame_add(l, a, REQUEST_CANCELLED);
        else
            refuse(l, a, REFUSAL_CANCELLED);
        return;
    }
    CHECK_EQ(a->message.handle, 0); /* a port submits to a slot again when it has come back */
    *a = (struct away){.message = *message, .taker = NO_TAKER};
    l->held++;
    if (can_send(l, a))
        send_request(l, a);
}

static bool take_requests(struct frontend_link *l) {
    bool more = false;
    for (uint32_t f = 0; f < l->wiring->frontends; f++) {
        struct ring *ring = &l->wiring->requests[f];
        const struct request_message *message;
        uint32_t n = 0;
        for (; n < TAKE_MOST && (message = ring_peek(ring)); ring_pop(ring), n++)
            take_request(l, message);
        if (n)
            ring_release(ring);
        more |= n == TAKE_MOST;
    }
    return more;
}

/* Requests that wait here and cannot be in time any more. */
static void sweep(struct frontend_link *l, int64_t now_ns) {
    uint32_t left = l->held;
    for (size_t i = 0; left > 0 && i < (size_t)l->wiring->frontends * l->wiring->port_requests; i++) {
        struct away *a = &l->away[i];
        if (!a->message.handle || a->sent)
            continue;
        left--;
        if (!a->over && now_ns > a->message.deadline_ns)
            refuse(l, a, REFUSAL_STRANDED);
        else if (!a->over && can_send(l, a))
            send_request(l, a);
    }
}

/* The scheduler is a new one, or does not know any more what we sent: everything that nobody has answered is sent
 * again, but what a backend that lives has taken, which will answer. */
static void send_all_again(struct frontend_link *l) {
    for (size_t i = 0; i < (size_t)l->wiring->frontends * l->wiring->port_requests; i++) {
        struct away *a = &l->away[i];
        bool taken = a->taker != NO_TAKER;
        if (a->message.handle && !a->over && !taken && a->sent != l->uplink.times && can_send(l, a))
            send_request(l, a);
    }
}

/* ---- from the scheduler ---- */

static int model_serve(struct frontend_link *l, const struct frame *frame, const char *head, struct sy_error *err) {
    uint32_t remote;
    memcpy(&remote, head, sizeof(remote));
    int local = l->config.ops->serve(l->config.context, head + sizeof(remote), frame->head_bytes - sizeof(remote), err);
    if (local < 0) {
        log_error("model not served here", "reason=\"%s\"", err->text);
        return 0;
    }
    l->remote_of_local[local] = remote;
    l->forget_ns[local] = TIME_NEVER;
    l->told[local] = l->served[local] = true;
    if (l->held > 0)
        sweep(l, clock_now_ns());
    return 0;
}

/* The scheduler does not serve it now. */
static void model_miss(struct frontend_link *l, uint32_t local) {
    l->remote_of_local[local] = NO_MODEL;
    l->served[local] = false;
    l->forget_ns[local] = clock_now_ns() + FORGET_NS;
}

static void models_forget(struct frontend_link *l, int64_t now_ns) {
    for (uint32_t local = 0; local < l->config.models_max && l->uplink.up; local++)
        if (now_ns > l->forget_ns[local]) {
            l->forget_ns[local] = TIME_NEVER;
            l->config.ops->gone(l->config.context, local);
        }
}

/* No request with this number is sent any more: the scheduler has told of another for its model before, or the model
 * is gone. */
static void model_gone(struct frontend_link *l, uint32_t remote) {
    for (uint32_t local = 0; local < l->config.models_max; local++)
        if (l->remote_of_local[local] == remote)
            model_miss(l, local);
    peer_send(&l->uplink.peer, FRAME_MODEL_LEFT, 1, &remote, sizeof(remote));
}

/* The scheduler has told of all models that it serves. */
static void all_told(struct frontend_link *l) {
    for (uint32_t local = 0; local < l->config.models_max; local++)
        if (l->served[local] && !l->told[local])
            model_miss(l, local);
    send_all_again(l);
}

static int from_scheduler(void *context, const struct frame *frame, const void *head, struct sy_error *err) {
    struct frontend_link *l = context;
    const struct refusal_message *refusals = head;
    const struct wire_outcome *results = head;
    struct away *a;

    switch (frame->kind) {
    case FRAME_SERVE:
        return model_serve(l, frame, head, err);
    case FRAME_MODEL_GONE:
        for (uint32_t i = 0; i < frame->count; i++)
            model_gone(l, ((const uint32_t *)head)[i]);
        return 0;
    case FRAME_TOLD:
        all_told(l);
        return 0;
    case FRAME_REFUSALS:
        for (uint32_t i = 0; i < frame->count; i++)
            if (refusals[i].reason < REFUSAL_COUNT && (a = away_find(l, refusals[i].handle)))
                refuse(l, a, refusals[i].reason);
        return 0;
    case FRAME_RESULTS:
        for (uint32_t i = 0; i < frame->count; i++)
            if ((a = away_find(l, results[i].handle))) {
                struct wire_outcome result = results[i];
                result.status = REQUEST_LOST; /* nothing else comes without outputs */
                l->lost++;
                away_over(l, a, &result, NULL, false);
            }
        return 0;
    default:
        return error_set(err, -EPROTO, "a scheduler does not send frames of kind %u to a frontend", frame->kind);
    }
}

/* What backends have by our old number, nobody can tell us of any more. */
static void renumbered(struct frontend_link *l) {
    for (size_t i = 0; i < (size_t)l->wiring->frontends * l->wiring->port_requests; i++) {
        struct away *a = &l->away[i];
        if (!a->message.handle || a->over || a->taker == NO_TAKER)
            continue;
        a->taker = NO_TAKER;
        l->held += a->sent > 0;
        a->sent = 0;
    }
}

static void uplink_up(void *context, const struct hello *welcome) {
    struct frontend_link *l = context;
    if (l->number != welcome->number && l->number)
        renumbered(l);
    l->number = welcome->number;
    memset(l->told, 0, l->config.models_max);
    memset(l->remote_of_local, 0xff,
           l->config.models_max * sizeof(*l->remote_of_local)); /* it has numbers of its own */
}

static void uplink_down(void *context) {
    struct frontend_link *l = context;
    for (size_t i = 0; i < (size_t)l->wiring->frontends * l->wiring->port_requests; i++) {
        struct away *a = &l->away[i];
        if (!a->message.handle || !a->sent || a->over)
            continue;
        if (a->cancelled && a->taker == NO_TAKER) { /* nobody would tell */
            refuse(l, a, REFUSAL_CANCELLED);
        } else if (a->taker == NO_TAKER) {
            a->sent = 0;
            l->held++;
        }
    }
}

static const struct uplink_ops uplink_ops = {uplink_up, from_scheduler, uplink_down};

/* ---- backends pull ---- */

/* A piece of a request's inputs was sent, or never will be. */
static void piece_sent(void *context, uint64_t tag) {
    struct frontend_link *l = context;
    struct away *a = &l->away[tag];
    if (--a->readers == 0 && a->over)
        give_back(l, a);
}

static void send_card(struct frontend_link *l, struct backend *b, struct away *a) {
    const struct wiring *w = l->wiring;
    const struct request_card *card = &w->cards[away_lane(a)][handle_slot(a->message.handle)];
    uint64_t bytes = 0;

    CHECK_EQ(card->handle, a->message.handle); /* it stays until its end has come back */
    for (uint32_t i = 0; i < card->input_count; i++)
        bytes += card->inputs[i].bytes;
    size_t head_bytes = sizeof(struct wire_card) + card->input_count * sizeof(struct card_input);
    struct wire_card *out = peer_frame(&b->peer, FRAME_CARD, 1, head_bytes, bytes);
    if (!out)
        return;
    *out = (struct wire_card){.handle = handle_out(l, card->handle),
                              .deadline_ns = card->deadline_ns,
                              .items = card->items,
                              .work = card->work,
                              .input_count = card->input_count,
                              .delay = card->delay,
                              .alone = card->alone};
    struct card_input *inputs = (struct card_input *)(out + 1);
    uint64_t at = 0;
    for (uint32_t i = 0; i < card->input_count; i++) {
        inputs[i] = card->inputs[i];
        inputs[i].offset = at;
        at += inputs[i].bytes;
    }
    a->taker = b->place;
    for (uint32_t i = 0; i < card->input_count; i++) {
        if (card->inputs[i].bytes == 0)
            continue;
        a->readers++;
        peer_body(&b->peer, region_at(w->regions, &card->inputs[i]), card->inputs[i].bytes, piece_sent, l,
                  (uint64_t)(a - l->away));
    }
}

static void pull(struct frontend_link *l, struct backend *b, const uint64_t *handles, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct away *a = away_find(l, handles[i]);
        if (a && !a->over)
            send_card(l, b, a);
        else
            peer_send(&b->peer, FRAME_NO_CARD, 1, &handles[i], sizeof(handles[i]));
    }
}

/* A backend of this host has read requests where they lie. */
static void taken(struct frontend_link *l, const struct backend *b, const uint64_t *handles, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct away *a = away_find(l, handles[i]);
        if (a && !a->over)
            a->taker = b->place;
    }
}

/* ---- results ---- */

static void received_release(struct output_block *block) {
    struct received_block *r = container_of(block, struct received_block, block);
    free(r->rows);
    free(r);
}

/* Room for what a result brings. NULL without memory. */
static struct received_block *received_new(const struct frame *frame, const struct wire_result *result) {
    const struct wire_tensor *tensors = (const struct wire_tensor *)(result + 1);
    size_t bytes = (size_t)frame->body_bytes + (size_t)(result->tensor_count + 1) * CACHE_LINE;
    struct received_block *r =
        aligned_alloc(CACHE_LINE, (sizeof(*r) + bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!r)
        return NULL;
    memset(r, 0, sizeof(*r) + (result->tensor_count ? 0 : bytes));
    atomic_init(&r->block.references, 1);
    r->block.release = received_release;
    r->block.output_count = result->tensor_count;
    if (!result->tensor_count)
        r->block.failure = r->data;
    char *at = r->data;
    for (uint32_t i = 0; i < result->tensor_count; i++) {
        struct tensor_view *out = &r->block.outputs[i];
        *out = (struct tensor_view){.data = at, .bytes = tensors[i].bytes, .rank = tensors[i].rank};
        memcpy(out->dims, tensors[i].dims, sizeof(out->dims));
        at += (tensors[i].bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    }
    return r;
}

/* Whether outputs are what the model gives: who writes answers does not look. */
static bool outputs_fit(const struct frontend_link *l, const struct away *a, const struct output_block *block) {
    const struct signature *signature = &l->config.models[a->message.model].signature;
    if (block->output_count != signature->output_count)
        return false;
    for (uint32_t i = 0; i < block->output_count; i++) {
        const struct tensor_view *out = &block->outputs[i];
        int64_t elements = dims_product(out->dims, 0, out->rank);
        size_t each = datatype_bytes(signature->outputs[i].type);
        if (signature->batched && (out->rank == 0 || out->dims[0] != a->message.items))
            return false;
        if (elements < 0 ||
            (each ? out->bytes != (uint64_t)elements * each : strings_check(out->data, out->bytes, elements, NULL) < 0))
            return false;
    }
    return true;
}

static void result_over(struct frontend_link *l, struct backend *b) {
    struct away *a = away_find(l, b->result.outcome.handle);
    struct wire_outcome result = b->result.outcome;
    struct output_block *block = b->block ? &b->block->block : NULL;

    b->block = NULL;
    if (!a) {
        output_block_put(block);
        return;
    }
    if (result.status == REQUEST_OK || result.status == REQUEST_FAILED) { /* it ran */
        result.run_start_ns = health_local(&b->health, result.run_start_ns);
        result.run_end_ns = health_local(&b->health, result.run_end_ns);
    }
    if (result.status == REQUEST_OK && (!block || !outputs_fit(l, a, block))) {
        output_block_put(block);
        block = output_block_failed(NO_OUTPUTS);
        result = (struct wire_outcome){.status = REQUEST_FAILED};
    }
    if (result.status == REQUEST_LOST)
        l->lost++;
    bool wanted_elsewhere = a->sent && l->uplink.up && a->taker == NO_TAKER && !a->over;
    if (wanted_elsewhere) /* it was sent again, and the first run has answered */
        frame_add(l, a, REQUEST_CANCELLED);
    away_over(l, a, &result, block, false);
}

/* ---- backends ---- */

/* To a backend of this host goes the memory that cards and inputs lie in, so that it reads them there. */
static bool regions_send(struct frontend_link *l, struct backend *b) {
    const struct wiring *w = l->wiring;
    struct wire_region regions[PEER_FDS_MAX];
    int fds[PEER_FDS_MAX];
    uint32_t count = 0;

    if (!b->local || w->frontends + wiring_regions(w) > PEER_FDS_MAX)
        return false;
    for (uint32_t f = 0; f < w->frontends; f++) {
        fds[count] = w->card_fds[f];
        regions[count++] =
            (struct wire_region){.bytes = w->port_requests * sizeof(struct request_card), .number = f, .cards = 1};
    }
    for (uint32_t r = 0; r < wiring_regions(w); r++) {
        fds[count] = w->regions[r].fd;
        regions[count++] = (struct wire_region){.bytes = w->regions[r].bytes, .number = r};
    }
    for (uint32_t i = 0; i < count; i++)
        if (fds[i] < 0)
            return false;
    return peer_send_fds(&b->peer, FRAME_REGIONS, count, regions, count * sizeof(*regions), fds, count) == 0;
}

static int backend_hello(struct frontend_link *l, struct backend *b, const struct frame *frame, const char *head,
                         struct sy_error *err) {
    int rc = hello_read(head, frame->head_bytes, &b->hello, err);
    if (rc < 0)
        return rc;
    const char *why = NULL;
    if (b->hello.format != WIRE_FORMAT)
        why = "this frontend speaks another format of messages";
    else if (b->hello.role != ROLE_BACKEND)
        why = "only backends connect here";
    else if (l->config.auth && !auth_allows(l->config.auth, b->hello.token, strlen(b->hello.token)))
        why = "its token does not let it in";
    if (why) {
        log_warn("stranger refused", "from=%s reason=\"%s\"", b->peer.name, why);
        peer_send(&b->peer, FRAME_REFUSED, 1, why, strlen(why));
        peer_flush(&b->peer);
        return error_set(err, -EACCES, "%s", why);
    }
    b->known = true;
    snprintf(b->peer.name, sizeof(b->peer.name), "%s", b->hello.name);
    health_init(&b->health, l->uplink.beat_ns, clock_now_ns());
    struct hello answer = l->uplink.self;
    *answer.token = '\0';
    char *text = hello_write(&answer);
    if (text)
        peer_send(&b->peer, FRAME_WELCOME, 1, text, strlen(text));
    free(text);
    bool local = regions_send(l, b);
    log_info("backend connected", "backend=%s transport=%s", b->peer.name, local ? "shm" : "tcp");
    return 0;
}

static int backend_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct backend *b = container_of(peer, struct backend, peer);
    struct frontend_link *l = peer->owner;

    if (!b->known)
        return frame->kind == FRAME_HELLO ? backend_hello(l, b, frame, head, err)
                                          : error_set(err, -EPROTO, "it did not introduce itself");
    if (health_frame(&b->health, peer, frame, head))
        return 0;
    switch (frame->kind) {
    case FRAME_PULL:
        pull(l, b, head, frame->count);
        return 0;
    case FRAME_TAKEN:
        taken(l, b, head, frame->count);
        return 0;
    case FRAME_RESULT:
        b->result = *(const struct wire_result *)head;
        b->block = frame->body_bytes || b->result.tensor_count ? received_new(frame, head) : NULL;
        if (frame->body_bytes == 0)
            result_over(l, b);
        return 0;
    default:
        return error_set(err, -EPROTO, "a backend does not send frames of kind %u to a frontend", frame->kind);
    }
}

static uint32_t backend_body(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]) {
    struct backend *b = container_of(peer, struct backend, peer);
    uint32_t count = 0;
    if (!b->block)
        return 0;
    if (!b->block->block.output_count) {
        pieces[0] = (struct iovec){b->block->data, (size_t)frame->body_bytes};
        return 1;
    }
    for (uint32_t i = 0; i < b->block->block.output_count; i++)
        pieces[count++] = (struct iovec){b->block->block.outputs[i].data, b->block->block.outputs[i].bytes};
    return count;
}

static void backend_body_over(struct peer *peer) {
    result_over(peer->owner, container_of(peer, struct backend, peer));
}

/* Requests that it has taken and the scheduler of now knows nothing of are sent to that; of the others the scheduler
 * tells. */
static void taken_again(struct frontend_link *l, uint32_t place) {
    for (size_t i = 0; i < (size_t)l->wiring->frontends * l->wiring->port_requests; i++) {
        struct away *a = &l->away[i];
        if (!a->message.handle || a->over || a->taker != place)
            continue;
        a->taker = NO_TAKER;
        if (a->sent == l->uplink.times && l->uplink.up)
            continue;
        if (a->sent) {
            a->sent = 0;
            l->held++;
        }
        if (can_send(l, a))
            send_request(l, a);
    }
}

static void backend_drop(struct frontend_link *l, struct backend *b, const char *reason) {
    log_info(b->known ? "backend disconnected" : "stranger disconnected", "peer=%s reason=\"%s\"", b->peer.name,
             reason);
    output_block_put(b->block ? &b->block->block : NULL);
    b->block = NULL;
    link_loop_drop(&l->loop, &b->peer);
    l->backends[b->place] = NULL;
    l->backend_count--;
    taken_again(l, b->place);
}

static void backend_closed(struct peer *peer, const char *reason) {
    backend_drop(peer->owner, container_of(peer, struct backend, peer), reason);
}

static const struct peer_events backend_events = {backend_frame, backend_body, backend_body_over, backend_closed};

static int place_find(struct frontend_link *l, uint32_t *place) {
    uint32_t strangers = 0, i = 0;
    for (uint32_t k = 0; k < l->backend_room; k++)
        strangers += l->backends[k] && !l->backends[k]->known;
    if (strangers >= STRANGERS_MAX)
        return -EBUSY;
    while (i < l->backend_room && l->backends[i])
        i++;
    if (i == l->backend_room) {
        uint32_t room = l->backend_room ? 2 * l->backend_room : 16;
        struct backend **grown = realloc(l->backends, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        memset(grown + l->backend_room, 0, (room - l->backend_room) * sizeof(*grown));
        l->backends = grown;
        l->backend_room = room;
    }
    *place = i;
    return 0;
}

static void accepted(void *owner, int fd, const char *from) {
    struct frontend_link *l = owner;
    struct backend *b = calloc(1, sizeof(*b));
    uint32_t place;

    if (!b || place_find(l, &place) < 0) {
        close(fd);
        free(b);
        return;
    }
    b->place = place;
    b->local = strcmp(from, "local") == 0;
    b->since_ns = clock_now_ns();
    if (link_loop_add(&l->loop, &b->peer, fd, false, &backend_events, l) < 0) {
        free(b);
        return;
    }
    snprintf(b->peer.name, sizeof(b->peer.name), "%s", from);
    l->backends[place] = b;
    l->backend_count++;
}

static void bury(void *owner, struct peer *peer) {
    struct frontend_link *l = owner;
    if (!uplink_buries(&l->uplink, peer))
        free(container_of(peer, struct backend, peer));
}

static void backends_look(struct frontend_link *l, int64_t now_ns, int64_t *until_ns) {
    for (uint32_t i = 0; i < l->backend_room; i++) {
        struct backend *b = l->backends[i];
        if (!b)
            continue;
        int64_t over_ns = b->since_ns + GREET_NS;
        if (!b->known && now_ns > over_ns)
            backend_drop(l, b, "it did not introduce itself");
        else if (!b->known)
            *until_ns = over_ns < *until_ns ? over_ns : *until_ns;
        else if (!health_look(&b->health, &b->peer, now_ns, until_ns))
            backend_drop(l, b, "it has been silent for three heartbeats");
    }
}

/* ---- turns ---- */

static void report(struct frontend_link *l, int64_t now_ns, int64_t *until_ns) {
    if (!link_report_begin(&l->report, now_ns, until_ns))
        return;
    uplink_report(&l->uplink, &l->report, now_ns);
    for (uint32_t i = 0; i < l->backend_room; i++) {
        const struct backend *b = l->backends[i];
        if (b && b->known && !b->peer.closed)
            link_report_add(&l->report, b->hello.name, ROLE_BACKEND, b->hello.number, &b->peer, &b->health, now_ns);
    }
    link_report_end(&l->report, &(struct link_totals){.role = ROLE_FRONTEND,
                                                      .ready = l->uplink.up,
                                                      .term = l->uplink.self.term,
                                                      .lost = l->lost,
                                                      .again = l->again});
}

static void publish(struct frontend_link *l) {
    struct wiring *w = l->wiring;
    for (uint32_t f = 0; f < w->frontends && (l->result_rung || l->refusal_rung); f++) {
        bool any = ring_publish(&w->results[f]);
        any |= ring_publish(&w->refusals[f]);
        if (any)
            doorbell_ring(&w->frontend_bells[f]);
    }
    l->result_rung = l->refusal_rung = false;
}

static int64_t turn(void *owner, int64_t now_ns) {
    struct frontend_link *l = owner;
    int64_t until_ns = TIME_NEVER;

    uplink_look(&l->uplink, now_ns, &until_ns);
    backends_look(l, now_ns, &until_ns);
    bool more = take_requests(l);
    if (l->held > 0) {
        if (now_ns >= l->sweep_ns) {
            sweep(l, now_ns);
            l->sweep_ns = now_ns + SWEEP_NS;
        }
        until_ns = l->sweep_ns < until_ns ? l->sweep_ns : until_ns;
    }
    if (now_ns >= l->look_ns) {
        models_forget(l, now_ns);
        l->config.ops->look(l->config.context);
        l->look_ns = now_ns + LOOK_NS;
    }
    until_ns = l->look_ns < until_ns ? l->look_ns : until_ns;
    report(l, now_ns, &until_ns);
    publish(l);
    return more ? 0 : until_ns;
}

static bool pending(void *owner) {
    struct frontend_link *l = owner;
    if (uplink_pending(&l->uplink))
        return true;
    for (uint32_t f = 0; f < l->wiring->frontends; f++)
        if (ring_pending(&l->wiring->requests[f]))
            return true;
    return false;
}

static const struct link_loop_ops loop_ops = {turn, pending, accepted, bury};

/* ---- start and end ---- */

static void link_free(struct frontend_link *l) {
    uplink_destroy(&l->uplink);
    for (size_t i = 0; l->away && i < (size_t)l->wiring->frontends * l->wiring->port_requests; i++)
        if (l->away[i].message.handle && l->away[i].over)
            output_block_put(l->away[i].block);
    free(l->backends);
    free(l->forget_ns);
    free(l->served);
    free(l->told);
    free(l->remote_of_local);
    free(l->away);
    link_report_free(&l->report);
    free(l);
}

int frontend_link_start(struct frontend_link **link, const struct frontend_link_config *config, struct sy_error *err) {
    struct frontend_link *l = calloc(1, sizeof(*l));
    struct wiring *w = config->wiring;
    int rc = -ENOMEM;

    if (!l)
        return error_set(err, rc, "no memory for the link to the cluster");
    l->config = *config;
    l->wiring = w;
    link_report_init(&l->report);
    l->away = calloc((size_t)w->frontends * w->port_requests, sizeof(*l->away)); /* touched as slots are used */
    l->remote_of_local = malloc(config->models_max * sizeof(*l->remote_of_local));
    l->forget_ns = malloc(config->models_max * sizeof(*l->forget_ns));
    l->served = calloc(config->models_max, sizeof(*l->served));
    l->told = calloc(config->models_max, sizeof(*l->told));
    if (!l->away || !l->remote_of_local || !l->told || !l->served || !l->forget_ns) {
        error_set(err, rc, "no memory for the link to the cluster");
        goto err_free;
    }
    for (uint32_t i = 0; i < config->models_max; i++)
        l->forget_ns[i] = TIME_NEVER;
    memset(l->remote_of_local, 0xff, config->models_max * sizeof(*l->remote_of_local));
    l->config.self.format = WIRE_FORMAT;
    l->config.self.role = ROLE_FRONTEND;
    l->config.self.lanes = w->frontends;
    l->config.self.slots = w->port_requests;
    if ((rc = uplink_init(&l->uplink, &l->loop, config->schedulers, config->scheduler_count, &l->config.self,
                          config->beat_ns, &uplink_ops, l, err)) < 0 ||
        (rc = link_loop_init(&l->loop, &loop_ops, l, wiring_link_bell(w), config->listen_fd, err)) < 0)
        goto err_free;
    char name[HELLO_LOCAL_MAX];
    hello_local_name(config->self.incarnation, name);
    if (link_loop_listen_local(&l->loop, name) < 0)
        log_warn("backends of this host have to come by TCP", "reason=\"no Unix socket\"");
    if ((rc = (config->registry ? uplink_registry(&l->uplink, config->registry, err) : 0)) < 0 ||
        (rc = link_loop_start(&l->loop, "link", err)) < 0)
        goto err_free;
    *link = l;
    return 0;

err_free:
    link_loop_stop(&l->loop);
    link_free(l);
    return rc;
}

void frontend_link_stop(struct frontend_link *l) {
    if (!l)
        return;
    uplink_leave(&l->uplink);
    link_loop_stop(&l->loop);
    link_free(l);
}

struct link_report *frontend_link_report(struct frontend_link *l) {
    return &l->report;
}
