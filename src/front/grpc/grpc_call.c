/* grpc_call.c - a call from its headers to its status: the client's messages, and the answers.
 *
 *     call_open() -> call_data() ... -> message complete
 *         unary:     call_half_close() -> grpc_exchange_run()
 *         streaming:                      grpc_exchange_run() at once
 *     grpc_exchange_run() -> scheduler -> exchange_returned() -> answer_ready()
 *         -> call_read(): answers in order, then the status in the trailers */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/assert.h"
#include "front/grpc/grpc_state.h"
#include "front/net/auth.h"
#include "front/request/trail_headers.h"

#define NO_FREE          UINT32_MAX
#define WATCHERS_MAX     1024
#define TAKE_MIN         ((size_t)16 * 1024) /* least rest of an answer that is sent without a copy */
#define MESSAGES_AT_ONCE 32 /* messages of a stream that are taken at once, some 0.05 ms; further ones are kept */

#define HEADER(name_, value_)                                                                                          \
    {                                                                                                                  \
        (uint8_t *)(name_), (uint8_t *)(value_), sizeof(name_) - 1, sizeof(value_) - 1,                                \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                                               \
    }
static const nghttp2_nv header_ok = HEADER(":status", "200"), header_type = HEADER("content-type", "application/grpc"),
                        header_encodings = HEADER("grpc-accept-encoding", "identity,deflate,gzip"),
                        header_gzip = HEADER("grpc-encoding", "gzip"),
                        header_deflate = HEADER("grpc-encoding", "deflate");

/* ---- the pool ---- */

/* The call that has held nothing but its place for longest ends, for another one. */
static bool silent_makes_way(struct grpc_frontend *f) {
    if (list_empty(&f->silent))
        return false;
    struct grpc_call *call = list_entry(f->silent.next, struct grpc_call, silent);
    nghttp2_session *session = call->connection->session;
    connection_check(call->connection,
                     nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_REFUSED_STREAM));
    connection_touch(call->connection);
    call_close(call);
    return true;
}

struct grpc_call *call_begin(struct grpc_connection *c, int32_t stream) {
    struct grpc_frontend *f = c->frontend;
    struct grpc_call *call;
    if (f->call_free != NO_FREE) {
        call = &f->calls[f->call_free];
        f->call_free = call->free_next;
    } else if (f->call_fresh < f->call_count + CALLS_SPARE) {
        call = &f->calls[f->call_fresh++];
    } else {
        return silent_makes_way(f) ? call_begin(c, stream) : NULL;
    }
    f->open_calls++;
    memset(call, 0, offsetof(struct grpc_call, sentence));
    call->connection = c;
    call->stream = stream;
    call->begun_ns = f->base.turn_ns;
    call->method = GRPC_NO_METHOD;
    call->timeout_ns = GRPC_TIMEOUT_NONE;
    call->status = 200;
    call->sentence[0] = '\0';
    call->id.length = 0;
    call->id.trace.flags = 0;
    call->named = call->wants_trail = call->trailed = false;
    coming_init(&call->coming, &c->stream, c->address);
    list_init(&call->exchanges);
    list_init(&call->silent);
    list_append(&f->silent, &call->silent);
    list_init(&call->link);
    list_init(&call->resumed);
    list_append(&c->calls, &call->link);
    return call;
}

/* ---- the end ---- */

/* grpc-status and, of a failure, grpc-message; `digits` and `message` hold their values. */
static size_t status_headers(const struct grpc_call *call, nghttp2_nv *headers, char digits[4], char *message,
                             size_t message_bytes) {
    unsigned code = grpc_code_of(call->status);
    headers[0] = (nghttp2_nv)HEADER("grpc-status", "");
    headers[0].value = (uint8_t *)digits;
    headers[0].valuelen = (size_t)snprintf(digits, 4, "%u", code);
    headers[0].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
    counter_add(&call->connection->frontend->codes[code], 1);
    if (code == GRPC_OK)
        return 1;
    headers[1] = (nghttp2_nv)HEADER("grpc-message", "");
    headers[1].value = (uint8_t *)message;
    headers[1].valuelen = grpc_message_encode(call->sentence, message, message_bytes);
    headers[1].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
    return 2;
}

static nghttp2_nv header_of(const char *name, const char *value, size_t length) {
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), length,
                        NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_INDEX};
}

/* Appends what the client is told of its request; returns the number of headers then. `values` holds their values until
 * nghttp2 has copied them. */
static size_t request_headers(const struct grpc_call *call, nghttp2_nv *headers, size_t count,
                              struct trail_header values[TRAIL_HEADERS_MAX]) {
    if (call->id.length > 0)
        headers[count++] = header_of("x-request-id", call->id.text, call->id.length);
    if (!call->trailed)
        return count;
    const struct model_index *models = call->connection->frontend->base.models;
    uint32_t more = trail_headers(&call->trail, model_index_name(models, call->trail.past.before), values);
    for (uint32_t i = 0; i < more; i++)
        headers[count++] = header_of(values[i].name, values[i].value, strlen(values[i].value));
    return count;
}

/* The call ends with headers alone. */
static void trailers_only(struct grpc_call *call) {
    char digits[4], message[3 * sizeof(call->sentence)];
    struct trail_header values[TRAIL_HEADERS_MAX];
    nghttp2_nv headers[6 + TRAIL_HEADERS_MAX] = {header_ok, header_type, header_encodings};
    size_t count = 3 + status_headers(call, headers + 3, digits, message, sizeof(message));
    count = request_headers(call, headers, count, values);
    call->responded = true;
    connection_check(call->connection,
                     nghttp2_submit_response(call->connection->session, call->stream, headers, count, NULL));
}

static ssize_t read_callback(nghttp2_session *session, int32_t stream, uint8_t *data, size_t bytes, uint32_t *flags,
                             nghttp2_data_source *source, void *context) {
    (void)session;
    (void)stream;
    (void)context;
    return call_read(source->ptr, data, bytes, flags);
}

void call_progress(struct grpc_call *call) {
    connection_touch(call->connection);
    if (!call->responded) {
        struct trail_header values[TRAIL_HEADERS_MAX];
        nghttp2_nv headers[4 + TRAIL_HEADERS_MAX];
        headers[0] = header_ok;
        headers[1] = header_type;
        headers[2] = call->accepts == BODY_GZIP ? header_gzip : header_deflate;
        size_t count = request_headers(call, headers, call->accepts == BODY_IDENTITY ? 2 : 3, values);
        nghttp2_data_provider provider = {.source = {.ptr = call}, .read_callback = read_callback};
        call->responded = true;
        connection_check(call->connection,
                         nghttp2_submit_response(call->connection->session, call->stream, headers, count, &provider));
    } else if (call->deferred) {
        call->deferred = false;
        connection_check(call->connection, nghttp2_session_resume_data(call->connection->session, call->stream));
    }
}

void call_end(struct grpc_call *call, unsigned status, const char *sentence) {
    if (call->ended)
        return;
    call->ended = true;
    call->status = status;
    snprintf(call->sentence, sizeof(call->sentence), "%s", sentence);
    connection_touch(call->connection);
    if (!call->responded && list_empty(&call->exchanges)) {
        trailers_only(call);
        list_remove(&call->silent);
        list_append(&call->connection->frontend->silent, &call->silent);
    } else {
        call_progress(call);
    }
}

/* ---- what the client sends ---- */

static bool name_is(const uint8_t *name, size_t length, const char *literal) {
    return length == strlen(literal) && memcmp(name, literal, length) == 0;
}

void call_header(struct grpc_call *call, const uint8_t *name, size_t name_length, const uint8_t *value, size_t length) {
    static const char type[] = "application/grpc";
    const struct auth *auth = call->connection->frontend->base.config.auth;
    if (name_is(name, name_length, ":path")) {
        call->method = grpc_method_find((const char *)value, length);
    } else if (name_is(name, name_length, ":method")) {
        call->posted = name_is(value, length, "POST");
    } else if (name_is(name, name_length, "content-type")) {
        call->typed = length >= sizeof(type) - 1 && memcmp(value, type, sizeof(type) - 1) == 0 &&
                      (length == sizeof(type) - 1 || value[sizeof(type) - 1] == '+' || value[sizeof(type) - 1] == ';');
    } else if (name_is(name, name_length, "grpc-encoding")) {
        call->encoding = body_encoding_of((const char *)value, length);
    } else if (name_is(name, name_length, "grpc-accept-encoding")) {
        call->accepts = accepted_encoding((const char *)value, length);
    } else if (name_is(name, name_length, "grpc-timeout")) {
        call->timeout_ns = grpc_timeout_parse((const char *)value, length);
        call->timeout_wrong = call->timeout_ns < 0;
    } else if (name_is(name, name_length, "x-request-id")) {
        if (!call->named)
            call->id.length = 0;
        call->named = true;
        request_id_set(&call->id, (const char *)value, length);
    } else if (name_is(name, name_length, "traceparent")) {
        request_id_from_trace(&call->id, (const char *)value, length);
    } else if (name_is(name, name_length, "x-symphony-trail")) {
        call->wants_trail = name_is(value, length, "1");
    } else if (auth) {
        call->authorized |=
            auth_header_allows(auth, (const char *)name, name_length, (const char *)value, length, &call->credentials);
    }
}

/* A request that is no gRPC at all is answered as HTTP. */
static void not_grpc(struct grpc_call *call, const char *status) {
    nghttp2_nv headers[] = {HEADER(":status", "415")};
    headers[0].value = (uint8_t *)status;
    call->ended = call->responded = true;
    connection_check(call->connection,
                     nghttp2_submit_response(call->connection->session, call->stream, headers, 1, NULL));
    connection_touch(call->connection);
}

/* Watchers may stay for ever, and need no token: their number is limited. */
static void watcher_begin(struct grpc_call *call) {
    struct grpc_frontend *f = call->connection->frontend;
    if (f->watchers == WATCHERS_MAX) {
        call_end(call, 503, "too many watch already");
        return;
    }
    call->watcher = true;
    f->watchers++;
}

bool call_open(struct grpc_call *call) {
    struct grpc_frontend *f = call->connection->frontend;
    if (f->open_calls > f->call_count && !grpc_method_asks_health(call->method)) {
        bool itself = f->silent.next == &call->silent;
        silent_makes_way(f);
        if (itself)
            return false;
    }
    call->opened = true;
    call->connection->spare &= acceptor_crowded(&f->base.acceptor);
    if (call->timeout_ns < GRPC_TIMEOUT_NONE - f->base.turn_ns)
        call->limit_ns = f->base.turn_ns + call->timeout_ns;
    if (f->base.deflater.level == 0 || !grpc_method_infers(call->method))
        call->accepts = BODY_IDENTITY;
    if (call->oversized)
        call_end(call, 431, "the headers are larger than they may be");
    else if (!call->posted)
        not_grpc(call, "405");
    else if (!call->typed)
        not_grpc(call, "415");
    else if (!frontend_admits(&f->base.config, call->authorized,
                              grpc_method_asks_health(call->method) || call->method == GRPC_HEALTH_WATCH))
        call_end(call, 401, "a token is needed: authorization: Bearer TOKEN, or x-api-key: TOKEN");
    else if (call->connection->spare && !grpc_method_asks_health(call->method))
        call_end(call, 503, "the server has as many connections as it may");
    else if (call->method == GRPC_NO_METHOD)
        call_end(call, 501, "there is no such method");
    else if (call->method == GRPC_NOT_SERVED)
        call_end(call, 501, "this method is not served");
    else if (grpc_method_orders(call->method) && !f->base.config.desk)
        call_end(call, 503, v2_orders_refused(f->base.config.of_cluster));
    else if (call->encoding == BODY_UNKNOWN)
        call_end(call, 501, "this grpc-encoding is not supported");
    else if (call->timeout_wrong)
        call_end(call, 400, "grpc-timeout is not a time");
    else if (grpc_method_watches(call->method))
        watcher_begin(call);
    return true;
}

/* A message that cannot be kept ends the call, streaming or not: where the next one begins is not known. */
static void message_fail(struct grpc_exchange *x, unsigned status, const char *sentence) {
    struct grpc_call *call = x->call;
    inference_answered(&x->inference, status);
    grpc_exchange_end(x, true);
    call_end(call, status, sentence);
}

static struct grpc_exchange *first_exchange(const struct grpc_call *call) {
    return list_entry(call->exchanges.next, struct grpc_exchange, link);
}

/* The exchange whose message comes, or whose message, of a unary call, has come; NULL: there is none. */
static struct grpc_exchange *exchange_coming(const struct grpc_call *call) {
    if (call->receiving || grpc_method_streams(call->method) || list_empty(&call->exchanges))
        return call->receiving;
    return first_exchange(call);
}

/* Returns how many bytes it took: all, unless the stream has too many exchanges, or there are many messages. */
static size_t messages_take(struct grpc_call *call, const uint8_t *data, size_t bytes) {
    const struct grpc_frontend *f = call->connection->frontend;
    bool streaming = grpc_method_streams(call->method);
    size_t left = bytes;
    uint32_t begun = 0;
    while (left > 0 && !call->ended) {
        struct grpc_exchange *x = call->receiving;
        struct sy_error err;
        size_t taken;
        if (!x && streaming && (call->exchange_count >= STREAM_EXCHANGES_MAX || begun++ == MESSAGES_AT_ONCE))
            return bytes - left;
        if (!x && !streaming && !list_empty(&call->exchanges)) {
            message_fail(first_exchange(call), 400, "a unary call has one message");
            break;
        }
        if (!x && !(x = grpc_exchange_begin(call))) {
            snprintf(err.text, sizeof(err.text), "this frontend has %" PRIu32 " requests in flight and takes no more",
                     f->base.config.requests_max);
            call_end(call, 503, err.text);
            break;
        }
        int status = grpc_message_feed(&x->message, data, left, &taken, &err);
        if (status) {
            message_fail(x, (unsigned)status, err.text);
            break;
        }
        data += taken;
        left -= taken;
        if (x->message.state != GRPC_COMPLETE)
            continue;
        if (streaming)
            grpc_exchange_run(x);
        else
            call->receiving = NULL;
    }
    return bytes; /* what comes behind the end is thrown away */
}

/* The client's last message was taken: ends the call, or runs its message. */
static void messages_end(struct grpc_call *call) {
    if (call->ended)
        return;
    if (call->receiving) {
        message_fail(call->receiving, 400, "the stream ended within a message");
    } else if (grpc_method_streams(call->method)) {
        if (list_empty(&call->exchanges))
            call_end(call, 200, "");
    } else if (list_empty(&call->exchanges)) {
        call_end(call, 400, "a unary call has one message");
    } else {
        grpc_exchange_run(first_exchange(call));
    }
}

/* ---- messages that wait: of a stream that has too many under way, or sent too many at once, or of a connection whose
 * answers are not taken ----
 *
 * A call keeps at most its window's bytes, and only while at least half of STREAM_EXCHANGES_MAX of its exchanges wait:
 * as exchanges are limited, all such calls together keep no more than 64 MiB. The calls of a connection that is held
 * keep at most the connection's window, which counts as its answers do. */

static void kept_free(struct grpc_call *call) {
    text_free(&call->kept);
    call->kept_at = 0;
    list_remove(&call->resumed);
}

void call_resume_later(struct grpc_call *call) {
    if (call->exchange_count < STREAM_EXCHANGES_MAX && list_empty(&call->resumed))
        list_append(&call->connection->frontend->resumed, &call->resumed);
}

/* `bytes` were taken: refills the client's window by as many, now or later. */
static void consume(struct grpc_call *call, size_t bytes) {
    if (call->exchange_count > STREAM_EXCHANGES_MANY && !call->ended)
        call->unconsumed += bytes;
    else
        connection_check(call->connection,
                         nghttp2_session_consume_stream(call->connection->session, call->stream, bytes));
}

/* Bytes have come. A unary call's message has not come before its stream ends. */
static void message_comes(struct grpc_call *call) {
    struct grpc_exchange *x = exchange_coming(call);
    if (x)
        coming_on(&call->connection->frontend->base, &call->coming, grpc_exchange_come(x));
}

void call_data(struct grpc_call *call, const uint8_t *data, size_t bytes) {
    bool waits = (call->kept.length > 0 || call->connection->held) && !call->ended;
    size_t taken = waits ? 0 : messages_take(call, data, bytes);
    if (taken < bytes && call->kept.length == 0 && !call->connection->held)
        call_resume_later(call);
    message_comes(call);
    if (taken < bytes)
        text_append(&call->kept, (const char *)data + taken, bytes - taken);
    if (call->kept.failed)
        call_end(call, 503, "out of memory for the messages that wait");
    consume(call, call->ended ? bytes : taken);
}

static void call_resume(struct grpc_call *call) {
    struct text *kept = &call->kept;
    if (call->connection->held) /* anew; connection_release() lists it again */
        return;
    size_t taken = messages_take(call, (const uint8_t *)kept->data + call->kept_at, kept->length - call->kept_at);
    call->kept_at += taken;
    message_comes(call);
    consume(call, taken);
    connection_touch(call->connection);
    if (call->kept_at < kept->length) {
        if (call->kept_at > kept->length / 2) { /* seldom, so that each byte moves once */
            kept->length -= call->kept_at;
            memmove(kept->data, kept->data + call->kept_at, kept->length);
            call->kept_at = 0;
        }
        call_resume_later(call);
        return;
    }
    kept_free(call);
    if (call->half_closed)
        messages_end(call);
}

bool calls_resume(struct grpc_frontend *f, int64_t until_ns) {
    bool any = false;
    while (!list_empty(&f->resumed) && clock_now_ns() < until_ns) {
        struct grpc_call *call = list_entry(f->resumed.next, struct grpc_call, resumed);
        list_remove(&call->resumed);
        call_resume(call);
        any = true;
    }
    return any;
}

void call_half_close(struct grpc_call *call) {
    call->half_closed = true;
    if (call->kept.length == 0)
        messages_end(call);
}

/* ---- what it gets ---- */

/* The next piece of an answer, at most so many bytes of it. */
static struct iovec answer_next(struct grpc_exchange *x, size_t bytes) {
    const struct iovec *piece = &x->inference.answer.pieces[x->piece];
    size_t left = piece->iov_len - x->piece_at;
    struct iovec next = {(char *)piece->iov_base + x->piece_at, left < bytes ? left : bytes};
    x->piece_at += next.iov_len;
    if (x->piece_at == piece->iov_len) {
        x->piece++;
        x->piece_at = 0;
    }
    return next;
}

static bool answer_over(const struct grpc_exchange *x) {
    return x->piece == x->inference.answer.piece_count;
}

size_t answer_left(const struct grpc_exchange *x) {
    size_t left = 0;
    for (int i = x->piece; i < x->inference.answer.piece_count; i++)
        left += x->inference.answer.pieces[i].iov_len;
    return left - x->piece_at;
}

/* Another exchange is the first now, if there is one. */
static void first_begin(struct grpc_call *call) {
    call->first_ns = call->connection->frontend->base.turn_ns;
    call->out.since_ns = 0;
}

/* Copies what fits of the answers that are ready. */
static size_t answers_copy(struct grpc_call *call, uint8_t *data, size_t bytes) {
    size_t used = 0;
    while (!list_empty(&call->exchanges)) {
        struct grpc_exchange *x = first_exchange(call);
        while (x->answered && !answer_over(x) && used < bytes) {
            struct iovec next = answer_next(x, bytes - used);
            if (next.iov_len > 0)
                memcpy(data + used, next.iov_base, next.iov_len);
            used += next.iov_len;
        }
        if (!x->answered || !answer_over(x))
            break;
        grpc_exchange_end(x, true);
        first_begin(call);
    }
    call->connection->unsent.handed += used;
    return used;
}

/* Whether the call ends when its last answer has been read. */
static bool call_over(const struct grpc_call *call) {
    return call->ended || (call->half_closed && !call->watching && call->kept.length == 0);
}

/* The status follows in the trailers. */
static void call_read_end(struct grpc_call *call, uint32_t *flags) {
    char digits[4], message[3 * sizeof(call->sentence)];
    nghttp2_nv headers[2];
    call->ended = true;
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    size_t count = status_headers(call, headers, digits, message, sizeof(message));
    connection_check(call->connection, nghttp2_submit_trailer(call->connection->session, call->stream, headers, count));
}

ssize_t call_read(struct grpc_call *call, uint8_t *data, size_t bytes, uint32_t *flags) {
    struct grpc_exchange *first = list_empty(&call->exchanges) ? NULL : first_exchange(call);
    size_t left = first && first->answered ? answer_left(first) : 0, used;
    if (left >= TAKE_MIN && !call->connection->stream.tls) { /* TLS copies it anyway */
        used = left < bytes ? left : bytes;
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
        if (used == left && call->exchange_count == 1 && call_over(call))
            call_read_end(call, flags);
        return (ssize_t)used;
    }
    used = answers_copy(call, data, bytes);
    if (list_empty(&call->exchanges) && call_over(call)) {
        call_read_end(call, flags);
        return (ssize_t)used;
    }
    if (used > 0)
        return (ssize_t)used;
    call->deferred = true;
    return NGHTTP2_ERR_DEFERRED;
}

size_t call_take(struct grpc_call *call, size_t bytes, struct iovec *pieces) {
    CHECK(!list_empty(
        &call->exchanges)); /* an exchange stays listed until its whole answer was taken, or its call ends */
    struct grpc_exchange *x = first_exchange(call);
    size_t count = 0;
    call->connection->unsent.handed += bytes;
    while (bytes > 0 || (!answer_over(x) && x->inference.answer.pieces[x->piece].iov_len == 0)) {
        pieces[count] = answer_next(x, bytes);
        bytes -= pieces[count++].iov_len;
    }
    if (answer_over(x)) {
        grpc_exchange_end(x, true);
        first_begin(call);
    }
    return count;
}

void call_close(struct grpc_call *call) {
    struct grpc_frontend *f = call->connection->frontend;
    if (!call->ended) /* no status was sent: the client, or its connection, has left */
        counter_add(&f->codes[GRPC_CANCELLED], 1);
    list_for_each_safe (it, &call->exchanges) {
        struct grpc_exchange *x = list_entry(it, struct grpc_exchange, link);
        enum inference_state state = x->inference.state;
        if (state == INFERENCE_RUNNING || state == INFERENCE_ORDERED || state == INFERENCE_BULK) { /* freed when back */
            inference_cancel(&x->inference);
            grpc_exchange_detach(x);
        } else {
            grpc_exchange_end(x, false);
        }
    }
    kept_free(call);
    list_remove(&call->silent);
    list_remove(&call->link);
    nghttp2_session_set_stream_user_data(call->connection->session, call->stream, NULL);
    f->open_calls--;
    f->watchers -= call->watcher;
    call->free_next = f->call_free;
    f->call_free = (uint32_t)(call - f->calls);
}

void call_fail(struct grpc_call *call, unsigned status, const char *sentence) {
    struct grpc_exchange *x = exchange_coming(call);
    if (x)
        message_fail(x, status, sentence);
    else
        call_end(call, status, sentence);
}

void call_give_up(struct coming *coming) {
    call_fail(container_of(coming, struct grpc_call, coming), 503, REQUEST_GIVEN_UP);
}

void call_reset(struct grpc_call *call) {
    connection_check(call->connection, nghttp2_submit_rst_stream(call->connection->session, NGHTTP2_FLAG_NONE,
                                                                 call->stream, NGHTTP2_CANCEL));
    connection_touch(call->connection);
}

void call_abandon(struct grpc_call *call) {
    if (list_empty(&call->exchanges) || call->kept.length > 0)
        call_end(call, 503, "the server is shutting down");
}
