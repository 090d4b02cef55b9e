/* virtual_clients.c - clients that speak HTTP with the frontends, and hold each answer against what they asked. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/util/assert.h"
#include "sim/virtual_cluster.h"

#define REQUESTS_MAX    65536
#define CONNECTIONS_MAX 512
#define LOOK_NS         (20 * NS_PER_MS)
#define EVENTS_MAX      64
#define READY_NS        (800 * NS_PER_MS) /* from a frontend's start; its clients do not look whether it is ready */
#define UNTAKEN_NS      (5 * NS_PER_MS)

enum request_end { END_NONE, END_GOOD, END_REFUSED, END_BROKEN, END_LEFT };

struct request {
    int64_t sent_ns, deadline_ns, ended_ns;
    int64_t last_ns; /* the deadline, or later where it may be late */
    struct virtual_process *frontend;
    int64_t frontend_stopped_ns; /* what it had been stopped for, */
    bool frontend_stopped;       /* and whether it was just then */
    uint32_t items, width;
    uint32_t level;    /* of priority; 0: best effort, if there are levels */
    int64_t leaves_ns; /* its client does not wait for longer; TIME_NEVER: it does */
    enum request_end end;
    int status;
};

/* Of a client, kept open for others' requests. */
struct connection {
    bool used, connected;
    int fd;
    struct virtual_role *frontend;
    struct virtual_process *process; /* that the frontend was when it was made */
    struct request *request;         /* that waits for its answer; NULL: none does */
    char *out, *in;
    size_t out_bytes, out_done, in_bytes, in_room;
};

static struct {
    struct clients_config config;
    struct request *requests;
    uint32_t count, waiting;
    struct connection connections[CONNECTIONS_MAX];
    int epoll_fd;
    bool ends;
} c;

static bool is_best_effort(const struct request *r) {
    return cluster.levels && r->level == 0;
}

/* ---- what ends a request ---- */

static void request_end(struct connection *n, enum request_end end, int status) {
    struct request *r = n->request;
    n->request = NULL;
    r->end = end;
    r->status = status;
    r->ended_ns = virtual_world.now_ns;
    c.waiting--;
    virtual_trace("request %u: %d after %.3f ms", (uint32_t)(r - c.requests), status,
                  (double)(r->ended_ns - r->sent_ns) / NS_PER_MS);
}

static void connection_close(struct connection *n) {
    close(n->fd);
    free(n->out);
    free(n->in);
    *n = (struct connection){.used = false};
}

/* A frontend that was asked to end need not take what was on its way then. */
static bool is_untaken(const struct request *r) {
    const struct virtual_process *p = r->frontend;
    return p->asked_ns > 0 && (r->frontend_stopped || r->sent_ns > p->asked_ns - UNTAKEN_NS);
}

/* A connection has ended, by the other end: that is a frontend's right while it has no request, or has gone itself. */
static void connection_broken(struct connection *n, const char *how) {
    bool excused = n->process->over || n->process != n->frontend->process || !n->connected ||
                   (n->request && is_untaken(n->request));
    if (n->request && !excused)
        cluster_wrong("%s broke the connection of request %u, %.3f ms after it was sent: %s", n->frontend->name,
                      (uint32_t)(n->request - c.requests),
                      (double)(virtual_world.now_ns - n->request->sent_ns) / NS_PER_MS, how);
    if (n->request)
        request_end(n, END_BROKEN, 0);
    connection_close(n);
}

/* ---- answers ---- */

static void answer_check(const struct request *r, const char *body, size_t bytes) {
    size_t wanted = (size_t)r->items * r->width * sizeof(uint32_t);
    char name[16];
    uint32_t number = (uint32_t)(r - c.requests), runs = cluster_model(number, name), element;
    if (bytes != wanted) {
        cluster_wrong("request %u is answered with %zu bytes of %zu", number, bytes, wanted);
        return;
    }
    for (uint32_t item = 0; item < r->items; item++)
        for (uint32_t i = 0; i < r->width; i++) {
            memcpy(&element, body + ((size_t)item * r->width + i) * sizeof(element), sizeof(element));
            if (element == engine_answer(engine_element(number, item, i), runs))
                continue;
            cluster_wrong("request %u has a wrong answer: item %u is that of request %u", number, item,
                          element - engine_answer(0, runs));
            return;
        }
}

static size_t header_number(const char *head, const char *end, const char *name) {
    const char *at = memmem(head, (size_t)(end - head), name, strlen(name));
    return at ? strtoul(at + strlen(name), NULL, 10) : 0;
}

/* False: the answer is not whole yet. */
static bool answer_take(struct connection *n) {
    const char *end = n->in_bytes ? memmem(n->in, n->in_bytes, "\r\n\r\n", 4) : NULL;
    if (!end)
        return false;
    size_t body = header_number(n->in, end + 4, "\r\nContent-Length: ");
    size_t json = header_number(n->in, end + 4, "\r\nInference-Header-Content-Length: ");
    size_t whole = (size_t)(end + 4 - n->in) + body;
    if (n->in_bytes < whole)
        return false;
    struct request *r = n->request;
    int status = atoi(n->in + strlen("HTTP/1.1 "));
    if (!r)
        cluster_wrong("%s answers what nobody asked: status %d", n->frontend->name, status);
    else if (status == 200)
        answer_check(r, end + 4 + json, body - json);
    else if (status != 503 && status != 404 && !(status == 500 && cluster.partial))
        cluster_wrong("request %u is answered: %.*s", (uint32_t)(r - c.requests), (int)whole, n->in);
    if (r && virtual_world.trace && status != 200)
        virtual_trace("request %u: %.*s", (uint32_t)(r - c.requests), (int)body, end + 4);
    if (r)
        request_end(n, status == 200 ? END_GOOD : END_REFUSED, status);
    memmove(n->in, n->in + whole, n->in_bytes - whole);
    n->in_bytes -= whole;
    return true;
}

static void connection_read(struct connection *n) {
    for (;;) {
        if (n->in_room - n->in_bytes < 65536) {
            n->in_room += 262144;
            n->in = realloc(n->in, n->in_room);
            CHECK(n->in);
        }
        ssize_t got = recv(n->fd, n->in + n->in_bytes, n->in_room - n->in_bytes, 0);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            connection_broken(n, got ? strerror(errno) : "it closed");
            return;
        }
        n->in_bytes += (size_t)got;
        while (answer_take(n)) {
        }
    }
}

static void connection_write(struct connection *n) {
    while (n->out_done < n->out_bytes) {
        ssize_t sent = send(n->fd, n->out + n->out_done, n->out_bytes - n->out_done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent < 0) {
            connection_broken(n, strerror(errno));
            return;
        }
        n->out_done += (size_t)sent;
    }
    struct epoll_event event = {.events = EPOLLIN | (n->out_done < n->out_bytes ? EPOLLOUT : 0), .data.ptr = n};
    epoll_ctl(c.epoll_fd, EPOLL_CTL_MOD, n->fd, &event);
}

static void connection_event(struct connection *n, uint32_t events) {
    if (events & EPOLLOUT && !n->connected && !(events & EPOLLERR))
        n->connected = true;
    if (events & EPOLLERR && !n->connected) {
        connection_broken(n, "not connected");
        return;
    }
    if (events & EPOLLOUT)
        connection_write(n);
    if (n->used && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        connection_read(n);
}

/* ---- requests ---- */

static struct connection *connection_to(struct virtual_role *frontend) {
    struct connection *n = NULL;
    for (uint32_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *at = &c.connections[i];
        if (at->used && at->frontend == frontend && at->process == frontend->process && !at->request && at->connected)
            return at;
        n = !at->used && !n ? at : n;
    }
    if (!n)
        return NULL;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(CLUSTER_HTTP_PORT)};
    address.sin_addr = virtual_address(frontend->host);
    *n = (struct connection){.used = true, .frontend = frontend, .process = frontend->process};
    n->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(connect(n->fd, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EINPROGRESS);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = n};
    CHECK_EQ(epoll_ctl(c.epoll_fd, EPOLL_CTL_ADD, n->fd, &event), 0);
    return n;
}

static void request_write(struct connection *n, uint32_t number, const struct request *r) {
    char json[512], parameters[96] = "", model[16];
    size_t data = (size_t)r->items * r->width * sizeof(uint32_t);
    int at = 0;
    if (cluster.levels && !is_best_effort(r))
        at = snprintf(parameters, sizeof(parameters), ",\"parameters\":{\"priority\":%u", r->level);
    else if (cluster.levels)
        at = snprintf(parameters, sizeof(parameters), ",\"parameters\":{\"best_effort\":true");
    if (c.config.timeout_ns || is_best_effort(r))
        at += snprintf(parameters + at, sizeof(parameters) - (size_t)at, "%s\"timeout\":%lld",
                       at ? "," : ",\"parameters\":{", (long long)((r->deadline_ns - r->sent_ns) / NS_PER_US));
    if (at)
        strcpy(parameters + at, "}");
    int json_bytes = snprintf(json, sizeof(json),
                              "{\"inputs\":[{\"name\":\"INPUT\",\"shape\":[%u,%u],\"datatype\":\"FP32\",\"parameters\":"
                              "{\"binary_data_size\":%zu}}],\"outputs\":[{\"name\":\"OUTPUT\",\"parameters\":"
                              "{\"binary_data\":true}}]%s}",
                              r->items, r->width, data, parameters);
    cluster_model(number, model);
    free(n->out);
    n->out = malloc(1024 + data);
    CHECK(n->out);
    n->out_bytes = (size_t)snprintf(n->out, 1024,
                                    "POST /v2/models/%s/infer HTTP/1.1\r\nHost: c\r\nContent-Length: %zu\r\n"
                                    "Inference-Header-Content-Length: %d\r\n\r\n%s",
                                    model, (size_t)json_bytes + data, json_bytes, json);
    for (uint32_t item = 0; item < r->items; item++)
        for (uint32_t i = 0; i < r->width; i++, n->out_bytes += sizeof(uint32_t)) {
            uint32_t element = engine_element(number, item, i);
            memcpy(n->out + n->out_bytes, &element, sizeof(element));
        }
    n->out_done = 0;
}

static void request_send(void) {
    struct virtual_role *frontend = &cluster.roles[cluster.schedulers + virtual_below(cluster.frontends)];
    struct connection *n = cluster_lives(frontend) && frontend->link ? connection_to(frontend) : NULL;
    if (!n || c.count == REQUESTS_MAX)
        return;
    uint32_t number = c.count++;
    struct request *r = &c.requests[number];
    int64_t now_ns = virtual_world.now_ns;
    *r = (struct request){.sent_ns = now_ns,
                          .deadline_ns =
                              now_ns + (c.config.timeout_ns ? c.config.timeout_ns : cluster.slo_ms * NS_PER_MS),
                          .frontend = n->process,
                          .frontend_stopped_ns = virtual_stopped_ns(n->process),
                          .frontend_stopped = n->process->stopped,
                          .items = 1 + (uint32_t)virtual_below(c.config.items_most),
                          .width = cluster.width >> (cluster.shapes ? virtual_below(3) : 0),
                          .level = cluster.levels ? (uint32_t)virtual_below(CLUSTER_LEVELS + 1) : 0,
                          .leaves_ns = TIME_NEVER};
    bool late = cluster.chosen && !c.config.timeout_ns && !is_best_effort(r);
    r->last_ns = late ? now_ns + CLUSTER_LATE_NS : r->deadline_ns;
    if (virtual_chance(c.config.leave))
        r->leaves_ns = now_ns + virtual_between(0, cluster.slo_ms * NS_PER_MS / 10);
    n->request = r;
    c.waiting++;
    virtual_trace("request %u: %u items to %s", number, r->items, frontend->name);
    request_write(n, number, r);
    if (n->connected)
        connection_write(n);
}

/* An answer has to come by then, whatever else dies; but inputs and outputs may stand in front of slow links. */
static int64_t answer_due_ns(const struct request *r) {
    return r->last_ns + c.config.late_most_ns + virtual_behind_ns(r->frontend->host) + virtual_stopped_ns(r->frontend) -
           r->frontend_stopped_ns;
}

static void connections_look(void) {
    for (uint32_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *n = &c.connections[i];
        if (!n->used)
            continue;
        if (n->process->over && !n->request) { /* not noticed: its host is off */
            connection_close(n);
        } else if (n->request && virtual_world.now_ns > n->request->leaves_ns) {
            request_end(n, END_LEFT, 0);
            connection_close(n);
        } else if (n->request && virtual_world.now_ns > answer_due_ns(n->request)) {
            if (!n->process->over)
                cluster_wrong("request %u has no answer from %s, %.3f ms after its last moment",
                              (uint32_t)(n->request - c.requests), n->frontend->name,
                              (double)(virtual_world.now_ns - n->request->last_ns) / NS_PER_MS);
            request_end(n, END_BROKEN, 0);
            connection_close(n);
        }
    }
}

static int clients_main(void *context) {
    struct epoll_event events[EVENTS_MAX];
    int64_t next_ns = virtual_world.now_ns, look_ns = next_ns;
    (void)context;
    c.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    while (!c.ends || c.waiting > 0) {
        int64_t until_ns = next_ns < look_ns && !c.ends ? next_ns : look_ns;
        int64_t wait_ns = until_ns > virtual_world.now_ns ? until_ns - virtual_world.now_ns : 0;
        const struct timespec wait = {.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S};
        int count = epoll_pwait2(c.epoll_fd, events, EVENTS_MAX, &wait, NULL);
        for (int i = 0; i < count; i++) {
            struct connection *n = events[i].data.ptr;
            if (n->used)
                connection_event(n, events[i].events);
        }
        cluster_look();
        for (; !c.ends && virtual_world.now_ns >= next_ns;
             next_ns += (int64_t)(rng_exponential(&virtual_world.rng) * NS_PER_S / c.config.rate))
            request_send();
        if (virtual_world.now_ns >= look_ns) {
            connections_look();
            look_ns = virtual_world.now_ns + LOOK_NS;
        }
    }
    for (uint32_t i = 0; i < CONNECTIONS_MAX; i++)
        if (c.connections[i].used)
            connection_close(&c.connections[i]);
    close(c.epoll_fd);
    return 0;
}

void clients_begin(const struct clients_config *config) {
    free(c.requests);
    memset(&c, 0, sizeof(c));
    c.config = *config;
    c.requests = calloc(REQUESTS_MAX, sizeof(*c.requests));
    CHECK(c.requests);
    cluster.clients = virtual_start(cluster.clients_host, "clients", clients_main, NULL);
}

void clients_end(void) {
    c.ends = true;
}

uint32_t clients_waiting(void) {
    return c.waiting;
}

void clients_count(int64_t from_ns, int64_t to_ns, uint32_t *all, uint32_t *good) {
    *all = *good = 0;
    for (uint32_t i = 0; i < c.count; i++) {
        const struct request *r = &c.requests[i];
        if (r->sent_ns < from_ns || r->sent_ns >= to_ns || r->end == END_LEFT || is_best_effort(r))
            continue;
        (*all)++;
        *good += r->end == END_GOOD && r->ended_ns <= r->deadline_ns;
    }
}

void clients_sums(uint32_t *all, uint32_t *good, uint32_t *refused, uint32_t *broken) {
    *all = c.count;
    *good = *refused = *broken = 0;
    for (uint32_t i = 0; i < c.count; i++) {
        const struct request *r = &c.requests[i];
        *good += r->end == END_GOOD;
        *refused += r->end == END_REFUSED && r->sent_ns - r->frontend->began_ns > READY_NS;
        *broken += r->end == END_BROKEN;
    }
}
