/* grpc.c - a gRPC frontend's thread: its loop, start and end.
 *
 * One turn of the loop answers what the scheduler gave back, sends, hands over what was read, and waits:
 *
 *     inferences_next() ... -> exchange_returned()
 *     connection_send() ...                          one write a connection
 *     port_flush()                                   one hand-over for all that was submitted
 *     epoll_wait() -> connection_readable() ...      messages read, checked and submitted */
#include "frontend/grpc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "frontend/grpc_state.h"

#define EVENTS_MAX      256
#define ACCEPTS_MAX     64 /* a turn */
#define SWEEP_MS        1000
#define STOP_TURN_MS    10
#define STOP_SENDING_MS 200   /* how long clients have to take the last answers */
#define SILENT_MS       60000 /* a peer whose machine does not answer for so long is dead */

/* What epoll gives back: which of our descriptors, or a connection. */
static char mark_listen, mark_port, mark_wake;

static int watch(struct grpc_frontend *f, int fd, char *mark) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = mark};
    return epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* ---- connections ---- */

static void socket_prepare(int fd) {
    int one = 1, idle_s = SILENT_MS / 2000, interval_s = SILENT_MS / 12000, silent_ms = SILENT_MS;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms, sizeof(silent_ms));
}

static uint32_t connections(const struct grpc_frontend *f) {
    return atomic_load_explicit(&f->connection_count, memory_order_relaxed); /* its own */
}

/* While there are as many connections as may be, further ones wait in the socket's backlog. */
static void accept_or_not(struct grpc_frontend *f) {
    bool wanted = !f->quiesced && connections(f) < f->config.connections_max;
    if (wanted == f->accepting)
        return;
    if (wanted)
        watch(f, f->listen_fd, &mark_listen);
    else
        epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, f->listen_fd, NULL);
    f->accepting = wanted;
}

static void accept_some(struct grpc_frontend *f) {
    for (int i = 0; i < ACCEPTS_MAX && connections(f) < f->config.connections_max; i++) {
        int fd = accept4(f->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        socket_prepare(fd);
        connection_begin(f, fd);
    }
}

/* Once a second: a connection that has been silent for too long goes, unless a call of it waits for us. One that does
 * not take what we send is silent, too. */
static void sweep(struct grpc_frontend *f) {
    int64_t since_ns = f->turn_ns - f->config.idle_timeout_s * NS_PER_S;
    f->sweep_ns = f->turn_ns + SWEEP_MS * NS_PER_MS;
    list_for_each_safe (it, &f->connections) {
        struct grpc_connection *c = list_entry(it, struct grpc_connection, link);
        if (c->active_ns < since_ns && (c->unsent || list_empty(&c->calls)))
            connection_close(c);
    }
}

/* ---- the loop ---- */

static void take_finished(struct grpc_frontend *f) {
    struct inference *inference;
    while ((inference = inferences_next(&f->inferences)))
        exchange_returned(container_of(inference, struct grpc_exchange, inference));
}

static void send_all(struct grpc_frontend *f) {
    while (!list_empty(&f->dirty))
        connection_send(list_entry(f->dirty.next, struct grpc_connection, dirty));
}

static void take_event(struct grpc_frontend *f, const struct epoll_event *event) {
    const void *from = event->data.ptr;
    uint64_t count;
    if (from == &mark_listen) {
        accept_some(f);
    } else if (from == &mark_wake) {
        while (read(f->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR) {
        }
    } else if (from != &mark_port) {
        struct grpc_connection *c = event->data.ptr;
        if ((event->events & EPOLLOUT) && c->unsent)
            connection_writable(c); /* level-triggered: what came to be read is told again */
        else
            connection_readable(c);
    }
}

static void take_events(struct grpc_frontend *f, int timeout_ms) {
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(f->epoll_fd, events, EVENTS_MAX, timeout_ms);
    f->turn_ns = clock_now_ns();
    for (int i = 0; i < n; i++)
        take_event(f, &events[i]);
}

/* Sleeps until something happens, unless something is there already. */
static void rest(struct grpc_frontend *f) {
    bool idle = connections(f) == 0 && slab_bytes_mapped(f->inferences.slab) == 0;
    int timeout_ms = f->config.busy_poll ? 0 : idle ? -1 : SWEEP_MS;
    bool armed = timeout_ms != 0 && port_arm(f->config.port);
    inferences_publish(&f->inferences);
    take_events(f, armed ? timeout_ms : 0);
    if (armed)
        port_disarm(f->config.port);
}

static void turn(struct grpc_frontend *f) {
    take_finished(f);
    send_all(f);
    port_flush(f->config.port);
    if (f->turn_ns >= f->sweep_ns)
        sweep(f);
    accept_or_not(f);
}

static void quiesce(struct grpc_frontend *f) {
    f->quiesced = true;
    accept_or_not(f);
    close(f->listen_fd);
    f->listen_fd = -1;
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
    while (f->inferences.running > 0) {
        inferences_cancel(&f->inferences); /* also what arrived meanwhile */
        turn(f);
        if (f->inferences.running > 0)
            take_events(f, STOP_TURN_MS);
        port_disarm(f->config.port);
    }
    int64_t until_ns = clock_now_ns() + STOP_SENDING_MS * NS_PER_MS;
    do {
        abandon_calls(f);
        turn(f);
        if (list_empty(&f->connections))
            break;
        take_events(f, STOP_TURN_MS);
        inferences_cancel(&f->inferences);
        port_disarm(f->config.port);
    } while (f->turn_ns < until_ns || f->inferences.running > 0);
}

static void *frontend_main(void *context) {
    struct grpc_frontend *f = context;
    thread_begin("grpc", f->config.index, THREAD_PROMPT);
    f->turn_ns = clock_now_ns();
    /* acquire: with the release stores of who asks */
    while (!atomic_load_explicit(&f->stop_wanted, memory_order_acquire)) {
        if (!f->quiesced && atomic_load_explicit(&f->quiesce_wanted, memory_order_acquire))
            quiesce(f);
        turn(f);
        rest(f);
        inferences_trim(&f->inferences, f->turn_ns);
    }
    finish_all(f);
    return NULL;
}

/* ---- start and end ---- */

static int descriptors_open(struct grpc_frontend *f, struct sy_error *err) {
    f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    f->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    f->listen_fd = fcntl(f->config.listen_fd, F_DUPFD_CLOEXEC, 0);
    if (f->epoll_fd < 0 || f->wake_fd < 0 || f->listen_fd < 0)
        return error_set(err, -errno, "no descriptors for a frontend: %s", strerror(errno));
    if (watch(f, port_event_fd(f->config.port), &mark_port) < 0 || watch(f, f->wake_fd, &mark_wake) < 0)
        return error_set(err, -errno, "cannot watch a frontend's descriptors: %s", strerror(errno));
    accept_or_not(f);
    return 0;
}

static void close_open(int fd) {
    if (fd >= 0)
        close(fd);
}

static void frontend_free(struct grpc_frontend *f) {
    list_for_each_safe (it, &f->connections)
        connection_close(list_entry(it, struct grpc_connection, link));
    close_open(f->listen_fd);
    close_open(f->epoll_fd);
    close_open(f->wake_fd);
    nghttp2_session_callbacks_del(f->callbacks);
    nghttp2_option_del(f->options);
    recycler_end(&f->recycler);
    v2_models_destroy(&f->models);
    inferences_destroy(&f->inferences);
    inflater_destroy(&f->inflater);
    free(f->calls);
    free(f->in);
    free(f->out);
    free(f);
}

static int frontend_allocate(struct grpc_frontend *f) {
    f->call_count = 2 * f->config.requests_max;
    f->call_free = UINT32_MAX;
    f->calls = calloc(f->call_count, sizeof(*f->calls));
    f->in = malloc(IN_BYTES);
    f->out = malloc(OUT_BYTES);
    if (!f->calls || !f->in || !f->out || connections_init(f) < 0 ||
        inferences_init(&f->inferences, &f->config, sizeof(struct grpc_exchange)) < 0)
        return -ENOMEM;
    f->services = (struct grpc_services){&f->config, &f->models};
    return v2_models_init(&f->models, f->config.models, f->config.model_count);
}

int grpc_frontend_start(struct grpc_frontend **frontend, const struct frontend_config *config, struct sy_error *err) {
    struct grpc_frontend *f = aligned_alloc(CACHE_LINE, sizeof(*f));
    if (!f)
        return error_set(err, -ENOMEM, "no memory for a frontend");
    memset(f, 0, sizeof(*f));
    f->config = frontend_config_completed(config);
    f->epoll_fd = f->wake_fd = f->listen_fd = -1;
    list_init(&f->connections);
    list_init(&f->dirty);
    int rc = frontend_allocate(f);
    if (rc < 0) {
        error_set(err, rc, "no memory for a frontend");
        goto err_free;
    }
    rc = descriptors_open(f, err);
    if (rc < 0)
        goto err_free;
    rc = -pthread_create(&f->thread, NULL, frontend_main, f);
    if (rc < 0) {
        error_set(err, rc, "cannot start a frontend's thread: %s", strerror(-rc));
        goto err_free;
    }
    *frontend = f;
    return 0;

err_free:
    frontend_free(f);
    return rc;
}

static void wake(struct grpc_frontend *f) {
    uint64_t one = 1;
    while (write(f->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

void grpc_frontend_quiesce(struct grpc_frontend *f) {
    atomic_store_explicit(&f->quiesce_wanted, true, memory_order_release); /* with the loop's load */
    wake(f);
}

uint32_t grpc_frontend_in_flight(const struct grpc_frontend *f) {
    return atomic_load_explicit(&f->inferences.counters.in_flight, memory_order_relaxed); /* a gauge */
}

void grpc_frontend_stop(struct grpc_frontend *f) {
    if (!f)
        return;
    atomic_store_explicit(&f->stop_wanted, true, memory_order_release); /* with the loop's load */
    wake(f);
    pthread_join(f->thread, NULL);
    frontend_free(f);
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
            sum += atomic_load_explicit(&frontends[f]->codes[code], memory_order_relaxed); /* statistics */
        if (sum > 0)
            text_printf(out, "symphony_grpc_calls_total{code=\"%s\"} %" PRIu64 "\n", grpc_code_name(code), sum);
    }
    for (uint32_t f = 0; f < count; f++)
        open += connections(frontends[f]);
    metric_heading(out, "symphony_grpc_connections", "gauge", "Open gRPC connections.");
    text_printf(out, "symphony_grpc_connections %" PRIu32 "\n", open);
}
