/* peer.c - frames over a non-blocking socket: what has come is parsed where it lies, what goes out waits in pieces. */
#include "cluster/peer.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"

#define IN_BYTES     ((size_t)256 * 1024)
#define CHUNK_BYTES  ((size_t)64 * 1024) /* of copies that lie together */
#define COPY_MOST    4096                /* a piece of a body that is no longer is copied */
#define SEND_PIECES  64                  /* of one system call */
#define READS_MOST   8                   /* system calls a turn, so that no peer starves another */
#define PIECES_FIRST 64
/* What comes behind a body is read along with it into the buffer. Behind a long one that is only the next head: the
 * rest would be the next body's, and be copied once more from there. */
#define BODY_LONG   ((size_t)16 * 1024)
#define AHEAD_BYTES ((size_t)4096)

/* Bytes that go out: copied into memory of the piece's own, or somebody else's. */
struct out_piece {
    const char *data;
    size_t bytes, done;
    char *copy; /* [room] */
    size_t room;
    peer_sent *sent;
    void *context;
    uint64_t tag;
};

static size_t padded(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

/* ---- start and end ---- */

static void watch(struct peer *peer, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (peer->writable_wanted ? EPOLLOUT : 0), .data.ptr = peer};
    if (epoll_ctl(peer->epoll_fd, operation, peer->fd, &event) < 0)
        peer->flush_wanted = true; /* no memory in the kernel: the next turn tries again */
}

int peer_init(struct peer *peer, int fd, bool connecting, int epoll_fd, const struct peer_events *events, void *owner) {
    *peer = (struct peer){
        .events = events,
        .owner = owner,
        .fd = fd,
        .epoll_fd = epoll_fd,
        .connecting = connecting,
        .writable_wanted = connecting,
        .in = malloc(IN_BYTES),
        .in_room = IN_BYTES,
        .out = calloc(PIECES_FIRST, sizeof(*peer->out)),
        .out_room = PIECES_FIRST,
    };
    list_init(&peer->link);
    if (!peer->in || !peer->out) {
        peer_free(peer);
        return -ENOMEM;
    }
    struct epoll_event event = {.events = EPOLLIN | (connecting ? EPOLLOUT : 0), .data.ptr = peer};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        int rc = -errno;
        peer_free(peer);
        return rc;
    }
    return 0;
}

static struct out_piece *piece_at(const struct peer *peer, uint32_t n) {
    return &peer->out[(peer->out_first + n) & (peer->out_room - 1)];
}

/* The first piece has gone, or never will. Its copy's memory stays for the next piece in its place. */
static void piece_over(struct peer *peer) {
    struct out_piece *piece = piece_at(peer, 0);
    peer->out_first++;
    peer->out_count--;
    if (piece->sent)
        piece->sent(piece->context, piece->tag);
    else if (piece->data == piece->copy)
        peer->out_copied -= piece->bytes;
    piece->sent = NULL;
}

void peer_close(struct peer *peer) {
    if (peer->closed)
        return;
    peer->closed = true;
    close(peer->fd); /* leaves the epoll set by that */
    while (peer->out_count > 0)
        piece_over(peer);
}

void peer_free(struct peer *peer) {
    for (uint32_t i = 0; peer->out && i < peer->out_room; i++)
        free(peer->out[i].copy);
    while (peer->fd_count > 0)
        close(peer->fds[--peer->fd_count]);
    free(peer->out);
    free(peer->in);
    peer->out = NULL;
    peer->in = NULL;
}

/* The connection is at its end by itself. */
static void fail(struct peer *peer, const char *reason) {
    if (peer->closed)
        return;
    peer_close(peer);
    peer->events->closed(peer, reason);
}

/* ---- out ---- */

/* A place for one more piece. NULL without memory. */
static struct out_piece *piece_new(struct peer *peer) {
    if (peer->out_count == peer->out_room) {
        struct out_piece *grown = calloc((size_t)2 * peer->out_room, sizeof(*grown));
        if (!grown)
            return NULL;
        for (uint32_t i = 0; i < peer->out_count; i++)
            grown[i] = *piece_at(peer, i);
        free(peer->out);
        peer->out = grown;
        peer->out_room *= 2;
        peer->out_first = 0;
    }
    struct out_piece *piece = piece_at(peer, peer->out_count);
    peer->out_count++;
    *piece = (struct out_piece){.copy = piece->copy, .room = piece->room};
    return piece;
}

/* Room for `bytes` more that are copied, in one piece of memory; at a multiple of 8 in it, if they are structs. */
static char *copy_room(struct peer *peer, size_t bytes, bool structs) {
    struct out_piece *last = peer->out_count ? piece_at(peer, peer->out_count - 1) : NULL;
    if (!last || last->data != last->copy || last->sent || last->room - last->bytes < bytes ||
        (structs && last->bytes % 8)) {
        last = piece_new(peer);
        if (!last)
            return NULL;
        if (last->room < bytes || !last->copy) {
            free(last->copy);
            last->room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
            last->copy = malloc(last->room);
            if (!last->copy) {
                last->room = 0;
                peer->out_count--;
                return NULL;
            }
        }
        last->data = last->copy;
    }
    char *at = last->copy + last->bytes;
    last->bytes += bytes;
    peer->out_copied += bytes;
    return at;
}

/* Without memory, or with a peer that takes nothing, the connection ends when it is flushed next. */
static void give_up(struct peer *peer) {
    shutdown(peer->fd, SHUT_RDWR);
}

void *peer_frame(struct peer *peer, enum frame_kind kind, uint32_t count, size_t head_bytes, uint64_t body_bytes) {
    if (peer->closed)
        return NULL;
    char *at = copy_room(peer, sizeof(struct frame) + padded(head_bytes), true);
    peer->last = NULL;
    if (!at || peer->out_copied > PEER_OUT_MAX) {
        give_up(peer);
        return NULL;
    }
    *(struct frame *)at = (struct frame){
        .body_bytes = body_bytes, .head_bytes = (uint32_t)head_bytes, .kind = (uint16_t)kind, .count = (uint16_t)count};
    at += sizeof(struct frame);
    memset(at + head_bytes, 0, padded(head_bytes) - head_bytes);
    peer->flush_wanted = true;
    return at;
}

void *peer_frame_more(struct peer *peer, enum frame_kind kind, size_t struct_bytes, uint32_t most) {
    struct frame *last = peer->last;
    if (last && last->kind == kind && last->count < most && last->head_bytes + struct_bytes <= WIRE_HEAD_MAX) {
        struct out_piece *piece = piece_at(peer, peer->out_count - 1);
        if (piece->room - piece->bytes >= struct_bytes) {
            char *at = piece->copy + piece->bytes;
            piece->bytes += struct_bytes;
            peer->out_copied += struct_bytes;
            last->count++;
            last->head_bytes += (uint32_t)struct_bytes;
            return at;
        }
    }
    CHECK_EQ(struct_bytes % 8, 0);
    char *at = peer_frame(peer, kind, 1, struct_bytes, 0);
    peer->last = at ? (struct frame *)(at - sizeof(struct frame)) : NULL;
    return at;
}

void peer_send(struct peer *peer, enum frame_kind kind, uint32_t count, const void *head, size_t head_bytes) {
    void *at = peer_frame(peer, kind, count, head_bytes, 0);
    if (at && head_bytes > 0)
        memcpy(at, head, head_bytes);
}

/* Bodies are padded like heads, by their last piece. */
void peer_body(struct peer *peer, const void *data, size_t bytes, peer_sent *sent, void *context, uint64_t tag) {
    bool copied = bytes <= COPY_MOST && !peer->closed;
    char *at = copied ? copy_room(peer, bytes, false) : NULL;
    struct out_piece *piece = copied || peer->closed ? NULL : piece_new(peer);
    if (at) {
        memcpy(at, data, bytes);
    } else if (piece) {
        piece->data = data;
        piece->bytes = bytes;
        piece->sent = sent;
        piece->context = context;
        piece->tag = tag;
        return;
    } else if (!peer->closed) {
        give_up(peer);
    }
    if (sent)
        sent(context, tag);
}

/* Takes `bytes` that were sent off the pieces. */
static void pieces_take(struct peer *peer, size_t bytes) {
    while (peer->out_count > 0) {
        struct out_piece *piece = piece_at(peer, 0);
        size_t left = piece->bytes - piece->done;
        if (bytes < left) {
            piece->done += bytes;
            return;
        }
        bytes -= left;
        piece_over(peer);
    }
}

static void want_writable(struct peer *peer, bool wanted) {
    if (peer->writable_wanted == wanted)
        return;
    peer->writable_wanted = wanted;
    watch(peer, EPOLL_CTL_MOD);
}

void peer_flush(struct peer *peer) {
    peer->flush_wanted = false;
    peer->last = NULL;
    while (!peer->closed && !peer->connecting && peer->out_count > 0) {
        struct iovec pieces[SEND_PIECES];
        uint32_t count = peer->out_count < SEND_PIECES ? peer->out_count : SEND_PIECES;
        for (uint32_t i = 0; i < count; i++) {
            const struct out_piece *piece = piece_at(peer, i);
            pieces[i] = (struct iovec){(char *)piece->data + piece->done, piece->bytes - piece->done};
        }
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
        ssize_t sent = sendmsg(peer->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN) {
            fail(peer, strerror(errno));
            return;
        }
        if (sent < 0) {
            want_writable(peer, true);
            return;
        }
        peer->bytes_out += (uint64_t)sent;
        pieces_take(peer, (size_t)sent);
    }
    if (!peer->closed && !peer->connecting)
        want_writable(peer, false);
}

int peer_send_fds(struct peer *peer, enum frame_kind kind, uint32_t count, const void *head, size_t head_bytes,
                  const int *fds, uint32_t fd_count) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(PEER_FDS_MAX * sizeof(int))] = {0};
    struct frame frame = {.head_bytes = (uint32_t)head_bytes, .kind = (uint16_t)kind, .count = (uint16_t)count};
    struct iovec pieces[] = {{&frame, sizeof(frame)}, {(void *)(uintptr_t)head, head_bytes}};
    CHECK_EQ(head_bytes % 8, 0);
    CHECK_LE(fd_count, PEER_FDS_MAX);
    peer_flush(peer);
    if (peer->closed || peer->out_count > 0)
        return -EAGAIN;
    struct msghdr message = {.msg_iov = pieces,
                             .msg_iovlen = 2,
                             .msg_control = control,
                             .msg_controllen = CMSG_SPACE(fd_count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
    ssize_t sent = sendmsg(peer->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == (ssize_t)(sizeof(frame) + head_bytes))
        return 0;
    give_up(peer); /* half a frame is no use */
    return sent < 0 ? -errno : -EAGAIN;
}

size_t peer_unsent(const struct peer *peer) {
    size_t bytes = 0;
    int in_socket = 0;
    if (ioctl(peer->fd, SIOCOUTQ, &in_socket) == 0 && in_socket > 0)
        bytes += (size_t)in_socket;
    for (uint32_t i = 0; i < peer->out_count; i++)
        bytes += piece_at(peer, i)->bytes - piece_at(peer, i)->done;
    return bytes;
}

/* ---- in ---- */

static void body_over(struct peer *peer) {
    peer->in_body = false;
    if (peer->events->body_over)
        peer->events->body_over(peer);
}

/* So many bytes of the body have come, and lie in its pieces. */
static void body_advance(struct peer *peer, size_t bytes) {
    peer->body_left -= bytes;
    while (bytes > 0 && peer->piece < peer->piece_count) {
        struct iovec *piece = &peer->pieces[peer->piece];
        size_t part = bytes < piece->iov_len ? bytes : piece->iov_len;
        piece->iov_base = (char *)piece->iov_base + part;
        piece->iov_len -= part;
        bytes -= part;
        peer->piece += piece->iov_len == 0;
    }
}

/* What lies in the buffer of the body. */
static void body_from_buffer(struct peer *peer) {
    while (peer->body_left > 0 && peer->in_taken < peer->in_used) {
        size_t part = peer->in_used - peer->in_taken;
        while (peer->piece < peer->piece_count && peer->pieces[peer->piece].iov_len == 0)
            peer->piece++;
        if (peer->piece < peer->piece_count) {
            const struct iovec *piece = &peer->pieces[peer->piece];
            part = part < piece->iov_len ? part : piece->iov_len;
            memcpy(piece->iov_base, peer->in + peer->in_taken, part);
        } else if (part > peer->body_left) {
            part = (size_t)peer->body_left;
        }
        peer->in_taken += part;
        body_advance(peer, part);
    }
}

/* Moves what is left to the buffer's begin: frames begin at multiples of 8 there, so that heads can be read in place.
 */
static void buffer_compact(struct peer *peer) {
    memmove(peer->in, peer->in + peer->in_taken, peer->in_used - peer->in_taken);
    peer->in_used -= peer->in_taken;
    peer->in_taken = 0;
}

static int buffer_room(struct peer *peer, size_t bytes) {
    if (peer->in_room - peer->in_taken >= bytes)
        return 0;
    buffer_compact(peer);
    if (peer->in_room >= bytes)
        return 0;
    char *grown = realloc(peer->in, bytes);
    if (!grown)
        return -ENOMEM;
    peer->in = grown;
    peer->in_room = bytes;
    return 0;
}

/* The next frame's head, if all of it is there. 1: taken; 0: more has to come; -errno with a sentence. */
static int frame_take(struct peer *peer, struct sy_error *err) {
    if (peer->in_taken % 8)
        buffer_compact(peer);
    size_t there = peer->in_used - peer->in_taken;
    if (there < sizeof(struct frame))
        return buffer_room(peer, sizeof(struct frame));
    struct frame frame = *(const struct frame *)(peer->in + peer->in_taken);
    int rc = wire_frame_check(&frame, err);
    if (rc < 0)
        return rc;
    size_t whole = sizeof(frame) + padded(frame.head_bytes);
    if (there < whole)
        return buffer_room(peer, whole) < 0 ? error_set(err, -ENOMEM, "no memory for a frame of %zu bytes", whole) : 0;
    const char *head = peer->in + peer->in_taken + sizeof(frame);
    if ((rc = wire_head_check(&frame, head, err)) < 0)
        return rc;
    peer->in_taken += whole;
    rc = peer->events->frame(peer, &frame, head, err);
    if (rc < 0 || peer->closed || frame.body_bytes == 0)
        return rc < 0 ? rc : 1;
    peer->frame = frame;
    peer->in_body = true;
    peer->body_left = frame.body_bytes;
    peer->piece = 0;
    peer->piece_count = peer->events->body ? peer->events->body(peer, &frame, peer->pieces) : 0;
    return 1;
}

/* Takes all that is in the buffer. False: the connection is closed. */
static bool frames_take(struct peer *peer) {
    struct sy_error err = {.text = ""};
    int rc = 1;

    while (rc > 0 && !peer->closed) {
        if (peer->in_body) {
            body_from_buffer(peer);
            if (peer->body_left > 0)
                return true;
            body_over(peer);
            continue;
        }
        rc = frame_take(peer, &err);
    }
    if (rc < 0)
        fail(peer, err.text);
    if (peer->in_taken == peer->in_used)
        peer->in_taken = peer->in_used = 0;
    return !peer->closed;
}

/* Descriptors that came along; those that nobody waits for are closed with the peer. */
static void fds_take(struct peer *peer, struct msghdr *message) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (peer->fd_count < PEER_FDS_MAX)
                peer->fds[peer->fd_count++] = fd;
            else
                close(fd);
        }
    }
}

/* One system call. Bytes, 0 at the end, or -errno. */
static ssize_t receive(struct peer *peer) {
    struct iovec pieces[PEER_PIECES_MAX + 1];
    uint32_t count = 0;
    size_t wanted = 0;

    for (uint32_t i = peer->piece; peer->in_body && i < peer->piece_count; i++)
        if (peer->pieces[i].iov_len > 0) {
            pieces[count++] = peer->pieces[i];
            wanted += peer->pieces[i].iov_len;
        }
    if (peer->in_used == peer->in_room)
        buffer_compact(peer);
    size_t room = peer->in_room - peer->in_used;
    if (peer->frame.body_bytes >= BODY_LONG && room > AHEAD_BYTES) /* of the frame that had a body last */
        room = AHEAD_BYTES;
    pieces[count++] = (struct iovec){peer->in + peer->in_used, room};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(PEER_FDS_MAX * sizeof(int))];
    struct msghdr message = {
        .msg_iov = pieces, .msg_iovlen = count, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(peer->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got >= 0)
        fds_take(peer, &message);
    if (got <= 0)
        return got < 0 ? -errno : 0;
    peer->bytes_in += (uint64_t)got;
    size_t direct = (size_t)got < wanted ? (size_t)got : wanted;
    if (peer->in_body)
        body_advance(peer, direct);
    peer->in_used += (size_t)got - direct;
    return got;
}

static void read_ready(struct peer *peer, int64_t now_ns) {
    for (int i = 0; i < READS_MOST && !peer->closed; i++) {
        ssize_t got = receive(peer);
        if (got == -EAGAIN)
            return;
        if (got == -EINTR)
            continue;
        if (got <= 0) {
            fail(peer, got == 0 ? "the other end closed the connection" : strerror((int)-got));
            return;
        }
        peer->heard_ns = now_ns;
        if (!frames_take(peer))
            return;
    }
}

/* A connection that was begun has come about, or not. */
static void connected(struct peer *peer) {
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(peer->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error) {
        fail(peer, strerror(error));
        return;
    }
    peer->connecting = false;
    peer_flush(peer);
}

void peer_ready(struct peer *peer, uint32_t epoll_events, int64_t now_ns) {
    if (peer->closed)
        return;
    if (peer->connecting && epoll_events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        connected(peer);
    else if (epoll_events & EPOLLOUT)
        peer_flush(peer);
    if (!peer->closed && epoll_events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        read_ready(peer, now_ns);
}
