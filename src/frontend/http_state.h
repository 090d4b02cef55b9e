/* http_state.h - what a frontend is made of; for http*.c and exchange.c only.
 *
 * While a request is RUNNING (inference.h), libmicrohttpd would have each waiting connection suspended, which costs 4
 * us a request (two epoll_ctl, a receive in vain). But it also asks again, once a turn, for the answer of a connection
 * whose request is complete, at some 60 ns. So a connection is asked ASKS_MAX times, which is enough for requests that
 * take a few turns, and only then suspended: those that wait long do not make every turn longer. */
#pragma once

#include <microhttpd.h>

#include "base/list.h"
#include "frontend/deflate.h"
#include "frontend/frontend_loop.h"
#include "frontend/http.h"
#include "frontend/http_headers.h"
#include "frontend/inference.h"
#include "frontend/tls.h"
#include "frontend/v2.h"

#define ASKS_MAX        16
#define HTTP_STATUS_MAX 600

/* What a connection does, and we give it time for (http_clients.c). */
enum client_doing { CLIENT_HEAD, CLIENT_BODY, CLIENT_RUNNING, CLIENT_ANSWER };

/* A connection. Libmicrohttpd says nothing of a client that leaves while it is suspended, and may not notice one that
 * leaves with the last byte it sends: a receive that does not fill its buffer counts as the last, and the end of the
 * stream raises no second event. So we watch, cancel what runs, and poke libmicrohttpd until it has looked again. */
struct client {
    int fd;
    struct list_node link; /* in the frontend's list */
    enum client_doing doing;
    int64_t since_ns; /* when that began */
    uint64_t bytes;   /* of the body, so far; of the answer, in all */
    bool looked;      /* `received` is what the connection had received at the last look */
    uint64_t received;
    int64_t look_ns;                     /* when to look again */
    int64_t head_seen_ns;                /* when a look found that a head had begun; 0: none has */
    bool gone;                           /* closed its end */
    struct exchange *running;            /* to be cancelled when it leaves */
    struct list_node leaving;            /* in the frontend's list once it is gone */
    struct tls_credentials *credentials; /* of its TLS session; NULL: plain text */
};

struct exchange {
    struct inference inference;
    enum v2_kind kind;
    struct http_frontend *frontend;
    struct MHD_Connection *connection; /* NULL: gone while the request ran */
    struct client *client;
    bool suspended;
    uint32_t asks;                        /* how often libmicrohttpd asked while it ran */
    unsigned order_status;                /* of an order that was carried out */
    enum body_encoding encoding, accepts; /* of the body; for the answer */
    unsigned body_fault;                  /* status, when the body cannot be kept: the rest is swallowed */
    char *block, *body;                   /* the body lies in the block */
    size_t body_expected;                 /* SIZE_MAX: chunked, not known */
    size_t body_bytes, body_room;         /* read, and there is room for */
    int64_t json_bytes;
};

struct http_frontend {
    struct frontend_config config;
    struct MHD_Daemon *daemon;
    struct frontend_loop loop; /* waits for libmicrohttpd's epoll, too, and for clients that leave */
    int64_t turn_ns;           /* when this turn began */
    uint32_t turns;            /* counted, round and round */
    uint32_t more_turns;       /* turns to take before sleeping: libmicrohttpd has something to go on with */
    uint32_t asked;            /* running exchanges that libmicrohttpd asks about every turn */
    bool quiesced;
    struct list_node leaving; /* clients that are gone and whose connections libmicrohttpd has not closed yet */
    int64_t poke_ns;          /* when to poke it about them */
    struct list_node clients;
    int64_t sweep_ns; /* when to look for slow ones */

    struct inferences inferences;
    struct inflater inflater;
    struct deflater deflater;

    /* read by other threads */
    _Atomic uint64_t statuses[HTTP_STATUS_MAX]; /* answers by status */
    _Atomic uint32_t connections;
    _Atomic uint64_t dismissed; /* clients, for being slow */
};

/* An answer in one piece goes out in the turn after it was queued, one in several pieces takes one turn more; a body
 * goes on in the next turn. */
#define TURNS_FOR_BODY   1
#define TURNS_FOR_ANSWER 1
#define TURNS_FOR_PIECES 2

static inline void frontend_turn_again(struct http_frontend *f, uint32_t turns) {
    if (f->more_turns < turns)
        f->more_turns = turns;
}

/* From now on the client does this; `bytes` of an answer. NULL is allowed. */
static inline void client_does(struct client *client, enum client_doing doing, int64_t now_ns, uint64_t bytes) {
    if (!client)
        return;
    client->doing = doing;
    client->since_ns = now_ns;
    client->bytes = bytes;
}

static inline void client_received(struct client *client, size_t bytes) {
    if (client)
        client->bytes += bytes;
}

/* A request of its is over; the next may come. */
static inline void client_rests(struct client *client, int64_t now_ns) {
    if (!client)
        return;
    client_does(client, CLIENT_HEAD, now_ns, 0);
    client->looked = false;
    client->look_ns = client->head_seen_ns = 0;
}

/* ---- http.c: a frontend without a thread, for tests ---- */

int http_frontend_make(struct http_frontend **frontend, const struct frontend_config *config, struct sy_error *err);
/* One turn, without sleeping. */
void http_frontend_step(struct http_frontend *frontend);
void http_frontend_free(struct http_frontend *frontend);

/* ---- http_clients.c, for http.c ---- */

/* libmicrohttpd's callback: a connection begins or ends. */
void client_notify(void *context, struct MHD_Connection *connection, void **client,
                   enum MHD_ConnectionNotificationCode code);
/* The client left: its running request is cancelled. */
void client_leave(struct http_frontend *frontend, struct client *client);
/* Once a turn: what must not wait for ever. */
void clients_look_after(struct http_frontend *frontend);

/* ---- exchange.c, for http.c ---- */

/* libmicrohttpd's callbacks; `context` is the frontend. */
enum MHD_Result exchange_handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_bytes, void **exchange);
void exchange_completed(void *context, struct MHD_Connection *connection, void **exchange,
                        enum MHD_RequestTerminationCode code);
/* The scheduler gave the request back. */
void exchange_finish(struct exchange *exchange);
/* The order was carried out: 200, or another status with a sentence. */
void exchange_ordered(struct exchange *exchange, unsigned status, const char *sentence);
/* The client left: its running request is cancelled. */
void client_leave(struct http_frontend *frontend, struct client *client);
