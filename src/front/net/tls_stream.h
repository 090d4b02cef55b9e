/* tls_stream.h - one end of TLS on one connection. It never touches the socket.
 *
 * Its owner gives it what came from the socket and takes what that held; what is to go out is encrypted into a text of
 * the owner's. So a connection costs one receive and one send a turn, however many records and handshake messages that
 * is. One thread. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "core/util/text.h"
#include "front/net/tls.h"

struct tls_stream;

/* All functions below append what is to be sent to `encrypted`. NULL: no memory. */
struct tls_stream *tls_stream_create(struct tls *tls, enum tls_end end, const char *alpn, struct text *encrypted);
/* NULL is allowed. */
void tls_stream_destroy(struct tls_stream *stream);

/* Gives it bytes from the peer. They stay where they are until tls_stream_read() has taken them all. */
void tls_stream_give(struct tls_stream *stream, const void *data, size_t bytes);
/* Goes on with the handshake, which a client begins so with nothing given, then decrypts what was given: > 0: so many
 * bytes; 0: no more in it; -ECONNRESET: the peer has ended the stream, or has made a mistake, of which it is told. */
ssize_t tls_stream_read(struct tls_stream *stream, void *data, size_t bytes);
/* Says why tls_stream_read() has returned -ECONNRESET. */
void tls_stream_explain(const struct tls_stream *stream, struct sy_error *err);
/* The handshake is over. */
bool tls_stream_established(const struct tls_stream *stream);
/* Encrypts; once the stream is established. 0, or -EIO: it is of no more use. */
int tls_stream_write(struct tls_stream *stream, const void *data, size_t bytes);
/* Encrypts the message that says that nothing follows. */
void tls_stream_end(struct tls_stream *stream);
