/* members.h - members of a cluster without what lies behind their links: a scheduler that seals batches as soon as they
 * are full, frontends whose requests come from a loop, a backend whose executor only looks. The links are the program's
 * own. For tests, and for bench/pulls.c. */
#pragma once

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cluster/peer/health.h"
#include "cluster/peer/link_loop.h"
#include "cluster/peer/lost.h"
#include "cluster/peer/pass.h"
#include "cluster/roles/backend_link.h"
#include "cluster/roles/frontend_link.h"
#include "cluster/roles/transport.h"
#include "core/system/clock.h"
#include "core/util/assert.h"
#include "front/bulk/slab.h"
#include "front/net/listen.h"
#include "front/request/port.h"
#include "specs.h"

/* Of all links; NULL: plain text. */
static struct tls *members_tls;

#define MEMBERS_WAIT_NS (600 * NS_PER_S) /* for what is to come: longer than any machine takes */
#define MEMBERS_BEAT_NS (20 * NS_PER_S)  /* between heartbeats: nobody is taken for dead while a test runs */

/* Takes turns until it is so; in cmocka's tests. */
#define MEMBERS_UNTIL(condition, turn)                                                                                 \
    for (int64_t until_ns_ = clock_now_ns() + MEMBERS_WAIT_NS; !(condition); turn)                                     \
        if (clock_now_ns() > until_ns_)                                                                                \
    fail_msg("in vain: %s", #condition)

#define MEMBERS_MAX   16   /* of a cluster */
#define MEMBERS_AWAY  1024 /* requests of a frontend */
#define MEMBERS_BATCH 256
#define MEMBERS_PLANS 4096 /* times of plans that are kept, by tag */

/* libfabric's provider that members of this process have; NULL: none. Before they are opened. */
static const char *members_fabric;

/* One input of any number of bytes. */
static struct served_model members_model = {
    .name = "m",
    .batch_max = MEMBERS_BATCH,
    SPECS_MODEL,
    .signature = {.input_count = 1,
                  .inputs = SPECS({.name = "x", .type = DATATYPE_UINT8, .dim_count = 2, .dims = {-1, -1}}),
                  .batched = true,
                  .variable_shapes = true},
};

static inline struct hello members_hello(const char *name) {
    struct hello hello = {.version = "test"};
    CHECK_EQ(getrandom(&hello.incarnation, sizeof(hello.incarnation), 0), (ssize_t)sizeof(hello.incarnation));
    snprintf(hello.name, sizeof(hello.name), "%s", name);
    return hello;
}

/* ---- the scheduler ---- */

struct member {
    struct peer peer;
    struct health health;
    struct hello hello;
    bool used, known, takes; /* takes: batches */
    uint64_t waiting[MEMBERS_AWAY * 2];
    uint32_t waiting_first, waiting_count;
};

struct members_scheduler {
    struct link_loop loop;
    struct doorbell bell;
    int port;
    int64_t beat_ns;
    /* A batch has `each` requests of each of so many frontends; with frontends 0, `each` of whoever has some. A test
     * may change both at any time. Where requests are lost on their way, those that are sent again may be fewer. */
    _Atomic uint32_t frontends, each;
    uint32_t depth; /* batches that may be under way */
    uint32_t under_way;
    uint64_t tag;
    struct pass_maker passes;
    struct member members[MEMBERS_MAX];      /* place 0 is nobody's, as number 0 is */
    _Atomic int64_t begun_ns[MEMBERS_PLANS]; /* by tag */
    /* the last frontend that has joined: its key, and then its number; 0: none has */
    _Atomic uint64_t frontend_secret[2];
    _Atomic uint32_t frontend_number;
    _Atomic uint64_t undelivered;
    _Atomic uint64_t arrived;   /* requests */
    _Atomic uint64_t cancelled; /* by their frontend */
    _Atomic uint32_t leaves;    /* accelerators that have told that they leave */
    _Atomic uint32_t cancels;   /* so many that arrive are refused as if their frontend had cancelled them */
};

static inline void members_tell_frontend(struct member *to, const struct member *of) {
    struct hello hello = pass_introduction(&of->hello, to->hello.incarnation);
    hello_send(&to->peer, FRAME_FRONTEND, &hello);
}

static inline int members_met(struct members_scheduler *s, struct member *m, const struct frame *frame,
                              const char *head, struct sy_error *err) {
    struct hello answer = members_hello("scheduler");
    uint32_t model = 0;
    int rc = hello_read(head, frame->head_bytes, &m->hello, err);
    if (rc < 0)
        return rc;
    m->hello.number = (uint32_t)(m - s->members);
    if (m->hello.role == ROLE_FRONTEND && *m->hello.address == ':') {
        char address[HELLO_ADDRESS_MAX];
        snprintf(address, sizeof(address), "127.0.0.1%.100s", m->hello.address);
        snprintf(m->hello.address, sizeof(m->hello.address), "%s", address);
    }
    s->passes.of[m->hello.number].key = (struct siphash_key){{m->hello.secret[0], m->hello.secret[1]}};
    for (uint32_t i = 0; i < 2 && m->hello.role == ROLE_FRONTEND; i++)
        atomic_store_explicit(&s->frontend_secret[i], m->hello.secret[i], memory_order_relaxed); /* before the number */
    if (m->hello.role == ROLE_FRONTEND)
        atomic_store_explicit(&s->frontend_number, m->hello.number, memory_order_release); /* with the test */
    m->known = true;
    peer_welcome(&m->peer);
    answer.role = ROLE_SCHEDULER;
    hello_formats(&answer);
    if ((rc = hello_agree(&answer, &m->hello, &m->peer.format, err)) < 0)
        return rc;
    answer.number = m->hello.number;
    answer.term = 1;
    answer.promises = true;
    health_init(&m->health, s->beat_ns, clock_now_ns());
    hello_send(&m->peer, FRAME_WELCOME, &answer);
    if (m->hello.role == ROLE_FRONTEND)
        memcpy(peer_frame(&m->peer, FRAME_SERVE, 1, sizeof(model) + 2, 0), "\0\0\0\0{}", sizeof(model) + 2);
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        struct member *other = &s->members[i];
        if (other->used && other->known && other != m && other->hello.role != m->hello.role)
            members_tell_frontend(m->hello.role == ROLE_FRONTEND ? other : m,
                                  m->hello.role == ROLE_FRONTEND ? m : other);
    }
    peer_send(&m->peer, FRAME_TOLD, 0, NULL, 0);
    return 0;
}

static inline void members_cancel(struct members_scheduler *s, struct member *m, uint64_t handle) {
    const struct refusal_message refusal = {.handle = handle, .reason = REFUSAL_CANCELLED};
    atomic_fetch_sub_explicit(&s->cancels, 1, memory_order_relaxed); /* set before the requests come */
    peer_send(&m->peer, FRAME_REFUSALS, 1, &refusal, sizeof(refusal));
}

static inline int members_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct member *m = container_of(peer, struct member, peer);
    struct members_scheduler *s = peer->owner;
    const struct freed_message *freed = head;
    enum lost_reason reason;

    if (!m->known)
        return members_met(s, m, frame, head, err);
    if (health_frame(&m->health, peer, frame, head))
        return 0;
    if (frame->kind == FRAME_BYE)
        return error_set(err, -ESHUTDOWN, "it said so");
    for (uint32_t i = 0; i < frame->count && frame->kind == FRAME_REQUESTS; i++) {
        struct request_message request = wire_request_message(&((const struct wire_request *)head)[i]);
        atomic_fetch_add_explicit(&s->arrived, request.kind == REQUEST_ARRIVED, memory_order_relaxed); /* statistics */
        atomic_fetch_add_explicit(&s->cancelled, request.kind == REQUEST_CANCELLED,
                                  memory_order_relaxed); /* likewise */
        if (request.kind == REQUEST_ARRIVED && atomic_load_explicit(&s->cancels, memory_order_relaxed) > 0)
            members_cancel(s, m, request.handle);
        else if (request.kind == REQUEST_ARRIVED && m->waiting_count < MEMBERS_AWAY * 2)
            m->waiting[(m->waiting_first + m->waiting_count++) % (MEMBERS_AWAY * 2)] = request.handle;
    }
    for (uint32_t i = 0; i < frame->count && frame->kind == FRAME_FREED; i++) {
        s->under_way -= freed[i].news == NEWS_ENDED;
        m->takes = freed[i].news == NEWS_LEAVES ? false : m->takes || freed[i].news == NEWS_JOINS;
        atomic_fetch_add_explicit(&s->leaves, freed[i].news == NEWS_LEAVES, memory_order_relaxed); /* statistics */
        if (freed[i].news == NEWS_LEAVES)
            peer_send(peer, FRAME_RESTS, 1, &freed[i].accelerator, sizeof(freed[i].accelerator));
    }
    for (uint32_t i = 0; i < frame->count && frame->kind == FRAME_UNDELIVERED; i++) {
        uint64_t lost = lost_read(&((const struct wire_lost *)head)[i], &reason);
        struct member *of = &s->members[handle_frontend(lost) / HELLO_LANES_MAX % MEMBERS_MAX];
        atomic_fetch_add_explicit(&s->undelivered, 1, memory_order_relaxed); /* statistics */
        if (of->used && of->known)
            lost_tell(&of->peer, FRAME_RESULTS, lost, reason);
    }
    return 0;
}

static inline void members_left(struct peer *peer, const char *reason) {
    struct member *m = container_of(peer, struct member, peer);
    struct members_scheduler *s = peer->owner;
    uint32_t number = m->hello.number;
    (void)reason;
    for (uint32_t i = 0; i < MEMBERS_MAX && m->known && m->hello.role == ROLE_FRONTEND; i++)
        if (s->members[i].used && s->members[i].known && s->members[i].hello.role == ROLE_BACKEND)
            peer_send(&s->members[i].peer, FRAME_FRONTEND_GONE, 1, &number, sizeof(number));
    m->known = m->takes = false;
    m->waiting_count = 0;
    link_loop_drop(&s->loop, peer);
}

static inline void members_accepted(void *owner, int fd, const char *from) {
    static const struct peer_events events = {.frame = members_frame, .closed = members_left};
    struct members_scheduler *s = owner;
    uint32_t i = 1;
    (void)from;
    while (i < MEMBERS_MAX && s->members[i].used)
        i++;
    CHECK(i < MEMBERS_MAX);
    struct member *m = &s->members[i];
    *m = (struct member){.used = true};
    CHECK_EQ(link_loop_add(&s->loop, &m->peer, fd, false, &events, s), 0);
}

/* The numbers of members that have gone are not given out again: frontends of them may still be in use. */
static inline void members_bury(void *owner, struct peer *peer) {
    (void)owner, (void)peer;
}

static inline void members_seal(struct members_scheduler *s, struct member *backend, struct member *const *of,
                                uint32_t count, uint32_t each) {
    uint32_t requests = each * count;
    struct batch_plan *plan = peer_frame(&backend->peer, FRAME_PLANS, 1, wire_plan_bytes(requests, count), 0);
    CHECK(plan);
    *plan = (struct batch_plan){.request_count = requests, .items = requests, .tag = s->tag++};
    for (uint32_t i = 0; i < requests; i++) {
        struct member *m = of[i % count];
        plan->handles[i] = m->waiting[m->waiting_first];
        m->waiting_first = (m->waiting_first + 1) % (MEMBERS_AWAY * 2);
        m->waiting_count--;
    }
    CHECK_EQ(pass_maker_begin(&s->passes, backend->hello.incarnation, plan), count);
    pass_maker_end(&s->passes, wire_plan_passes(plan));
    atomic_store_explicit(&s->begun_ns[plan->tag % MEMBERS_PLANS], clock_now_ns(), memory_order_relaxed);
    s->under_way++;
}

static inline int64_t members_turn(void *owner, int64_t now_ns) {
    struct members_scheduler *s = owner;
    struct member *backend = NULL, *ready[MEMBERS_MAX];
    int64_t until_ns = TIME_NEVER;

    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        struct member *m = &s->members[i];
        if (m->known && !health_look(&m->health, &m->peer, now_ns, &until_ns))
            peer_close(&m->peer), members_left(&m->peer, "silent");
        if (m->known && m->takes)
            backend = m;
    }
    while (backend && s->under_way < s->depth) {
        /* both lone numbers */
        uint32_t count = 0, frontends = atomic_load_explicit(&s->frontends, memory_order_relaxed);
        uint32_t most = frontends ? frontends : 1, each = atomic_load_explicit(&s->each, memory_order_relaxed);
        for (uint32_t i = 0; i < MEMBERS_MAX && count < most; i++)
            if (s->members[i].known && s->members[i].waiting_count >= each)
                ready[count++] = &s->members[i];
        if (count < most)
            break;
        members_seal(s, backend, ready, count, each);
    }
    return until_ns;
}

static inline bool members_pending(void *owner) {
    (void)owner;
    return false;
}

/* The port is open from then on; frontends and backends may come. */
static inline void members_scheduler_open(struct members_scheduler *s, int64_t beat_ns) {
    static const struct link_loop_ops ops = {members_turn, members_pending, members_accepted, members_bury};
    struct sy_error err = {.text = ""};
    int fd;
    memset(s, 0, sizeof(*s));
    s->beat_ns = beat_ns;
    s->depth = 1;
    atomic_store_explicit(&s->each, 1, memory_order_relaxed); /* before the thread starts */
    CHECK_EQ(doorbell_init(&s->bell, true, false), 0);
    CHECK_EQ(listen_open("127.0.0.1", 0, "HTTP", &fd, &s->port, &err), 0);
    CHECK_EQ(link_loop_init(&s->loop, &ops, s, &s->bell, fd, members_tls, &err), 0);
}

static inline void members_scheduler_start(struct members_scheduler *s) {
    struct sy_error err;
    CHECK_EQ(link_loop_start(&s->loop, "scheduler", &err), 0);
}

static inline void members_scheduler_stop(struct members_scheduler *s) {
    link_loop_stop(&s->loop);
    doorbell_destroy(&s->bell);
}

/* ---- what every member has ---- */

struct members_wiring {
    struct wiring wiring;
    uint32_t thread_of_variant, thread_of_served, executor_of;
};

static inline void members_wire(struct members_wiring *m, enum wiring_link link) {
    struct sy_error err;
    memset(m, 0, sizeof(*m));
    m->wiring = (struct wiring){
        .frontends = 1,
        .model_threads = 1,
        .rank_threads = 1,
        .executors = 1,
        .accelerators = 1,
        .link = link,
        .models = 1,
        .batch_max = MEMBERS_BATCH,
        .port_requests = MEMBERS_AWAY,
        .thread_of_variant = &m->thread_of_variant,
        .thread_of_served = &m->thread_of_served,
        .executor_of = &m->executor_of,
    };
    CHECK_EQ(wiring_init(&m->wiring, false, &err), 0);
}

/* ---- a frontend ---- */

struct members_frontend {
    struct members_wiring wired;
    struct frontend_link *link;
    struct port *port;
    struct slab *slab;
    struct members_request {
        struct request request;
        struct tensor_view input;
        uint64_t fill;
        bool away;
        bool back; /* it has come back, and its input is still written */
    } requests[MEMBERS_AWAY];
    uint32_t free[MEMBERS_AWAY], free_count; /* those that are not away */
    uint64_t left_out;                       /* batches that ran without a request, since its input was not there */
    uint64_t submitted, back, failed;        /* failed: as the executor says; the others were refused or lost */
    uint64_t fill;                           /* what the next input begins with */
    _Atomic bool serves;
};

static uint32_t members_without_memory; /* times that a frontend has none yet for the model */

static inline int members_serve(void *context, const char *description, size_t bytes, struct sy_error *err) {
    struct members_frontend *f = context;
    (void)description, (void)bytes;
    if (members_without_memory > 0) {
        members_without_memory--;
        return error_set(err, -ENOMEM, "no memory for the model");
    }
    atomic_store_explicit(&f->serves, true, memory_order_release); /* with members_frontend_open() */
    return 0;
}

static inline void members_gone(void *context, uint32_t model) {
    (void)context, (void)model;
}

static inline void members_told(void *context) {
    (void)context;
}

static inline bool members_look(void *context) {
    (void)context;
    return false;
}

/* Joins, and returns once it knows the model. `change` may change the configuration. */
static inline void members_frontend_open(struct members_frontend *f, int scheduler_port, int64_t beat_ns,
                                         size_t inputs_bytes, void (*change)(struct frontend_link_config *config)) {
    static const struct frontend_link_ops ops = {
        .serve = members_serve, .gone = members_gone, .told = members_told, .look = members_look};
    struct sy_error err = {.text = ""};
    char scheduler[32];
    const char *schedulers[] = {scheduler};
    int listen_fd, port;
    size_t bytes;

    memset(f, 0, sizeof(*f));
    for (f->free_count = 0; f->free_count < MEMBERS_AWAY; f->free_count++)
        f->free[f->free_count] = MEMBERS_AWAY - 1 - f->free_count;
    members_wire(&f->wired, LINK_FRONTEND);
    f->wired.wiring.pinned = members_fabric != NULL;
    f->port = port_create(&f->wired.wiring, 0, 0);
    f->slab = slab_create_visible(inputs_bytes, false, f->wired.wiring.pinned);
    CHECK(f->port && f->slab);
    uintptr_t base = slab_range(f->slab, &bytes);
    port_region(f->port, base, bytes, slab_fd(f->slab));
    f->wired.wiring.regions[1] = f->wired.wiring.regions[0]; /* nobody brings anything in bulk */
    snprintf(scheduler, sizeof(scheduler), "127.0.0.1:%d", scheduler_port);
    CHECK_EQ(listen_open("127.0.0.1", 0, "HTTP", &listen_fd, &port, &err), 0);
    struct frontend_link_config config = {
        .wiring = &f->wired.wiring,
        .schedulers = schedulers,
        .scheduler_count = 1,
        .listen_fd = listen_fd,
        .tls = members_tls,
        .self = members_hello("frontend"),
        .fabric = members_fabric,
        .models = &members_model,
        .models_max = 1,
        .beat_ns = beat_ns,
        .link_wait_ns = TIME_NEVER,
        .ops = &ops,
        .context = f,
    };
    snprintf(config.self.address, sizeof(config.self.address), ":%d", port);
    if (change)
        change(&config);
    CHECK_EQ(frontend_link_start(&f->link, &config, &err), 0);
    while (!atomic_load_explicit(&f->serves, memory_order_acquire)) /* with members_serve() */
        usleep(1000);
}

/* Marks each page of an input, and its end, with a number that is drawn from `fill`; an input that is too short for
 * that is its own length. */
static inline void members_fill(char *data, size_t bytes, uint64_t fill) {
    uint64_t mark = fill * 0x9e3779b97f4a7c15 + bytes;
    if (bytes < 2 * sizeof(mark)) {
        memset(data, (int)bytes, bytes);
        return;
    }
    for (size_t at = 0; at + sizeof(mark) <= bytes; at += 4096)
        memcpy(data + at, &mark, sizeof(mark));
    memcpy(data + bytes - sizeof(mark), &mark, sizeof(mark));
}

/* Whether an input is as members_fill() left it. */
static inline bool members_filled(const char *data, size_t bytes) {
    uint64_t mark;
    if (bytes < 2 * sizeof(mark)) {
        for (size_t i = 0; i < bytes; i++)
            if (data[i] != (char)bytes)
                return false;
        return true;
    }
    memcpy(&mark, data + bytes - sizeof(mark), sizeof(mark)); /* the last page's may lie under it */
    for (size_t at = 0; at + 2 * sizeof(mark) <= bytes; at += 4096)
        if (memcmp(data + at, &mark, sizeof(mark)) != 0)
            return false;
    return true;
}

/* Items of the requests that are submitted, which the scheduler takes for 1. */
static uint32_t members_items = 1;
static int64_t members_slo_ns = 600 * NS_PER_S; /* time that they have */

/* One more request. Its input is filled by f->fill; with `preparing` it is promised, and filled by members_prepared().
 * False: as many as may be are away, or memory is. */
static inline bool members_submit_as(struct members_frontend *f, size_t bytes, bool preparing) {
    void *block = f->free_count > 0 ? slab_take(f->slab, bytes) : NULL;
    if (!block)
        return false;
    struct members_request *r = &f->requests[f->free[--f->free_count]];
    int64_t now_ns = clock_now_ns();
    if (!preparing)
        members_fill(block, bytes, f->fill);
    r->fill = f->fill;
    r->input = (struct tensor_view){
        .data = block, .bytes = bytes, .dim_count = 2, .dims = {members_items, (int64_t)(bytes / members_items)}};
    r->request = (struct request){.items = members_items,
                                  .arrival_ns = now_ns,
                                  .deadline_ns = now_ns + members_slo_ns,
                                  .work = 1,
                                  .inputs = &r->input,
                                  .input_count = 1,
                                  .preparing = preparing,
                                  .ready_ns = preparing ? now_ns + NS_PER_MS : 0};
    r->away = true;
    r->back = false;
    CHECK_EQ(port_submit(f->port, &r->request), 0);
    f->submitted++;
    return true;
}

static inline bool members_submit(struct members_frontend *f, size_t bytes) {
    return members_submit_as(f, bytes, false);
}

/* It has come back, and nobody writes its input. */
static inline void members_over(struct members_frontend *f, struct members_request *r) {
    slab_give(r->input.data);
    r->away = false;
    f->free[f->free_count++] = (uint32_t)(r - f->requests);
    f->back++;
}

/* Ends the preparation of a request: its input is there, or never will be. */
static inline void members_prepared(struct members_frontend *f, struct members_request *r, bool ready) {
    bool back = r->back;
    if (ready)
        members_fill(r->input.data, r->input.bytes, r->fill);
    port_prepared(f->port, &r->request, ready);
    if (back)
        members_over(f, r);
}

/* Ends the preparations of up to `most` requests. */
static inline void members_prepare(struct members_frontend *f, uint32_t most, bool ready) {
    for (struct members_request *r = f->requests; r < f->requests + MEMBERS_AWAY && most > 0; r++) {
        if (!r->away || !r->request.preparing)
            continue;
        members_prepared(f, r, ready);
        most--;
    }
    port_flush(f->port);
}

/* Takes what has come back. */
static inline uint32_t members_take(struct members_frontend *f) {
    struct request *request;
    uint32_t n = 0;
    while ((request = port_next(f->port))) {
        struct members_request *r = container_of(request, struct members_request, request);
        f->failed += request->status == REQUEST_FAILED;
        output_block_put(request->block);
        f->left_out += request->left_out;
        r->back = true;
        if (!request_is_read(request))
            members_over(f, r);
        n++;
    }
    port_flush(f->port);
    return n;
}

/* Sleeps until something may have come back, or for so long. */
static inline void members_wait(struct members_frontend *f, int most_ms) {
    struct pollfd bell = {.fd = port_event_fd(f->port), .events = POLLIN};
    struct doorbell *own = &f->wired.wiring.frontend_bells[0];
    uint64_t rung;
    if (port_arm(f->port, TIME_NEVER))
        poll(&bell, 1, most_ms);
    port_disarm(f->port);
    if (bell.revents & POLLIN && read(own->event_fd, &rung, sizeof(rung)) < 0) /* poll() knows no edges */
        return;
}

/* Takes what comes back until no more than `away` of the requests are away. False: it took too long. */
static inline bool members_back(struct members_frontend *f, uint32_t away) {
    for (int64_t until_ns = clock_now_ns() + MEMBERS_WAIT_NS; f->back + away < f->submitted; members_take(f)) {
        if (clock_now_ns() >= until_ns)
            return false;
        members_wait(f, 10);
    }
    return true;
}

static inline void members_frontend_close(struct members_frontend *f) {
    frontend_link_stop(f->link);
    for (uint32_t i = 0; i < MEMBERS_AWAY; i++)
        if (f->requests[i].away)
            slab_give(f->requests[i].input.data);
    slab_destroy(f->slab);
    port_destroy(f->port);
    wiring_destroy(&f->wired.wiring);
}

/* ---- a backend ---- */

/* Keeps batches from ending, in `look`. */
struct members_hold {
    _Atomic bool wanted;
    _Atomic bool held; /* a batch is kept so */
};

static inline void members_hold_set(struct members_hold *hold, bool wanted) {
    atomic_store_explicit(&hold->wanted, wanted, memory_order_relaxed); /* a lone flag */
}

static inline bool members_held(const struct members_hold *hold) {
    return atomic_load_explicit(&hold->held, memory_order_relaxed); /* a lone flag */
}

/* Called by the executor's thread. */
static inline void members_hold(struct members_hold *hold) {
    while (atomic_load_explicit(&hold->wanted, memory_order_relaxed)) { /* as above */
        atomic_store_explicit(&hold->held, true, memory_order_relaxed);
        usleep(100);
    }
}

struct members_backend {
    struct members_wiring wired;
    struct backend_link *link;
    pthread_t thread;
    _Atomic bool stop;
    uint8_t type_of;
    /* Looks at a batch whose inputs are there; the executor's thread. */
    void (*look)(void *context, const struct wiring *wiring, const struct batch_plan *plan);
    void *context;
    void *(*execute)(void *backend); /* the executor; NULL: members_execute() */
};

/* Whether a request's input is still being prepared. */
static inline bool members_unready(const struct wiring *w, uint64_t handle) {
    return atomic_load_explicit(&wiring_card(w, handle)->unready, memory_order_acquire); /* with landing_over() */
}

/* Answers each request of a batch with a failure, or that it was left out: no outputs travel. Takes the link thread's
 * turn if no other batch waits, as executors of the program do. */
static inline void members_ran(struct wiring *w, const struct batch_plan *plan) {
    for (uint32_t i = 0; i < plan->request_count; i++) {
        struct result_message *result = ring_reserve(&w->results[0]);
        CHECK(result);
        bool unready = members_unready(w, plan->handles[i]);
        *result = (struct result_message){
            .handle = plan->handles[i], .status = unready ? REQUEST_LOST : REQUEST_FAILED, .unready = unready};
        ring_push(&w->results[0]);
    }
    struct freed_message *freed = ring_reserve(&w->freed[0]);
    CHECK(freed);
    *freed = (struct freed_message){.news = NEWS_ENDED, .variant = plan->variant, .ended_ns = clock_now_ns()};
    ring_push(&w->freed[0]);
    bool any = ring_publish(&w->results[0]);
    if (ring_publish(&w->freed[0]) || any)
        doorbell_ring_or_help(wiring_link_bell(w), !ring_pending(&w->plans[0]));
}

static inline void *members_execute(void *context) {
    struct members_backend *b = context;
    struct wiring *w = &b->wired.wiring;
    struct ring *plans = &w->plans[0];
    while (!atomic_load_explicit(&b->stop, memory_order_acquire)) { /* with members_backend_close() */
        const struct batch_plan *plan = ring_peek(plans);
        if (plan) {
            b->look(b->context, w, plan);
            ring_pop_run(plans, batch_plan_slots(plan->request_count));
            members_ran(w, plan);
            ring_release(plans);
            continue;
        }
        doorbell_arm(&w->executor_bells[0]);
        if (ring_pending(plans) || atomic_load_explicit(&b->stop, memory_order_acquire)) /* likewise */
            doorbell_cancel(&w->executor_bells[0]);
        else
            doorbell_sleep(&w->executor_bells[0], TIME_NEVER);
    }
    return NULL;
}

static inline void members_backend_open(struct members_backend *b, int scheduler_port, int64_t beat_ns,
                                        size_t inputs_bytes, void (*change)(struct backend_link_config *config)) {
    static const struct profile *const no_profiles[] = {NULL};
    struct sy_error err = {.text = ""};
    char scheduler[32];
    const char *schedulers[] = {scheduler};

    members_wire(&b->wired, LINK_BACKEND);
    atomic_store_explicit(&members_model.state, MODEL_READY, memory_order_relaxed); /* before there are threads */
    snprintf(scheduler, sizeof(scheduler), "127.0.0.1:%d", scheduler_port);
    struct backend_link_config config = {
        .wiring = &b->wired.wiring,
        .schedulers = schedulers,
        .scheduler_count = 1,
        .self = members_hello("backend"),
        .fabric = members_fabric,
        .tls = members_tls,
        .beat_ns = beat_ns,
        .models = &members_model,
        .model_count = 1,
        .types = {"test"},
        .profiles = {no_profiles},
        .type_count = 1,
        .accelerator_type = &b->type_of,
        .inputs_bytes_max = inputs_bytes,
    };
    if (change)
        change(&config);
    CHECK_EQ(backend_link_start(&b->link, &config, &err), 0);
    CHECK_EQ(pthread_create(&b->thread, NULL, b->execute ? b->execute : members_execute, b), 0);
}

/* Once its link has been stopped. */
static inline void members_executor_end(struct members_backend *b) {
    atomic_store_explicit(&b->stop, true, memory_order_release); /* with members_execute() */
    doorbell_ring(&b->wired.wiring.executor_bells[0]);
    pthread_join(b->thread, NULL);
    backend_link_free(b->link);
    wiring_destroy(&b->wired.wiring);
}

static inline void members_backend_close(struct members_backend *b) {
    backend_link_stop(b->link);
    members_executor_end(b);
}
