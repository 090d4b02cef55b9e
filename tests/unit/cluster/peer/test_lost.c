/* test_lost.c - a lost request and its reason go to a peer. */
#include "cluster/peer/lost.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/peer/peer.h"
#include "unit/test.h"

static struct {
    uint32_t count, frames;
    uint64_t handles[2 * WIRE_MANY];
    enum lost_reason reasons[2 * WIRE_MANY];
} got;

static int on_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    (void)peer, (void)err;
    assert_int_equal(frame->kind, FRAME_UNDELIVERED);
    got.frames++;
    for (uint32_t i = 0; i < frame->count; i++, got.count++)
        got.handles[got.count] = lost_read(&((const struct wire_lost *)head)[i], &got.reasons[got.count]);
    return 0;
}

static void on_closed(struct peer *peer, const char *reason) {
    (void)peer;
    fail_msg("%s", reason);
}

static const struct peer_events events = {.frame = on_frame, .closed = on_closed};

TEST(each_comes_with_its_reason) {
    int fds[2], epoll_fd = epoll_create1(0);
    struct peer from, to;
    memset(&got, 0, sizeof(got));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(peer_init(&from, fds[0], false, epoll_fd, &events, NULL), 0);
    assert_int_equal(peer_init(&to, fds[1], false, epoll_fd, &events, NULL), 0);
    peer_welcome(&to);
    for (uint32_t i = 0; i <= WIRE_MANY; i++)
        lost_tell(&from, FRAME_UNDELIVERED, 1000 + i, i % LOST_REASONS);
    peer_flush(&from);
    peer_ready(&to, EPOLLIN, 1);
    assert_int_equal(got.count, WIRE_MANY + 1);
    assert_int_equal(got.frames, 2);
    for (uint32_t i = 0; i <= WIRE_MANY; i++) {
        assert_int_equal(got.handles[i], 1000 + i);
        assert_int_equal(got.reasons[i], i % LOST_REASONS);
    }
    peer_close(&from);
    peer_close(&to);
    peer_free(&from);
    peer_free(&to);
    close(epoll_fd);
}

TEST(a_reason_that_is_not_known_here) {
    const struct wire_lost lost = {.handle = 7, .reason = LOST_REASONS};
    enum lost_reason reason;
    assert_int_equal(lost_read(&lost, &reason), 7);
    assert_int_equal(reason, LOST_UNSAID);
}
