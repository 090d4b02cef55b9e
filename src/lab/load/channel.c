/* channel.c - a connection to a server, in plain text or over TLS. */
#include "lab/load/channel.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/net/tls.h"
#include "lab/load/fetch.h"

static ssize_t pull(gnutls_transport_ptr_t context, void *data, size_t bytes) {
    struct channel *c = context;
    ssize_t n;
    do
        n = recv(c->fd, data, bytes, 0);
    while (n < 0 && errno == EINTR);
    c->dry = n < 0 && errno == EAGAIN;
    return n;
}

int channel_open(struct channel *c, const struct server *server) {
    *c = (struct channel){.fd = socket(server->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    if (c->fd < 0)
        return -errno;
    int on = 1, rc = 0;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(c->fd, (const struct sockaddr *)&server->address, server->address_length) && errno != EINPROGRESS)
        rc = -errno;
    else if (server->tls && !(c->session = client_tls_session(server->tls, server->host)))
        rc = -ENOMEM;
    if (c->session) {
        gnutls_transport_set_ptr2(c->session, c, (gnutls_transport_ptr_t)(intptr_t)c->fd);
        gnutls_transport_set_pull_function(c->session, pull);
    }
    if (rc)
        channel_close(c);
    return rc;
}

int channel_connected(const struct channel *c) {
    int error = 0;
    socklen_t size = sizeof(error);
    return getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) ? -errno : -error;
}

/* The -errno for a result of GnuTLS. */
static int tls_error(struct channel *c, ssize_t code) {
    c->tls_code = (int)code;
    return code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED ? -EAGAIN
           : code == GNUTLS_E_PUSH_ERROR || code == GNUTLS_E_PULL_ERROR || code == GNUTLS_E_PREMATURE_TERMINATION
               ? -ECONNRESET
               : -EPROTO;
}

int channel_handshake(struct channel *c) {
    int code;
    if (!c->session)
        return 0;
    do
        code = gnutls_handshake(c->session);
    while (code == GNUTLS_E_INTERRUPTED || code == GNUTLS_E_WARNING_ALERT_RECEIVED);
    return code == GNUTLS_E_SUCCESS ? 0 : tls_error(c, code);
}

short channel_events(const struct channel *c, short wanted) {
    if (!c->session || c->tls_code != GNUTLS_E_AGAIN)
        return wanted;
    return gnutls_record_get_direction(c->session) ? POLLOUT : POLLIN;
}

ssize_t channel_send(struct channel *c, const char *bytes, size_t length) {
    ssize_t n;
    if (!c->session) {
        do
            n = send(c->fd, bytes, length, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
    }
    do
        n = gnutls_record_send(c->session, bytes, length);
    while (n == GNUTLS_E_INTERRUPTED);
    return n < 0 ? tls_error(c, n) : n;
}

ssize_t channel_receive(struct channel *c, char *bytes, size_t size) {
    ssize_t n;
    if (!c->session) {
        do
            n = recv(c->fd, bytes, size, 0);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
    }
    do { /* GnuTLS also says "again" after a record that is not for us, such as a ticket; more may follow */
        c->dry = false;
        n = gnutls_record_recv(c->session, bytes, size);
    } while (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_WARNING_ALERT_RECEIVED ||
             (n == GNUTLS_E_AGAIN && !c->dry && !gnutls_record_get_direction(c->session)));
    return n == GNUTLS_E_PREMATURE_TERMINATION ? 0 : n < 0 ? tls_error(c, n) : n; /* many servers omit TLS's close */
}

void channel_explain(const struct channel *c, int rc, struct sy_error *err) {
    if (rc == -EPROTO && c->session)
        tls_explain(c->session, c->tls_code, "server", err);
    else /* a server that does not speak TLS may close before what it answers is read */
        error_set(err, rc, "%s%s", c->session && rc == -ECONNRESET ? "the server broke off TLS: " : "", strerror(-rc));
}

void channel_close(struct channel *c) {
    if (c->session)
        gnutls_deinit(c->session);
    if (c->fd >= 0)
        close(c->fd);
    *c = (struct channel){.fd = -1};
}
