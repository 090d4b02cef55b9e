/* test_registry_login.c - the registry's client when its login ends, against a registry that the test plays. */
/* Starts threads. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/membership/registry.h"
#include "unit/test.h"

/* Waits for the client's next call, which is one for this path. */
static int asked(int listener, const char *path) {
    char request[8192] = "";
    size_t length = 0, body = 0;
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    for (const char *end = NULL; !end || length < (size_t)(end + 4 - request) + body;) {
        ssize_t got = read(fd, request + length, sizeof(request) - 1 - length);
        assert_true(got > 0);
        length += (size_t)got;
        request[length] = '\0';
        end = strstr(request, "\r\n\r\n");
        const char *told = strstr(request, "Content-Length: ");
        body = told ? strtoul(told + 16, NULL, 10) : 0;
    }
    if (strncmp(request, "POST ", 5) != 0 || strncmp(request + 5, path, strlen(path)) != 0)
        fail_msg("%s is wanted, and asked for is: %s", path, request);
    return fd;
}

static void say(int fd, const char *text) {
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* The answer ends with its connection. */
#define BEGIN "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
static void answer(int fd, const char *text) {
    say(fd, text);
    close(fd);
}

static void event_await(struct registry *registry, struct doorbell *bell, enum registry_event_kind kind) {
    for (bool come = false; !come;) {
        struct registry_event *event = registry_event_next(registry);
        come = event && event->kind == kind;
        if (!event) {
            doorbell_arm(bell);
            if (!registry_pending(registry))
                doorbell_sleep(bell, TIME_NEVER);
            doorbell_cancel(bell);
        }
        free(event);
    }
}

/* What is asked once the login has failed ends after what is under way. */
TEST(questions_end_one_after_the_other) {
    char path[] = "/tmp/symphony-login-XXXXXX", url[64];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    struct doorbell bell;
    struct registry_config config = {.bell = &bell};
    struct registry *registry;
    struct sy_error err;
    int file = mkstemp(path), listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    say(file, "user:password\n");
    close(file);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, bytes), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
    snprintf(url, sizeof(url), "etcd://127.0.0.1:%u/n", ntohs(at.sin_port));
    assert_int_equal(registry_place_parse(url, &config.place, &err), 0);
    config.place.login = path;
    assert_int_equal(doorbell_init(&bell, false, false), 0);
    assert_int_equal(registry_open(&config, &registry, &err), 0);

    answer(asked(listener, "/v3/auth/authenticate"), BEGIN "{\"token\":\"t\"}");
    answer(asked(listener, "/v3/kv/range"), BEGIN "{\"header\":{\"revision\":\"5\"}}");
    int watch = asked(listener, "/v3/watch");
    event_await(registry, &bell, REGISTRY_LEADER);
    registry_read(registry);
    int question = asked(listener, "/v3/kv/range"); /* it gets no answer */
    unlink(path);
    answer(watch, BEGIN "{\"error\":{\"message\":\"etcdserver: invalid auth token\"}}\n");
    event_await(registry, &bell, REGISTRY_DOWN);
    registry_read(registry);
    event_await(registry, &bell, REGISTRY_FAILED);
    event_await(registry, &bell, REGISTRY_FAILED);
    registry_close(registry);
    doorbell_destroy(&bell);
    close(question);
    close(listener);
}
