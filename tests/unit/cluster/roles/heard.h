/* heard.h - a peer whose frames a test reads from the other end, as they were sent. */
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/peer/peer.h"
#include "cluster/peer/wire.h"
#include "unit/test.h"

struct heard {
    struct peer *peer;
    int epoll_fd, fd;
    size_t filled, taken;
    _Alignas(8) char bytes[8192];
};

static inline void heard_begin(struct heard *h, struct peer *peer) {
    static const struct peer_events none = {.frame = NULL, .body = NULL, .body_over = NULL, .closed = NULL};
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    *h = (struct heard){.peer = peer, .epoll_fd = epoll_create1(0), .fd = fds[1], .filled = 0};
    assert_int_equal(peer_init(peer, fds[0], false, h->epoll_fd, &none, NULL), 0);
}

/* The next frame's head, with its body behind it; the frame must be of this kind. NULL: nothing more was sent. */
static inline const void *heard_next(struct heard *h, enum frame_kind kind, struct frame *frame) {
    peer_flush(h->peer);
    ssize_t got = recv(h->fd, h->bytes + h->filled, sizeof(h->bytes) - h->filled, MSG_DONTWAIT);
    h->filled += got > 0 ? (size_t)got : 0;
    *frame = (struct frame){.head_bytes = 0};
    if (h->taken == h->filled)
        return NULL;
    memcpy(frame, h->bytes + h->taken, sizeof(*frame));
    assert_int_equal(frame->kind, kind);
    const void *head = h->bytes + h->taken + sizeof(*frame);
    h->taken += sizeof(*frame) + (frame->head_bytes + 7) / 8 * 8 + frame->body_bytes;
    assert_true(h->taken <= h->filled);
    return head;
}

static inline void heard_end(struct heard *h) {
    peer_close(h->peer);
    peer_free(h->peer);
    close(h->fd);
    close(h->epoll_fd);
}
