/* frontend.h - a frontend: one thread that takes requests over one protocol, hands them to the scheduler through its
 * port, and answers them.
 *
 * What all frontends do is here: turns, start and end. What a protocol does is in its table of functions, which is
 * called for an event, a request or a turn. Several frontends share one listening socket. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/system/clock.h"
#include "core/util/container.h"
#include "core/util/error.h"
#include "core/util/histogram.h"
#include "core/util/list.h"
#include "front/bulk/bulk.h"
#include "front/bulk/deflate.h"
#include "front/bulk/inbox.h"
#include "front/net/acceptor.h"
#include "front/net/frontend_config.h"
#include "front/net/frontend_metrics.h"
#include "front/net/slots.h"
#include "front/net/stream.h"
#include "front/net/unsent.h"
#include "front/request/inference.h"
#include "front/request/repository_order.h"
#include "model/repository/model_index.h"

#define FRONTEND_IN_BYTES ((size_t)128 * 1024) /* most bytes of one receive, for data that are copied afterwards */
/* Most time of a turn for parsing what one connection has sent; the rest waits for the next turn. */
#define FRONTEND_PARSE_NS (250 * NS_PER_US)

struct frontend;

/* The functions of a protocol. All are called by the frontend's thread, or by a thread that takes its turn while it
 * sleeps, unless they say otherwise. */
struct protocol {
    const char *alpn;      /* the protocol's name in TLS */
    size_t frontend_bytes; /* size of the protocol's own struct, which begins with a struct frontend and is zeroed */
    size_t slot_bytes;     /* size of a request slot, which begins with a struct inference */
    const struct protocol_metrics *metrics; /* names of the protocol's metrics and threads */

    /* Initialises the protocol's own part of the frontend. 0 or -ENOMEM; free() is called in either case. Called by the
     * thread that starts the server. */
    int (*init)(struct frontend *frontend);
    /* Closes all connections and frees the protocol's own part; the frontend's thread has ended. Called by the
     * thread that stops the server. */
    void (*free)(struct frontend *frontend);

    /* A client has been accepted: takes the socket over. */
    void (*begin)(struct frontend *frontend, int fd, const struct peer_address *peer);
    /* Handles epoll's events of a connection, which may be gone afterwards. */
    void (*event)(struct stream *stream, uint32_t events);
    /* The scheduler gave a request back. */
    void (*finished)(struct inference *inference);
    /* A bulk thread gave a job back. */
    void (*bulk_done)(struct bulk_job *job);
    /* The order with this context was carried out: 200, or another status with a sentence. */
    void (*ordered)(void *context, unsigned status, const char *sentence);

    /* Ends a connection without a complete request, since there are too many connections. */
    void (*displace)(struct list_node *waiting);
    /* A request whose message comes is given up, since another one needs its slot: 503. Its slot is free then. */
    void (*give_up)(struct coming *coming);
    /* Ends a connection at once, since others need the memory or the slot that is kept for it. */
    void (*dismiss)(struct stream *stream);
    /* Once a second: gives up connections and requests that take too long. */
    void (*sweep)(struct frontend *frontend);
    /* Once a turn, after the functions above: does the protocol's other work. True: some is left, so the thread does
     * not sleep before the next turn. */
    bool (*go_on)(struct frontend *frontend);
    /* At a turn's end, and after the events: frees closed connections, since nothing refers to them any more. */
    void (*reap)(struct frontend *frontend);

    /* No new connections from now on: tells clients that. Called once. NULL: the answers tell them. */
    void (*quiesce)(struct frontend *frontend);
    /* Closes connections on which no request has begun. Called once, after quiesce(). NULL: after quiesce() no request
     * begins. */
    void (*shut)(struct frontend *frontend);
    /* The server ends, and all requests are back: whether clients have got all that the frontend has to send. */
    bool (*all_said)(const struct frontend *frontend);
};

/* Owned by the frontend's thread, except for what other threads read or write. */
struct frontend {
    const struct protocol *protocol;
    struct frontend_config config;
    int epoll_fd; /* epoll set of the port, the inbox, the listening socket and the connections */
    pthread_t thread;
    bool joined;                      /* frontend_end() has joined the thread */
    int64_t turn_ns;                  /* begin of this turn */
    int64_t sweep_ns;                 /* time of the next sweep() */
    int64_t page_due_ns;              /* time of the next page_look(), a second ahead at most; TIME_NEVER: none */
    const struct model_index *models; /* list of models that this turn uses */
    bool quiesced;                    /* protocol->quiesce() was called */
    bool ending;                      /* the server ends, and gRPC calls without a request under way end, too */
    bool more;                        /* go_on() has work left for the next turn */
    bool unread;                      /* connections are left that this turn had no time to read */
    int64_t busy_ns, busy_at_ns;      /* thread_busy_ns() at the last sweep(), and when that was */
    struct acceptor *idler;           /* whom sweep() may give a connection to; NULL: nobody */
    struct acceptor acceptor;
    struct stream_home streams;
    struct list_node connections; /* connections, linked by the protocol's struct */
    struct list_node waiting;     /* connections without a complete request, the longest wait first */
    struct unsent_home unsent;
    struct list_node coming; /* requests with a slot whose messages come, the longest without a byte first */
    struct inferences inferences;
    struct inflater inflater;
    struct deflater deflater;
    char *in; /* [FRONTEND_IN_BYTES] received bytes, before they are parsed */

    /* read by other threads */
    _Atomic(const struct model_index *) models_seen; /* as `models`, for other threads */
    struct connection_counters counters;
    const _Atomic uint64_t *answers; /* [protocol->metrics->answer_kinds] answers by status */
    _Atomic bool shut;               /* frontend_shut() is done: no request begins any more */
    _Atomic bool ended;              /* the thread has ended */

    /* written by other threads */
    _Alignas(CACHE_LINE) _Atomic bool quiesce_wanted, shut_wanted, stop_wanted;
    struct inbox inbox;
};

/* ---- for the one thread that starts and stops the server ---- */

/* Starts the thread. 0 or -errno with a sentence. */
int frontend_start(struct frontend **frontend, const struct protocol *protocol, const struct frontend_config *config,
                   struct sy_error *err);
/* No new connections from now on (the caller closes its listening socket, too). Each open HTTP connection may bring one
 * more request, whose answer closes the connection; by gRPC no call begins. Returns at once. */
void frontend_quiesce(struct frontend *frontend);
/* After frontend_quiesce(): no further request begins, and connections that wait for one are closed. Requests in flight
 * go on. Returns at once: see frontend_is_shut(). */
void frontend_shut(struct frontend *frontend);
/* Begins what frontend_end() does, without waiting, so that several frontends end at the same time. */
void frontend_tell_end(struct frontend *frontend);
/* Cancels the requests in flight, waits until the scheduler (which must still run) has given all back, sends their
 * answers as far as the sockets take them at once, and ends the thread. NULL is allowed. */
void frontend_end(struct frontend *frontend);
/* Calls frontend_end(), unless that was done, and frees the frontend. If another thread may still read the frontend,
 * call frontend_end() first, and frontend_stop() once that thread has ended. */
void frontend_stop(struct frontend *frontend);

/* ---- any thread ---- */

/* Infer requests that are being read, run or answered; idle connections do not count. */
static inline uint32_t frontend_in_flight(const struct frontend *frontend) {
    return atomic_load_explicit(&frontend->inferences.counters.in_flight, memory_order_relaxed); /* a gauge */
}
/* Open connections, idle ones too. */
static inline uint32_t frontend_connections(const struct frontend *frontend) {
    return acceptor_connections(&frontend->acceptor);
}
/* Whether frontend_shut() is done: no request begins any more, so once none is in flight, none will be. */
static inline bool frontend_is_shut(const struct frontend *frontend) {
    return atomic_load_explicit(&frontend->shut, memory_order_acquire); /* with shut() */
}
/* The list of models that the frontend uses; it reads no earlier list any more. */
static inline const struct model_index *frontend_models(const struct frontend *frontend) {
    return atomic_load_explicit(&frontend->models_seen, memory_order_acquire); /* with models_look() */
}
/* Whether the frontend's thread has ended: it reads no list of models any more. */
static inline bool frontend_ended(const struct frontend *frontend) {
    return atomic_load_explicit(&frontend->ended, memory_order_acquire); /* with frontend_main() */
}
/* The frontend's counters for the metrics. */
struct frontend_counters frontend_counters(const struct frontend *frontend);

/* ---- for the protocols, on its thread ---- */

/* Has a bulk thread run the job of an inference, whose client has the address `peer`. The bulk thread owns the job and
 * the inference until protocol->bulk_done(). `bytes`: size of the work. */
void frontend_to_bulk(struct frontend *frontend, struct inference *inference, struct bulk_job *job,
                      void (*run)(struct bulk_job *job, struct bulk_tools *tools), size_t bytes,
                      const struct peer_address *peer);
/* Hands an order in, and sets its `home`. Its slot is ORDERED until protocol->ordered(). 0; or 503 with a sentence, and
 * the slot is as it was. */
int frontend_order(struct frontend *frontend, struct inference *inference, struct repository_order *order,
                   struct sy_error *err);

/* ---- a frontend without a thread, for tests ---- */

int frontend_make(struct frontend **frontend, const struct protocol *protocol, const struct frontend_config *config,
                  struct sy_error *err);
/* Takes one turn, without sleeping. */
void frontend_step(struct frontend *frontend);
void frontend_free(struct frontend *frontend);
