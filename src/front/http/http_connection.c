/* http_connection.c - a connection over HTTP/1.1: bytes become requests (llhttp parses them), answers become bytes.
 *
 *     http_connection_event() -> feed() -> exchange_begin(), exchange_body() ..., exchange_end()
 *                                          ... -> http_answer_begin(), http_answer_send() -> answer_over()
 *
 * A client that closes its sending side (FIN) may have gone, or may wait for its answer: TCP does not tell these apart.
 * So while the client's request runs, an interim answer (100) is sent, which HTTP/1.1 allows at any time. If the client
 * has gone, its machine answers with a reset, and the request is cancelled. So it is where TLS is ended (close_notify)
 * and the socket is not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/container.h"
#include "front/http/http_state.h"
#include "front/v2/json_put.h"

#define PARTS_A_TURN  16                    /* requests, or parts of one, parsed on one connection in a turn */
#define HEAD_PART     ((size_t)4 * 1024)    /* bytes of a head parsed at once; its fields may be tiny: 0.2 ms */
#define CHUNKED_PART  ((size_t)16 * 1024)   /* bytes of a chunked body parsed at once; chunks may be tiny: 0.1 ms */
#define HEAD_RECEIVE  ((size_t)32 * 1024)   /* bytes of one receive while a head may come: all may have to be kept */
#define BODY_RECEIVE  ((size_t)1024 * 1024) /* bytes of one receive into a body's block */
#define LEAVE_RECEIVE ((size_t)16 * 1024)   /* bytes of one receive that are thrown away */
#define LEAVE_READS   64                    /* such receives of a connection in a turn */
#define SEND_MOST     ((size_t)1024 * 1024) /* bytes sent on one connection in a turn */
#define TLS_SEND_MOST ((size_t)256 * 1024)  /* bytes sent on one TLS connection in a turn: five times as slow */
#define JOINED_MOST   ((size_t)4 * 1024)    /* bytes of an answer that waits for the answers behind it */
#define SEND_PIECES   (2 + INFER_ANSWER_PIECES)
_Static_assert(HEAD_RECEIVE <= FRONTEND_IN_BYTES, "received into the frontend's buffer");

void http_connection_does(struct http_connection *c, enum http_doing doing) {
    coming_over(&c->coming);
    if (doing != HTTP_DOING_BODY)
        list_remove(&c->waiting);
    if (doing == HTTP_DOING_HEAD || doing == HTTP_DOING_LEAVING)
        list_append(&c->frontend->base.waiting, &c->waiting);
    c->doing = doing;
    c->since_ns = c->frontend->base.turn_ns;
    c->bytes = 0;
    c->pace.since_ns = 0;
}

/* ---- a head, piece by piece ---- */

/* False: no memory. */
static bool span_add(struct http_span *span, const char *at, size_t length) {
    if (span->length == 0) {
        span->data = at;
    } else {
        if (span->own.length == 0)
            text_append(&span->own, span->data, span->length);
        text_append(&span->own, at, length);
        span->data = span->own.data;
    }
    span->length += length;
    return !span->own.failed;
}

/* Copies the span's bytes, since the buffer that they lie in is about to be used anew. */
static void span_keep(struct http_span *span) {
    if (span->length == 0 || span->own.length > 0)
        return;
    text_append(&span->own, span->data, span->length);
    span->data = span->own.data;
}

static void span_clear(struct http_span *span) {
    span->length = 0;
    text_free(&span->own);
}

static void spans_clear(struct http_connection *c) {
    span_clear(&c->target);
    span_clear(&c->name);
    span_clear(&c->value);
}

static void request_reset(struct http_connection *c) {
    spans_clear(c);
    http_head_begin(&c->head);
    c->begun = c->head_over = c->whole = c->asked = c->body_out = false;
    c->head_bytes = 0;
    c->verdict = VERDICT_NONE;
    c->path.length = c->out.length = 0;
    c->out_bytes = c->out_sent = 0;
}

/* ---- llhttp's callbacks ---- */

static int on_begin(llhttp_t *parser) {
    struct http_connection *c = parser->data;
    c->begun = true;
    c->since_ns = c->frontend->base.turn_ns;
    return 0;
}

static int on_target(llhttp_t *parser, const char *at, size_t length) {
    struct http_connection *c = parser->data;
    return span_add(&c->target, at, length) ? 0 : -1;
}

/* Whether a header is of the trailer behind a chunked body, which is ignored, and may be as long as a head. */
static bool trailer(struct http_connection *c, size_t length) {
    c->head_bytes += c->head_over ? length : 0;
    return c->head_over;
}

static int on_name(llhttp_t *parser, const char *at, size_t length) {
    struct http_connection *c = parser->data;
    if (trailer(c, length))
        return c->head_bytes > HTTP_HEAD_BYTES_MAX ? -1 : 0;
    return span_add(&c->name, at, length) ? 0 : -1;
}

static int on_value(llhttp_t *parser, const char *at, size_t length) {
    struct http_connection *c = parser->data;
    if (trailer(c, length))
        return c->head_bytes > HTTP_HEAD_BYTES_MAX ? -1 : 0;
    return span_add(&c->value, at, length) ? 0 : -1;
}

static int on_value_complete(llhttp_t *parser) {
    struct http_connection *c = parser->data;
    if (c->head_over)
        return 0;
    http_head_field(&c->head, c->frontend->base.config.auth, c->name.data, c->name.length, c->value.data,
                    c->value.length);
    span_clear(&c->name);
    span_clear(&c->value);
    return 0;
}

static int on_head(llhttp_t *parser) {
    struct http_connection *c = parser->data;
    c->head_over = true;
    parser->upgrade = 0; /* no other protocol is offered: such a request is answered like others */
    c->client_last = !llhttp_should_keep_alive(parser);
    c->last = c->last || c->client_last;
    http_head_end(&c->head, llhttp_get_http_major(parser), llhttp_get_http_minor(parser));
    text_append(&c->path, c->target.data, c->target.length);
    text_end(&c->path);
    if (c->path.failed)
        return -1;
    http_path_decode(c->path.data);
    http_connection_does(c, HTTP_DOING_BODY);
    return exchange_begin(c) ? 0 : -1;
}

static int on_body(llhttp_t *parser, const char *at, size_t length) {
    struct http_connection *c = parser->data;
    c->bytes += length;
    return exchange_body(c, at, length) ? 0 : -1;
}

static int on_complete(llhttp_t *parser) {
    struct http_connection *c = parser->data;
    c->whole = true;
    return HPE_PAUSED; /* until it is answered */
}

void http_callbacks_init(llhttp_settings_t *callbacks) {
    llhttp_settings_init(callbacks);
    callbacks->on_message_begin = on_begin;
    callbacks->on_url = on_target;
    callbacks->on_header_field = on_name;
    callbacks->on_header_value = on_value;
    callbacks->on_header_value_complete = on_value_complete;
    callbacks->on_headers_complete = on_head;
    callbacks->on_body = on_body;
    callbacks->on_message_complete = on_complete;
}

/* ---- begin and end ---- */

void http_connection_begin(struct frontend *f, int fd, const struct peer_address *peer) {
    struct http_connection *c = calloc(1, sizeof(*c));
    if (!c || stream_open(&c->stream, &f->streams, fd, f->turn_ns) < 0) {
        log_warn("no memory for a connection", "protocol=http");
        close(fd);
        acceptor_ended(&f->acceptor, peer);
        free(c);
        return;
    }
    c->frontend = http_frontend_of(f);
    c->peer = *peer;
    c->address = acceptor_peer(&f->acceptor, peer);
    c->spare = acceptor_crowded(&f->acceptor);
    coming_init(&c->coming, &c->stream, c->address);
    text_init(&c->path, c->path_memory, sizeof(c->path_memory));
    text_init(&c->out, c->out_memory, sizeof(c->out_memory));
    list_init(&c->link);
    list_init(&c->again);
    list_init(&c->waiting);
    list_init(&c->unsent.link);
    c->unsent.stream = &c->stream;
    list_append(&f->connections, &c->link);
    llhttp_init(&c->parser, HTTP_REQUEST, &c->frontend->callbacks);
    c->parser.data = c;
    request_reset(c);
    http_connection_does(c, HTTP_DOING_HEAD);
}

static void source_end(struct http_connection *c) {
    struct http_source *source = c->source;
    c->source = NULL;
    if (source)
        source->end(source);
}

/* Ends all but the socket. The connection's memory is freed at the end of the turn (http_connections_free()). */
static void end(struct http_connection *c) {
    struct http_frontend *f = c->frontend;
    c->closed = true;
    if (c->exchange)
        exchange_leave(c->exchange);
    c->exchange = NULL;
    unsent_keep(&f->base.unsent, &c->unsent, 0, f->base.turn_ns);
    coming_over(&c->coming);
    source_end(c);
    list_remove(&c->waiting);
    list_remove(&c->again);
    list_remove(&c->link);
    list_append(&f->closed, &c->link);
}

/* What the client of a connection that leaves still sends. Returns what stream_receive() does. The frontend's buffer
 * may hold what another connection has received. */
static ssize_t throw_away(struct http_connection *c) {
    char rest[LEAVE_RECEIVE];
    ssize_t n = 1;
    for (int reads = 0; n > 0 && reads < LEAVE_READS; reads++)
        n = stream_receive(&c->stream, rest, sizeof(rest), &c->arrived_ns);
    return n;
}

void http_connection_close(struct http_connection *c) {
    if (c->closed)
        return;
    if (c->doing == HTTP_DOING_LEAVING)
        throw_away(c);
    end(c);
    stream_close(&c->stream);
    acceptor_ended(&c->frontend->base.acceptor, &c->peer);
}

void http_connections_free(struct frontend *base) {
    struct http_frontend *f = http_frontend_of(base);
    while (!list_empty(&f->closed)) {
        struct http_connection *c = list_entry(f->closed.next, struct http_connection, link);
        list_remove(&c->link);
        spans_clear(c);
        text_free(&c->kept);
        text_free(&c->path);
        text_free(&c->out);
        free(c);
    }
}

/* The last answer has gone. What the client still sends, of its request or of further ones, is read and thrown away for
 * a while: closing a socket with unread bytes in it resets the connection, and the client may lose the answer. */
static void leave(struct http_connection *c) {
    if (c->stream.tls)
        tls_stream_end(c->stream.tls);
    if (c->stream.tls && stream_write_encrypted(&c->stream, c->frontend->base.turn_ns) < 0) {
        http_connection_close(c);
        return;
    }
    shutdown(c->stream.fd, SHUT_WR);
    http_connection_does(c, HTTP_DOING_LEAVING);
    stream_reading(&c->stream, true);
}

/* Has the connection go on in the next turn. */
static void go_on_later(struct http_connection *c) {
    if (list_empty(&c->again))
        list_append(&c->frontend->again, &c->again);
}

/* ---- answers ---- */

static const char *reason_of(unsigned status) {
    static const struct {
        unsigned status;
        const char *reason;
    } rows[] = {{200, "OK"},
                {400, "Bad Request"},
                {401, "Unauthorized"},
                {403, "Forbidden"},
                {404, "Not Found"},
                {405, "Method Not Allowed"},
                {408, "Request Timeout"},
                {409, "Conflict"},
                {413, "Content Too Large"},
                {414, "URI Too Long"},
                {415, "Unsupported Media Type"},
                {431, "Request Header Fields Too Large"},
                {500, "Internal Server Error"},
                {501, "Not Implemented"},
                {503, "Service Unavailable"},
                {504, "Gateway Timeout"},
                {505, "HTTP Version Not Supported"}};
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++)
        if (rows[i].status == status)
            return rows[i].reason;
    return "Other";
}

void http_answer_begin(struct http_connection *c, unsigned status) {
    char digits[JSON_DIGITS_MAX];
    c->out.length = 0;
    text_put(&c->out, "HTTP/1.1 ");
    text_append(&c->out, digits, json_digits(digits, status));
    text_put_char(&c->out, ' ');
    text_put(&c->out, reason_of(status));
    text_put(&c->out, "\r\n");
    counter_add(&c->frontend->statuses[status < HTTP_STATUS_MAX ? status : 0], 1);
}

/* Sets the pieces that are still to be sent, at most `most` bytes. Returns the number of pieces. */
static size_t pieces_left(const struct http_connection *c, struct iovec *pieces, size_t most) {
    const struct infer_answer *body = c->body_out ? &c->exchange->inference.answer : NULL;
    size_t skip = c->out_sent, count = 0;
    for (int i = -1; i < (body ? body->piece_count : 0) && most > 0; i++) {
        struct iovec piece = i < 0 ? (struct iovec){c->out.data, c->out.length} : body->pieces[i];
        size_t skipped = skip < piece.iov_len ? skip : piece.iov_len, left = piece.iov_len - skipped;
        skip -= skipped;
        left = left < most ? left : most;
        most -= left;
        if (left > 0)
            pieces[count++] = (struct iovec){(char *)piece.iov_base + skipped, left};
    }
    return count;
}

/* Gives a connection that is to go to another frontend away, if nothing of it is here. False: it stays. */
static bool move(struct http_connection *c) {
    if (!c->to || c->closed || c->doing != HTTP_DOING_HEAD || c->begun || c->kept.length > 0 || c->stream.shut ||
        c->frontend->joined_to == c || stream_congested(&c->stream))
        return false;
    end(c);
    acceptor_move(&c->frontend->base.acceptor, c->to, stream_release(&c->stream), &c->peer);
    return true;
}

/* The next request may come. */
static void answer_over(struct http_connection *c) {
    bool whole = c->whole;
    if (c->exchange)
        exchange_sent(c->exchange);
    c->exchange = NULL;
    if (c->out.on_heap) {
        text_free(&c->out);
        text_init(&c->out, c->out_memory, sizeof(c->out_memory));
    }
    if (((c->client_last && whole) || c->ended) && c->kept.length == 0) {
        http_connection_close(c);
        return;
    }
    if (c->last) {
        leave(c);
        return;
    }
    request_reset(c);
    http_connection_does(c, HTTP_DOING_HEAD);
    c->answered++;
    if (c->kept.length > 0)
        go_on_later(c);
    else if (c->more || !move(c))
        stream_reading(&c->stream, true);
}

#define CHUNK_HEAD "00000000\r\n"

/* The source's next piece takes the place of what has been sent. False: there is none, yet or any more. */
static bool piece_next(struct http_connection *c) {
    if (!c->source)
        return false;
    size_t head = c->chunks ? strlen(CHUNK_HEAD) : 0;
    c->out.length = 0;
    text_append(&c->out, CHUNK_HEAD, head);
    c->source->more(c->source, &c->out);
    size_t bytes = c->out.length - head;
    bool more = bytes > 0 && !c->out.failed;
    if (!more && c->source->waits && !c->out.failed) {
        c->out.length = c->out_bytes = c->out_sent = 0;
        return false;
    }
    if (more && c->chunks) {
        char digits[sizeof(CHUNK_HEAD)];
        snprintf(digits, sizeof(digits), "%08zx", bytes & UINT32_MAX);
        memcpy(c->out.data, digits, 8);
        text_put(&c->out, "\r\n");
    }
    if (!more) {
        source_end(c);
        if (!c->chunks || c->out.failed)
            return false;
        c->out.length = 0;
        text_put(&c->out, "0\r\n\r\n");
    }
    c->out_bytes = c->out.length;
    c->out_sent = 0;
    return true;
}

/* Sends what the socket takes; may close it. */
static void send_out(struct http_connection *c) {
    struct iovec pieces[SEND_PIECES];
    int64_t now_ns = c->frontend->base.turn_ns;
    size_t count = pieces_left(c, pieces, c->stream.tls ? TLS_SEND_MOST : SEND_MOST), bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    ssize_t n = !c->stream.tls                                        ? stream_send(&c->stream, pieces, count, now_ns)
                : stream_write(&c->stream, pieces, count, now_ns) < 0 ? -EIO
                                                                      : (ssize_t)bytes;
    if (n < 0) {
        http_connection_close(c);
        return;
    }
    c->out_sent += (size_t)n;
    c->unsent.handed += (size_t)n;
    if (c->out_sent < c->out_bytes && c->exchange)
        c->exchange->inference.slow = true;
    bool over = c->out_sent == c->out_bytes && !stream_congested(&c->stream) && !piece_next(c);
    unsent_keep(&c->frontend->base.unsent, &c->unsent, over ? 0 : c->out_bytes,
                now_ns); /* to its end all of it stays */
    stream_writing(&c->stream, !over);
    if (c->out.failed)
        http_connection_close(c);
    else if (over && !c->source) /* else it waits */
        answer_over(c);
}

bool http_connection_more(struct http_connection *c) {
    if (c->closed || c->doing != HTTP_DOING_ANSWER || !c->source || c->out_sent < c->out_bytes ||
        stream_congested(&c->stream))
        return false;
    if (piece_next(c))
        send_out(c);
    else if (c->out.failed)
        http_connection_close(c);
    else if (!c->source)
        answer_over(c);
    return true;
}

/* Sends the answers that have waited for those behind them; may close the connection. */
static void joined_send(struct http_connection *c) {
    struct text *joined = &c->frontend->joined;
    struct iovec piece = {joined->data, joined->length};
    if (c->frontend->joined_to != c)
        return;
    c->frontend->joined_to = NULL;
    bool failed = joined->failed || (!c->closed && stream_write(&c->stream, &piece, 1, c->frontend->base.turn_ns) < 0);
    text_clear(joined);
    if (failed)
        http_connection_close(c);
}

/* A client that sends requests without waiting for answers gets those that need no run in one piece: a system call
 * costs more than such an answer. False: this one is sent by itself. */
static bool answer_join(struct http_connection *c) {
    struct iovec pieces[SEND_PIECES];
    if ((!c->more && c->frontend->joined_to != c) || c->last || c->source || c->out_bytes > JOINED_MOST ||
        stream_congested(&c->stream))
        return false;
    size_t count = pieces_left(c, pieces, JOINED_MOST);
    c->frontend->joined_to = c;
    for (size_t i = 0; i < count; i++)
        text_append(&c->frontend->joined, pieces[i].iov_base, pieces[i].iov_len);
    return true;
}

/* `body` and `source` NULL: the exchange's answer. */
static void answer_send(struct http_connection *c, const char *body, struct http_source *source, size_t bytes) {
    struct http_frontend *f = c->frontend;
    char digits[JSON_DIGITS_MAX];
    bool head_only = c->parser.method == HTTP_HEAD && c->head_over;
    c->last = c->last || f->base.quiesced ||
              (f->base.config.draining && atomic_load_explicit(f->base.config.draining, memory_order_relaxed));
    c->chunks = false;
    if (bytes != HTTP_LENGTH_UNKNOWN) {
        text_put(&c->out, "Content-Length: ");
        text_append(&c->out, digits, json_digits(digits, bytes));
        text_put(&c->out, "\r\n");
    } else if (llhttp_get_http_minor(&c->parser) == 0) {
        c->last = true;
    } else {
        c->chunks = true;
        text_put(&c->out, "Transfer-Encoding: chunked\r\n");
    }
    if (c->last)
        text_put(&c->out, "Connection: close\r\n");
    else if (llhttp_get_http_minor(&c->parser) == 0)
        text_put(&c->out, "Connection: keep-alive\r\n");
    text_put(&c->out, "\r\n");
    if (body && !head_only)
        text_append(&c->out, body, bytes);
    c->body_out = !body && !source && !head_only;
    c->source = source;
    if (head_only)
        source_end(c);
    c->out_sent = 0;
    c->out_bytes = c->out.length + (c->body_out ? bytes : 0);
    if (!c->out.failed && answer_join(c)) {
        answer_over(c);
        return;
    }
    joined_send(c);
    if (c->closed)
        return;
    http_connection_does(c, HTTP_DOING_ANSWER);
    if (c->out.failed)
        http_connection_close(c);
    else if (!stream_congested(&c->stream))
        send_out(c);
    else /* the rest of an interim answer goes first */
        unsent_keep(&f->base.unsent, &c->unsent, c->out_bytes, f->base.turn_ns);
}

void http_answer_send(struct http_connection *c, const char *body, size_t bytes) {
    answer_send(c, body, NULL, bytes);
}

void http_answer_stream(struct http_connection *c, struct http_source *source) {
    answer_send(c, NULL, source, source->bytes);
}

/* An error that ends the connection. */
static void answer_fault(struct http_connection *c, unsigned status, const char *sentence) {
    struct text body;
    if (c->exchange)
        exchange_leave(c->exchange);
    c->exchange = NULL;
    char memory[512];
    text_init(&body, memory, sizeof(memory));
    json_put_error(&body, sentence);
    c->last = true;
    http_answer_begin(c, status);
    http_header_put(c, "Content-Type", "application/json");
    http_answer_send(c, body.data, body.length);
    text_free(&body);
}

void http_connection_continue(struct http_connection *c) {
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (llhttp_get_http_minor(&c->parser) == 0)
        return;
    joined_send(c);
    if (!c->closed &&
        stream_write(&c->stream, &(struct iovec){(char *)text, sizeof(text) - 1}, 1, c->frontend->base.turn_ns) < 0)
        stream_reading(&c->stream, true); /* the event of the error closes the connection */
}

void http_connection_dismiss(struct http_connection *c, const char *why) {
    counter_add(&c->frontend->base.counters.dismissed, 1);
    if (why && !stream_congested(&c->stream) && !stream_greets(&c->stream))
        answer_fault(c, 408, why);
    else
        http_connection_close(c);
}

void http_connection_displace(struct list_node *waiting) {
    http_connection_dismiss(list_entry(waiting, struct http_connection, waiting), NULL);
}

void http_connection_give_up(struct coming *coming) {
    struct http_connection *c = container_of(coming, struct http_connection, coming);
    exchange_refuse(c->exchange);
    c->exchange = NULL;
    answer_fault(c, 503, REQUEST_GIVEN_UP);
}

/* ---- what the client sends ---- */

static bool takes(const struct http_connection *c) {
    return !c->closed && (c->doing == HTTP_DOING_HEAD || c->doing == HTTP_DOING_BODY);
}

/* Ends the connection if a part of the head found no memory. */
static bool head_failed(struct http_connection *c) {
    bool failed = c->target.own.failed || c->name.own.failed || c->value.own.failed || c->path.failed;
    if (failed)
        answer_fault(c, 503, "out of memory for the request's head");
    return failed;
}

static void malformed(struct http_connection *c) {
    char sentence[160];
    if (head_failed(c))
        return;
    if (c->head_over && c->head_bytes > HTTP_HEAD_BYTES_MAX) {
        answer_fault(c, 431, "the head and the trailer are larger than 16384 bytes");
        return;
    }
    bool two = llhttp_get_errno(&c->parser) == HPE_PAUSED_H2_UPGRADE;
    /* the parser says so of HTTP/1.1, too, if its line ends in a bare LF */
    bool known = llhttp_get_http_major(&c->parser) == 1 && llhttp_get_http_minor(&c->parser) <= 1;
    if (llhttp_get_errno(&c->parser) == HPE_INVALID_VERSION && !known) {
        answer_fault(c, 505, HTTP_VERSION_UNKNOWN);
        return;
    }
    snprintf(sentence, sizeof(sentence), "the request is no HTTP/1.1: %.100s",
             two ? "this port does not speak HTTP/2" : llhttp_get_error_reason(&c->parser));
    answer_fault(c, 400, sentence);
}

/* A part of a head has been parsed. */
static void head_taken(struct http_connection *c, size_t bytes) {
    span_keep(&c->target);
    span_keep(&c->name);
    span_keep(&c->value);
    c->head_bytes += c->begun ? bytes : 0;
    if (head_failed(c) || c->head_bytes < HTTP_HEAD_BYTES_MAX)
        return;
    if (c->head_bytes <= c->target.length + 16) /* the verb and blanks */
        answer_fault(c, 414, "the path is larger than 16384 bytes");
    else
        answer_fault(c, 431, "the head is larger than 16384 bytes");
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Parses what the connection may take now. Returns how much that was. */
static size_t feed(struct http_connection *c, const char *data, size_t bytes) {
    size_t taken = 0;
    for (int parts = 0; taken < bytes && parts < PARTS_A_TURN && takes(c); parts++) {
        size_t n = bytes - taken, head_left = HTTP_HEAD_BYTES_MAX - c->head_bytes;
        if (parts > 0 && clock_now_ns() >= c->until_ns)
            break;
        if (!c->head_over)
            n = least(n, least(head_left, HEAD_PART));
        else if (c->head.chunked)
            n = least(n, CHUNKED_PART);
        llhttp_errno_t rc = llhttp_execute(&c->parser, data + taken, n);
        size_t used = rc == HPE_OK ? n : (size_t)(llhttp_get_error_pos(&c->parser) - (data + taken));
        taken += used;
        if (rc == HPE_PAUSED) {
            llhttp_resume(&c->parser);
            c->more = taken < bytes;
            if (takes(c))
                exchange_end(c);
            c->more = false;
        } else if (rc != HPE_OK && takes(c)) {
            malformed(c);
        } else if (takes(c) && !c->head_over) {
            head_taken(c, used);
        }
    }
    joined_send(c);
    if (c->doing == HTTP_DOING_BODY && c->exchange && !c->closed) {
        coming_on(&c->frontend->base, &c->coming, c->exchange->body_bytes);
        list_remove(&c->waiting);
        list_append(&c->frontend->base.waiting, &c->waiting);
    }
    return taken;
}

/* Parses what was received. What cannot be taken now is kept, and no more is received meanwhile. */
static void take(struct http_connection *c, const char *data, size_t bytes) {
    size_t taken = c->kept.length > 0 ? 0 : feed(c, data, bytes);
    if (taken == bytes && move(c))
        return;
    if (taken == bytes || c->closed || c->doing == HTTP_DOING_LEAVING)
        return;
    text_append(&c->kept, data + taken, bytes - taken);
    if (c->kept.failed) {
        http_connection_close(c);
        return;
    }
    stream_reading(&c->stream, false);
    go_on_later(c);
}

/* Asks a client that has closed its sending side while its request runs whether it is still there. */
static void ask_whether_there(struct http_connection *c) {
    if (c->closed || c->asked || !c->stream.shut || c->doing != HTTP_DOING_RUNNING || stream_congested(&c->stream))
        return;
    c->asked = true;
    http_connection_continue(c);
}

void http_connection_go_on(struct http_connection *c) {
    if (!takes(c))
        return;
    c->until_ns = clock_now_ns() + FRONTEND_PARSE_NS;
    if (c->kept_at < c->kept.length)
        c->kept_at += feed(c, c->kept.data + c->kept_at, c->kept.length - c->kept_at);
    if (c->closed || c->doing == HTTP_DOING_LEAVING)
        return;
    if (c->kept_at < c->kept.length) {
        go_on_later(c);
        return;
    }
    text_free(&c->kept);
    c->kept_at = 0;
    if (c->ended && takes(c)) {
        http_connection_close(c);
        return;
    }
    if (move(c))
        return;
    if (takes(c))
        stream_reading(&c->stream, true);
    ask_whether_there(c);
}

static bool receive_encrypted(struct http_connection *c, const char *data, size_t bytes) {
    struct stream *s = &c->stream;
    char *decrypted = s->home->decrypted;
    ssize_t n = 0;
    tls_stream_give(s->tls, data, bytes);
    while (!c->closed && (n = tls_stream_read(s->tls, decrypted, STREAM_RECORD_BYTES)) > 0)
        if (c->doing != HTTP_DOING_LEAVING)
            take(c, decrypted, (size_t)n);
    if (n == -ESHUTDOWN && !c->closed && c->doing != HTTP_DOING_LEAVING && (!takes(c) || c->kept.length > 0)) {
        c->ended = true;
        stream_shut(s);
        n = 0;
    }
    return c->closed || (stream_write_encrypted(s, c->frontend->base.turn_ns) >= 0 && n == 0);
}

static void receive(struct http_connection *c) {
    struct http_frontend *f = c->frontend;
    size_t bytes = c->doing == HTTP_DOING_HEAD ? HEAD_RECEIVE : FRONTEND_IN_BYTES;
    char *room = c->stream.tls || c->doing != HTTP_DOING_BODY ? NULL : exchange_room(c, &bytes);
    bytes = bytes < BODY_RECEIVE ? bytes : BODY_RECEIVE;
    ssize_t n = stream_receive(&c->stream, room ? room : f->base.in, bytes, &c->arrived_ns);
    if (n == -EAGAIN)
        return;
    c->until_ns = c->stream.active_ns + FRONTEND_PARSE_NS;
    if (n <= 0 || (c->stream.tls && !receive_encrypted(c, f->base.in, (size_t)n)))
        http_connection_close(c);
    else if (!c->stream.tls)
        take(c, room ? room : f->base.in, (size_t)n);
}

void http_connection_event(struct stream *stream, uint32_t events) {
    struct http_connection *c = container_of(stream, struct http_connection, stream);
    if (c->closed)
        return;
    if (events & (EPOLLERR | EPOLLHUP)) {
        http_connection_close(c);
        return;
    }
    if (events & EPOLLRDHUP)
        stream_shut(&c->stream);
    if (events & EPOLLOUT) {
        if (stream_congested(&c->stream) && stream_flush(&c->stream, c->frontend->base.turn_ns) < 0)
            http_connection_close(c);
        else if (!stream_congested(&c->stream) && c->doing == HTTP_DOING_ANSWER)
            send_out(c);
    }
    if ((events & EPOLLIN) && !c->closed && stream_may_greet(&c->stream)) { /* else the event comes again */
        if (takes(c)) {
            receive(c);
        } else if (c->doing == HTTP_DOING_LEAVING) {
            ssize_t n = throw_away(c);
            if (n <= 0 && n != -EAGAIN)
                http_connection_close(c);
        } else { /* bytes that come while a request is under way stay in the socket */
            stream_reading(&c->stream, false);
        }
    }
    ask_whether_there(c);
}
