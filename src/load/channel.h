/* channel.h - a connection to a server, in plain text or over TLS: a non-blocking socket, and the session above it. One
 * thread. Functions return -errno where they fail; channel_explain() says more. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "load/client_tls.h"

struct server;

struct channel {
    int fd;
    gnutls_session_t session; /* NULL: plain text */
    int tls_code;             /* GnuTLS's, of the failure */
    bool dry;                 /* the socket held no more when it was last read */
};

/* Starts to connect, as the server's address says; it becomes writable. It stays where it is in memory until it is
 * closed. 0 or -errno: there is none. */
int channel_open(struct channel *channel, const struct server *server);
/* Whether that went well, once it is writable: 0 or -errno. */
int channel_connected(const struct channel *channel);
/* Then: 0 once bytes may be sent; -EAGAIN: again at the next event. */
int channel_handshake(struct channel *channel);
/* What -EAGAIN of a handshake, or of `wanted` (POLLIN to receive, POLLOUT to send), waits for. */
short channel_events(const struct channel *channel, short wanted);
/* As send(2) and recv(2), but -errno. Only -EAGAIN says that there is no more to receive, or no room. */
ssize_t channel_send(struct channel *channel, const char *bytes, size_t length);
ssize_t channel_receive(struct channel *channel, char *bytes, size_t size);
/* The sentence that belongs to a failure. */
void channel_explain(const struct channel *channel, int rc, struct sy_error *err);
void channel_close(struct channel *channel);
