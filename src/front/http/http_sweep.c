/* http_sweep.c - once a second ends connections that have taken too long. The limits:
 *
 *     TLS, a head           head_timeout_s from its first byte (TLS: from the connection's begin)
 *     no request            idle_timeout_s
 *     BODY                  less than rate_min for head_timeout_s
 *     RUNNING               no limit: the client waits for us
 *     ANSWER                as BODY, by what the client has acknowledged
 *     LEAVING               LEAVE_S
 *
 * It also chooses the connection that is given to another thread, if this one is too busy (acceptor.h). */
#include "core/system/clock.h"
#include "front/http/http_state.h"

#define LEAVE_S 2

static void look(struct frontend *f, struct http_connection *c) {
    int64_t passed_ns = f->turn_ns - c->since_ns;
    int64_t head_ns = f->config.head_timeout_s * NS_PER_S, idle_ns = f->config.idle_timeout_s * NS_PER_S;
    switch (c->doing) {
    case HTTP_DOING_HEAD:
        if (stream_greets(&c->stream) ? f->turn_ns - c->stream.begun_ns > head_ns : c->begun && passed_ns > head_ns) {
            http_connection_dismiss(c, "the request did not arrive in time");
        } else if (!c->begun && passed_ns > idle_ns) {
            http_connection_dismiss(c, NULL);
        }
        break;
    case HTTP_DOING_BODY:
        if (frontend_slow(&f->config, &c->pace, c->bytes, f->turn_ns))
            http_connection_dismiss(c, "the request did not arrive in time");
        break;
    case HTTP_DOING_ANSWER:
        if (frontend_slow(&f->config, &c->pace, unsent_taken(&c->unsent), f->turn_ns))
            http_connection_dismiss(c, NULL);
        else if (c->body_out)
            inference_detach(&c->exchange->inference);
        break;
    case HTTP_DOING_LEAVING:
        if (passed_ns > LEAVE_S * NS_PER_S)
            http_connection_close(c);
        break;
    case HTTP_DOING_RUNNING:
        break;
    }
}

/* Chooses the connection that is to go to a thread with less to do: of those that make up no more than half of this
 * thread's work, since a larger one would only be too much for the other, the one with the most requests. */
static void share(struct frontend *f) {
    struct http_connection *most = NULL;
    uint64_t all = 0;
    list_for_each (it, &f->connections)
        all += list_entry(it, struct http_connection, link)->answered;
    list_for_each (it, &f->connections) {
        struct http_connection *c = list_entry(it, struct http_connection, link);
        if (f->idler && !c->stream.tls && 2 * (uint64_t)c->answered <= all && c->answered > (most ? most->answered : 0))
            most = c;
        c->to = NULL;
    }
    if (most)
        most->to = f->idler;
    list_for_each (it, &f->connections)
        list_entry(it, struct http_connection, link)->answered = 0;
}

void http_connections_sweep(struct frontend *f) {
    list_for_each_safe (it, &f->connections)
        look(f, list_entry(it, struct http_connection, link));
    share(f);
}
