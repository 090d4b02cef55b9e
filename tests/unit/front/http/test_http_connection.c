/* test_http_connection.c - how much of a turn one connection may take. The clock of these tests is so fast that every
 * look at it finds the time over: what is parsed between two looks is all that is parsed in a turn. */
#include "unit/test.h"

#include <sys/socket.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "front/http/http_state.h"
#include "fuzz/scheduler.h"

#define LIVE "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n"

static struct http_frontend *frontend;

static int set_up(void **state) {
    struct frontend *made;
    if (!wiring.requests)
        scheduler_set_up();
    struct frontend_config config = scheduler_frontend();
    assert_int_equal(frontend_make(&made, &http_protocol, &config, NULL), 0);
    frontend = http_frontend_of(made);
    made->sweep_ns = TIME_NEVER;
    clock_skew = (struct clock_skew){.start_ns = clock_now_ns(), .rate = 1e6};
    clock_skew.set = true;
    return 0;
}

static int tear_down(void **state) {
    struct port *port = frontend->base.config.port;
    clock_skew.set = false;
    frontend_free(&frontend->base);
    port_destroy(port);
    return 0;
}

static int client_connect(void) {
    static const struct peer_address nobody;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    acceptor_begun(&frontend->base.acceptor, &nobody);
    http_connection_begin(&frontend->base, ends[0], &nobody);
    return ends[1];
}

static void say(int fd, const char *data, size_t bytes) {
    assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

static struct http_connection *first(void) {
    return list_entry(frontend->base.connections.next, struct http_connection, link);
}

static int answers(int fd) {
    static char got[1 << 16];
    ssize_t bytes = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT);
    int count = 0;
    got[bytes > 0 ? bytes : 0] = '\0';
    for (const char *at = got; (at = strstr(at, "HTTP/1.1 200")); at++)
        count++;
    return count;
}

/* Steps until the second client has its answer, while the first one's bytes still wait. */
static void expect_others_have_their_turn(int bad, int good) {
    frontend_step(&frontend->base);
    say(good, LIVE "\r\n", strlen(LIVE "\r\n"));
    int steps = 1;
    for (frontend_step(&frontend->base); answers(good) == 0; steps++)
        frontend_step(&frontend->base);
    assert_true(steps <= 4);
    assert_true(first()->kept.length > 0);
    close(bad);
    close(good);
}

TEST_WITH(chunks_take_slices_of_turns, set_up, tear_down) {
    static const char head[] =
        "POST /v2/models/single/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
    static char chunks[120000];
    int bad = client_connect(), good = client_connect();
    for (size_t i = 0; i < sizeof(chunks); i += 6)
        memcpy(chunks + i, "1\r\nx\r\n", 6);
    say(bad, head, strlen(head));
    frontend_step(&frontend->base);
    assert_int_equal(first()->doing, HTTP_DOING_BODY);
    say(bad, chunks, sizeof(chunks));
    expect_others_have_their_turn(bad, good);
}

TEST_WITH(requests_that_follow_each_other_take_slices_of_turns, set_up, tear_down) {
    struct text all = {0};
    int bad = client_connect(), good = client_connect();
    for (int i = 0; i < 20; i++)
        text_put(&all, LIVE "\r\n");
    say(bad, all.data, all.length);
    frontend_step(&frontend->base);
    assert_int_equal(answers(bad), 1);
    frontend_step(&frontend->base);
    assert_int_equal(answers(bad), 1);
    text_free(&all);
    expect_others_have_their_turn(bad, good);
}

TEST_WITH(fields_take_slices_of_turns, set_up, tear_down) {
    struct text all = {0};
    int bad = client_connect(), good = client_connect();
    for (int i = 0; i < 2; i++) {
        text_put(&all, LIVE);
        for (int field = 0; field < 3900; field++)
            text_put(&all, "a:\r\n");
        text_put(&all, "\r\n");
    }
    say(bad, all.data, all.length);
    frontend_step(&frontend->base);
    assert_int_equal(first()->head_bytes, 4096);
    text_free(&all);
    expect_others_have_their_turn(bad, good);
}

/* Each message of this socket is one of the frontend's system calls. */
static int client_connect_counted(void) {
    static const struct peer_address nobody;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
    acceptor_begun(&frontend->base.acceptor, &nobody);
    http_connection_begin(&frontend->base, ends[0], &nobody);
    return ends[1];
}

/* Requests that need no run: those that are refused, and others. */
TEST_WITH(answers_to_what_came_together_go_out_together, set_up, tear_down) {
    static const char unknown[] = "POST /v2/models/none/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    static const char last[] = "GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    static char got[1 << 16];
    struct text all = {0};
    int fd = client_connect_counted();
    clock_skew.rate = 1e-6 - 1; /* a second of this clock takes eleven days */
    for (int i = 0; i < 7; i++) {
        text_put(&all, LIVE "\r\n");
        text_put(&all, unknown);
    }
    say(fd, all.data, all.length);
    ssize_t bytes;
    int found = 0;
    while ((bytes = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT)) < 0)
        frontend_step(&frontend->base);
    got[bytes] = '\0';
    for (const char *at = got; (at = strstr(at, "HTTP/1.1 ")); at++, found++)
        assert_memory_equal(at + 9, found % 2 ? "404" : "200", 3);
    assert_int_equal(found, 14);
    say(fd, LIVE "\r\n", strlen(LIVE "\r\n"));
    say(fd, last, strlen(last));
    for (int i = 0; i < 2; i++) /* each by itself: they did not come together */
        while (answers(fd) == 0)
            frontend_step(&frontend->base);
    while (recv(fd, got, sizeof(got), MSG_DONTWAIT) != 0)
        frontend_step(&frontend->base);
    close(fd);
    text_free(&all);
}

/* A frontend that ends says so with its answer. What the client has sent meanwhile must not reset the connection: the
 * answer might be lost. */
TEST_WITH(requests_behind_the_last_one_are_read, set_up, tear_down) {
    char got[16];
    int fd = client_connect(), steps = 0;
    frontend->base.quiesced = true;
    say(fd, LIVE "\r\n", strlen(LIVE "\r\n"));
    while (answers(fd) == 0 && steps++ < 10)
        frontend_step(&frontend->base);
    assert_int_equal(first()->doing, HTTP_DOING_LEAVING);
    say(fd, LIVE "\r\n", strlen(LIVE "\r\n"));
    http_connection_close(first());
    assert_int_equal(recv(fd, got, sizeof(got), MSG_DONTWAIT), 0);
    close(fd);
}

/* Room for a request may be made at another client's cost: that one is answered in between. */
TEST_WITH(answers_that_wait_go_to_their_own_client, set_up, tear_down) {
    static const char unknown[] = "POST /v2/models/none/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    static const char begun[] = "POST /v2/models/single/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{";
    static char got[1 << 12];
    struct text both = {0};
    int slow = client_connect(), quick = client_connect();
    clock_skew.rate = 1e-6 - 1;
    frontend->base.config.requests_max = 1;
    say(slow, begun, strlen(begun));
    frontend_step(&frontend->base);
    text_put(&both, unknown);
    text_put(&both, begun);
    say(quick, both.data, both.length);
    frontend_step(&frontend->base);
    ssize_t bytes = recv(slow, got, sizeof(got) - 1, MSG_DONTWAIT);
    assert_true(bytes > 0);
    got[bytes] = '\0';
    assert_memory_equal(got, "HTTP/1.1 503", 12);
    assert_null(strstr(got + 1, "HTTP/1.1"));
    bytes = recv(quick, got, sizeof(got) - 1, MSG_DONTWAIT);
    assert_true(bytes > 0);
    assert_memory_equal(got, "HTTP/1.1 404", 12);
    close(slow);
    close(quick);
    text_free(&both);
}
