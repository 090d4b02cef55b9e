/* http_state.h - what an HTTP frontend is made of; for the files of http/ only.
 *
 *     connection (a stream of bytes, llhttp's parser on it)
 *       exchange (a request and its answer), one at a time
 *
 * While a request runs, or its answer goes out, nothing more of its connection is parsed, and at most what one receive
 * brought is kept. Everything is owned by the frontend's thread, but for requests while the scheduler has them, and
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

/* What a connection does; http_sweep.c says how long each may take. */
enum http_doing {
    HTTP_DOING_HEAD,    /* waits for a request, or reads its head */
    HTTP_DOING_BODY,    /* reads a body */
    HTTP_DOING_RUNNING, /* the client waits for us */
    HTTP_DOING_ANSWER,  /* the answer goes out */
    HTTP_DOING_LEAVING, /* the last answer has gone; what still comes is thrown away until the client has read that */
};

/* Why a request is answered without its body. The body is read and thrown away first, so that a client that is still
 * sending reads the answer and keeps its connection. */
enum verdict {
    VERDICT_NONE,
    VERDICT_ROUTE,
    VERDICT_UNAUTHORIZED,
    VERDICT_FOREIGN, /* a page of another site wants something changed */
    VERDICT_TOO_LARGE,
    VERDICT_BUSY,
    VERDICT_ENCODING,
    VERDICT_PAGE, /* a page of frontend_config.page */
};

/* A piece of a head, which may come in several pieces. */
struct http_span {
    const char *data;
    size_t length;
    struct text own; /* a copy, where it must stay when what was received goes */
};

struct http_connection {
    struct http_frontend *frontend;
    struct stream stream;
    struct list_node link;    /* in the frontend's list */
    struct list_node again;   /* in the frontend's list of those that go on next turn, whether or not something comes */
    struct list_node waiting; /* in the frontend's list of those without a complete request */
    bool spare;               /* it came when there were too many: it may ask for health */
    struct peer_address peer;
    struct peer *address; /* who else comes from there */
    struct coming coming; /* its request, while its body comes */
    enum http_doing doing;
    int64_t since_ns; /* when that began; of a head: when its first byte came, or since when it is waited for */
    uint64_t bytes;   /* of the body: read so far */
    struct frontend_pace pace; /* of the body, or of the answer */
    struct unsent unsent;
    bool last;        /* no request is taken behind this one */
    bool asked;       /* the client has ended its sending side, and was asked whether it is still there */
    bool closed;      /* and is freed when the turn ends */
    struct text kept; /* received behind the request under way */
    size_t kept_at;

    /* the request's head */
    llhttp_t parser;
    bool begun; /* a byte of a request has come */
    struct http_head head;
    struct http_span target, name, value;
    struct text path; /* of the target, terminated */
    size_t head_bytes;
    bool head_over;     /* all of it has come */
    bool whole;         /* so has the body */
    int64_t arrived_ns; /* when the kernel had what was received last */
    int64_t until_ns;   /* when parsing stops, in this turn */

    enum verdict verdict;
    struct exchange *exchange; /* NULL: none yet, or there is a verdict */

    /* the answer */
    struct text out;            /* its head, and a body that is no exchange's */
    bool body_out;              /* the exchange's body follows it */
    struct http_source *source; /* makes the pieces that follow it; NULL: none do */
    size_t out_bytes;           /* in all */
    size_t out_sent;
    char path_memory[128], out_memory[512];
};

struct exchange {
    struct inference inference;
    struct http_frontend *frontend;
    struct http_connection *connection; /* NULL: gone while the request ran */
    enum v2_kind kind;
    enum body_encoding encoding, accepts; /* of the body; for the answer */
    bool retry;                           /* worth trying again soon */
    unsigned body_fault;                  /* status, where the body cannot be kept: the rest is thrown away */
    char *block, *body;                   /* the body lies in the block */
    size_t body_expected;                 /* SIZE_MAX: chunked, not known */
    size_t body_bytes, body_room;         /* read, and there is room for */
    int64_t json_bytes;
    /* while a bulk thread has it: rarely touched */
    struct bulk_job job;
    unsigned status; /* what came of its work, with the sentence in `error` */
    struct sy_error error;
};

struct http_frontend {
    struct frontend base;
    llhttp_settings_t callbacks;
    struct list_node again;  /* connections that go on next turn, whether or not something comes */
    struct list_node closed; /* connections that are freed when the turn ends */

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
/* What epoll says of a connection; may close it. */
void http_connection_event(struct stream *stream, uint32_t events);
/* Parses what was kept of it; may close it. */
void http_connection_go_on(struct http_connection *connection);
/* Ends it at once. What its request waits for is cancelled. Its memory stays until http_connections_free(). */
void http_connection_close(struct http_connection *connection);
/* Frees those that are closed. */
void http_connections_free(struct frontend *frontend);
/* Ends it, since there are too many connections. */
void http_connection_displace(struct list_node *waiting);
/* Gives up the request whose body comes, since another one needs its slot: 503. */
void http_connection_give_up(struct coming *coming);
/* Ends a connection that takes too long, or whose answer others need the memory of. If `why` is not NULL, it is
 * answered first (408), unless something else is still to be sent. */
void http_connection_dismiss(struct http_connection *connection, const char *why);

/* ---- the same, for exchange.c ---- */

/* The answer's head, up to its blank line; more headers may be appended to `out`. */
void http_answer_begin(struct http_connection *connection, unsigned status);
/* Ends the head and sends it with a body of so many bytes: at `body`, or, if that is NULL, the answer of the
 * connection's exchange, which ends when all has gone. May close the connection. */
void http_answer_send(struct http_connection *connection, const char *body, size_t bytes);
/* The same with the body of a source, which ends with the answer or the connection. */
void http_answer_stream(struct http_connection *connection, struct http_source *source);
/* From now on it does this. */
void http_connection_does(struct http_connection *connection, enum http_doing doing);
/* Sends an interim answer (100), to a client of HTTP/1.1: it may send its body, or is asked whether it is there still.
 */
void http_connection_continue(struct http_connection *connection);

static inline void http_header_put(struct http_connection *connection, const char *name, const char *value) {
    text_put(&connection->out, name);
    text_put(&connection->out, ": ");
    text_put(&connection->out, value);
    text_put(&connection->out, "\r\n");
}

/* ---- exchange.c, for http_connection.c ---- */

/* The head is complete. False: it was answered, and the connection takes nothing more. */
bool exchange_begin(struct http_connection *connection);
/* Bytes of the request's body have come. False: as exchange_begin(). */
bool exchange_body(struct http_connection *connection, const char *data, size_t bytes);
/* Where the next bytes of the body, *bytes at most, may be received directly; NULL: nowhere. */
char *exchange_room(struct http_connection *connection, size_t *bytes);
/* The body is complete. */
void exchange_end(struct http_connection *connection);
/* The connection is gone: what runs is cancelled. */
void exchange_leave(struct exchange *exchange);
/* Its body is not awaited: it is refused, and ends without being answered. */
void exchange_refuse(struct exchange *exchange);
/* The answer has gone out. */
void exchange_sent(struct exchange *exchange);

/* ---- exchange.c, for http.c ---- */

/* The scheduler gave the request back. */
void exchange_finish(struct exchange *exchange);
/* A bulk thread gave it back. */
void exchange_from_bulk(struct bulk_job *job);
/* The order was carried out: 200, or another status with a sentence. */
void exchange_ordered(void *exchange, unsigned status, const char *sentence);

/* ---- http_sweep.c, for http.c ---- */

/* Once a second: ends what takes too long. */
void http_connections_sweep(struct frontend *frontend);
