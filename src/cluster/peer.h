/* peer.h - one connection to another process: frames in, frames out, over a non-blocking socket and epoll.
 *
 * Owned by one thread, the link thread, which alone calls these functions. What is sent in a turn is kept until
 * peer_flush(), which makes one system call for all of it while the socket takes it. Small heads are copied, bodies are
 * sent from where they lie. What has come is handed to peer_events: a head when all of it is there, a body when all of
 * it lies where begin_body() wanted it.
 *
 * Over TLS (peer_secure()) pieces are encrypted as the socket takes them, which is also when their memory is free
 * again, and what comes is decrypted to where it belongs. */
#pragma once

#include <stdbool.h>
#include <sys/uio.h>

#include "base/counter.h"
#include "base/list.h"
#include "cluster/wire.h"

#define PEER_FDS_MAX    64                  /* descriptors that may come with a frame */
#define PEER_PIECES_MAX (TENSORS_MAX + 1)   /* of a body */
#define PEER_OUT_MAX    ((size_t)256 << 20) /* bytes copied and not sent, from which on a peer is too slow: closed */

struct peer;
struct peer_tls; /* cluster/peer_tls.h */
struct tls;      /* net/tls.h */

struct peer_events {
    /* A frame's head, checked, which is gone afterwards, and of one without a body the whole frame. -errno with a
     * sentence closes the connection. */
    int (*frame)(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err);
    /* Where the body of the frame goes whose head was just taken: pieces that have `body_bytes` together. Without
     * pieces (0), or where this is NULL, it is read and thrown away. */
    uint32_t (*body)(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]);
    /* All of that body has come. NULL: of no concern. */
    void (*body_over)(struct peer *peer);
    /* The connection is over, and peer_free() is due, at once or later: nothing is called any more. */
    void (*closed)(struct peer *peer, const char *reason);
};

/* Tells that a body was sent (or never will be): its memory may be used for something else. */
typedef void peer_sent(void *context, uint64_t tag);

struct out_piece;

/* What a link thread's connections have cost; written by that thread, read by anyone. */
struct link_counts {
    _Atomic uint64_t turns;        /* of the thread */
    _Atomic uint64_t reads, sends; /* system calls that brought or took something */
    _Atomic uint64_t frames_in, frames_out, bytes_in, bytes_out;
};

struct peer {
    const struct peer_events *events;
    void *owner;                /* who the events are for */
    struct list_node link;      /* of the owner */
    struct list_node flush;     /* of `flushes`, while flush_wanted */
    struct list_node *flushes;  /* where the thread's peers wait to be flushed; NULL: the owner looks at flush_wanted */
    struct link_counts *counts; /* of all connections of the thread; NULL: nobody counts */
    struct list_node greet;     /* of the loop: it waits for its next step of the handshake */
    int fd, epoll_fd;
    char name[160]; /* in logs: "backend 10.0.0.3:41234" */
    bool connecting, closed, writable_wanted, flush_wanted;
    bool flushed_last;    /* of the owner's peers, in a turn: what it hears is true of what others were sent */
    bool stranger;        /* it connected to us, and has not introduced itself: only short frames, please */
    bool paused;          /* nothing is read */
    struct peer_tls *tls; /* NULL: plain text */
    int64_t heard_ns;     /* when something last came */
    uint32_t format;      /* of frames, once both ends have introduced themselves; before that the oldest */
    /* in */
    char *in;
    size_t in_room, in_used, in_taken;
    struct frame frame; /* whose head or body is under way */
    bool in_body;
    struct iovec pieces[PEER_PIECES_MAX];
    uint32_t piece, piece_count;
    uint64_t body_left;
    int fds[PEER_FDS_MAX]; /* that came and nobody has taken */
    uint32_t fd_count;
    /* out */
    struct out_piece *out; /* [out_room] a ring */
    uint32_t out_room, out_first, out_count;
    size_t out_copied;  /* bytes of copies in it */
    struct frame *last; /* the frame that was begun last, while it may get more structs; in the last piece */
    uint64_t bytes_in, bytes_out;
};

/* Takes a connected or connecting socket over, and watches it. 0, or -errno: the socket is the caller's still. */
int peer_init(struct peer *peer, int fd, bool connecting, int epoll_fd, const struct peer_events *events, void *owner);
/* Speaks TLS on it, as the client where the connection is ours. Right after peer_init(). `arrived` is PEER_TLS_BYTES of
 * memory for all peers of a thread. 0 or -ENOMEM: it is to be closed. */
int peer_secure(struct peer *peer, struct tls *tls, char *arrived);
/* Whether it is a stranger's TLS handshake that what epoll says next goes on with: that takes a millisecond. */
bool peer_greets(const struct peer *peer);
/* Whether nothing has come from it so far. */
bool peer_is_silent(const struct peer *peer);
/* Reads nothing for now, or reads again. The end of the connection is told either way. */
void peer_pause(struct peer *peer, bool paused);
/* It has introduced itself: frames may be as long as they need. */
void peer_welcome(struct peer *peer);
/* Closes the connection, without calling closed(), and tells of all bodies that they are over. */
void peer_close(struct peer *peer);
/* The same for one that is still connecting, but its socket is returned, on which nothing was sent. */
int peer_release(struct peer *peer);
/* Frees what a closed one has. */
void peer_free(struct peer *peer);

/* What epoll says. The peer may be closed afterwards. */
void peer_ready(struct peer *peer, uint32_t epoll_events, int64_t now_ns);

/* One more frame, copied. The head's place is returned, to be filled in before anything else is sent, or NULL without
 * memory (then the connection is closed soon). */
void *peer_frame(struct peer *peer, enum frame_kind kind, uint32_t count, size_t head_bytes, uint64_t body_bytes);
/* The same with a head that is there. */
void peer_send(struct peer *peer, enum frame_kind kind, uint32_t count, const void *head, size_t head_bytes);
/* The place of one more struct in the last frame, if that is of this kind, has fewer than `most` and no body, and
 * nothing was sent since; else in a new one. */
void *peer_frame_more(struct peer *peer, enum frame_kind kind, size_t struct_bytes, uint32_t most);
/* A piece of the body of the last frame, copied if it is small, else sent from where it lies until `sent` is called
 * (with the context; NULL: it stays in place anyway). Pieces of all bodies' bytes must follow their frame. */
void peer_body(struct peer *peer, const void *data, size_t bytes, peer_sent *sent, void *context, uint64_t tag);
/* A frame with descriptors, over a Unix socket, at once. The descriptors stay the caller's. 0 or -errno. */
int peer_send_fds(struct peer *peer, enum frame_kind kind, uint32_t count, const void *head, size_t head_bytes,
                  const int *fds, uint32_t fd_count);
/* Sends what the socket takes. */
void peer_flush(struct peer *peer);
/* Bytes that the other end's host has not got yet: they wait here, or in the socket. */
size_t peer_unsent(const struct peer *peer);
