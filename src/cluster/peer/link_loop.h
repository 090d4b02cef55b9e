/* link_loop.h - the link thread: turns, its peers' sockets, its doorbell, new connections.
 *
 *     turn():  the rings of this process are read, and frames sent
 *     flush    every peer that has something, one system call each
 *     sleep    until a socket, the doorbell, or the time that turn() named
 * While the link thread sleeps, a thread that would ring its bell may take its turn instead, which saves a wake-up
 * (core/system/doorbell.h). Only the link thread reads sockets and frees peers.
 *
 * Over TLS a stranger's handshake costs the thread up to a millisecond, so handshakes wait in a queue: a turn does one
 * step of one, and all together get a quarter of the thread's time. After a quiet time they may first take a quarter of
 * a second in a row, for the members of a scheduler that is gone.
 *
 * Two loops of one process may share a thread, a bell and an epoll set (link_loop_init_guest()), and what they send
 * each other stays in memory (link_loop_meet()). So who takes the thread's turn brings a frame from one to the other,
 * and on from there, without a wake-up or a system call in between.
 *
 * The owner's functions are called by the link thread, or by the thread that takes its turn. */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "cluster/peer/names.h"
#include "cluster/peer/peer.h"
#include "core/system/doorbell.h"

struct link_loop;

struct link_loop_ops {
    /* Does the owner's work. Returns the time until which the thread may sleep; 0: not at all. */
    int64_t (*turn)(void *owner, int64_t now_ns);
    /* Whether a ring has messages: checked once more before the thread sleeps. */
    bool (*pending)(void *owner);
    /* A process has connected; the owner gets the socket. NULL: no process may connect. */
    void (*accepted)(void *owner, int fd, const char *from);
    /* A closed peer is no longer used: frees the struct around it. */
    void (*bury)(void *owner, struct peer *peer);
};

struct link_loop {
    const struct link_loop_ops *ops;
    void *owner;
    const char *name; /* name of the thread */
    int epoll_fd, listen_fd;
    int local_fd;                            /* listening Unix socket, for processes of this host and user; -1: none */
    struct tls *tls;                         /* TLS of all sockets but Unix ones; NULL: plain text */
    bool rests;                              /* no connection is accepted until `rest_ns` */
    int64_t rest_ns;                         /* end of the last rest */
    char *arrived;                           /* [PEER_TLS_BYTES] received bytes of peers with TLS */
    struct list_node greets;                 /* peers whose handshakes wait for their next step, by struct peer.greet */
    int64_t greet_credit_ns, greet_since_ns; /* time that handshakes may take, and when it was computed */
    int64_t stranger_ns;                     /* time of the last line in the log about a stranger */
    uint64_t strangers_untold;               /* strangers refused since, without a line in the log */
    void (*ready)(void *owner);              /* function of link_loop_watch() */
    struct doorbell *bell;                   /* rung by the threads whose rings the loop reads */
    struct names *names;                     /* addresses of other processes */
    struct list_node peers;                  /* all peers, by struct peer.link */
    struct list_node dead;                   /* peers that were closed in this turn, by struct peer.link */
    struct list_node flushes;                /* peers that have something to send, by struct peer.flush */
    struct list_node arrivals;               /* peers whose twins have sent something, by struct peer.arrival */
    struct link_counts counts;
    bool lent; /* another thread takes this turn */
    pthread_t thread;
    bool started;
    _Atomic bool stop;
    char marks[4];           /* epoll's data for descriptors that are no peers, by enum link_mark: their addresses */
    struct link_loop *host;  /* loop whose thread has the turns; NULL: this loop has a thread of its own */
    struct link_loop *guest; /* loop that shares the thread; NULL: none. Owned by who has the turn */
    struct link_loop *guest_next; /* guest from the thread's next own turn on, if `guest_moves` */
    _Atomic bool guest_moves;
    sem_t guest_moved; /* posted when that has happened */
};

/* `listen_fd` belongs to the loop from then on; -1: nobody can connect. `tls`, which outlives the loop: TLS of all
 * connections, except those over Unix sockets, which do not leave the host; NULL: plain text. 0 or -errno with a
 * sentence. */
int link_loop_init(struct link_loop *loop, const struct link_loop_ops *ops, void *owner, struct doorbell *bell,
                   int listen_fd, struct tls *tls, struct sy_error *err);
/* As link_loop_init(), for a loop whose turns the thread of `host` has, with that loop's bell, and where nobody
 * connects but by a Unix socket. The host is started before, and ends later. */
int link_loop_init_guest(struct link_loop *loop, const struct link_loop_ops *ops, void *owner, struct link_loop *host,
                         struct sy_error *err);
/* Also listens at a Unix socket of this name, which is not in the file system, for processes of this host and user. 0
 * or -errno. Call it before the start. */
int link_loop_listen_local(struct link_loop *loop, const char *name);
/* Begins to connect to a Unix socket of link_loop_listen_local(). Returns our socket, or -errno: no process of this
 * host and user listens by that name. */
int link_connect_local(const char *name);
/* Watches one more descriptor, and calls `ready` when it can be read; `ready` is the same for all such descriptors.
 * Call it before the start. 0 or -errno. */
int link_loop_watch(struct link_loop *loop, int fd, void (*ready)(void *owner));
/* Lends the link thread's turns; a thread of two loops lends them anyway. Call it before the start. */
void link_loop_lend(struct link_loop *loop);
/* Starts the link thread; a guest's turns begin. 0 or -errno with a sentence. */
int link_loop_start(struct link_loop *loop, const char *name, struct sy_error *err);
/* For tests: takes one turn of a loop that was not started. `sleeps`: waits until there is something to do. */
void link_loop_turn(struct link_loop *loop, bool sleeps);
/* Ends the thread, or a guest's turns, if they have begun, and closes all peers. */
void link_loop_stop(struct link_loop *loop);

/* CPU time that the running thread has taken, in nanoseconds. Any thread. */
int64_t link_loop_cpu_ns(const struct link_loop *loop);

/* ---- the link thread ---- */

/* Initialises a peer for a socket, and adds it to `peers`. 0, or -errno, and the socket is closed. */
int link_loop_add(struct link_loop *loop, struct peer *peer, int fd, bool connecting, const struct peer_events *events,
                  void *owner);
/* Connects a guest to its host, as link_loop_add() does for a socket: the host's accepted() gets the other end. 0 or
 * -errno. */
int link_loop_meet(struct link_loop *guest, struct peer *peer, const struct peer_events *events, void *owner);
/* Closes a peer (without calling closed()); bury() is called at the end of the turn. Only once for each peer. */
void link_loop_drop(struct link_loop *loop, struct peer *peer);
/* Removes a peer that is still connecting, as link_loop_drop() does, but returns the socket open: nothing was sent on
 * it, and another link_loop_add() may take it. */
int link_loop_release(struct link_loop *loop, struct peer *peer);
/* Logs that a stranger was refused; at most one line a second. */
void link_loop_stranger(struct link_loop *loop, const char *from, const char *reason);
/* Begins to connect. Returns the socket, or -errno; -EACCES: another user's process listens at that Unix socket. */
int link_connect(const struct sockaddr *address, socklen_t bytes);
/* "1.2.3.4:56" or "[::1]:56" of an address. */
void link_address_text(const struct sockaddr *address, char *text, size_t bytes);
