/* test_metrics_endpoint.c - the metrics port: recordings, made while they are sent, one at a time; timelines of unknown
 * length; streams of states; files for browsers. */
/* Starts threads. */
#include "unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/util/container.h"
#include "front/http/metrics_endpoint.h"

#define PIECES 512 /* 32 MiB: far more than sockets hold */

struct made {
    struct http_source source;
    int pieces;
};

static struct metrics_server *server;
static _Atomic int open_now, opened, pieces_made;

static void made_more(struct http_source *source, struct text *out) {
    static char piece[HTTP_PIECE_BYTES];
    struct made *made = container_of(source, struct made, source);
    if (made->pieces == PIECES)
        return;
    memset(piece, 'a' + made->pieces++ % 26, sizeof(piece));
    text_append(out, piece, sizeof(piece));
    atomic_fetch_add(&pieces_made, 1);
}

static void made_end(struct http_source *source) {
    atomic_fetch_sub(&open_now, 1);
    free(container_of(source, struct made, source));
}

static struct http_source *recording(void *context, double seconds, int *rc, struct sy_error *err) {
    struct made *made = calloc(1, sizeof(*made));
    if (seconds < 2) {
        free(made);
        *rc = error_set(err, -ENOENT, "nothing");
        return NULL;
    }
    made->source = (struct http_source){.bytes = PIECES * HTTP_PIECE_BYTES, .more = made_more, .end = made_end};
    atomic_fetch_add(&opened, 1);
    assert_int_equal(atomic_fetch_add(&open_now, 1), 0);
    return &made->source;
}

/* As many pieces as the query says, each of its number. */
static void counted_more(struct http_source *source, struct text *out) {
    struct made *made = container_of(source, struct made, source);
    if (made->pieces > 0)
        text_printf(out, "[%d]", made->pieces--);
}

static struct http_source *timeline(void *context, const char *query, size_t length, int *status,
                                    struct sy_error *err) {
    if (length != 1) {
        *status = error_set(err, 400, "expected a \"digit\"");
        return NULL;
    }
    struct made *made = calloc(1, sizeof(*made));
    made->pieces = *query - '0';
    made->source = (struct http_source){.bytes = HTTP_LENGTH_UNKNOWN, .more = counted_more, .end = made_end};
    atomic_fetch_add(&open_now, 1);
    return &made->source;
}

static int state_of(void *context, const char *query, size_t length, struct text *out, struct sy_error *err) {
    if (length > 4 && memcmp(query, "bad", 3) == 0)
        return error_set(err, 400, "bad");
    text_printf(out, "{\"query\":\"%.*s\"}", (int)length, query);
    return 0;
}

static void render(void *context, struct text *out) {
    text_put(out, "metrics\n");
}

static const struct metrics_file files[] = {
    {.path = "/", .type = "text/html", .data = (const unsigned char *)"<p>", .bytes = 3}};

static int set_up(void **state) {
    const struct metrics_config config = {.host = "127.0.0.1",
                                          .render = render,
                                          .render_fine = render,
                                          .recording = recording,
                                          .timeline = timeline,
                                          .state = state_of,
                                          .files = files,
                                          .file_count = 1,
                                          .recording_seconds = 10,
                                          .recording_seconds_max = 100};
    atomic_store(&opened, 0);
    atomic_store(&pieces_made, 0);
    return metrics_server_start(&server, &config, NULL);
}

static int tear_down(void **state) {
    metrics_server_stop(server);
    assert_int_equal(atomic_load(&open_now), 0);
    return 0;
}

static int asked_by(const char *version, const char *verb, const char *path) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)metrics_server_port(server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char request[200];
    int fd = socket(AF_INET, SOCK_STREAM, 0), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    int length = snprintf(request, sizeof(request), "%s %s HTTP/%s\r\nHost: x\r\n\r\n", verb, path, version);
    assert_int_equal(send(fd, request, (size_t)length, 0), length);
    return fd;
}

static int asked(const char *verb, const char *path) {
    return asked_by("1.1", verb, path);
}

static char head[1024]; /* of the last answer */

/* The status of the answer, whose head alone is read. */
static int status_of(int fd) {
    size_t length = 0;
    while (length < 4 || memcmp(head + length - 4, "\r\n\r\n", 4) != 0)
        assert_int_equal(recv(fd, head + length++, 1, 0), 1);
    head[length] = '\0';
    return atoi(head + strlen("HTTP/1.1 "));
}

static int status_at(const char *path) {
    int fd = asked("GET", path), status = status_of(fd);
    close(fd);
    return status;
}

TEST_WITH(one_is_made_at_a_time_as_it_is_read, set_up, tear_down) {
    int reader = asked("GET", "/v2/symphony/recording");
    assert_int_equal(status_of(reader), 200);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(status_at("/v2/symphony/recording/50"), 503);
        assert_int_equal(status_at("/metrics"), 200);
    }
    assert_int_equal(atomic_load(&opened), 1);
    assert_true(atomic_load(&pieces_made) < PIECES);
    static char got[1 << 16];
    size_t bytes = 0;
    while (bytes < PIECES * HTTP_PIECE_BYTES) {
        ssize_t n = recv(reader, got, sizeof(got), 0);
        assert_true(n > 0);
        assert_int_equal(got[0], 'a' + bytes / HTTP_PIECE_BYTES % 26);
        bytes += (size_t)n;
    }
    assert_int_equal(bytes, PIECES * HTTP_PIECE_BYTES);
    while (atomic_load(&open_now) > 0)
        sched_yield();
    assert_int_equal(send(reader, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 35, 0), 35); /* the connection stays */
    assert_int_equal(status_of(reader), 200);
    close(reader);
}

TEST_WITH(who_leaves_makes_room, set_up, tear_down) {
    int reader = asked("GET", "/v2/symphony/recording");
    assert_int_equal(status_of(reader), 200);
    close(reader);
    while (atomic_load(&open_now) > 0)
        sched_yield();
    reader = asked("GET", "/v2/symphony/recording/20");
    assert_int_equal(status_of(reader), 200);
    close(reader);
}

TEST_WITH(heads_and_mistakes_hold_nothing, set_up, tear_down) {
    int fd = asked("HEAD", "/v2/symphony/recording");
    assert_int_equal(status_of(fd), 200);
    close(fd);
    assert_int_equal(status_at("/v2/symphony/recording/1"), 409);
    assert_int_equal(status_at("/v2/symphony/recording/x"), 404);
    assert_int_equal(status_at("/v2/symphony/recording/20"), 200);
}

/* Reads what is expected. */
static void expect(int fd, const char *bytes) {
    char got[256];
    size_t length = strlen(bytes);
    assert_true(length < sizeof(got));
    assert_int_equal(recv(fd, got, length, MSG_WAITALL), (ssize_t)length);
    got[length] = '\0';
    assert_string_equal(got, bytes);
}

TEST_WITH(answers_of_unknown_length_come_in_chunks, set_up, tear_down) {
    static const char again[] = "GET /v2/symphony/timeline?0 HTTP/1.1\r\nHost: x\r\n\r\n";
    int fd = asked("GET", "/v2/symphony/timeline?3");
    assert_int_equal(status_of(fd), 200);
    assert_non_null(strstr(head, "Transfer-Encoding: chunked\r\n"));
    assert_null(strstr(head, "Content-Length"));
    expect(fd, "00000003\r\n[3]\r\n00000003\r\n[2]\r\n00000003\r\n[1]\r\n0\r\n\r\n");
    assert_int_equal(send(fd, again, strlen(again), 0), (ssize_t)strlen(again)); /* it stays */
    assert_int_equal(status_of(fd), 200);
    expect(fd, "0\r\n\r\n");
    close(fd);
    fd = asked_by("1.0", "GET", "/v2/symphony/timeline?2"); /* which knows no chunks: the end is the connection's */
    assert_int_equal(status_of(fd), 200);
    assert_null(strstr(head, "chunked"));
    char got[16];
    assert_int_equal(recv(fd, got, sizeof(got), MSG_WAITALL), 6);
    assert_memory_equal(got, "[2][1]", 6);
    close(fd);
    fd = asked("HEAD", "/v2/symphony/timeline?3");
    assert_int_equal(status_of(fd), 200);
    close(fd);
    assert_int_equal(status_at("/v2/symphony/timeline"), 400);
    while (atomic_load(&open_now) > 0)
        sched_yield();
}

TEST_WITH(a_reason_is_json_whatever_it_says, set_up, tear_down) {
    int fd = asked("GET", "/v2/symphony/timeline");
    assert_int_equal(status_of(fd), 400);
    expect(fd, "{\"error\":\"expected a \\\"digit\\\"\"}");
    close(fd);
}

#define STREAMS 16

TEST_WITH(states_come_again_and_again, set_up, tear_down) {
    int fds[STREAMS], over;
    assert_int_equal(status_at("/v2/symphony/state?bad=1"), 400);
    assert_int_equal(status_at("/v2/symphony/state?bad=1&stream"), 400);
    int fd = asked("GET", "/v2/symphony/state?a=1");
    assert_int_equal(status_of(fd), 200);
    expect(fd, "{\"query\":\"a=1\"}");
    close(fd);
    for (int i = 0; i < STREAMS; i++) {
        fds[i] = asked("GET", "/v2/symphony/state?stream&a=1");
        assert_int_equal(status_of(fds[i]), 200);
        assert_non_null(strstr(head, "text/event-stream"));
    }
    assert_int_equal(status_at("/v2/symphony/state?stream=1"), 503);
    for (int i = 0; i < STREAMS; i++) {
        expect(fds[i], "0000001e\r\ndata: {\"query\":\"stream&a=1\"}\n\n\r\n");
        expect(fds[i], "0000001e\r\ndata: {\"query\":\"stream&a=1\"}\n\n\r\n"); /* half a second later */
    }
    close(fds[0]);
    while (status_of(over = asked("GET", "/v2/symphony/state?stream=1")) == 503) { /* until it is seen to be gone */
        close(over);
        sched_yield();
    }
    expect(over, "0000001c\r\ndata: ");
    close(over);
    for (int i = 1; i < STREAMS; i++)
        close(fds[i]);
}

TEST_WITH(files_are_for_browsers, set_up, tear_down) {
    int fd = asked("GET", "/");
    assert_int_equal(status_of(fd), 200);
    assert_non_null(strstr(head, "Content-Security-Policy: default-src 'none'; script-src 'self'"));
    assert_non_null(strstr(head, "X-Content-Type-Options: nosniff\r\n"));
    expect(fd, "<p>");
    close(fd);
    fd = asked("POST", "/");
    assert_int_equal(status_of(fd), 405);
    close(fd);
    assert_int_equal(status_at("/other"), 404);
}
