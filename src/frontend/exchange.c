/* exchange.c - an HTTP request from its first header to its answer. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "frontend/http_headers.h"
#include "frontend/http_state.h"
#include "frontend/infer_parse.h"
#include "frontend/json_put.h"
#include "frontend/repository_order.h"

#define ALIGNMENT          64 /* of the first binary tensor behind the JSON */
#define CHUNKED_ROOM       ((size_t)4096)
#define FIRST_ROOM         ((size_t)1 << 20) /* more only as it is sent: an announcement alone must not take memory */
#define SWALLOW_BYTES_MAX  (256LL << 20)
#define STRANGER_BYTES_MAX (1LL << 20) /* the same of clients without a token */

/* A request whose answer is known before its body is read: the body is swallowed first, so that the client, which is
 * still sending, reads the answer and keeps its connection. These marks stand in the place of its exchange. */
enum verdict {
    VERDICT_ROUTE,
    VERDICT_UNAUTHORIZED,
    VERDICT_TOO_LARGE,
    VERDICT_BUSY,
    VERDICT_MEMORY,
    VERDICT_ENCODING,
    VERDICT_COUNT
};
static const char verdict_marks[VERDICT_COUNT];

static bool is_verdict(const void *exchange) {
    const char *mark = exchange;
    return mark >= verdict_marks && mark < verdict_marks + VERDICT_COUNT;
}

static struct client *client_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static struct repository_desk *desk_of(const struct http_frontend *f, enum v2_kind kind) {
    return kind == V2_LOAD || kind == V2_UNLOAD ? f->config.desk : NULL;
}

static uint64_t body_bytes_max(const struct http_frontend *f, enum v2_kind kind) {
    return kind == V2_INFER || desk_of(f, kind) ? f->config.body_bytes_max : SERVICE_BYTES_MAX;
}

/* ---- answers ---- */

static enum MHD_Result respond(struct http_frontend *f, struct MHD_Connection *connection, unsigned status,
                               struct MHD_Response *response, size_t bytes, bool close_connection) {
    if (!response)
        return MHD_NO;
    client_does(client_of(connection), CLIENT_ANSWER, f->turn_ns, bytes);
    if (close_connection || f->quiesced || atomic_load_explicit(f->config.draining, memory_order_relaxed))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    frontend_turn_again(f, TURNS_FOR_ANSWER);
    counter_add(&f->statuses[status < HTTP_STATUS_MAX ? status : 0], 1);
    return result;
}

/* Sends an answer of v2.c; takes its text. */
static enum MHD_Result respond_v2(struct http_frontend *f, struct MHD_Connection *connection, struct v2_answer *answer,
                                  bool close_connection) {
    size_t bytes = answer->text.length;
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, answer->text.data, MHD_RESPMEM_MUST_COPY);
    if (response && answer->text.length > 0)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    if (response && answer->allow)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
    if (response && answer->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (response && answer->retry)
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    text_free(&answer->text);
    return respond(f, connection, answer->status, response, bytes, close_connection);
}

static struct v2_server server_now(const struct http_frontend *f) {
    /* acquire: with who sets them, after what they speak of */
    return (struct v2_server){.models = f->loop.models,
                              .name = f->config.name,
                              .takes_orders = f->config.desk,
                              .ready = atomic_load_explicit(f->config.ready, memory_order_acquire),
                              .draining = atomic_load_explicit(f->config.draining, memory_order_acquire),
                              .statistics = f->config.statistics,
                              .shared = f->config.shared};
}

static enum MHD_Result respond_route(struct http_frontend *f, struct MHD_Connection *connection,
                                     const struct v2_route *route) {
    struct v2_answer answer = {0};
    struct v2_server server = server_now(f);
    if (route->kind == V2_INFER)
        v2_infer_admit(&answer, route, f->loop.models);
    else
        v2_answer(&answer, route, &server, NULL, 0);
    return respond_v2(f, connection, &answer, false);
}

static enum MHD_Result respond_verdict(struct http_frontend *f, struct MHD_Connection *connection, enum verdict verdict,
                                       const char *url, const char *method) {
    struct v2_answer answer = {0};
    struct v2_route route;
    switch (verdict) {
    case VERDICT_UNAUTHORIZED:
        v2_error(&answer, 401, "a token is needed: Authorization: Bearer TOKEN, or X-Api-Key: TOKEN");
        break;
    case VERDICT_TOO_LARGE:
        v2_route(&route, f->loop.models, method, url);
        v2_error(&answer, 413, "the body is larger than %" PRIu64 " bytes", body_bytes_max(f, route.kind));
        break;
    case VERDICT_BUSY:
        answer.retry = true;
        v2_error(&answer, 503, "the server has %u requests in flight and takes no more", f->config.requests_max);
        break;
    case VERDICT_MEMORY:
        answer.retry = true;
        v2_error(&answer, 503, "the memory for inputs is exhausted");
        break;
    case VERDICT_ENCODING:
        v2_error(&answer, 415, "this Content-Encoding is not supported; gzip and deflate are");
        break;
    default:
        v2_route(&route, f->loop.models, method, url);
        return respond_route(f, connection, &route);
    }
    return respond_v2(f, connection, &answer, false);
}

/* The exchange's answer from its text. libmicrohttpd reads it in place until exchange_completed(). */
static enum MHD_Result exchange_send(struct exchange *x, unsigned status, bool retry) {
    struct MHD_Response *response;
    struct inference *i = &x->inference;
    struct infer_answer *answer = &i->answer;
    size_t bytes;
    bool chunked = x->body_expected == SIZE_MAX; /* and libmicrohttpd is lax about chunks: see http_headers.h */
    bool binary = status == 200 && x->kind == V2_INFER && answer->json_bytes > 0;
    if (x->kind == V2_INFER && status == 200 && answer->piece_count > 1) {
        response = MHD_create_response_from_iovec((const struct MHD_IoVec *)answer->pieces,
                                                  (unsigned)answer->piece_count, NULL, NULL);
        frontend_turn_again(x->frontend, TURNS_FOR_PIECES);
        bytes = answer->bytes;
    } else {
        const struct text *whole = i->packed.length > 0 ? &i->packed : &i->text;
        bytes = whole->length;
        response = MHD_create_response_from_buffer(bytes, whole->data, MHD_RESPMEM_PERSISTENT);
    }
    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                binary ? "application/octet-stream" : "application/json");
        if (binary) {
            char digits[24];
            snprintf(digits, sizeof(digits), "%zu", answer->json_bytes);
            MHD_add_response_header(response, "Inference-Header-Content-Length", digits);
        }
        if (i->packed.length > 0)
            MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING,
                                    x->accepts == BODY_GZIP ? "gzip" : "deflate");
        if (retry)
            MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    }
    inference_answered(i, status);
    return respond(x->frontend, x->connection, status, response, bytes, HTTP_LINES_ARE_LAX && chunked);
}
_Static_assert(sizeof(struct MHD_IoVec) == sizeof(struct iovec) &&
                   offsetof(struct MHD_IoVec, iov_len) == offsetof(struct iovec, iov_len),
               "libmicrohttpd promises that its iovec is the system's");

static enum MHD_Result __attribute__((format(printf, 4, 5)))
exchange_send_error(struct exchange *x, unsigned status, bool retry, const char *fmt, ...) {
    struct v2_answer answer = {.text = x->inference.text};
    char sentence[sizeof(struct sy_error) + 64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    answer.text.length = 0;
    v2_error(&answer, status, "%s", sentence);
    x->inference.text = answer.text;
    return exchange_send(x, status, retry);
}

/* ---- reading ---- */

/* What to leave free before a body so that its binary part is aligned. */
static size_t bytes_before(const struct exchange *x) {
    return x->json_bytes > 0 ? -(size_t)x->json_bytes & (ALIGNMENT - 1) : 0;
}

/* A block big enough for `bytes` of body, the binary part of it aligned, with what was read so far. */
static int body_reserve(struct exchange *x, size_t bytes) {
    size_t before = x->encoding == BODY_IDENTITY ? bytes_before(x) : 0;
    char *block = inference_block(&x->inference, before + bytes);
    if (!block)
        return -ENOMEM;
    if (x->body_bytes > 0)
        memcpy(block + before, x->body, x->body_bytes);
    if (x->body)
        inference_block_give(&x->inference, x->block);
    x->block = block;
    x->body = block + before;
    x->body_room = slab_block_bytes(block) - before;
    return 0;
}

/* Answers once the body has been swallowed. At once, which ends the connection, if there is too much of it, or nobody
 * knows how much, or the client asks first. */
static enum MHD_Result verdict_begin(struct http_frontend *f, struct MHD_Connection *connection, enum verdict verdict,
                                     const struct http_headers *headers, const char *url, const char *method,
                                     void **exchange) {
    int64_t swallowed_max = verdict == VERDICT_UNAUTHORIZED ? STRANGER_BYTES_MAX : SWALLOW_BYTES_MAX;
    if (headers->chunked || headers->content_length > swallowed_max ||
        (headers->expects_continue && headers->content_length > 0))
        return respond_verdict(f, connection, verdict, url, method);
    *exchange = (void *)&verdict_marks[verdict];
    return MHD_YES;
}

static bool is_health(const struct v2_route *route) {
    return route->kind == V2_LIVE || route->kind == V2_READY;
}

static int verdict_of(struct http_frontend *f, const struct http_headers *headers, const struct v2_route *route) {
    struct v2_answer answer = {0};
    if (f->config.auth && !headers->authorized && (f->config.auth_health || !is_health(route)))
        return VERDICT_UNAUTHORIZED;
    bool admitted = route->kind == V2_INFER
                        ? v2_infer_admit(&answer, route, f->loop.models)
                        : route->posted && route->kind != V2_WRONG_VERB && route->kind != V2_NOT_FOUND;
    text_free(&answer.text);
    if (!admitted)
        return VERDICT_ROUTE;
    if (headers->encoding == BODY_UNKNOWN)
        return VERDICT_ENCODING;
    if (headers->content_length > (int64_t)body_bytes_max(f, route->kind))
        return VERDICT_TOO_LARGE;
    return -1;
}

static enum MHD_Result request_begin(struct http_frontend *f, struct MHD_Connection *connection, const char *url,
                                     const char *method, const char *version, void **exchange) {
    struct http_headers headers;
    struct v2_route route;
    struct client *client = client_of(connection);
    client_does(client, CLIENT_BODY, f->turn_ns, 0);
    http_headers_read(&headers, connection, method, version, f->config.auth);
    if (headers.fault) {
        struct v2_answer answer = {0};
        v2_error(&answer, headers.fault_status, "%s", headers.fault);
        return respond_v2(f, connection, &answer, true);
    }
    v2_route(&route, f->loop.models, method, url);
    int verdict = verdict_of(f, &headers, &route);
    if (verdict >= 0)
        return verdict_begin(f, connection, verdict, &headers, url, method, exchange);
    struct exchange *x = inference_take(&f->inferences, f->turn_ns);
    if (!x)
        return verdict_begin(f, connection, VERDICT_BUSY, &headers, url, method, exchange);
    x->frontend = f;
    x->suspended = false;
    x->asks = 0;
    x->body_fault = 0;
    x->body = NULL;
    x->body_bytes = 0;
    x->kind = route.kind;
    x->connection = connection;
    x->client = client;
    x->json_bytes = headers.json_bytes;
    x->encoding = headers.encoding;
    x->accepts = headers.accepts;
    if (route.model >= 0)
        inference_model(&x->inference, f->loop.models->models, (uint32_t)route.model);
    x->body_expected = headers.chunked ? SIZE_MAX : headers.content_length > 0 ? (size_t)headers.content_length : 0;
    size_t first = headers.chunked ? CHUNKED_ROOM : FIRST_ROOM;
    if (body_reserve(x, first < x->body_expected ? first : x->body_expected) < 0) {
        inference_free(&x->inference);
        return verdict_begin(f, connection, VERDICT_MEMORY, &headers, url, method, exchange);
    }
    *exchange = x;
    return MHD_YES;
}

static enum MHD_Result body_append(struct exchange *x, const char *data, size_t bytes) {
    struct http_frontend *f = x->frontend;
    size_t total = x->body_bytes + bytes;
    if (total < x->body_expected)
        frontend_turn_again(f, TURNS_FOR_BODY);
    /* chunked: nobody said how much was coming */
    if (x->body_fault == 0 && total > body_bytes_max(f, x->kind))
        x->body_fault = 413;
    else if (x->body_fault == 0 && total > x->body_room &&
             body_reserve(x, 2 * total < x->body_expected ? 2 * total : x->body_expected) < 0)
        x->body_fault = 503;
    if (x->body_fault == 0)
        memcpy(x->body + x->body_bytes, data, bytes);
    else if (total > SWALLOW_BYTES_MAX)
        return MHD_NO;
    x->body_bytes = total;
    return MHD_YES;
}

/* ---- running ---- */

/* Hands an order to load or unload in. The connection waits for it, suspended. */
static enum MHD_Result exchange_order(struct exchange *x, const char *url, const char *method) {
    struct http_frontend *f = x->frontend;
    struct repository_order order = {.home = &f->loop,
                                     .context = x,
                                     .kind = x->kind == V2_LOAD ? ORDER_LOAD : ORDER_UNLOAD,
                                     .form = ORDER_JSON,
                                     .body = x->body,
                                     .body_bytes = x->body_bytes};
    struct v2_route route;
    struct sy_error err;
    v2_route(&route, f->loop.models, method, url);
    if (route.name_length >= sizeof(order.name))
        return exchange_send_error(x, 404, false, "there is no model '%.*s'", MODEL_NAME_MAX, route.name);
    memcpy(order.name, route.name, route.name_length);
    x->inference.state = INFERENCE_ORDERED;
    if (order_submit(f->config.desk, &order, &err) != 0) {
        x->inference.state = INFERENCE_UPLOAD;
        return exchange_send_error(x, 503, true, "%s", err.text);
    }
    client_does(x->client, CLIENT_RUNNING, f->turn_ns, 0);
    if (x->client)
        x->client->running = x;
    x->suspended = true;
    MHD_suspend_connection(x->connection);
    return MHD_YES;
}

void exchange_ordered(struct exchange *x, unsigned status, const char *sentence) {
    x->inference.state = INFERENCE_FINISHED;
    x->order_status = status;
    if (status != 200)
        json_put_error(&x->inference.text, sentence);
    exchange_finish(x);
}

static enum MHD_Result service_answer(struct exchange *x, const char *url, const char *method) {
    struct http_frontend *f = x->frontend;
    struct v2_answer answer = {.text = x->inference.text};
    struct v2_server server = server_now(f);
    struct v2_route route;
    v2_route(&route, f->loop.models, method, url);
    v2_answer(&answer, &route, &server, x->body, x->body_bytes);
    x->inference.text = answer.text;
    return exchange_send(x, answer.status, false);
}

/* The body as it was before it was compressed. */
static int body_inflate(struct exchange *x, struct sy_error *err) {
    size_t before = bytes_before(x);
    struct block_memory memory = {inference_block, inference_block_give, &x->inference};
    char *block;
    int status = inflate_body(&x->frontend->inflater, x->encoding, x->body, x->body_bytes,
                              body_bytes_max(x->frontend, x->kind), before, memory, &block, &x->body_bytes, err);
    if (status)
        return status;
    inference_block_give(&x->inference, x->block);
    x->block = block;
    x->body = block + before;
    return 0;
}

/* The body is complete. */
static enum MHD_Result exchange_run(struct exchange *x, const char *url, const char *method) {
    struct http_frontend *f = x->frontend;
    if (x->body_fault == 413)
        return exchange_send_error(x, 413, false, "the body is larger than %" PRIu64 " bytes",
                                   body_bytes_max(f, x->kind));
    if (x->body_fault == 503)
        return exchange_send_error(x, 503, true, "the memory for inputs is exhausted");
    struct sy_error err;
    int rc = x->encoding == BODY_IDENTITY ? 0 : body_inflate(x, &err);
    if (rc)
        return exchange_send_error(x, (unsigned)rc, rc == 503, "%s", err.text);
    if (desk_of(f, x->kind))
        return exchange_order(x, url, method);
    if (x->kind != V2_INFER)
        return service_answer(x, url, method);
    counter_add(&f->inferences.counters.body_bytes, x->body_bytes);
    struct infer_body body = {.model = x->inference.model,
                              .data = x->body,
                              .bytes = x->body_bytes,
                              .json_bytes = x->json_bytes,
                              .memory = {inference_block, &x->inference}};
    int status = infer_parse(&body, &x->inference.call, &err);
    if (status != 0)
        return exchange_send_error(x, (unsigned)status, status == 503, "%s", err.text);
    if (x->client && x->client->gone)
        return MHD_NO;
    unsigned submitted = inference_submit(&x->inference, 0, &err);
    if (submitted != 0)
        return exchange_send_error(x, submitted, submitted == 503, "%s", err.text);
    f->asked++;
    client_does(x->client, CLIENT_RUNNING, f->turn_ns, 0);
    if (x->client)
        x->client->running = x;
    return MHD_YES;
}

void exchange_finish(struct exchange *x) {
    struct http_frontend *f = x->frontend;
    if (!x->connection) { /* the client left; nobody waits for the answer */
        inference_count(&x->inference, false);
        inference_free(&x->inference);
        return;
    }
    if (x->client)
        x->client->running = NULL;
    if (x->suspended)
        MHD_resume_connection(x->connection); /* libmicrohttpd asks for the answer in its next run */
    else
        f->asked--;
    x->suspended = false;
}

static enum MHD_Result exchange_answer(struct exchange *x) {
    struct inference *i = &x->inference;
    const struct request *request = &i->request;
    struct sy_error err;
    bool retry;
    if (x->client && x->client->gone)
        return MHD_NO;
    if (x->kind != V2_INFER) /* an order */
        return exchange_send(x, x->order_status, x->order_status == 503);
    unsigned status = inference_result(i, &retry, &err);
    if (status != 200)
        return exchange_send_error(x, status, retry, "%s", err.text);
    if (infer_answer_build(&i->answer, &i->text, i->model, &i->call, request->block->outputs,
                           request->block->output_count, request->first_item, &err) < 0)
        return exchange_send_error(x, 500, false, "%s", err.text);
    inference_blocks_give(i); /* the answer may point into the outputs, which stay */
    answer_deflate(&x->frontend->deflater, x->accepts, 0, &i->answer, &i->packed);
    return exchange_send(x, 200, false);
}

/* ---- libmicrohttpd's callbacks ---- */

enum MHD_Result exchange_handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_bytes, void **exchange) {
    struct http_frontend *f = context;
    struct exchange *x = *exchange;
    size_t bytes = *upload_bytes;
    if (!x)
        return request_begin(f, connection, url, method, version, exchange);
    *upload_bytes = 0;
    if (is_verdict(x) && bytes > 0) {
        client_received(client_of(connection), bytes);
        frontend_turn_again(f, TURNS_FOR_BODY);
        return MHD_YES;
    }
    if (is_verdict(x))
        return respond_verdict(f, connection, (enum verdict)((const char *)x - verdict_marks), url, method);
    if (bytes > 0) {
        client_received(x->client, bytes);
        return body_append(x, upload, bytes);
    }
    switch (x->inference.state) {
    case INFERENCE_UPLOAD:
        return exchange_run(x, url, method);
    case INFERENCE_FINISHED:
        return exchange_answer(x);
    case INFERENCE_RUNNING:
        if (++x->asks == ASKS_MAX) {
            x->suspended = true;
            f->asked--;
            MHD_suspend_connection(connection);
        }
        return MHD_YES;
    default:
        return MHD_NO;
    }
}

void exchange_completed(void *context, struct MHD_Connection *connection, void **exchange,
                        enum MHD_RequestTerminationCode code) {
    struct http_frontend *f = context;
    struct exchange *x = *exchange;
    *exchange = NULL;
    client_rests(client_of(connection), f->turn_ns);
    if (!x || is_verdict(x))
        return;
    if (x->inference.state == INFERENCE_RUNNING ||
        x->inference.state == INFERENCE_ORDERED) { /* freed when given back */
        inference_cancel(&x->inference);
        x->frontend->asked -= !x->suspended;
        if (x->client)
            x->client->running = NULL;
        x->connection = NULL;
        x->client = NULL;
        return;
    }
    inference_count(&x->inference, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    inference_free(&x->inference);
}
