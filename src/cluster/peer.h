/* peer.h - one connection to another process: frames in, frames out, over a non-blocking socket and epoll.
 *
 * Owned by one thread, the link thread, which alone calls these functions. What is sent in a turn is kept until
 * peer_flush(), which makes one system call for all of it while the socket takes it. Small heads are copied, bodies are
 * sent from where they lie. What has come is handed to peer_events: a head when all of it is there, a body when all of
 * it lies where begin_body() wanted it. */
#pragma once

#include <stdbool.h>
#include <sys/uio.h>

#include "base/list.h"
#include "cluster/wire.h"

#define PEER_FDS_MAX    64                  /* descriptors that may come with a frame */
#define PEER_PIECES_MAX (TENSORS_MAX + 1)   /* of a body */
#define PEER_OUT_MAX    ((size_t)256 << 20) /* bytes copied and not sent, from which on a peer is too slow: closed */

struct peer;

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

struct peer {
    const struct peer_events *events;
    void *owner;           /* who the events are for */
    struct list_node link; /* of the owner */
    int fd, epoll_fd;
    char name[160]; /* in logs: "backend 10.0.0.3:41234" */
    bool connecting, closed, writable_wanted, flush_wanted;
    int64_t heard_ns; /* when something last came */
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
/* Closes the connection, without calling closed(), and tells of all bodies that they are over. */
void peer_close(struct peer *peer);
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
