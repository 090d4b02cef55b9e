/* test_http_sweep.c - connections over HTTP that are slow, too many or gone: a real frontend, stepped by hand, over
 * loopback, whose clock is set ahead before it looks: by seconds, so that a slow machine makes no difference. */
#include "unit/test.h"

#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "front/http/http_state.h"
#include "front/net/listen.h"
#include "fuzz/scheduler.h"
#include "unit/loopback.h"

#define STEPS_MAX       100000000 /* minutes: the kernel may bring late what was sent */
#define CONNECTIONS_MAX 16
#define HEAD_S          15
#define RATE_MIN        1024
#define REQUEST                                                                                                        \
    "POST /v2/models/single/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 74\r\n\r\n"                                   \
    "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP64\",\"shape\":[2,2],\"data\":[1,2,3,4]}]}"

static struct http_frontend *frontend;
static int tcp_port;
static int64_t second_ns; /* of second_passes() */
static uint64_t inputs_bytes_max;

static int set_up(void **state) {
    if (!wiring.requests)
        scheduler_set_up();
    struct frontend_config config = scheduler_frontend();
    config.connections_max = CONNECTIONS_MAX;
    config.head_timeout_s = HEAD_S;
    config.rate_min = RATE_MIN;
    config.inputs_bytes_max = inputs_bytes_max;
    assert_int_equal(listen_open("127.0.0.1", 0, "HTTP", &config.listen_fd, &tcp_port, NULL), 0);
    struct frontend *made;
    assert_int_equal(frontend_make(&made, &http_protocol, &config, NULL), 0);
    frontend = http_frontend_of(made);
    made->sweep_ns = TIME_NEVER; /* only the test sweeps */
    second_ns = clock_now_ns();
    close(config.listen_fd);
    return 0;
}

static int tear_down(void **state) {
    struct port *port = frontend->base.config.port;
    frontend_free(&frontend->base);
    port_destroy(port);
    return 0;
}

static struct http_connection *connection_nth(uint32_t n) {
    list_for_each (it, &frontend->base.connections)
        if (n-- == 0)
            return list_entry(it, struct http_connection, link);
    return NULL;
}

static uint32_t connections(void) {
    return acceptor_connections(&frontend->base.acceptor);
}

static bool steps_until(bool (*holds)(const void *), const void *context) {
    for (int i = 0; i < STEPS_MAX; i++) {
        if (holds(context))
            return true;
        frontend_step(&frontend->base);
        sched_yield();
    }
    return false;
}

static bool as_many(const void *count) {
    return connections() == *(const uint32_t *)count;
}

static bool doing(const void *what) {
    return connection_nth(0) && connection_nth(0)->doing == *(const enum http_doing *)what;
}

/* A client, taken in. */
static int client_connect(void) {
    uint32_t count = connections() + 1;
    int fd = loopback_connect(tcp_port);
    assert_true(steps_until(as_many, &count));
    return fd;
}

static void say(int fd, const char *text) {
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Looks at the clients, so many seconds after the time of the last turn. */
static void look_after(double seconds) {
    frontend->base.turn_ns += (int64_t)(seconds * (double)NS_PER_S);
    http_connections_sweep(&frontend->base);
    http_connections_free(&frontend->base);
}

/* Another second is over, whatever turns have set the time. */
static void second_passes(void) {
    frontend->base.turn_ns = second_ns += NS_PER_S;
    unsent_look(&frontend->base.unsent);
    look_after(0);
}

static uint64_t dismissed(void) {
    return counter_get(&frontend->base.counters.dismissed);
}

/* The client reads this, closes, and its connection is no more. */
static void gone(int fd, const char *last_words) {
    char got[4096] = "";
    uint32_t none = 0;
    ssize_t n = recv(fd, got, sizeof(got) - 1, 0);
    assert_int_equal(n > 0, *last_words != '\0');
    assert_memory_equal(got, last_words, strlen(last_words));
    close(fd);
    assert_true(steps_until(as_many, &none));
}

TEST_WITH(who_says_nothing_may_stay, set_up, tear_down) {
    int fd = client_connect();
    for (int i = 0; i < 10; i++)
        look_after(HEAD_S);
    assert_int_equal(dismissed(), 0);
    close(fd);
}

static bool begun(const void *nothing) {
    return connection_nth(0)->begun;
}

TEST_WITH(half_a_head_is_late_from_its_first_byte, set_up, tear_down) {
    int fd = client_connect();
    look_after(HEAD_S); /* silent so far */
    say(fd, "GET /v2/health/live HTTP/1.1\r\nHo");
    assert_true(steps_until(begun, NULL));
    look_after(HEAD_S - 1);
    assert_int_equal(dismissed(), 0);
    look_after(2);
    assert_int_equal(dismissed(), 1);
    gone(fd, "HTTP/1.1 408");
}

/* What it still sends is thrown away, for a while. */
TEST_WITH(who_does_not_leave_is_left, set_up, tear_down) {
    const uint32_t none = 0;
    int fd = client_connect();
    say(fd, "rubbish\r\n\r\n");
    while (connection_nth(0)->doing != HTTP_DOING_LEAVING)
        frontend_step(&frontend->base);
    say(fd, "more rubbish");
    frontend_step(&frontend->base);
    look_after(1);
    assert_int_equal(connections(), 1);
    look_after(2);
    assert_int_equal(connections(), 0);
    assert_true(steps_until(as_many, &none));
    close(fd);
}

TEST_WITH(a_slow_body_is_late_by_its_bytes, set_up, tear_down) {
    static const enum http_doing body = HTTP_DOING_BODY;
    int fd = client_connect();
    say(fd, "POST /v2/models/single/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{");
    assert_true(steps_until(doing, &body));
    look_after(0);
    connection_nth(0)->bytes += 1000 * RATE_MIN; /* which buys no time for later */
    look_after(HEAD_S);
    connection_nth(0)->bytes += HEAD_S * RATE_MIN;
    look_after(HEAD_S);
    assert_int_equal(dismissed(), 0);
    connection_nth(0)->bytes += HEAD_S * RATE_MIN - 1;
    look_after(HEAD_S - 1);
    assert_int_equal(dismissed(), 0);
    look_after(1);
    assert_int_equal(dismissed(), 1);
    gone(fd, "HTTP/1.1 408");
}

/* It is in the middle of it: another answer would not be understood. */
TEST_WITH(who_does_not_take_an_answer_is_told_nothing, set_up, tear_down) {
    int fd = client_connect();
    http_connection_does(connection_nth(0), HTTP_DOING_ANSWER);
    look_after(HEAD_S);
    assert_int_equal(dismissed(), 0);
    look_after(HEAD_S);
    assert_int_equal(dismissed(), 1);
    gone(fd, "");
}

/* ---- long answers ---- */

#define PAGE_BYTES     ((size_t)16 << 20) /* more than the kernel's buffers hold */
#define ANSWERS_MAX    (PAGE_BYTES * 7 / 2)
#define SLOWLY         ((size_t)100 * 1024) /* a second */
#define RECEIVE_BUFFER 65536

static void page_put(void *page, struct http_connection *c) {
    http_answer_begin(c, 200);
    http_answer_send(c, page, PAGE_BYTES);
}

static int set_up_long(void **state) {
    static char page[PAGE_BYTES];
    set_up(state);
    frontend->base.config.page = page_put;
    frontend->base.config.page_context = page;
    frontend->base.config.answers_bytes_max = ANSWERS_MAX;
    return 0;
}

static bool kept(const void *count) {
    return frontend->base.unsent.bytes >= *(const uint64_t *)count * PAGE_BYTES;
}

/* A client that has asked, as the n-th, and takes nothing yet. */
static int asker(uint64_t n) {
    int fd = client_connect(), bytes = RECEIVE_BUFFER;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    say(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(steps_until(kept, &n));
    return fd;
}

static void take(int fd, size_t bytes) {
    static char got[PAGE_BYTES];
    for (ssize_t n; bytes > 0; bytes -= n > 0 ? (size_t)n : 0) {
        n = recv(fd, got, bytes, MSG_DONTWAIT);
        assert_int_not_equal(n, 0);
        frontend_step(&frontend->base);
    }
}

TEST_WITH(who_reads_slowly_gets_all_of_a_long_answer, set_up_long, tear_down) {
    int fd = asker(1);
    size_t left = PAGE_BYTES;
    for (; left > SLOWLY; left -= SLOWLY) {
        take(fd, SLOWLY);
        second_passes();
    }
    take(fd, left);
    assert_int_equal(dismissed(), 0);
    assert_int_equal(frontend->base.unsent.bytes, 0);
    close(fd);
}

TEST_WITH(who_read_fast_and_stalls_is_slow, set_up_long, tear_down) {
    int fd = asker(1);
    take(fd, PAGE_BYTES / 2);
    for (int second = 0; second <= 2 * HEAD_S && dismissed() == 0; second++)
        second_passes();
    assert_int_equal(dismissed(), 1);
    assert_int_equal(connections(), 0);
    assert_int_equal(frontend->base.unsent.bytes, 0);
    close(fd);
}

/* Three answers may be kept, and half of one: of four the one goes whose client has taken the least. */
TEST_WITH(what_nobody_takes_is_bounded, set_up_long, tear_down) {
    const uint32_t three = 3;
    int fds[4];
    for (uint64_t n = 0; n < 3; n++)
        fds[n] = asker(n + 1);
    take(fds[0], 2 * SLOWLY);
    frontend->base.config.answers_bytes_max = UINT64_MAX;
    fds[3] = asker(4);
    take(fds[2], SLOWLY);
    take(fds[3], SLOWLY);
    assert_int_equal(connections(), 4);
    frontend->base.config.answers_bytes_max = ANSWERS_MAX;
    assert_true(steps_until(as_many, &three));
    assert_int_equal(dismissed(), 1);
    char byte;
    for (int i = 0; i < 4; i++) {
        if (i != 1)
            take(fds[i], 1);
        while (i == 1 && recv(fds[i], &byte, 1, 0) > 0) {
        }
        close(fds[i]);
    }
}

static bool running(const void *nothing) {
    return frontend->base.inferences.running > 0;
}

/* It has announced a body, and nothing has come of it for longest. */
TEST_WITH(a_body_makes_way_when_slots_are_short, set_up, tear_down) {
    static const enum http_doing body = HTTP_DOING_BODY;
    int half = client_connect();
    say(half, "POST /v2/models/single/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n");
    assert_true(steps_until(doing, &body));
    while (frontend_in_flight(&frontend->base) < REQUESTS)
        assert_non_null(inference_take(&frontend->base.inferences, 0));
    int fd = client_connect();
    say(fd, REQUEST);
    assert_true(steps_until(running, NULL));
    assert_int_equal(frontend_in_flight(&frontend->base), REQUESTS);
    char got[13] = "";
    assert_int_equal(recv(half, got, 12, MSG_WAITALL), 12);
    assert_string_equal(got, "HTTP/1.1 503");
    scheduler_refuse_all();
    while (running(NULL))
        frontend_step(&frontend->base);
    close(half);
    close(fd);
}

static bool answered(const void *fd) {
    char byte;
    return recv(*(const int *)fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

static int set_up_little_memory(void **state) {
    inputs_bytes_max = 16 << 20; /* a body that grows needs its old place, too */
    set_up(state);
    inputs_bytes_max = 0;
    return 0;
}

static bool arrived(const void *bytes) {
    return connection_nth(0)->bytes == *(const uint64_t *)bytes;
}

/* The smaller one that needs it gets it. */
TEST_WITH(the_largest_body_makes_way_when_memory_is_short, set_up_little_memory, tear_down) {
    static const char large[7 << 20], small[6 << 20];
    const uint64_t all = sizeof(large);
    size_t sent = 0;
    char got[13] = "";
    int fds[2] = {client_connect(), client_connect()};
    say(fds[0], "POST /v2/models/single/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n");
    while (sent < sizeof(large)) {
        ssize_t n = send(fds[0], large + sent, sizeof(large) - sent, MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        frontend_step(&frontend->base);
    }
    assert_true(steps_until(arrived, &all));
    say(fds[1], "POST /v2/models/single/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 6291456\r\n\r\n");
    for (sent = 0; sent < sizeof(small);) {
        ssize_t n = send(fds[1], small + sent, sizeof(small) - sent, MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        frontend_step(&frontend->base);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(steps_until(answered, &fds[i]));
        assert_int_equal(recv(fds[i], got, 12, 0), 12);
        assert_string_equal(got, i ? "HTTP/1.1 400" : "HTTP/1.1 503");
        close(fds[i]);
    }
}

TEST_WITH(nobody_waits_too_long_for_us, set_up, tear_down) {
    static const enum http_doing waits = HTTP_DOING_RUNNING;
    int fd = client_connect();
    say(fd, REQUEST);
    assert_true(steps_until(doing, &waits));
    look_after(100 * HEAD_S);
    assert_int_equal(dismissed(), 0);
    scheduler_refuse_all();
    for (int i = 0; i < STEPS_MAX && frontend->base.inferences.running > 0; i++)
        frontend_step(&frontend->base);
    assert_int_equal(frontend->base.inferences.running, 0);
    close(fd);
}

static bool closed(const void *fd) {
    char byte;
    return recv(*(const int *)fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* At their limit the connection goes that has been without a complete request for longest. */
TEST_WITH(half_heads_make_way_for_others, set_up, tear_down) {
    static const char half[] = "GET /v2/health/live HTTP/1.1\r\nHo", *const rest = "st: x\r\n\r\n";
    int fds[CONNECTIONS_MAX];
    for (unsigned i = 0; i < ARRAY_COUNT(fds); i++)
        say(fds[i] = client_connect(), half);
    say(fds[0], rest);
    assert_true(steps_until(answered, &fds[0]));
    for (int i = 1; i < 4; i++) {
        int probe = loopback_connect(tcp_port);
        say(probe, half);
        say(probe, rest);
        assert_true(steps_until(answered, &probe));
        assert_true(steps_until(closed, &fds[i]));
        assert_int_equal(dismissed(), i);
        fds[i] = probe;
    }
    say(fds[4], rest);
    assert_true(steps_until(answered, &fds[4]));
    for (unsigned i = 0; i < ARRAY_COUNT(fds); i++)
        close(fds[i]);
}

/* All connections have requests: who comes now may ask for health, and gets no other answer. */
TEST_WITH(health_is_told_when_all_connections_are_taken, set_up, tear_down) {
    int fds[CONNECTIONS_MAX];
    for (uint32_t i = 0; i < ARRAY_COUNT(fds); i++) {
        say(fds[i] = client_connect(), REQUEST);
        while (frontend->base.inferences.running <= i)
            frontend_step(&frontend->base);
    }
    for (int i = 0; i < 2 * CONNECTIONS_SPARE; i++) {
        static const char *const asked[] = {"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n", REQUEST};
        char got[13] = "";
        int fd = loopback_connect(tcp_port);
        say(fd, asked[i % 2]);
        assert_true(steps_until(answered, &fd));
        assert_int_equal(recv(fd, got, 12, 0), 12);
        assert_string_equal(got, i % 2 ? "HTTP/1.1 503" : "HTTP/1.1 200");
        close(fd);
    }
    const uint32_t all = CONNECTIONS_MAX;
    assert_true(steps_until(as_many, &all));
    assert_int_equal(frontend->base.inferences.running, CONNECTIONS_MAX);
    scheduler_refuse_all();
    while (running(NULL))
        frontend_step(&frontend->base);
    for (uint32_t i = 0; i < ARRAY_COUNT(fds); i++)
        close(fds[i]);
}

/* A turn takes a part of what one connection sends; the rest goes on in the next ones, without anything new. */
TEST_WITH(requests_behind_each_other_are_all_answered, set_up, tear_down) {
    enum { MANY = 100 };
    char got[MANY * 64];
    int fd = client_connect(), answers = 0;
    for (int i = 0; i < MANY; i++)
        say(fd, "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < STEPS_MAX && answers < MANY; i++) {
        frontend_step(&frontend->base);
        ssize_t n = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT);
        got[n > 0 ? n : 0] = '\0';
        for (const char *at = got; (at = strstr(at, "HTTP/1.1 200")); at++)
            answers++;
    }
    assert_int_equal(answers, MANY);
    assert_int_equal(connections(), 1);
    close(fd);
}

/* The scheduler's end: the next message of the frontend. */
static struct request_message message_taken(void) {
    const struct request_message *message;
    for (int i = 0; i < STEPS_MAX && !(message = ring_peek(&wiring.requests[0])); i++)
        frontend_step(&frontend->base);
    assert_non_null(message);
    struct request_message taken = *message;
    ring_pop(&wiring.requests[0]);
    ring_release(&wiring.requests[0]);
    return taken;
}

/* The scheduler refuses. */
#define LIVE "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"

/* The client asks `count` times at once, and reads as many answers. */
static void ask_live(int fd, uint32_t count) {
    char got[4096], said[4096] = "";
    uint32_t answers = 0;
    for (uint32_t i = 0; i < count; i++)
        strcat(said, LIVE);
    say(fd, said);
    while (answers < count) {
        frontend_step(&frontend->base);
        ssize_t n = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT);
        got[n > 0 ? n : 0] = '\0';
        for (const char *at = got; (at = strstr(at, "HTTP/1.1 200")); at++)
            answers++;
    }
}

/* While another thread has less to do, it gets the connection with the most requests that makes up no more than half of
 * them, once all is answered that had come on it; the socket stays as it is. */
TEST_WITH(a_busy_connection_goes_to_another_thread, set_up, tear_down) {
    static const uint32_t asks[] = {10, 3, 6};
    struct acceptor other = {.fd = -1};
    struct inbox inbox;
    struct peer_address peer;
    char got[sizeof(LIVE)];
    int fds[3];
    assert_int_equal(inbox_open(&inbox), 0);
    other.inbox = &inbox;
    other.peers = peers_create(CONNECTIONS_MAX, 1);
    for (uint32_t i = 0; i < 3; i++) {
        fds[i] = client_connect();
        ask_live(fds[i], asks[i]);
    }
    look_after(0); /* nobody has less to do */
    for (uint32_t i = 0; i < 3; i++)
        ask_live(fds[i], asks[i]);
    while (!list_empty(&frontend->again)) /* on a slow machine a burst takes several turns */
        frontend_step(&frontend->base);
    assert_int_equal(connections(), 3);
    frontend->base.idler = &other;
    look_after(0);
    frontend->base.idler = NULL;
    ask_live(fds[0], 1);
    ask_live(fds[1], 1);
    assert_int_equal(connections(), 3);
    ask_live(fds[2], 5); /* answers that go out together */
    assert_int_equal(connections(), 2);
    int fd = acceptor_given(&other, &peer);
    assert_true(fd >= 0);
    say(fds[2], LIVE);
    assert_int_equal(recv(fd, got, sizeof(got), 0), strlen(LIVE));
    assert_int_equal(acceptor_given(&other, &peer), -1);
    close(fd);
    peers_destroy(other.peers);
    inbox_close(&inbox);
    for (uint32_t i = 0; i < 3; i++)
        close(fds[i]);
}

static void refuse(uint64_t handle) {
    struct refusal_message *refusal = ring_reserve(&wiring.refusals[0]);
    *refusal = (struct refusal_message){.handle = handle, .reason = REFUSAL_CANCELLED};
    ring_push(&wiring.refusals[0]);
    ring_publish(&wiring.refusals[0]);
}

TEST_WITH(who_leaves_has_its_request_cancelled, set_up, tear_down) {
    const uint32_t none = 0;
    int fd = client_connect();
    say(fd, REQUEST);
    struct request_message asked = message_taken();
    assert_int_equal(asked.kind, REQUEST_ARRIVED);
    close(fd);
    struct request_message cancelled = message_taken();
    assert_int_equal(cancelled.kind, REQUEST_CANCELLED);
    assert_int_equal(cancelled.handle, asked.handle);
    assert_int_equal(frontend->base.inferences.running, 1); /* until it is given back */
    refuse(asked.handle);
    assert_true(steps_until(as_many, &none));
    for (int i = 0; i < STEPS_MAX && frontend->base.inferences.running > 0; i++)
        frontend_step(&frontend->base);
    assert_int_equal(atomic_load(&frontend->base.inferences.counters.in_flight), 0);
}

/* It says that it sends no more, and reads: nothing tells it from one that left, but that it takes what is sent. */
TEST_WITH(who_ends_its_sending_side_is_answered, set_up, tear_down) {
    const uint32_t none = 0;
    char got[4096] = "";
    size_t bytes = 0;
    int fd = client_connect();
    say(fd, REQUEST);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    struct request_message asked = message_taken();
    assert_int_equal(asked.kind, REQUEST_ARRIVED);
    for (int i = 0; i < 100; i++)
        frontend_step(&frontend->base);
    assert_null(ring_peek(&wiring.requests[0])); /* not cancelled */
    refuse(asked.handle);
    assert_true(steps_until(as_many, &none));
    for (ssize_t n; (n = recv(fd, got + bytes, sizeof(got) - 1 - bytes, 0)) > 0;)
        bytes += (size_t)n;
    assert_memory_equal(got, "HTTP/1.1 100 ", 13);
    assert_non_null(strstr(got, "HTTP/1.1 503 "));
    close(fd);
}
