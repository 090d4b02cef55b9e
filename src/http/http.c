/* http.c - an HTTP frontend's thread: its loop, start and end.
 *
 * One turn of the loop answers what the scheduler gave back, sends, waits, and hands over what was read:
 *
 *     inferences_next() ... -> exchange_finish()              answers, each sent as soon as it is built
 *     http_connection_go_on() ...                             requests that were received behind others
 *     epoll_wait() -> http_connection_event() ...             requests read, checked and submitted
 *     port_flush()                                            one hand-over for all that was submitted */
#include "http/http.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "http/http_state.h"
#include "request/repository_order.h"
#include "stats/metric_text.h"

#define EVENTS_MAX      64
#define TURN_NS         (200 * NS_PER_US) /* after so long what is left of the events waits for the next turn */
#define ACCEPTS_MAX     64                /* a turn */
#define HANDSHAKES_MAX  4                 /* steps of TLS handshakes a turn: one may take a millisecond */
#define WAKE_MS         1000              /* to look for what takes too long, and to return memory */
#define STOP_TURN_MS    10
#define STOP_SENDING_MS 200 /* how long clients have to take the last answers */

/* What epoll gives back: which of our descriptors, or a connection. */
static char mark_listen, mark_port, mark_wake;

/* ---- the loop ---- */

/* Hands over what was submitted. */
static void flush(struct http_frontend *f) {
    if (f->config.port)
        port_flush(f->config.port);
}

static void take_finished(struct http_frontend *f) {
    struct inference *inference;
    while (f->config.port && (inference = inferences_next(&f->inferences)))
        exchange_finish(container_of(inference, struct exchange, inference));
}

static void take_orders(struct http_frontend *f) {
    for (struct repository_order *order = orders_returned(&f->loop.inbox), *next; order; order = next) {
        next = order_next(order);
        exchange_ordered(order->context, order->status, order->error.text);
        free(order);
    }
}

static void take_bulk(struct http_frontend *f) {
    for (struct bulk_job *job = bulk_returned(&f->loop.inbox), *next; job; job = next) {
        next = bulk_job_next(job);
        exchange_from_bulk(job);
    }
}

/* Those that have more to be taken of what was received. Who has more still is put behind the others. */
static void go_on(struct http_frontend *f) {
    struct list_node now;
    list_init(&now);
    while (!list_empty(&f->again)) {
        struct list_node *first = f->again.next;
        list_remove(first);
        list_append(&now, first);
    }
    while (!list_empty(&now)) {
        struct list_node *first = now.next;
        list_remove(first);
        http_connection_go_on(list_entry(first, struct http_connection, again));
    }
}

static void accept_some(struct http_frontend *f) {
    struct peer peer;
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        int fd = acceptor_next(&f->acceptor, &peer, f->turn_ns);
        if (fd < 0)
            return;
        http_connection_begin(f, fd, &peer);
    }
}

static void take_event(struct http_frontend *f, const struct epoll_event *event) {
    const void *from = event->data.ptr;
    if (from == &mark_listen)
        accept_some(f);
    else if (from == &mark_wake)
        inbox_woken(&f->loop.inbox);
    else if (from != &mark_port)
        http_connection_event(event->data.ptr, event->events);
}

/* Sockets are watched level-triggered: what is left over is told again. */
static void take_events(struct http_frontend *f, int timeout_ms) {
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(f->loop.epoll_fd, events, EVENTS_MAX, timeout_ms);
    int64_t until_ns = (f->turn_ns = clock_now_ns()) + TURN_NS;
    f->streams.handshakes = HANDSHAKES_MAX;
    if (f->config.models)
        frontend_loop_turn(&f->loop, f->config.models);
    for (int i = 0; i < n && (i == 0 || clock_now_ns() < until_ns); i++)
        take_event(f, &events[i]);
    flush(f);
    http_connections_free(f);
}

/* Sleeps until something happens, unless something is there already. */
static void rest(struct http_frontend *f) {
    bool idle = acceptor_connections(&f->acceptor) == 0 && slab_bytes_mapped(f->inferences.slab) == 0;
    int timeout_ms = f->config.busy_poll || !list_empty(&f->again) ? 0 : idle ? -1 : WAKE_MS;
    if (timeout_ms != 0 && f->acceptor.paused_until_ns > 0)
        timeout_ms = ACCEPTOR_PAUSE_MS;
    inferences_publish(&f->inferences);
    bool armed = timeout_ms != 0 && f->config.port && port_arm(f->config.port);
    take_events(f, armed || !f->config.port ? timeout_ms : 0);
    if (armed)
        port_disarm(f->config.port);
}

static void quiesce(struct http_frontend *f) {
    f->quiesced = true;
    acceptor_close(&f->acceptor);
}

static void turn(struct http_frontend *f) {
    take_finished(f);
    take_orders(f);
    take_bulk(f);
    go_on(f);
    if (f->turn_ns >= f->sweep_ns)
        http_connections_sweep(f);
    acceptor_look(&f->acceptor, f->turn_ns);
    flush(f);
    http_connections_free(f);
}

/* Everything that the scheduler holds comes back before its memory goes, and is answered if the client takes it. */
static void finish_all(struct http_frontend *f) {
    if (!f->quiesced)
        quiesce(f);
    for (int64_t until_ns = 0; until_ns == 0 || f->turn_ns < until_ns;) {
        inferences_cancel(&f->inferences); /* also what arrived meanwhile */
        turn(f);
        if (until_ns == 0 && !inferences_away(&f->inferences))
            until_ns = f->turn_ns + STOP_SENDING_MS * NS_PER_MS;
        if (atomic_load_explicit(&f->inferences.counters.in_flight, memory_order_relaxed) == 0)
            break;
        take_events(f, STOP_TURN_MS);
    }
    while (inferences_away(&f->inferences)) { /* what came in the last moment */
        inferences_cancel(&f->inferences);
        turn(f);
        take_events(f, STOP_TURN_MS);
    }
}

static void *frontend_main(void *context) {
    struct http_frontend *f = context;
    thread_begin(f->config.page ? "metrics" : "http", f->config.index, f->config.page ? THREAD_SHARED : THREAD_PROMPT);
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

void http_frontend_step(struct http_frontend *f) {
    turn(f);
    take_events(f, 0);
}

void http_frontend_free(struct http_frontend *f) {
    list_for_each_safe (it, &f->connections)
        http_connection_close(list_entry(it, struct http_connection, link));
    http_connections_free(f);
    acceptor_destroy(&f->acceptor);
    frontend_loop_close(&f->loop);
    inferences_destroy(&f->inferences);
    inflater_destroy(&f->inflater);
    deflater_destroy(&f->deflater);
    stream_home_destroy(&f->streams);
    free(f->in);
    free(f);
}

int http_frontend_make(struct http_frontend **frontend, const struct frontend_config *config, struct sy_error *err) {
    struct http_frontend *f = aligned_alloc(CACHE_LINE, (sizeof(*f) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!f)
        return error_set(err, -ENOMEM, "no memory for a frontend");
    memset(f, 0, sizeof(*f));
    f->config = frontend_config_completed(config);
    struct inferences_config inferences = frontend_inferences(&f->config, sizeof(struct exchange));
    f->loop.epoll_fd = f->loop.inbox.wake_fd = f->acceptor.fd = -1;
    list_init(&f->connections);
    list_init(&f->again);
    list_init(&f->closed);
    http_callbacks_init(&f->callbacks);
    deflater_init(&f->deflater, Z_BEST_SPEED);
    f->in = malloc(HTTP_IN_BYTES);
    int rc = -ENOMEM;
    if (!f->in || inferences_init(&f->inferences, &inferences) < 0) {
        error_set(err, rc, "no memory for a frontend");
        goto err_free;
    }
    if ((rc = frontend_loop_open(&f->loop, &f->config, &mark_port, &mark_wake, err)) < 0 ||
        (rc = stream_home_init(&f->streams, f->loop.epoll_fd, f->config.tls, "http/1.1", &f->loop.waited_ns)) < 0 ||
        (rc = acceptor_init(&f->acceptor, &f->loop, &f->config, &mark_listen, err)) < 0)
        goto err_free;
    *frontend = f;
    return 0;

err_free:
    http_frontend_free(f);
    return rc;
}

int http_frontend_start(struct http_frontend **frontend, const struct frontend_config *config, struct sy_error *err) {
    struct http_frontend *f;
    int rc = http_frontend_make(&f, config, err);
    if (rc == 0 && (rc = frontend_loop_start(&f->loop, frontend_main, f, err)) < 0)
        http_frontend_free(f);
    if (rc == 0)
        *frontend = f;
    return rc;
}

void http_frontend_quiesce(struct http_frontend *f) {
    frontend_loop_quiesce(&f->loop);
}

uint32_t http_frontend_in_flight(const struct http_frontend *f) {
    return atomic_load_explicit(&f->inferences.counters.in_flight, memory_order_relaxed); /* a gauge */
}

void http_frontend_stop(struct http_frontend *f) {
    if (!f)
        return;
    frontend_loop_stop(&f->loop);
    http_frontend_free(f);
}

struct frontend_loop *http_frontend_loop(struct http_frontend *f) {
    return &f->loop;
}

const struct infer_counters *http_frontend_counters(const struct http_frontend *f) {
    return &f->inferences.counters;
}

void http_frontends_render_metrics(struct http_frontend *const *frontends, uint32_t count, struct text *out) {
    uint32_t connections = 0;
    metric_heading(out, "symphony_http_responses_total", "counter", "HTTP answers by status.");
    for (int status = 0; status < HTTP_STATUS_MAX; status++) {
        uint64_t sum = 0;
        for (uint32_t f = 0; f < count; f++)
            sum += counter_get(&frontends[f]->statuses[status]);
        if (sum > 0)
            text_printf(out, "symphony_http_responses_total{status=\"%d\"} %" PRIu64 "\n", status, sum);
    }
    for (uint32_t f = 0; f < count; f++)
        connections += acceptor_connections(&frontends[f]->acceptor);
    metric_heading(out, "symphony_http_connections", "gauge", "Open HTTP connections.");
    text_printf(out, "symphony_http_connections %" PRIu32 "\n", connections);
    metric_heading(out, "symphony_http_dismissed_total", "counter", "HTTP connections that were too slow or idle.");
    uint64_t dismissed = 0;
    for (uint32_t f = 0; f < count; f++)
        dismissed += counter_get(&frontends[f]->dismissed);
    text_printf(out, "symphony_http_dismissed_total %" PRIu64 "\n", dismissed);
}
