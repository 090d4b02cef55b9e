/* metrics_endpoint.c - GET /metrics, /metrics/fine and what else a server tells of itself, by an HTTP frontend that
 * serves these pages alone. */
#include "front/http/metrics_endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
#define RECORDING_READ_S 60 /* time to read a recording; then the reader gives way to others */

struct metrics_server {
    struct frontend *frontend;
    int tcp_port;
    struct metrics_config config;
    /* the recording that is being read: one at a time, as it takes 24 MB */
    struct http_source recording, *recorded; /* source that the connection has; source behind it, NULL: none is read */
    struct http_connection *reader;          /* connection that reads the recording */
    int64_t read_since_ns;                   /* begin of that */
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
    unsigned status = !known ? 404 : !get ? 405 : live || server->config.ready(server->config.context) ? 200 : 400;
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
    text_printf(&text, "{\"error\":\"%s\"}", sentence);
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
    server->recording = (struct http_source){server->recorded->bytes, recording_more, recording_end};
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
    char *end = NULL;
    if (*rest == '/')
        seconds = strtod(rest + 1, &end);
    if ((*rest && *rest != '/') || (end && (end == rest + 1 || *end || !(seconds > 0)))) {
        refuse(c, 404, "expected " RECORDING " or " RECORDING "/SECONDS");
    } else if (!get) {
        refuse(c, 405, "it takes GET only");
    } else if (!lets_in(config->auth, c)) {
        refuse(c, 401, AUTH_NEEDED);
    } else {
        recording_send(server, c, seconds < config->recording_seconds_max ? seconds : config->recording_seconds_max);
    }
}

static void requests(const struct metrics_server *server, struct http_connection *c, bool get) {
    struct text text = {0};
    struct sy_error err;
    int status = 0;
    const char *query = c->target.length ? memchr(c->target.data, '?', c->target.length) : NULL;
    if (!get) {
        refuse(c, 405, "it takes GET only");
    } else if (!lets_in(server->config.auth, c)) {
        refuse(c, 401, AUTH_NEEDED);
    } else if ((status = server->config.requests(server->config.context, query ? query + 1 : "",
                                                 query ? c->target.length - (size_t)(query + 1 - c->target.data) : 0,
                                                 &text, &err))) {
        text.length = 0;
        json_put_error(&text, err.text);
        answer(c, (unsigned)status, &text, "application/json");
    } else {
        answer(c, 200, &text, "application/json");
    }
    text_free(&text);
}

static void page(void *context, struct http_connection *c) {
    struct metrics_server *server = context;
    bool get = c->parser.method == HTTP_GET || c->parser.method == HTTP_HEAD;
    bool fine = strcmp(c->path.data, "/metrics/fine") == 0;
    struct text text = {0};
    if (server->config.ready && strncmp(c->path.data, "/v2/health/", 11) == 0) {
        health(server, c, get);
        return;
    }
    if (server->config.ready && strncmp(c->path.data, REPOSITORY, strlen(REPOSITORY)) == 0) {
        order(server, c);
        return;
    }
    if (server->config.recording && strncmp(c->path.data, RECORDING, strlen(RECORDING)) == 0) {
        recording(server, c, get);
        return;
    }
    if (server->config.requests && strcmp(c->path.data, REQUESTS) == 0) {
        requests(server, c, get);
        return;
    }
    if (strcmp(c->path.data, "/metrics") != 0 && !fine) {
        text_put(&text, "the metrics are at /metrics\n");
        answer(c, 404, &text, "text/plain");
    } else if (!get) {
        text_put(&text, "/metrics takes GET only\n");
        answer(c, 405, &text, "text/plain");
    } else if (!lets_in(server->config.auth, c)) {
        text_put(&text, "/metrics needs a token\n");
        answer(c, 401, &text, "text/plain");
    } else {
        (fine ? server->config.render_fine : server->config.render)(server->config.context, &text);
        answer(c, text.failed ? 500 : 200, &text, "text/plain; version=0.0.4");
    }
    text_free(&text);
}

int metrics_server_start(struct metrics_server **server, const struct metrics_config *config, struct sy_error *err) {
    struct metrics_server *s = calloc(1, sizeof(*s));
    struct frontend_config frontend = {.tls = config->tls,
                                       .auth = config->auth ? config->auth : config->orders_auth,
                                       .page = page,
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
