/* http.c - a frontend's thread: its loop, start and end.
 *
 * libmicrohttpd parses HTTP and owns the connections; its epoll is one of ours, so we decide when it runs. One turn of
 * the loop reads what has arrived and sends what was answered in the turn before:
 *
 *     inferences_next() ... -> exchange_finish()  requests the scheduler gave back
 *     MHD_run_wait(0) -> exchange_handle() ...    bodies read and submitted, answers built; answers sent
 *     port_flush()                                one hand-over for all that was submitted
 *     epoll_wait()                                only if nothing is left to do */
#include "frontend/http.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "frontend/http_state.h"
#include "frontend/repository_order.h"

#define CONNECTION_MEMORY ((size_t)32 * 1024) /* headers must fit; also what one receive takes of a body */
#define EVENTS_MAX        64
#define IDLE_WAKE_MS      1000 /* for libmicrohttpd's timeouts, and to return memory */
#define ASK_MS            10   /* between two looks at what libmicrohttpd may have missed */
#define OWN_EVENTS_TURNS  16   /* a loop that never sleeps looks for clients that left so often */
#define STOP_TURN_MS      10
#define STOP_SENDING_MS   200 /* how long clients have to take the last answers */

/* What epoll gives back: which of our descriptors, or the client behind it. */
static char mark_daemon, mark_port, mark_wake;

/* ---- the loop ---- */

static void take_finished(struct http_frontend *f) {
    struct inference *inference;
    while ((inference = inferences_next(&f->inferences)))
        exchange_finish(container_of(inference, struct exchange, inference));
}

static void take_orders(struct http_frontend *f) {
    for (struct repository_order *order = orders_returned(&f->loop), *next; order; order = next) {
        next = order->next;
        exchange_ordered(order->context, order->status, order->error.text);
        free(order);
    }
}

static void take_events(struct http_frontend *f, int timeout_ms) {
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(f->loop.epoll_fd, events, EVENTS_MAX, timeout_ms);
    for (int i = 0; i < n; i++) {
        const void *from = events[i].data.ptr;
        if (from == &mark_wake)
            frontend_loop_woken(&f->loop);
        else if (from != &mark_daemon && from != &mark_port)
            client_leave(f, events[i].data.ptr);
    }
}

/* How long to sleep at most. Libmicrohttpd knows whether it could go on without an event (a receive filled its buffer),
 * but while it asks about running requests it says so always, so then we look again soon instead. */
static int rest_ms(const struct http_frontend *f) {
    MHD_UNSIGNED_LONG_LONG ms;
    if (f->config.busy_poll)
        return 0;
    if (f->asked > 0 || !list_empty(&f->leaving))
        return ASK_MS;
    if (MHD_get_timeout(f->daemon, &ms) == MHD_YES && ms == 0)
        return 0;
    /* connections time out, memory is trimmed */
    return atomic_load_explicit(&f->connections, memory_order_relaxed) > 0 || slab_bytes_mapped(f->inferences.slab) > 0
               ? IDLE_WAKE_MS
               : -1;
}

/* Sleeps until something happens, unless something is there already. */
static void rest(struct http_frontend *f) {
    inferences_publish(&f->inferences);
    int timeout_ms = rest_ms(f);
    bool armed = timeout_ms != 0 && port_arm(f->config.port);
    take_events(f, armed ? timeout_ms : 0);
    if (armed)
        port_disarm(f->config.port);
}

static void quiesce(struct http_frontend *f) {
    f->quiesced = true;
    MHD_socket fd = MHD_quiesce_daemon(f->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
}

static void turn(struct http_frontend *f) {
    f->turn_ns = clock_now_ns();
    f->turns++;
    f->more_turns -= f->more_turns > 0;
    frontend_loop_turn(&f->loop, f->config.models);
    take_finished(f);
    take_orders(f);
    MHD_run_wait(f->daemon, 0);
    clients_look_after(f);
    port_flush(f->config.port);
}

/* Everything that the scheduler holds comes back before its memory goes, and is answered if the client takes it. */
static void finish_all(struct http_frontend *f) {
    if (!f->quiesced)
        quiesce(f);
    inferences_cancel(&f->inferences);
    port_flush(f->config.port);
    while (f->inferences.running > 0) {
        turn(f);
        inferences_cancel(&f->inferences); /* what arrived in this turn */
        port_flush(f->config.port);
        if (f->inferences.running > 0 && f->more_turns == 0)
            take_events(f, STOP_TURN_MS);
    }
    int64_t until_ns = clock_now_ns() + STOP_SENDING_MS * NS_PER_MS;
    while (atomic_load_explicit(&f->inferences.counters.in_flight, memory_order_relaxed) > 0 && f->turn_ns < until_ns) {
        turn(f);
        inferences_cancel(&f->inferences);
        if (f->more_turns == 0)
            take_events(f, STOP_TURN_MS);
    }
}

static void *frontend_main(void *context) {
    struct http_frontend *f = context;
    thread_begin("http", f->config.index, THREAD_PROMPT);
    while (!frontend_loop_ends(&f->loop)) {
        if (!f->quiesced && frontend_loop_quiesces(&f->loop))
            quiesce(f);
        turn(f);
        if (f->more_turns == 0)
            rest(f);
        else if (f->turns % OWN_EVENTS_TURNS == 0)
            take_events(f, 0);
        inferences_trim(&f->inferences, f->turn_ns);
    }
    finish_all(f);
    return NULL;
}

/* ---- start and end ---- */

/* libmicrohttpd's own, but that a path does not end at an escaped zero, whatever a proxy saw behind it: it stays as it
 * is, and is the name of nothing. */
static size_t path_unescape(void *context, struct MHD_Connection *connection, char *path) {
    (void)context;
    (void)connection;
    return strstr(path, "%00") ? strlen(path) : MHD_http_unescape(path);
}

static int daemon_start(struct http_frontend *f, struct sy_error *err) {
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_SUPPRESS_DATE_NO_CLOCK;
    int fd = fcntl(f->config.listen_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return error_set(err, -errno, "cannot duplicate the listening socket: %s", strerror(errno));
    f->daemon = MHD_start_daemon(
        f->config.tls ? flags | MHD_USE_TLS : flags, 0, NULL, NULL, exchange_handle, f, MHD_OPTION_STRICT_FOR_CLIENT,
        HTTP_LINES_ARE_LAX ? 0 : 1, MHD_OPTION_HTTPS_CERT_CALLBACK2, tls_no_certificate, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_UNESCAPE_CALLBACK, path_unescape, NULL, MHD_OPTION_NOTIFY_COMPLETED, exchange_completed, f,
        MHD_OPTION_NOTIFY_CONNECTION, client_notify, f, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)f->config.connections_max, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)f->config.idle_timeout_s, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)f->config.connections_per_address, MHD_OPTION_END);
    if (!f->daemon) {
        close(fd);
        return error_set(err, -EIO, "libmicrohttpd does not start: %s", strerror(errno));
    }
    return 0;
}

void http_frontend_step(struct http_frontend *f) {
    turn(f);
    take_events(f, 0);
}

void http_frontend_free(struct http_frontend *f) {
    if (f->daemon)
        MHD_stop_daemon(f->daemon);
    frontend_loop_close(&f->loop);
    inferences_destroy(&f->inferences);
    inflater_destroy(&f->inflater);
    deflater_destroy(&f->deflater);
    free(f);
}

int http_frontend_make(struct http_frontend **frontend, const struct frontend_config *config, struct sy_error *err) {
    struct http_frontend *f = aligned_alloc(CACHE_LINE, sizeof(*f));
    if (!f)
        return error_set(err, -ENOMEM, "no memory for a frontend");
    memset(f, 0, sizeof(*f));
    f->config = frontend_config_completed(config);
    f->loop.epoll_fd = f->loop.wake_fd = -1;
    list_init(&f->leaving);
    list_init(&f->clients);
    int rc = -ENOMEM;
    deflater_init(&f->deflater, Z_BEST_SPEED);
    if (inferences_init(&f->inferences, &f->config, sizeof(struct exchange)) < 0) {
        error_set(err, rc, "no memory for a frontend");
        goto err_free;
    }
    if ((rc = frontend_loop_open(&f->loop, &f->config, &mark_port, &mark_wake, err)) < 0 ||
        (rc = daemon_start(f, err)) < 0)
        goto err_free;
    rc =
        frontend_loop_watch(&f->loop, MHD_get_daemon_info(f->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, &mark_daemon);
    if (rc < 0) {
        error_set(err, rc, "cannot watch a frontend's descriptors: %s", strerror(-rc));
        goto err_free;
    }
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
        connections += atomic_load_explicit(&frontends[f]->connections, memory_order_relaxed); /* statistics */
    metric_heading(out, "symphony_http_connections", "gauge", "Open HTTP connections.");
    text_printf(out, "symphony_http_connections %" PRIu32 "\n", connections);
    metric_heading(out, "symphony_http_dismissed_total", "counter", "HTTP connections that were too slow or idle.");
    uint64_t dismissed = 0;
    for (uint32_t f = 0; f < count; f++)
        dismissed += counter_get(&frontends[f]->dismissed);
    text_printf(out, "symphony_http_dismissed_total %" PRIu64 "\n", dismissed);
}
