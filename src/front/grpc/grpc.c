/* grpc.c - gRPC as a frontend's protocol. In a turn (front/net/frontend.c):
 *
 *     finished() -> exchange_returned()           an answer is ready
 *     go_on() -> connections_go_on()              bytes that there was no time for
 *             -> connection_send() ...            one write a connection
 *     event() -> connection_event()               messages read, checked and submitted */
#include "front/grpc/grpc.h"

#include <errno.h>
#include <stdlib.h>

#include "core/system/clock.h"
#include "front/grpc/grpc_state.h"

static int grpc_init(struct frontend *base) {
    struct grpc_frontend *f = grpc_frontend_of(base);
    list_init(&f->dirty);
    list_init(&f->again);
    list_init(&f->closed);
    list_init(&f->ended);
    list_init(&f->resumed);
    f->call_count = 2 * base->config.requests_max;
    f->call_free = UINT32_MAX;
    list_init(&f->silent);
    f->calls = calloc(f->call_count + CALLS_SPARE, sizeof(*f->calls));
    f->out = malloc(OUT_BYTES);
    deflater_init(&base->deflater, base->config.grpc_level);
    base->answers = f->codes;
    return f->calls && f->out ? connections_init(f) : -ENOMEM;
}

static void grpc_free(struct frontend *base) {
    struct grpc_frontend *f = grpc_frontend_of(base);
    list_for_each_safe (it, &base->connections)
        connection_close(list_entry(it, struct grpc_connection, link));
    connections_free(base);
    nghttp2_session_callbacks_del(f->callbacks);
    nghttp2_option_del(f->options);
    recycler_end(&f->recycler);
    free(f->calls);
    free(f->out);
}

static void grpc_finished(struct inference *inference) {
    exchange_returned(container_of(inference, struct grpc_exchange, inference));
}

static void grpc_dismiss(struct stream *stream) {
    struct grpc_connection *c = container_of(stream, struct grpc_connection, stream);
    counter_add(&c->frontend->base.counters.dismissed, 1);
    connection_close(c);
}

/* Sends what all connections have. That may let calls go on that were held back, which then have more to send. */
static void send_all(struct grpc_frontend *f) {
    int64_t until_ns = 0;
    do {
        while (!list_empty(&f->dirty))
            connection_send(list_entry(f->dirty.next, struct grpc_connection, dirty));
        if (until_ns == 0 && !list_empty(&f->resumed))
            until_ns = clock_now_ns() + FRONTEND_PARSE_NS;
    } while (calls_resume(f, until_ns));
}

/* The server ends: calls end whose answers have gone out. */
static void abandon_calls(struct grpc_frontend *f) {
    list_for_each (it, &f->base.connections) {
        struct grpc_connection *c = list_entry(it, struct grpc_connection, link);
        list_for_each (call, &c->calls)
            call_abandon(list_entry(call, struct grpc_call, link));
    }
}

static bool grpc_go_on(struct frontend *base) {
    struct grpc_frontend *f = grpc_frontend_of(base);
    connections_go_on(f);
    send_all(f);
    if (base->ending) {
        abandon_calls(f);
        send_all(f);
    }
    return !list_empty(&f->again) || !list_empty(&f->resumed);
}

static void grpc_quiesce(struct frontend *base) {
    list_for_each (it, &base->connections)
        connection_goaway(list_entry(it, struct grpc_connection, link));
}

/* After GOAWAY a connection ends with its last call. */
static bool grpc_all_said(const struct frontend *base) {
    return list_empty(&base->connections);
}

static const struct protocol_metrics grpc_metrics = {
    .name = "grpc",
    .title = "gRPC",
    .answers = "symphony_grpc_calls_total",
    .answers_help = "gRPC calls by status; CANCELLED: of which the client left.",
    .answer_label = "code",
    .answer_kinds = GRPC_CODE_COUNT,
    .answer_name = grpc_code_name,
    .dismissed_help = "gRPC connections that were too slow, idle or flooding.",
};

const struct protocol grpc_protocol = {
    .alpn = "h2",
    .frontend_bytes = sizeof(struct grpc_frontend),
    .slot_bytes = sizeof(struct grpc_exchange),
    .metrics = &grpc_metrics,
    .init = grpc_init,
    .free = grpc_free,
    .begin = connection_begin,
    .event = connection_event,
    .finished = grpc_finished,
    .bulk_done = exchange_bulk_returned,
    .ordered = exchange_order_returned,
    .displace = connection_displace,
    .give_up = call_give_up,
    .dismiss = grpc_dismiss,
    .sweep = connections_sweep,
    .go_on = grpc_go_on,
    .reap = connections_free,
    .quiesce = grpc_quiesce,
    .all_said = grpc_all_said,
};
