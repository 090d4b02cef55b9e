/* virtual_clients.c - clients of the frontends, which hold each answer against what they asked, and speak HTTP; those
 * that speak gRPC are in virtual_grpc.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/util/assert.h"
#include "sim/virtual_clients.h"

#define REQUESTS_MAX    65536
#define CONNECTIONS_MAX 512
#define LOOK_NS         (20 * NS_PER_MS)
#define READY_NS        (800 * NS_PER_MS) /* from a frontend's start; its clients do not look whether it is ready */
#define UNTAKEN_NS      (5 * NS_PER_MS)
#define RUDE_LEAVE      0.2
#define RUDE_PIECES     0.3
#define RUDE_REST_NS    (100 * NS_PER_MS) /* at most */
#define SHAPES          60                /* of many */
#define LINES_BEHIND    0.3               /* requests that do not wait for the answer before theirs */
#define LINES_LAST      0.1               /* requests behind which clients send no more */
#define LINES_UNREAD    0.1               /* requests whose clients do not read */
#define LINES_UNREAD_NS (300 * NS_PER_MS) /* for so long at most */

/* Of a client, kept open for others' requests. */
struct connection {
    bool used, connected;
    int fd;
    struct virtual_role *frontend;
    struct virtual_process *process;          /* that the frontend was when it was made */
    struct request *requests[CLIENTS_BEHIND]; /* [waiting] that wait for their answers, in order */
    uint32_t waiting;
    bool last;        /* the client sends nothing behind what it has to send */
    bool closes;      /* the frontend has said that it answers no more */
    int64_t reads_ns; /* the client reads nothing before then; 0: it reads */
    char *out, *in;
    size_t out_bytes, out_done, in_bytes, in_room;
    int64_t rests_ns;   /* most from one piece to the next; 0: it is sent at once */
    size_t piece_bytes; /* what is to be sent before the next rest */
    int64_t goes_on_ns; /* end of that; 0: there is none now */
};

static struct {
    struct clients_config config;
    struct request *requests;
    uint32_t count, waiting;
    struct connection connections[CONNECTIONS_MAX];
    int epoll_fd;
    bool ends;
} c;

uint32_t request_number(const struct request *r) {
    return (uint32_t)(r - c.requests);
}

bool request_is_best_effort(const struct request *r) {
    return cluster.levels && r->level == 0;
}

int64_t request_timeout_us(const struct request *r) {
    return c.config.timeout_ns || request_is_best_effort(r) ? (r->deadline_ns - r->sent_ns) / NS_PER_US : 0;
}

void request_elements(const struct request *r, char *to) {
    for (uint32_t item = 0; item < r->items; item++)
        for (uint32_t i = 0; i < r->width; i++, to += sizeof(uint32_t)) {
            uint32_t element = engine_element(request_number(r), item, i);
            memcpy(to, &element, sizeof(element));
        }
}

void request_begins(struct request *r) {
    int64_t later_ns = virtual_world.now_ns - r->sent_ns;
    r->slow = true;
    r->deadline_ns += later_ns;
    r->last_ns += later_ns;
    r->sent_ns = virtual_world.now_ns;
    r->frontend_stopped_ns = virtual_stopped_ns(r->frontend);
    r->frontend_stopped = r->frontend->stopped;
}

/* ---- what ends a request ---- */

void request_end(struct request *r, enum request_end end, int status) {
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

/* A frontend that was asked to end need not take what was on its way then, nor wait for longer than it is told to. */
static bool is_untaken(const struct request *r) {
    const struct virtual_process *p = r->frontend;
    bool cut = cluster.cuts && virtual_world.now_ns > p->asked_ns + (int64_t)(CLUSTER_CUT_S * NS_PER_S);
    return p->asked_ns > 0 && (cut || r->frontend_stopped || r->sent_ns > p->asked_ns - UNTAKEN_NS);
}

void request_broken(struct request *r, const char *frontend, bool excused, const char *how) {
    if (!excused && !is_untaken(r))
        cluster_wrong("%s broke the connection of request %u, %.3f ms after it was sent: %s", frontend,
                      request_number(r), (double)(virtual_world.now_ns - r->sent_ns) / NS_PER_MS, how);
    request_end(r, END_BROKEN, 0);
}

static struct request *first_request(const struct connection *n) {
    return n->waiting > 0 ? n->requests[0] : NULL;
}

static struct request *first_take(struct connection *n) {
    struct request *first = n->requests[0];
    memmove(n->requests, n->requests + 1, --n->waiting * sizeof(first));
    return first;
}

/* A connection has ended, by the other end: that is a frontend's right while it has no request, or has gone itself. */
static void connection_broken(struct connection *n, const char *how) {
    bool excused = n->process->over || n->process != n->frontend->process || !n->connected;
    while (n->waiting > 0)
        request_broken(first_take(n), n->frontend->name, excused, how);
    connection_close(n);
}

/* ---- answers ---- */

void request_check(const struct request *r, const char *body, size_t bytes) {
    size_t wanted = (size_t)r->items * r->width * sizeof(uint32_t);
    char name[16];
    uint32_t number = request_number(r), runs = cluster_model(number, name), element;
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

void request_answered(struct request *r, int status, const char *answer, size_t bytes) {
    bool may_fail = cluster.partial || cluster.hangs || cluster.limited;
    if (status != 200 && status != 503 && status != 404 && !(status == 500 && may_fail))
        cluster_wrong("request %u is answered with status %d: %.*s", request_number(r), status, (int)bytes, answer);
    if (virtual_world.trace && status != 200)
        virtual_trace("request %u: %.*s", request_number(r), (int)bytes, answer);
    request_end(r, status == 200 ? END_GOOD : END_REFUSED, status);
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
    int status = atoi(n->in + strlen("HTTP/1.1 "));
    n->closes |= memmem(n->in, (size_t)(end - n->in), "\r\nConnection: close", strlen("\r\nConnection: close")) != NULL;
    size_t body = header_number(n->in, end + 4, "\r\nContent-Length: ");
    size_t json = header_number(n->in, end + 4, "\r\nInference-Header-Content-Length: ");
    size_t whole = (size_t)(end + 4 - n->in) + body;
    if (n->in_bytes < whole)
        return false;
    struct request *r = status == 100 || n->waiting == 0 ? NULL : first_take(n);
    if (!r && (status != 100 || n->waiting == 0))
        cluster_wrong("%s answers what nobody asked: status %d", n->frontend->name, status);
    else if (status == 200)
        request_check(r, end + 4 + json, body - json);
    if (r)
        request_answered(r, status, end + 4, body);
    if (r && n->waiting > 0)
        request_begins(n->requests[0]); /* its frontend has not looked at it before */
    while (n->closes && n->waiting > 0) /* another frontend may be asked */
        request_end(first_take(n), END_BROKEN, 0);
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

/* A request that is sent in pieces has its time from the last one on. */
static void piece_sent(struct connection *n) {
    int64_t now_ns = virtual_world.now_ns;
    if (n->out_done < n->out_bytes) {
        n->piece_bytes += 1 + virtual_below(n->out_bytes - n->out_done);
        n->goes_on_ns = now_ns + virtual_between(0, n->rests_ns);
    } else if (n->waiting > 0 && n->rests_ns > 0) {
        request_begins(n->requests[0]);
    }
}

static void connection_write(struct connection *n) {
    while (n->out_done < n->piece_bytes && !n->goes_on_ns) {
        ssize_t sent = send(n->fd, n->out + n->out_done, n->piece_bytes - n->out_done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent < 0) {
            connection_broken(n, strerror(errno));
            return;
        }
        n->out_done += (size_t)sent;
        if (n->out_done == n->piece_bytes)
            piece_sent(n);
    }
    if (n->last && n->out_done == n->out_bytes)
        shutdown(n->fd, SHUT_WR);
    bool full = n->out_done < n->piece_bytes && !n->goes_on_ns;
    struct epoll_event event = {.events = (n->reads_ns ? 0 : EPOLLIN) | (full ? EPOLLOUT : 0), .data.ptr = n};
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

/* `behind`: one with requests that have no answer yet will do. */
static struct connection *connection_to(struct virtual_role *frontend, bool behind) {
    struct connection *n = NULL;
    for (uint32_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *at = &c.connections[i];
        bool goes_on = at->used && at->frontend == frontend && at->process == frontend->process && at->connected &&
                       !at->last && !at->closes;
        if (goes_on && (behind ? at->waiting > 0 && at->waiting < CLIENTS_BEHIND && !at->rests_ns
                               : at->waiting == 0 && at->out_done == at->out_bytes))
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
    if (cluster.levels && !request_is_best_effort(r))
        at = snprintf(parameters, sizeof(parameters), ",\"parameters\":{\"priority\":%u", r->level);
    else if (cluster.levels)
        at = snprintf(parameters, sizeof(parameters), ",\"parameters\":{\"best_effort\":true");
    if (request_timeout_us(r) > 0)
        at += snprintf(parameters + at, sizeof(parameters) - (size_t)at, "%s\"timeout\":%lld",
                       at ? "," : ",\"parameters\":{", (long long)request_timeout_us(r));
    if (at)
        strcpy(parameters + at, "}");
    int json_bytes = snprintf(json, sizeof(json),
                              "{\"inputs\":[{\"name\":\"INPUT\",\"shape\":[%u,%u],\"datatype\":\"FP32\",\"parameters\":"
                              "{\"binary_data_size\":%zu}}],\"outputs\":[{\"name\":\"OUTPUT\",\"parameters\":"
                              "{\"binary_data\":true}}]%s}",
                              r->items, r->width, data, parameters);
    cluster_model(number, model);
    size_t unsent = n->out_bytes - n->out_done;
    char *out = malloc(unsent + 1024 + data);
    CHECK(out);
    if (unsent > 0)
        memcpy(out, n->out + n->out_done, unsent);
    free(n->out);
    n->out = out;
    n->out_bytes = unsent;
    n->out_bytes += (size_t)snprintf(n->out + unsent, 1024,
                                     "POST /v2/models/%s/infer HTTP/1.1\r\nHost: c\r\nContent-Length: %zu\r\n"
                                     "Inference-Header-Content-Length: %d\r\n\r\n%s",
                                     model, (size_t)json_bytes + data, json_bytes, json);
    size_t head_bytes = n->out_bytes;
    request_elements(r, n->out + n->out_bytes);
    n->out_bytes += data;
    n->out_done = 0;
    /* a frontend that ends need not wait for the rest of a head */
    n->piece_bytes = n->rests_ns ? head_bytes + virtual_below(n->out_bytes - head_bytes) : n->out_bytes;
}

static void request_send(void) {
    struct virtual_role *frontend = &cluster.roles[cluster.schedulers + virtual_below(cluster.frontends)];
    if (!cluster_lives(frontend) || !frontend->link)
        return;
    bool grpc = cluster.grpc && virtual_chance(0.5);
    struct connection *n = NULL;
    if (!grpc && cluster.lines && virtual_chance(LINES_BEHIND))
        n = connection_to(frontend, true);
    n = grpc || n ? n : connection_to(frontend, false);
    if ((!n && !grpc) || c.count == REQUESTS_MAX)
        return;
    uint32_t number = c.count++;
    struct request *r = &c.requests[number];
    int64_t now_ns = virtual_world.now_ns;
    *r = (struct request){.sent_ns = now_ns,
                          .deadline_ns =
                              now_ns + (c.config.timeout_ns ? c.config.timeout_ns : cluster.slo_ms * NS_PER_MS),
                          .frontend = frontend->process,
                          .frontend_stopped_ns = virtual_stopped_ns(frontend->process),
                          .frontend_stopped = frontend->process->stopped,
                          .items = 1 + (uint32_t)virtual_below(c.config.items_most),
                          .width = cluster.width >> (cluster.shapes && !cluster.many_shapes ? virtual_below(3) : 0),
                          .level = cluster.levels ? (uint32_t)virtual_below(CLUSTER_LEVELS + 1) : 0,
                          .leaves_ns = TIME_NEVER};
    if (cluster.many_shapes)
        r->width -= (uint32_t)virtual_below(cluster.width - 2 < SHAPES ? cluster.width - 2 : SHAPES);
    bool late = cluster.chosen && !c.config.timeout_ns && !request_is_best_effort(r);
    r->last_ns = late ? now_ns + CLUSTER_LATE_NS : r->deadline_ns;
    if (virtual_chance(c.config.leave))
        r->leaves_ns = now_ns + virtual_between(0, cluster.slo_ms * NS_PER_MS / 10);
    if (cluster.rude && virtual_chance(RUDE_LEAVE))
        r->leaves_ns = now_ns + virtual_between(0, cluster.slo_ms * NS_PER_MS * 5 / 4);
    bool behind = n && n->waiting > 0;
    r->slow = behind || (cluster.rude && !grpc && virtual_chance(RUDE_PIECES));
    c.waiting++;
    virtual_trace("request %u: %u items to %s%s", number, r->items, frontend->name, grpc ? " by gRPC" : "");
    if (grpc) {
        if (!grpc_send(frontend, r))
            request_end(r, END_LEFT, 0);
        return;
    }
    n->rests_ns = r->slow && !behind ? RUDE_REST_NS : 0;
    n->requests[n->waiting++] = r;
    request_write(n, number, r);
    if (cluster.lines) {
        n->last = virtual_chance(LINES_LAST);
        int64_t unread_ns = virtual_chance(LINES_UNREAD) ? virtual_between(0, LINES_UNREAD_NS) : 0;
        n->reads_ns = unread_ns ? now_ns + unread_ns : n->reads_ns;
        for (uint32_t i = 0; i < n->waiting && unread_ns; i++) {
            n->requests[i]->last_ns += unread_ns;
            n->requests[i]->slow = true;
        }
    }
    if (n->connected)
        connection_write(n);
}

/* An answer has to come by then, whatever else dies; but inputs and outputs may stand in front of slow links. */
int64_t request_due_ns(const struct request *r) {
    return r->last_ns + c.config.late_most_ns + virtual_behind_ns(r->frontend->host) + virtual_stopped_ns(r->frontend) -
           r->frontend_stopped_ns;
}

void request_unanswered(struct request *r, const char *frontend) {
    if (!r->frontend->over)
        cluster_wrong("request %u has no answer from %s, %.3f ms after its last moment", request_number(r), frontend,
                      (double)(virtual_world.now_ns - r->last_ns) / NS_PER_MS);
    request_end(r, END_BROKEN, 0);
}

static void connections_look(void) {
    for (uint32_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *n = &c.connections[i];
        if (!n->used)
            continue;
        if (n->goes_on_ns > 0 && virtual_world.now_ns >= n->goes_on_ns) {
            n->goes_on_ns = 0;
            connection_write(n);
            if (!n->used)
                continue;
        }
        if (n->reads_ns > 0 && virtual_world.now_ns >= n->reads_ns) {
            n->reads_ns = 0;
            connection_write(n);
            if (!n->used)
                continue;
        }
        const struct request *first = first_request(n);
        bool leaves = first && virtual_world.now_ns > first->leaves_ns;
        bool late = first && n->out_done == n->out_bytes && virtual_world.now_ns > request_due_ns(first);
        if (!leaves && late)
            request_unanswered(first_take(n), n->frontend->name);
        while ((leaves || late) && n->waiting > 0)
            request_end(first_take(n), END_LEFT, 0);
        if (leaves || late || (n->process->over && !first)) /* that is not noticed: its host is off */
            connection_close(n);
    }
    grpc_look();
}

static int clients_main(void *context) {
    struct epoll_event events[EVENTS_MAX];
    int64_t next_ns = virtual_world.now_ns, look_ns = next_ns;
    (void)context;
    c.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    grpc_begin(c.epoll_fd);
    while (!c.ends || c.waiting > 0) {
        int64_t until_ns = next_ns < look_ns && !c.ends ? next_ns : look_ns;
        int64_t wait_ns = until_ns > virtual_world.now_ns ? until_ns - virtual_world.now_ns : 0;
        const struct timespec wait = {.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S};
        int count = epoll_pwait2(c.epoll_fd, events, EVENTS_MAX, &wait, NULL);
        for (int i = 0; i < count; i++) {
            struct connection *n = events[i].data.ptr;
            if (!grpc_event(n, events[i].events) && n->used)
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
    grpc_end();
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
        if (r->sent_ns < from_ns || r->sent_ns >= to_ns || r->end == END_LEFT || request_is_best_effort(r) || r->slow)
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
        *refused += r->end == END_REFUSED && r->sent_ns - r->frontend->began_ns > READY_NS && !r->slow;
        *broken += r->end == END_BROKEN;
    }
}
