/* grpc_state.h - the state of a gRPC frontend; for the files of grpc/ only.
 *
 * Everything is owned by the frontend's thread, except for requests while the scheduler or a bulk thread has them.
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

#define OUT_BYTES        ((size_t)64 * 1024) /* bytes copied together for one write */
#define OUTGOING_PIECES  128                 /* pieces of one write: a long answer has two for each frame of 16 KiB */
#define FRAME_HEAD_BYTES 9
#define CALLS_SPARE      1024 /* calls beyond call_count, for health */
/* While more than STREAM_EXCHANGES_MANY exchanges of a call wait, the client's window is not refilled. While
 * STREAM_EXCHANGES_MAX wait, further messages within the window are kept unparsed. */
#define STREAM_EXCHANGES_MANY 256
#define STREAM_EXCHANGES_MAX  1024

/* The number of further frames, header blocks or resets of some kind that a client may send or cause. */
struct allowance {
    uint32_t left;
    int64_t grown_ns; /* time at which `left` last grew by the time that had passed */
};

struct grpc_connection {
    struct grpc_frontend *frontend;
    struct stream stream;
    nghttp2_session *session;
    struct list_node link;    /* place in the frontend's list of connections */
    struct list_node dirty;   /* place in the frontend's list of connections that may have something to send */
    struct list_node again;   /* place in the frontend's list of connections with kept bytes */
    struct list_node waiting; /* place in the frontend's list of connections without a complete request */
    uint32_t complete;        /* requests that are complete and not answered yet */
    bool spare;               /* the connection came when there were too many: it may only ask for health */
    struct list_node calls;
    int64_t arrived_ns;                         /* time at which the kernel had the bytes received last */
    int64_t until_ns;                           /* time at which parsing stops in this turn */
    struct text kept;                           /* bytes received and not parsed yet */
    size_t kept_at;                             /* bytes of `kept` that are parsed */
    size_t header_bytes;                        /* bytes of the header block that is being parsed */
    size_t frame_left;                          /* bytes to come of the frame that is being parsed */
    bool in_data;                               /* the frame that is being parsed is DATA */
    uint8_t head[FRAME_HEAD_BYTES], head_bytes; /* head of the next frame, as far as it has come */
    bool greeted;                               /* a frame of the client has come */
    int64_t notice_ns; /* time at which the client was told to connect again, since the connection is old; 0: it was
                          not; TIME_NEVER: the connection takes no more calls */
    bool ending;       /* the connection is closed once all has been sent; what comes is not read */
    bool closed;       /* the connection is closed, and is freed when the turn ends */
    struct allowance control; /* allowance of frames that carry no call */
    struct allowance resets;  /* allowance of calls that end in a reset */
    struct allowance refused; /* allowance of header blocks that are too large */
    uint64_t answers;         /* bytes of answers that are ready and not sent yet */
    bool held;                /* `answers` is too large: messages are kept unparsed, and windows are not refilled */
    size_t unconsumed;        /* bytes that came while `held` */
    struct unsent unsent;
    struct frontend_pace pace; /* pace of the answers */
    struct peer_address peer;
    struct peer *address; /* counts of the client's address */
    uint32_t slots;       /* slots that the connection's calls have */
};

struct grpc_call {
    struct grpc_connection *connection;
    struct list_node link;           /* place in the connection's list of calls */
    struct list_node silent;         /* place in the frontend's list of silent calls */
    struct coming coming;            /* message that comes, or that is complete and waits for the stream's end */
    struct list_node exchanges;      /* exchanges in the order of arrival */
    struct grpc_exchange *receiving; /* last exchange, while its message is incomplete; else NULL */
    int32_t stream;
    uint32_t exchange_count;
    enum grpc_method method;
    enum body_encoding encoding; /* encoding of compressed messages */
    enum body_encoding accepts;  /* encoding of the answers */
    bool opened;                 /* the headers are complete */
    bool watcher;                /* the call counts as one of the frontend's `watchers` */
    bool watching;               /* the watcher has its first answer, and is told of changes */
    int told;                    /* last answer to the watcher (grpc_watch_now()) */
    bool oversized;              /* the headers are longer than they may be */
    bool posted, typed;          /* headers of a gRPC call: POST; content-type */
    bool half_closed;            /* the client sends no more */
    bool responded;              /* the answer's headers are submitted */
    bool deferred;               /* nghttp2 waits until call_progress() says that there is more to send */
    bool ended;                  /* the status is known: what comes is thrown away */
    bool authorized;             /* a header carries one of the tokens */
    bool timeout_wrong;          /* grpc-timeout is malformed */
    uint32_t credentials;        /* headers that were compared with tokens */
    size_t unconsumed; /* bytes taken for which the client's window is refilled only when fewer exchanges wait */
    struct text kept;  /* bytes of a stream that came while too many exchanges waited, or in a turn that took no more */
    size_t kept_at;    /* bytes of `kept` that were taken */
    struct list_node resumed;     /* place in the frontend's list of calls whose kept bytes may be taken */
    int64_t begun_ns;             /* begin of the call */
    int64_t first_ns;             /* time since which the first exchange has been the first */
    struct frontend_pace in, out; /* pace of the message that comes, and of the first answer */
    int64_t timeout_ns;           /* value of grpc-timeout; GRPC_TIMEOUT_NONE: none */
    int64_t limit_ns;             /* end of grpc-timeout; 0: never */
    unsigned status;              /* status at the end of the call */
    char sentence[512];
    struct request_id id; /* id of a unary call's request; of a stream, that of its headers; length 0: none */
    bool named;           /* `id` comes from x-request-id */
    bool wants_trail;     /* the client wants its request's times with the answer */
    bool trailed;         /* `trail` is set, and goes out with the answer's headers */
    struct trail trail;
    uint32_t free_next;
};

struct grpc_exchange {
    struct inference inference;
    struct grpc_call *call; /* call; NULL: it ended while the request ran */
    struct list_node link;  /* place in the call's list, in the order of arrival */
    bool complete;          /* the message is complete */
    bool answered;          /* the answer may be sent */
    bool sent;              /* all of the answer went out; set at the end */
    uint64_t bytes;         /* length of the answer */
    int piece;              /* piece of the answer that is being sent */
    size_t piece_at;        /* bytes of that piece that were sent */
    /* copied from the call, which a bulk thread does not touch */
    enum grpc_method method;
    enum body_encoding encoding, accepts;
    size_t bytes_max;
    struct grpc_message message;
    /* while a bulk thread has it: rarely touched */
    struct bulk_job job;
    unsigned status; /* result of the bulk job, with its sentence in `error` */
    struct sy_error error;
};

/* Bytes gathered for one write: frames, copied into the frontend's `out`, and parts of large answers, which are sent
 * from their own memory. */
struct outgoing {
    struct iovec pieces[OUTGOING_PIECES];
    size_t count, copied; /* number of pieces; bytes in the frontend's `out` */
    bool full;            /* a frame did not fit */
};

struct grpc_frontend {
    struct frontend base;
    struct recycler recycler; /* recycler of nghttp2's memory */
    nghttp2_mem memory;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *options;
    struct list_node dirty;                     /* connections that may have something to send */
    struct list_node again;                     /* connections that have kept bytes */
    struct list_node closed;                    /* connections that are freed when the turn ends */
    struct grpc_call *calls;                    /* [call_count + CALLS_SPARE] pool of calls */
    uint32_t call_count, call_fresh, call_free; /* calls; first that was never used; first free one */
    struct list_node silent;       /* calls whose first message has not begun, or that have failed, the oldest first */
    uint32_t open_calls, watchers; /* open calls; open calls that watch something */
    char *out;                     /* [OUT_BYTES] frames of the present write */
    struct outgoing outgoing;
    struct list_node ended;   /* exchanges that are freed once `outgoing` has been written */
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
/* Handles epoll's events of a connection; may close it. */
void connection_event(struct stream *stream, uint32_t events);
/* Goes on with the connections that have kept bytes, for a while; may close them. */
void connections_go_on(struct grpc_frontend *frontend);
/* Sends what a connection has to send; may close it. */
void connection_send(struct grpc_connection *connection);
/* Sends GOAWAY: no new calls on the connection. */
void connection_goaway(struct grpc_connection *connection);
/* Ends a connection, since there are too many. */
void connection_displace(struct list_node *waiting);
/* Tells the client the reason, and ends the connection. */
void connection_end(struct grpc_connection *connection, uint32_t error, const char *why);
/* Closes a connection at once, and cancels the requests of its calls. The connection's memory stays until
 * connections_free(). */
void connection_close(struct grpc_connection *connection);
/* Frees the connections that are closed. */
void connections_free(struct frontend *frontend);

static inline bool connection_congested(const struct grpc_connection *c) {
    return stream_congested(&c->stream);
}

/* ---- grpc_connection.c, for grpc_call.c and grpc_exchange.c ---- */

/* The connection may have something to send: has connection_send() called in this turn. */
static inline void connection_touch(struct grpc_connection *c) {
    if (list_empty(&c->dirty))
        list_append(&c->frontend->dirty, &c->dirty);
}

/* Ends the connection if nghttp2, which has returned `rc`, had no memory: a client would wait for what it was to send.
 */
static inline void connection_check(struct grpc_connection *c, int rc) {
    if (rc != NGHTTP2_ERR_NOMEM)
        return;
    c->ending = true;
    connection_touch(c);
}

/* ---- grpc_call.c, for grpc_connection.c ---- */

/* Bytes of a ready answer that are still to be sent. */
size_t answer_left(const struct grpc_exchange *exchange);
/* A stream has begun. NULL: the frontend has no more calls, and none makes way. */
struct grpc_call *call_begin(struct grpc_connection *connection, int32_t stream);
void call_header(struct grpc_call *call, const uint8_t *name, size_t name_length, const uint8_t *value, size_t length);
/* The call's headers are complete. False: there are too many calls, and this one was closed. */
bool call_open(struct grpc_call *call);
void call_data(struct grpc_call *call, const uint8_t *data, size_t bytes);
void call_half_close(struct grpc_call *call);
/* nghttp2's read callback: gives up to `bytes` of the answers. */
ssize_t call_read(struct grpc_call *call, uint8_t *data, size_t bytes, uint32_t *flags);
/* Sets the pieces, at most INFER_ANSWER_PIECES, of the next `bytes` of an answer that call_read() did not copy
 * (NGHTTP2_DATA_FLAG_NO_COPY). The bytes stay in place until exchanges_free(). Returns the number of pieces. */
size_t call_take(struct grpc_call *call, size_t bytes, struct iovec *pieces);
/* The stream is over, with whatever result. */
void call_close(struct grpc_call *call);

/* ---- grpc_call.c, for grpc_sweep.c ---- */

/* Gives up the message that comes, and ends the call with this status. */
void call_fail(struct grpc_call *call, unsigned status, const char *sentence);
/* Ends the stream without a status. */
void call_reset(struct grpc_call *call);
/* Gives up the call's message that comes, since another one needs its slot: UNAVAILABLE. */
void call_give_up(struct coming *coming);

/* ---- grpc_sweep.c, for grpc.c ---- */

/* Once a second: ends connections and calls that take too long. */
void connections_sweep(struct frontend *frontend);

/* ---- grpc_call.c, for grpc.c ---- */

/* Takes kept messages of streams, for a while. False: there was nothing to do, or no time. */
bool calls_resume(struct grpc_frontend *frontend, int64_t until_ns);
/* The server ends: ends the call, once it has no exchanges. */
void call_abandon(struct grpc_call *call);

/* ---- grpc_call.c, for grpc_exchange.c ---- */

/* The call has an answer to send, or has ended: nghttp2 may read on. */
void call_progress(struct grpc_call *call);
/* Ends the call with this status, after the answers that are complete. */
void call_end(struct grpc_call *call, unsigned status, const char *sentence);
/* Has the call's kept bytes taken in this turn, or the next. */
void call_resume_later(struct grpc_call *call);

/* ---- grpc_exchange.c, for grpc_call.c ---- */

/* A message begins. NULL: no slot is free, and none makes way. */
struct grpc_exchange *grpc_exchange_begin(struct grpc_call *call);
/* Bytes of the exchange's message that have come. */
size_t grpc_exchange_come(const struct grpc_exchange *exchange);
/* The exchange's message is complete. */
void grpc_exchange_run(struct grpc_exchange *exchange);
/* Takes an exchange from its call; it is freed when its request comes back. */
void grpc_exchange_detach(struct grpc_exchange *exchange);
/* Takes an exchange from its call. It is freed at once, or after the present write, which may send parts of its answer
 * from their own memory. */
void grpc_exchange_end(struct grpc_exchange *exchange, bool sent);

/* ---- grpc_exchange.c, for grpc.c, grpc_connection.c and grpc_sweep.c ---- */

/* The scheduler gave the request back. */
void exchange_returned(struct grpc_exchange *exchange);
/* A bulk thread gave the job back. */
void exchange_bulk_returned(struct bulk_job *job);
/* The order was carried out: 200, or another status with a sentence. */
void exchange_order_returned(void *exchange, unsigned status, const char *sentence);
/* Frees exchanges that have ended: the pieces of call_take() have been written, or never will be. */
void exchanges_free(struct grpc_frontend *frontend);
/* Tells a watcher of a change. */
void call_watch(struct grpc_call *call);
