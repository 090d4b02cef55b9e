/* load.c - puts a load on a server: many connections driven by one thread.
 *
 * A request takes 24 bytes in the backlog, then belongs to one connection until it is answered. The bytes to send were
 * made before (payload.h): a request is one send(2), and an answer usually one recv(2). No memory is allocated for a
 * request. */
#include "lab/load/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/files.h"
#include "core/util/assert.h"
#include "lab/load/channel.h"
#include "lab/load/idle_pool.h"
#include "lab/load/reply.h"

#define READ_BYTES     (256 << 10)
#define EVENTS_MAX     256
#define CONNECT_NS     (5 * NS_PER_S) /* time for the first connections of a run */
#define REPLACE_NS     NS_PER_S
#define RETRY_PAUSE_NS (10 * NS_PER_MS) /* pause of a closed loop after a failed connection */
/* A sleeping thread wakes 50 to 150 us late. At rates at which polling costs at most a tenth of a core, sleeps
 * therefore end early and the thread polls for the rest: a request is sent within a microsecond of the time at which it
 * is due. */
#define WAKE_EARLY_NS     (150 * NS_PER_US)
#define WAKE_EARLY_SHARE  0.1
#define OPENING_MAX       64
#define DESCRIPTORS_SPARE 32
/* Bad rate at which a trial is given up: 1 %, and a margin since the number of requests is only estimated. */
#define GIVE_UP_RATE  0.015
#define GIVE_UP_COUNT 10

struct request {
    int64_t due_ns;
    int64_t slo_ns; /* SLO; 0: none */
    uint32_t model;
    bool counted; /* whether the request counts; false: it is due during the warm-up */
    bool retried;
};

enum connection_state { CONNECTION_CLOSED, CONNECTION_OPENING, CONNECTION_IDLE, CONNECTION_BUSY };

struct connection {
    enum connection_state state;
    struct channel channel;
    struct request request; /* request under way, while the connection is busy */
    const struct payload *payload;
    int64_t started_ns; /* time at which the request was handed to the kernel */
    size_t sent;
    uint64_t answers;
    int64_t opened_ns;
    struct reply reply;
};

/* Requests that wait for a connection: a ring that doubles when full. */
struct backlog {
    struct request *requests;
    uint32_t first, count, capacity; /* capacity is a power of two */
};

struct load {
    struct load_config config;
    int epoll_fd;
    bool no_pwait2; /* whether the kernel has no epoll_pwait2(): it is older than 5.11 */
    struct connection *connections;
    uint32_t *closed; /* stack of free indexes in connections */
    uint32_t closed_count, opening_count, busy_count;
    struct idle_pool *idle;
    struct backlog backlog;
    uint32_t *payload_next; /* [models_count] */
    char *bytes;            /* [READ_BYTES] bytes just received */

    /* fields of the trial under way */
    const struct load_trial *trial;
    struct load_result *result;
    struct arrivals arrivals;
    struct replay replay; /* source of requests with a workload, instead of `arrivals` */
    struct rng rng;       /* random numbers of a closed loop, for the model of the next request */
    struct arrival next;
    int64_t start_ns, count_ns, end_ns; /* requests due in [count_ns, end_ns) are counted */
    int64_t pause_ns;                   /* time before which a closed loop sends no new request */
    int64_t wake_early_ns;
    struct load_progress second;
    struct latency second_latency;
    struct sy_error failure; /* sentence about the last connection that could not be opened */
};

/* ---- backlog ---- */

static void backlog_grow(struct backlog *b) {
    uint32_t capacity = b->capacity ? b->capacity * 2 : 1024;
    struct request *grown = malloc(capacity * sizeof(*grown));
    CHECK_MEMORY(grown);
    for (uint32_t i = 0; i < b->count; i++)
        grown[i] = b->requests[(b->first + i) & (b->capacity - 1)];
    free(b->requests);
    *b = (struct backlog){.requests = grown, .count = b->count, .capacity = capacity};
}

static void backlog_append(struct backlog *b, const struct request *request) {
    if (b->count == b->capacity)
        backlog_grow(b);
    b->requests[(b->first + b->count++) & (b->capacity - 1)] = *request;
}

static void backlog_prepend(struct backlog *b, const struct request *request) {
    if (b->count == b->capacity)
        backlog_grow(b);
    b->first = (b->first - 1) & (b->capacity - 1);
    b->requests[b->first] = *request;
    b->count++;
}

static struct request backlog_take(struct backlog *b) {
    struct request request = b->requests[b->first];
    b->first = (b->first + 1) & (b->capacity - 1);
    b->count--;
    return request;
}

/* Takes the oldest waiting request, unless that is late already: then the newest, which may still be in time. Otherwise
 * a client that was out of connections once would send only late requests from then on, whatever the server does. */
static struct request backlog_choose(struct backlog *b, int64_t now_ns) {
    const struct request *oldest = &b->requests[b->first];
    if (oldest->slo_ns == 0 || now_ns - oldest->due_ns <= oldest->slo_ns)
        return backlog_take(b);
    b->count--;
    return b->requests[(b->first + b->count) & (b->capacity - 1)];
}

/* ---- accounting ---- */

/* Keeps the first of a kind of answer, on one line. */
static void answer_note(char *text, size_t size, const struct reply *reply) {
    if (text[0])
        return;
    int length = snprintf(text, size, "%d %.*s", reply->status, (int)reply->text_length, reply->text);
    for (int i = 0; i < length && (size_t)i < size - 1; i++)
        if ((unsigned char)text[i] < ' ')
            text[i] = ' ';
}

static void bad_check(struct load *load, const struct request *request) {
    const struct load_model_stats *m = &load->result->models[request->model];
    const struct load_trial *t = load->trial;
    if (!t->give_up || t->closed || load->result->gave_up)
        return;
    double expected = t->rate_rps * t->seconds * load->config.models[request->model].weight;
    double bad = (double)(m->late + m->refused + m->errors);
    load->result->gave_up = bad > GIVE_UP_RATE * expected + GIVE_UP_COUNT;
}

static void request_answered(struct load *load, const struct request *request, const struct reply *reply,
                             int64_t started_ns, int64_t now_ns) {
    struct load_model_stats *m = &load->result->models[request->model];
    int64_t latency_ns = now_ns - request->due_ns, slo_ns = request->slo_ns;
    bool ok = reply->status == 200, good = ok && (!slo_ns || latency_ns <= slo_ns);
    load->second.good += good;
    load->second.bad += !good;
    load->second.refused += reply->status == 503;
    if (ok) {
        latency_add(&load->second_latency, latency_ns);
        latency_add(&m->wire, now_ns - started_ns);
        m->wire_in_time += !slo_ns || now_ns - started_ns <= slo_ns;
    }
    if (!request->counted)
        return;
    if (ok) {
        latency_add(&m->latency, latency_ns);
        m->good += good;
        m->late += !good;
    } else if (reply->status == 503) {
        histogram_add(&m->refusal, latency_ns);
        m->refused++;
        answer_note(m->first_refusal, sizeof(m->first_refusal), reply);
    } else {
        m->errors++;
        answer_note(m->first_error, sizeof(m->first_error), reply);
    }
    if (!good)
        bad_check(load, request);
}

static void request_failed(struct load *load, const struct request *request, const char *why) {
    struct load_model_stats *m = &load->result->models[request->model];
    load->second.bad++;
    load->pause_ns = clock_now_ns() + RETRY_PAUSE_NS;
    if (!request->counted)
        return;
    m->errors++;
    if (!m->first_error[0])
        snprintf(m->first_error, sizeof(m->first_error), "%s", why);
    bad_check(load, request);
}

static void request_unanswered(struct load *load, const struct request *request, int64_t now_ns) {
    if (!request->counted)
        return;
    struct load_model_stats *m = &load->result->models[request->model];
    m->unanswered++;
    latency_add(&m->latency, now_ns - request->due_ns);
}

/* ---- connections ---- */

static uint32_t connections_open(const struct load *load) {
    return load->config.connections_max - load->closed_count;
}

static uint32_t connection_number(const struct load *load, const struct connection *c) {
    return (uint32_t)(c - load->connections);
}

static void connection_close(struct load *load, struct connection *c) {
    load->opening_count -= c->state == CONNECTION_OPENING;
    load->busy_count -= c->state == CONNECTION_BUSY;
    idle_pool_remove(load->idle, connection_number(load, c));
    channel_close(&c->channel);
    c->state = CONNECTION_CLOSED;
    load->closed[load->closed_count++] = connection_number(load, c);
}

static void connection_rest(struct load *load, struct connection *c) {
    bool used = c->state == CONNECTION_BUSY;
    load->opening_count -= c->state == CONNECTION_OPENING;
    load->busy_count -= used;
    c->state = CONNECTION_IDLE;
    idle_pool_put(load->idle, connection_number(load, c), used);
}

/* Starts to open one more connection. 0 or -errno. */
static int connection_open(struct load *load) {
    struct connection *c = &load->connections[load->closed[load->closed_count - 1]];
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    int rc = channel_open(&c->channel, load->config.server);
    if (rc)
        return rc;
    if (epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, c->channel.fd, &event)) {
        rc = -errno;
        channel_close(&c->channel);
        return rc;
    }
    load->closed_count--;
    load->opening_count++;
    c->state = CONNECTION_OPENING;
    c->answers = 0;
    c->opened_ns = clock_now_ns();
    if (load->result->connections < connections_open(load))
        load->result->connections = connections_open(load);
    return 0;
}

/* The connection cannot be used any more (rc 0: closed; -EBADMSG), and its request was not answered. A kept-alive
 * connection that the server closes just when it is used again is an ordinary race, so that request gets a second
 * chance on another connection. */
static void connection_fail(struct load *load, struct connection *c, int rc) {
    bool busy = c->state == CONNECTION_BUSY;
    struct sy_error why;
    channel_explain(&c->channel, rc, &why);
    bool stale = busy && c->answers && !c->reply.begun && !c->request.retried;
    connection_close(load, c);
    if (stale) {
        c->request.retried = true;
        backlog_prepend(&load->backlog, &c->request);
    } else if (busy) {
        request_failed(load, &c->request,
                       rc == 0          ? "the server closed the connection"
                       : rc == -EBADMSG ? "not an HTTP/1 answer"
                                        : why.text);
    }
}

/* Sends the rest of the request. */
static void connection_write(struct load *load, struct connection *c) {
    while (c->sent < c->payload->length) {
        ssize_t n = channel_send(&c->channel, c->payload->bytes + c->sent, c->payload->length - c->sent);
        if (n >= 0) {
            c->sent += (size_t)n;
            continue;
        }
        /* -EAGAIN: goes on at the next EPOLLOUT; closed: an answer may be waiting that says why, and the event that
         * comes with it decides */
        if (n != -EAGAIN && n != -EPIPE && n != -ECONNRESET)
            connection_fail(load, c, (int)n);
        return;
    }
}

static void connection_answered(struct load *load, struct connection *c, bool more_bytes) {
    request_answered(load, &c->request, &c->reply, c->started_ns, clock_now_ns());
    c->answers++;
    bool reusable = c->reply.keep_alive && !more_bytes && c->sent == c->payload->length;
    if (reusable)
        connection_rest(load, c);
    else
        connection_close(load, c);
}

/* Receives until the socket is empty, since events are edge-triggered. */
static void connection_read(struct load *load, struct connection *c, bool hung_up) {
    for (;;) {
        ssize_t n = channel_receive(&c->channel, load->bytes, READ_BYTES);
        if (n == -EAGAIN)
            return;
        if (c->state != CONNECTION_BUSY) { /* closed by the server, or bytes nobody asked for */
            /* An idle connection that the server closed, as many do after some seconds, is replaced at once: a request
             * that had to connect first would be slower. A connection that lived only for a moment is not replaced, as
             * that could go on for ever. */
            bool replace =
                clock_now_ns() - c->opened_ns > REPLACE_NS && connections_open(load) <= load->config.connections;
            connection_close(load, c);
            if (replace)
                connection_open(load);
            return;
        }
        if (n <= 0) {
            if (n == 0 && reply_end(&c->reply))
                connection_answered(load, c, true);
            else
                connection_fail(load, c, (int)n);
            return;
        }
        size_t taken = reply_feed(&c->reply, load->bytes, (size_t)n);
        if (c->reply.state == REPLY_BROKEN) {
            connection_fail(load, c, -EBADMSG);
            return;
        }
        if (c->reply.state == REPLY_DONE) {
            connection_answered(load, c, taken < (size_t)n || hung_up);
            return;
        }
        if (n < READ_BYTES && !hung_up && !c->channel.session)
            return; /* the socket is empty; new bytes give a new event */
    }
}

static void connection_opened(struct load *load, struct connection *c, uint32_t events) {
    int rc = channel_connected(&c->channel);
    rc = rc ? rc : events & EPOLLOUT ? channel_handshake(&c->channel) : -EAGAIN;
    if ((rc == 0 || rc == -EAGAIN) && (events & (EPOLLRDHUP | EPOLLHUP))) /* accepted and closed at once */
        rc = -ECONNRESET;
    if (rc == 0)
        connection_rest(load, c);
    if (rc == 0 || rc == -EAGAIN)
        return;
    channel_explain(&c->channel, rc, &load->failure);
    connection_close(load, c);
    if (load->backlog.count) { /* the request it was opened for fails with it */
        struct request request = backlog_take(&load->backlog);
        request_failed(load, &request, load->failure.text);
    }
}

static void connection_event(struct load *load, struct connection *c, uint32_t events) {
    if (c->state == CONNECTION_OPENING) {
        connection_opened(load, c, events);
        return;
    }
    if (c->state == CONNECTION_BUSY && (events & EPOLLOUT))
        connection_write(load, c);
    if (c->state != CONNECTION_CLOSED && (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
        connection_read(load, c, events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
}

/* ---- requests ---- */

/* Gives waiting requests to idle connections. */
static void backlog_serve(struct load *load) {
    while (load->backlog.count && idle_pool_count(load->idle)) {
        struct request request = backlog_choose(&load->backlog, clock_now_ns());
        struct connection *c = &load->connections[idle_pool_take(load->idle)];
        const struct load_model *model = &load->config.models[request.model];
        uint32_t *turn = &load->payload_next[request.model];
        c->state = CONNECTION_BUSY;
        load->busy_count++;
        c->request = request;
        c->payload = &model->payloads[*turn];
        *turn = *turn + 1 < model->payloads_count ? *turn + 1 : 0;
        c->sent = 0;
        reply_init(&c->reply);
        c->started_ns = clock_now_ns();
        if (request.counted && !request.retried)
            latency_add(&load->result->send_lag, c->started_ns - request.due_ns);
        connection_write(load, c);
    }
}

/* Connections are opened for requests that wait, but only once all that has been received is handled, and a few at a
 * time. Otherwise a client that was held up for a moment would open thousands of connections, although answers that
 * free its connections are ready to be read. */
static bool connections_wanted(const struct load *load) {
    return load->backlog.count > load->opening_count && load->closed_count && load->opening_count < OPENING_MAX;
}

static void request_issue(struct load *load, const struct arrival *arrival) {
    uint32_t model = arrival->model;
    struct request request = {.due_ns = arrival->due_ns,
                              .slo_ns = arrival->slo_ns ? arrival->slo_ns : load->config.models[model].slo_ns,
                              .model = model,
                              .counted = arrival->due_ns >= load->count_ns};
    load->result->models[model].offered += request.counted;
    load->result->waited += request.counted && !idle_pool_count(load->idle);
    load->second.offered++;
    backlog_append(&load->backlog, &request);
    backlog_serve(load);
}

static uint32_t model_draw(struct load *load) {
    double u = rng_uniform(&load->rng);
    uint32_t i = 0;
    for (; i + 1 < load->config.models_count && u >= load->config.models[i].weight; i++)
        u -= load->config.models[i].weight;
    return i;
}

/* The next request of an open loop. */
static void next_draw(struct load *load) {
    if (!load->trial->workload)
        load->next = arrivals_next(&load->arrivals);
    else if (!replay_next(&load->replay, &load->next))
        load->next = (struct arrival){.due_ns = TIME_NEVER};
}

/* Sets up an open loop's arrivals. */
static int arrivals_begin(struct load *load, const struct load_trial *trial) {
    uint32_t count = load->config.models_count;
    if (trial->workload)
        return replay_init(&load->replay, trial->workload, load->start_ns);
    double *weights = calloc(count, sizeof(*weights));
    for (uint32_t i = 0; weights && i < count; i++)
        weights[i] = load->config.models[i].weight;
    int rc = weights ? arrivals_init(&load->arrivals, &trial->arrivals, trial->rate_rps, weights, count, trial->seed,
                                     load->start_ns)
                     : -ENOMEM;
    free(weights);
    return rc;
}

/* Issues the requests that are due. */
static void requests_issue(struct load *load, int64_t now_ns) {
    if (!load->trial->closed) {
        while (load->next.due_ns <= now_ns && load->next.due_ns < load->end_ns) {
            request_issue(load, &load->next);
            next_draw(load);
        }
        return;
    }
    while (load->busy_count + load->backlog.count < load->trial->closed && now_ns < load->end_ns &&
           now_ns >= load->pause_ns)
        request_issue(load, &(struct arrival){.due_ns = now_ns, .model = model_draw(load)});
}

/* ---- the loop ---- */

/* Waits for events until `until_ns`. Fallback of kernels before 5.11: whole milliseconds, then spinning. */
static int events_wait(struct load *load, struct epoll_event *events, int64_t until_ns) {
    int64_t wait_ns = load->config.spin ? 0 : until_ns - load->wake_early_ns - clock_now_ns();
    wait_ns = wait_ns > 0 ? wait_ns : 0;
    if (!load->no_pwait2) {
        struct timespec timeout = {.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S};
        int n = epoll_pwait2(load->epoll_fd, events, EVENTS_MAX, &timeout, NULL);
        if (n >= 0 || errno != ENOSYS)
            return n;
        load->no_pwait2 = true;
    }
    return epoll_wait(load->epoll_fd, events, EVENTS_MAX, (int)(wait_ns / NS_PER_MS));
}

/* Handles events and due requests until `until_ns` at the latest. */
static void loop_step(struct load *load, int64_t until_ns) {
    struct epoll_event events[EVENTS_MAX];
    int n = events_wait(load, events, connections_wanted(load) ? 0 : until_ns);
    for (int i = 0; i < n; i++) {
        connection_event(load, events[i].data.ptr, events[i].events);
        backlog_serve(load);
        if (load->trial && !load->trial->closed && load->next.due_ns < load->end_ns)
            requests_issue(load, clock_now_ns()); /* a long list of events must not make requests late */
    }
    while (n < EVENTS_MAX && connections_wanted(load)) {
        int rc = connection_open(load);
        if (rc) {
            struct request request = backlog_take(&load->backlog);
            request_failed(load, &request, strerror(-rc));
        }
    }
}

/* Opens the first connections; waits until all have connected. */
static int connections_prepare(struct load *load, uint32_t wanted, struct sy_error *err) {
    wanted = wanted < load->config.connections_max ? wanted : load->config.connections_max;
    int rc = 0;
    while (!rc && connections_open(load) < wanted)
        rc = connection_open(load);
    int64_t deadline_ns = clock_now_ns() + CONNECT_NS; /* starting thousands of them may take longer than that */
    while (!rc && load->opening_count && clock_now_ns() < deadline_ns)
        loop_step(load, deadline_ns);
    if (idle_pool_count(load->idle))
        return 0;
    if (!rc && load->opening_count)
        return error_set(err, -ETIMEDOUT, "cannot open a connection to %s: none of %u was up after %d s",
                         load->config.server->authority, load->opening_count, (int)(CONNECT_NS / NS_PER_S));
    return error_set(err, rc ? rc : -ECONNREFUSED, "cannot open a connection to %s: %.400s",
                     load->config.server->authority, rc ? strerror(-rc) : load->failure.text);
}

static void progress_report(struct load *load, int64_t now_ns, void (*progress)(void *, const struct load_progress *),
                            void *context) {
    struct load_progress *s = &load->second;
    s->elapsed_s = (double)(now_ns - load->start_ns) / 1e9;
    s->total_s = (double)(load->end_ns - load->start_ns) / 1e9;
    s->warming = now_ns < load->count_ns;
    s->p99_ns = latency_quantile_ns(&load->second_latency, 0.99);
    s->outstanding = load->busy_count + load->backlog.count;
    s->connections = connections_open(load);
    if (progress)
        progress(context, s);
    *s = (struct load_progress){0};
    if (load->second_latency.count)
        load->second_latency = (struct latency){0};
}

int load_run(struct load *load, const struct load_trial *trial, struct load_result *result,
             void (*progress)(void *context, const struct load_progress *now), void *context, struct sy_error *err) {
    memset(result->models, 0, load->config.models_count * sizeof(*result->models));
    *result = (struct load_result){.models = result->models};
    load->result = result;
    load->trial = NULL;
    uint32_t wanted = trial->closed > load->config.connections ? trial->closed : load->config.connections;
    int rc = connections_prepare(load, wanted, err);
    if (rc)
        return rc;
    result->connections = connections_open(load);
    load->start_ns = clock_now_ns();
    load->count_ns = load->start_ns + (int64_t)(trial->warmup_s * 1e9);
    load->end_ns = load->count_ns + (int64_t)(trial->seconds * 1e9);
    load->pause_ns = 0;
    rng_seed(&load->rng, trial->seed);
    idle_pool_seed(load->idle, trial->seed);
    load->next = (struct arrival){.due_ns = TIME_NEVER};
    if (!trial->closed && (rc = arrivals_begin(load, trial)))
        return error_set(err, rc, "out of memory");
    load->trial = trial;
    if (!trial->closed)
        next_draw(load);
    bool seldom = !trial->closed && trial->rate_rps * WAKE_EARLY_NS < WAKE_EARLY_SHARE * NS_PER_S;
    load->wake_early_ns = seldom ? WAKE_EARLY_NS : 0;
    load->second = (struct load_progress){0};
    load->second_latency = (struct latency){0};

    int64_t grace_ns = (int64_t)(trial->grace_s * 1e9), tick_ns = load->start_ns + NS_PER_S;
    for (;;) {
        int64_t now_ns = clock_now_ns();
        requests_issue(load, now_ns);
        int stop = load->config.stop ? *load->config.stop : 0;
        result->interrupted |= stop > 0;
        if (result->interrupted || result->gave_up) {
            if (now_ns < load->end_ns)
                load->end_ns = now_ns;
            if (now_ns < load->count_ns)
                load->count_ns = now_ns;
        }
        if (now_ns >= tick_ns) {
            progress_report(load, now_ns, progress, context);
            tick_ns += NS_PER_S;
        }
        bool outstanding = load->busy_count + load->backlog.count > 0;
        if (now_ns >= load->end_ns && (!outstanding || stop > 1 || now_ns >= load->end_ns + grace_ns))
            break;
        int64_t until_ns = now_ns < load->end_ns ? load->end_ns : load->end_ns + grace_ns;
        until_ns = until_ns < tick_ns ? until_ns : tick_ns;
        if (load->next.due_ns < load->end_ns && load->next.due_ns < until_ns)
            until_ns = load->next.due_ns;
        if (load->pause_ns > now_ns && load->pause_ns < until_ns)
            until_ns = load->pause_ns;
        loop_step(load, until_ns);
    }
    int64_t now_ns = clock_now_ns();
    while (load->backlog.count) {
        struct request request = backlog_take(&load->backlog);
        request_unanswered(load, &request, now_ns);
    }
    for (uint32_t i = 0; load->busy_count && i < load->config.connections_max; i++) {
        struct connection *c = &load->connections[i];
        if (c->state == CONNECTION_BUSY) {
            request_unanswered(load, &c->request, now_ns);
            connection_close(load, c);
        }
    }
    result->seconds = (double)(load->end_ns - load->count_ns) / 1e9;
    arrivals_free(&load->arrivals);
    replay_free(&load->replay);
    load->trial = NULL;
    return 0;
}

/* ---- life ---- */

uint32_t load_connections_allowed(uint32_t wanted) {
    uint64_t allowed = files_allow((uint64_t)wanted + DESCRIPTORS_SPARE);
    if (allowed >= (uint64_t)wanted + DESCRIPTORS_SPARE)
        return wanted;
    if (allowed > 2 * DESCRIPTORS_SPARE)
        return (uint32_t)allowed - DESCRIPTORS_SPARE;
    return wanted < DESCRIPTORS_SPARE ? wanted : DESCRIPTORS_SPARE;
}

struct load *load_create(const struct load_config *config, struct sy_error *err) {
    struct load *load = calloc(1, sizeof(*load));
    if (!load)
        goto err_memory;
    load->config = *config;
    load->config.connections_max = load_connections_allowed(config->connections_max);
    load->idle = idle_pool_create(config->reuse, load->config.connections_max, config->connections);
    load->connections = calloc(load->config.connections_max, sizeof(*load->connections));
    load->closed = calloc(load->config.connections_max, sizeof(*load->closed));
    load->payload_next = calloc(config->models_count, sizeof(*load->payload_next));
    load->bytes = malloc(READ_BYTES);
    load->epoll_fd = -1;
    if (!load->idle || !load->connections || !load->closed || !load->payload_next || !load->bytes)
        goto err_memory;
    load->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (load->epoll_fd < 0) {
        error_set(err, -errno, "cannot watch connections: %s", strerror(errno));
        goto err_free;
    }
    for (uint32_t i = load->config.connections_max; i-- > 0;)
        load->closed[load->closed_count++] = i;
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* the default lets every sleep end 50 us late */
    return load;
err_memory:
    error_set(err, -ENOMEM, "out of memory for %u connections", config->connections_max);
err_free:
    load_free(load);
    return NULL;
}

void load_free(struct load *load) {
    if (!load)
        return;
    for (uint32_t i = 0; load->connections && i < load->config.connections_max; i++)
        if (load->connections[i].state != CONNECTION_CLOSED)
            channel_close(&load->connections[i].channel);
    if (load->epoll_fd >= 0)
        close(load->epoll_fd);
    idle_pool_free(load->idle);
    free(load->connections);
    free(load->closed);
    free(load->payload_next);
    free(load->bytes);
    free(load->backlog.requests);
    free(load);
}

int load_result_init(struct load_result *result, uint32_t models_count) {
    *result = (struct load_result){.models = calloc(models_count, sizeof(*result->models))};
    return result->models ? 0 : -ENOMEM;
}

void load_result_free(struct load_result *result) {
    free(result->models);
    *result = (struct load_result){0};
}

bool load_result_held(const struct load_result *result, uint32_t models_count) {
    for (uint32_t i = 0; i < models_count; i++)
        if ((double)result->models[i].good < 0.99 * (double)result->models[i].offered)
            return false;
    return true;
}
