/* channel.h - a connection to a server, in plain text or over TLS: a non-blocking socket, and the session above it. One
 * thread. Functions return -errno where they fail; channel_explain() says more. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "lab/load/client_tls.h"

struct server;

struct channel {
    int fd;
    gnutls_session_t session; /* NULL: plain text */
    int tls_code;             /* GnuTLS's code of the failure */
    bool dry;                 /* whether the last read left the socket empty */
};

/* Starts to connect to the server's address; the socket then becomes writable. The struct must not move in memory until
 * it is closed. 0, or -errno: there is no channel. */
int channel_open(struct channel *channel, const struct server *server);
/* Whether the channel has connected, once the socket is writable: 0 or -errno. */
int channel_connected(const struct channel *channel);
/* Call it after channel_connected(). 0: bytes may be sent; -EAGAIN: call it again at the next event. */
int channel_handshake(struct channel *channel);
/* The events to wait for after -EAGAIN of a handshake, or of a transfer: `wanted` is POLLIN to receive, POLLOUT to
 * send. */
short channel_events(const struct channel *channel, short wanted);
/* As send(2) and recv(2), but they return -errno. Only -EAGAIN means that there are no more bytes to receive, or that
 * there is no room to send. */
ssize_t channel_send(struct channel *channel, const char *bytes, size_t length);
ssize_t channel_receive(struct channel *channel, char *bytes, size_t size);
/* Sets `err` to the sentence about a failure. */
void channel_explain(const struct channel *channel, int rc, struct sy_error *err);
void channel_close(struct channel *channel);
