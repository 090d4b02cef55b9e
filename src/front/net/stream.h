/* stream.h - a client's connection as a stream of bytes, the same for every protocol: a socket in the thread's epoll
 * set, TLS or plain text, and the bytes that the socket did not take yet.
 *
 * The socket is watched level-triggered, so the kernel tells again of what was not read or written: a thread that
 * sleeps misses nothing, however little it did in its turn. A protocol that cannot take more bytes stops reading
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

/* What one thread's streams share. */
struct stream_home {
    int epoll_fd;
    struct tls *tls;             /* NULL: plain text */
    const char *alpn;            /* the protocol that TLS is asked for */
    char *decrypted;             /* [STREAM_RECORD_BYTES] out of TLS */
    struct text encrypted;       /* by TLS, to be sent: of the stream that is read or written now */
    struct histogram *waited_ns; /* from a piece's arrival to its receive */
    int handshakes;              /* steps of handshakes that this turn may still take */
    struct read_queue reads;     /* streams that are left unread for now, while the thread is behind */
};

#define STREAM_RECORD_BYTES ((size_t)16 * 1024) /* what a record of TLS holds at most */

struct stream {
    struct stream_home *home;
    int fd;                  /* -1: closed, and perhaps still told of by epoll */
    uint32_t watched;        /* events */
    bool held;               /* not watched for input, though it is wanted: it waits in the queue */
    struct read_place place; /* in the queue */
    struct tls_stream *tls;  /* NULL: plain text */
    struct text unsent;      /* what the socket did not take; sent when it is writable */
    size_t unsent_at;
    bool shut;         /* the peer has ended its sending side; bytes from before may be unread */
    int64_t begun_ns;  /* when it was accepted */
    int64_t active_ns; /* when a byte was last read or written */
};

/* 0 or -ENOMEM; destroy in either case. */
int stream_home_init(struct stream_home *home, int epoll_fd, struct tls *tls, const char *alpn,
                     struct histogram *waited_ns);
void stream_home_destroy(struct stream_home *home);

/* Takes over the socket, which is not blocking, and watches it for input; epoll gives the stream back with its events.
 * 0, or -errno: the socket is still the caller's. */
int stream_open(struct stream *stream, struct stream_home *home, int fd, int64_t now_ns);
/* Over TLS tells the peer that it ends, if the socket takes that at once; then closes. */
void stream_close(struct stream *stream);

/* Watches for input, or stops. The end of what the peer sends is told in either case, once. */
void stream_reading(struct stream *stream, bool wanted);
/* Watches for room in the socket, or stops; while something is unsent it always watches. */
void stream_writing(struct stream *stream, bool wanted);
/* While it waits in the queue, epoll need not tell again that there is something to read. */
void stream_hold(struct stream *stream, bool held);
/* The peer's end has been told: stops watching for it. */
void stream_shut(struct stream *stream);
/* A TLS handshake is still going on. */
static inline bool stream_greets(const struct stream *stream) {
    return stream->tls && !tls_stream_established(stream->tls);
}
/* Before a receive. False: the handshake must wait, since this turn has taken enough steps of others. */
static inline bool stream_may_greet(struct stream *stream) {
    return !stream_greets(stream) || stream->home->handshakes-- > 0;
}
static inline bool stream_congested(const struct stream *stream) {
    return stream->unsent.length > 0;
}
/* Bytes that were written and that the peer's machine has not acknowledged. A system call. */
size_t stream_pending(const struct stream *stream);

/* One receive into `data`. > 0: so many bytes; 0: the peer sends no more; -EAGAIN: nothing now; else -errno.
 * *arrived_ns is when the kernel had the last of them, by the clock of the threads, or now where the kernel does not
 * say. In plain text these are the peer's bytes; with TLS they go to tls_stream_give(). */
ssize_t stream_receive(struct stream *stream, void *data, size_t bytes, int64_t *arrived_ns);

/* Sends the pieces, which may be changed; over TLS they are encrypted first. What the socket does not take is kept, and
 * goes out before anything later. 1: all went out; 0: something is unsent; negative: the connection is dead. */
int stream_write(struct stream *stream, struct iovec *pieces, size_t count, int64_t now_ns);
/* Plain text only: sends what the socket takes at once, and keeps nothing. How many bytes, or -errno. Not while
 * something is unsent. */
ssize_t stream_send(struct stream *stream, struct iovec *pieces, size_t count, int64_t now_ns);
/* Sends what TLS wants to send by itself, for the handshake. As stream_write(). */
int stream_write_encrypted(struct stream *stream, int64_t now_ns);
/* The socket takes more: sends what is unsent. As stream_write(). */
int stream_flush(struct stream *stream, int64_t now_ns);
