/* grpc_state.h - what a gRPC frontend is made of; for the files of grpc/ only.
 *
 * Everything is owned by the frontend's thread, but for requests while the scheduler or a bulk thread has them.
 *
 *     connection (a socket, an nghttp2 session)
 *       call (a stream of HTTP/2: one method, one status at its end)
 *         exchange (a message and its answer): one of a unary call, any number of a streaming one, answered in order */
#pragma once

#include <nghttp2/nghttp2.h>

#include "core/util/list.h"
#include "front/grpc/grpc.h"
#include "front/grpc/grpc_infer.h"
#include "front/grpc/grpc_message.h"
#include "front/grpc/grpc_services.h"
#include "front/grpc/grpc_status.h"
#include "front/net/frontend.h"
#include "front/net/recycler.h"

#define OUT_BYTES        ((size_t)64 * 1024) /* copied together for a write */
#define OUTGOING_PIECES  128                 /* of a write: a long answer has two a frame of 16 KiB */
#define FRAME_HEAD_BYTES 9
#define CALLS_SPARE      1024 /* calls beyond call_count, for those that ask for health */
/* While more exchanges of a call than MANY wait, the client's window is not refilled; while MAX wait, messages that
 * come within it are kept as they are. */
#define STREAM_EXCHANGES_MANY 256
#define STREAM_EXCHANGES_MAX  1024

/* How many more of something a client may send. */
struct allowance {
    uint32_t left;
    int64_t grown_ns; /* when `left` last grew by the time that passed */
};

struct grpc_connection {
    struct grpc_frontend *frontend;
    struct stream stream;
    nghttp2_session *session;
    struct list_node link;    /* in the frontend's list */
    struct list_node dirty;   /* in the frontend's list of those that may have something to send */
    struct list_node again;   /* in the frontend's list of those that have kept bytes */
    struct list_node waiting; /* in the frontend's list of those without a complete request */
    uint32_t complete;        /* requests that have come whole, and are not answered yet */
    bool spare;               /* it came when there were too many: it may ask for health */
    struct list_node calls;
    int64_t arrived_ns;                         /* when the kernel had what was received last */
    int64_t until_ns;                           /* when parsing stops, in this turn */
    struct text kept;                           /* received, but not parsed in time */
    size_t kept_at;                             /* how much of it is parsed */
    size_t header_bytes;                        /* of the header block that is being parsed */
    size_t frame_left;                          /* of the frame that is being parsed, behind its head */
    bool in_data;                               /* which is DATA */
    uint8_t head[FRAME_HEAD_BYTES], head_bytes; /* of the next frame, as far as it has come */
    bool greeted;                               /* a frame has come */
    bool ending;                                /* closed when all there is to send has gone; what comes is not read */
    bool closed;                                /* and is freed when the turn ends */
    struct allowance control;                   /* of frames that carry no call */
    struct allowance refused;                   /* of header blocks that are too large */
    uint64_t answers;                           /* bytes of those that are ready and not sent yet */
    bool held;         /* these are too many: what its calls send is kept as it is, and its windows are not refilled */
    size_t unconsumed; /* bytes that came meanwhile */
    struct unsent unsent;
    struct frontend_pace pace; /* of its answers */
    struct peer_address peer;
    struct peer *address; /* who else comes from there */
    uint32_t slots;       /* that its calls have */
};

struct grpc_call {
    struct grpc_connection *connection;
    struct list_node link;   /* in the connection's list */
    struct list_node silent; /* in the frontend's list, while it holds nothing but its place */
    struct coming coming;    /* its message that comes, or has come and waits for the stream's end */
    struct list_node exchanges;
    struct grpc_exchange *receiving; /* the last of them, while its message is incomplete */
    int32_t stream;
    uint32_t exchange_count;
    enum grpc_method method;
    enum body_encoding encoding;
    enum body_encoding accepts; /* for the answers */
    bool opened;                /* its headers are complete */
    bool watcher;               /* counts among the frontend's */
    bool watching;              /* a watcher that has its first answer: it is told of changes */
    int told;                   /* what a watcher was told last (grpc_watch_now()) */
    bool oversized;             /* its headers are longer than they may be */
    bool posted, typed;         /* its headers are those of a gRPC call */
    bool half_closed;           /* the client sends no more */
    bool responded;             /* the answer's headers are submitted */
    bool deferred;              /* nghttp2 waits to be told that there is more to send */
    bool ended;                 /* its status is known: what comes is thrown away */
    bool authorized;            /* it has one of the tokens */
    bool timeout_wrong;         /* grpc-timeout makes no sense */
    uint32_t credentials;       /* headers that were compared with the tokens */
    size_t unconsumed;          /* bytes taken, but the client's window is not refilled while many exchanges wait */
    struct text kept;           /* what a stream sent while too many exchanges wait, or in a turn that took no more */
    size_t kept_at;             /* how much of it is taken */
    struct list_node resumed;   /* in the frontend's list: what is kept may be taken */
    int64_t begun_ns;
    int64_t first_ns;             /* since when the exchange that is first now is the first */
    struct frontend_pace in, out; /* of the message that comes, and of the answer that is first */
    int64_t timeout_ns;           /* grpc-timeout, or GRPC_TIMEOUT_NONE */
    int64_t limit_ns;             /* when grpc-timeout ends; 0: never */
    unsigned status;              /* at the end */
    char sentence[256];
    uint32_t free_next;
};

struct grpc_exchange {
    struct inference inference;
    struct grpc_call *call; /* NULL: gone while the request ran */
    struct list_node link;  /* in the call's list, in the order of arrival */
    bool complete;          /* its message has come */
    bool answered;          /* its answer may be sent */
    bool sent;              /* once it has ended: whether all of it went out */
    uint64_t bytes;         /* of the answer */
    int piece;              /* being sent */
    size_t piece_at;
    /* copied from the call, which a bulk thread does not touch */
    enum grpc_method method;
    enum body_encoding encoding, accepts;
    size_t bytes_max;
    struct grpc_message message;
    /* while a bulk thread has it: rarely touched */
    struct bulk_job job;
    unsigned status; /* what came of its work, with the sentence in `error` */
    struct sy_error error;
};

/* Gathered for one write: frames, copied into `out`, and parts of large answers, which stay where they lie. */
struct outgoing {
    struct iovec pieces[OUTGOING_PIECES];
    size_t count, copied; /* pieces, bytes in the frontend's `out` */
    bool full;            /* a frame did not fit */
};

struct grpc_frontend {
    struct frontend base;
    struct recycler recycler; /* nghttp2's memory */
    nghttp2_mem memory;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *options;
    struct list_node dirty;  /* connections that may have something to send */
    struct list_node again;  /* connections that have kept bytes */
    struct list_node closed; /* connections that are freed when the turn ends */
    struct grpc_call *calls; /* [call_count + CALLS_SPARE] */
    uint32_t call_count, call_fresh, call_free;
    struct list_node silent;       /* calls whose message has not begun, or that have failed: the oldest first */
    uint32_t open_calls, watchers; /* of these, and those of them that watch something */
    char *out;                     /* [OUT_BYTES] */
    struct outgoing outgoing;
    struct list_node ended;   /* exchanges that are freed when `outgoing` has been written */
    struct list_node resumed; /* calls whose kept messages may be taken */

    /* read by other threads */
    _Atomic uint64_t codes[GRPC_CODE_COUNT]; /* calls by status */
};

static inline struct grpc_frontend *grpc_frontend_of(struct frontend *base) {
    return container_of(base, struct grpc_frontend, base);
}

/* ---- grpc_connection.c, for grpc.c ---- */

/* nghttp2's callbacks and options, once for all connections. 0 or -ENOMEM. */
int connections_init(struct grpc_frontend *frontend);
/* Takes the socket over. */
void connection_begin(struct frontend *frontend, int fd, const struct peer_address *peer);
/* What epoll says of a connection; may close it. */
void connection_event(struct stream *stream, uint32_t events);
/* Goes on with the connections that have kept bytes, for a while; may close them. */
void connections_go_on(struct grpc_frontend *frontend);
/* Sends what there is; may close it. */
void connection_send(struct grpc_connection *connection);
/* No new calls on it. */
void connection_goaway(struct grpc_connection *connection);
/* Ends it, since there are too many connections. */
void connection_displace(struct list_node *waiting);
/* Says why, and ends it. */
void connection_end(struct grpc_connection *connection, uint32_t error, const char *why);
/* Ends it at once. What its calls wait for is cancelled. Its memory stays until connections_free(). */
void connection_close(struct grpc_connection *connection);
/* Frees those that are closed. */
void connections_free(struct frontend *frontend);

static inline bool connection_congested(const struct grpc_connection *c) {
    return stream_congested(&c->stream);
}

/* ---- the same, for grpc_call.c and grpc_exchange.c ---- */

/* It may have something to send: connection_send() is called in this turn. */
static inline void connection_touch(struct grpc_connection *c) {
    if (list_empty(&c->dirty))
        list_append(&c->frontend->dirty, &c->dirty);
}

/* ---- grpc_call.c, for grpc_connection.c ---- */

/* What is still to be sent of an answer that is ready. */
size_t answer_left(const struct grpc_exchange *exchange);
/* A stream has begun. NULL: the frontend has no more calls, and none makes way. */
struct grpc_call *call_begin(struct grpc_connection *connection, int32_t stream);
void call_header(struct grpc_call *call, const uint8_t *name, size_t name_length, const uint8_t *value, size_t length);
/* Its headers are complete. False: there are too many calls, and this one is no more. */
bool call_open(struct grpc_call *call);
void call_data(struct grpc_call *call, const uint8_t *data, size_t bytes);
void call_half_close(struct grpc_call *call);
/* nghttp2 wants up to `bytes` of the answers. */
ssize_t call_read(struct grpc_call *call, uint8_t *data, size_t bytes, uint32_t *flags);
/* The next so many bytes of an answer that call_read() left where it is (NGHTTP2_DATA_FLAG_NO_COPY), in at most
 * INFER_ANSWER_PIECES pieces. They stay there until exchanges_free(). Returns the number of pieces. */
size_t call_take(struct grpc_call *call, size_t bytes, struct iovec *pieces);
/* The stream is over, with whatever result. */
void call_close(struct grpc_call *call);

/* ---- the same, for grpc_sweep.c ---- */

/* What the client was sending is given up, and the call ends with this status. */
void call_fail(struct grpc_call *call, unsigned status, const char *sentence);
/* Ends the stream without a status. */
void call_reset(struct grpc_call *call);
/* Gives up the call's message that comes, since another one needs its slot: UNAVAILABLE. */
void call_give_up(struct coming *coming);

/* ---- grpc_sweep.c, for grpc.c ---- */

/* Once a second: ends what takes too long. */
void connections_sweep(struct frontend *frontend);

/* ---- grpc_call.c, for grpc.c ---- */

/* Takes messages that streams sent while too many waited, for a while. False: there was nothing to do, or no time. */
bool calls_resume(struct grpc_frontend *frontend, int64_t until_ns);
/* The server ends: so does the call, once it has no exchanges. */
void call_abandon(struct grpc_call *call);

/* ---- the same, for grpc_exchange.c ---- */

/* There is something to read, or the call is over. */
void call_progress(struct grpc_call *call);
/* The call ends with this status, behind the answers that are complete. */
void call_end(struct grpc_call *call, unsigned status, const char *sentence);
/* What is kept may be taken in this turn, or the next. */
void call_resume_later(struct grpc_call *call);

/* ---- grpc_exchange.c, for grpc_call.c ---- */

/* A message begins. NULL: no slot is free, and none makes way. */
struct grpc_exchange *grpc_exchange_begin(struct grpc_call *call);
/* How many bytes of its message have come. */
size_t grpc_exchange_come(const struct grpc_exchange *exchange);
/* Its message is complete. */
void grpc_exchange_run(struct grpc_exchange *exchange);
/* Takes it from its call; it is freed when its request comes back. */
void grpc_exchange_detach(struct grpc_exchange *exchange);
/* Takes it from its call. It is freed at once, or after the write under way, which may send parts of its answer from
 * where they lie. */
void grpc_exchange_end(struct grpc_exchange *exchange, bool sent);

/* ---- the same, for grpc.c, grpc_connection.c and grpc_sweep.c ---- */

/* The scheduler gave the request back. */
void exchange_returned(struct grpc_exchange *exchange);
/* A bulk thread gave it back. */
void exchange_bulk_returned(struct bulk_job *job);
/* The order was carried out: 200, or another status with a sentence. */
void exchange_order_returned(void *exchange, unsigned status, const char *sentence);
/* Frees exchanges that have ended: what call_take() gave of them has been written, or never will be. */
void exchanges_free(struct grpc_frontend *frontend);
/* Tells a watcher of a change. */
void call_watch(struct grpc_call *call);
