/* http.c - HTTP/1.1 as a frontend's protocol. In a turn (front/net/frontend.c):
 *
 *     finished() -> exchange_finish()                  an answer, sent as soon as it is built
 *     go_on() -> http_connection_go_on() ...           requests that were received behind others
 *     event() -> http_connection_event()               requests read, checked and submitted */
#include "front/http/http.h"

#include "core/system/clock.h"
#include "front/http/http_state.h"

static int http_init(struct frontend *base) {
    struct http_frontend *f = http_frontend_of(base);
    list_init(&f->again);
    list_init(&f->closed);
    http_callbacks_init(&f->callbacks);
    deflater_init(&base->deflater, Z_BEST_SPEED);
    base->answers = f->statuses;
    return 0;
}

static void http_free(struct frontend *base) {
    list_for_each_safe (it, &base->connections)
        http_connection_close(list_entry(it, struct http_connection, link));
    http_connections_free(base);
    text_free(&http_frontend_of(base)->joined);
}

static void http_dismiss(struct stream *stream) {
    http_connection_dismiss(container_of(stream, struct http_connection, stream), NULL);
}

static void http_finished(struct inference *inference) {
    exchange_finish(container_of(inference, struct exchange, inference));
}

/* Goes on with the connections that have kept bytes, for a while. A connection that has some left afterwards is put
 * behind the others. */
static bool http_go_on(struct frontend *base) {
    struct http_frontend *f = http_frontend_of(base);
    const struct list_node *last = f->again.prev; /* connections behind this one are for the next turn */
    int64_t until_ns = list_empty(&f->again) ? 0 : clock_now_ns() + FRONTEND_PARSE_NS;
    while (!list_empty(&f->again)) {
        struct list_node *first = f->again.next;
        list_remove(first);
        http_connection_go_on(list_entry(first, struct http_connection, again));
        if (first == last || clock_now_ns() >= until_ns)
            break;
    }
    return !list_empty(&f->again);
}

/* A request that is refused is answered now, and not when its body has been read. */
static void http_shut(struct frontend *base) {
    list_for_each_safe (it, &base->connections) {
        struct http_connection *c = list_entry(it, struct http_connection, link);
        if (c->doing == HTTP_DOING_HEAD)
            http_connection_close(c);
        else if (c->doing == HTTP_DOING_BODY && !c->exchange)
            exchange_end(c);
    }
}

/* Idle connections do not count: they are closed without a word. */
static bool http_all_said(const struct frontend *base) {
    return frontend_in_flight(base) == 0;
}

static const struct protocol_metrics http_metrics = {
    .name = "http",
    .title = "HTTP",
    .answers = "symphony_http_responses_total",
    .answers_help = "HTTP answers by status.",
    .answer_label = "status",
    .answer_kinds = HTTP_STATUS_MAX,
    .dismissed_help = "HTTP connections that were too slow or idle.",
};

const struct protocol http_protocol = {
    .alpn = "http/1.1",
    .frontend_bytes = sizeof(struct http_frontend),
    .slot_bytes = sizeof(struct exchange),
    .metrics = &http_metrics,
    .init = http_init,
    .free = http_free,
    .begin = http_connection_begin,
    .event = http_connection_event,
    .finished = http_finished,
    .bulk_done = exchange_from_bulk,
    .ordered = exchange_ordered,
    .displace = http_connection_displace,
    .give_up = http_connection_give_up,
    .dismiss = http_dismiss,
    .sweep = http_connections_sweep,
    .go_on = http_go_on,
    .reap = http_connections_free,
    .shut = http_shut,
    .all_said = http_all_said,
};
