/* acceptor.c - accept() with limits. */
#include "net/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/log.h"
#include "base/time.h"

/* relaxed: who reads a number that is a moment old accepts a connection a moment later, or one more */
static void room_look(struct acceptor *a) {
    bool has_room = acceptor_connections(a) < a->connections_max;
    if (a->with_room && has_room != a->has_room)
        atomic_fetch_add_explicit(a->with_room, has_room ? 1 : UINT32_MAX, memory_order_relaxed);
    a->has_room = has_room;
}

/* Whether one more connection may be accepted. */
static bool may_accept(const struct acceptor *a) {
    uint32_t others = a->with_room ? atomic_load_explicit(a->with_room, memory_order_relaxed) : 0;
    return a->fd >= 0 && a->paused_until_ns == 0 &&
           acceptor_connections(a) < a->connections_max + (others == 0 ? CONNECTIONS_SPARE : 0);
}

int acceptor_init(struct acceptor *a, int epoll_fd, const struct frontend_config *config, void *mark,
                  struct sy_error *err) {
    *a = (struct acceptor){.epoll_fd = epoll_fd,
                           .fd = -1,
                           .mark = mark,
                           .connections_max = config->connections_max,
                           .with_room = config->with_room,
                           .per_address =
                               config->connections_per_address ? config->connections_per_address : UINT32_MAX};
    if (!(a->peers = peers_create(a->connections_max + CONNECTIONS_SPARE, config->requests_max + SLOTS_SPARE)))
        return error_set(err, -ENOMEM, "no memory for a frontend");
    room_look(a);
    if (config->listen_fd < 0)
        return 0;
    a->fd = fcntl(config->listen_fd, F_DUPFD_CLOEXEC, 0);
    return a->fd < 0 ? error_set(err, -errno, "cannot duplicate the listening socket: %s", strerror(errno)) : 0;
}

void acceptor_destroy(struct acceptor *a) {
    acceptor_close(a);
    if (a->with_room && a->has_room)
        atomic_fetch_sub_explicit(a->with_room, 1, memory_order_relaxed); /* as room_look() */
    peers_destroy(a->peers);
}

void acceptor_begun(struct acceptor *a, const struct peer_address *peer) {
    peers_add(a->peers, peer, UINT32_MAX);
    gauge_add(&a->connections, 1);
    room_look(a);
}

void acceptor_ended(struct acceptor *a, const struct peer_address *peer) {
    peers_remove(a->peers, peer);
    gauge_add(&a->connections, -1);
    room_look(a);
    a->paused_until_ns = 0;
}

static void hold_off(struct acceptor *a, int64_t now_ns) {
    if (counter_get(&a->paused) == 0)
        log_warn("cannot take a connection", "error=\"%s\" connections=%u", strerror(errno), acceptor_connections(a));
    counter_add(&a->paused, 1);
    a->paused_until_ns = now_ns + ACCEPTOR_PAUSE_MS * NS_PER_MS;
}

int acceptor_next(struct acceptor *a, struct peer_address *peer, int64_t now_ns) {
    while (may_accept(a)) {
        struct sockaddr_storage address;
        socklen_t bytes = sizeof(address);
        int fd = accept4(a->fd, (struct sockaddr *)&address, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
            hold_off(a, now_ns);
        if (fd < 0)
            return -1; /* none waits, or its client has left already; epoll tells of others again */
        *peer = peer_of((struct sockaddr *)&address);
        if (!peers_add(a->peers, peer, a->per_address)) {
            close(fd);
            continue;
        }
        gauge_add(&a->connections, 1);
        room_look(a);
        return fd;
    }
    return -1;
}

void acceptor_look(struct acceptor *a, int64_t now_ns) {
    if (a->paused_until_ns > 0 && now_ns >= a->paused_until_ns)
        a->paused_until_ns = 0;
    bool wanted = may_accept(a);
    if (wanted == a->watched)
        return;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = a->mark};
    epoll_ctl(a->epoll_fd, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, a->fd, &event);
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
