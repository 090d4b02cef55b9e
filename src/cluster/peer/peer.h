/* peer.h - one connection to another process: frames in, frames out, over a non-blocking socket and epoll.
 *
 * Owned by the link thread, which alone calls these functions. Frames sent in a turn are kept until peer_flush(), which
 * sends them by one system call as far as the socket takes them. Small heads are copied, bodies are sent from their own
 * memory. Received frames are passed to peer_events: a head when it is complete, a body when it is complete in the
 * memory that body() has given.
 *
 * Two peers of one thread may be each other's ends (peer_twins()): what one sends lies in the other's buffer at its
 * next flush, without a system call, and the other reads it by peer_twin_read().
 *
 * Over TLS (peer_secure()) pieces are encrypted when the socket takes them, and their memory is no longer needed then.
 * Received bytes are decrypted into the buffer or the body's memory. */
#pragma once

#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>

#include "cluster/peer/wire.h"
#include "core/util/counter.h"
#include "core/util/list.h"

#define PEER_FDS_MAX    64                  /* most descriptors with a frame */
#define PEER_PIECES_MAX (TENSORS_MAX + 1)   /* most pieces of a body */
#define PEER_OUT_MAX    ((size_t)256 << 20) /* most copied bytes not sent; a peer with more is too slow: closed */

struct peer;
struct peer_tls; /* cluster/peer/peer_tls.h */
struct tls;      /* front/net/tls.h */

struct peer_events {
    /* Handles a frame's head, which was checked, and is valid only during the call. A frame without a body is complete.
     * -errno with a sentence closes the connection. */
    int (*frame)(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err);
    /* Sets the memory for the body of that frame: pieces of `body_bytes` together; returns their number. With 0 pieces,
     * or if the function is NULL, the body is read and discarded. */
    uint32_t (*body)(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]);
    /* The body is complete. The function may be NULL. */
    void (*body_over)(struct peer *peer);
    /* The connection is closed; no further function is called. Call peer_free(), immediately or later. */
    void (*closed)(struct peer *peer, const char *reason);
};

/* A piece of a body was sent, or never will be: its memory may be reused. */
typedef void peer_sent(void *context, uint64_t tag);

struct out_piece;

/* The cost of a link thread's connections; written by that thread, read by anyone. */
struct link_counts {
    _Atomic uint64_t turns;        /* turns of the thread */
    _Atomic uint64_t reads, sends; /* system calls that transferred bytes */
    _Atomic uint64_t frames_in, frames_out, bytes_in, bytes_out;
};

struct peer {
    const struct peer_events *events;
    void *owner;                /* context of the events */
    struct list_node link;      /* place in the loop's list of peers, or in that of dead peers */
    struct list_node flush;     /* place in `flushes`, while flush_wanted */
    struct list_node *flushes;  /* the thread's list of peers to be flushed; NULL: the owner checks flush_wanted */
    struct link_counts *counts; /* counts of all connections of the thread; NULL: not counted */
    struct list_node greet;     /* place in the loop's list of handshakes that wait for their next step */
    struct list_node arrival;   /* place in `arrivals`, while bytes of the twin are to be read */
    struct list_node *arrivals; /* the loop's list of peers whose twins have sent something */
    struct peer *twin;          /* the other end, of the same thread; NULL: none, or it is closed */
    int fd, epoll_fd;
    char name[160]; /* name in logs: "backend 10.0.0.3:41234" */
    bool connecting, closed, writable_wanted, flush_wanted;
    bool flushed_last; /* flushed after the other peers in a turn, since frames to this peer speak of frames to them */
    bool stranger;     /* peer has connected to us and not introduced itself: only short frames are accepted */
    bool paused;       /* nothing is read for now */
    bool lent;         /* another thread reads from the twin (peer_twin_read()) */
    struct peer_tls *tls; /* TLS of the connection; NULL: plain text */
    int64_t heard_ns;     /* time at which bytes were last received */
    uint32_t format;      /* format of frames; the oldest, until both ends have introduced themselves */
    /* received */
    char *in; /* [in_room] buffer: `in_used` bytes received, of which `in_taken` are parsed */
    size_t in_room, in_used, in_taken;
    struct frame frame; /* frame whose head or body is being received */
    bool in_body;       /* the body is being received */
    struct iovec pieces[PEER_PIECES_MAX];
    uint32_t piece, piece_count; /* index of the piece that is being received; number of pieces of the body */
    uint64_t body_left;          /* bytes of the body to come */
    int fds[PEER_FDS_MAX];       /* descriptors received and not taken yet */
    uint32_t fd_count;
    /* to be sent */
    struct out_piece *out; /* [out_room] ring of `out_count` pieces, from `out_first` on */
    uint32_t out_room, out_first, out_count;
    size_t out_copied;            /* bytes of copies in the ring */
    struct frame *last;           /* last frame, in the last piece, while more structs may be added to it */
    uint64_t bytes_in, bytes_out; /* bytes received and sent */
    uint32_t tally;               /* number of its tally (link_tally.h); the owner sets it */
};

/* Takes over a connected or connecting socket, and watches it. 0, or -errno: the socket still belongs to the caller. */
int peer_init(struct peer *peer, int fd, bool connecting, int epoll_fd, const struct peer_events *events, void *owner);
/* Uses TLS on the connection, as the client if we have made the connection. Call it right after peer_init(). `arrived`
 * is PEER_TLS_BYTES of memory for all peers of a thread. 0; or -ENOMEM: close the peer. */
int peer_secure(struct peer *peer, struct tls *tls, char *arrived);
/* Whether the next epoll event continues a stranger's TLS handshake, which takes a millisecond. */
bool peer_greets(const struct peer *peer);
/* Whether nothing was received from the peer yet. */
bool peer_is_silent(const struct peer *peer);
/* Stops reading for now, or reads again. The end of the connection is reported either way. */
void peer_pause(struct peer *peer, bool paused);
/* Makes two new peers of one thread, whose sockets are a pair, the ends of one connection. */
void peer_twins(struct peer *a, struct peer *b);
/* Handles what the twin has sent. The peer may be closed afterwards. `lent`: another thread has lent itself, perhaps a
 * frontend's; then false: frames about models are left for the loop's own thread. */
bool peer_twin_read(struct peer *peer, int64_t now_ns, bool lent);
/* The peer has introduced itself: longer frames are accepted from now on. */
void peer_welcome(struct peer *peer);
/* Closes the connection, without calling closed(); calls the peer_sent of all bodies. */
void peer_close(struct peer *peer);
/* Ends a peer that is still connecting, as peer_close() does, but returns the socket open: nothing was sent on it. */
int peer_release(struct peer *peer);
/* Frees the memory of a closed peer. */
void peer_free(struct peer *peer);

/* Handles an epoll event. The peer may be closed afterwards. */
void peer_ready(struct peer *peer, uint32_t epoll_events, int64_t now_ns);

/* Adds a frame. Returns the memory of its head, to be filled in before anything else is sent, or NULL: the connection
 * is closed, or will be closed soon because memory is out or the peer reads too slowly. */
void *peer_frame(struct peer *peer, enum frame_kind kind, uint32_t count, size_t head_bytes, uint64_t body_bytes);
/* Adds a frame without a body, with a copy of the given head. */
void peer_send(struct peer *peer, enum frame_kind kind, uint32_t count, const void *head, size_t head_bytes);
/* Adds a struct, and returns its memory, or NULL as peer_frame() does. The struct goes into the last frame, if that is
 * of this kind, has fewer than WIRE_MANY structs and no body, and was not sent; else into a new frame. */
void *peer_frame_more(struct peer *peer, enum frame_kind kind, size_t struct_bytes);
/* The same with a copy of the given struct. False: there was no room. */
static inline bool peer_add(struct peer *peer, enum frame_kind kind, const void *one, size_t bytes) {
    void *place = peer_frame_more(peer, kind, bytes);
    if (place)
        memcpy(place, one, bytes);
    return place;
}
/* Adds a piece of the last frame's body. A small piece is copied; the memory of a larger one must stay until `sent` is
 * called with `context` (`sent` NULL: the memory always stays). All pieces together must have the body's length. */
void peer_body(struct peer *peer, const void *data, size_t bytes, peer_sent *sent, void *context, uint64_t tag);
/* Sends a frame with descriptors over a Unix socket, immediately; a connection that does not take it is closed. The
 * descriptors still belong to the caller. */
void peer_send_fds(struct peer *peer, enum frame_kind kind, uint32_t count, const void *head, size_t head_bytes,
                   const int *fds, uint32_t fd_count);
/* Sends as much as the socket takes. */
void peer_flush(struct peer *peer);
/* Bytes that have not reached the other end's host yet: in this struct, or in the socket. */
size_t peer_unsent(const struct peer *peer);
