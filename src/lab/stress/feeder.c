/* feeder.c - the feeder's thread: joins the scheduler, takes turns, and notes mistakes. */
#include "lab/stress/feeder.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/system/clock.h"
#include "core/util/counter.h"
#include "lab/stress/feeder_state.h"

#define BEAT_NS     (500 * NS_PER_MS) /* time between heartbeats */
#define LOOK_NS     (5 * NS_PER_MS)   /* time between looks at the members' health */
#define JOINS_MOST  32                /* most members that have connected and are not let in yet */
#define FEED_NS_MIN (10 * NS_PER_US)  /* least time between hand-overs, since a sleep costs some microseconds */
#define FEED_NS_MAX NS_PER_MS

static bool is_over(const struct feeder *f) {
    return atomic_load_explicit(&f->over, memory_order_acquire); /* with feeder_end() */
}

void feeder_wrong(struct feeder *f, const char *format, ...) {
    if (f->wrong[0] || is_over(f))
        return; /* the first one explains the others */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f->wrong, sizeof(f->wrong), format, arguments);
    va_end(arguments);
    atomic_store_explicit(&f->failed, true, memory_order_release); /* with feeder_failure() */
}

/* ---- members ---- */

static struct feeder_member *member_at(struct feeder *f, uint32_t n) {
    return n < f->frontend_count ? &f->frontends[n] : &f->backends[n - f->frontend_count];
}

static uint32_t member_count(const struct feeder *f) {
    return f->frontend_count + f->backend_count;
}

void feeder_member_joined(struct feeder_member *m) {
    struct feeder *f = m->feeder;
    if (m->joined)
        return;
    m->joined = true;
    if (++f->joined_count == member_count(f))
        atomic_store_explicit(&f->joined, true, memory_order_release); /* with feeder_joined() */
}

static void introduce(struct feeder_member *m) {
    const struct links_config *c = m->feeder->world->config;
    struct hello hello = {.role = m->role, .lanes = 0};
    hello_formats(&hello);
    if (getrandom(&hello.incarnation, sizeof(hello.incarnation), 0) != sizeof(hello.incarnation))
        hello.incarnation = (uint64_t)clock_now_ns() + m->index;
    snprintf(hello.version, sizeof(hello.version), "%s", SYMPHONY_VERSION);
    snprintf(hello.name, sizeof(hello.name), "%s-%u", cluster_role_name(m->role), m->index);
    if (m->role == ROLE_FRONTEND) {
        hello.lanes = 1;
        hello.slots = m->slots.count;
        strcpy(hello.address, "127.0.0.1:1"); /* no backend of ours connects to it */
    } else {
        hello.accelerators = c->accelerators;
    }
    hello_send(&m->peer, FRAME_HELLO, &hello);
}

static int member_welcome(struct feeder_member *m, const struct frame *frame, const char *head, struct sy_error *err) {
    struct feeder *f = m->feeder;
    struct hello ours = {.role = m->role}, welcome;
    if (frame->kind == FRAME_REFUSED)
        return wire_refused(frame, head, err);
    if (frame->kind != FRAME_WELCOME)
        return error_set(err, -EPROTO, "a frame of kind %u before a welcome", frame->kind);
    hello_formats(&ours);
    int rc = hello_read(head, frame->head_bytes, &welcome, err);
    if (rc < 0 || (rc = hello_agree(&ours, &welcome, &m->peer.format, err)) < 0)
        return rc;
    m->number = welcome.number;
    f->welcomed++;
    health_init(&m->health, BEAT_NS, clock_now_ns());
    if (m->role == ROLE_FRONTEND) {
        f->world->feeder_of[m->number] = (uint8_t)f->index;
        atomic_store_explicit(&f->world->slots[m->number], &m->slots, memory_order_release); /* with slots_of() */
    }
    return 0;
}

static int on_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct feeder_member *m = container_of(peer, struct feeder_member, peer);
    if (!m->number)
        return member_welcome(m, frame, head, err);
    if (health_frame(&m->health, peer, frame, head)) {
        if (m->role == ROLE_BACKEND && !m->joined && clock_sync_known(&m->health.clock))
            feeder_backend_introduce(m);
        return 0;
    }
    return m->role == ROLE_FRONTEND ? feeder_frontend_frame(m, frame, head, err)
                                    : feeder_backend_frame(m, frame, head, err);
}

static void on_closed(struct peer *peer, const char *reason) {
    struct feeder_member *m = container_of(peer, struct feeder_member, peer);
    feeder_wrong(m->feeder, "%s %u lost the scheduler: %s", cluster_role_name(m->role), m->index, reason);
    link_loop_drop(&m->feeder->loop, peer);
}

static const struct peer_events events = {.frame = on_frame, .closed = on_closed};

/* Begins the connections of a few members that have none yet. */
static void members_connect(struct feeder *f) {
    for (; f->begun < member_count(f) && f->begun - f->welcomed < JOINS_MOST; f->begun++) {
        struct feeder_member *m = member_at(f, f->begun);
        int fd = link_connect((const struct sockaddr *)&f->world->scheduler, sizeof(f->world->scheduler));
        int rc = fd < 0 ? fd : link_loop_add(&f->loop, &m->peer, fd, true, &events, f);
        if (rc < 0) {
            feeder_wrong(f, "%s %u cannot connect: %s", cluster_role_name(m->role), m->index, strerror(-rc));
            return;
        }
        snprintf(m->peer.name, sizeof(m->peer.name), "scheduler of %s %u", cluster_role_name(m->role), m->index);
        m->connected = true;
        introduce(m);
    }
}

static void members_look(struct feeder *f, int64_t now_ns) {
    int64_t until_ns = TIME_NEVER; /* the next look comes soon enough */
    for (uint32_t n = 0; n < f->begun; n++) {
        struct feeder_member *m = member_at(f, n);
        if (m->number && !m->peer.closed && !health_look(&m->health, &m->peer, now_ns, &until_ns))
            feeder_wrong(f, "the scheduler was silent to %s %u for three heartbeats", cluster_role_name(m->role),
                         m->index);
    }
}

/* ---- turns ---- */

static void done_publish(struct feeder *f) {
    for (uint32_t to = 0; to < f->world->config->feeders; to++) {
        if (!f->done_rung[to])
            continue;
        f->done_rung[to] = false;
        ring_publish(&f->world->done[to * f->world->config->feeders + f->index]);
        doorbell_ring(&f->world->feeders[to]->bell);
    }
}

static int64_t turn(void *owner, int64_t now_ns) {
    struct feeder *f = owner;
    bool more = false;

    if (is_over(f) || f->wrong[0])
        return TIME_NEVER;
    if (now_ns >= f->look_ns) {
        members_connect(f);
        members_look(f, now_ns);
        f->look_ns = now_ns + LOOK_NS;
    }
    feeder_take_done(f);
    more |= feeder_end_batches(f, now_ns);
    feeder_feed_due(f, now_ns);
    done_publish(f);
    int64_t until_ns = f->look_ns;
    if (f->fed_before && !atomic_load_explicit(&f->fed_all, memory_order_relaxed)) /* its own flag */
        until_ns = f->feed_ns < until_ns ? f->feed_ns : until_ns;
    if (!heap_empty(&f->ends) && heap_top(&f->ends).key < until_ns)
        until_ns = heap_top(&f->ends).key;
    return more ? 0 : until_ns;
}

static bool pending(void *owner) {
    struct feeder *f = owner;
    for (uint32_t from = 0; from < f->world->config->feeders; from++)
        if (ring_pending(&f->world->done[f->index * f->world->config->feeders + from]))
            return true;
    return false;
}

static void bury(void *owner, struct peer *peer) {
    (void)owner;
    container_of(peer, struct feeder_member, peer)->connected = false;
}

static const struct link_loop_ops loop_ops = {turn, pending, NULL, bury};

/* ---- life ---- */

/* The feeder's number of `count` things that are dealt out to all feeders in turn. */
static uint32_t part_of(uint32_t count, uint32_t feeders, uint32_t index) {
    return count / feeders + (index < count % feeders);
}

static int members_make(struct feeder *f) {
    const struct links_config *c = f->world->config;
    f->frontend_count = part_of(c->frontends, c->feeders, f->index);
    f->backend_count = part_of(c->backends, c->feeders, f->index);
    f->frontends = calloc(f->frontend_count + 1, sizeof(*f->frontends));
    f->backends = calloc(f->backend_count + 1, sizeof(*f->backends));
    if (!f->frontends || !f->backends)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->frontend_count; i++) {
        struct feeder_member *m = &f->frontends[i];
        *m = (struct feeder_member){.feeder = f, .role = ROLE_FRONTEND, .index = f->index + i * c->feeders};
        if (feeder_frontend_make(m) < 0)
            return -ENOMEM;
    }
    for (uint32_t i = 0; i < f->backend_count; i++)
        f->backends[i] = (struct feeder_member){
            .feeder = f, .role = ROLE_BACKEND, .index = f->index + i * c->feeders, .first = i * c->accelerators};
    return 0;
}

static int feeder_fill(struct feeder *f) {
    const struct links_config *c = f->world->config;
    uint32_t models = f->world->model_count;
    if (members_make(f) < 0)
        return -ENOMEM;
    uint32_t accelerators = f->backend_count * c->accelerators;
    f->accelerators = calloc(accelerators + 1, sizeof(*f->accelerators));
    f->end_entries = calloc(accelerators + 1, sizeof(*f->end_entries));
    f->end_positions = calloc(accelerators + 1, sizeof(*f->end_positions));
    f->done_rung = calloc(c->feeders, sizeof(bool));
    f->counts.model_fed = calloc(models, sizeof(*f->counts.model_fed));
    f->counts.model_bad = calloc(models, sizeof(*f->counts.model_bad));
    if (!f->accelerators || !f->end_entries || !f->end_positions || !f->done_rung || !f->counts.model_fed ||
        !f->counts.model_bad)
        return -ENOMEM;
    heap_init(&f->ends, f->end_entries, f->end_positions, accelerators);
    rng_seed(&f->rng, c->seed * 1000003 + f->index);
    double every_ns = c->rate > 0 ? 1e9 / c->rate * c->feeders * c->feed_batch : 0;
    f->feed_every_ns = every_ns < FEED_NS_MIN ? FEED_NS_MIN : every_ns > FEED_NS_MAX ? FEED_NS_MAX : (int64_t)every_ns;
    if (c->rate <= 0)
        f->outstanding_max = part_of(c->outstanding, c->feeders, f->index);
    return 0;
}

int feeder_make(struct feeder **feeder, struct feeder_world *world, uint32_t index, struct sy_error *err) {
    struct feeder *f = aligned_alloc(CACHE_LINE, (sizeof(*f) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!f)
        return error_set(err, -ENOMEM, "no memory for those that feed");
    memset(f, 0, sizeof(*f));
    f->world = world;
    f->index = index;
    *feeder = f;
    int rc = feeder_fill(f);
    if (rc < 0)
        return error_set(err, rc, "no memory for %u frontends and %u backends", f->frontend_count, f->backend_count);
    if ((rc = doorbell_init(&f->bell, true, false)) < 0)
        return error_set(err, rc, "cannot make an eventfd: %s", strerror(-rc));
    f->looped = true;
    return link_loop_init(&f->loop, &loop_ops, f, &f->bell, -1, NULL, err);
}

int feeder_start(struct feeder *f, struct sy_error *err) {
    return link_loop_start(&f->loop, "feeder", err);
}

void feeder_end(struct feeder *f) {
    if (f)
        atomic_store_explicit(&f->over, true, memory_order_release); /* with is_over(): before the scheduler ends */
}

void feeder_stop(struct feeder *f) {
    if (f && f->looped)
        link_loop_stop(&f->loop);
}

void feeder_free(struct feeder *f) {
    if (!f)
        return;
    feeder_stop(f);
    for (uint32_t i = 0; f->frontends && i < f->frontend_count; i++)
        feeder_frontend_free(&f->frontends[i]);
    if (f->looped)
        doorbell_destroy(&f->bell);
    arrivals_free(&f->arrivals);
    free(f->frontends);
    free(f->backends);
    free(f->accelerators);
    free(f->end_entries);
    free(f->end_positions);
    free(f->done_rung);
    free((void *)f->counts.model_fed);
    free((void *)f->counts.model_bad);
    free(f);
}

/* ---- any thread ---- */

bool feeder_joined(const struct feeder *f) {
    return atomic_load_explicit(&f->joined, memory_order_acquire); /* with feeder_member_joined() */
}

void feeder_feed(struct feeder *f, bool feeds) {
    atomic_store_explicit(&f->feeds, feeds, memory_order_relaxed); /* a flag on its own */
    doorbell_ring(&f->bell);
}

bool feeder_drained(const struct feeder *f) {
    return atomic_load_explicit(&f->fed_all, memory_order_acquire) && /* then `fed` is of all */
           counter_get(&f->counts.fed) == counter_get(&f->counts.back);
}

const struct feeder_counts *feeder_counts(const struct feeder *f) {
    return &f->counts;
}

const struct link_loop *feeder_loop(const struct feeder *f) {
    return &f->loop;
}

const char *feeder_failure(const struct feeder *f) {
    return atomic_load_explicit(&f->failed, memory_order_acquire) ? f->wrong : NULL; /* with feeder_wrong() */
}
