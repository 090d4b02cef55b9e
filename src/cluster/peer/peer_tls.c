/* peer_tls.c - encrypts and decrypts the bytes of a peer. */
#include "cluster/peer/peer_tls.h"

#include <errno.h>
#include <stdlib.h>

/* The first bytes of a record (RFC 8446, 5.1): its type, and the major version. */
#define RECORD_ALERT     21
#define RECORD_HANDSHAKE 22
#define RECORD_VERSION   3

static bool stream_make(struct peer_tls *t) {
    t->stream = tls_stream_create(t->tls, t->end, PEER_TLS_ALPN, &t->encrypted);
    return t->stream;
}

struct peer_tls *peer_tls_create(struct tls *tls, enum tls_end end, char *arrived) {
    struct peer_tls *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->tls = tls;
    t->end = end;
    t->arrived = arrived;
    text_init(&t->encrypted, NULL, 0);
    if (end == TLS_CLIENT && !stream_make(t)) {
        free(t);
        return NULL;
    }
    return t;
}

void peer_tls_destroy(struct peer_tls *t) {
    if (!t)
        return;
    tls_stream_destroy(t->stream);
    text_free(&t->encrypted);
    free(t);
}

bool peer_tls_is_tls(const char *data, size_t bytes) {
    return bytes > 0 && (data[0] == RECORD_HANDSHAKE || data[0] == RECORD_ALERT) &&
           (bytes == 1 || data[1] == RECORD_VERSION);
}

int peer_tls_came(struct peer_tls *t, size_t bytes, struct sy_error *err) {
    if (!t->met && !peer_tls_is_tls(t->arrived, bytes))
        return error_set(err, -EPROTO, "it does not speak TLS, which the links of this process need");
    if (!t->stream && !stream_make(t))
        return error_set(err, -ENOMEM, "no memory for TLS");
    t->met = true;
    tls_stream_give(t->stream, t->arrived, bytes);
    return 0;
}

void peer_tls_went(struct peer_tls *t, size_t bytes) {
    t->sent += bytes;
    if (t->sent == t->encrypted.length)
        t->sent = t->encrypted.length = 0;
}
