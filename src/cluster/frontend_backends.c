/* frontend_backends.c - the backends that pull from a frontend: cards and inputs to them, results from them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/frontend_link_state.h"
#include "net/auth.h"
#include "tensor/strings.h"

#define GREET_NS      (5 * NS_PER_S) /* from being accepted to the introduction */
#define STRANGERS_MAX 64             /* connected, and not introduced */
#define NO_OUTPUTS    "the backend sent no outputs that the model gives"

/* Outputs of one request that came over a link. */
struct received_block {
    struct output_block block;
    _Alignas(CACHE_LINE) char data[];
};

/* ---- backends pull ---- */

/* A piece of a request's inputs was sent, or never will be. */
static void piece_sent(void *context, uint64_t tag) {
    struct frontend_link *l = context;
    struct away *a = &l->away[tag];
    if (--a->readers == 0 && a->over)
        away_give_back(l, a);
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
    *out = (struct wire_card){.handle = away_handle(l, card->handle),
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
        away_tell(l, a, REQUEST_CANCELLED);
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
    hello_send(&b->peer, FRAME_WELCOME, &answer);
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
    for (size_t i = 0; i < away_count(l); i++) {
        struct away *a = &l->away[i];
        if (!a->message.handle || a->over || a->taker != place)
            continue;
        if (a->sent == l->uplink.times && l->uplink.up) {
            a->taker = NO_TAKER;
            continue;
        }
        away_hold(l, a);
        if (away_can_send(l, a))
            away_send(l, a);
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

void frontend_accepted(void *owner, int fd, const char *from) {
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

void frontend_backends_look(struct frontend_link *l, int64_t now_ns, int64_t *until_ns) {
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
