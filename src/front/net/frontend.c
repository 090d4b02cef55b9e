/* frontend.c - a frontend's thread: its turns, start and end.
 *
 * One turn answers what came back, looks after the connections, sleeps, and hands over what was read:
 *
 *     finished(), ordered(), bulk_done() ...     answers
 *     sweep(), go_on()                           what clients wait for beside that
 *     epoll_wait() -> begin(), event() ...       requests are read, checked and submitted, in the order of
 *                                                read_queue.h while the thread is behind
 *     port_flush()                               one hand-over for all of them */
#include "front/net/frontend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/thread.h"
#include "front/request/preparation.h"
#include "front/request/preparer.h"

#define TURN_NS         (200 * NS_PER_US) /* time for events; those that are left wait for the next turn */
#define EVENTS_MAX      64                /* events of one epoll_wait(): some 3 us each fill a turn */
#define ACCEPTS_MAX     64                /* connections accepted in a turn */
#define HANDSHAKES_MAX  4                 /* steps of TLS handshakes a turn: one may take a millisecond */
#define WAKE_MS         1000              /* longest sleep, for the sweep and to return memory */
#define PREPARING_MS    20 /* longest sleep while inputs are prepared, to find preparations that take too long */
#define UNREAD_MS       1  /* longest sleep while connections are left unread, to see whether there is time for them */
#define SWEEP_MS        1000
#define STOP_TURN_MS    10
#define STOP_SENDING_MS 200 /* time for clients to take the last answers */

/* Marks of the frontend's own descriptors in epoll's events; all other events are of streams. */
static char mark_listen, mark_port, mark_wake;

/* ---- a turn ---- */

/* Hands over the requests and cancellations of this turn. */
static void flush(struct frontend *f) {
    if (f->config.port)
        port_flush(f->config.port);
}

static void take_finished(struct frontend *f) {
    struct inference *inference;
    while (f->config.port && (inference = inferences_next(&f->inferences)))
        f->protocol->finished(inference);
}

static void take_orders(struct frontend *f) {
    for (struct repository_order *order = orders_returned(&f->inbox), *next; order; order = next) {
        next = order_next(order);
        f->protocol->ordered(order->context, order->status, order->error.text);
        free(order);
    }
}

static void take_bulk(struct frontend *f) {
    for (struct bulk_job *job = bulk_returned(&f->inbox), *next; job; job = next) {
        next = bulk_job_next(job);
        f->protocol->bulk_done(job);
    }
}

static void take_prepared(struct frontend *f) {
    for (struct preparation *p = preparations_returned(&f->inbox), *next; p; p = next) {
        next = preparation_next(p);
        preparation_returned(p);
    }
}

static void sweep(struct frontend *f) {
    if (f->turn_ns < f->sweep_ns)
        return;
    f->sweep_ns = f->turn_ns + SWEEP_MS * NS_PER_MS;
    int64_t busy_ns = thread_busy_ns(), passed_ns = f->turn_ns - f->busy_at_ns;
    f->idler =
        acceptor_idler(&f->acceptor, f->busy_at_ns > 0 ? (uint32_t)((busy_ns - f->busy_ns) * 100 / passed_ns) : 0);
    f->busy_ns = busy_ns;
    f->busy_at_ns = f->turn_ns;
    unsent_look(&f->unsent);
    f->protocol->sweep(f);
}

/* While more than answers_bytes_max are kept for clients, ends the connection whose client has lately taken the least.
 * A single answer may be larger than that. */
static void bound_unsent(struct frontend *f) {
    struct unsent *least;
    while (f->unsent.bytes > f->config.answers_bytes_max && (least = unsent_least(&f->unsent)))
        f->protocol->dismiss(least->stream);
}

static void begin(struct frontend *f, int fd, const struct peer_address *peer) {
    f->protocol->begin(f, fd, peer);
    if (acceptor_crowded(&f->acceptor) && f->waiting.next != f->waiting.prev) /* another connection waits, too */
        f->protocol->displace(f->waiting.next);
}

/* Connections that other frontends of the port have accepted. */
static void take_given(struct frontend *f) {
    struct peer_address peer;
    for (int fd; (fd = acceptor_given(&f->acceptor, &peer)) >= 0;)
        if (frontend_is_shut(f)) { /* as a connection that came a moment later */
            close(fd);
            acceptor_ended(&f->acceptor, &peer);
        } else {
            begin(f, fd, &peer);
        }
}

/* A turn without its events. What sweep() writes to clients goes out in the same turn. */
static void turn(struct frontend *f) {
    take_given(f);
    take_prepared(f);
    preparations_look(&f->inferences, f->turn_ns);
    take_finished(f);
    take_orders(f);
    take_bulk(f);
    sweep(f);
    f->more = f->protocol->go_on(f);
    if (f->turn_ns >= f->page_due_ns)
        f->page_due_ns = f->config.page_look(f->config.page_context, f->turn_ns);
    bound_unsent(f);
    acceptor_look(&f->acceptor, f->turn_ns);
    flush(f); /* cancellations, and requests that were received behind others */
    f->protocol->reap(f);
}

/* Answers requests that came back; called by a thread that would otherwise wake this one. It frees no connection, since
 * epoll may just have returned events of it to the frontend's thread. */
static int64_t lent_turn(void *context) {
    struct frontend *f = context;
    f->turn_ns = clock_now_ns();
    take_finished(f);
    f->more = f->protocol->go_on(f);
    flush(f);
    inferences_publish(&f->inferences);
    return f->more ? 0 : TIME_NEVER;
}

/* ---- events ---- */

static void accept_some(struct frontend *f, uint32_t most) {
    struct peer_address peer;
    for (uint32_t i = 0; i < most; i++) {
        int fd = acceptor_next(&f->acceptor, &peer, f->turn_ns);
        if (fd < 0)
            return;
        begin(f, fd, &peer);
    }
}

static bool is_stream(const struct epoll_event *event) {
    const void *from = event->data.ptr;
    return from != &mark_listen && from != &mark_port && from != &mark_wake;
}

static void take_event(struct frontend *f, const struct epoll_event *event) {
    if (event->data.ptr == &mark_listen)
        accept_some(f, ACCEPTS_MAX);
    else if (is_stream(event))
        f->protocol->event(event->data.ptr, event->events);
}

/* Handles an event while the thread is behind: a connection that is only to be read waits in the queue; any other event
 * is handled at once. A connection that waits already is not watched until it is read, so that epoll reports it twice
 * at most. */
static void sort_event(struct frontend *f, const struct epoll_event *event) {
    struct stream *s = is_stream(event) ? event->data.ptr : NULL;
    bool to_read = s && s->fd >= 0 && (event->events & ~(uint32_t)(EPOLLIN | EPOLLRDHUP)) == 0;
    if (to_read && s->place.waits) {
        stream_hold(s, true);
    } else if (to_read) {
        read_queue_add(&f->streams.reads, &s->place, event->events, f->turn_ns);
    } else {
        if (s)
            read_queue_remove(&s->place);
        take_event(f, event);
    }
}

/* Reads connections in the queue's order. Returns their number. */
static int read_some(struct frontend *f, int64_t until_ns) {
    struct read_place *place = NULL;
    int count = 0;
    for (int64_t now_ns = f->turn_ns;
         (count == 0 || now_ns < until_ns) && (place = read_queue_next(&f->streams.reads, now_ns, f->quiesced));
         now_ns = clock_now_ns()) {
        struct stream *s = container_of(place, struct stream, place);
        stream_hold(s, false);
        f->protocol->event(s, place->events);
        count++;
    }
    f->unread = place && read_queue_waits(&f->streams.reads);
    return count;
}

/* Wakes who waits until no frontend uses an earlier list of models. */
static void models_ring(struct frontend *f) {
    if (f->config.models_bell)
        doorbell_ring(f->config.models_bell);
}

/* Takes the present list of models; the list of the last turn is no longer in use. */
static void models_look(struct frontend *f) {
    if (!f->config.models)
        return;
    /* acquire: with model_list_publish() */
    const struct model_index *now = atomic_load_explicit(&f->config.models->now, memory_order_acquire);
    if (now == f->models)
        return;
    f->models = f->inferences.models = now;
    int64_t slo_ns = TIME_NEVER;
    for (uint32_t i = 0; i < now->count; i++) {
        int64_t of_model_ns = served_model_slo_ns(&now->models[now->listed[i]]);
        slo_ns = of_model_ns > 0 && of_model_ns < slo_ns ? of_model_ns : slo_ns;
    }
    if (slo_ns < TIME_NEVER)
        read_queue_limit(&f->streams.reads, slo_ns, TURN_NS);
    atomic_store_explicit(&f->models_seen, now, memory_order_release); /* with frontend_models() */
    models_ring(f);
}

/* Waits for events and handles them, at least one. Sockets are watched level-triggered: epoll reports again what is
 * left over. `armed`: while the thread sleeps, the port's bell may ring, and the thread's turns are lent; once the
 * thread is awake nobody needs to ring, since a turn follows. Returns the number of events. */
static int take_events(struct frontend *f, int timeout_ms, bool armed) {
    struct epoll_event events[EVENTS_MAX];
    bool behind = f->streams.reads.behind;
    /* `turn_ns` belongs to another thread while turns are lent; without sleep no turn is lent */
    int64_t began_ns = !behind ? 0 : timeout_ms != 0 ? clock_now_ns() : f->turn_ns;
    int n;
    do /* less than 0 events would be the end for shut() */
        n = epoll_wait(f->epoll_fd, events, EVENTS_MAX, timeout_ms);
    while (n < 0 && errno == EINTR);
    if (armed)
        port_disarm(f->config.port);
    int64_t until_ns = (f->turn_ns = clock_now_ns()) + TURN_NS;
    if (behind)
        read_queue_slept(&f->streams.reads,
                         timeout_ms != 0 || (f->config.busy_poll && n == 0) ? f->turn_ns - began_ns : 0, f->turn_ns);
    f->streams.handshakes = HANDSHAKES_MAX;
    for (int i = 0; i < n; i++)
        if (events[i].data.ptr == &mark_wake)
            inbox_woken(&f->inbox);
    models_look(f); /* after inbox_woken(), which has taken the wake-up for a list published just before */
    if (!behind) {
        for (int i = 0; i < n && (i == 0 || clock_now_ns() < until_ns); i++)
            take_event(f, &events[i]);
    } else {
        for (int told = n;; told = epoll_wait(f->epoll_fd, events, EVENTS_MAX, 0)) {
            for (int i = 0; i < told; i++)
                sort_event(f, &events[i]);
            if (told < EVENTS_MAX)
                break;
        }
        n += read_some(f, until_ns);
    }
    flush(f); /* the requests that were read */
    f->protocol->reap(f);
    return n;
}

/* Sleeps until something happens, unless there is work already. */
static void rest(struct frontend *f) {
    bool idle = acceptor_connections(&f->acceptor) == 0 && slab_bytes_mapped(f->inferences.slab) == 0 &&
                f->inferences.shared.count == 0;
    int timeout_ms = f->config.busy_poll || f->more || f->unread ? 0 : idle ? -1 : WAKE_MS;
    if (timeout_ms != 0 && read_queue_waits(&f->streams.reads))
        timeout_ms = UNREAD_MS;
    if (timeout_ms != 0 && f->inferences.preparing > 0)
        timeout_ms = PREPARING_MS;
    if (timeout_ms != 0 && f->acceptor.paused_until_ns > 0)
        timeout_ms = ACCEPTOR_PAUSE_MS;
    if (timeout_ms != 0 && f->page_due_ns != TIME_NEVER)
        timeout_ms = f->page_due_ns > f->turn_ns ? 1 + (int)((f->page_due_ns - f->turn_ns) / NS_PER_MS) : 0;
    inferences_publish(&f->inferences);
    int64_t until_ns = timeout_ms < 0 ? TIME_NEVER : f->turn_ns + timeout_ms * NS_PER_MS;
    bool armed = timeout_ms != 0 && f->config.port && port_arm(f->config.port, until_ns);
    take_events(f, armed || !f->config.port ? timeout_ms : 0, armed);
}

/* ---- the thread ---- */

static void quiesce(struct frontend *f) {
    acceptor_keep(&f->acceptor); /* the other frontends of the port end, too */
    accept_some(f, UINT32_MAX);  /* all clients that have connected already, within the limits of connections */
    f->quiesced = true;
    acceptor_close(&f->acceptor);
    if (f->protocol->quiesce)
        f->protocol->quiesce(f);
}

/* Reads what all connections have received until now, but not all that may come later: a client that never stops
 * sending does not hold up the end. */
static void shut(struct frontend *f) {
    if (!f->quiesced)
        quiesce(f);
    uint32_t most = 1 + acceptor_connections(&f->acceptor); /* each round reads at least one connection */
    int events;
    do {
        events = take_events(f, 0, false);
        turn(f);
    } while (events > 0 && most-- > 0);
    if (f->protocol->shut)
        f->protocol->shut(f);
    atomic_store_explicit(&f->shut, true, memory_order_release); /* with frontend_is_shut() */
}

/* Takes back all requests that the scheduler has, before their memory is freed, and sends their answers as far as
 * clients take them. */
static void finish_all(struct frontend *f) {
    int64_t until_ns = TIME_NEVER;
    if (!f->quiesced)
        quiesce(f);
    f->ending = true;
    do {
        inferences_cancel(&f->inferences); /* also the requests that arrived meanwhile */
        turn(f);
        if (!inferences_away(&f->inferences)) {
            if (f->protocol->all_said(f))
                break;
            if (until_ns == TIME_NEVER)
                until_ns = f->turn_ns + STOP_SENDING_MS * NS_PER_MS;
        }
        take_events(f, STOP_TURN_MS, false);
    } while (f->turn_ns < until_ns || inferences_away(&f->inferences));
}

/* Whether another thread has asked for this. acquire: with the release in ask(). */
static bool wanted(const _Atomic bool *what) {
    return atomic_load_explicit(what, memory_order_acquire);
}

/* Does what other threads have asked for, then a turn. */
static void turn_as_asked(struct frontend *f) {
    if (!f->quiesced && wanted(&f->quiesce_wanted))
        quiesce(f);
    if (!frontend_is_shut(f) && wanted(&f->shut_wanted))
        shut(f);
    turn(f);
}

static void *frontend_main(void *context) {
    struct frontend *f = context;
    thread_begin(f->config.page ? "metrics" : f->protocol->metrics->name, f->config.index,
                 f->config.page ? THREAD_SHARED : THREAD_PROMPT);
    f->turn_ns = clock_now_ns();
    acceptor_join(&f->acceptor, f->config.index, &f->inbox, &f->inferences.counters.in_flight);
    while (!wanted(&f->stop_wanted)) {
        turn_as_asked(f);
        rest(f);
        inferences_trim(&f->inferences, f->turn_ns);
    }
    finish_all(f);
    atomic_store_explicit(&f->ended, true, memory_order_release); /* with frontend_ended() */
    models_ring(f);
    return NULL;
}

/* ---- for the protocols ---- */

void frontend_to_bulk(struct frontend *f, struct inference *inference, struct bulk_job *job,
                      void (*run)(struct bulk_job *, struct bulk_tools *), size_t bytes,
                      const struct peer_address *peer) {
    *job = (struct bulk_job){
        .home = &f->inbox, .run = run, .bytes = bytes, .client = bulk_client(f->config.bulk, peer->bytes)};
    inference_to_bulk(inference, f->config.bulk, job);
}

int frontend_order(struct frontend *f, struct inference *inference, struct repository_order *order,
                   struct sy_error *err) {
    enum inference_state before = inference->state;
    order->home = &f->inbox;
    inference->state = INFERENCE_ORDERED;
    int status = order_submit(f->config.desk, order, err);
    if (status)
        inference->state = before;
    return status;
}

/* ---- start and end ---- */

static int watch(struct frontend *f, int fd, uint32_t events, void *mark) {
    struct epoll_event event = {.events = events, .data.ptr = mark};
    return epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* Opens the epoll set and its descriptors, except for the listening socket. */
static int descriptors_open(struct frontend *f, struct sy_error *err) {
    int rc = 0;
    f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (f->epoll_fd < 0)
        rc = -errno;
    if (rc < 0 || (rc = inbox_open(&f->inbox)) < 0)
        return error_set(err, rc, "no descriptors for a frontend: %s", strerror(-rc));
    if ((f->config.port && (rc = watch(f, port_event_fd(f->config.port), EPOLLIN | EPOLLET, &mark_port)) < 0) ||
        (rc = watch(f, f->inbox.wake_fd, EPOLLIN, &mark_wake)) < 0)
        return error_set(err, rc, "cannot watch a frontend's descriptors: %s", strerror(-rc));
    return 0;
}

int frontend_make(struct frontend **frontend, const struct protocol *protocol, const struct frontend_config *config,
                  struct sy_error *err) {
    size_t bytes = (protocol->frontend_bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    struct frontend *f = aligned_alloc(CACHE_LINE, bytes);
    if (!f)
        return error_set(err, -ENOMEM, "no memory for a frontend");
    memset(f, 0, bytes);
    f->protocol = protocol;
    f->config = frontend_config_completed(config);
    f->epoll_fd = f->inbox.wake_fd = f->acceptor.fd = -1;
    f->page_due_ns = TIME_NEVER;
    list_init(&f->connections);
    list_init(&f->waiting);
    list_init(&f->unsent.list);
    list_init(&f->coming);
    f->in = malloc(FRONTEND_IN_BYTES);
    struct inferences_config inferences = frontend_inferences(&f->config, protocol->slot_bytes);
    int rc = inferences_init(&f->inferences, &inferences);
    f->inferences.inbox = &f->inbox;
    if (protocol->init(f) < 0 || rc < 0 ||
        !f->in) { /* frontend_free() ends both parts, so both are begun, even if one fails */
        rc = error_set(err, -ENOMEM, "no memory for a frontend");
        goto err_free;
    }
    if ((rc = descriptors_open(f, err)) < 0 ||
        (rc = stream_home_init(&f->streams, f->epoll_fd, f->config.tls, protocol->alpn, &f->counters.waited_ns)) < 0 ||
        (rc = acceptor_init(&f->acceptor, f->epoll_fd, &f->config, &mark_listen, err)) < 0)
        goto err_free;
    if (config->port)
        port_lend(config->port, lent_turn, f);
    *frontend = f;
    return 0;

err_free:
    frontend_free(f);
    return rc;
}

void frontend_free(struct frontend *f) {
    f->protocol->free(f);
    acceptor_destroy(&f->acceptor);
    if (f->epoll_fd >= 0)
        close(f->epoll_fd);
    inbox_close(&f->inbox);
    inferences_destroy(&f->inferences);
    inflater_destroy(&f->inflater);
    deflater_destroy(&f->deflater);
    stream_home_destroy(&f->streams);
    free(f->in);
    free(f);
}

void frontend_step(struct frontend *f) {
    turn_as_asked(f);
    take_events(f, 0, false);
}

int frontend_start(struct frontend **frontend, const struct protocol *protocol, const struct frontend_config *config,
                   struct sy_error *err) {
    struct frontend *f;
    int rc = frontend_make(&f, protocol, config, err);
    if (rc < 0)
        return rc;
    rc = -pthread_create(&f->thread, NULL, frontend_main, f);
    if (rc < 0) {
        frontend_free(f);
        return error_set(err, rc, "cannot start a frontend's thread: %s", strerror(-rc));
    }
    *frontend = f;
    return 0;
}

static void ask(struct frontend *f, _Atomic bool *what) {
    atomic_store_explicit(what, true, memory_order_release); /* with wanted() */
    inbox_wake(&f->inbox);
}

void frontend_quiesce(struct frontend *f) {
    ask(f, &f->quiesce_wanted);
}

void frontend_shut(struct frontend *f) {
    ask(f, &f->shut_wanted);
}

void frontend_tell_end(struct frontend *f) {
    ask(f, &f->stop_wanted);
}

void frontend_end(struct frontend *f) {
    if (!f || f->joined)
        return;
    frontend_tell_end(f);
    pthread_join(f->thread, NULL);
    f->joined = true;
}

void frontend_stop(struct frontend *f) {
    frontend_end(f);
    if (f)
        frontend_free(f);
}

struct frontend_counters frontend_counters(const struct frontend *f) {
    return (struct frontend_counters){
        .protocol = f->protocol->metrics,
        .index = f->config.index,
        .requests = &f->inferences.counters,
        .reply = f->config.port ? port_reply_margin(f->config.port) : NULL,
        .counters = &f->counters,
        .connections = &f->acceptor.connections,
        .answers = f->answers,
    };
}
