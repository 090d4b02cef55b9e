/* peer_rig.h - two peers at the ends of a socket pair, and what they tell of. For the tests of peers. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/peer/peer.h"
#include "cluster/peer/peer_tls.h"
#include "unit/test.h"

#define BODY_BYTES ((size_t)20 << 20) /* more than a socket takes at once, or a turn moves */

struct rig {
    int epoll_fd, fds[2];
    struct peer a, b;
    uint32_t frames, kinds[64], counts[64];
    uint64_t heads[64]; /* their first word */
    char body[BODY_BYTES];
    uint32_t bodies, closes, sent;
    bool throw_away, refuse;
    char reason[512]; /* of the last close */
    char arrived[PEER_TLS_BYTES];
};

/* Bytes of which a few that are moved or lost would be seen; on the heap. */
static inline char *body_make(size_t bytes) {
    char *body = malloc(bytes);
    for (size_t k = 0; k < bytes; k++)
        body[k] = (char)(k * 31 + k / 251);
    return body;
}

static inline int on_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct rig *rig = peer->owner;
    if (rig->refuse)
        return error_set(err, -EPROTO, "not wanted");
    assert_int_equal((uintptr_t)head % 8, 0);
    rig->kinds[rig->frames] = frame->kind;
    rig->counts[rig->frames] = frame->count;
    if (frame->head_bytes >= 8)
        memcpy(&rig->heads[rig->frames], head, 8);
    rig->frames++;
    return 0;
}

static inline uint32_t on_body(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]) {
    struct rig *rig = peer->owner;
    if (rig->throw_away)
        return 0;
    size_t third = frame->body_bytes / 3;
    pieces[0] = (struct iovec){rig->body, third};
    pieces[1] = (struct iovec){rig->body + third, 0};
    pieces[2] = (struct iovec){rig->body + third, frame->body_bytes - third};
    return 3;
}

static inline void on_body_over(struct peer *peer) {
    ((struct rig *)peer->owner)->bodies++;
}

static inline void on_closed(struct peer *peer, const char *reason) {
    struct rig *rig = peer->owner;
    assert_true(*reason);
    rig->closes++;
    snprintf(rig->reason, sizeof(rig->reason), "%s", reason);
}

static const struct peer_events events = {on_frame, on_body, on_body_over, on_closed};

static inline void on_sent(void *context, uint64_t tag) {
    struct rig *rig = context;
    assert_int_equal(tag, 17);
    rig->sent++;
}

static inline void rig_peer(struct rig *rig, struct peer *peer, int fd, bool connecting, struct tls *tls) {
    assert_int_equal(peer_init(peer, fd, connecting, rig->epoll_fd, &events, rig), 0);
    if (tls)
        assert_int_equal(peer_secure(peer, tls, rig->arrived), 0);
    if (connecting)
        peer_ready(peer, EPOLLOUT, 0);
}

/* Two peers that are connected; over TLS the first is the client. */
static inline struct rig *rig_make(struct tls *tls) {
    struct rig *rig = calloc(1, sizeof(*rig));
    rig->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, rig->fds), 0);
    rig_peer(rig, &rig->a, rig->fds[0], true, tls);
    rig_peer(rig, &rig->b, rig->fds[1], false, tls);
    return rig;
}

static inline void rig_free(struct rig *rig) {
    peer_close(&rig->a);
    peer_close(&rig->b);
    peer_free(&rig->a);
    peer_free(&rig->b);
    close(rig->epoll_fd);
    free(rig);
}

/* Until nothing moves any more. */
static inline void run(struct rig *rig) {
    for (int i = 0; i < 2000; i++) {
        peer_flush(&rig->a);
        peer_ready(&rig->b, EPOLLIN, i);
        peer_flush(&rig->b);
        peer_ready(&rig->a, EPOLLIN, i);
    }
}

static inline void send_ping(struct peer *peer, int64_t sent_ns) {
    struct wire_ping ping = {.sent_ns = sent_ns};
    peer_send(peer, FRAME_PING, 1, &ping, sizeof(ping));
}

/* A body that is not copied, and one that is, between frames. */
static inline void send_result(struct rig *rig, const char *body, size_t bytes) {
    struct wire_result *head = peer_frame(&rig->a, FRAME_RESULT, 1, sizeof(*head) + sizeof(struct wire_tensor), bytes);
    *head = (struct wire_result){.tensor_count = 1};
    *(struct wire_tensor *)(head + 1) = (struct wire_tensor){.bytes = bytes, .dim_count = 1, .dims = {(int64_t)bytes}};
    peer_body(&rig->a, body, bytes, on_sent, rig, 17);
}
