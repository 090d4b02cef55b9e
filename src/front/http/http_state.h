/* http_state.h - the state of an HTTP frontend; for the files of http/ only.
 *
 *     connection (a stream of bytes, llhttp's parser on it)
 *       exchange (a request and its answer), one at a time
 *
 * While a request runs, or its answer goes out, nothing more of its connection is parsed; at most the bytes of one
 * receive are kept. Everything is owned by the frontend's thread, except for requests while the scheduler has them, and
 * bodies and answers while a bulk thread has them (bulk.h). */
#pragma once

#include <llhttp.h>

#include "core/util/list.h"
#include "front/http/http.h"
#include "front/http/http_head.h"
#include "front/http/http_source.h"
#include "front/net/frontend.h"
#include "front/v2/v2.h"

#define HTTP_STATUS_MAX 600

/* The present activity of a connection; http_sweep.c has the time limit of each. */
enum http_doing {
    HTTP_DOING_HEAD,    /* the connection waits for a request, or reads its head */
    HTTP_DOING_BODY,    /* the connection reads a body */
    HTTP_DOING_RUNNING, /* the request runs, and the client waits */
    HTTP_DOING_ANSWER,  /* the answer goes out */
    HTTP_DOING_LEAVING, /* the last answer has gone out; bytes that still come are thrown away until the client has read
                           it */
};

/* The reason to answer a request without its body. The body is read and thrown away before the answer, so that a client
 * that is still sending reads the answer and keeps its connection. */
enum verdict {
    VERDICT_NONE,  /* the body is needed */
    VERDICT_ROUTE, /* the path needs no body, or the model takes no requests */
    VERDICT_UNAUTHORIZED,
    VERDICT_FOREIGN, /* a page of another site asks for a change */
    VERDICT_TOO_LARGE,
    VERDICT_BUSY,
    VERDICT_ENCODING,
    VERDICT_PAGE, /* frontend_config.page answers */
};

/* A part of a head (target, name or value), which may come in several pieces. */
struct http_span {
    const char *data;
    size_t length;
    struct text own; /* copy of the part, if it must outlive the received bytes; else empty */
};

struct http_connection {
    struct http_frontend *frontend;
    struct stream stream;
    struct list_node link;    /* place in the frontend's list of connections */
    struct list_node again;   /* place in the frontend's list of connections that go on next turn */
    struct list_node waiting; /* place in the frontend's list of connections without a complete request */
    bool spare;               /* the connection came when there were too many: it may only ask for health */
    struct peer_address peer; /* address of the client */
    struct peer *address;     /* counts of that address */
    struct coming coming;     /* the connection's request, while its body comes */
    enum http_doing doing;
    int64_t since_ns;          /* begin of `doing`; of a head: arrival of its first byte, or begin of the wait for it */
    uint64_t bytes;            /* bytes of the body that were read */
    struct frontend_pace pace; /* pace of the body, or of the answer */
    struct unsent unsent;
    bool last;           /* the present request is the connection's last one, */
    bool client_last;    /* as its client has said */
    bool ended;          /* the client has ended its sending side of TLS: nothing comes behind what is kept */
    bool asked;          /* the client, which has ended its sending side, was asked whether it is still there */
    bool closed;         /* the connection is closed, and is freed when the turn ends */
    uint32_t answered;   /* requests answered since the last sweep */
    struct acceptor *to; /* frontend that gets the connection after the next answer; NULL: it stays */
    struct text kept;    /* bytes received behind the request under way */
    size_t kept_at;      /* bytes of `kept` that have been parsed */

    /* the request's head */
    llhttp_t parser;
    bool begun; /* a byte of a request has come */
    struct http_head head;
    struct http_span target, name, value;
    struct text path;   /* decoded path of the target, terminated */
    size_t head_bytes;  /* bytes of the head, and of a chunked body's trailer */
    bool head_over;     /* the head is complete */
    bool whole;         /* the body is complete, too */
    int64_t arrived_ns; /* time at which the kernel had the bytes received last */
    int64_t until_ns;   /* time at which parsing stops in this turn */
    bool more;          /* further bytes were received with the end of the request */

    enum verdict verdict;
    struct exchange *exchange; /* the request and its answer; NULL: none yet, or there is a verdict */

    /* the answer */
    struct text out;            /* head of the answer, and a body that is not the exchange's */
    bool body_out;              /* the exchange's body follows `out` */
    struct http_source *source; /* source of the pieces that follow `out`; NULL: none follow */
    bool chunks;                /* the source's pieces are sent as chunks, since its length is not known */
    size_t out_bytes;           /* bytes to send: head and body, or the source's present piece */
    size_t out_sent;            /* bytes of these that were sent */
    char path_memory[128], out_memory[512];
};

struct exchange {
    struct inference inference;
    struct http_frontend *frontend;
    struct http_connection *connection; /* NULL: the connection was closed while the request ran */
    enum v2_kind kind;
    enum body_encoding encoding, accepts; /* encoding of the body; encoding of the answer */
    bool retry;                           /* the client may try again soon */
    unsigned body_fault;                  /* status for a body that cannot be kept, and is thrown away; 0: none */
    char *block, *body;                   /* block of memory, and the body in it */
    size_t body_expected;                 /* length of the body; SIZE_MAX: not known, the body is chunked */
    size_t body_bytes, body_room;         /* bytes of the body that were read, and room for them */
    int64_t json_bytes;                   /* value of Inference-Header-Content-Length; INFER_NO_HEADER: none */
    /* while a bulk thread has it: rarely touched */
    struct bulk_job job;
    unsigned status; /* result of the bulk job, with its sentence in `error` */
    struct sy_error error;
};

struct http_frontend {
    struct frontend base;
    llhttp_settings_t callbacks;
    struct list_node again;  /* connections that go on next turn, even if no bytes come */
    struct list_node closed; /* connections that are freed when the turn ends */
    struct text joined;      /* answers to requests that one connection received together, which go out together */
    struct http_connection *joined_to; /* that connection; NULL: there are none */

    /* read by other threads */
    _Atomic uint64_t statuses[HTTP_STATUS_MAX]; /* answers by status */
};

static inline struct http_frontend *http_frontend_of(struct frontend *base) {
    return container_of(base, struct http_frontend, base);
}

/* ---- http_connection.c, for http.c and http_sweep.c ---- */

void http_callbacks_init(llhttp_settings_t *callbacks);
/* Takes the socket over. */
void http_connection_begin(struct frontend *frontend, int fd, const struct peer_address *peer);
/* Handles epoll's events of a connection; may close it. */
void http_connection_event(struct stream *stream, uint32_t events);
/* Parses the connection's kept bytes; may close it. */
void http_connection_go_on(struct http_connection *connection);
/* Closes a connection at once, and cancels its request. The connection's memory stays until http_connections_free(). */
void http_connection_close(struct http_connection *connection);
/* Frees the connections that are closed. */
void http_connections_free(struct frontend *frontend);
/* Ends a connection, since there are too many. */
void http_connection_displace(struct list_node *waiting);
/* Gives up a request whose body comes, since another one needs its slot: 503. */
void http_connection_give_up(struct coming *coming);
/* Ends a connection that takes too long, or whose answer holds memory that others need. If `why` is not NULL, it first
 * goes out as an answer (408), unless something else is still to be sent. */
void http_connection_dismiss(struct http_connection *connection, const char *why);

/* ---- http_connection.c, for exchange.c ---- */

/* Writes the begin of the answer's head; more headers may then be appended to `out`. */
void http_answer_begin(struct http_connection *connection, unsigned status);
/* Ends the head, and sends it with `bytes` of body: those at `body`, or if that is NULL, the answer of the connection's
 * exchange, which ends when all has gone out. May close the connection. */
void http_answer_send(struct http_connection *connection, const char *body, size_t bytes);
/* As http_answer_send(), but with the body of a source, which ends with the answer or the connection. */
void http_answer_stream(struct http_connection *connection, struct http_source *source);
/* Asks a source that waits for its next piece, and sends that; may close the connection. False: the piece before has
 * not gone out yet. */
bool http_connection_more(struct http_connection *connection);
/* Begins another activity of the connection. */
void http_connection_does(struct http_connection *connection, enum http_doing doing);
/* Sends an interim answer (100) to a client of HTTP/1.1, which may then send its body, or which is asked so whether it
 * is still there. */
void http_connection_continue(struct http_connection *connection);

static inline void http_header_put(struct http_connection *connection, const char *name, const char *value) {
    text_put(&connection->out, name);
    text_put(&connection->out, ": ");
    text_put(&connection->out, value);
    text_put(&connection->out, "\r\n");
}

/* ---- exchange.c, for http_connection.c ---- */

/* The head is complete. False: the request was answered, and the connection takes nothing more. */
bool exchange_begin(struct http_connection *connection);
/* Bytes of the request's body have come. Returns as exchange_begin(). */
bool exchange_body(struct http_connection *connection, const char *data, size_t bytes);
/* Memory into which the next bytes of the body, *bytes at most, may be received; NULL: none. */
char *exchange_room(struct http_connection *connection, size_t *bytes);
/* The body is complete. */
void exchange_end(struct http_connection *connection);
/* The connection is gone: cancels its request. */
void exchange_leave(struct exchange *exchange);
/* The rest of the body is not awaited: counts the request as refused, and ends it without an answer. */
void exchange_refuse(struct exchange *exchange);
/* The answer has gone out. */
void exchange_sent(struct exchange *exchange);

/* ---- exchange.c, for http.c ---- */

/* The scheduler gave the request back. */
void exchange_finish(struct exchange *exchange);
/* A bulk thread gave the job back. */
void exchange_from_bulk(struct bulk_job *job);
/* The order was carried out: 200, or another status with a sentence. */
void exchange_ordered(void *exchange, unsigned status, const char *sentence);

/* ---- http_sweep.c, for http.c ---- */

/* Once a second: ends connections that take too long. */
void http_connections_sweep(struct frontend *frontend);
