/* grpc_sweep.c - once a second ends connections and calls that have taken too long. The limits:
 *
 *     TLS, and the first frame       head_timeout_s
 *     a call's headers               head_timeout_s; nothing else can come meanwhile, so the connection ends
 *     a message, once it has begun   less than rate_min for head_timeout_s
 *     a unary call's message         head_timeout_s from the call's begin, then the same
 *     an answer that is ready        as a message: the client may keep its window closed, or not read
 *     a stream without messages      no limit, unless there are too many calls
 *     a connection without calls     idle_timeout_s since its last byte
 *     a connection                   some age_s, if that is not 0: then its calls end as they would, and it takes no
 * more */
#include "core/system/clock.h"
#include "front/grpc/grpc_state.h"

#define CROWDED_IDLE_S                                                                                                 \
    10 /* where less than an eighth of the calls is free, a stream that nobody uses ends after so long */

#define NOTICE_NS                                                                                                      \
    (1 * NS_PER_S)  /* time for calls that a client sends before it hears that its connection is too old               \
                     */
#define AGE_PART 10 /* the part of its age by which a connection may end sooner or later */

static int64_t passed_ns(const struct grpc_frontend *f, int64_t since_ns) {
    return f->base.turn_ns - since_ns;
}

/* The bytes of a message come too slowly. While we keep what came, or do not refill the client's window, it cannot send
 * more. */
static bool arrives_late(const struct grpc_frontend *f, struct grpc_call *call, const struct grpc_exchange *x) {
    const struct grpc_message *m = &x->message;
    if (call->unconsumed > 0 || call->kept.length > 0 || call->connection->held)
        call->in.since_ns = 0;
    return frontend_slow(&f->base.config, &call->in, m->bytes - m->to_come, f->base.turn_ns);
}

/* The client leaves its window closed for an answer. An answer's time begins when those before it have gone. */
static bool leaves_late(const struct grpc_frontend *f, struct grpc_call *call, const struct grpc_exchange *x) {
    return x->answered && frontend_slow(&f->base.config, &call->out, x->bytes - answer_left(x), f->base.turn_ns) &&
           nghttp2_session_get_stream_remote_window_size(call->connection->session, call->stream) <= 0;
}

/* The message that the client has begun and not ended; NULL: there is none. A unary call's ends with its stream. */
static const struct grpc_exchange *incomplete(const struct grpc_call *call, const struct grpc_exchange *first) {
    bool unary = !grpc_method_streams(call->method) && !call->half_closed && !call->ended;
    return call->receiving ? call->receiving : unary ? first : NULL;
}

/* Whether a stream without messages makes way for others; one that ends anyway does so, too. */
static bool makes_way(const struct grpc_frontend *f, const struct grpc_call *call, uint32_t *excess) {
    int64_t since_ns = call->first_ns > call->begun_ns ? call->first_ns : call->begun_ns;
    bool goes = *excess > 0 && (call->ended || passed_ns(f, since_ns) > CROWDED_IDLE_S * NS_PER_S);
    *excess -= goes;
    return goes;
}

/* `excess` calls are too many. False: the connection is of no more use. */
static bool call_look(struct grpc_frontend *f, struct grpc_call *call, uint32_t *excess) {
    const struct grpc_exchange *first =
        list_empty(&call->exchanges) ? NULL : list_entry(call->exchanges.next, struct grpc_exchange, link);
    const struct grpc_exchange *coming = incomplete(call, first);
    bool open_late = passed_ns(f, call->begun_ns) > f->base.config.head_timeout_s * NS_PER_S;
    bool waits =
        !grpc_method_streams(call->method) && !first && !call->half_closed && !call->ended && call->kept.length == 0;
    if (!call->opened)
        return !open_late;
    if (coming ? arrives_late(f, call, coming) : waits && open_late)
        call_fail(call, 408, "the message did not arrive in time");
    else if (first && leaves_late(f, call, first))
        call_reset(call);
    else if (!first && !call->watching && makes_way(f, call, excess))
        call_fail(call, 503, "too many calls are open");
    else
        call_watch(call);
    if (f->base.unsent.bytes > 0)
        list_for_each (it, &call->exchanges) {
            struct grpc_exchange *x = list_entry(it, struct grpc_exchange, link);
            if (x->answered) /* and not taken at once */
                inference_detach(&x->inference);
        }
    return true;
}

static bool calls_look(struct grpc_frontend *f, struct grpc_connection *c, uint32_t *excess) {
    list_for_each_safe (it, &c->calls)
        if (!call_look(f, list_entry(it, struct grpc_call, link), excess))
            return false;
    return true;
}

/* The peer never began, or does not take what is sent to it: its socket, or its window for the whole connection, is
 * full. */
static bool connection_dead(const struct grpc_frontend *f, struct grpc_connection *c) {
    if (!c->greeted && passed_ns(f, c->stream.begun_ns) > f->base.config.head_timeout_s * NS_PER_S)
        return true;
    if (c->unsent.bytes == 0) {
        c->pace.since_ns = 0;
        return false;
    }
    return frontend_slow(&f->base.config, &c->pace, unsent_taken(&c->unsent), f->base.turn_ns) &&
           (connection_congested(c) || nghttp2_session_get_remote_window_size(c->session) <= 0);
}

/* Ends the life of an old connection. A first GOAWAY names no last call: calls that are on their way are still served,
 * and the client begins others elsewhere. NOTICE_NS later a second one names the last. Connections that began together
 * do not end together: their ages are drawn, from the time of their begin and their socket. */
static void age_look(struct grpc_frontend *f, struct grpc_connection *c) {
    int64_t age_ns = f->base.config.age_s * NS_PER_S;
    uint64_t drawn = ((uint64_t)c->stream.begun_ns ^ (uint64_t)c->stream.fd << 32) * 0x9e3779b97f4a7c15;
    int64_t own_ns = age_ns - age_ns / AGE_PART + (int64_t)(drawn >> 16) % (2 * (age_ns / AGE_PART) + 1);
    if (c->ending || passed_ns(f, c->stream.begun_ns) < own_ns || c->notice_ns == TIME_NEVER)
        return;
    if (c->notice_ns == 0) {
        nghttp2_submit_shutdown_notice(c->session);
        connection_touch(c);
        c->notice_ns = f->base.turn_ns;
    } else if (passed_ns(f, c->notice_ns) >= NOTICE_NS) {
        connection_goaway(c);
        c->notice_ns = TIME_NEVER;
    }
}

void connections_sweep(struct frontend *base) {
    struct grpc_frontend *f = grpc_frontend_of(base);
    uint32_t wanted = f->call_count - f->call_count / 8, excess = f->open_calls > wanted ? f->open_calls - wanted : 0;
    list_for_each_safe (it, &base->connections) {
        struct grpc_connection *c = list_entry(it, struct grpc_connection, link);
        if (connection_dead(f, c) || !calls_look(f, c, &excess)) {
            counter_add(&base->counters.dismissed, 1);
            connection_close(c);
        } else if (list_empty(&c->calls) &&
                   passed_ns(f, c->stream.active_ns) > base->config.idle_timeout_s * NS_PER_S) {
            counter_add(&base->counters.dismissed, 1);
            connection_end(c, NGHTTP2_NO_ERROR, "");
        } else if (base->config.age_s > 0) {
            age_look(f, c);
        }
    }
}
