/* test_grpc_sweep.c - connections and calls over gRPC that take too long: a real frontend, stepped by hand, over a pair
 * of sockets, whose clock is set ahead before it sweeps: by seconds, so that a slow machine makes no difference. */
#include "unit/test.h"

#include "core/system/clock.h"
#include "unit/front/grpc/grpc_client.h"

#define CONNECTIONS_MAX 16
#define HEAD_S          15
#define IDLE_S          60
#define RATE_MIN        1024

static int64_t second_ns; /* of second_passes() */

static int set_up(void **state) {
    if (!wiring.requests)
        scheduler_set_up();
    struct frontend_config config = scheduler_frontend();
    config.connections_max = CONNECTIONS_MAX;
    config.idle_timeout_s = IDLE_S;
    config.head_timeout_s = HEAD_S;
    config.rate_min = RATE_MIN;
    frontend_begin(config);
    second_ns = clock_now_ns();
    return 0;
}

static uint32_t connections(void) {
    return acceptor_connections(&frontend->base.acceptor);
}

static uint64_t dismissed(void) {
    return counter_get(&frontend->base.counters.dismissed);
}

/* Sweeps so many seconds after the time of the last turn. */
static void sweep(double seconds) {
    frontend->base.turn_ns += (int64_t)(seconds * (double)NS_PER_S);
    connections_sweep(&frontend->base);
}

/* Another second is over, whatever turns have set the time. */
static void second_passes(void) {
    frontend->base.turn_ns = second_ns += NS_PER_S;
    unsent_look(&frontend->base.unsent);
    connections_sweep(&frontend->base);
}

/* Of the first connection. */
static struct grpc_call *call_nth(int n) {
    struct grpc_connection *c = list_entry(frontend->base.connections.next, struct grpc_connection, link);
    struct list_node *node = c->calls.next;
    while (n-- > 0)
        node = node->next;
    return list_entry(node, struct grpc_call, link);
}

static struct grpc_call *call_first(void) {
    return call_nth(0);
}

/* ---- tests ---- */

/* The connection is kept for a while, and then closed. */
static void expect_dismissed(int fd) {
    sweep(HEAD_S / 2);
    assert_int_equal(connections(), 1);
    sweep(2 * HEAD_S);
    assert_int_equal(connections(), 0);
    assert_int_equal(dismissed(), 1);
    close(fd);
}

TEST_WITH(who_never_begins_is_closed, set_up, tear_down) {
    int fd = client_connect();
    expect_dismissed(fd);
}

TEST_WITH(who_is_idle_is_told_and_ended, set_up, tear_down) {
    int fd = client_connect();
    greet(fd);
    sweep(IDLE_S / 2);
    assert_false(came(fd, GOAWAY, 0));
    sweep(2 * IDLE_S);
    assert_int_equal(dismissed(), 1);
    assert_true(came(fd, GOAWAY, 0));
    assert_int_equal(connections(), 0);
    close(fd);
}

TEST_WITH(half_of_a_calls_headers_end_the_connection, set_up, tear_down) {
    int fd = client_connect();
    greet(fd);
    call(fd, 1, INFER, false);
    expect_dismissed(fd);
}

TEST_WITH(a_unary_call_without_its_message_fails, set_up, tear_down) {
    int fd = client_connect();
    greet(fd);
    call(fd, 1, INFER, true);
    sweep(HEAD_S / 2);
    assert_int_equal(call_first()->status, 200);
    sweep(2 * HEAD_S);
    assert_int_equal(call_first()->status, 408);
    assert_true(came(fd, HEADERS, 1)); /* DEADLINE_EXCEEDED */
    assert_int_equal(connections(), 1);
    close(fd);
}

TEST_WITH(a_message_is_late_by_its_bytes, set_up, tear_down) {
    /* a tenth of a second's worth of a message of 10 KiB, whose first field is a long id */
    static const uint8_t begun[5 + RATE_MIN / 10] = {0, 0, 0, 0x28, 0, 0x1a, 0xfd, 0x4f};
    for (int streaming = 0; streaming < 2; streaming++) {
        int fd = client_connect();
        greet(fd);
        call(fd, 1, streaming ? STREAM : INFER, true);
        frame(fd, DATA, 0, 1, begun, sizeof(begun));
        sweep(HEAD_S / 2);
        assert_int_equal(call_first()->status, 200);
        sweep(2 * HEAD_S);
        assert_int_equal(call_first()->status, 408);
        close(fd);
        step();
    }
}

TEST_WITH(a_stream_may_be_silent_unless_there_are_too_many, set_up, tear_down) {
    int fd = client_connect();
    greet(fd);
    for (int stream = 1; stream <= 5; stream += 2)
        call(fd, stream, STREAM, true);
    for (int i = 0; i < 5; i++)
        sweep(100 * HEAD_S);
    assert_int_equal(call_first()->status, 200);
    uint32_t open = frontend->open_calls;
    frontend->open_calls = frontend->call_count - frontend->call_count / 8 + 2; /* as if */
    sweep(0);
    sweep(0); /* those that end already count */
    frontend->open_calls = open;
    assert_int_equal(call_nth(0)->status, 503);
    assert_int_equal(call_nth(1)->status, 503);
    assert_int_equal(call_nth(2)->status, 200);
    assert_true(came(fd, HEADERS, 1));
    close(fd);
}

TEST_WITH(an_answer_that_nobody_takes_is_reset, set_up, tear_down) {
    int fd = client_connect();
    say(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    frame(fd, SETTINGS, 0, 0, "\0\4\0\0\0\0", 6); /* a window of nothing */
    call(fd, 1, "/inference.GRPCInferenceService/ServerLive", true);
    frame(fd, DATA, END_STREAM, 1, "\0\0\0\0\0", 5);
    struct grpc_exchange *x = list_entry(call_first()->exchanges.next, struct grpc_exchange, link);
    assert_true(x->answered);
    sweep(HEAD_S / 2);
    assert_false(came(fd, RST_STREAM, 1));
    sweep(2 * HEAD_S);
    assert_true(came(fd, RST_STREAM, 1));
    close(fd);
}

#define LIVE         "/inference.GRPCInferenceService/ServerLive"
#define LIVE_BYTES   7 /* of its answer */
#define REFLECTION   "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define SERVICE      "inference.GRPCInferenceService" /* a file of 10 KiB has it */
#define WINDOW_BYTES 65535                            /* of a connection, if nobody says otherwise */

/* A client that takes so many bytes of a call. */
static int client_with_window(uint32_t bytes) {
    const uint8_t setting[] = {
        0, 4, (uint8_t)(bytes >> 24), (uint8_t)(bytes >> 16), (uint8_t)(bytes >> 8), (uint8_t)bytes};
    int fd = client_connect();
    say(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    frame(fd, SETTINGS, 0, 0, setting, sizeof(setting));
    return fd;
}

static void ask_whether_live(int fd, int stream) {
    call(fd, stream, LIVE, true);
    frame(fd, DATA, END_STREAM, stream, "\0\0\0\0\0", 5);
}

/* Its client goes on with others, and takes little of them, too. */
TEST_WITH(a_call_whose_window_is_closed_is_reset_alone, set_up, tear_down) {
    int fd = client_with_window(0), stream = 3;
    bool reset = false;
    ask_whether_live(fd, 1);
    for (int second = 0; second <= 2 * HEAD_S && !reset; second++, stream += 2) {
        ask_whether_live(fd, stream);
        frame(fd, WINDOW_UPDATE, 0, stream, "\0\0\0\7", 4);
        assert_int_equal(call_first()->stream, 1);
        second_passes();
        reset = came(fd, RST_STREAM, 1);
    }
    assert_true(reset);
    assert_int_equal(connections(), 1);
    close(fd);
}

TEST_WITH(a_connection_whose_window_is_closed_ends, set_up, tear_down) {
    int fd = client_with_window(INT32_MAX);
    struct grpc_connection *c = list_entry(frontend->base.connections.next, struct grpc_connection, link);
    call(fd, 1, REFLECTION, true);
    while (c->answers == 0) {
        frame(fd, DATA, 0, 1, "\0\0\0\0\40\42\36" SERVICE, 7 + strlen(SERVICE));
        came(fd, DATA, 1);
    }
    assert_int_equal(c->unsent.handed, WINDOW_BYTES);
    assert_int_equal(frontend->base.unsent.bytes, c->answers);
    for (int second = 0; second < HEAD_S; second++)
        second_passes();
    assert_int_equal(connections(), 1);
    for (int second = 0; second < 2; second++)
        second_passes();
    assert_int_equal(connections(), 0);
    assert_int_equal(dismissed(), 1);
    assert_int_equal(frontend->base.unsent.bytes, 0);
    close(fd);
}

/* Until the client has taken half of what one connection may keep. */
TEST_WITH(who_does_not_take_answers_is_not_read_further, set_up, tear_down) {
    frontend->base.config.answers_bytes_max = 8 * (2 * LIVE_BYTES - 1);
    int fd = client_with_window(0);
    for (int stream = 1; stream <= 5; stream += 2)
        ask_whether_live(fd, stream);
    assert_int_equal(frontend->base.unsent.bytes, 2 * LIVE_BYTES + 5);
    assert_true(list_empty(&call_nth(2)->exchanges));
    for (int second = 0; second < HEAD_S; second++)
        second_passes();
    assert_int_equal(call_nth(2)->status, 200);
    frame(fd, WINDOW_UPDATE, 0, 5, "\0\0\0\7", 4);
    assert_true(list_empty(&call_nth(2)->exchanges));
    frame(fd, WINDOW_UPDATE, 0, 1, "\0\0\0\7", 4);
    frame(fd, WINDOW_UPDATE, 0, 3, "\0\0\0\7", 4);
    assert_true(came(fd, DATA, 5));
    assert_int_equal(frontend->base.unsent.bytes, 0);
    assert_true(list_empty(&list_entry(frontend->base.connections.next, struct grpc_connection, link)->calls));
    close(fd);
}

TEST_WITH(what_nobody_takes_is_bounded, set_up, tear_down) {
    frontend->base.config.answers_bytes_max = 2 * LIVE_BYTES;
    int fds[3];
    for (int i = 0; i < 3; i++)
        ask_whether_live(fds[i] = client_with_window(0), 1);
    assert_int_equal(connections(), 2);
    assert_int_equal(dismissed(), 1);
    assert_int_equal(recv(fds[0], (char[4096]){0}, 4096, 0) > 0, 1);
    assert_int_equal(recv(fds[0], (char[1]){0}, 1, 0), 0); /* the first one's */
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

/* ---- slots ---- */

/* The first bytes of a message. */
static void begin(int fd, int stream, const char *path) {
    call(fd, stream, path, true);
    frame(fd, DATA, 0, stream, "", 1);
}

static uint32_t taken(void) {
    return frontend_in_flight(&frontend->base);
}

/* Requests of others have all slots but so many. */
static void leave_slots(uint32_t left) {
    while (taken() < REQUESTS - left)
        assert_non_null(inference_take(&frontend->base.inferences, 0));
}

static int greeted(void) {
    int fd = client_connect();
    greet(fd);
    return fd;
}

static void give_back(void) {
    for (uint32_t i = 0; i < frontend->base.inferences.fresh; i++) {
        struct inference *taken =
            (struct inference *)(frontend->base.inferences.slots + i * frontend->base.inferences.slot_bytes);
        if (taken->state == INFERENCE_UPLOAD && !taken->holder)
            inference_free(taken);
    }
}

TEST_WITH(a_connection_has_its_part_when_slots_are_short, set_up, tear_down) {
    int many = greeted(), other = client_connect_from(1);
    greet(other);
    for (int stream = 1; stream < 2 * REQUESTS; stream += 2)
        begin(many, stream, INFER);
    assert_int_equal(taken(), REQUESTS * 7 / 8);
    assert_true(came(many, HEADERS, 1)); /* its own first ones have made way */
    for (int stream = 1; stream <= 2 * REQUESTS / 16 + 1; stream += 2)
        begin(other, stream, INFER);
    assert_int_equal(taken(), REQUESTS * 7 / 8 + REQUESTS / 16 + 1);
    begin(other, 99, INFER);
    assert_int_equal(taken(), REQUESTS * 7 / 8 + REQUESTS / 16 + 1);
    assert_true(came(other, HEADERS, 1));
    close(many);
    close(other);
}

/* Of calls whose messages come the one that has had no byte for longest. */
TEST_WITH(the_slowest_message_makes_way, set_up, tear_down) {
    int fds[3] = {greeted(), greeted(), greeted()};
    leave_slots(3);
    begin(fds[0], 1, INFER);
    begin(fds[1], 1, INFER);
    begin(fds[0], 3, INFER);
    frame(fds[0], DATA, 0, 1, "", 1);
    begin(fds[2], 1, INFER);
    assert_int_equal(taken(), REQUESTS);
    assert_true(came(fds[1], HEADERS, 1)); /* UNAVAILABLE */
    assert_false(came(fds[0], HEADERS, 1));
    begin(fds[1], 3, INFER);
    assert_true(came(fds[0], HEADERS, 3));
    frame(fds[0], DATA, 0, 1, "", 1);
    assert_false(came(fds[0], HEADERS, 1));
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    step();
    assert_int_equal(taken(), REQUESTS - 3);
    give_back();
}

/* Whole requests keep their slots. */
TEST_WITH(health_is_told_when_all_slots_are_taken, set_up, tear_down) {
    int fd = greeted(), halves = greeted();
    leave_slots(0);
    begin(fd, 1, INFER);
    assert_true(came(fd, HEADERS, 1));
    ask_whether_live(fd, 3);
    assert_true(came(fd, DATA, 3));
    for (int stream = 1; stream < 2 * SLOTS_SPARE; stream += 2)
        begin(halves, stream, LIVE);
    assert_int_equal(taken(), REQUESTS + SLOTS_SPARE);
    ask_whether_live(fd, 5);
    assert_true(came(fd, DATA, 5));
    close(fd);
    close(halves);
    step();
    give_back();
}

/* Its answers have had a second, and are taken slower than they may be. */
TEST_WITH(who_takes_no_answers_makes_way, set_up, tear_down) {
    int first = client_with_window(0), second = client_with_window(0), other = greeted();
    leave_slots(2);
    ask_whether_live(first, 1);
    ask_whether_live(second, 1);
    assert_int_equal(taken(), REQUESTS);
    list_for_each (it, &frontend->base.unsent.list)
        list_entry(it, struct unsent, link)->since_ns += 3600 * NS_PER_S;
    begin(other, 1, INFER);
    assert_true(came(other, HEADERS, 1));
    list_for_each (it, &frontend->base.unsent.list)
        list_entry(it, struct unsent, link)->since_ns -= 3601 * NS_PER_S;
    begin(other, 3, INFER);
    assert_false(came(other, HEADERS, 3));
    assert_int_equal(connections(), 2);
    assert_int_equal(taken(), REQUESTS);
    close(first);
    close(second);
    close(other);
    step();
    give_back();
}

TEST_WITH(silent_calls_make_way, set_up, tear_down) {
    int fd = greeted(), other = greeted();
    frontend->call_count = 3;
    for (int stream = 1; stream <= 5; stream += 2)
        call(fd, stream, STREAM, true);
    ask_whether_live(other, 1);
    assert_true(came(other, DATA, 1));
    assert_false(came(fd, RST_STREAM, 1));
    call(other, 3, INFER, true);
    assert_true(came(fd, RST_STREAM, 1));
    assert_int_equal(frontend->open_calls, 3);
    frame(other, DATA, END_STREAM, 3, "\0\0\0\0\0", 5);
    assert_true(came(other, HEADERS, 3));
    close(fd);
    close(other);
}

/* ---- connections ---- */

/* A client that comes when there are as many as there may be. */
static int client_displaces(void) {
    int fd = client_connect();
    if (acceptor_crowded(&frontend->base.acceptor) && frontend->base.waiting.next != frontend->base.waiting.prev)
        frontend->base.protocol->displace(frontend->base.waiting.next); /* as frontend.c does */
    greet(fd);
    return fd;
}

/* At their limit the connection goes that has been without a complete request for longest, with a word. */
TEST_WITH(half_calls_make_way_for_others, set_up, tear_down) {
    int fds[CONNECTIONS_MAX];
    for (unsigned i = 0; i < ARRAY_COUNT(fds); i++)
        begin(fds[i] = greeted(), 1, LIVE);
    ask_whether_live(fds[0], 3);
    assert_true(came(fds[0], DATA, 3));
    int probe = client_displaces();
    ask_whether_live(probe, 1);
    assert_true(came(probe, DATA, 1));
    assert_true(came(fds[1], GOAWAY, 0));
    assert_int_equal(recv(fds[1], (char[1]){0}, 1, 0), 0);
    assert_int_equal(dismissed(), 1);
    assert_int_equal(connections(), CONNECTIONS_MAX);
    for (unsigned i = 0; i < ARRAY_COUNT(fds); i++)
        close(fds[i]);
    close(probe);
}

/* All connections have requests that are not answered yet. */
TEST_WITH(health_is_told_when_all_connections_are_taken, set_up, tear_down) {
    int fds[CONNECTIONS_MAX];
    for (unsigned i = 0; i < ARRAY_COUNT(fds); i++)
        ask_whether_live(fds[i] = client_with_window(0), 1);
    int probe = client_displaces();
    ask_whether_live(probe, 1);
    assert_true(came(probe, DATA, 1));
    call(probe, 3, INFER, true);
    assert_true(came(probe, HEADERS, 3)); /* UNAVAILABLE */
    ask_whether_live(probe, 5);
    assert_true(came(probe, DATA, 5));
    int another = client_displaces();
    ask_whether_live(another, 1);
    assert_true(came(another, DATA, 1));
    assert_true(came(probe, GOAWAY, 0));
    for (unsigned i = 0; i < ARRAY_COUNT(fds); i++)
        close(fds[i]);
    close(probe);
    close(another);
}
