/* fuzz_http_connection.c - bytes as from a socket into an HTTP frontend: heads, bodies and requests together.
 *
 * The input's first byte: into pieces of how many bytes the rest is cut (0: it is not). A scheduler that refuses every
 * request stands behind it; all other answers are real. Whatever comes, nothing may be left over when the client is
 * gone, and what is answered is HTTP. */
/* runs: 6000 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/http/http_state.h"
#include "scheduler.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TURNS_MAX 2000 /* until a client that is gone is noticed */

static struct http_frontend *frontend;

static void frontend_set_up(void) {
    scheduler_set_up();
    struct frontend_config config = scheduler_frontend();
    config.body_bytes_max = 1 << 20;
    config.inputs_bytes_max = 8 << 20;
    struct frontend *made;
    CHECK_EQ(frontend_make(&made, &http_protocol, &config, NULL), 0);
    frontend = http_frontend_of(made);
}

static void step(void) {
    frontend_step(&frontend->base);
    scheduler_refuse_all();
}

/* The client's end: sends a piece, if the server still takes it, and reads what there is. */
static void exchange_bytes(int client, const uint8_t *data, size_t bytes, bool *answered) {
    char got[4096];
    ssize_t n;
    do {
        n = send(client, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        data += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
        for (int i = 0; i < 3; i++)
            step();
        while ((n = recv(client, got, sizeof(got), MSG_DONTWAIT)) > 0) {
            CHECK(*answered || (n >= 7 && memcmp(got, "HTTP/1.", 7) == 0));
            *answered = true;
        }
    } while (bytes > 0 && n < 0 && errno == EAGAIN);
}

static bool over(void) {
    return acceptor_connections(&frontend->base.acceptor) == 0 && frontend->base.inferences.running == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct peer_address nobody = {{0}};
    bool answered = false;
    int ends[2];
    if (size == 0)
        return 0;
    if (!frontend)
        frontend_set_up();
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    step();
    acceptor_begun(&frontend->base.acceptor, &nobody);
    http_connection_begin(&frontend->base, ends[0], &nobody);
    size_t piece = data[0] ? data[0] : size;
    for (size_t at = 1; at < size; at += piece)
        exchange_bytes(ends[1], data + at, piece < size - at ? piece : size - at, &answered);
    close(ends[1]);
    for (int i = 0; i < TURNS_MAX && !over(); i++)
        step();
    CHECK(over());
    CHECK_EQ(atomic_load(&frontend->base.inferences.counters.in_flight), 0);
    CHECK_EQ(slab_bytes_taken(frontend->base.inferences.slab), 0);
    CHECK(list_empty(&frontend->base.connections) && list_empty(&frontend->again) && list_empty(&frontend->closed));
    return 0;
}
