/* metrics_endpoint.c - GET /metrics, /metrics/fine and what else a server tells of itself, by an HTTP frontend that
 * serves these pages alone. */
#include "front/http/metrics_endpoint.h"

#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/util/decimal.h"
#include "front/http/http_state.h"
#include "front/net/auth.h"
#include "front/net/listen.h"
#include "front/request/repository_order.h"
#include "front/v2/json_put.h"

#define CONNECTIONS_MAX  64
#define IDLE_TIMEOUT_S   120
#define REPOSITORY       "/v2/repository/models/"
#define RECORDING        "/v2/symphony/recording"
#define REQUESTS         "/v2/symphony/requests"
#define STATE            "/v2/symphony/state"
#define TIMELINE         "/v2/symphony/timeline"
#define STREAMS_MAX      16 /* readers of a stream of states; each is written by itself */
#define STREAM_QUERY_MAX 512
#define STREAM_EVERY_NS  (500 * NS_PER_MS)
#define STREAM_STUCK_NS  (30 * NS_PER_S) /* time for a reader to take an event */
/* Nothing from elsewhere: neither scripts nor styles, and the page speaks with its own server alone. */
#define PAGE_POLICY                                                                                                    \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "              \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
#define RECORDING_READ_S 60 /* time to read a recording; then the reader gives way to others */

/* A reader of a stream of states. */
struct state_stream {
    struct http_source source;
    struct metrics_server *server; /* NULL: nobody reads */
    struct http_connection *connection;
    bool due;        /* an event is to be written */
    int64_t sent_ns; /* time of the last event */
    size_t length;
    char query[STREAM_QUERY_MAX];
};

struct metrics_server {
    struct frontend *frontend;
    int tcp_port;
    struct metrics_config config;
    /* the recording that is being read: one at a time, as it takes 24 MB */
    struct http_source recording, *recorded; /* source that the connection has; source behind it, NULL: none is read */
    struct http_connection *reader;          /* connection that reads the recording */
    int64_t read_since_ns;                   /* begin of that */
    struct state_stream streams[STREAMS_MAX];
};

static void answer(struct http_connection *c, unsigned status, const struct text *text, const char *type) {
    http_answer_begin(c, status);
    http_header_put(c, "Content-Type", type);
    if (status == 405)
        http_header_put(c, "Allow", strncmp(c->path.data, REPOSITORY, strlen(REPOSITORY)) == 0 ? "POST" : "GET, HEAD");
    if (status == 401)
        http_header_put(c, "WWW-Authenticate", "Bearer");
    if (status == 503)
        http_header_put(c, "Retry-After", "1");
    http_answer_send(c, text->length > 0 ? text->data : "", text->length);
}

/* Answers health paths as an HTTP frontend for clients does. */
static void health(const struct metrics_server *server, struct http_connection *c, bool get) {
    const char *what = c->path.data + 11;
    bool live = strcmp(what, "live") == 0, known = live || strcmp(what, "ready") == 0;
    const _Atomic bool *failed = server->config.failed;
    bool good = live ? !failed || !atomic_load_explicit(failed, memory_order_relaxed) /* a lone flag */
                     : known && server->config.ready(server->config.context);
    unsigned status = !known ? 404 : !get ? 405 : good ? 200 : 400;
    struct text text = {0};
    if (known && get)
        text_printf(&text, "{\"%s\":%s}", what, status == 200 ? "true" : "false");
    answer(c, status, &text, "application/json");
    text_free(&text);
}

/* Reads REPOSITORY NAME/load or NAME/unload. */
static bool order_read_path(const char *path, struct repository_order *order) {
    const char *name = path + strlen(REPOSITORY), *slash = strrchr(name, '/');
    size_t length = slash ? (size_t)(slash - name) : 0;
    if (length == 0 || length >= sizeof(order->name))
        return false;
    memcpy(order->name, name, length);
    order->name[length] = '\0';
    order->kind = strcmp(slash, "/load") == 0 ? ORDER_LOAD : ORDER_UNLOAD;
    return order->kind == ORDER_LOAD || strcmp(slash, "/unload") == 0;
}

static void refuse(struct http_connection *c, unsigned status, const char *sentence) {
    struct text text = {0};
    json_put_error(&text, sentence);
    answer(c, status, &text, "application/json");
    text_free(&text);
}

/* Tokens may be asked for on one of these pages, and not on another. */
static bool lets_in(const struct auth *auth, const struct http_connection *c) {
    return !auth || c->head.authorized;
}

static void order(const struct metrics_server *server, struct http_connection *c) {
    struct repository_order order = {.form = ORDER_JSON, .home = NULL};
    const struct text empty = {0};
    struct sy_error err;
    int status;
    if (!server->config.orders || !order_read_path(c->path.data, &order))
        refuse(c, 404,
               server->config.orders ? "expected /v2/repository/models/NAME/load or unload"
                                     : "models are loaded with --model-control-mode explicit only");
    else if (c->parser.method != HTTP_POST)
        refuse(c, 405, "it takes POST only");
    else if (!lets_in(server->config.orders_auth, c))
        refuse(c, 401, AUTH_NEEDED);
    else if (c->head.foreign)
        refuse(c, 403, HTTP_FOREIGN);
    else if (c->head.content_length > (int64_t)strlen("{}") || c->head.chunked)
        refuse(c, 400, "an order to a backend takes no parameters: the model comes from its repository");
    else if ((status = order_submit(server->config.orders, &order, &err)))
        refuse(c, (unsigned)status, err.text);
    else
        answer(c, 202, &empty, "application/json");
}

static void recording_more(struct http_source *source, struct text *out) {
    struct metrics_server *server = container_of(source, struct metrics_server, recording);
    server->recorded->more(server->recorded, out);
}

static void recording_end(struct http_source *source) {
    struct metrics_server *server = container_of(source, struct metrics_server, recording);
    server->recorded->end(server->recorded);
    server->recorded = NULL;
}

/* Answers with the last seconds, unless somebody is reading a recording. One who has for long gives way. */
static void recording_send(struct metrics_server *server, struct http_connection *c, double seconds) {
    struct sy_error err;
    int rc;
    int64_t now_ns = c->frontend->base.turn_ns;
    if (server->recorded && now_ns - server->read_since_ns > RECORDING_READ_S * NS_PER_S)
        http_connection_close(server->reader);
    if (server->recorded) {
        refuse(c, 503, "another recording is being read");
        return;
    }
    server->recorded = server->config.recording(server->config.context, seconds, &rc, &err);
    if (!server->recorded) {
        refuse(c, rc == -ENOENT ? 409 : 500, err.text);
        return;
    }
    server->recording =
        (struct http_source){.bytes = server->recorded->bytes, .more = recording_more, .end = recording_end};
    server->reader = c;
    server->read_since_ns = now_ns;
    http_answer_begin(c, 200);
    http_header_put(c, "Content-Type", "text/plain");
    http_answer_stream(c, &server->recording);
}

/* RECORDING, or RECORDING/SECONDS. */
static void recording(struct metrics_server *server, struct http_connection *c, bool get) {
    const struct metrics_config *config = &server->config;
    const char *rest = c->path.data + strlen(RECORDING);
    double seconds = config->recording_seconds;
    if (*rest && (*rest != '/' || decimal_double(rest + 1, DBL_MIN, DBL_MAX, &seconds) < 0)) {
        refuse(c, 404, "expected " RECORDING " or " RECORDING "/SECONDS");
    } else if (!get) {
        refuse(c, 405, "it takes GET only");
    } else if (!lets_in(config->auth, c)) {
        refuse(c, 401, AUTH_NEEDED);
    } else {
        recording_send(server, c, seconds < config->recording_seconds_max ? seconds : config->recording_seconds_max);
    }
}

/* The target's query, without the '?'. */
static const char *query_of(const struct http_connection *c, size_t *length) {
    const char *query = c->target.length ? memchr(c->target.data, '?', c->target.length) : NULL;
    *length = query ? c->target.length - (size_t)(query + 1 - c->target.data) : 0;
    return query ? query + 1 : "";
}

/* Whether a page of one's own may be read; if not, says why not. */
static bool may_read(const struct metrics_server *server, struct http_connection *c, bool get) {
    if (!get)
        refuse(c, 405, "it takes GET only");
    else if (!lets_in(server->config.auth, c))
        refuse(c, 401, AUTH_NEEDED);
    return get && lets_in(server->config.auth, c);
}

/* Answers with what a function of the configuration writes. */
static void answer_json(struct metrics_server *server, struct http_connection *c,
                        int (*write)(void *, const char *, size_t, struct text *, struct sy_error *)) {
    struct text text = {0};
    struct sy_error err;
    size_t length;
    const char *query = query_of(c, &length);
    int status = write(server->config.context, query, length, &text, &err);
    if (status)
        refuse(c, (unsigned)status, err.text);
    else
        answer(c, 200, &text, "application/json");
    text_free(&text);
}

/* ---- a stream of states ---- */

static void stream_more(struct http_source *source, struct text *out) {
    struct state_stream *stream = container_of(source, struct state_stream, source);
    struct metrics_server *server = stream->server;
    struct sy_error err;
    size_t before = out->length;
    if (!stream->due)
        return;
    stream->due = false;
    stream->sent_ns = stream->connection->frontend->base.turn_ns;
    text_put(out, "data: ");
    if (server->config.state(server->config.context, stream->query, stream->length, out, &err)) {
        out->length = before; /* the stream ends: the first event was written without a mistake */
        source->waits = false;
        return;
    }
    text_put(out, "\n\n");
}

static void stream_end(struct http_source *source) {
    container_of(source, struct state_stream, source)->server = NULL;
}

static void stream_begin(struct metrics_server *server, struct http_connection *c, const char *query, size_t length) {
    struct state_stream *stream = server->streams;
    while (stream < server->streams + STREAMS_MAX && stream->server)
        stream++;
    struct text text = {0};
    struct sy_error err;
    int status = length >= STREAM_QUERY_MAX ? error_set(&err, 400, "the query is too long")
                 : stream == server->streams + STREAMS_MAX
                     ? error_set(&err, 503, "as many as may read the state already do: %d", STREAMS_MAX)
                     : server->config.state(server->config.context, query, length, &text, &err);
    text_free(&text);
    if (status) {
        refuse(c, (unsigned)status, err.text);
        return;
    }
    *stream = (struct state_stream){
        .source = {.bytes = HTTP_LENGTH_UNKNOWN, .waits = true, .more = stream_more, .end = stream_end},
        .server = server,
        .connection = c,
        .due = true,
        .length = length};
    memcpy(stream->query, query, length);
    if (c->frontend->base.page_due_ns == TIME_NEVER)
        c->frontend->base.page_due_ns = c->frontend->base.turn_ns + STREAM_EVERY_NS;
    http_answer_begin(c, 200);
    http_header_put(c, "Content-Type", "text/event-stream");
    http_header_put(c, "Cache-Control", "no-store");
    http_answer_stream(c, &stream->source);
}

static int64_t streams_look(void *context, int64_t now_ns) {
    struct metrics_server *server = context;
    bool any = false;
    for (struct state_stream *stream = server->streams; stream < server->streams + STREAMS_MAX; stream++) {
        if (!stream->server)
            continue;
        stream->due = true;
        if (!http_connection_more(stream->connection) && now_ns - stream->sent_ns > STREAM_STUCK_NS)
            http_connection_close(stream->connection);
        any |= stream->server != NULL;
    }
    return any ? now_ns + STREAM_EVERY_NS : TIME_NEVER;
}

/* Whether a part of the query is `stream`, with or without a value. */
static bool wants_stream(const char *query, size_t length) {
    for (const char *end = query + length, *next; query < end; query = next + 1) {
        next = memchr(query, '&', (size_t)(end - query));
        next = next ? next : end;
        if ((size_t)(next - query) >= 6 && memcmp(query, "stream", 6) == 0 && (next == query + 6 || query[6] == '='))
            return true;
    }
    return false;
}

static void state(struct metrics_server *server, struct http_connection *c) {
    size_t length;
    const char *query = query_of(c, &length);
    if (c->parser.method == HTTP_GET && (c->head.events || wants_stream(query, length)))
        stream_begin(server, c, query, length);
    else
        answer_json(server, c, server->config.state);
}

/* ---- the others ---- */

static void timeline(struct metrics_server *server, struct http_connection *c) {
    struct sy_error err;
    int status = 500;
    size_t length;
    const char *query = query_of(c, &length);
    struct http_source *source = server->config.timeline(server->config.context, query, length, &status, &err);
    if (!source) {
        refuse(c, (unsigned)status, err.text);
        return;
    }
    http_answer_begin(c, 200);
    http_header_put(c, "Content-Type", "application/json");
    http_answer_stream(c, source);
}

/* Answers with a file for browsers. False: there is none of this path. */
static bool file(const struct metrics_server *server, struct http_connection *c, bool get) {
    const struct metrics_file *f = server->config.files, *end = f + server->config.file_count;
    while (f < end && strcmp(f->path, c->path.data) != 0)
        f++;
    if (f == end)
        return false;
    if (!get) {
        refuse(c, 405, "it takes GET only");
        return true;
    }
    http_answer_begin(c, 200);
    http_header_put(c, "Content-Type", f->type);
    http_header_put(c, "Content-Security-Policy", PAGE_POLICY);
    http_header_put(c, "X-Content-Type-Options", "nosniff");
    http_header_put(c, "Referrer-Policy", "no-referrer");
    http_header_put(c, "Cache-Control", "no-cache");
    http_answer_send(c, (const char *)f->data, f->bytes);
    return true;
}

static void page(void *context, struct http_connection *c) {
    struct metrics_server *server = context;
    const struct metrics_config *config = &server->config;
    bool get = c->parser.method == HTTP_GET || c->parser.method == HTTP_HEAD;
    const char *path = c->path.data;
    bool fine = strcmp(path, "/metrics/fine") == 0;
    struct text text = {0};
    if (config->ready && strncmp(path, "/v2/health/", 11) == 0) {
        health(server, c, get);
    } else if (config->takes_orders && strncmp(path, REPOSITORY, strlen(REPOSITORY)) == 0) {
        order(server, c);
    } else if (config->recording && strncmp(path, RECORDING, strlen(RECORDING)) == 0) {
        recording(server, c, get);
    } else if (config->requests && strcmp(path, REQUESTS) == 0) {
        if (may_read(server, c, get))
            answer_json(server, c, config->requests);
    } else if (config->state && strcmp(path, STATE) == 0) {
        if (may_read(server, c, get))
            state(server, c);
    } else if (config->timeline && strcmp(path, TIMELINE) == 0) {
        if (may_read(server, c, get))
            timeline(server, c);
    } else if (strcmp(path, "/metrics") != 0 && !fine) {
        if (file(server, c, get))
            return;
        text_put(&text, "the metrics are at /metrics\n");
        answer(c, 404, &text, "text/plain");
    } else if (!get) {
        text_put(&text, "/metrics takes GET only\n");
        answer(c, 405, &text, "text/plain");
    } else if (!lets_in(config->auth, c)) {
        text_put(&text, "/metrics needs a token\n");
        answer(c, 401, &text, "text/plain");
    } else {
        (fine ? config->render_fine : config->render)(config->context, &text);
        if (text.failed)
            refuse(c, 500, "out of memory for the metrics");
        else
            answer(c, 200, &text, "text/plain; version=0.0.4");
    }
    text_free(&text);
}

int metrics_server_start(struct metrics_server **server, const struct metrics_config *config, struct sy_error *err) {
    struct metrics_server *s = calloc(1, sizeof(*s));
    struct frontend_config frontend = {.tls = config->tls,
                                       .auth = config->auth ? config->auth : config->orders_auth,
                                       .page = page,
                                       .page_look = streams_look,
                                       .page_context = s,
                                       .requests_max = 1,
                                       .connections_max = CONNECTIONS_MAX,
                                       .idle_timeout_s = IDLE_TIMEOUT_S};
    if (!s)
        return error_set(err, -ENOMEM, "no memory for the metrics endpoint");
    s->config = *config;
    int rc = listen_open(config->host, config->tcp_port, "metrics", &frontend.listen_fd, &s->tcp_port, err);
    if (rc == 0) {
        rc = frontend_start(&s->frontend, &http_protocol, &frontend, err);
        close(frontend.listen_fd); /* the frontend has duplicated it */
    }
    if (rc < 0)
        free(s);
    else
        *server = s;
    return rc;
}

int metrics_server_port(const struct metrics_server *server) {
    return server->tcp_port;
}

void metrics_server_stop(struct metrics_server *server) {
    if (!server)
        return;
    frontend_stop(server->frontend);
    free(server);
}
