/* frontends.h - the frontends of this process, and what they share. Owned by the thread that starts and stops the
 * server; constant in between, for any thread. */
#pragma once

#include "front/net/frontend.h"
#include "server/threads/server_config.h"

#define SERVER_PROTOCOLS 2 /* HTTP, gRPC */

struct frontends {
    struct frontend **list; /* [count] those of HTTP, then those of gRPC; NULL: not started */
    uint32_t count;
    uint32_t each;                    /* frontends of each protocol */
    uint32_t inside;                  /* frontends that the caller runs itself (server_inside()) */
    struct port **ports;              /* [count + inside] ports to the scheduler */
    struct frontend_config config;    /* what all have in common, and own together: bulk, preparer, shared */
    int listen_fds[SERVER_PROTOCOLS]; /* listening sockets of HTTP and gRPC; -1: not open */
    struct acceptor_group groups[SERVER_PROTOCOLS]; /* how the frontends of a protocol share its connections */
    int bound[SERVER_PROTOCOLS];                    /* their ports; -1: none */
};

/* 0 or -ENOMEM; free them in either case. */
int frontends_init(struct frontends *frontends, const struct server_config *config);
/* Opens the ports for clients, and starts the frontends. The caller has set what `config` says of the other parts of
 * the process. `reply_ns`: first reply margin. 0 or -errno with a sentence. */
int frontends_start(struct frontends *frontends, const struct server_config *config, struct wiring *wiring,
                    int64_t reply_ns, struct sy_error *err);
/* Takes no new connections. */
void frontends_unlisten(struct frontends *frontends);
/* Call it when no thread uses a port any more. */
void frontends_free(struct frontends *frontends);

/* Wakes every frontend, since something has changed that they read once a turn. */
static inline void frontends_wake(const struct frontends *frontends) {
    for (uint32_t f = 0; f < frontends->count; f++)
        inbox_wake(&frontends->list[f]->inbox);
}
/* A frontend's counters of infer requests. */
static inline const struct infer_counters *frontends_counters(const struct frontends *frontends, uint32_t frontend) {
    return &frontends->list[frontend]->inferences.counters;
}
/* Clears what frontends count of a place, which was of its last model. */
void frontends_counters_clear(const struct frontends *frontends, uint32_t place);
/* Whether a frontend holds a request of the model. */
bool frontends_hold(const struct frontends *frontends, uint32_t model);
