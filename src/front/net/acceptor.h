/* acceptor.h - accepts connections from a listening socket, within two limits: of all connections, and of those from
 * one address.
 *
 * CONNECTIONS_SPARE more than the first limit are accepted, once all frontends of the port have reached theirs: the
 * frontend ends others for them, or has them ask for health alone. Further ones wait in the socket's backlog. When
 * accept() fails because descriptors or memory are used up, the acceptor pauses until one of its own connections ends
 * or ACCEPTOR_PAUSE_MS have passed: the listening socket stays readable all the while, and a thread that watched it
 * would spin.
 *
 * Frontends of one port are a group: whoever accepts a connection gives it to the one with the least load, the
 * connections that it has and the requests that it has under way. (The kernel wakes any of them, the busiest as well.)
 * One frontend's thread, but for what other threads read, and for connections that they give. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "core/util/error.h"
#include "core/util/push_list.h"
#include "front/net/frontend_config.h"
#include "front/net/peers.h"

#define ACCEPTOR_PAUSE_MS 100

struct acceptor;
struct inbox;

/* The acceptors of a port. */
struct acceptor_group {
    pthread_mutex_t lock;                              /* of `peers`, taken once a connection */
    struct peers *peers;                               /* of all; NULL: no limit for an address */
    _Atomic(struct acceptor *) members[FRONTENDS_MAX]; /* by the frontend's index; NULL: it has not joined */
};

/* For acceptors of at most `connections_max` together. 0 or -ENOMEM; destroy it in either case, once the last acceptor
 * is destroyed. */
int acceptor_group_init(struct acceptor_group *group, uint32_t connections_max, uint32_t per_address);
void acceptor_group_destroy(struct acceptor_group *group);

struct acceptor {
    int epoll_fd;
    int fd; /* -1: none; no connections are accepted (any more) */
    void *mark;
    bool watched;
    int64_t paused_until_ns; /* 0: not paused */
    uint32_t connections_max, per_address;
    struct peers *peers; /* of this frontend */
    struct acceptor_group *group;
    bool alone;              /* it has no group; or gives nothing away any more */
    struct push_node *taken; /* connections that others gave, linked by `next` */
    struct inbox *inbox;     /* wakes this thread */
    const _Atomic uint32_t *in_flight;
    /* written by other threads */
    struct push_list given;
    _Atomic uint32_t given_count;
    /* read by other threads */
    _Atomic uint32_t connections;
    _Atomic uint64_t paused; /* how often there was no descriptor or memory */
};

/* Duplicates `listen_fd`; -1: there is none. `mark` comes back from epoll with its events. 0 or -errno with a sentence;
 * destroy it in either case. */
int acceptor_init(struct acceptor *acceptor, int epoll_fd, const struct frontend_config *config, void *mark,
                  struct sy_error *err);
void acceptor_destroy(struct acceptor *acceptor);
/* From now on others may give it connections, and wake it by its inbox; `in_flight`: its requests under way. It stays
 * in the group, so none of its threads may run when the first acceptor is destroyed. */
void acceptor_join(struct acceptor *acceptor, uint32_t index, struct inbox *inbox, const _Atomic uint32_t *in_flight);

/* The next connection, which counts until acceptor_ended(); -1: there is none now. Others may be given away. */
int acceptor_next(struct acceptor *acceptor, struct peer_address *peer, int64_t now_ns);
/* The same of those that others gave. */
int acceptor_given(struct acceptor *acceptor, struct peer_address *peer);
/* A connection begins without a listening socket: for tests. */
void acceptor_begun(struct acceptor *acceptor, const struct peer_address *peer);
/* Who has this connection, and others. */
static inline struct peer *acceptor_peer(const struct acceptor *acceptor, const struct peer_address *address) {
    return peers_find(acceptor->peers, address);
}
/* A connection has ended, and its descriptor is closed. */
void acceptor_ended(struct acceptor *acceptor, const struct peer_address *peer);
/* Once a turn: watches the listening socket while connections may be accepted, else not. */
void acceptor_look(struct acceptor *acceptor, int64_t now_ns);
/* Gives none away from now on. */
void acceptor_keep(struct acceptor *acceptor);
/* No connection is accepted from now on. */
void acceptor_close(struct acceptor *acceptor);

/* There are more connections than there should be. */
static inline bool acceptor_crowded(const struct acceptor *acceptor) {
    return atomic_load_explicit(&acceptor->connections, memory_order_relaxed) > acceptor->connections_max; /* its own */
}
static inline uint32_t acceptor_connections(const struct acceptor *acceptor) {
    return atomic_load_explicit(&acceptor->connections, memory_order_relaxed); /* its own, or statistics */
}
