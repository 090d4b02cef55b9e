/* test_peer.c - frames over a socket pair: whole or a byte at a time, with bodies, descriptors, and a sudden end. */
#include "unit/cluster/peer/peer_rig.h"

TEST(frames_come_as_they_went) {
    struct rig *rig = rig_make(NULL);
    send_ping(&rig->a, 5);
    for (uint64_t handle = 100; handle < 102 + WIRE_MANY; handle++) /* frames of WIRE_MANY and of two */
        assert_true(peer_add(&rig->a, FRAME_PULL, &handle, sizeof(handle)));
    peer_send(&rig->a, FRAME_REFUSED, 1, "why", 3);
    *(uint64_t *)peer_frame_more(&rig->a, FRAME_PULL, 8) = 200;
    peer_send(&rig->a, FRAME_BYE, 0, NULL, 0);
    assert_int_equal(rig->frames, 0);
    run(rig);
    static const uint32_t kinds[] = {FRAME_PING, FRAME_PULL, FRAME_PULL, FRAME_REFUSED, FRAME_PULL, FRAME_BYE};
    static const uint32_t counts[] = {1, WIRE_MANY, 2, 1, 1, 0};
    assert_int_equal(rig->frames, ARRAY_COUNT(kinds));
    for (uint32_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        assert_int_equal(rig->kinds[i], kinds[i]);
        assert_int_equal(rig->counts[i], counts[i]);
    }
    assert_int_equal(rig->heads[1], 100);
    assert_int_equal(rig->heads[2], 100 + WIRE_MANY);
    assert_int_equal(peer_unsent(&rig->a), 0);
    rig_free(rig);
}

TEST(bodies_lie_where_they_are_wanted) {
    static const size_t sizes[] = {1, 7, 4096, 4097, 100001, BODY_BYTES};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct rig *rig = rig_make(NULL);
        char *body = body_make(sizes[i]);
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
TEST(frames_may_come_in_pieces) {
    struct rig *rig = rig_make(NULL), *slow = rig_make(NULL);
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

TEST(nonsense_ends_the_connection) {
    struct rig *rig = rig_make(NULL);
    assert_int_equal(send(rig->fds[0], "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
    peer_ready(&rig->b, EPOLLIN, 0);
    assert_int_equal(rig->closes, 1);
    assert_int_equal(rig->frames, 0);
    peer_ready(&rig->b, EPOLLIN, 0); /* nothing more is told of it */
    assert_int_equal(rig->closes, 1);
    rig_free(rig);
    rig = rig_make(NULL);
    rig->refuse = true;
    send_ping(&rig->a, 1);
    run(rig);
    assert_true(rig->b.closed);
    rig_free(rig);
}

/* Bodies that will never be sent are told of, too: once. */
/* Flushes and reads twins until nothing moves any more; what one turn moves is bounded by the buffers. */
static uint32_t run_twins(struct rig *rig, struct list_node *arrivals) {
    uint32_t turns = 0;
    for (; rig->a.flush_wanted || rig->b.flush_wanted || !list_empty(arrivals); turns++) {
        peer_flush(&rig->a);
        peer_flush(&rig->b);
        while (!list_empty(arrivals))
            peer_twin_read(list_entry(arrivals->next, struct peer, arrival), turns + 1, false);
    }
    return turns;
}

/* Frames, bodies and heads that are longer than the buffers pass between two peers of a thread, and nothing of them by
 * the sockets; the end of one is heard by the other. */
TEST(twins_need_no_socket) {
    struct rig *rig = rig_make(NULL);
    struct list_node arrivals;
    list_init(&arrivals);
    rig->a.arrivals = rig->b.arrivals = &arrivals;
    peer_twins(&rig->a, &rig->b);
    peer_welcome(&rig->b);
    char *body = body_make(BODY_BYTES), left;
    send_ping(&rig->a, 5);
    send_result(rig, body, BODY_BYTES);
    peer_send(&rig->a, FRAME_HELLO, 1, body, WIRE_HEAD_MAX - 8);
    send_ping(&rig->a, 6);
    assert_in_range(run_twins(rig, &arrivals), 2, 1000);
    assert_int_equal(rig->frames, 4);
    assert_int_equal(rig->bodies, 1);
    assert_int_equal(rig->sent, 1);
    assert_memory_equal(rig->body, body, BODY_BYTES);
    assert_int_equal(rig->heads[0], 5);
    assert_int_equal(rig->heads[3], 6);
    assert_int_not_equal(rig->b.heard_ns, 0);
    send_ping(&rig->b, 7);
    assert_int_equal(run_twins(rig, &arrivals), 1);
    assert_int_equal(rig->heads[4], 7);
    assert_int_equal(recv(rig->fds[0], &left, 1, MSG_DONTWAIT | MSG_PEEK), -1);
    assert_int_equal(recv(rig->fds[1], &left, 1, MSG_DONTWAIT | MSG_PEEK), -1);
    send_ping(&rig->a, 8); /* is still read when the other end has closed */
    peer_flush(&rig->a);
    peer_close(&rig->a);
    assert_int_equal(run_twins(rig, &arrivals), 1);
    assert_int_equal(rig->heads[5], 8);
    peer_ready(&rig->b, EPOLLIN | EPOLLHUP, 9);
    assert_int_equal(rig->closes, 1);
    free(body);
    rig_free(rig);
}

TEST(an_end_gives_bodies_back) {
    struct rig *rig = rig_make(NULL);
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

TEST(descriptors_come_with_their_frame) {
    struct rig *rig = rig_make(NULL);
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    struct wire_region regions[2] = {{.bytes = 1}, {.bytes = 2}};
    send_ping(&rig->a, 1);
    peer_send_fds(&rig->a, FRAME_REGIONS, 2, regions, sizeof(regions), pipe_fds, 2);
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

/* The other end would wait for them for ever. */
TEST(a_full_socket_that_takes_no_descriptors_is_closed) {
    struct rig *rig = rig_make(NULL);
    struct wire_region region = {.bytes = 1};
    char *body = body_make(BODY_BYTES);
    send_result(rig, body, BODY_BYTES);
    peer_send_fds(&rig->a, FRAME_REGIONS, 1, &region, sizeof(region), rig->fds, 1);
    run(rig);
    assert_true(rig->a.closed && rig->b.closed);
    assert_int_equal(rig->b.fd_count, 0);
    free(body);
    rig_free(rig);
}

/* However much the socket takes and has: others get their turn. */
TEST(a_turn_moves_so_much_and_no_more) {
    const uint64_t most = 17 << 20;
    struct rig *rig = rig_make(NULL);
    char *body = body_make(BODY_BYTES);
    int room = 4 * BODY_BYTES;
    if (setsockopt(rig->fds[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0) {
        free(body);
        rig_free(rig);
        skip(); /* only root may have such a socket */
    }
    send_result(rig, body, BODY_BYTES);
    for (uint64_t before = 0; rig->sent == 0; before = rig->a.bytes_out) {
        peer_flush(&rig->a);
        assert_in_range(rig->a.bytes_out - before, 1, most);
    }
    for (uint64_t before = 0; rig->bodies == 0; before = rig->b.bytes_in) {
        peer_ready(&rig->b, EPOLLIN, 0);
        assert_in_range(rig->b.bytes_in - before, 1, most);
    }
    assert_memory_equal(rig->body, body, BODY_BYTES);
    free(body);
    rig_free(rig);
}
