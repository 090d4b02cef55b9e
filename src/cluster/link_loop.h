/* link_loop.h - the link thread: turns, its peers' sockets, its doorbell, who connects.
 *
 *     turn():  the rings of this process are read, and frames sent
 *     flush    every peer that has something, one system call each
 *     sleep    until a socket, the doorbell, or the time that turn() named
 *
 * While it sleeps, who would ring its bell may take its turn instead, which saves waking it (base/doorbell.h). Sockets
 * are read by the thread alone, and by it alone peers are freed.
 *
 * What the thread's owner does is in its table of functions, called by the thread or by who takes its turn. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/doorbell.h"
#include "cluster/names.h"
#include "cluster/peer.h"

struct link_loop;

struct link_loop_ops {
    /* Does what there is to do. Returns until when the thread may sleep; 0: not at all. */
    int64_t (*turn)(void *owner, int64_t now_ns);
    /* Whether a ring has something: looked at once more before the thread sleeps. */
    bool (*pending)(void *owner);
    /* Somebody connected; NULL: nobody may. The socket is the owner's. */
    void (*accepted)(void *owner, int fd, const char *from);
    /* A peer that is closed is nobody's any more: free what it lies in. */
    void (*bury)(void *owner, struct peer *peer);
};

struct link_loop {
    const struct link_loop_ops *ops;
    void *owner;
    const char *name; /* of the thread */
    int epoll_fd, listen_fd;
    int local_fd; /* a Unix socket that listens, for those of this host; -1: none */
    struct doorbell *bell;
    struct names *names;    /* where others are */
    struct list_node peers; /* struct peer.link */
    struct list_node dead;  /* closed in this turn */
    pthread_t thread;
    bool started;
    _Atomic bool stop;
};

/* `listen_fd` is the loop's from then on; -1: nobody connects. 0 or -errno with a sentence. */
int link_loop_init(struct link_loop *loop, const struct link_loop_ops *ops, void *owner, struct doorbell *bell,
                   int listen_fd, struct sy_error *err);
/* Others of this host may connect to a Unix socket, too, which has this name without being in any folder. 0 or -errno.
 * Before it is started. */
int link_loop_listen_local(struct link_loop *loop, const char *name);
/* Begins to connect to one. The socket, or -errno: nobody of this host listens by that name. */
int link_connect_local(const char *name);
/* Lends the turns. Before it is started. */
void link_loop_lend(struct link_loop *loop);
/* 0 or -errno with a sentence. */
int link_loop_start(struct link_loop *loop, const char *name, struct sy_error *err);
/* Ends the thread, if it was started, and closes all peers. */
void link_loop_stop(struct link_loop *loop);

/* ---- its thread ---- */

/* A peer for a socket; it is in `peers`. 0, or -errno, and the socket is closed. */
int link_loop_add(struct link_loop *loop, struct peer *peer, int fd, bool connecting, const struct peer_events *events,
                  void *owner);
/* Closes it (without closed()), and has it buried at the end of the turn. Once. */
void link_loop_drop(struct link_loop *loop, struct peer *peer);
/* Begins to connect. The socket, or -errno. */
int link_connect(const struct sockaddr *address, socklen_t bytes);
/* "1.2.3.4:56" of an address. */
void link_address_text(const struct sockaddr *address, char *text, size_t bytes);
