/* acceptor.h - accepts connections from a listening socket, within two limits: of all connections, and of those from
 * one address.
 *
 * Once all frontends of the port have connections_max connections, each accepts CONNECTIONS_SPARE more: it ends other
 * connections for these, or lets them ask for health alone. Further connections wait in the socket's backlog. When
 * accept() fails because descriptors or memory are used up, the acceptor pauses until one of its own connections ends
 * or ACCEPTOR_PAUSE_MS have passed: the listening socket stays readable all the while, and a thread that watched it
 * would spin.
 *
 * Frontends of one port are a group: the frontend that accepts a connection gives it to the one with the least load. A
 * frontend's load is its connections and its requests under way. (The kernel wakes any of them, the busiest as well.)
 *
 * Connections that have become hot are moved: once a second, a thread that is busy for most of the time, while another
 * of the group is for less than half of that, has the other one's acceptor (acceptor_idler()), and gives it a
 * connection (acceptor_move()), for which that one is new.
 *
 * Owned by the frontend's thread, except for fields that other threads read, and connections that they give. */
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
    pthread_mutex_t lock; /* lock of `peers`, taken once a connection */
    struct peers *peers;  /* connections of the port by address; NULL: no limit for an address */
    _Atomic(struct acceptor *) members[FRONTENDS_MAX]; /* acceptors by their frontend's index; NULL: not joined */
};

/* `connections_max`: connections of all acceptors together; `per_address`: 0: no limit for an address. 0 or -ENOMEM;
 * call acceptor_group_destroy() in either case, once the last acceptor is destroyed. */
int acceptor_group_init(struct acceptor_group *group, uint32_t connections_max, uint32_t per_address);
void acceptor_group_destroy(struct acceptor_group *group);

struct acceptor {
    int epoll_fd;
    int fd;                  /* listening socket; -1: no connections are accepted (any more) */
    void *mark;              /* what epoll returns with the socket's events */
    bool watched;            /* the socket is in the epoll set */
    int64_t paused_until_ns; /* end of the pause in accepting; 0: no pause */
    uint32_t connections_max, per_address;
    struct peers *peers; /* connections and requests of this frontend by address */
    struct acceptor_group *group;
    bool alone; /* connections are not given to other frontends: there is no group, or acceptor_keep() was called */
    struct push_node *taken;           /* connections that were taken from `given` and have not begun here */
    struct inbox *inbox;               /* inbox of the frontend, by which other threads wake its thread */
    const _Atomic uint32_t *in_flight; /* requests under way in this frontend; NULL: not joined */
    /* written by other threads */
    struct push_list given;       /* connections that other frontends gave */
    _Atomic uint32_t given_count; /* connections that were given and have not begun here */
    /* read by other threads */
    _Atomic uint32_t connections; /* connections that have begun here and not ended */
    _Atomic uint64_t paused;      /* times that there was no descriptor or memory for a connection */
    _Atomic uint32_t busy;        /* percent of the last second that the thread was busy */
};

/* Duplicates config->listen_fd (-1: there is no listening socket). epoll returns `mark` with the socket's events. 0 or
 * -errno with a sentence; call acceptor_destroy() in either case. */
int acceptor_init(struct acceptor *acceptor, int epoll_fd, const struct frontend_config *config, void *mark,
                  struct sy_error *err);
void acceptor_destroy(struct acceptor *acceptor);
/* Joins the group: from now on other frontends may give this one connections, and wake its thread by `inbox`.
 * `in_flight` counts the frontend's requests under way. An acceptor never leaves its group, so all threads of the group
 * must have ended before its first acceptor is destroyed. */
void acceptor_join(struct acceptor *acceptor, uint32_t index, struct inbox *inbox, const _Atomic uint32_t *in_flight);

/* The socket of the next connection, which counts until acceptor_ended(); -1: there is none now. May give further
 * connections to other frontends. */
int acceptor_next(struct acceptor *acceptor, struct peer_address *peer, int64_t now_ns);
/* As acceptor_next(), but of the connections that other frontends gave. */
int acceptor_given(struct acceptor *acceptor, struct peer_address *peer);
/* Says for how much of the last second the thread was busy, in percent. Returns the acceptor to which it should give
 * one of its connections; NULL: none. */
struct acceptor *acceptor_idler(struct acceptor *acceptor, uint32_t busy);
/* Gives a connection that has begun here to another acceptor of the group, as it is between two requests. */
void acceptor_move(struct acceptor *acceptor, struct acceptor *to, int fd, const struct peer_address *peer);
/* Counts a connection that did not come from the listening socket: for tests. */
void acceptor_begun(struct acceptor *acceptor, const struct peer_address *peer);
/* The counts of this address, which has a connection. */
static inline struct peer *acceptor_peer(const struct acceptor *acceptor, const struct peer_address *address) {
    return peers_find(acceptor->peers, address);
}
/* A connection has ended, and its descriptor is closed. */
void acceptor_ended(struct acceptor *acceptor, const struct peer_address *peer);
/* Once a turn: watches the listening socket only while connections may be accepted. */
void acceptor_look(struct acceptor *acceptor, int64_t now_ns);
/* From now on gives no connections to other frontends. */
void acceptor_keep(struct acceptor *acceptor);
/* No connection is accepted from now on. */
void acceptor_close(struct acceptor *acceptor);

/* Whether the frontend has more connections than connections_max. */
static inline bool acceptor_crowded(const struct acceptor *acceptor) {
    return atomic_load_explicit(&acceptor->connections, memory_order_relaxed) >
           acceptor->connections_max; /* relaxed: written by this thread */
}
static inline uint32_t acceptor_connections(const struct acceptor *acceptor) {
    return atomic_load_explicit(&acceptor->connections,
                                memory_order_relaxed); /* relaxed: written by this thread, or read as statistics */
}
