/* peer.h - one connection to another process: frames in, frames out, over a non-blocking socket and epoll.
 *
 * Owned by the link thread, which alone calls these functions. Frames sent in a turn are kept until peer_flush(), which
 * sends them by one system call as far as the socket takes them. Small heads are copied, bodies are sent from their own
 * memory. Received frames are passed to peer_events: a head when it is complete, a body when it is complete in the
 * memory that body() has given.
 *
 * Over TLS (peer_secure()) pieces are encrypted when the socket takes them, after which their memory is no longer
 * needed, and received bytes are decrypted into the buffer or the body's memory. */
#pragma once

#include <stdbool.h>
#include <sys/uio.h>

#include "cluster/peer/wire.h"
#include "core/util/counter.h"
#include "core/util/list.h"

#define PEER_FDS_MAX    64                  /* most descriptors that come with a frame */
#define PEER_PIECES_MAX (TENSORS_MAX + 1)   /* of a body */
#define PEER_OUT_MAX    ((size_t)256 << 20) /* bytes copied and not sent; a peer with more is too slow and closed */

struct peer;
struct peer_tls; /* cluster/peer/peer_tls.h */
struct tls;      /* front/net/tls.h */

struct peer_events {
    /* A frame's head, already checked; it is valid only during the call. A frame without a body is complete. -errno
     * with a sentence closes the connection. */
    int (*frame)(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err);
    /* Where the body of that frame goes: pieces of `body_bytes` together. Without pieces (0), or if this is NULL, the
     * body is read and discarded. */
    uint32_t (*body)(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]);
    /* That body is complete. May be NULL. */
    void (*body_over)(struct peer *peer);
    /* The connection is closed; no further function is called. Call peer_free(), immediately or later. */
    void (*closed)(struct peer *peer, const char *reason);
};

/* A piece of a body was sent, or never will be: its memory may be reused. */
typedef void peer_sent(void *context, uint64_t tag);

struct out_piece;

/* The cost of a link thread's connections; written by that thread, read by anyone. */
struct link_counts {
    _Atomic uint64_t turns;        /* of the thread */
    _Atomic uint64_t reads, sends; /* system calls that transferred something */
    _Atomic uint64_t frames_in, frames_out, bytes_in, bytes_out;
};

struct peer {
    const struct peer_events *events;
    void *owner;                /* context of the events */
    struct list_node link;      /* of the owner */
    struct list_node flush;     /* of `flushes`, while flush_wanted */
    struct list_node *flushes;  /* the thread's list of peers to be flushed; NULL: the owner checks flush_wanted */
    struct link_counts *counts; /* of all connections of the thread; NULL: not counted */
    struct list_node greet;     /* of the loop, while it waits for the next step of its handshake */
    int fd, epoll_fd;
    char name[160]; /* in logs: "backend 10.0.0.3:41234" */
    bool connecting, closed, writable_wanted, flush_wanted;
    bool flushed_last;    /* flushed after the owner's other peers in a turn: so what it is told of frames to others is
                           * true when it reads it */
    bool stranger;        /* it connected to us, and has not introduced itself: only short frames are accepted */
    bool paused;          /* nothing is read */
    struct peer_tls *tls; /* NULL: plain text */
    int64_t heard_ns;     /* when something was last received */
    uint32_t format;      /* of frames, once both ends have introduced themselves; before that the oldest */
    /* in */
    char *in;
    size_t in_room, in_used, in_taken;
    struct frame frame; /* whose head or body is being received */
    bool in_body;
    struct iovec pieces[PEER_PIECES_MAX];
    uint32_t piece, piece_count;
    uint64_t body_left;
    int fds[PEER_FDS_MAX]; /* received and not taken yet */
    uint32_t fd_count;
    /* out */
    struct out_piece *out; /* [out_room] a ring */
    uint32_t out_room, out_first, out_count;
    size_t out_copied;  /* bytes of all copies in it */
    struct frame *last; /* the last frame, while more structs may be added to it; in the last piece */
    uint64_t bytes_in, bytes_out;
};

/* Takes over a connected or connecting socket, and watches it. 0, or -errno: the socket still belongs to the caller. */
int peer_init(struct peer *peer, int fd, bool connecting, int epoll_fd, const struct peer_events *events, void *owner);
/* Uses TLS on the connection, as the client if we made it. Call it right after peer_init(). `arrived` is PEER_TLS_BYTES
 * of memory for all peers of a thread. 0 or -ENOMEM: close the peer. */
int peer_secure(struct peer *peer, struct tls *tls, char *arrived);
/* Whether the next epoll event continues a stranger's TLS handshake, which takes a millisecond. */
bool peer_greets(const struct peer *peer);
/* Whether nothing has been received from it so far. */
bool peer_is_silent(const struct peer *peer);
/* Stops reading for now, or reads again. The end of the connection is reported either way. */
void peer_pause(struct peer *peer, bool paused);
/* It has introduced itself: longer frames are accepted from now on. */
void peer_welcome(struct peer *peer);
/* Closes the connection, without calling closed(); calls the peer_sent of all bodies. */
void peer_close(struct peer *peer);
/* Ends a peer that is still connecting, as peer_close() does, but returns its socket open: nothing was sent on it. */
int peer_release(struct peer *peer);
/* Frees the memory of a closed peer. */
void peer_free(struct peer *peer);

/* Handles an epoll event. The peer may be closed afterwards. */
void peer_ready(struct peer *peer, uint32_t epoll_events, int64_t now_ns);

/* Adds a frame. Returns the memory of its head, to be filled in before anything else is sent, or NULL: the connection
 * is closed, or will be closed soon because memory is out or the peer reads too slowly. */
void *peer_frame(struct peer *peer, enum frame_kind kind, uint32_t count, size_t head_bytes, uint64_t body_bytes);
/* The same with a given head, which is copied. */
void peer_send(struct peer *peer, enum frame_kind kind, uint32_t count, const void *head, size_t head_bytes);
/* Adds a struct, and returns its memory, or NULL like peer_frame(): in the last frame, if that is of this kind, has
 * fewer than `most` structs and no body, and has not been sent; else in a new frame. */
void *peer_frame_more(struct peer *peer, enum frame_kind kind, size_t struct_bytes, uint32_t most);
/* Adds a piece of the body of the last frame. It is copied if it is small; otherwise its memory must stay until `sent`
 * is called with the context (NULL: it always stays). A frame must be followed by pieces of all bytes of its body. */
void peer_body(struct peer *peer, const void *data, size_t bytes, peer_sent *sent, void *context, uint64_t tag);
/* Sends a frame with descriptors over a Unix socket, immediately. The descriptors still belong to the caller. 0 or
 * -errno. */
int peer_send_fds(struct peer *peer, enum frame_kind kind, uint32_t count, const void *head, size_t head_bytes,
                  const int *fds, uint32_t fd_count);
/* Sends as much as the socket takes. */
void peer_flush(struct peer *peer);
/* Bytes that have not reached the other end's host yet: they wait here, or in the socket. */
size_t peer_unsent(const struct peer *peer);
