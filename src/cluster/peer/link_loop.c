/* link_loop.c - the link thread's turns. */
#include "cluster/peer/link_loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "cluster/peer/peer_tls.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"

#define EVENTS_MAX  64
#define ACCEPT_MOST 16                /* connections accepted in a turn */
#define REST_NS     (100 * NS_PER_MS) /* time for which no connection is accepted once the system has refused one */
#define GREET_PART  4                 /* part of the thread's time that handshakes may take */
#define GREET_NS    (250 * NS_PER_MS) /* time that handshakes may take in a row, after a quiet time */

#define BOTH_TURNS 4 /* most turns of each of two loops in a turn of their thread */

enum link_mark { MARK_BELL, MARK_LISTEN, MARK_LOCAL, MARK_READY };

static int watch(int epoll_fd, int fd, uint32_t events, void *mark) {
    struct epoll_event event = {.events = events, .data.ptr = mark};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void begin(struct link_loop *loop, const struct link_loop_ops *ops, void *owner) {
    *loop = (struct link_loop){.ops = ops, .owner = owner, .listen_fd = -1, .local_fd = -1};
    list_init(&loop->peers);
    list_init(&loop->dead);
    list_init(&loop->flushes);
    list_init(&loop->arrivals);
    list_init(&loop->greets);
}

int link_loop_init(struct link_loop *loop, const struct link_loop_ops *ops, void *owner, struct doorbell *bell,
                   int listen_fd, struct tls *tls, struct sy_error *err) {
    begin(loop, ops, owner);
    loop->bell = bell;
    loop->listen_fd = listen_fd;
    loop->tls = tls;
    sem_init(&loop->guest_moved, 0, 0);
    loop->greet_credit_ns = GREET_NS;
    loop->greet_since_ns = clock_now_ns();
    loop->names = names_create();
    loop->arrived = tls ? malloc(PEER_TLS_BYTES) : NULL;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int rc = loop->epoll_fd < 0 ? -errno
             : !loop->names || (tls && !loop->arrived)
                 ? -ENOMEM
                 : watch(loop->epoll_fd, bell->event_fd, EPOLLIN | EPOLLET, &loop->marks[MARK_BELL]);
    if (rc == 0 && listen_fd >= 0)
        rc = watch(loop->epoll_fd, listen_fd, EPOLLIN, &loop->marks[MARK_LISTEN]);
    return rc < 0 ? error_set(err, rc, "cannot watch the cluster's sockets: %s", strerror(-rc)) : 0;
}

int link_loop_init_guest(struct link_loop *loop, const struct link_loop_ops *ops, void *owner, struct link_loop *host,
                         struct sy_error *err) {
    begin(loop, ops, owner);
    loop->host = host;
    loop->bell = host->bell;
    loop->epoll_fd = host->epoll_fd;
    loop->names = names_create();
    return loop->names ? 0 : error_set(err, -ENOMEM, "no memory for the link to the cluster");
}

/* ---- Unix sockets ---- */

/* Whether the other end of a Unix socket belongs to our user: only then is memory shared. */
static bool same_user(int fd) {
    struct ucred other;
    socklen_t bytes = sizeof(other);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes) == 0 && other.uid == geteuid();
}

int link_loop_listen_local(struct link_loop *loop, const char *name) {
    struct name_address address;
    name_local(name, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), rc = 0;
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&address.at, address.bytes) < 0 || listen(fd, SOMAXCONN) < 0 ||
        (!loop->host && (rc = watch(loop->epoll_fd, fd, EPOLLIN, &loop->marks[MARK_LOCAL])) < 0)) {
        rc = rc ? rc : -errno;
        close(fd);
        return rc;
    }
    loop->local_fd = fd;
    return 0;
}

int link_loop_watch(struct link_loop *loop, int fd, void (*ready)(void *owner)) {
    loop->ready = ready;
    return watch(loop->epoll_fd, fd, EPOLLIN, &loop->marks[MARK_READY]);
}

int link_connect_local(const char *name) {
    struct name_address address;
    name_local(name, &address);
    return link_connect((struct sockaddr *)&address.at, address.bytes);
}

/* ---- peers ---- */

int link_loop_add(struct link_loop *loop, struct peer *peer, int fd, bool connecting, const struct peer_events *events,
                  void *owner) {
    static const int ON = 1;
    bool tcp = setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &ON, sizeof(ON)) == 0; /* a Unix socket has no such option */
    int rc = peer_init(peer, fd, connecting, loop->epoll_fd, events, owner);
    if (rc == 0 && tcp && loop->tls && (rc = peer_secure(peer, loop->tls, loop->arrived)) < 0)
        peer_free(peer);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    peer->heard_ns = clock_now_ns();
    peer->counts = &loop->counts;
    peer->flushes = &loop->flushes;
    peer->arrivals = &loop->arrivals;
    list_append(&loop->peers, &peer->link);
    return 0;
}

int link_loop_meet(struct link_loop *guest, struct peer *peer, const struct peer_events *events, void *owner) {
    struct link_loop *host = guest->host;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    host->ops->accepted(host->owner, ends[1], "local");
    struct peer *other = list_entry(host->peers.prev, struct peer, link); /* the last one, if it was let in */
    int rc = link_loop_add(guest, peer, ends[0], true, events, owner);
    if (rc == 0 && !list_empty(&host->peers) && other->fd == ends[1])
        peer_twins(peer, other);
    return rc;
}

void link_loop_drop(struct link_loop *loop, struct peer *peer) {
    peer_close(peer);
    list_remove(&peer->greet);
    list_remove(&peer->link);
    list_append(&loop->dead, &peer->link);
}

int link_loop_release(struct link_loop *loop, struct peer *peer) {
    int fd = peer_release(peer);
    link_loop_drop(loop, peer);
    return fd;
}

void link_loop_stranger(struct link_loop *loop, const char *from, const char *reason) {
    int64_t now_ns = clock_now_ns();
    if (loop->stranger_ns && now_ns - loop->stranger_ns < NS_PER_S) {
        loop->strangers_untold++;
        return;
    }
    log_warn("stranger refused", "from=%s reason=\"%s\" others=%llu", from, reason,
             (unsigned long long)loop->strangers_untold);
    loop->stranger_ns = now_ns;
    loop->strangers_untold = 0;
}

int link_connect(const struct sockaddr *address, socklen_t bytes) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, address, bytes) < 0 && errno != EINPROGRESS) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    if (address->sa_family != AF_UNIX || same_user(fd))
        return fd;
    close(fd);
    return -EACCES;
}

void link_address_text(const struct sockaddr *address, char *text, size_t bytes) {
    char host[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

    if (address->sa_family == AF_INET && inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host)))
        snprintf(text, bytes, "%s:%u", host, ntohs(v4->sin_port));
    else if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) &&
             inet_ntop(AF_INET, v6->sin6_addr.s6_addr + 12, host, sizeof(host)))
        snprintf(text, bytes, "%s:%u", host, ntohs(v6->sin6_port)); /* of IPv4, where all addresses are listened at */
    else if (address->sa_family == AF_INET6 && inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host)))
        snprintf(text, bytes, "[%s]:%u", host, ntohs(v6->sin6_port));
    else
        snprintf(text, bytes, "local");
}

/* Frees closed peers. True if there were any: their owners may have work to do then. */
static bool bury_dead(struct link_loop *loop) {
    bool any = false;
    list_for_each_safe (node, &loop->dead) {
        struct peer *peer = list_entry(node, struct peer, link);
        list_remove(node);
        peer_free(peer);
        loop->ops->bury(loop->owner, peer);
        any = true;
    }
    return any;
}

/* ---- turns ---- */

/* Watches the loop's listening sockets, or leaves them alone for a while. */
static void listening(struct link_loop *loop, bool wanted) {
    struct epoll_event event = {.events = wanted ? EPOLLIN : 0, .data.ptr = &loop->marks[MARK_LISTEN]};
    if (loop->listen_fd >= 0)
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, loop->listen_fd, &event);
    event.data.ptr = &loop->marks[MARK_LOCAL];
    if (loop->local_fd >= 0)
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, loop->local_fd, &event);
}

/* Accepts nothing for a while if the system has refused a descriptor or memory, as `errno` says: epoll would report
 * the connection that waits again and again. */
static void rest(struct link_loop *loop) {
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
        return;
    int64_t now_ns = clock_now_ns();
    if (now_ns - loop->rest_ns > NS_PER_S)
        log_warn("cannot take a connection", "error=\"%s\"", strerror(errno));
    loop->rest_ns = now_ns + REST_NS;
    loop->rests = true;
    listening(loop, false);
}

/* Ends a rest that is over. Returns the time at which it is; TIME_NEVER: there is none. */
static int64_t rest_end_at(struct link_loop *loop, int64_t now_ns) {
    if (loop->rests && now_ns >= loop->rest_ns) {
        loop->rests = false;
        listening(loop, true);
    }
    return loop->rests ? loop->rest_ns : TIME_NEVER;
}

static void accept_all(struct link_loop *loop, int listen_fd) {
    for (int i = 0; i < ACCEPT_MOST; i++) {
        struct sockaddr_storage address;
        socklen_t bytes = sizeof(address);
        char from[96];
        int fd = accept4(listen_fd, (struct sockaddr *)&address, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            rest(loop);
            return;
        }
        link_address_text((struct sockaddr *)&address, from, sizeof(from));
        if (listen_fd == loop->local_fd && !same_user(fd)) {
            link_loop_stranger(loop, from, "a process of another user does not share memory");
            close(fd);
            continue;
        }
        loop->ops->accepted(loop->owner, fd, from);
    }
}

/* Whether a ring of the thread's loops has messages. */
static bool guest_moves(struct link_loop *loop) {
    return atomic_load_explicit(&loop->guest_moves, memory_order_acquire); /* with guest_set() */
}

static bool any_pending(struct link_loop *loop) {
    return guest_moves(loop) || loop->ops->pending(loop->owner) ||
           (loop->guest && loop->guest->ops->pending(loop->guest->owner));
}

/* Handles the events of a loop's descriptor that is no peer. False: the mark is not the loop's. */
static bool mark_ready(struct link_loop *loop, const char *mark) {
    if (mark == &loop->marks[MARK_LISTEN])
        accept_all(loop, loop->listen_fd);
    else if (mark == &loop->marks[MARK_LOCAL])
        accept_all(loop, loop->local_fd);
    else if (mark == &loop->marks[MARK_READY])
        loop->ready(loop->owner);
    return mark >= loop->marks && mark < loop->marks + sizeof(loop->marks);
}

static bool stops(struct link_loop *loop) {
    return atomic_load_explicit(&loop->stop, memory_order_acquire); /* with link_loop_stop() */
}

/* ---- handshakes ---- */

/* The time that handshakes may take now. Negative: they have taken more than their part. */
static int64_t greet_credit(const struct link_loop *loop, int64_t now_ns) {
    int64_t credit_ns = loop->greet_credit_ns + (now_ns - loop->greet_since_ns) / GREET_PART;
    return credit_ns < GREET_NS ? credit_ns : GREET_NS;
}

/* The time at which the next step of a handshake may be done. */
static int64_t greet_at(const struct link_loop *loop, int64_t now_ns) {
    if (list_empty(&loop->greets))
        return TIME_NEVER;
    int64_t credit_ns = greet_credit(loop, now_ns);
    return credit_ns > 0 ? now_ns : now_ns + (1 - credit_ns) * GREET_PART;
}

/* Does one step, for the newest connection: in a flood the older ones will time out before their turn, and if they were
 * served in order, all would. */
static void greet(struct link_loop *loop, int64_t now_ns) {
    if (greet_at(loop, now_ns) > now_ns)
        return;
    struct peer *peer = list_entry(loop->greets.prev, struct peer, greet);
    list_remove(&peer->greet);
    peer_pause(peer, false);
    peer_ready(peer, EPOLLIN, now_ns);
    int64_t over_ns = clock_now_ns();
    loop->greet_credit_ns = greet_credit(loop, now_ns) - (over_ns - now_ns);
    loop->greet_since_ns = over_ns;
}

/* Waits for sockets and the bell, and passes their events on. */
static void wait_ready(struct link_loop *loop, int64_t until_ns, int64_t now_ns) {
    struct epoll_event events[EVENTS_MAX];
    struct timespec wait = {0}, *limit = &wait;

    int64_t greet_ns = greet_at(loop, now_ns);
    until_ns = time_earlier(time_earlier(greet_ns, rest_end_at(loop, now_ns)), until_ns);
    if (loop->guest)
        until_ns = time_earlier(rest_end_at(loop->guest, now_ns), until_ns);
    doorbell_arm(loop->bell);
    if (any_pending(loop) || stops(loop)) {
        doorbell_cancel(loop->bell);
    } else if (until_ns == TIME_NEVER) {
        limit = NULL;
    } else if (until_ns > now_ns) {
        wait.tv_sec = (until_ns - now_ns) / NS_PER_S;
        wait.tv_nsec = (until_ns - now_ns) % NS_PER_S;
    }
    if (loop->bell->turn && until_ns > now_ns)
        doorbell_lend_out(loop->bell, until_ns);
    int count = epoll_pwait2(loop->epoll_fd, events, EVENTS_MAX, limit, NULL);
    doorbell_take_back(loop->bell);
    now_ns = clock_now_ns();
    for (int i = 0; i < count; i++) {
        void *mark = events[i].data.ptr;
        if (mark_ready(loop, mark) || (loop->guest && mark_ready(loop->guest, mark)))
            continue;
        struct peer *peer = mark;
        uint32_t happened = events[i].events;
        if (!(happened & EPOLLIN) || happened & (EPOLLERR | EPOLLHUP) || !peer_greets(peer) || peer->closed) {
            peer_ready(peer, happened, now_ns);
        } else if (!peer->paused) {
            peer_pause(peer, true);
            list_append(&loop->greets, &peer->greet);
        }
    }
    greet(loop, now_ns);
}

static void flush_some(struct link_loop *loop, bool last) {
    struct list_node flushes; /* peers that want another flush meanwhile are for the next turn */
    list_take(&flushes, &loop->flushes);
    while (!list_empty(&flushes)) {
        struct peer *peer = list_entry(flushes.next, struct peer, flush);
        if (last || !peer->flushed_last) {
            peer_flush(peer); /* removes it from the list */
            continue;
        }
        list_remove(&peer->flush);
        list_append(&loop->flushes, &peer->flush);
    }
}

static void flush_all(struct link_loop *loop) {
    flush_some(loop, false);
    flush_some(loop, true);
}

static int64_t own_turn(struct link_loop *loop, int64_t now_ns, bool lent) {
    struct list_node held; /* peers with frames that wait for the link thread */
    list_init(&held);
    while (!list_empty(&loop->arrivals)) {
        struct peer *peer = list_entry(loop->arrivals.next, struct peer, arrival);
        if (!peer_twin_read(peer, now_ns, lent))
            list_append(&held, &peer->arrival);
    }
    while (!list_empty(&held)) {
        struct peer *peer = list_entry(held.next, struct peer, arrival);
        list_remove(&peer->arrival);
        list_append(&loop->arrivals, &peer->arrival);
    }
    loop->lent = lent;
    int64_t until_ns = loop->ops->turn(loop->owner, now_ns);
    loop->lent = false;
    flush_all(loop);
    return until_ns;
}

/* A turn of each of the thread's loops; more, if they have answered each other. */
static int64_t both_turns(struct link_loop *loop, int64_t now_ns, bool lent) {
    struct link_loop *guest = loop->guest;
    if (!guest)
        return own_turn(loop, now_ns, lent);
    for (int i = 0; i < BOTH_TURNS; i++) {
        int64_t guest_ns = own_turn(guest, now_ns, lent), until_ns = own_turn(loop, now_ns, lent);
        if (list_empty(&guest->arrivals))
            return time_earlier(guest_ns, until_ns);
    }
    return 0;
}

static bool has_own_work(const struct link_loop *loop) {
    return !list_empty(&loop->dead) || !list_empty(&loop->arrivals);
}

/* A turn that another thread takes. Closed peers are freed, guests come and go, and frames about models are read by the
 * link thread only: a frontend's thread that takes this turn would wait for itself to see the models. */
static int64_t lent_turn(void *argument) {
    struct link_loop *loop = argument;
    int64_t until_ns = both_turns(loop, clock_now_ns(), true);
    bool own = has_own_work(loop) || (loop->guest && has_own_work(loop->guest));
    return own || guest_moves(loop) ? INT64_MIN : until_ns;
}

void link_loop_lend(struct link_loop *loop) {
    if (!loop->host)
        doorbell_lend(loop->bell, lent_turn, loop);
}

static void peers_drop(struct link_loop *loop) {
    list_for_each_safe (node, &loop->peers) {
        link_loop_drop(loop, list_entry(node, struct peer, link));
    }
    bury_dead(loop);
}

/* A guest comes, or goes with its peers, some of which are twins of the host's. */
static void guest_move(struct link_loop *loop) {
    struct link_loop *next = loop->guest_next;
    if (next)
        doorbell_lend(loop->bell, lent_turn, loop); /* its producers look only while the thread sleeps */
    if (next && next->local_fd >= 0)
        watch(next->epoll_fd, next->local_fd, EPOLLIN, &next->marks[MARK_LOCAL]);
    if (!next && loop->guest->local_fd >= 0)
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, loop->guest->local_fd, NULL);
    if (!next)
        peers_drop(loop->guest);
    loop->guest = next;
    atomic_store_explicit(&loop->guest_moves, false, memory_order_relaxed); /* the semaphore hands it over */
    sem_post(&loop->guest_moved);
}

void link_loop_turn(struct link_loop *loop, bool sleeps) {
    if (guest_moves(loop))
        guest_move(loop);
    int64_t now_ns = clock_now_ns(), until_ns = both_turns(loop, now_ns, false);
    counter_add(&loop->counts.turns, 1);
    bool buried = bury_dead(loop);
    buried |= loop->guest && bury_dead(loop->guest);
    if (buried || until_ns == 0 || !sleeps)
        until_ns = now_ns;
    wait_ready(loop, until_ns, now_ns);
}

static void *loop_main(void *argument) {
    struct link_loop *loop = argument;

    thread_begin(loop->name, 0, THREAD_PROMPT);
    while (!stops(loop))
        link_loop_turn(loop, true);
    flush_all(loop);
    return NULL;
}

/* Has the thread of `host` take a guest's turns from now on, or none any more. */
static void guest_set(struct link_loop *host, struct link_loop *guest) {
    host->guest_next = guest;
    atomic_store_explicit(&host->guest_moves, true, memory_order_release); /* with guest_moves() */
    doorbell_ring(host->bell);
    while (sem_wait(&host->guest_moved) < 0 && errno == EINTR) {
    }
}

int link_loop_start(struct link_loop *loop, const char *name, struct sy_error *err) {
    loop->name = name;
    if (loop->host) {
        guest_set(loop->host, loop);
        loop->started = true;
        return 0;
    }
    int rc = -pthread_create(&loop->thread, NULL, loop_main, loop);
    if (rc < 0)
        return error_set(err, rc, "cannot start the link's thread: %s", strerror(-rc));
    loop->started = true;
    return 0;
}

int64_t link_loop_cpu_ns(const struct link_loop *loop) {
    return thread_cpu_ns(loop->thread);
}

void link_loop_stop(struct link_loop *loop) {
    if (loop->started && loop->host) {
        guest_set(loop->host, NULL);
        loop->started = false;
    } else if (loop->started) {
        atomic_store_explicit(&loop->stop, true, memory_order_release); /* with stops() */
        doorbell_ring(loop->bell);
        pthread_join(loop->thread, NULL);
        loop->started = false;
    }
    if (!loop->ops)
        return;
    peers_drop(loop);
    names_destroy(loop->names);
    free(loop->arrived);
    if (loop->listen_fd >= 0)
        close(loop->listen_fd);
    if (loop->local_fd >= 0)
        close(loop->local_fd);
    if (loop->epoll_fd >= 0 && !loop->host)
        close(loop->epoll_fd);
    if (!loop->host)
        sem_destroy(&loop->guest_moved);
    loop->ops = NULL;
}
