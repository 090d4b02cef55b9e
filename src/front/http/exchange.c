/* exchange.c - an HTTP request from its head to its answer.
 *
 *     exchange_begin() -> exchange_body() ... -> exchange_end()
 *         -> read_body() -> inference_submit() -> scheduler
 *         -> exchange_finish() -> write_answer() -> http_answer_send()
 *
 * A bulk thread runs read_body() and write_answer() where there is much to read or write. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/system/clock.h"
#include "front/http/http_state.h"
#include "front/net/auth.h"
#include "front/request/repository_order.h"
#include "front/request/trail_headers.h"
#include "front/v2/infer_parse.h"
#include "front/v2/infer_write.h"
#include "front/v2/json_put.h"

#define ALIGNMENT          64            /* alignment of the first binary tensor behind the JSON */
#define SWALLOW_BYTES_MAX  (256LL << 20) /* most bytes of a body that is read and thrown away */
#define STRANGER_BYTES_MAX (1LL << 20)   /* most bytes of a body that is thrown away, if the client has no token */
#define NO_MEMORY          "the memory for inputs is exhausted"

static struct repository_desk *desk_of(const struct http_frontend *f, enum v2_kind kind) {
    return kind == V2_LOAD || kind == V2_UNLOAD ? f->base.config.desk : NULL;
}

static uint64_t body_bytes_max(const struct http_frontend *f, enum v2_kind kind) {
    return kind == V2_INFER || desk_of(f, kind) ? f->base.config.body_bytes_max : SERVICE_BYTES_MAX;
}

static void route_find(const struct http_connection *c, struct v2_route *route) {
    v2_route(route, c->frontend->base.models, llhttp_method_name((llhttp_method_t)c->parser.method), c->path.data);
}

/* ---- answers of one piece ---- */

static void id_put(struct http_connection *c, const struct request_id *id) {
    static const char name[] = "X-Request-Id: ";
    text_append(&c->out, name, sizeof(name) - 1);
    text_append(&c->out, id->text, id->length);
    text_append(&c->out, "\r\n", 2);
}

/* Sends an answer of v2.c, and frees its text. */
static void respond_v2(struct http_connection *c, struct v2_answer *answer) {
    if (answer->text.failed) {
        text_free(&answer->text);
        answer->retry = true;
        v2_error(answer, 503, "out of memory for the answer");
    }
    http_answer_begin(c, answer->status);
    if (c->head.id.length > 0)
        id_put(c, &c->head.id);
    if (answer->text.length > 0)
        http_header_put(c, "Content-Type", "application/json");
    if (answer->allow)
        http_header_put(c, "Allow", answer->allow);
    if (answer->status == 401)
        http_header_put(c, "WWW-Authenticate", "Bearer");
    if (answer->retry)
        http_header_put(c, "Retry-After", "1");
    http_answer_send(c, answer->text.length > 0 ? answer->text.data : "", answer->text.length);
    text_free(&answer->text);
}

/* Whether the client may name shared memory. */
static bool client_is_local(const struct http_connection *c) {
    return peer_is_local(&c->peer) && !c->head.foreign;
}

static struct v2_server server_now(const struct http_connection *c) {
    const struct http_frontend *f = c->frontend;
    /* acquire: with the stores of the flags, which come after what they tell of */
    return (struct v2_server){.models = f->base.models,
                              .name = f->base.config.name,
                              .takes_orders = f->base.config.desk,
                              .of_cluster = f->base.config.of_cluster,
                              .ready = atomic_load_explicit(f->base.config.ready, memory_order_acquire),
                              .draining = atomic_load_explicit(f->base.config.draining, memory_order_acquire),
                              .failed = f->base.config.failed &&
                                        atomic_load_explicit(f->base.config.failed, memory_order_acquire),
                              .start = f->base.config.start,
                              .statistics = f->base.config.statistics,
                              .tracing = f->base.config.tracing,
                              .shared = f->base.config.shared,
                              .local = client_is_local(c),
                              .accelerators = &f->base.config.accelerators};
}

/* An inference that is refused before it is taken counts for its model all the same, as over gRPC. */
static void refusal_count(struct http_connection *c, const struct v2_route *route) {
    if (route->kind != V2_INFER || route->model < 0)
        return;
    const struct request request = {.model = (uint32_t)route->model, .arrival_ns = c->arrived_ns};
    inferences_count(&c->frontend->base.inferences, &request, OUTCOME_REFUSED, clock_now_ns());
}

static void respond_route(struct http_connection *c) {
    struct v2_answer answer = {0};
    struct v2_server server = server_now(c);
    struct v2_route route;
    route_find(c, &route);
    if (route.kind != V2_INFER) {
        v2_answer(&answer, &route, &server, NULL, 0);
    } else if (v2_infer_admit(&answer, &route, server.models)) { /* the model has come while the body was thrown away */
        answer.retry = true;
        v2_error(&answer, 503, "the model was not served yet when the request came");
    }
    refusal_count(c, &route);
    respond_v2(c, &answer);
}

static void respond_verdict(struct http_connection *c) {
    struct http_frontend *f = c->frontend;
    struct v2_answer answer = {0};
    struct v2_route route;
    switch (c->verdict) {
    case VERDICT_PAGE:
        f->base.config.page(f->base.config.page_context, c);
        return;
    case VERDICT_UNAUTHORIZED:
        v2_error(&answer, 401, AUTH_NEEDED);
        break;
    case VERDICT_FOREIGN:
        v2_error(&answer, 403, HTTP_FOREIGN);
        break;
    case VERDICT_TOO_LARGE:
        route_find(c, &route);
        v2_error(&answer, 413, "the body is larger than %" PRIu64 " bytes: " BODY_LIMIT, body_bytes_max(f, route.kind));
        break;
    case VERDICT_BUSY:
        route_find(c, &route);
        refusal_count(c, &route);
        answer.retry = true;
        v2_error(&answer, 503, "this frontend has %u requests in flight and takes no more",
                 f->base.config.requests_max);
        break;
    case VERDICT_ENCODING:
        v2_error(&answer, 415, "this Content-Encoding is not supported; gzip and deflate are");
        break;
    default:
        respond_route(c);
        return;
    }
    respond_v2(c, &answer);
}

/* ---- the exchange's answer ---- */

/* The answer is the text. */
static void answer_is_text(struct inference *i) {
    i->answer =
        (struct infer_answer){.bytes = i->text.length, .pieces = {{i->text.data, i->text.length}}, .piece_count = 1};
}

static void trail_put(struct http_connection *c, const struct inference *i, unsigned status) {
    struct trail_header headers[TRAIL_HEADERS_MAX];
    struct trail trail = inference_trail(i, status, clock_now_ns());
    uint32_t count = trail_headers(&trail, model_index_name(c->frontend->base.models, trail.past.before), headers);
    for (uint32_t h = 0; h < count; h++)
        http_header_put(c, headers[h].name, headers[h].value);
}

/* Sends what the inference's answer holds. */
static void exchange_send(struct exchange *x, unsigned status, bool retry) {
    struct http_connection *c = x->connection;
    struct inference *i = &x->inference;
    bool binary = status == 200 && x->kind == V2_INFER && i->answer.json_bytes > 0;
    inference_answered(i, status);
    http_answer_begin(c, status);
    http_header_put(c, "Content-Type", binary ? "application/octet-stream" : "application/json");
    if (x->kind == V2_INFER) {
        inference_id_complete(i, &c->head.id);
        id_put(c, &i->id);
        if (i->trail || c->head.trail)
            trail_put(c, i, status);
    }
    if (binary) {
        char digits[JSON_DIGITS_MAX + 1];
        digits[json_digits(digits, i->answer.json_bytes)] = '\0';
        http_header_put(c, "Inference-Header-Content-Length", digits);
    }
    if (i->packed.length > 0)
        http_header_put(c, "Content-Encoding", x->accepts == BODY_GZIP ? "gzip" : "deflate");
    if (retry)
        http_header_put(c, "Retry-After", "1");
    http_answer_send(c, NULL, i->answer.bytes);
}

static void exchange_send_error(struct exchange *x, unsigned status, bool retry, const char *sentence) {
    struct inference *i = &x->inference;
    i->text.length = 0;
    json_put_error(&i->text, sentence);
    answer_is_text(i);
    exchange_send(x, status, retry);
}

/* Builds the answer of what has run. The status; the sentence is in `err` unless it is 200. */
static unsigned write_answer(struct exchange *x, struct deflater *deflater, struct sy_error *err) {
    struct inference *i = &x->inference;
    const struct request *request = &i->request;
    unsigned status = inference_result(i, &x->retry, err);
    if (status != 200)
        return status;
    int rc = infer_write(&i->answer, &i->text, i->model, &i->call, request->block->outputs,
                         request->block->output_count, request->first_item, err);
    if (rc < 0)
        return rc == -ENOMEM ? 503 : 500;
    answer_deflate(deflater, x->accepts, 0, &i->answer, &i->packed);
    return 200;
}

static void answer_written(struct exchange *x, unsigned status, const struct sy_error *err) {
    inference_blocks_give(&x->inference); /* the answer may point into the outputs, which stay */
    if (status == 200)
        exchange_send(x, 200, false);
    else
        exchange_send_error(x, status, x->retry, err->text);
}

static void write_in_bulk(struct bulk_job *job, struct bulk_tools *tools) {
    struct exchange *x = container_of(job, struct exchange, job);
    x->status = write_answer(x, &tools->http_deflater, &x->error);
}

/* ---- reading ---- */

/* Bytes to leave free before a body so that its binary part is aligned. */
static size_t bytes_before(const struct exchange *x) {
    return x->json_bytes > 0 ? -(size_t)x->json_bytes & (ALIGNMENT - 1) : 0;
}

/* Moves the body into a block with room for `bytes` of it, with its binary part aligned. */
static int body_reserve(struct exchange *x, size_t bytes) {
    size_t before = x->encoding == BODY_IDENTITY ? bytes_before(x) : 0;
    char *block;
    while (!(block = inference_block(&x->inference, before + bytes)))
        if (!coming_make_room(&x->frontend->base, &x->connection->coming, x->body_bytes))
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

static bool is_health(const struct v2_route *route) {
    return route->kind == V2_LIVE || route->kind == V2_READY;
}

static enum verdict verdict_of(const struct http_connection *c, const struct v2_route *route) {
    const struct http_frontend *f = c->frontend;
    const struct http_head *head = &c->head;
    struct v2_answer answer = {0};
    if (!frontend_admits(&f->base.config, head->authorized, is_health(route)))
        return VERDICT_UNAUTHORIZED;
    bool admitted = route->kind == V2_INFER
                        ? v2_infer_admit(&answer, route, f->base.models)
                        : route->posted && route->kind != V2_WRONG_VERB && route->kind != V2_NOT_FOUND;
    text_free(&answer.text);
    if (!admitted)
        return VERDICT_ROUTE;
    if (head->foreign && route->kind != V2_INFER)
        return VERDICT_FOREIGN;
    if (head->encoding == BODY_UNKNOWN)
        return VERDICT_ENCODING;
    if (head->content_length > (int64_t)body_bytes_max(f, route->kind))
        return VERDICT_TOO_LARGE;
    return VERDICT_NONE;
}

/* The answer follows when the body has been read and thrown away. It is sent at once, and ends the connection, if the
 * body is too long, or of unknown length, or if the client waits for an interim answer before it sends one. */
static bool verdict_begin(struct http_connection *c) {
    bool strange = c->verdict == VERDICT_UNAUTHORIZED || c->verdict == VERDICT_PAGE;
    int64_t swallowed_max = strange ? STRANGER_BYTES_MAX : SWALLOW_BYTES_MAX;
    if (!c->head.chunked && c->head.content_length <= swallowed_max &&
        (!c->head.expects_continue || c->head.content_length <= 0))
        return true;
    c->last = true;
    respond_verdict(c);
    return false;
}

static struct exchange *exchange_take(struct http_connection *c, const struct v2_route *route) {
    struct http_frontend *f = c->frontend;
    struct exchange *x = slot_take(&f->base, &c->stream, c->address, 0, false, c->arrived_ns);
    if (!x)
        return NULL;
    x->frontend = f;
    x->connection = c;
    x->kind = route->kind;
    x->inference.local = client_is_local(c);
    x->retry = false;
    x->body_fault = 0;
    x->block = x->body = NULL;
    x->body_bytes = x->body_room = 0;
    x->body_expected = c->head.chunked ? SIZE_MAX : c->head.content_length > 0 ? (size_t)c->head.content_length : 0;
    x->json_bytes = c->head.json_bytes;
    x->encoding = c->head.encoding;
    x->accepts = c->head.accepts;
    if (route->model >= 0) {
        uint32_t model = (uint32_t)route->model;
        if (route->kind == V2_INFER && route->version_length == 0)
            model = model_index_turn(f->base.models, model);
        inference_model(&x->inference, f->base.models->models, model);
    }
    return x;
}

bool exchange_begin(struct http_connection *c) {
    struct v2_route route;
    if (c->head.fault) {
        struct v2_answer answer = {0};
        c->last = true;
        v2_error(&answer, c->head.fault_status, "%s", c->head.fault);
        respond_v2(c, &answer);
        return false;
    }
    c->spare &= acceptor_crowded(&c->frontend->base.acceptor);
    c->last |= c->spare;
    if (c->frontend->base.config.page) {
        c->verdict = VERDICT_PAGE;
        return verdict_begin(c);
    }
    route_find(c, &route);
    if (c->spare && !is_health(&route)) {
        struct v2_answer answer = {.retry = true};
        v2_error(&answer, 503, "the server has as many connections as it may: %u",
                 c->frontend->base.config.connections_max);
        refusal_count(c, &route);
        respond_v2(c, &answer);
        return false;
    }
    c->verdict = verdict_of(c, &route);
    if (c->verdict == VERDICT_NONE && !(c->exchange = exchange_take(c, &route)))
        c->verdict = VERDICT_BUSY;
    if (c->verdict != VERDICT_NONE)
        return verdict_begin(c);
    if (c->head.expects_continue && c->exchange->body_expected > 0)
        http_connection_continue(c);
    return true;
}

/* The body cannot be kept: the rest of it is swallowed. */
static void body_fail(struct exchange *x, unsigned status) {
    x->body_fault = status;
    if (x->body)
        inference_block_give(&x->inference, x->block);
    x->body = x->block = NULL;
}

bool exchange_body(struct http_connection *c, const char *data, size_t bytes) {
    struct exchange *x = c->exchange;
    if (!x)
        return true; /* thrown away: there is a verdict */
    size_t total = x->body_bytes + bytes;
    if (x->body_fault == 0 && total > body_bytes_max(c->frontend, x->kind)) /* chunked: its length was not announced */
        body_fail(x, 413);
    else if (x->body_fault == 0 && total > x->body_room &&
             body_reserve(x, inference_room(&x->inference, total, x->body_expected)) < 0)
        body_fail(x, 503);
    if (x->body_fault == 0 && data != x->body + x->body_bytes) /* else it was received there */
        memcpy(x->body + x->body_bytes, data, bytes);
    x->body_bytes = total;
    if (x->body_fault == 0 || total <= SWALLOW_BYTES_MAX)
        return true;
    c->last = true;
    exchange_send_error(x, x->body_fault, false, "the body is larger than it may be");
    return false;
}

char *exchange_room(struct http_connection *c, size_t *bytes) {
    struct exchange *x = c->exchange;
    if (!x || x->body_fault || x->body_expected == SIZE_MAX || x->body_bytes == 0)
        return NULL;
    if (x->body_bytes == x->body_room &&
        body_reserve(x, inference_room(&x->inference, x->body_bytes, x->body_expected)) < 0)
        return NULL; /* exchange_body() tries again, and fails, when the bytes have come */
    size_t room = x->body_room - x->body_bytes, left = x->body_expected - x->body_bytes;
    *bytes = room < left ? room : left;
    return x->body + x->body_bytes;
}

/* ---- running ---- */

/* The connection waits until somebody gives the exchange back. */
static void connection_waits(struct exchange *x) {
    http_connection_does(x->connection, HTTP_DOING_RUNNING);
}

/* Hands in an order to load or unload. */
static void exchange_order(struct exchange *x) {
    struct repository_order order = {.context = x,
                                     .kind = x->kind == V2_LOAD ? ORDER_LOAD : ORDER_UNLOAD,
                                     .form = ORDER_JSON,
                                     .body = x->body,
                                     .body_bytes = x->body_bytes};
    struct v2_route route;
    struct sy_error err;
    route_find(x->connection, &route);
    if (route.name_length >= sizeof(order.name)) {
        error_set(&err, 404, "there is no model '%.*s'", MODEL_NAME_MAX, route.name);
        exchange_send_error(x, 404, false, err.text);
        return;
    }
    memcpy(order.name, route.name, route.name_length);
    if (frontend_order(&x->frontend->base, &x->inference, &order, &err) == 0)
        connection_waits(x);
    else
        exchange_send_error(x, 503, true, err.text);
}

void exchange_ordered(void *exchange, unsigned status, const char *sentence) {
    struct exchange *x = exchange;
    x->inference.state = INFERENCE_FINISHED;
    if (!x->connection) { /* the client left */
        inference_free(&x->inference);
    } else if (status == 200) {
        answer_is_text(&x->inference); /* empty */
        exchange_send(x, 200, false);
    } else {
        exchange_send_error(x, status, status == 503, sentence);
    }
}

static void service_answer(struct exchange *x) {
    struct v2_answer answer = {.text = x->inference.text};
    struct v2_server server = server_now(x->connection);
    struct v2_route route;
    route_find(x->connection, &route);
    v2_answer(&answer, &route, &server, x->body, x->body_bytes);
    x->inference.text = answer.text;
    answer_is_text(&x->inference);
    exchange_send(x, answer.status, false);
}

/* Inflates the body into a block of its own, which replaces the body's. */
static int body_inflate(struct exchange *x, struct inflater *inflater, struct sy_error *err) {
    size_t before = bytes_before(x);
    struct block_memory memory = {inference_block, inference_block_give, &x->inference};
    char *block;
    int status = inflate_body(inflater, x->encoding, x->body, x->body_bytes, body_bytes_max(x->frontend, x->kind),
                              before, memory, &block, &x->body_bytes, err);
    if (status)
        return status;
    if (x->block)
        inference_block_give(&x->inference, x->block);
    x->block = block;
    x->body = block + before;
    return 0;
}

/* Inflates the body, and lays it out as the model's inputs. */
static unsigned read_body(struct exchange *x, struct inflater *inflater, struct sy_error *err) {
    int status = x->encoding == BODY_IDENTITY ? 0 : body_inflate(x, inflater, err);
    if (status || x->kind != V2_INFER)
        return (unsigned)status;
    struct infer_body body = {.model = x->inference.model,
                              .data = x->body ? x->body : (char[1]){""},
                              .bytes = x->body_bytes,
                              .json_bytes = x->json_bytes,
                              .memory = {inference_block, &x->inference}};
    return (unsigned)infer_parse(&body, &x->inference.call, err);
}

static void read_in_bulk(struct bulk_job *job, struct bulk_tools *tools) {
    struct exchange *x = container_of(job, struct exchange, job);
    x->status = read_body(x, &tools->inflater, &x->error);
}

static void body_read(struct exchange *x, unsigned status, struct sy_error *err) {
    if (status == 0 && desk_of(x->frontend, x->kind)) {
        exchange_order(x);
        return;
    }
    if (status == 0 && x->kind != V2_INFER) {
        service_answer(x);
        return;
    }
    if (status == 0) {
        counter_add(&x->frontend->base.inferences.counters.body_bytes, x->body_bytes);
        status = inference_submit(&x->inference, 0, err);
    }
    if (status == 0)
        connection_waits(x);
    else
        exchange_send_error(x, status, status == 503, err->text);
}

/* Bytes of the body that are JSON. */
static size_t json_bytes_of(const struct exchange *x) {
    return x->json_bytes == INFER_NO_HEADER || (size_t)x->json_bytes > x->body_bytes ? x->body_bytes
                                                                                     : (size_t)x->json_bytes;
}

static bool reads_long(const struct exchange *x) {
    return x->encoding != BODY_IDENTITY || (x->kind == V2_INFER && json_bytes_of(x) > BULK_JSON_BYTES);
}

/* inference_late(); a compressed body, or a long one, is not looked at. */
static unsigned comes_late(struct exchange *x, struct sy_error *err) {
    const struct frontend *f = &x->frontend->base;
    return x->kind == V2_INFER && !reads_long(x)
               ? inference_late(&x->inference, x->body ? x->body : "", json_bytes_of(x), 0, f->streams.reads.behind,
                                f->turn_ns, err)
               : 0;
}

static void to_bulk(struct exchange *x, void (*run)(struct bulk_job *, struct bulk_tools *), size_t bytes) {
    connection_waits(x);
    frontend_to_bulk(&x->frontend->base, &x->inference, &x->job, run, bytes, &x->connection->peer);
}

void exchange_end(struct http_connection *c) {
    struct exchange *x = c->exchange;
    struct http_frontend *f = c->frontend;
    struct sy_error err;
    unsigned late;
    if (x)
        x->inference.request.complete_ns = c->arrived_ns;
    if (!x) {
        respond_verdict(c);
    } else if (x->body_fault == 413) {
        error_set(&err, 413, "the body is larger than %" PRIu64 " bytes: " BODY_LIMIT, body_bytes_max(f, x->kind));
        exchange_send_error(x, 413, false, err.text);
    } else if (x->body_fault) {
        exchange_send_error(x, x->body_fault, true, NO_MEMORY);
    } else if ((late = comes_late(x, &err))) {
        exchange_send_error(x, late, true, err.text);
    } else if (f->base.config.bulk && reads_long(x)) {
        to_bulk(x, read_in_bulk, x->encoding == BODY_IDENTITY ? x->body_bytes : INFLATE_TIMES * x->body_bytes);
    } else {
        unsigned status = read_body(x, &f->base.inflater, &err);
        body_read(x, status, &err);
    }
}

void exchange_from_bulk(struct bulk_job *job) {
    struct exchange *x = container_of(job, struct exchange, job);
    struct inference *i = &x->inference;
    bool read = job->run == read_in_bulk;
    inference_from_bulk(i, read ? INFERENCE_UPLOAD : INFERENCE_FINISHED);
    if (!x->connection) { /* the client left */
        inference_count(i, 0);
        inference_free(i);
    } else if (read) {
        i->request.complete_ns = clock_now_ns();
        body_read(x, x->status, &x->error);
    } else {
        answer_written(x, x->status, &x->error);
    }
}

void exchange_finish(struct exchange *x) {
    struct sy_error err;
    size_t work;
    if (!x->connection) { /* the client left; nobody waits for the answer */
        inference_count(&x->inference, 0);
        inference_free(&x->inference);
    } else if (x->frontend->base.config.bulk &&
               (work = inference_answer_work(&x->inference, true, x->accepts != BODY_IDENTITY)) > 0) {
        to_bulk(x, write_in_bulk, work);
    } else {
        unsigned status = write_answer(x, &x->frontend->base.deflater, &err);
        answer_written(x, status, &err);
    }
}

void exchange_leave(struct exchange *x) {
    struct inference *i = &x->inference;
    x->connection = NULL;
    if (i->state == INFERENCE_RUNNING || i->state == INFERENCE_ORDERED || i->state == INFERENCE_BULK) {
        inference_cancel(i); /* freed when given back */
        return;
    }
    inference_count(i, 0);
    inference_free(i);
}

void exchange_sent(struct exchange *x) {
    inference_count(&x->inference, clock_now_ns());
    inference_free(&x->inference);
}

void exchange_refuse(struct exchange *x) {
    inference_answered(&x->inference, 503);
    exchange_sent(x);
}
