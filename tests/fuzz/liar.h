/* liar.h - processes of a cluster that say whatever the fuzzer wants, to one that is real and has no thread: the
 * fuzzer's bytes become frames, whose structs are likely ones with some words changed. One thread.
 *
 * The link's loop is not started (the linker wraps link_loop_start()), and takes turns by the harness instead. */
#pragma once

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/peer/hello.h"
#include "cluster/peer/link_loop.h"
#include "cluster/peer/pass.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/assert.h"
#include "model/repository/model_description.h"
#include "specs.h"
#include "unit/model/repository/one_step.h"

#define LIARS        4
#define LIAR_SLOTS   16
#define LIAR_BODY    256 /* most bytes of a body */
#define LIAR_PLANS   8
#define LIAR_HANDLES 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the fuzzer's bytes ---- */

struct bytes {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t bytes_u8(struct bytes *b) {
    if (b->left == 0)
        return 0;
    b->left--;
    return *b->at++;
}

static inline uint64_t bytes_u64(struct bytes *b) {
    uint64_t word = 0;
    for (int i = 0; i < 8; i++)
        word = word << 8 | bytes_u8(b);
    return word;
}

/* ---- what the linker wraps ---- */

static struct link_loop *real_loop;

struct liar;
static struct liar *liar_at(const char *address);
static int liar_meets(struct liar *liar);
static struct liar *liar_met;

int __wrap_link_loop_start(struct link_loop *loop, const char *name, struct sy_error *err);
int __wrap_kill(int pid, int signal_number);
void __wrap_uplink_leave(void *uplink);
uint32_t __wrap_names_find(struct names *names, const char *name, int64_t now_ns,
                           struct name_address found[NAME_ADDRESSES_MAX]);
int __wrap_link_connect(const struct sockaddr *address, socklen_t bytes);
int __wrap_link_connect_local(const char *name);

int __wrap_link_loop_start(struct link_loop *loop, const char *name, struct sy_error *err) {
    (void)name, (void)err;
    real_loop = loop;
    return 0;
}

/* A scheduler may ask a member to end itself. */
int __wrap_kill(int pid, int signal_number) {
    (void)pid, (void)signal_number;
    return 0;
}

/* It would wait for its loop's thread. */
void __wrap_uplink_leave(void *uplink) {
    (void)uplink;
}

/* Wherever the real one connects to, a liar is. */
uint32_t __wrap_names_find(struct names *names, const char *name, int64_t now_ns,
                           struct name_address found[NAME_ADDRESSES_MAX]) {
    (void)names, (void)now_ns;
    found[0] = (struct name_address){.bytes = sizeof(struct sockaddr_in)};
    found[0].at.ss_family = AF_INET;
    liar_met = liar_at(name);
    return 1;
}

int __wrap_link_connect(const struct sockaddr *address, socklen_t bytes) {
    (void)address, (void)bytes;
    return liar_meets(liar_met);
}

int __wrap_link_connect_local(const char *name) {
    (void)name;
    return -ECONNREFUSED;
}

/* ---- liars ---- */

struct liar {
    struct peer peer;
    bool open, welcome;
    enum cluster_role role;
    uint32_t number; /* that it was given */
    uint64_t incarnation;
    uint32_t plan_count; /* that it was sent and has not ended */
    struct batch_plan plans[LIAR_PLANS];
    uint32_t move_count; /* the same of loads and unloads, of which it keeps some */
    struct wire_move moves[LIAR_PLANS];
};

static struct liar liars[LIARS];
static int liar_epoll_fd;
static char *liar_description, *liar_ensemble, *liar_prepared;
static size_t liar_description_bytes, liar_ensemble_bytes, liar_prepared_bytes;
static char liar_addresses[3][HELLO_ADDRESS_MAX] = {"127.0.0.1:1", ":1", ""};

static inline void liar_ensemble_set_up(const struct served_model *model) {
    static struct served_model whole;
    memcpy(&whole, model, sizeof(whole));
    strcpy(whole.name, "e");
    whole.ensemble = one_step(model->name);
    liar_ensemble = model_description_write(&whole, NULL, 0, &liar_ensemble_bytes, NULL);
    CHECK(liar_ensemble);
}

/* A model whose input a file prepares. */
static inline void liar_prepared_set_up(const struct served_model *model, const struct described_profile *profile) {
    static struct served_model prepared;
    struct prepared_file *file = calloc(1, sizeof(*file) + 1);
    CHECK(file);
    file->bytes = 1;
    struct served_preparation preparation = {.file = "p.onnx", .contents = file};
    memcpy(&prepared, model, sizeof(prepared));
    strcpy(prepared.name, "p");
    prepared.prepared = 1;
    prepared.preparations = &preparation;
    liar_prepared = model_description_write(&prepared, profile, 1, &liar_prepared_bytes, NULL);
    CHECK(liar_prepared);
    free(file);
}

/* A model with one input, as backends tell of it. */
static inline void liar_set_up(const struct served_model *like) {
    static struct served_model whole, *model = &whole;
    memcpy(model, like, sizeof(*model));
    specs_set(model, like->signature);
    struct described_profile profile = {.type = "t", .profile = malloc(profile_bytes(8))};
    profile_set_line(profile.profile, 8, 1e5, 1e5);
    liar_description = model_description_write(model, &profile, 1, &liar_description_bytes, NULL);
    CHECK(liar_description);
    liar_ensemble_set_up(model);
    liar_prepared_set_up(model, &profile);
    free(profile.profile);
    liar_epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    log_set_level(LOG_ERROR + 1);
}

/* The key of the real frontend, as it tells its scheduler. */
static struct siphash_key liar_key;

static inline int liar_hears(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct liar *l = container_of(peer, struct liar, peer);
    const struct wire_ping *ping = head;
    struct hello hello;
    (void)err;
    if (frame->kind == FRAME_PING && ping->sent_ns != 0) { /* else nothing goes on: a clock has to be known */
        int64_t now_ns = clock_now_ns();
        peer_send(peer, FRAME_PONG, 1, &(struct wire_ping){ping->sent_ns, now_ns, now_ns}, sizeof(*ping));
    } else if (frame->kind == FRAME_WELCOME && hello_read(head, frame->head_bytes, &hello, err) == 0) {
        l->number = hello.number;
        hello_agree(&hello, &hello, &peer->format, NULL);
    } else if (frame->kind == FRAME_HELLO && hello_read(head, frame->head_bytes, &hello, err) == 0) {
        liar_key = (struct siphash_key){{hello.secret[0], hello.secret[1]}};
    } else if (frame->kind == FRAME_PLANS && l->plan_count < LIAR_PLANS) {
        l->plans[l->plan_count++] = *(const struct batch_plan *)head;
    } else if (frame->kind == FRAME_MOVES) {
        for (uint32_t i = 0; i < frame->count && l->move_count < LIAR_PLANS; i++)
            l->moves[l->move_count++] = ((const struct wire_move *)head)[i];
    }
    return 0;
}

static inline void liar_closed(struct peer *peer, const char *reason) {
    (void)peer, (void)reason;
}

static inline void liar_close(struct liar *l) {
    if (!l->open)
        return;
    peer_close(&l->peer);
    peer_free(&l->peer);
    l->open = false;
}

/* Takes a connected socket over. */
static inline void liar_open(struct liar *l, int fd, enum cluster_role role) {
    static const struct peer_events events = {.frame = liar_hears, .closed = liar_closed};
    liar_close(l);
    *l = (struct liar){.open = true, .role = role, .incarnation = 7};
    CHECK_EQ(peer_init(&l->peer, fd, false, liar_epoll_fd, &events, l), 0);
    peer_welcome(&l->peer);
}

/* Who is there: the first is where a member looks for its scheduler, the others are frontends. */
static struct liar *liar_at(const char *address) {
    static uint32_t next;
    return strcmp(address, "scheduler:1") == 0 ? &liars[0] : &liars[1 + next++ % (LIARS - 1)];
}

/* The real one's end of a connection to it. */
static int liar_meets(struct liar *l) {
    int fds[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    liar_open(l, fds[0], l == &liars[0] ? ROLE_SCHEDULER : ROLE_FRONTEND);
    return fds[1];
}

/* A liar connects to the real one. */
static inline void liar_connects(struct liar *l, enum cluster_role role) {
    int fds[2];
    if (!real_loop->ops->accepted)
        return;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    liar_open(l, fds[0], role);
    real_loop->ops->accepted(real_loop->owner, fds[1], "liar");
}

static inline void liar_hello(struct liar *l, enum frame_kind kind, struct bytes *in) {
    struct hello hello = {.role = l->role, .version = "x", .name = "liar"};
    hello_formats(&hello);
    hello.incarnation = l->incarnation = 7 + bytes_u8(in) % 3;
    uint8_t more = bytes_u8(in);
    hello.number = more % 4;
    hello.lanes = 1 + (more >> 2) % 2;
    hello.slots = LIAR_SLOTS;
    hello.accelerators = 2;
    hello.term = (more >> 3) % 3;
    strcpy(hello.address, liar_addresses[(more >> 5) % 3]);
    if (more & 0x80) {
        hello.role = bytes_u8(in) % ROLE_COUNT;
        hello.lanes = bytes_u8(in) % 18;
        hello.slots = (uint32_t)bytes_u8(in) << bytes_u8(in) % 16;
        hello.format_newest = bytes_u8(in) % 4;
    }
    if (hello.role == ROLE_BACKEND && (more & 0xc0) != 0xc0)
        memcpy(hello.secret, pass_of_backend(&liar_key, hello.incarnation).words, sizeof(hello.secret));
    if (kind == FRAME_FRONTEND) { /* it speaks of another */
        hello.role = ROLE_FRONTEND;
        hello.number = 1 + more % 3;
    }
    hello_send(&l->peer, kind, &hello);
}

/* The number of the submission that is in a slot of a real frontend; NULL: there is no real one. */
static uint32_t (*liar_submission)(uint32_t lane, uint32_t slot);

/* A request of a frontend: of this number, in a slot of few, the submission that is there or another. */
static inline uint64_t liar_handle(uint32_t number, struct bytes *in) {
    uint8_t some = bytes_u8(in);
    uint32_t lane = some % 2, slot = (some >> 1) % LIAR_SLOTS;
    uint32_t submission = liar_submission ? liar_submission(lane, slot) : 1;
    return handle_of(number * HELLO_LANES_MAX + lane, slot, (some >> 5) % 2 ? submission_next(submission) : submission);
}

/* The likely contents of a frame of structs. Bytes of each; 0: it has none. */
static inline size_t liar_struct(struct liar *l, uint16_t kind, void *to, struct bytes *in) {
    int64_t now_ns = clock_now_ns();
    uint8_t some = bytes_u8(in);
    uint32_t small = some % 4;
    switch (kind) {
    case FRAME_PING:
    case FRAME_PONG:
        *(struct wire_ping *)to = (struct wire_ping){.sent_ns = some % 2 ? now_ns : 0, .came_ns = now_ns};
        return sizeof(struct wire_ping);
    case FRAME_HEARTBEAT:
        *(struct wire_heartbeat *)to = (struct wire_heartbeat){.term = small, .incarnation = 7, .leads = some % 2};
        return sizeof(struct wire_heartbeat);
    case FRAME_ACCELERATORS:
        strcpy(memset(to, 0, sizeof(struct wire_accelerator)), some % 8 ? "t" : "other");
        return sizeof(struct wire_accelerator);
    case FRAME_REQUESTS:
        *(struct wire_request *)to =
            (struct wire_request){.handle = liar_handle(l->number, in),
                                  .arrival_ns = now_ns,
                                  .deadline_ns = now_ns + (int64_t)some * 10 * NS_PER_MS,
                                  .work = 1,
                                  .model = small % 2,
                                  .items = 1 + small,
                                  .kind = some < 192 ? REQUEST_ARRIVED : some % (REQUEST_READY + 1),
                                  .ready_ns = some % 5 ? 0 : now_ns + (int64_t)some * NS_PER_MS};
        return sizeof(struct wire_request);
    case FRAME_RAN:
        *(struct ran_message *)to =
            (struct ran_message){.items = 1 + small, .accelerator = some % 2, .run_ns = 1000000, .tag = small};
        if (l->plan_count > 0) {
            ((struct ran_message *)to)->variant = l->plans[0].variant;
            ((struct ran_message *)to)->generation = l->plans[0].generation;
            ((struct ran_message *)to)->tag = l->plans[0].tag;
        }
        return sizeof(struct ran_message);
    case FRAME_FREED:
        *(struct freed_message *)to = (struct freed_message){
            .news = l->plan_count ? NEWS_ENDED : small, .accelerator = (some >> 2) % 2, .ended_ns = now_ns};
        if (l->plan_count > 0) {
            const struct batch_plan *plan = (const struct batch_plan *)&l->plans[--l->plan_count];
            ((struct freed_message *)to)->accelerator = plan->accelerator;
            ((struct freed_message *)to)->variant = plan->variant;
        }
        return sizeof(struct freed_message);
    case FRAME_MOVES:
        *(struct wire_move *)to = (struct wire_move){.accelerator = some >> 7,
                                                     .session = 1,
                                                     .model = (some >> 4) % 2,
                                                     .kind = CENTRAL_LOAD + small % 3,
                                                     .ahead = (some >> 5) % 2,
                                                     .latest_ns = TIME_NEVER};
        return sizeof(struct wire_move);
    case FRAME_MOVED: {
        struct wire_moved *moved = to;
        *moved =
            (struct wire_moved){.kind = CENTRAL_LOAD, .done = some % 4 > 0, .failed = some % 4 == 0, .took_ns = some};
        if (l->move_count == 0)
            return sizeof(*moved);
        moved->accelerator = l->moves[0].accelerator;
        moved->model = l->moves[0].model;
        moved->kind = (uint8_t)l->moves[0].kind;
        memmove(l->moves, l->moves + 1, --l->move_count * sizeof(l->moves[0]));
        return sizeof(*moved);
    }
    case FRAME_UNDELIVERED:
    case FRAME_RESULTS:
        *(struct wire_lost *)to = (struct wire_lost){.handle = liar_handle(1 + small % 2, in), .reason = small};
        return sizeof(struct wire_lost);
    case FRAME_REFUSALS:
        *(struct refusal_message *)to = (struct refusal_message){.handle = liar_handle(1, in), .reason = small};
        return sizeof(struct refusal_message);
    case FRAME_MODEL_LEFT:
    case FRAME_MODEL_GONE:
    case FRAME_FRONTEND_GONE:
    case FRAME_RESTS:
        *(uint32_t *)to = small;
        return sizeof(uint32_t);
    case FRAME_PULL:
    case FRAME_TAKEN:
    case FRAME_NO_CARD:
    case FRAME_READY:
        *(uint64_t *)to = liar_handle(1, in);
        return sizeof(uint64_t);
    case FRAME_REGIONS:
        *(struct wire_region *)to = (struct wire_region){.bytes = 4096, .number = small, .cards = some >> 7};
        return sizeof(struct wire_region);
    default:
        return 0;
    }
}

/* The rest: one of a kind. Bytes of the head, and of the body in *body. */
static inline size_t liar_head(const struct liar *l, uint16_t kind, void *to, uint64_t *body, struct bytes *in) {
    uint8_t some = bytes_u8(in);
    uint32_t n = some % 8;
    switch (kind) {
    case FRAME_MODEL:
    case FRAME_SERVE:
        *(uint32_t *)to = n;
        if (some >> 6 == 2) {
            memcpy((char *)to + sizeof(uint32_t), liar_prepared, liar_prepared_bytes);
            return sizeof(uint32_t) + liar_prepared_bytes;
        }
        if (some >> 6 == 1) {
            memcpy((char *)to + sizeof(uint32_t), liar_ensemble, liar_ensemble_bytes);
            return sizeof(uint32_t) + liar_ensemble_bytes;
        }
        memcpy((char *)to + sizeof(uint32_t), liar_description, liar_description_bytes);
        return sizeof(uint32_t) + liar_description_bytes;
    case FRAME_MEMORY: {
        struct wire_memory *memory = to;
        n %= 3;
        *memory = (struct wire_memory){.accelerator = some >> 7,
                                       .session = some,
                                       .pages = 1 + (some >> 3) % 8,
                                       .grain = 1 + (some >> 6) % 2,
                                       .cuts = (some >> 5) % 2,
                                       .count = n};
        for (uint32_t i = 0; i < n; i++)
            ((uint32_t *)(memory + 1))[i] = i;
        return sizeof(*memory) + n * sizeof(uint32_t);
    }
    case FRAME_PLANS: {
        struct batch_plan *plan = to;
        n = 1 + n % LIAR_HANDLES;
        *plan = (struct batch_plan){.accelerator = some >> 7, .request_count = n, .items = n, .tag = some};
        for (uint32_t i = 0; i < n; i++)
            plan->handles[i] = liar_handle(1, in);
        *wire_plan_passes(plan) = (struct wire_plan_pass){.frontend = 1, .requests = n};
        return wire_plan_bytes(n, 1);
    }
    case FRAME_PASS: {
        struct wire_pass *shown = to;
        *shown = (struct wire_pass){.count = n};
        for (uint32_t i = 0; i < n; i++)
            shown->handles[i] = liar_handle(1, in);
        memcpy(shown->pass, pass_of_requests(&liar_key, l->incarnation, shown->handles, n).words, sizeof(shown->pass));
        return sizeof(*shown) + n * sizeof(shown->handles[0]);
    }
    case FRAME_CARD:
    case FRAME_UNREADY: {
        struct wire_card *card = to;
        *card = (struct wire_card){.handle = liar_handle(1, in),
                                   .deadline_ns = clock_now_ns() + NS_PER_S,
                                   .items = 1,
                                   .work = 1,
                                   .input_count = 1};
        *(struct card_input *)(card + 1) = (struct card_input){.bytes = some, .dim_count = 2, .dims = {1, some}};
        *body = kind == FRAME_CARD ? some : 0;
        return sizeof(*card) + sizeof(struct card_input);
    }
    case FRAME_RESULT: {
        struct wire_result *result = to;
        *result = (struct wire_result){
            .outcome = {.handle = liar_handle(1, in), .status = n % (REQUEST_LOST + 1), .unready = some >> 7},
            .tensor_count = n % 2};
        *body = some;
        if (!result->tensor_count)
            return sizeof(*result);
        *(struct wire_tensor *)(result + 1) = (struct wire_tensor){.bytes = some, .dim_count = 2, .dims = {1, some}};
        return sizeof(*result) + sizeof(struct wire_tensor);
    }
    case FRAME_DRAIN:
        memcpy(to, "liar", 4);
        return some % 5;
    default: /* a sentence, or nothing */
        for (uint32_t i = 0; i < n; i++)
            ((uint8_t *)to)[i] = bytes_u8(in);
        return n;
    }
}

/* Some of the head's bytes become others. */
static inline void liar_change(uint8_t *head, size_t bytes, struct bytes *in) {
    for (uint32_t n = bytes_u8(in) % 4; n > 0 && bytes > 0; n--) {
        size_t at = (bytes_u8(in) | (size_t)bytes_u8(in) << 8) % bytes;
        uint64_t word = bytes_u8(in);
        if (word & 1)
            word = bytes_u64(in);
        memcpy(head + at / 8 * 8, &word, bytes - at / 8 * 8 < 8 ? bytes - at / 8 * 8 : 8);
    }
}

/* Says one thing. */
static inline void liar_says(struct liar *l, struct bytes *in) {
    static const uint16_t kinds[] = {
        FRAME_HELLO,   FRAME_WELCOME,      FRAME_REFUSED,  FRAME_PING,          FRAME_PONG,   FRAME_BYE,
        FRAME_MODEL,   FRAME_ACCELERATORS, FRAME_REQUESTS, FRAME_RAN,           FRAME_FREED,  FRAME_UNDELIVERED,
        FRAME_SERVE,   FRAME_MODEL_GONE,   FRAME_REFUSALS, FRAME_RESULTS,       FRAME_TOLD,   FRAME_FRONTEND,
        FRAME_PLANS,   FRAME_MODEL_LEFT,   FRAME_UNREADY,  FRAME_FRONTEND_GONE, FRAME_READY,  FRAME_HEARTBEAT,
        FRAME_RESTS,   FRAME_PULL,         FRAME_TAKEN,    FRAME_RESULT,        FRAME_CARD,   FRAME_NO_CARD,
        FRAME_REGIONS, FRAME_STATUS,       FRAME_DRAIN,    FRAME_PASS,          FRAME_MEMORY, FRAME_MOVES,
        FRAME_MOVED,
    };
    static _Alignas(8) uint8_t head[WIRE_HEAD_MAX];
    static const uint8_t body[LIAR_BODY];
    uint16_t kind = kinds[bytes_u8(in) % ARRAY_COUNT(kinds)];
    uint64_t body_bytes = 0;
    if (l->peer.closed)
        return;
    if (kind == FRAME_HELLO || kind == FRAME_WELCOME || kind == FRAME_FRONTEND) {
        liar_hello(l, kind, in);
        return;
    }
    uint32_t count = 1 + bytes_u8(in) % 8;
    if (bytes_u8(in) == 255)
        count *= 100;
    size_t bytes = liar_struct(l, kind, head, in);
    for (uint32_t i = 1; i < count && bytes > 0; i++)
        liar_struct(l, kind, head + i * bytes, in);
    if (bytes > 0) {
        bytes *= count;
    } else {
        count = 1;
        bytes = liar_head(l, kind, head, &body_bytes, in);
    }
    liar_change(head, bytes, in);
    void *to = peer_frame(&l->peer, kind, count, bytes, body_bytes);
    if (to)
        memcpy(to, head, bytes);
    if (to && body_bytes > 0) {
        uint64_t whole = (body_bytes + 7) & ~(uint64_t)7;
        peer_body(&l->peer, body, whole, NULL, NULL, 0);
    }
}

/* All that is on the way arrives, and the real one takes turns. */
static inline void liars_pump(void (*turns)(void)) {
    for (int i = 0; i < 3; i++) {
        for (struct liar *l = liars; l < liars + LIARS; l++)
            if (l->open && !l->peer.closed)
                peer_flush(&l->peer);
        link_loop_turn(real_loop, false);
        turns();
        link_loop_turn(real_loop, false);
        for (struct liar *l = liars; l < liars + LIARS; l++)
            if (l->open && !l->peer.closed)
                peer_ready(&l->peer, EPOLLIN, 0);
    }
}
