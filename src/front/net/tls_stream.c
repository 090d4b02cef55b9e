/* tls_stream.c - GnuTLS whose transport is memory. */
#include "front/net/tls_stream.h"

#include <errno.h>
#include <stdlib.h>

#define HANDSHAKE_BYTES_MAX ((size_t)64 * 1024) /* most bytes of one handshake message: a chain of certificates */

struct tls_stream {
    gnutls_session_t session;
    enum tls_end end;
    int failed; /* GnuTLS's error that ended the stream; 0: none */
    struct tls_credentials *credentials;
    struct text *encrypted; /* bytes to be sent, the owner's text */
    const char *given;      /* [given_bytes] bytes from the peer that GnuTLS has not taken yet */
    size_t given_bytes;
    bool established;
};

static ssize_t pull(gnutls_transport_ptr_t context, void *data, size_t bytes) {
    struct tls_stream *s = context;
    if (s->given_bytes == 0) {
        gnutls_transport_set_errno(s->session, EAGAIN);
        return -1;
    }
    bytes = bytes < s->given_bytes ? bytes : s->given_bytes;
    memcpy(data, s->given, bytes);
    s->given += bytes;
    s->given_bytes -= bytes;
    return (ssize_t)bytes;
}

static ssize_t push(gnutls_transport_ptr_t context, const void *data, size_t bytes) {
    struct tls_stream *s = context;
    text_append(s->encrypted, data, bytes);
    if (!s->encrypted->failed)
        return (ssize_t)bytes;
    gnutls_transport_set_errno(s->session, ENOMEM);
    return -1;
}

struct tls_stream *tls_stream_create(struct tls *tls, enum tls_end end, const char *alpn, struct text *encrypted) {
    const unsigned side = end == TLS_SERVER ? GNUTLS_SERVER : GNUTLS_CLIENT;
    struct tls_stream *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->end = end;
    s->encrypted = encrypted;
    if (gnutls_init(&s->session, side | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS) < 0) {
        free(s);
        return NULL;
    }
    s->credentials = tls_prepare(tls, s->session, end, alpn);
    if (!s->credentials) {
        tls_stream_destroy(s);
        return NULL;
    }
    gnutls_handshake_set_max_packet_length(s->session, HANDSHAKE_BYTES_MAX);
    gnutls_handshake_set_timeout(s->session, GNUTLS_INDEFINITE_TIMEOUT); /* the owner has a timeout of its own */
    gnutls_transport_set_ptr(s->session, s);
    gnutls_transport_set_pull_function(s->session, pull);
    gnutls_transport_set_push_function(s->session, push);
    return s;
}

void tls_stream_destroy(struct tls_stream *s) {
    if (!s)
        return;
    gnutls_deinit(s->session);
    tls_release(s->credentials);
    free(s);
}

void tls_stream_give(struct tls_stream *s, const void *data, size_t bytes) {
    s->given = data;
    s->given_bytes = bytes;
}

/* Goes on with the handshake. 1: established; 0: it is the peer's turn; negative: failed. */
static int handshake(struct tls_stream *s) {
    int rc;
    do
        rc = gnutls_handshake(s->session);
    while (rc == GNUTLS_E_INTERRUPTED || rc == GNUTLS_E_WARNING_ALERT_RECEIVED);
    if (rc == GNUTLS_E_AGAIN)
        return 0;
    s->established = rc == GNUTLS_E_SUCCESS;
    if (s->established)
        return 1;
    gnutls_alert_send_appropriate(s->session, rc);
    s->failed = rc;
    return -ECONNRESET;
}

ssize_t tls_stream_read(struct tls_stream *s, void *data, size_t bytes) {
    if (!s->established) {
        int rc = handshake(s);
        if (rc <= 0)
            return rc;
    }
    for (;;) {
        size_t given_bytes = s->given_bytes;
        ssize_t n = gnutls_record_recv(s->session, data, bytes);
        if (n > 0)
            return n;
        if (n == GNUTLS_E_AGAIN && (s->given_bytes == 0 || s->given_bytes == given_bytes))
            return 0;
        if (n == GNUTLS_E_AGAIN) /* returned also after a record for GnuTLS itself, such as new keys */
            continue;
        if (n == 0)
            return -ESHUTDOWN;
        if (n != GNUTLS_E_INTERRUPTED &&
            n != GNUTLS_E_WARNING_ALERT_RECEIVED) { /* any other error ends the stream, also a renegotiation */
            s->failed = (int)n;
            return -ECONNRESET;
        }
    }
}

void tls_stream_explain(const struct tls_stream *s, struct sy_error *err) {
    const char *other = s->end == TLS_SERVER ? "client" : "server";
    if (s->failed)
        tls_explain(s->session, s->failed, other, err);
    else
        error_set(err, 0, "the %s ended TLS", other);
}

bool tls_stream_established(const struct tls_stream *s) {
    return s->established;
}

int tls_stream_write(struct tls_stream *s, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = gnutls_record_send(s->session, at, bytes);
        if (n < 0)
            return -EIO;
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

void tls_stream_end(struct tls_stream *s) {
    if (s->established)
        gnutls_bye(s->session, GNUTLS_SHUT_WR);
}
