/* tls_stream.h - one end of TLS on one connection. It never touches the socket.
 *
 * Its owner gives it bytes from the socket and reads the decrypted bytes from it. Bytes to be sent are encrypted into a
 * text of the owner's. So a connection costs one receive and one send a turn, however many records and handshake
 * messages these hold. Used by one thread. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "core/util/text.h"
#include "front/net/tls.h"

struct tls_stream;

/* The functions below append the bytes to be sent to `encrypted`. NULL: no memory. */
struct tls_stream *tls_stream_create(struct tls *tls, enum tls_end end, const char *alpn, struct text *encrypted);
/* NULL is allowed. */
void tls_stream_destroy(struct tls_stream *stream);

/* Gives the stream bytes from the peer. They must stay in place until tls_stream_read() has taken all of them. */
void tls_stream_give(struct tls_stream *stream, const void *data, size_t bytes);
/* Goes on with the handshake, then decrypts the given bytes. A client begins the handshake by a call with nothing
 * given. > 0: so many bytes; 0: the given bytes hold no more; -ESHUTDOWN: the peer sends nothing more, but may still
 * read; -ECONNRESET: it has ended the stream, or has made a mistake, of which it is told. */
ssize_t tls_stream_read(struct tls_stream *stream, void *data, size_t bytes);
/* Says why tls_stream_read() has returned less than 0. */
void tls_stream_explain(const struct tls_stream *stream, struct sy_error *err);
/* Whether the handshake is over. */
bool tls_stream_established(const struct tls_stream *stream);
/* Encrypts bytes. Call it only once the stream is established. 0, or -EIO: the stream is of no more use. */
int tls_stream_write(struct tls_stream *stream, const void *data, size_t bytes);
/* Encrypts the message that says that nothing follows. */
void tls_stream_end(struct tls_stream *stream);
