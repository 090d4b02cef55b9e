/* test_grpc_connection.c - how much of a turn one connection may take. The clock of these tests is so fast that every
 * look at it finds the time over: what is parsed between two looks is all that is parsed in a turn. */
#include "unit/test.h"

#include "core/system/clock.h"
#include "unit/front/grpc/grpc_client.h"

#define LIVE   "/inference.GRPCInferenceService/ServerLive"
#define SLICE  2048
#define BLOCK  16384
#define BLOCKS 8

static int set_up(void **state) {
    if (!wiring.requests)
        scheduler_set_up();
    frontend_begin(scheduler_frontend());
    return 0;
}

static int end(void **state) {
    clock_skew.set = false;
    return tear_down(state);
}

static void time_flies(void) {
    clock_skew = (struct clock_skew){.start_ns = clock_now_ns(), .rate = 1e6};
    clock_skew.set = true;
}

static struct grpc_connection *connection_nth(uint32_t n) {
    struct list_node *node = frontend->base.connections.next;
    while (n-- > 0)
        node = node->next;
    return list_entry(node, struct grpc_connection, link);
}

static void put_frame(struct text *out, int type, int flags, uint32_t stream, const void *payload, size_t length) {
    const char head[] = {0, (char)(length >> 8),  (char)length,        (char)type,  (char)flags,
                         0, (char)(stream >> 16), (char)(stream >> 8), (char)stream};
    text_append(out, head, sizeof(head));
    text_append(out, payload, length);
}

/* Sends without a turn. */
static void drop(int fd, struct text *what) {
    assert_int_equal(send(fd, what->data, what->length, MSG_NOSIGNAL), (ssize_t)what->length);
    text_free(what);
}

/* A second client calls while the first one's connection keeps what it was not given time for. Returns how many steps
 * passed until the answer came. */
static int steps_until_answered(int good) {
    struct text nothing = {0};
    time_flies();
    call(good, 1, LIVE, true);
    put_frame(&nothing, DATA, END_STREAM, 1, "\0\0\0\0\0", 5);
    drop(good, &nothing);
    for (int steps = 1;; steps++) {
        uint8_t bytes[512];
        frontend_step(&frontend->base);
        if (recv(good, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
            return steps;
    }
}

/* A header block that names one long field over and over. */
static void put_bomb(struct text *out, uint32_t stream) {
    static char block[BLOCK];
    memset(block, 0xbe, sizeof(block)); /* the newest entry of the table */
    if (stream == 1) {
        memcpy(block, "\x40\1x\x7f\xbd\x1e", 6); /* literal, with indexing: a value of 4028 bytes */
        memset(block + 6, 'y', 4028);
    }
    put_frame(out, HEADERS, END_HEADERS | END_STREAM, stream, block, sizeof(block));
}

TEST_WITH(header_blocks_take_slices_of_turns, set_up, end) {
    struct text bombs = {0};
    int bad = client_connect(), good = client_connect();
    greet(bad);
    greet(good);
    assert_int_equal(recv(good, (uint8_t[512]){0}, 512, MSG_DONTWAIT) > 0, 1);
    for (uint32_t i = 0; i < BLOCKS; i++)
        put_bomb(&bombs, 2 * i + 1);
    drop(bad, &bombs);
    assert_true(steps_until_answered(good) <= 4);
    struct grpc_connection *c = connection_nth(0);
    assert_true(c->kept.length > 0 && c->kept_at <= BLOCKS * SLICE);
    size_t before = c->kept_at;
    frontend_step(&frontend->base);
    assert_int_equal(c->kept_at - before, SLICE);
    while (c->kept.length > 0)
        frontend_step(&frontend->base);
    assert_false(c->closed); /* so many are let pass */
    assert_int_equal(nghttp2_session_get_last_proc_stream_id(c->session), 2 * BLOCKS - 1);
    close(bad);
    close(good);
}

TEST_WITH(what_is_not_looked_at_is_reset, set_up, end) {
    struct text bomb = {0};
    int fd = client_connect();
    greet(fd);
    put_bomb(&bomb, 1);
    drop(fd, &bomb);
    assert_true(came(fd, RST_STREAM, 1));
    call(fd, 3, LIVE, true); /* the table is as the client has it */
    frame(fd, DATA, END_STREAM, 3, "\0\0\0\0\0", 5);
    assert_true(came(fd, HEADERS, 3));
    close(fd);
}

TEST_WITH(who_goes_on_with_large_headers_is_calmed, set_up, end) {
    int fd = client_connect();
    uint32_t bombs = 0;
    bool calmed = false;
    greet(fd);
    while (!calmed && bombs < 64) { /* one more is let pass for each second that a slow machine takes */
        struct text bomb = {0};
        put_bomb(&bomb, 2 * bombs++ + 1);
        drop(fd, &bomb);
        calmed = came(fd, GOAWAY, 0);
    }
    assert_true(calmed && bombs > 16);
    assert_int_equal(counter_get(&frontend->base.counters.dismissed), 1);
    assert_true(list_empty(&frontend->base.connections));
    close(fd);
}

/* Streams end calls by messages that are answered at once. */
TEST_WITH(tiny_messages_take_slices_of_turns, set_up, end) {
    static const uint8_t messages[15000];
    struct text flood = {0};
    int bad = client_connect(), good = client_connect();
    greet(bad);
    greet(good);
    assert_int_equal(recv(good, (uint8_t[512]){0}, 512, MSG_DONTWAIT) > 0, 1);
    call(bad, 1, STREAM, true);
    put_frame(&flood, DATA, 0, 1, messages, sizeof(messages)); /* 3000 messages */
    drop(bad, &flood);
    assert_true(steps_until_answered(good) <= 4);
    struct grpc_call *stream = list_entry(connection_nth(0)->calls.next, struct grpc_call, link);
    assert_true(stream->kept.length > 0);
    close(bad);
    close(good);
}

/* Frames of DATA are parsed whole. */
TEST_WITH(data_is_not_cut_small, set_up, end) {
    static uint8_t data[BLOCK] = {0, 0, 1, 0, 0}; /* of a message of 64 KiB */
    struct text upload = {0};
    int fd = client_connect();
    greet(fd);
    call(fd, 1, STREAM, true);
    time_flies();
    put_frame(&upload, DATA, 0, 1, data, sizeof(data));
    put_frame(&upload, DATA, 0, 1, data, sizeof(data));
    drop(fd, &upload);
    frontend_step(&frontend->base);
    struct grpc_connection *c = connection_nth(0);
    assert_int_equal(c->kept.length, 9 + sizeof(data));
    frontend_step(&frontend->base);
    assert_int_equal(c->kept.length, 0);
    close(fd);
}
