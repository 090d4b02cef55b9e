/* peer_tls.h - TLS below a peer's frames: what the peer's bytes become before they go to its socket, and back. It never
 * touches the socket. Owned by the link thread. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "net/tls_stream.h"

#define PEER_TLS_ALPN  "symphony-cluster"
#define PEER_TLS_BYTES ((size_t)128 * 1024) /* encrypted at once, and received at once */

struct peer_tls {
    struct tls *tls;
    struct tls_stream *stream; /* NULL: a stranger that has said nothing costs no session */
    enum tls_end end;
    struct text encrypted; /* to be sent; what is beyond `sent` has not gone */
    size_t sent;
    char *arrived; /* [PEER_TLS_BYTES] of all peers of the loop: what has just come, until all of it is taken */
    bool met;      /* the other end has sent something, which looks like TLS */
};

/* NULL: no memory. `arrived` outlives it. */
struct peer_tls *peer_tls_create(struct tls *tls, enum tls_end end, char *arrived);
/* NULL is allowed. */
void peer_tls_destroy(struct peer_tls *tls);

/* So many bytes of `arrived` have come. 0, or -EPROTO with a sentence: the other end speaks no TLS, or -ENOMEM. */
int peer_tls_came(struct peer_tls *tls, size_t bytes, struct sy_error *err);
/* Whether these first bytes of a link without TLS are TLS. */
bool peer_tls_is_tls(const char *data, size_t bytes);

static inline bool peer_tls_established(const struct peer_tls *tls) {
    return tls->stream && tls_stream_established(tls->stream);
}
/* How many bytes wait to be sent, and where they are. */
static inline size_t peer_tls_unsent(const struct peer_tls *tls) {
    return tls->encrypted.length - tls->sent;
}
static inline const char *peer_tls_next(const struct peer_tls *tls) {
    return tls->encrypted.data + tls->sent;
}
/* So many of them have gone. */
void peer_tls_went(struct peer_tls *tls, size_t bytes);
