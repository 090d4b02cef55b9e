/* stream.h - a client's connection as a stream of bytes, the same for every protocol: a socket in the thread's epoll
 * set, TLS or plain text, and the bytes that the socket did not take yet.
 *
 * The socket is watched level-triggered, so the kernel reports again what was not read or written: a thread that sleeps
 * misses nothing, however little it did in its turn. A protocol that cannot take more bytes stops reading
 * (stream_reading()). Owned by one frontend's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "core/util/histogram.h"
#include "core/util/text.h"
#include "front/net/read_queue.h"
#include "front/net/tls_stream.h"

/* The part that all streams of a thread share. */
struct stream_home {
    int epoll_fd;
    struct tls *tls;             /* TLS of new connections; NULL: plain text */
    const char *alpn;            /* name of the protocol in TLS */
    char *decrypted;             /* [STREAM_RECORD_BYTES] bytes that TLS has decrypted */
    struct text encrypted;       /* bytes from TLS that are to be sent on the stream that is read or written now */
    struct histogram *waited_ns; /* waits of bytes, from their arrival until they were received */
    int handshakes;              /* steps of TLS handshakes that this turn may still take */
    struct read_queue reads;     /* streams that are left unread for now, while the thread is behind */
};

#define STREAM_RECORD_BYTES ((size_t)16 * 1024) /* most bytes in a TLS record */

struct stream {
    struct stream_home *home;
    int fd;                  /* socket; -1: closed, though epoll may still report an event of it */
    uint32_t watched;        /* events that epoll is asked for, EPOLLIN even while `held` */
    bool held;               /* input is not watched, since the stream waits in the queue */
    struct read_place place; /* place in home->reads */
    struct tls_stream *tls;  /* TLS of the connection; NULL: plain text */
    struct text unsent;      /* bytes that the socket did not take; sent when it is writable */
    size_t unsent_at;        /* bytes of `unsent` that have been sent */
    bool shut;               /* the peer has ended its sending side; earlier bytes may be unread */
    int64_t begun_ns;        /* time at which the connection was accepted */
    int64_t active_ns;       /* time at which a byte was last read or written */
};

/* 0 or -ENOMEM; call stream_home_destroy() in either case. */
int stream_home_init(struct stream_home *home, int epoll_fd, struct tls *tls, const char *alpn,
                     struct histogram *waited_ns);
void stream_home_destroy(struct stream_home *home);

/* Takes over a non-blocking socket, and watches it for input; epoll returns the stream with the socket's events. 0, or
 * -errno: the socket is still the caller's. */
int stream_open(struct stream *stream, struct stream_home *home, int fd, int64_t now_ns);
/* Closes the socket. Over TLS it first tells the peer that the stream ends, if the socket takes that at once. */
void stream_close(struct stream *stream);

/* Takes the socket, of plain text and with nothing unsent, out of the epoll set, and returns it open. */
int stream_release(struct stream *stream);
/* Watches for input, or stops watching. epoll reports the end of the peer's sending side either way, until
 * stream_shut(). */
void stream_reading(struct stream *stream, bool wanted);
/* Watches for room in the socket, or stops watching, unless something is unsent. */
void stream_writing(struct stream *stream, bool wanted);
/* While a stream waits in the queue (`held`), epoll does not report its input. */
void stream_hold(struct stream *stream, bool held);
/* The end of the peer's sending side has been reported: stops watching for it. */
void stream_shut(struct stream *stream);
/* Whether the TLS handshake is not over yet. */
static inline bool stream_greets(const struct stream *stream) {
    return stream->tls && !tls_stream_established(stream->tls);
}
/* Ask it before a receive. False: the TLS handshake must wait, since this turn has taken enough steps of other
 * handshakes. */
static inline bool stream_may_greet(struct stream *stream) {
    return !stream_greets(stream) || stream->home->handshakes-- > 0;
}
/* Whether the socket has not taken all that was written. */
static inline bool stream_congested(const struct stream *stream) {
    return stream->unsent.length > 0;
}
/* Bytes that were written and that the peer's machine has not acknowledged. Makes a system call. */
size_t stream_pending(const struct stream *stream);

/* Receives into `data`, by one system call. > 0: so many bytes; 0: the peer sends no more; -EAGAIN: nothing now; else
 * -errno. *arrived_ns is the time at which the kernel had the last of them, by the clock of the threads, or now if the
 * kernel does not say. Bytes of a stream with TLS are still encrypted: give them to tls_stream_give(). */
ssize_t stream_receive(struct stream *stream, void *data, size_t bytes, int64_t *arrived_ns);

/* Sends the pieces, and may change the iovecs; over TLS the bytes are encrypted first. Bytes that the socket does not
 * take are kept, and go out before anything later. 1: all went out; 0: something is unsent; negative: the connection is
 * dead. */
int stream_write(struct stream *stream, struct iovec *pieces, size_t count, int64_t now_ns);
/* For plain text, while nothing is unsent: sends what the socket takes at once, and keeps nothing. The number of bytes
 * sent, or -errno. */
ssize_t stream_send(struct stream *stream, struct iovec *pieces, size_t count, int64_t now_ns);
/* Sends what TLS itself has to send, for the handshake. Returns as stream_write(). */
int stream_write_encrypted(struct stream *stream, int64_t now_ns);
/* The socket takes more: sends what is unsent. Returns as stream_write(). */
int stream_flush(struct stream *stream, int64_t now_ns);
