/* peer_tls.h - TLS below a peer's frames: encrypts bytes for the socket, and decrypts bytes from the socket, which it
 * never uses itself. Owned by the link thread. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "front/net/tls_stream.h"

#define PEER_TLS_ALPN  "symphony-cluster"
#define PEER_TLS_BYTES ((size_t)128 * 1024) /* most bytes encrypted, or received, at a time */

struct peer_tls {
    struct tls *tls;
    struct tls_stream *stream; /* session; NULL until bytes were received, so that silent strangers cost no session */
    enum tls_end end;
    struct text encrypted; /* encrypted bytes to be sent */
    size_t sent;           /* bytes of `encrypted` that were sent */
    char *arrived; /* [PEER_TLS_BYTES] bytes just received, until all are taken; shared by all peers of the loop */
    bool met;      /* the other end has sent bytes that look like TLS */
};

/* `arrived` outlives the result. NULL: no memory. */
struct peer_tls *peer_tls_create(struct tls *tls, enum tls_end end, char *arrived);
/* NULL is allowed. */
void peer_tls_destroy(struct peer_tls *tls);

/* `bytes` were received into `arrived`. 0; -EPROTO with a sentence: the other end does not use TLS; -ENOMEM. */
int peer_tls_came(struct peer_tls *tls, size_t bytes, struct sy_error *err);
/* Whether the first bytes received on a link without TLS look like TLS. */
bool peer_tls_is_tls(const char *data, size_t bytes);

static inline bool peer_tls_established(const struct peer_tls *tls) {
    return tls->stream && tls_stream_established(tls->stream);
}
/* The number of bytes that wait to be sent, and their address. */
static inline size_t peer_tls_unsent(const struct peer_tls *tls) {
    return tls->encrypted.length - tls->sent;
}
static inline const char *peer_tls_next(const struct peer_tls *tls) {
    return tls->encrypted.data + tls->sent;
}
/* `bytes` of those were sent. */
void peer_tls_went(struct peer_tls *tls, size_t bytes);
