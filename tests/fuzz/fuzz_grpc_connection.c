/* fuzz_grpc_connection.c - bytes as from a socket into a gRPC frontend: nghttp2, connections, calls and messages
 * together.
 *
 * The input's first byte: bit 0, the client's preface and settings come before the rest; the others, into pieces of how
 * many bytes the rest is cut. A scheduler that refuses every request stands behind it; the models' descriptions, health
 * and reflection are real. Whatever comes, nothing may be left over when the client is gone. */
/* runs: 2000 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/grpc/grpc_state.h"
#include "scheduler.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void step(struct grpc_frontend *f) {
    frontend_step(&f->base);
    scheduler_refuse_all();
}

/* The client's end: sends a piece, if the server still takes it, and reads what there is. */
static void exchange_bytes(struct grpc_frontend *f, int client, const uint8_t *data, size_t bytes) {
    char got[4096];
    while (bytes > 0) {
        ssize_t n = send(client, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            return;
        data += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
        step(f);
        while (recv(client, got, sizeof(got), MSG_DONTWAIT) > 0) {
        }
    }
    step(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    static const struct peer_address nobody;
    struct grpc_frontend *f;
    int ends[2];
    if (size == 0)
        return 0;
    if (!wiring.requests)
        scheduler_set_up();
    struct frontend_config config = scheduler_frontend();
    config.body_bytes_max = 1 << 20;
    config.inputs_bytes_max = 8 << 20;
    struct frontend *made;
    CHECK_EQ(frontend_make(&made, &grpc_protocol, &config, NULL), 0);
    f = grpc_frontend_of(made);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    step(f);
    acceptor_begun(&f->base.acceptor, &nobody);
    connection_begin(&f->base, ends[0], &nobody);
    if (data[0] & 1)
        exchange_bytes(f, ends[1], (const uint8_t *)preface, sizeof(preface)); /* its end is the settings' */
    size_t piece = data[0] >> 1 ? data[0] >> 1 : size;
    for (size_t at = 1; at < size; at += piece)
        exchange_bytes(f, ends[1], data + at, piece < size - at ? piece : size - at);
    close(ends[1]);
    for (int i = 0; i < 4; i++)
        step(f);
    CHECK(list_empty(&f->base.connections));
    CHECK_EQ(f->base.inferences.running, 0);
    CHECK_EQ(atomic_load(&f->base.inferences.counters.in_flight), 0);
    CHECK_EQ(slab_bytes_taken(f->base.inferences.slab), 0);
    frontend_free(&f->base);
    port_destroy(config.port);
    return 0;
}
