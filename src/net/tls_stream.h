/* tls_stream.h - a server's end of TLS on one connection, between bytes that somebody else reads and writes.
 *
 * Its owner gives it what came from the socket and takes what it opens; what is to go out is sealed into a text of the
 * owner's. So a connection costs one receive and one send a turn, however many records and handshake messages that is.
 * One thread. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/text.h"
#include "net/tls.h"

struct tls_stream;

/* Everything it wants to send is appended to `sealed`, from within the functions below. NULL: no memory. */
struct tls_stream *tls_stream_create(struct tls *tls, const char *alpn, struct text *sealed);
/* NULL is allowed. */
void tls_stream_destroy(struct tls_stream *stream);

/* Bytes from the peer, which stay where they are until tls_stream_read() has taken them all. */
void tls_stream_give(struct tls_stream *stream, const void *data, size_t bytes);
/* What they held, after the handshake, which goes on first: > 0 bytes; 0: no more in what was given; -ECONNRESET: the
 * peer has ended it, or fails at it (it has been told why). `bytes` at least 16 KiB. */
ssize_t tls_stream_read(struct tls_stream *stream, void *data, size_t bytes);
/* The handshake is over. */
bool tls_stream_established(const struct tls_stream *stream);
/* Seals. Once established. 0, or -EIO: the stream is of no more use. */
int tls_stream_write(struct tls_stream *stream, const void *data, size_t bytes);
/* Seals the notice that nothing follows. */
void tls_stream_end(struct tls_stream *stream);
