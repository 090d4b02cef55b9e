/* exchange.c - an HTTP request from its first header to its answer. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "frontend/http_headers.h"
#include "frontend/http_state.h"

#define ALIGNMENT         64 /* of the first binary tensor behind the JSON */
#define CHUNKED_ROOM      ((size_t)4096)
#define FIRST_ROOM        ((size_t)1 << 20) /* more only as it is sent: an announcement alone must not take memory */
#define SLO_DEFAULT_NS    NS_PER_S          /* for a model whose SLO nobody chose */
#define SWALLOW_BYTES_MAX (256LL << 20)

/* A request whose answer is known before its body is read: the body is swallowed first, so that the client, which is
 * still sending, reads the answer and keeps its connection. These marks stand in the place of its exchange. */
enum verdict { VERDICT_ROUTE, VERDICT_TOO_LARGE, VERDICT_BUSY, VERDICT_MEMORY, VERDICT_ENCODING, VERDICT_COUNT };
static const char verdict_marks[VERDICT_COUNT];

static bool is_verdict(const void *exchange) {
    const char *mark = exchange;
    return mark >= verdict_marks && mark < verdict_marks + VERDICT_COUNT;
}

/* ---- the pool of exchanges ---- */

static struct exchange *exchange_take(struct http_frontend *f) {
    struct exchange *x;
    if (f->exchange_free != NO_FREE) {
        x = &f->exchanges[f->exchange_free];
        f->exchange_free = x->free_next;
    } else if (f->exchange_fresh < f->config.requests_max) {
        x = &f->exchanges[f->exchange_fresh++];
    } else {
        return NULL;
    }
    x->state = EXCHANGE_UPLOAD;
    x->frontend = f;
    x->suspended = x->cancelled = false;
    x->asks = 0;
    x->body_fault = 0;
    x->body_bytes = 0;
    x->block_count = 0;
    x->request.block = NULL;
    text_init(&x->text, x->text_memory, sizeof(x->text_memory));
    gauge_add(&f->counters.in_flight, 1);
    return x;
}

static void blocks_give(struct exchange *x) {
    while (x->block_count > 0)
        slab_give(x->frontend->slab, x->blocks[--x->block_count]);
}

static void exchange_free(struct exchange *x) {
    struct http_frontend *f = x->frontend;
    blocks_give(x);
    output_block_put(x->request.block);
    text_free(&x->text);
    x->state = EXCHANGE_FREE;
    x->free_next = f->exchange_free;
    f->exchange_free = (uint32_t)(x - f->exchanges);
    gauge_add(&f->counters.in_flight, -1);
}

/* ---- answers ---- */

static enum MHD_Result respond(struct http_frontend *f, struct MHD_Connection *connection, unsigned status,
                               struct MHD_Response *response, bool close_connection) {
    if (!response)
        return MHD_NO;
    if (close_connection || f->quiesced || atomic_load_explicit(f->config.draining, memory_order_relaxed))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    frontend_turn_again(f, TURNS_FOR_ANSWER);
    counter_add(&f->counters.statuses[status < HTTP_STATUS_MAX ? status : 0], 1);
    return result;
}

/* Sends an answer of v2.c; takes its text. */
static enum MHD_Result respond_v2(struct http_frontend *f, struct MHD_Connection *connection, struct v2_answer *answer,
                                  bool close_connection) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(answer->text.length, answer->text.data, MHD_RESPMEM_MUST_COPY);
    if (response && answer->text.length > 0)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    if (response && answer->allow)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
    if (response && answer->retry)
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    text_free(&answer->text);
    return respond(f, connection, answer->status, response, close_connection);
}

static struct v2_state state_now(const struct http_frontend *f) {
    /* acquire: with who sets them, after what they speak of */
    return (struct v2_state){.ready = atomic_load_explicit(f->config.ready, memory_order_acquire),
                             .draining = atomic_load_explicit(f->config.draining, memory_order_acquire)};
}

static enum MHD_Result respond_route(struct http_frontend *f, struct MHD_Connection *connection,
                                     const struct v2_route *route) {
    struct v2_answer answer = {0};
    struct v2_state state = state_now(f);
    if (route->kind == V2_INFER)
        v2_infer_admit(&answer, route, &f->models);
    else
        v2_answer(&answer, route, &f->models, &state, NULL, 0);
    return respond_v2(f, connection, &answer, false);
}

static enum MHD_Result respond_verdict(struct http_frontend *f, struct MHD_Connection *connection, enum verdict verdict,
                                       const char *url, const char *method) {
    struct v2_answer answer = {0};
    struct v2_route route;
    switch (verdict) {
    case VERDICT_TOO_LARGE:
        v2_error(&answer, 413, "the body is larger than %" PRIu64 " bytes", f->config.body_bytes_max);
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
        v2_error(&answer, 415, "this Content-Encoding is not supported; send the body as it is");
        break;
    default:
        v2_route(&route, &f->models, method, url);
        return respond_route(f, connection, &route);
    }
    return respond_v2(f, connection, &answer, false);
}

/* The exchange's answer from its text. libmicrohttpd reads it in place until exchange_completed(). */
static enum MHD_Result exchange_send(struct exchange *x, unsigned status, bool retry) {
    struct MHD_Response *response;
    struct infer_answer *answer = &x->answer;
    bool binary = status == 200 && x->kind == V2_INFER && answer->json_bytes > 0;
    if (x->kind == V2_INFER && status == 200 && answer->piece_count > 1) {
        response = MHD_create_response_from_iovec((const struct MHD_IoVec *)answer->pieces,
                                                  (unsigned)answer->piece_count, NULL, NULL);
        frontend_turn_again(x->frontend, TURNS_FOR_PIECES);
    } else {
        response = MHD_create_response_from_buffer(x->text.length, x->text.data, MHD_RESPMEM_PERSISTENT);
    }
    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                binary ? "application/octet-stream" : "application/json");
        if (binary) {
            char digits[24];
            snprintf(digits, sizeof(digits), "%zu", answer->json_bytes);
            MHD_add_response_header(response, "Inference-Header-Content-Length", digits);
        }
        if (retry)
            MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    }
    x->state = EXCHANGE_SENDING;
    x->status = status;
    x->answered_ns = clock_now_ns();
    return respond(x->frontend, x->connection, status, response, false);
}
_Static_assert(sizeof(struct MHD_IoVec) == sizeof(struct iovec) &&
                   offsetof(struct MHD_IoVec, iov_len) == offsetof(struct iovec, iov_len),
               "libmicrohttpd promises that its iovec is the system's");

static enum MHD_Result __attribute__((format(printf, 4, 5)))
exchange_send_error(struct exchange *x, unsigned status, bool retry, const char *fmt, ...) {
    struct v2_answer answer = {.text = x->text};
    char sentence[sizeof(struct sy_error) + 64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    answer.text.length = 0;
    v2_error(&answer, status, "%s", sentence);
    x->text = answer.text;
    return exchange_send(x, status, retry);
}

/* ---- reading ---- */

/* A block big enough for `bytes` of body, the binary part of it aligned, with what was read so far. */
static int body_reserve(struct exchange *x, size_t bytes) {
    size_t before = x->json_bytes > 0 ? -(size_t)x->json_bytes & (ALIGNMENT - 1) : 0;
    char *block = slab_take(x->frontend->slab, before + bytes);
    if (!block)
        return -ENOMEM;
    if (x->body_bytes > 0)
        memcpy(block + before, x->body, x->body_bytes);
    if (x->block_count > 0)
        slab_give(x->frontend->slab, x->blocks[0]);
    x->blocks[0] = block;
    x->block_count = 1;
    x->body = block + before;
    x->body_room = slab_block_bytes(block) - before;
    return 0;
}

/* Answers once the body has been swallowed. At once, which ends the connection, if there is too much of it, or nobody
 * knows how much, or the client asks first. */
static enum MHD_Result verdict_begin(struct http_frontend *f, struct MHD_Connection *connection, enum verdict verdict,
                                     const struct http_headers *headers, const char *url, const char *method,
                                     void **exchange) {
    if (headers->chunked || headers->content_length > SWALLOW_BYTES_MAX ||
        (headers->expects_continue && headers->content_length > 0))
        return respond_verdict(f, connection, verdict, url, method);
    *exchange = (void *)&verdict_marks[verdict];
    return MHD_YES;
}

static struct client *client_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static int verdict_of(struct http_frontend *f, const struct http_headers *headers, const struct v2_route *route) {
    struct v2_answer answer = {0};
    bool admitted = route->kind == V2_INDEX || (route->kind == V2_INFER && v2_infer_admit(&answer, route, &f->models));
    text_free(&answer.text);
    if (!admitted)
        return VERDICT_ROUTE;
    if (headers->encoding)
        return VERDICT_ENCODING;
    if (headers->content_length > (int64_t)f->config.body_bytes_max)
        return VERDICT_TOO_LARGE;
    return -1;
}

static enum MHD_Result request_begin(struct http_frontend *f, struct MHD_Connection *connection, const char *url,
                                     const char *method, const char *version, void **exchange) {
    struct http_headers headers;
    struct v2_route route;
    http_headers_read(&headers, connection, version);
    if (headers.fault) {
        struct v2_answer answer = {0};
        v2_error(&answer, 400, "%s", headers.fault);
        return respond_v2(f, connection, &answer, true);
    }
    v2_route(&route, &f->models, method, url);
    int verdict = verdict_of(f, &headers, &route);
    if (verdict >= 0)
        return verdict_begin(f, connection, verdict, &headers, url, method, exchange);
    struct exchange *x = exchange_take(f);
    if (!x)
        return verdict_begin(f, connection, VERDICT_BUSY, &headers, url, method, exchange);
    x->kind = route.kind;
    x->connection = connection;
    x->client = client_of(connection);
    x->model = route.model < 0 ? NULL : &f->models.models[route.model];
    x->json_bytes = headers.json_bytes;
    x->request.model = (uint32_t)route.model;
    x->request.arrival_ns = f->turn_ns;
    x->body_expected = headers.chunked ? SIZE_MAX : headers.content_length > 0 ? (size_t)headers.content_length : 0;
    size_t first = headers.chunked ? CHUNKED_ROOM : FIRST_ROOM;
    if (body_reserve(x, first < x->body_expected ? first : x->body_expected) < 0) {
        exchange_free(x);
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
    if (x->body_fault == 0 && total > f->config.body_bytes_max)
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

/* Once a request at most. */
static void exchange_cancel(struct exchange *x) {
    if (x->state == EXCHANGE_RUNNING && !x->cancelled) {
        x->cancelled = true;
        port_cancel(x->frontend->config.port, &x->request);
    }
}

static void *inputs_take(void *context, size_t bytes) {
    struct exchange *x = context;
    void *block = slab_take(x->frontend->slab, bytes);
    if (block)
        x->blocks[x->block_count++] = block;
    return block;
}

static void request_fill(struct exchange *x) {
    const struct infer_call *call = &x->call;
    struct request *request = &x->request;
    int64_t slo_ns = call->timeout_us > 0   ? call->timeout_us * NS_PER_US
                     : x->model->slo_ns > 0 ? x->model->slo_ns
                                            : SLO_DEFAULT_NS;
    request->items = call->items;
    request->shape_key = call->shape_key;
    request->work = call->work;
    request->deadline_ns = request->arrival_ns + slo_ns;
    request->failure[0] = '\0';
    memcpy(request->inputs, call->inputs, x->model->signature.input_count * sizeof(call->inputs[0]));
}

static enum MHD_Result index_answer(struct exchange *x) {
    struct http_frontend *f = x->frontend;
    struct v2_answer answer = {.text = x->text};
    struct v2_route route = {.kind = V2_INDEX, .model = -1};
    struct v2_state state = state_now(f);
    v2_answer(&answer, &route, &f->models, &state, x->body, x->body_bytes);
    x->text = answer.text;
    return exchange_send(x, answer.status, false);
}

/* The body is complete. */
static enum MHD_Result exchange_run(struct exchange *x) {
    struct http_frontend *f = x->frontend;
    if (x->body_fault == 413)
        return exchange_send_error(x, 413, false, "the body is larger than %" PRIu64 " bytes",
                                   f->config.body_bytes_max);
    if (x->body_fault == 503)
        return exchange_send_error(x, 503, true, "the memory for inputs is exhausted");
    if (x->kind == V2_INDEX)
        return index_answer(x);
    counter_add(&f->counters.body_bytes, x->body_bytes);
    struct sy_error err;
    struct infer_body body = {.model = x->model,
                              .data = x->body,
                              .bytes = x->body_bytes,
                              .json_bytes = x->json_bytes,
                              .memory = {inputs_take, x}};
    int status = infer_parse(&body, &x->call, &err);
    if (status != 0)
        return exchange_send_error(x, (unsigned)status, status == 503, "%s", err.text);
    if (x->client && x->client->gone)
        return MHD_NO;
    request_fill(x);
    if (port_submit(f->config.port, &x->request) < 0)
        return exchange_send_error(x, 503, true, "the scheduler takes no more requests at the moment");
    x->state = EXCHANGE_RUNNING;
    f->running++;
    f->asked++;
    if (x->client)
        x->client->running = x;
    return MHD_YES;
}

void exchange_finish(struct request *request) {
    struct exchange *x = container_of(request, struct exchange, request);
    struct http_frontend *f = x->frontend;
    CHECK_EQ(x->state, EXCHANGE_RUNNING);
    f->running--;
    if (!x->connection) { /* the client left; nobody waits for the answer */
        counter_add(&f->counters.models[request->model].outcomes[OUTCOME_CANCELLED], 1);
        exchange_free(x);
        return;
    }
    x->state = EXCHANGE_FINISHED;
    if (x->client)
        x->client->running = NULL;
    if (x->suspended)
        MHD_resume_connection(x->connection); /* libmicrohttpd asks for the answer in its next run */
    else
        f->asked--;
    x->suspended = false;
}

static enum MHD_Result send_refusal(struct exchange *x) {
    const struct request *request = &x->request;
    switch (request->refusal) {
    case REFUSAL_DEADLINE:
        return exchange_send_error(
            x, 503, false, "model '%s' cannot finish this request within its deadline of %.6g ms", x->model->name,
            (double)(request->deadline_ns - request->arrival_ns) / (double)NS_PER_MS);
    case REFUSAL_QUEUE_FULL:
        return exchange_send_error(x, 503, true, "the queue is full: too many requests wait");
    case REFUSAL_SHAPES:
        return exchange_send_error(x, 503, true, "too many different input shapes of model '%s' wait at once",
                                   x->model->name);
    case REFUSAL_CANCELLED:
    case REFUSAL_NONE:
        break;
    }
    return exchange_send_error(x, 503, false, "the request was cancelled");
}

static enum MHD_Result exchange_answer(struct exchange *x) {
    struct request *request = &x->request;
    struct sy_error err;
    if (x->client && x->client->gone)
        return MHD_NO;
    if (request->status == REQUEST_REFUSED)
        return send_refusal(x);
    if (request->status == REQUEST_FAILED)
        return exchange_send_error(x, 500, false, "model '%s' failed: %s", x->model->name, request->failure);
    if (infer_answer_build(&x->answer, &x->text, x->model, &x->call, request->block->outputs,
                           request->block->output_count, request->first_item, &err) < 0)
        return exchange_send_error(x, 500, false, "%s", err.text);
    blocks_give(x); /* the inputs; the answer may point into the outputs, which stay */
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
        frontend_turn_again(f, TURNS_FOR_BODY);
        return MHD_YES;
    }
    if (is_verdict(x))
        return respond_verdict(f, connection, (enum verdict)((const char *)x - verdict_marks), url, method);
    if (bytes > 0)
        return body_append(x, upload, bytes);
    switch (x->state) {
    case EXCHANGE_UPLOAD:
        return exchange_run(x);
    case EXCHANGE_FINISHED:
        return exchange_answer(x);
    case EXCHANGE_RUNNING:
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

static enum outcome outcome_of(const struct exchange *x, bool sent) {
    return !sent || x->state != EXCHANGE_SENDING ? OUTCOME_CANCELLED
           : x->status == 200                    ? OUTCOME_OK
           : x->status == 503                    ? OUTCOME_REFUSED
           : x->status < 500 || x->status == 501 ? OUTCOME_CLIENT_ERROR
                                                 : OUTCOME_FAILED;
}

static void exchange_count(const struct exchange *x, bool sent) {
    struct http_frontend *f = x->frontend;
    const struct request *request = &x->request;
    if (x->kind != V2_INFER)
        return;
    struct model_http_counters *counters = &f->counters.models[request->model];
    enum outcome outcome = outcome_of(x, sent);
    counter_add(&counters->outcomes[outcome], 1);
    if (outcome != OUTCOME_OK)
        return;
    histogram_add(&counters->latency_ns, x->answered_ns - request->arrival_ns);
    histogram_add(&counters->queue_ns, request->run_start_ns - request->arrival_ns);
    if (x->answered_ns <= request->deadline_ns)
        counter_add(&counters->in_time, 1);
    /* Not until libmicrohttpd calls back here: that may be the connection's next event, and a client that reads slowly
     * must not lengthen the margin that everybody's deadlines are cut by. */
    port_replied(f->config.port, x->answered_ns - request->run_end_ns);
}

void exchange_completed(void *context, struct MHD_Connection *connection, void **exchange,
                        enum MHD_RequestTerminationCode code) {
    struct exchange *x = *exchange;
    (void)context;
    (void)connection;
    *exchange = NULL;
    if (!x || is_verdict(x))
        return;
    if (x->state == EXCHANGE_RUNNING) { /* freed when the scheduler gives it back */
        exchange_cancel(x);
        x->frontend->asked -= !x->suspended;
        if (x->client)
            x->client->running = NULL;
        x->connection = NULL;
        x->client = NULL;
        return;
    }
    exchange_count(x, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    exchange_free(x);
}

void client_leave(struct http_frontend *f, struct client *client) {
    if (!client->gone)
        list_append(&f->leaving, &client->leaving);
    client->gone = true;
    f->poke_ns = 0;
    if (client->running)
        exchange_cancel(client->running);
}

void exchanges_cancel(struct http_frontend *f) {
    for (uint32_t i = 0; i < f->exchange_fresh; i++)
        exchange_cancel(&f->exchanges[i]);
}
