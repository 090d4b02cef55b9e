/* http_clients.c - the HTTP frontend's connections: when they begin and end, and how long they may take for what.
 *
 * libmicrohttpd counts any byte as activity, so that a client of one byte a second would keep its connection for days.
 * Once a second we look at every connection ourselves:
 *
 *     HEAD     head_timeout_s from when we saw that one had begun. A connection that sends nothing is idle:
 *              libmicrohttpd ends it after idle_timeout_s, and we sooner where there are too many
 *     BODY     head_timeout_s, and what it takes at rate_min
 *     RUNNING  waits for us
 *     ANSWER   as the body */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/log.h"
#include "frontend/http_state.h"

#define POKE_MS        10 /* between two looks at what libmicrohttpd may have missed */
#define SWEEP_MS       1000
#define LOOKS          3  /* at what an idle connection has received, while a head may take */
#define CROWDED_IDLE_S 10 /* where less than an eighth of the connections is free */

/* ---- begin and end ---- */

static void client_begin(struct http_frontend *f, struct MHD_Connection *connection, void **context) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct client *client = info ? calloc(1, sizeof(*client)) : NULL;
    *context = client;
    gauge_add(&f->connections, 1);
    if (!client)
        return; /* in plain text served all the same; its leaving is noticed late */
    client->fd = info->connect_fd;
    client_rests(client, f->turn_ns);
    client->looked = true;
    list_init(&client->leaving);
    list_init(&client->link);
    list_append(&f->clients, &client->link);
    if (f->config.tls) {
        info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        client->credentials = info ? tls_prepare(f->config.tls, info->tls_session, "http/1.1") : NULL;
    }
    /* edge-triggered and for the end only: data wake libmicrohttpd, not us. A closed descriptor leaves the set itself
     */
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = client};
    if (epoll_ctl(f->loop.epoll_fd, EPOLL_CTL_ADD, client->fd, &event) < 0)
        log_warn("cannot watch a connection", "error=\"%s\"", strerror(errno));
}

static void client_end(struct client *client) {
    if (!client)
        return;
    list_remove(&client->leaving);
    list_remove(&client->link);
    tls_release(client->credentials);
    free(client);
}

void client_notify(void *context, struct MHD_Connection *connection, void **client,
                   enum MHD_ConnectionNotificationCode code) {
    struct http_frontend *f = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        client_begin(f, connection, client);
        return;
    }
    gauge_add(&f->connections, -1);
    client_end(*client);
    *client = NULL;
    frontend_turn_again(f, 1); /* libmicrohttpd accepts again only in its next run */
}

/* ---- clients that left ---- */

void client_leave(struct http_frontend *f, struct client *client) {
    if (!client->gone)
        list_append(&f->leaving, &client->leaving);
    client->gone = true;
    f->poke_ns = 0;
    if (client->running)
        inference_cancel(&client->running->inference);
}

/* A shutdown of what has ended already changes nothing but makes the descriptor readable anew. Those whose requests run
 * are left alone: they end when the scheduler gives the request back. */
static void poke_leaving(struct http_frontend *f) {
    list_for_each (it, &f->leaving) {
        struct client *client = list_entry(it, struct client, leaving);
        if (!client->running)
            shutdown(client->fd, SHUT_RD);
    }
    f->poke_ns = f->turn_ns + POKE_MS * NS_PER_MS;
    frontend_turn_again(f, 1);
}

/* ---- clients that are slow ---- */

static uint64_t bytes_received(int fd) {
    struct tcp_info info;
    socklen_t bytes = sizeof(info);
    memset(&info, 0, sizeof(info));
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) < 0 ? 0 : info.tcpi_bytes_received;
}

/* Whether a head is too long under way. We learn that one has begun by looking now and then at what the connection has
 * received: nothing before its first request, anything before a later one, so that it takes two looks then. */
static bool head_late(struct http_frontend *f, struct client *client) {
    int64_t head_ns = f->config.head_timeout_s * NS_PER_S;
    if (client->head_seen_ns > 0)
        return f->turn_ns - client->head_seen_ns > head_ns;
    if (f->turn_ns < client->look_ns)
        return false;
    uint64_t received = bytes_received(client->fd);
    if (client->looked && received > client->received)
        client->head_seen_ns = f->turn_ns;
    client->looked = true;
    client->received = received;
    client->look_ns = f->turn_ns + head_ns / LOOKS;
    return false;
}

/* Ends a connection; libmicrohttpd notices. In plain text a client that sends slowly is told why. */
static void client_dismiss(struct http_frontend *f, struct client *client, bool sends) {
    static const char answer[] =
        "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: application/json\r\n"
        "Content-Length: 46\r\n\r\n{\"error\":\"the request did not arrive in time\"}";
    if (sends && !client->credentials && send(client->fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
        counter_add(&f->statuses[MHD_HTTP_REQUEST_TIMEOUT], 1);
    counter_add(&f->dismissed, 1);
    shutdown(client->fd, SHUT_RDWR);
}

/* True: dismissed for want of room. */
static bool client_check(struct http_frontend *f, struct client *client, bool crowded) {
    int64_t passed_ns = f->turn_ns - client->since_ns;
    bool idle = client->doing == CLIENT_HEAD && crowded && passed_ns > CROWDED_IDLE_S * NS_PER_S;
    if (client->doing == CLIENT_HEAD && head_late(f, client))
        client_dismiss(f, client, true);
    else if (idle)
        client_dismiss(f, client, false);
    else if ((client->doing == CLIENT_BODY || client->doing == CLIENT_ANSWER) &&
             passed_ns > frontend_transfer_ns(&f->config, client->bytes))
        client_dismiss(f, client, client->doing == CLIENT_BODY);
    return idle;
}

static void sweep(struct http_frontend *f) {
    uint32_t open = atomic_load_explicit(&f->connections, memory_order_relaxed); /* its own */
    uint32_t excess = frontend_connections_excess(&f->config, open);
    f->sweep_ns = f->turn_ns + SWEEP_MS * NS_PER_MS;
    list_for_each (it, &f->clients) {
        struct client *client = list_entry(it, struct client, link);
        if (!client->gone)
            excess -= client_check(f, client, excess > 0);
    }
}

void clients_look_after(struct http_frontend *f) {
    if (!list_empty(&f->leaving) && f->turn_ns >= f->poke_ns)
        poke_leaving(f);
    if (f->turn_ns >= f->sweep_ns)
        sweep(f);
}
