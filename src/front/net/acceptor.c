/* acceptor.c - accept() with limits, and to whom connections are given. */
#include "front/net/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/system/log.h"
#include "core/util/counter.h"
#include "core/util/time.h"
#include "front/bulk/inbox.h"

#define BUSY_LEAST 60 /* percent of the time for which a thread is busy that gives connections to others */

/* A connection on its way from one frontend to another. */
struct given_connection {
    struct push_node link;
    int fd;
    struct peer_address peer;
};

/* ---- the port ---- */

int acceptor_group_init(struct acceptor_group *group, uint32_t connections_max, uint32_t per_address) {
    *group = (struct acceptor_group){.peers = NULL};
    pthread_mutex_init(&group->lock, NULL);
    if (per_address > 0)
        group->peers = peers_create(connections_max + FRONTENDS_MAX * CONNECTIONS_SPARE, 0);
    return per_address > 0 && !group->peers ? -ENOMEM : 0;
}

void acceptor_group_destroy(struct acceptor_group *group) {
    pthread_mutex_destroy(&group->lock);
    peers_destroy(group->peers);
    group->peers = NULL;
}

/* Counts a connection of the port. False: its address has `most` already. */
static bool group_add(struct acceptor_group *group, const struct peer_address *peer, uint32_t most) {
    if (!group || !group->peers)
        return true;
    pthread_mutex_lock(&group->lock);
    bool may = peers_add(group->peers, peer, most);
    pthread_mutex_unlock(&group->lock);
    return may;
}

static void group_remove(struct acceptor_group *group, const struct peer_address *peer) {
    if (!group || !group->peers)
        return;
    pthread_mutex_lock(&group->lock);
    peers_remove(group->peers, peer);
    pthread_mutex_unlock(&group->lock);
}

/* ---- one frontend ---- */

int acceptor_init(struct acceptor *a, int epoll_fd, const struct frontend_config *config, void *mark,
                  struct sy_error *err) {
    *a = (struct acceptor){.epoll_fd = epoll_fd,
                           .fd = -1,
                           .mark = mark,
                           .group = config->group,
                           .alone = !config->group,
                           .connections_max = config->connections_max,
                           .per_address =
                               config->connections_per_address ? config->connections_per_address : UINT32_MAX};
    if (!(a->peers = peers_create(a->connections_max + CONNECTIONS_SPARE, config->requests_max + SLOTS_SPARE)))
        return error_set(err, -ENOMEM, "no memory for a frontend");
    if (config->listen_fd < 0)
        return 0;
    a->fd = fcntl(config->listen_fd, F_DUPFD_CLOEXEC, 0);
    return a->fd < 0 ? error_set(err, -errno, "cannot duplicate the listening socket: %s", strerror(errno)) : 0;
}

void acceptor_destroy(struct acceptor *a) {
    struct peer_address peer;
    for (int fd; (fd = acceptor_given(a, &peer)) >= 0;) {
        close(fd);
        acceptor_ended(a, &peer);
    }
    acceptor_close(a);
    peers_destroy(a->peers);
    a->peers = NULL;
}

void acceptor_join(struct acceptor *a, uint32_t index, struct inbox *inbox, const _Atomic uint32_t *in_flight) {
    a->inbox = inbox;
    a->in_flight = in_flight;
    if (a->group)
        atomic_store_explicit(&a->group->members[index], a, memory_order_release); /* with acceptor_least() */
}

/* Counts a connection that begins here, and that the group has counted already. */
static void begun(struct acceptor *a, const struct peer_address *peer) {
    peers_add(a->peers, peer, UINT32_MAX);
    gauge_add(&a->connections, 1);
}

void acceptor_begun(struct acceptor *a, const struct peer_address *peer) {
    group_add(a->group, peer, UINT32_MAX);
    begun(a, peer);
}

void acceptor_ended(struct acceptor *a, const struct peer_address *peer) {
    group_remove(a->group, peer);
    peers_remove(a->peers, peer);
    gauge_add(&a->connections, -1);
    a->paused_until_ns = 0;
}

/* Connections that the frontend has, or was given. relaxed: gauges */
static uint32_t connections_of(const struct acceptor *a) {
    return acceptor_connections(a) + atomic_load_explicit(&a->given_count, memory_order_relaxed);
}

/* The frontend's load: its connections and its requests under way. */
static uint32_t load_of(const struct acceptor *a) {
    return connections_of(a) +
           (a->in_flight ? atomic_load_explicit(a->in_flight, memory_order_relaxed) : 0); /* a gauge */
}

/* The acceptor that takes the next connection. Of the group's acceptors below connections_max, that is the one with the
 * least load, `a` itself if several have the same. If none is below it, that is `a`, up to CONNECTIONS_SPARE
 * connections more. NULL: no acceptor takes one. */
static struct acceptor *acceptor_least(struct acceptor *a) {
    uint32_t own = connections_of(a);
    struct acceptor *least = own < a->connections_max ? a : NULL;
    for (uint32_t i = 0; !a->alone && i < FRONTENDS_MAX; i++) {
        struct acceptor *other = atomic_load_explicit(&a->group->members[i], memory_order_acquire);
        if (other && connections_of(other) < other->connections_max && (!least || load_of(other) < load_of(least)))
            least = other;
    }
    return least || own >= a->connections_max + CONNECTIONS_SPARE ? least : a;
}

/* Gives a connection to another frontend. False: no memory. */
static bool give(struct acceptor *to, int fd, const struct peer_address *peer) {
    struct given_connection *c = malloc(sizeof(*c));
    if (!c)
        return false;
    *c = (struct given_connection){.fd = fd, .peer = *peer};
    atomic_fetch_add_explicit(&to->given_count, 1, memory_order_relaxed); /* a gauge */
    push_list_push(&to->given, &c->link);
    inbox_wake(to->inbox);
    return true;
}

/* Takes no connection for a moment: the kernel has refused what it takes, which `errno` says. */
static void rest(struct acceptor *a, int64_t now_ns) {
    if (counter_get(&a->paused) == 0)
        log_warn("cannot take a connection", "error=\"%s\" connections=%u", strerror(errno), acceptor_connections(a));
    counter_add(&a->paused, 1);
    a->paused_until_ns = now_ns + ACCEPTOR_PAUSE_MS * NS_PER_MS;
}

int acceptor_next(struct acceptor *a, struct peer_address *peer, int64_t now_ns) {
    struct acceptor *to;
    while (a->fd >= 0 && a->paused_until_ns == 0 && (to = acceptor_least(a))) {
        struct sockaddr_storage address;
        socklen_t bytes = sizeof(address);
        int fd = accept4(a->fd, (struct sockaddr *)&address, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) /* the next one may wait all the same */
            continue;
        if (fd < 0 && errno != EAGAIN) /* else epoll reports the one that waits again and again */
            rest(a, now_ns);
        if (fd < 0)
            return -1; /* no connection waits; epoll reports further ones again */
        *peer = peer_of((struct sockaddr *)&address);
        const struct peer *known = a->group ? NULL : peers_find(a->peers, peer);
        if ((known && known->connections >= a->per_address) || !group_add(a->group, peer, a->per_address)) {
            close(fd);
            continue;
        }
        if (to != a && give(to, fd, peer))
            continue;
        begun(a, peer);
        return fd;
    }
    return -1;
}

struct acceptor *acceptor_idler(struct acceptor *a, uint32_t busy) {
    struct acceptor *least = NULL;
    uint32_t least_busy = busy / 2;
    atomic_store_explicit(&a->busy, busy, memory_order_relaxed); /* a gauge */
    for (uint32_t i = 0; busy >= BUSY_LEAST && !a->alone && i < FRONTENDS_MAX; i++) {
        struct acceptor *other = atomic_load_explicit(&a->group->members[i], memory_order_acquire); /* as above */
        if (!other || other == a || connections_of(other) >= other->connections_max)
            continue;
        /* a thread without connections sleeps, and does not say any more that it is idle */
        uint32_t theirs = connections_of(other) ? atomic_load_explicit(&other->busy, memory_order_relaxed) : 0;
        if (theirs < least_busy) {
            least_busy = theirs;
            least = other;
        }
    }
    return least;
}

void acceptor_move(struct acceptor *a, struct acceptor *to, int fd, const struct peer_address *peer) {
    if (!give(to, fd, peer)) {
        close(fd);
        acceptor_ended(a, peer);
        return;
    }
    peers_remove(a->peers, peer); /* the group still counts it */
    gauge_add(&a->connections, -1);
    a->paused_until_ns = 0;
}

int acceptor_given(struct acceptor *a, struct peer_address *peer) {
    if (!a->taken)
        a->taken = push_list_take(&a->given);
    if (!a->taken)
        return -1;
    struct given_connection *c = push_list_entry(a->taken, struct given_connection, link);
    int fd = c->fd;
    *peer = c->peer;
    a->taken = c->link.next;
    free(c);
    begun(a, peer);
    atomic_fetch_sub_explicit(&a->given_count, 1, memory_order_relaxed); /* a gauge */
    return fd;
}

void acceptor_keep(struct acceptor *a) {
    a->alone = true;
}

void acceptor_look(struct acceptor *a, int64_t now_ns) {
    if (a->paused_until_ns > 0 && now_ns >= a->paused_until_ns)
        a->paused_until_ns = 0;
    bool wanted =
        a->fd >= 0 && a->paused_until_ns == 0 && (acceptor_connections(a) < a->connections_max || acceptor_least(a));
    if (wanted == a->watched)
        return;
    /* exclusive: a connection wakes one of the threads that share the socket */
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = a->mark};
    if (epoll_ctl(a->epoll_fd, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, a->fd, &event) < 0)
        rest(a, now_ns);
    else
        a->watched = wanted;
}

void acceptor_close(struct acceptor *a) {
    if (a->fd < 0)
        return;
    if (a->watched)
        epoll_ctl(a->epoll_fd, EPOLL_CTL_DEL, a->fd, NULL);
    close(a->fd);
    a->fd = -1;
    a->watched = false;
}
