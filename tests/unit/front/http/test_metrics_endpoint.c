/* test_metrics_endpoint.c - recordings on the metrics port: made while they are sent, one at a time. */
/* Starts threads. */
#include "unit/cmocka_all.h"

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
    (void)context;
    if (seconds < 2) {
        free(made);
        *rc = error_set(err, -ENOENT, "nothing");
        return NULL;
    }
    made->source = (struct http_source){PIECES * HTTP_PIECE_BYTES, made_more, made_end};
    atomic_fetch_add(&opened, 1);
    assert_int_equal(atomic_fetch_add(&open_now, 1), 0);
    return &made->source;
}

static void render(void *context, struct text *out) {
    (void)context;
    text_put(out, "metrics\n");
}

static int set_up(void **state) {
    const struct metrics_config config = {.host = "127.0.0.1",
                                          .render = render,
                                          .render_fine = render,
                                          .recording = recording,
                                          .recording_seconds = 10,
                                          .recording_seconds_max = 100};
    (void)state;
    atomic_store(&opened, 0);
    atomic_store(&pieces_made, 0);
    return metrics_server_start(&server, &config, NULL);
}

static int tear_down(void **state) {
    (void)state;
    metrics_server_stop(server);
    assert_int_equal(atomic_load(&open_now), 0);
    return 0;
}

static int asked(const char *verb, const char *path) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)metrics_server_port(server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char request[200];
    int fd = socket(AF_INET, SOCK_STREAM, 0), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    int length = snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: x\r\n\r\n", verb, path);
    assert_int_equal(send(fd, request, (size_t)length, 0), length);
    return fd;
}

/* The status of the answer, whose head alone is read. */
static int status_of(int fd) {
    char head[1024];
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

static void one_is_made_at_a_time_as_it_is_read(void **state) {
    (void)state;
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

static void who_leaves_makes_room(void **state) {
    (void)state;
    int reader = asked("GET", "/v2/symphony/recording");
    assert_int_equal(status_of(reader), 200);
    close(reader);
    while (atomic_load(&open_now) > 0)
        sched_yield();
    reader = asked("GET", "/v2/symphony/recording/20");
    assert_int_equal(status_of(reader), 200);
    close(reader);
}

static void heads_and_mistakes_hold_nothing(void **state) {
    (void)state;
    int fd = asked("HEAD", "/v2/symphony/recording");
    assert_int_equal(status_of(fd), 200);
    close(fd);
    assert_int_equal(status_at("/v2/symphony/recording/1"), 409);
    assert_int_equal(status_at("/v2/symphony/recording/x"), 404);
    assert_int_equal(status_at("/v2/symphony/recording/20"), 200);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(one_is_made_at_a_time_as_it_is_read),
        TEST(who_leaves_makes_room),
        TEST(heads_and_mistakes_hold_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
