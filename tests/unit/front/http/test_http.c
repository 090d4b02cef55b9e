/* test_http.c - HTTP frontends whose answers are given by another thread, as the link thread of a cluster does, while
 * clients ask, leave and break off. */
/* Starts threads. */
#include "unit/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/util/rng.h"
#include "front/http/http.h"
#include "front/net/frontend.h"
#include "front/net/listen.h"
#include "fuzz/scheduler.h"
#include "unit/loopback.h"

#define CLIENTS 4
#define ASKED   300 /* by each client */

static const char body[] = "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP64\",\"shape\":[2,2],\"data\":[1,2,3,4]}]}";
static int tcp_port;
static _Atomic bool over;

static void *answers(void *unused) {
    while (!atomic_load(&over)) {
        scheduler_refuse_all();
        doorbell_ring_or_help(&wiring.frontend_bells[0], true);
        usleep(50);
    }
    return unused;
}

/* Reads one answer: its head, and the sentence in its body. */
static void answer_read(int fd) {
    char text[4096], *end = NULL;
    size_t length = 0, whole = 0;
    while (!whole || length < whole) {
        ssize_t n = recv(fd, text + length, sizeof(text) - 1 - length, 0);
        CHECK_LT(0, n);
        text[length += (size_t)n] = '\0';
        if (!whole && (end = strstr(text, "\r\n\r\n")))
            whole = (size_t)(end + 4 - text) + strtoul(strstr(text, "Content-Length: ") + 16, NULL, 10);
    }
    CHECK_EQ(length, whole);
    CHECK_EQ(strncmp(text, "HTTP/1.1 503", 12), 0);
}

/* Of ten requests one is not waited for: its connection is reset. */
static void *asks(void *number) {
    struct rng rng;
    char request[512];
    size_t bytes = (size_t)snprintf(request, sizeof(request),
                                    "POST /v2/models/single/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s",
                                    sizeof(body) - 1, body);
    int fd = loopback_connect(tcp_port);
    rng_seed(&rng, (uint64_t)(uintptr_t)number);
    for (int i = 0; i < ASKED; i++) {
        CHECK_EQ(send(fd, request, bytes, MSG_NOSIGNAL), bytes);
        if (rng_below(&rng, 10) > 0) {
            answer_read(fd);
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
        close(fd);
        fd = loopback_connect(tcp_port);
    }
    close(fd);
    return NULL;
}

TEST(answers_of_another_thread) {
    pthread_t answerer, clients[CLIENTS];
    struct frontend *frontend;
    scheduler_set_up();
    struct frontend_config config = scheduler_frontend();
    config.body_bytes_max = config.inputs_bytes_max = 1 << 20;
    config.connections_max = 64;
    assert_int_equal(listen_open("127.0.0.1", 0, "HTTP", &config.listen_fd, &tcp_port, NULL), 0);
    assert_int_equal(frontend_start(&frontend, &http_protocol, &config, NULL), 0);
    pthread_create(&answerer, NULL, answers, NULL);
    for (uintptr_t i = 0; i < CLIENTS; i++)
        pthread_create(&clients[i], NULL, asks, (void *)(i + 1));
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    frontend_stop(frontend); /* all are back: the scheduler still runs */
    atomic_store(&over, true);
    pthread_join(answerer, NULL);
    port_destroy(config.port);
    close(config.listen_fd);
}
