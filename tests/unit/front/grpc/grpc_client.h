/* grpc_client.h - for tests of a gRPC frontend that is stepped by hand: clients over pairs of sockets, which send
 * frames made by hand. */
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include "front/grpc/grpc_state.h"
#include "fuzz/scheduler.h"

static struct grpc_frontend *frontend;

static void frontend_begin(struct frontend_config config) {
    struct frontend *made;
    assert_int_equal(frontend_make(&made, &grpc_protocol, &config, NULL), 0);
    frontend = grpc_frontend_of(made);
    made->sweep_ns = TIME_NEVER; /* only the test sweeps */
}

static int tear_down(void **state) {
    struct port *port = frontend->base.config.port;
    frontend_free(&frontend->base);
    port_destroy(port);
    return 0;
}

enum { DATA, HEADERS, RST_STREAM = 3, SETTINGS, GOAWAY = 7, WINDOW_UPDATE, END_STREAM = 1, END_HEADERS = 4 };

static void step(void) {
    for (int i = 0; i < 4; i++)
        frontend_step(&frontend->base);
}

static int client_connect_from(uint8_t address) {
    const struct peer_address nobody = {.bytes = {address}};
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    step();
    acceptor_begun(&frontend->base.acceptor, &nobody);
    connection_begin(&frontend->base, ends[0], &nobody);
    return ends[1];
}

static int client_connect(void) {
    return client_connect_from(0);
}

static void say(int fd, const void *bytes, size_t length) {
    assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
    step();
}

static void frame(int fd, int type, int flags, int stream, const void *payload, size_t length) {
    uint8_t bytes[9 + 16384] = {0, (uint8_t)(length >> 8), (uint8_t)length, (uint8_t)type, (uint8_t)flags, 0, 0,
                                0, (uint8_t)stream};
    memcpy(bytes + 9, payload, length);
    say(fd, bytes, 9 + length);
}

static void greet(int fd) {
    say(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    frame(fd, SETTINGS, 0, 0, "", 0);
}

static void call(int fd, int stream, const char *path, bool whole) {
    const char *const headers[][2] = {{":method", "POST"},
                                      {":scheme", "http"},
                                      {":path", path},
                                      {":authority", "localhost"},
                                      {"content-type", "application/grpc"},
                                      {"te", "trailers"}};
    struct text block = {0};
    for (size_t i = 0; i < ARRAY_COUNT(headers); i++) {
        text_put_char(&block, 0); /* never indexed (RFC 7541, 6.2.2) */
        for (int k = 0; k < 2; k++) {
            text_put_char(&block, (char)strlen(headers[i][k]));
            text_put(&block, headers[i][k]);
        }
    }
    frame(fd, HEADERS, whole ? END_HEADERS : 0, stream, block.data, block.length);
    text_free(&block);
}

#define INFER  "/inference.GRPCInferenceService/ModelInfer"
#define STREAM "/inference.GRPCInferenceService/ModelStreamInfer"

/* Whether a frame of this type has come, of the stream, by now; what came is gone. */
static bool came(int fd, int type, int stream) {
    static uint8_t bytes[1 << 16];
    step();
    ssize_t length = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    bool found = false;
    for (ssize_t at = 0; at + 9 <= length; at += 9 + (bytes[at + 1] << 8 | bytes[at + 2]))
        found |= bytes[at + 3] == type && bytes[at + 8] == stream;
    return found;
}
