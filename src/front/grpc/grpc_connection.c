/* grpc_connection.c - a socket and the HTTP/2 session on it. nghttp2 does HTTP/2; its callbacks go to the calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/assert.h"
#include "front/grpc/grpc_state.h"

#define STREAMS_MAX           1024       /* most calls at once on one connection */
#define READS_MAX             8          /* reads of one connection in a turn: 1 MiB, some 0.2 ms */
#define STREAM_WINDOW         (4 << 20)  /* bytes that a client may send of a call before it hears from us */
#define CONNECTION_WINDOW     (32 << 20) /* bytes that a client may send of all calls before it hears from us */
#define HEADER_LIST_BYTES_MAX (32 << 10) /* longest header block of a call */
/* From this size on a header block is only decoded, since later blocks depend on that, and its stream is reset. A byte
 * then takes up to 30 ns; it may stand for 4 KiB, which would take another 700 ns to look at. */
#define HEADER_LIST_BYTES_READ (512 << 10)
/* Header blocks that are too large: allowed at once, and a second. */
#define REFUSED_BURST 16
#define REFUSED_RATE  1
#define SLICE_BYTES   ((size_t)2048) /* bytes parsed between looks at the clock, in whole frames: some 0.1 ms */
/* Resets a second that are not taken for an attack, whoever resets: a fault of the client's, such as a window without
 * end, has us do it. A client whose deadlines pass resets every such call. */
#define RESETS_BURST 20000
#define RESETS_RATE  10000
/* Frames that carry no call: allowed at once, and a second. A client that measures its bandwidth pings once for every
 * round of data. */
#define CONTROL_BURST 1000
#define CONTROL_RATE  100

static struct grpc_call *call_of(nghttp2_session *session, int32_t stream) {
    return nghttp2_session_get_stream_user_data(session, stream);
}

/* Takes one from the allowance. False: the client has sent too many. */
static bool allowance_take(struct allowance *a, uint32_t burst, uint32_t rate, int64_t now_ns) {
    if (a->left == 0) {
        int64_t earned = (now_ns - a->grown_ns) / (NS_PER_S / rate);
        a->left = earned < burst ? (uint32_t)earned : burst;
        a->grown_ns = now_ns;
    }
    if (a->left == 0)
        return false;
    a->left--;
    return true;
}

static void calm(struct grpc_connection *c, const char *why) {
    if (c->ending)
        return;
    counter_add(&c->frontend->base.counters.dismissed, 1);
    connection_end(c, NGHTTP2_ENHANCE_YOUR_CALM, why);
}

/* Frames that carry nothing (PING, SETTINGS, empty DATA, PRIORITY) cost us answers or time: a connection
 * may send so many at once and a second, and one more for every frame that carries something. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *context) {
    struct grpc_connection *c = context;
    (void)session;
    c->greeted = true;
    if (hd->type == NGHTTP2_HEADERS || (hd->type == NGHTTP2_DATA && hd->length > 0)) {
        c->control.left += c->control.left < CONTROL_BURST;
        return 0;
    }
    if (hd->type == NGHTTP2_WINDOW_UPDATE || hd->type == NGHTTP2_RST_STREAM || hd->type == NGHTTP2_CONTINUATION ||
        (hd->type == NGHTTP2_DATA && (hd->flags & NGHTTP2_FLAG_END_STREAM)))
        return 0; /* these cost little, but for resets, which on_stream_close() counts */
    if (!allowance_take(&c->control, CONTROL_BURST, CONTROL_RATE, c->frontend->base.turn_ns))
        calm(c, "too_many_pings"); /* what gRPC's clients look for */
    return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context) {
    struct grpc_connection *c = context;
    c->header_bytes = 0;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct grpc_call *call = call_begin(c, frame->hd.stream_id);
    if (!call) /* REFUSED_STREAM: the client knows that it may try again elsewhere */
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
    return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t length, uint8_t flags, void *context) {
    struct grpc_connection *c = context;
    struct grpc_call *call = call_of(session, frame->hd.stream_id);
    size_t before = c->header_bytes;
    (void)flags;
    c->header_bytes += name_length + length + 32;
    bool oversized = c->header_bytes > HEADER_LIST_BYTES_MAX;
    if (oversized && before <= HEADER_LIST_BYTES_MAX &&
        !allowance_take(&c->refused, REFUSED_BURST, REFUSED_RATE, c->frontend->base.turn_ns))
        calm(c, "too_large_headers");
    if (c->header_bytes > HEADER_LIST_BYTES_READ)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* the stream is reset */
    if (!call || frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    call->oversized = oversized;
    if (!oversized)
        call_header(call, name, name_length, value, length);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t bytes,
                   void *context) {
    struct grpc_call *call = call_of(session, stream);
    struct grpc_connection *c = context;
    (void)flags;
    if (c->held)
        c->unconsumed += bytes;
    else
        connection_check(c, nghttp2_session_consume_connection(session, bytes));
    if (call)
        call_data(call, data, bytes);
    else
        connection_check(c, nghttp2_session_consume_stream(session, stream, bytes));
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context) {
    (void)context;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    struct grpc_call *call = call_of(session, frame->hd.stream_id);
    if (!call)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST && !call_open(call))
        return 0;
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        call_half_close(call);
    return 0;
}

/* An answer has ended before the client's message did: tells the client to stop sending. (Submitted any sooner, nghttp2
 * would drop the answer.) */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *context) {
    if (frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    struct grpc_call *call = call_of(session, frame->hd.stream_id);
    if (call && !call->half_closed)
        connection_check(context,
                         nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR));
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error_code, void *context) {
    struct grpc_connection *c = context;
    struct grpc_call *call = call_of(session, stream);
    if (call)
        call_close(call);
    if (error_code != NGHTTP2_NO_ERROR && error_code != NGHTTP2_REFUSED_STREAM &&
        !allowance_take(&c->resets, RESETS_BURST, RESETS_RATE, c->frontend->base.turn_ns))
        calm(c, "too_many_resets");
    return 0;
}

/* ---- begin and end ---- */

void connection_begin(struct frontend *base, int fd, const struct peer_address *peer) {
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_BYTES_MAX},
    };
    struct grpc_frontend *f = grpc_frontend_of(base);
    struct grpc_connection *c = calloc(1, sizeof(*c));
    if (!c)
        goto err_close;
    *c = (struct grpc_connection){.frontend = f,
                                  .control = {CONTROL_BURST, base->turn_ns},
                                  .resets = {RESETS_BURST, base->turn_ns},
                                  .refused = {REFUSED_BURST, base->turn_ns},
                                  .frame_left = NGHTTP2_CLIENT_MAGIC_LEN,
                                  .peer = *peer,
                                  .address = acceptor_peer(&base->acceptor, peer),
                                  .spare = acceptor_crowded(&base->acceptor)};
    list_init(&c->dirty);
    list_init(&c->again);
    list_init(&c->calls);
    list_init(&c->unsent.link);
    c->unsent.stream = &c->stream;
    if (nghttp2_session_server_new3(&c->session, f->callbacks, c, f->options, &f->memory) != 0)
        goto err_free;
    if (nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, ARRAY_COUNT(settings)) != 0 ||
        nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) != 0 ||
        stream_open(&c->stream, &base->streams, fd, base->turn_ns) < 0)
        goto err_session;
    list_init(&c->link);
    list_append(&base->connections, &c->link);
    list_init(&c->waiting);
    list_append(&base->waiting, &c->waiting);
    if (base->quiesced)
        connection_goaway(c);
    connection_touch(c);
    return;

err_session:
    nghttp2_session_del(c->session);
err_free:
    free(c);
err_close:
    log_warn("no memory for a connection", "protocol=grpc");
    close(fd);
    acceptor_ended(&base->acceptor, peer);
}

void connection_close(struct grpc_connection *c) {
    struct grpc_frontend *f = c->frontend;
    c->closed = true;
    list_for_each_safe (it, &c->calls)
        call_close(list_entry(it, struct grpc_call, link));
    unsent_keep(&f->base.unsent, &c->unsent, 0, f->base.turn_ns);
    list_remove(&c->waiting);
    list_remove(&c->link);
    list_remove(&c->dirty);
    list_remove(&c->again);
    nghttp2_session_del(c->session);
    stream_close(&c->stream);
    acceptor_ended(&f->base.acceptor, &c->peer);
    list_append(&f->closed, &c->link);
}

void connections_free(struct frontend *base) {
    struct grpc_frontend *f = grpc_frontend_of(base);
    list_for_each_safe (it, &f->closed) {
        struct grpc_connection *c = list_entry(it, struct grpc_connection, link);
        text_free(&c->kept);
        free(c);
    }
    list_init(&f->closed);
}

static void goaway(struct grpc_connection *c, uint32_t error, const char *why) {
    int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);
    nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, error, (const uint8_t *)why, strlen(why));
    connection_touch(c);
}

void connection_end(struct grpc_connection *c, uint32_t error, const char *why) {
    goaway(c, error, why);
    c->ending = true;
}

void connection_goaway(struct grpc_connection *c) {
    goaway(c, NGHTTP2_NO_ERROR, "");
}

/* ---- sending ---- */

static void outgoing_put(struct outgoing *o, const void *data, size_t bytes) {
    CHECK_LT(o->count, OUTGOING_PIECES);
    o->pieces[o->count++] = (struct iovec){(void *)data, bytes};
}

/* Gathers bytes that do not stay where they are, by copying them. False: there is no room; write first. */
static bool outgoing_copy(struct grpc_connection *c, const void *data, size_t bytes) {
    struct outgoing *o = &c->frontend->outgoing;
    char *at = c->frontend->out + o->copied;
    struct iovec *last = o->count > 0 ? &o->pieces[o->count - 1] : NULL;
    if (o->copied + bytes > OUT_BYTES || o->count == OUTGOING_PIECES - 1) /* one piece is kept for a long frame */
        return false;
    memcpy(at, data, bytes);
    o->copied += bytes;
    if (last && (char *)last->iov_base + last->iov_len == at)
        last->iov_len += bytes;
    else
        outgoing_put(o, at, bytes);
    return true;
}

/* A frame of a long answer: its head is copied, the rest is sent from the engine's memory. */
static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t bytes,
                        nghttp2_data_source *source, void *context) {
    struct grpc_connection *c = context;
    struct outgoing *o = &c->frontend->outgoing;
    (void)session;
    (void)frame;
    o->full = o->count + 1 + INFER_ANSWER_PIECES >= OUTGOING_PIECES || !outgoing_copy(c, head, FRAME_HEAD_BYTES);
    if (o->full)
        return NGHTTP2_ERR_WOULDBLOCK; /* nghttp2 offers the frame again after the write */
    o->count += call_take(source->ptr, bytes, &o->pieces[o->count]);
    return 0;
}

/* Returns what stream_write() does. */
static int frames_send(struct grpc_connection *c) {
    struct outgoing *o = &c->frontend->outgoing;
    int rc = 1;
    while (rc == 1) {
        const uint8_t *frame;
        o->full = false;
        ssize_t n = nghttp2_session_mem_send(c->session, &frame);
        if (n > 0 && outgoing_copy(c, frame, (size_t)n))
            continue;
        if (n > 0)
            outgoing_put(o, frame, (size_t)n);
        rc = stream_write(&c->stream, o->pieces, o->count, c->frontend->base.turn_ns);
        o->count = 0;
        o->copied = 0;
        exchanges_free(c->frontend);
        if (n < 0)
            return -ENOMEM;
        if (n == 0 && !o->full)
            return rc;
    }
    return rc;
}

static bool connection_over(const struct grpc_connection *c) {
    return c->ending || (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session));
}

void connection_send(struct grpc_connection *c) {
    struct frontend *f = &c->frontend->base;
    list_remove(&c->dirty);
    if (!connection_congested(c) && !stream_greets(&c->stream) &&
        (frames_send(c) < 0 || (!connection_congested(c) && connection_over(c))))
        connection_close(c);
    else
        unsent_keep(&f->unsent, &c->unsent, c->answers + c->unconsumed + c->stream.unsent.length - c->stream.unsent_at,
                    f->turn_ns);
}

void connection_displace(struct list_node *waiting) {
    struct grpc_connection *c = list_entry(waiting, struct grpc_connection, waiting);
    counter_add(&c->frontend->base.counters.dismissed, 1);
    connection_end(c, NGHTTP2_NO_ERROR, "too many connections");
    connection_send(c);
    if (!c->closed)
        connection_close(c);
}

/* ---- reading ---- */

/* The number of bytes to parse before the next look at the clock: whole frames. Of a longer frame it is a slice, unless
 * the frame is DATA, most of which is copied. */
static size_t slice_bytes(struct grpc_connection *c, const char *data, size_t bytes) {
    size_t n = 0;
    while (n < bytes && n < SLICE_BYTES) {
        if (c->frame_left > 0) {
            size_t left = bytes - n, most = c->in_data ? left : SLICE_BYTES - n;
            size_t part = c->frame_left < left ? c->frame_left : left;
            part = part < most ? part : most;
            c->frame_left -= part;
            n += part;
            continue;
        }
        size_t missing = (size_t)(FRAME_HEAD_BYTES - c->head_bytes), head = missing < bytes - n ? missing : bytes - n;
        memcpy(c->head + c->head_bytes, data + n, head);
        c->head_bytes += (uint8_t)head;
        n += head;
        if (c->head_bytes == FRAME_HEAD_BYTES) {
            c->frame_left = (size_t)c->head[0] << 16 | (size_t)c->head[1] << 8 | c->head[2];
            c->in_data = c->head[3] == NGHTTP2_DATA;
            c->head_bytes = 0;
        }
    }
    return n;
}

/* Parses for as long as the connection may. Returns how much that was; negative: not HTTP/2, or out of memory; lesser
 * faults end in a GOAWAY. */
static ssize_t frames_parse(struct grpc_connection *c, const char *data, size_t bytes) {
    size_t taken = 0;
    do {
        if (c->ending)
            return (ssize_t)bytes;
        ssize_t n = nghttp2_session_mem_recv(c->session, (const uint8_t *)data + taken,
                                             slice_bytes(c, data + taken, bytes - taken));
        if (n < 0)
            return n;
        taken += (size_t)n;
    } while (taken < bytes && clock_now_ns() < c->until_ns);
    return (ssize_t)taken;
}

/* Parses what was received. What there is no time for is kept, and no more is received meanwhile. False: as above. */
static bool frames_take(struct grpc_connection *c, const char *data, size_t bytes) {
    ssize_t taken = c->kept.length > 0 ? 0 : frames_parse(c, data, bytes);
    if (taken < 0)
        return false;
    if ((size_t)taken == bytes)
        return true;
    if (c->kept.length == 0) {
        stream_reading(&c->stream, false);
        list_append(&c->frontend->again, &c->again);
    }
    text_append(&c->kept, data + taken, bytes - (size_t)taken);
    return !c->kept.failed;
}

/* Goes on with what is kept. */
static void connection_go_on(struct grpc_connection *c, int64_t now_ns) {
    c->until_ns = now_ns + FRONTEND_PARSE_NS;
    connection_touch(c);
    ssize_t taken = frames_parse(c, c->kept.data + c->kept_at, c->kept.length - c->kept_at);
    if (taken < 0) {
        connection_close(c);
        return;
    }
    c->kept_at += (size_t)taken;
    if (c->kept_at < c->kept.length) {
        list_append(&c->frontend->again, &c->again);
        return;
    }
    text_free(&c->kept);
    c->kept_at = 0;
    stream_reading(&c->stream, true);
}

void connections_go_on(struct grpc_frontend *f) {
    int64_t now_ns = list_empty(&f->again) ? 0 : clock_now_ns(), until_ns = now_ns + FRONTEND_PARSE_NS;
    while (!list_empty(&f->again) && now_ns < until_ns) {
        struct grpc_connection *c = list_entry(f->again.next, struct grpc_connection, again);
        list_remove(&c->again);
        connection_go_on(c, now_ns);
        now_ns = clock_now_ns();
    }
}

static bool encrypted_take(struct grpc_connection *c, const char *data, size_t bytes) {
    struct stream *s = &c->stream;
    char *decrypted = s->home->decrypted;
    ssize_t n;
    tls_stream_give(s->tls, data, bytes);
    while ((n = tls_stream_read(s->tls, decrypted, STREAM_RECORD_BYTES)) > 0)
        if (!frames_take(c, decrypted, (size_t)n))
            return false;
    /* sends what the handshake has to say, or why it failed */
    return stream_write_encrypted(s, c->frontend->base.turn_ns) >= 0 && n == 0;
}

/* Reads for a while; epoll tells again of what is left. */
static void readable(struct grpc_connection *c) {
    struct grpc_frontend *f = c->frontend;
    if (!stream_may_greet(&c->stream))
        return; /* epoll tells again */
    connection_touch(c);
    for (int reads = 0; reads < READS_MAX; reads++) {
        ssize_t n = stream_receive(&c->stream, f->base.in, FRONTEND_IN_BYTES, &c->arrived_ns);
        if (n == -EAGAIN)
            return;
        if (reads == 0)
            c->until_ns = c->stream.active_ns + FRONTEND_PARSE_NS;
        if (n <= 0 ||
            !(c->stream.tls ? encrypted_take(c, f->base.in, (size_t)n) : frames_take(c, f->base.in, (size_t)n))) {
            connection_close(c);
            return;
        }
        if ((size_t)n < FRONTEND_IN_BYTES || c->kept.length > 0 || c->stream.active_ns >= c->until_ns)
            return;
    }
}

void connection_event(struct stream *stream, uint32_t events) {
    struct grpc_connection *c = container_of(stream, struct grpc_connection, stream);
    if (c->closed)
        return;
    if (events & EPOLLRDHUP)
        stream_shut(&c->stream);
    if (!(events & EPOLLOUT) || !connection_congested(c)) {
        if (c->kept.length == 0)
            readable(c);
        return;
    }
    int rc = stream_flush(&c->stream, c->frontend->base.turn_ns); /* epoll tells again of what there is to read */
    if (rc < 0)
        connection_close(c);
    else if (rc > 0)
        connection_touch(c);
}

/* ---- for all connections ---- */

static void *memory_take(size_t bytes, void *recycler) {
    return recycler_take(recycler, bytes);
}

static void *memory_take_zeroed(size_t count, size_t bytes, void *recycler) {
    return recycler_take_zeroed(recycler, count, bytes);
}

static void *memory_resize(void *piece, size_t bytes, void *recycler) {
    return recycler_resize(recycler, piece, bytes);
}

static void memory_give(void *piece, void *recycler) {
    recycler_give(recycler, piece);
}

int connections_init(struct grpc_frontend *f) {
    f->memory = (nghttp2_mem){&f->recycler, memory_take, memory_give, memory_take_zeroed, memory_resize};
    if (nghttp2_session_callbacks_new(&f->callbacks) != 0 || nghttp2_option_new(&f->options) != 0)
        return -ENOMEM;
    nghttp2_session_callbacks_set_on_begin_frame_callback(f->callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(f->callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(f->callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(f->callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(f->callbacks, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(f->callbacks, on_frame_sent);
    nghttp2_session_callbacks_set_send_data_callback(f->callbacks, on_send_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(f->callbacks, on_stream_close);
    nghttp2_option_set_no_auto_window_update(f->options, 1);
    nghttp2_option_set_no_closed_streams(f->options, 1);
    nghttp2_option_set_stream_reset_rate_limit(f->options, UINT32_MAX, UINT32_MAX); /* on_stream_close() has one */
    return 0;
}
