/* test_peer.c - frames over a socket pair: whole or a byte at a time, with bodies, descriptors, and a sudden end. */
#include "cluster/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/cmocka_all.h"

#define BODY_BYTES ((size_t)3 << 20) /* more than a socket takes at once */

struct rig {
    int epoll_fd, fds[2];
    struct peer a, b;
    uint32_t frames, kinds[64], counts[64];
    uint64_t heads[64]; /* their first word */
    char body[BODY_BYTES];
    uint32_t bodies, closes, sent;
    bool throw_away, refuse;
};

static int on_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
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

static uint32_t on_body(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]) {
    struct rig *rig = peer->owner;
    if (rig->throw_away)
        return 0;
    size_t third = frame->body_bytes / 3;
    pieces[0] = (struct iovec){rig->body, third};
    pieces[1] = (struct iovec){rig->body + third, 0};
    pieces[2] = (struct iovec){rig->body + third, frame->body_bytes - third};
    return 3;
}

static void on_body_over(struct peer *peer) {
    ((struct rig *)peer->owner)->bodies++;
}

static void on_closed(struct peer *peer, const char *reason) {
    assert_true(*reason);
    ((struct rig *)peer->owner)->closes++;
}

static const struct peer_events events = {on_frame, on_body, on_body_over, on_closed};

static void on_sent(void *context, uint64_t tag) {
    struct rig *rig = context;
    assert_int_equal(tag, 17);
    rig->sent++;
}

static struct rig *rig_make(void) {
    struct rig *rig = calloc(1, sizeof(*rig));
    rig->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, rig->fds), 0);
    assert_int_equal(peer_init(&rig->a, rig->fds[0], false, rig->epoll_fd, &events, rig), 0);
    assert_int_equal(peer_init(&rig->b, rig->fds[1], false, rig->epoll_fd, &events, rig), 0);
    return rig;
}

static void rig_free(struct rig *rig) {
    peer_close(&rig->a);
    peer_close(&rig->b);
    peer_free(&rig->a);
    peer_free(&rig->b);
    close(rig->epoll_fd);
    free(rig);
}

/* Until nothing moves any more. */
static void run(struct rig *rig) {
    for (int i = 0; i < 200; i++) {
        peer_flush(&rig->a);
        peer_ready(&rig->b, EPOLLIN, i);
        peer_flush(&rig->b);
        peer_ready(&rig->a, EPOLLIN, i);
    }
}

static void send_ping(struct peer *peer, int64_t sent_ns) {
    struct wire_ping ping = {.sent_ns = sent_ns};
    peer_send(peer, FRAME_PING, 1, &ping, sizeof(ping));
}

static void frames_come_as_they_went(void **state) {
    (void)state;
    struct rig *rig = rig_make();
    send_ping(&rig->a, 5);
    for (uint64_t i = 0; i < 5; i++)
        *(uint64_t *)peer_frame_more(&rig->a, FRAME_PULL, sizeof(i), 3) = 100 + i; /* frames of three and of two */
    peer_send(&rig->a, FRAME_REFUSED, 1, "why", 3);
    *(uint64_t *)peer_frame_more(&rig->a, FRAME_PULL, 8, 3) = 200;
    peer_send(&rig->a, FRAME_BYE, 0, NULL, 0);
    assert_int_equal(rig->frames, 0);
    run(rig);
    static const uint32_t kinds[] = {FRAME_PING, FRAME_PULL, FRAME_PULL, FRAME_REFUSED, FRAME_PULL, FRAME_BYE};
    static const uint32_t counts[] = {1, 3, 2, 1, 1, 0};
    assert_int_equal(rig->frames, ARRAY_COUNT(kinds));
    for (uint32_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        assert_int_equal(rig->kinds[i], kinds[i]);
        assert_int_equal(rig->counts[i], counts[i]);
    }
    assert_int_equal(rig->heads[1], 100);
    assert_int_equal(rig->heads[2], 103);
    assert_int_equal(peer_unsent(&rig->a), 0);
    rig_free(rig);
}

/* A body that is not copied, and one that is, between frames. */
static void send_result(struct rig *rig, const char *body, size_t bytes) {
    struct wire_result *head = peer_frame(&rig->a, FRAME_RESULT, 1, sizeof(*head) + sizeof(struct wire_tensor), bytes);
    *head = (struct wire_result){.tensor_count = 1};
    *(struct wire_tensor *)(head + 1) = (struct wire_tensor){.bytes = bytes, .rank = 1, .dims = {(int64_t)bytes}};
    peer_body(&rig->a, body, bytes, on_sent, rig, 17);
}

static void bodies_lie_where_they_are_wanted(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 7, 4096, 4097, 100001, BODY_BYTES};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct rig *rig = rig_make();
        char *body = malloc(sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++)
            body[k] = (char)(k * 31 + k / 251);
        send_ping(&rig->a, 1);
        send_result(rig, body, sizes[i]);
        send_ping(&rig->a, 2);
        run(rig);
        assert_int_equal(rig->frames, 3);
        assert_int_equal(rig->bodies, 1);
        assert_int_equal(rig->sent, 1);
        assert_int_equal(rig->heads[2], 2);
        assert_memory_equal(rig->body, body, sizes[i]);
        rig->throw_away = true;
        send_result(rig, body, sizes[i]);
        send_ping(&rig->a, 3);
        run(rig);
        assert_int_equal(rig->frames, 5);
        assert_int_equal(rig->bodies, 2);
        free(body);
        rig_free(rig);
    }
}

/* What one end wrote reaches the other a byte at a time. */
static void frames_may_come_in_pieces(void **state) {
    (void)state;
    struct rig *rig = rig_make(), *slow = rig_make();
    send_ping(&rig->a, 1);
    send_result(rig, "0123456789", 10);
    send_ping(&rig->a, 2);
    peer_flush(&rig->a);
    char byte;
    while (recv(rig->fds[1], &byte, 1, MSG_DONTWAIT) == 1) {
        assert_int_equal(send(slow->fds[0], &byte, 1, 0), 1);
        peer_ready(&slow->b, EPOLLIN, 0);
    }
    assert_int_equal(slow->frames, 3);
    assert_int_equal(slow->heads[2], 2);
    assert_memory_equal(slow->body, "0123456789", 10);
    assert_int_equal(slow->closes, 0);
    rig_free(rig);
    rig_free(slow);
}

static void nonsense_ends_the_connection(void **state) {
    (void)state;
    struct rig *rig = rig_make();
    assert_int_equal(send(rig->fds[0], "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
    peer_ready(&rig->b, EPOLLIN, 0);
    assert_int_equal(rig->closes, 1);
    assert_int_equal(rig->frames, 0);
    peer_ready(&rig->b, EPOLLIN, 0); /* nothing more is told of it */
    assert_int_equal(rig->closes, 1);
    rig_free(rig);
    rig = rig_make();
    rig->refuse = true;
    send_ping(&rig->a, 1);
    run(rig);
    assert_true(rig->b.closed);
    rig_free(rig);
}

/* Bodies that will never be sent are told of, too: once. */
static void an_end_gives_bodies_back(void **state) {
    (void)state;
    struct rig *rig = rig_make();
    char *body = calloc(1, BODY_BYTES);
    send_result(rig, body, BODY_BYTES);
    send_result(rig, body, BODY_BYTES);
    peer_flush(&rig->a);
    assert_int_equal(rig->sent, 0);
    assert_true(peer_unsent(&rig->a) > BODY_BYTES);
    peer_close(&rig->a);
    assert_int_equal(rig->sent, 2);
    peer_close(&rig->a);
    assert_int_equal(rig->sent, 2);
    assert_null(peer_frame(&rig->a, FRAME_BYE, 0, 0, 0));
    peer_body(&rig->a, body, BODY_BYTES, on_sent, rig, 17);
    assert_int_equal(rig->sent, 3);
    run(rig);
    assert_int_equal(rig->closes, 1); /* the other end sees it */
    free(body);
    rig_free(rig);
}

static void descriptors_come_with_their_frame(void **state) {
    (void)state;
    struct rig *rig = rig_make();
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    struct wire_region regions[2] = {{.bytes = 1}, {.bytes = 2}};
    send_ping(&rig->a, 1);
    assert_int_equal(peer_send_fds(&rig->a, FRAME_REGIONS, 2, regions, sizeof(regions), pipe_fds, 2), 0);
    run(rig);
    assert_int_equal(rig->frames, 2);
    assert_int_equal(rig->b.fd_count, 2);
    assert_int_equal(write(rig->b.fds[1], "x", 1), 1);
    char byte = 0;
    assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    rig_free(rig); /* closes those that nobody took */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_as_they_went),  cmocka_unit_test(bodies_lie_where_they_are_wanted),
        cmocka_unit_test(frames_may_come_in_pieces), cmocka_unit_test(nonsense_ends_the_connection),
        cmocka_unit_test(an_end_gives_bodies_back),  cmocka_unit_test(descriptors_come_with_their_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
