/* grpc.c - a gRPC frontend's thread: its loop, start and end.
 *
 * One turn of the loop hands over what was read, answers what the scheduler gave back, sends, and waits:
 *
 *     port_flush()                                   one hand-over for all that was submitted
 *     inferences_next() ... -> exchange_returned()
 *     connection_send() ...                          one write a connection
 *     epoll_wait() -> connection_readable() ...      messages read, checked and submitted */
#include "grpc/grpc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "grpc/grpc_state.h"
#include "request/repository_order.h"
#include "stats/metric_text.h"

#define EVENTS_MAX      256
#define TURN_NS         (200 * NS_PER_US) /* after so long what is left of the events waits for the next turn */
#define ACCEPTS_MAX     64                /* a turn */
#define HANDSHAKES_MAX  4                 /* steps of TLS handshakes a turn: one may take a millisecond */
#define WAKE_MS         1000              /* to look for what takes too long, and to return memory */
#define STOP_TURN_MS    10
#define STOP_SENDING_MS 200 /* how long clients have to take the last answers */

/* What epoll gives back: which of our descriptors, or a connection. */
static char mark_listen, mark_port, mark_wake;

static void accept_some(struct grpc_frontend *f) {
    struct peer peer;
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        int fd = acceptor_next(&f->acceptor, &peer, f->turn_ns);
        if (fd < 0)
            return;
        connection_begin(f, fd, &peer);
    }
}

/* ---- the loop ---- */

static void take_finished(struct grpc_frontend *f) {
    struct inference *inference;
    while ((inference = inferences_next(&f->inferences)))
        exchange_returned(container_of(inference, struct grpc_exchange, inference));
}

static void take_orders(struct grpc_frontend *f) {
    for (struct repository_order *order = orders_returned(&f->loop.inbox), *next; order; order = next) {
        next = order_next(order);
        exchange_order_returned(order->context, order->status, order->error.text);
        free(order);
    }
}

static void take_bulk(struct grpc_frontend *f) {
    for (struct bulk_job *job = bulk_returned(&f->loop.inbox), *next; job; job = next) {
        next = bulk_job_next(job);
        exchange_bulk_returned(job);
    }
}

/* What was sent makes room for more of the same streams. */
static void send_all(struct grpc_frontend *f) {
    do
        while (!list_empty(&f->dirty))
            connection_send(list_entry(f->dirty.next, struct grpc_connection, dirty));
    while (calls_resume(f));
}

static void take_event(struct grpc_frontend *f, const struct epoll_event *event) {
    const void *from = event->data.ptr;
    if (from == &mark_listen) {
        accept_some(f);
    } else if (from == &mark_wake) {
        inbox_woken(&f->loop.inbox);
    } else if (from != &mark_port) {
        connection_event(event->data.ptr, event->events);
    }
}

/* Sockets are watched level-triggered: what is left over is told again. */
static void take_events(struct grpc_frontend *f, int timeout_ms) {
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(f->loop.epoll_fd, events, EVENTS_MAX, timeout_ms);
    int64_t until_ns = (f->turn_ns = clock_now_ns()) + TURN_NS;
    f->streams.handshakes = HANDSHAKES_MAX;
    frontend_loop_turn(&f->loop, f->config.models);
    f->services.models = f->loop.models;
    for (int i = 0; i < n && (i == 0 || clock_now_ns() < until_ns); i++)
        take_event(f, &events[i]);
}

/* Sleeps until something happens, unless something is there already. */
static void rest(struct grpc_frontend *f) {
    bool idle = acceptor_connections(&f->acceptor) == 0 && slab_bytes_mapped(f->inferences.slab) == 0;
    int timeout_ms = f->config.busy_poll ? 0 : idle ? -1 : WAKE_MS;
    if (timeout_ms != 0 && f->acceptor.paused_until_ns > 0)
        timeout_ms = ACCEPTOR_PAUSE_MS;
    bool armed = timeout_ms != 0 && port_arm(f->config.port);
    inferences_publish(&f->inferences);
    take_events(f, armed ? timeout_ms : 0);
    if (armed)
        port_disarm(f->config.port);
}

static void turn(struct grpc_frontend *f) {
    port_flush(f->config.port); /* what was read: somebody may wait for it */
    take_finished(f);
    take_orders(f);
    take_bulk(f);
    send_all(f);
    port_flush(f->config.port); /* cancellations */
    if (f->turn_ns >= f->sweep_ns)
        connections_sweep(f);
    acceptor_look(&f->acceptor, f->turn_ns);
}

static void quiesce(struct grpc_frontend *f) {
    f->quiesced = true;
    acceptor_close(&f->acceptor);
    list_for_each (it, &f->connections)
        connection_goaway(list_entry(it, struct grpc_connection, link));
}

static void abandon_calls(struct grpc_frontend *f) {
    list_for_each (it, &f->connections) {
        struct grpc_connection *c = list_entry(it, struct grpc_connection, link);
        list_for_each (call, &c->calls)
            call_abandon(list_entry(call, struct grpc_call, link));
    }
}

/* Everything that the scheduler holds comes back before its memory goes, and is answered if the client takes it. */
static void finish_all(struct grpc_frontend *f) {
    if (!f->quiesced)
        quiesce(f);
    while (inferences_away(&f->inferences)) {
        abandon_calls(f);
        inferences_cancel(&f->inferences); /* also what arrived meanwhile */
        turn(f);
        if (inferences_away(&f->inferences))
            take_events(f, STOP_TURN_MS);
    }
    int64_t until_ns = clock_now_ns() + STOP_SENDING_MS * NS_PER_MS;
    do {
        abandon_calls(f);
        turn(f);
        if (list_empty(&f->connections))
            break;
        take_events(f, STOP_TURN_MS);
        inferences_cancel(&f->inferences);
    } while (f->turn_ns < until_ns || inferences_away(&f->inferences));
}

static void *frontend_main(void *context) {
    struct grpc_frontend *f = context;
    thread_begin("grpc", f->config.index, THREAD_PROMPT);
    f->turn_ns = clock_now_ns();
    while (!frontend_loop_ends(&f->loop)) {
        if (!f->quiesced && frontend_loop_quiesces(&f->loop))
            quiesce(f);
        turn(f);
        rest(f);
        inferences_trim(&f->inferences, f->turn_ns);
    }
    finish_all(f);
    return NULL;
}

/* ---- start and end ---- */

void grpc_frontend_step(struct grpc_frontend *f) {
    turn(f);
    take_events(f, 0);
}

void grpc_frontend_free(struct grpc_frontend *f) {
    list_for_each_safe (it, &f->connections)
        connection_close(list_entry(it, struct grpc_connection, link));
    acceptor_destroy(&f->acceptor);
    frontend_loop_close(&f->loop);
    nghttp2_session_callbacks_del(f->callbacks);
    nghttp2_option_del(f->options);
    recycler_end(&f->recycler);
    inferences_destroy(&f->inferences);
    inflater_destroy(&f->inflater);
    deflater_destroy(&f->deflater);
    free(f->calls);
    free(f->in);
    free(f->out);
    stream_home_destroy(&f->streams);
    free(f);
}

static int frontend_allocate(struct grpc_frontend *f) {
    struct inferences_config inferences = frontend_inferences(&f->config, sizeof(struct grpc_exchange));
    f->call_count = 2 * f->config.requests_max;
    f->call_free = UINT32_MAX;
    f->calls = calloc(f->call_count, sizeof(*f->calls));
    f->in = malloc(IN_BYTES);
    f->out = malloc(OUT_BYTES);
    if (!f->calls || !f->in || !f->out || connections_init(f) < 0 || inferences_init(&f->inferences, &inferences) < 0)
        return -ENOMEM;
    f->services = (struct grpc_services){&f->config, NULL};
    deflater_init(&f->deflater, f->config.grpc_level);
    return 0;
}

int grpc_frontend_make(struct grpc_frontend **frontend, const struct frontend_config *config, struct sy_error *err) {
    struct grpc_frontend *f = aligned_alloc(CACHE_LINE, (sizeof(*f) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!f)
        return error_set(err, -ENOMEM, "no memory for a frontend");
    memset(f, 0, sizeof(*f));
    f->config = frontend_config_completed(config);
    f->loop.epoll_fd = f->loop.inbox.wake_fd = f->acceptor.fd = -1;
    list_init(&f->connections);
    list_init(&f->dirty);
    list_init(&f->ended);
    list_init(&f->resumed);
    int rc = frontend_allocate(f);
    if (rc < 0) {
        error_set(err, rc, "no memory for a frontend");
        goto err_free;
    }
    if ((rc = frontend_loop_open(&f->loop, &f->config, &mark_port, &mark_wake, err)) < 0 ||
        (rc = stream_home_init(&f->streams, f->loop.epoll_fd, f->config.tls, "h2", &f->loop.waited_ns)) < 0 ||
        (rc = acceptor_init(&f->acceptor, &f->loop, &f->config, &mark_listen, err)) < 0)
        goto err_free;
    *frontend = f;
    return 0;

err_free:
    grpc_frontend_free(f);
    return rc;
}

int grpc_frontend_start(struct grpc_frontend **frontend, const struct frontend_config *config, struct sy_error *err) {
    struct grpc_frontend *f;
    int rc = grpc_frontend_make(&f, config, err);
    if (rc == 0 && (rc = frontend_loop_start(&f->loop, frontend_main, f, err)) < 0)
        grpc_frontend_free(f);
    if (rc == 0)
        *frontend = f;
    return rc;
}

void grpc_frontend_quiesce(struct grpc_frontend *f) {
    frontend_loop_quiesce(&f->loop);
}

uint32_t grpc_frontend_in_flight(const struct grpc_frontend *f) {
    return atomic_load_explicit(&f->inferences.counters.in_flight, memory_order_relaxed); /* a gauge */
}

void grpc_frontend_stop(struct grpc_frontend *f) {
    if (!f)
        return;
    frontend_loop_stop(&f->loop);
    grpc_frontend_free(f);
}

struct frontend_loop *grpc_frontend_loop(struct grpc_frontend *f) {
    return &f->loop;
}

const struct infer_counters *grpc_frontend_counters(const struct grpc_frontend *f) {
    return &f->inferences.counters;
}

void grpc_frontends_render_metrics(struct grpc_frontend *const *frontends, uint32_t count, struct text *out) {
    uint32_t open = 0;
    metric_heading(out, "symphony_grpc_calls_total", "counter", "gRPC calls by status.");
    for (unsigned code = 0; code < GRPC_CODE_COUNT; code++) {
        uint64_t sum = 0;
        for (uint32_t f = 0; f < count; f++)
            sum += counter_get(&frontends[f]->codes[code]);
        if (sum > 0)
            text_printf(out, "symphony_grpc_calls_total{code=\"%s\"} %" PRIu64 "\n", grpc_code_name(code), sum);
    }
    for (uint32_t f = 0; f < count; f++)
        open += acceptor_connections(&frontends[f]->acceptor);
    metric_heading(out, "symphony_grpc_connections", "gauge", "Open gRPC connections.");
    text_printf(out, "symphony_grpc_connections %" PRIu32 "\n", open);
    metric_heading(out, "symphony_grpc_dismissed_total", "counter",
                   "gRPC connections that were too slow, idle or flooding.");
    uint64_t dismissed = 0;
    for (uint32_t f = 0; f < count; f++)
        dismissed += counter_get(&frontends[f]->dismissed);
    text_printf(out, "symphony_grpc_dismissed_total %" PRIu64 "\n", dismissed);
}
