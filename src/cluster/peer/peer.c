/* peer.c - frames over a non-blocking socket: received frames are parsed in the buffer, outgoing ones wait in
 * pieces. */
#include "cluster/peer/peer.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/peer/peer_tls.h"
#include "core/util/assert.h"

#define IN_BYTES    ((size_t)256 * 1024)
#define IN_STRANGER ((size_t)16 * 1024)  /* size of the buffer for a stranger; also its longest head */
#define CHUNK_BYTES ((size_t)64 * 1024)  /* least memory for copies */
#define COPY_MOST   4096                 /* longest piece of a body that is copied */
#define SEND_PIECES 64                   /* most pieces in one system call */
#define READS_MOST  8                    /* most system calls for reading in a turn, so that no peer starves another */
#define READ_BYTES  ((size_t)512 * 1024) /* most bytes read in a turn */
/* Most bytes of one system call, and of one flush, which would otherwise go on for as long as the other end keeps up.
 * At 1 GB/s that is a sixth of a heartbeat. With 1 MiB, inputs of 10 MB come at two thirds of the rate. */
#define TURN_BYTES   ((size_t)16 << 20)
#define PIECES_FIRST 64
#define NEAR_SEND    250000 /* send buffer of the kernel for a peer of this host; the kernel doubles it */
/* Bytes after a body are read into the buffer by the same system call. After a body of BODY_LONG or more these are at
 * most AHEAD_BYTES, for the next head: further bytes would belong to the next body, and would have to be copied out of
 * the buffer. */
#define BODY_LONG   ((size_t)16 * 1024)
#define AHEAD_BYTES ((size_t)4096)

/* Bytes to be sent: in the piece's own memory, or in the caller's. */
struct out_piece {
    const char *data;
    size_t bytes, done; /* bytes of the piece; of these, bytes sent */
    char *copy;         /* [room] the piece's own memory */
    size_t room;
    peer_sent *sent; /* called once the bytes were sent, or never will be; NULL: nobody waits for that */
    void *context;
    uint64_t tag;
};

static void buffer_compact(struct peer *peer);

static size_t padded(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

static void count_in(const struct peer *peer, uint64_t bytes) {
    if (!peer->counts)
        return;
    counter_add(&peer->counts->reads, 1);
    counter_add(&peer->counts->bytes_in, bytes);
}

/* ---- peers to be flushed ---- */

static void want_flush(struct peer *peer) {
    if (peer->flush_wanted)
        return;
    peer->flush_wanted = true;
    if (peer->flushes)
        list_append(peer->flushes, &peer->flush);
}

static void flush_over(struct peer *peer) {
    if (peer->flush_wanted && peer->flushes)
        list_remove(&peer->flush);
    peer->flush_wanted = false;
}

/* ---- start and end ---- */

static void watch(struct peer *peer) {
    uint32_t events = (peer->paused ? 0 : EPOLLIN) | (peer->writable_wanted ? EPOLLOUT : 0);
    struct epoll_event event = {.events = events, .data.ptr = peer};
    if (epoll_ctl(peer->epoll_fd, EPOLL_CTL_MOD, peer->fd, &event) < 0)
        want_flush(peer); /* the kernel has no memory: the next turn tries again */
}

/* Whether both ends of a TCP connection have the same address. */
static bool is_near(int fd) {
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t own_bytes = sizeof(own), other_bytes = sizeof(other);
    if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) < 0 ||
        getpeername(fd, (struct sockaddr *)&other, &other_bytes) < 0 || own.ss_family != other.ss_family)
        return false;
    if (own.ss_family == AF_INET)
        return ((struct sockaddr_in *)&own)->sin_addr.s_addr == ((struct sockaddr_in *)&other)->sin_addr.s_addr;
    return own.ss_family == AF_INET6 &&
           IN6_ARE_ADDR_EQUAL(&((struct sockaddr_in6 *)&own)->sin6_addr, &((struct sockaddr_in6 *)&other)->sin6_addr);
}

/* Within a host, what is sent should be read while it is in the cores' caches; the kernel's own buffers, which grow to
 * megabytes, are for distances. The limit was chosen by measurement (bench/pulls.py). */
static void near_limit(int fd) {
    static const int BYTES = NEAR_SEND;
    if (is_near(fd))
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &BYTES, sizeof(BYTES));
}

int peer_init(struct peer *peer, int fd, bool connecting, int epoll_fd, const struct peer_events *events, void *owner) {
    const size_t in_room = connecting ? IN_BYTES : IN_STRANGER;
    *peer = (struct peer){
        .events = events,
        .owner = owner,
        .fd = fd,
        .epoll_fd = epoll_fd,
        .connecting = connecting,
        .writable_wanted = connecting,
        .stranger = !connecting,
        .in = malloc(in_room),
        .in_room = in_room,
        .format = WIRE_FORMAT_OLDEST,
        .out = calloc(PIECES_FIRST, sizeof(*peer->out)),
        .out_room = PIECES_FIRST,
    };
    list_init(&peer->link);
    list_init(&peer->greet);
    list_init(&peer->arrival);
    if (!peer->in || !peer->out) {
        peer_free(peer);
        return -ENOMEM;
    }
    if (!connecting)
        near_limit(fd);
    struct epoll_event event = {.events = EPOLLIN | (connecting ? EPOLLOUT : 0), .data.ptr = peer};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        int rc = -errno;
        peer_free(peer);
        return rc;
    }
    return 0;
}

int peer_secure(struct peer *peer, struct tls *tls, char *arrived) {
    peer->tls = peer_tls_create(tls, peer->stranger ? TLS_SERVER : TLS_CLIENT, arrived);
    return peer->tls ? 0 : -ENOMEM;
}

bool peer_greets(const struct peer *peer) {
    return peer->tls && peer->tls->end == TLS_SERVER && !peer_tls_established(peer->tls);
}

bool peer_is_silent(const struct peer *peer) {
    return peer->bytes_in == 0 && list_empty(&peer->greet);
}

void peer_pause(struct peer *peer, bool paused) {
    peer->paused = paused;
    watch(peer);
}

void peer_welcome(struct peer *peer) {
    peer->stranger = false; /* received bytes are still in the small buffer, and are being read */
}

static struct out_piece *piece_at(const struct peer *peer, uint32_t n) {
    return &peer->out[(peer->out_first + n) & (peer->out_room - 1)];
}

/* The first piece was sent, or never will be. Memory for its copy is kept for the next piece in its slot. */
static void piece_over(struct peer *peer) {
    struct out_piece *piece = piece_at(peer, 0);
    peer->out_first = --peer->out_count ? peer->out_first + 1 : 0; /* start again with the slot whose memory is in the
                                                                    * caches */
    if (piece->sent)
        piece->sent(piece->context, piece->tag);
    else if (piece->data == piece->copy)
        peer->out_copied -= piece->bytes;
    piece->sent = NULL;
}

/* Nothing is sent or read any more. */
static void end(struct peer *peer) {
    peer->closed = true;
    flush_over(peer);
    list_remove(&peer->arrival);
    if (peer->twin)
        peer->twin->twin = NULL; /* it hears of the end by its socket */
    peer->twin = NULL;
    /* A child process forked meanwhile may still have the socket, which would then stay in the epoll set. */
    epoll_ctl(peer->epoll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
    while (peer->out_count > 0)
        piece_over(peer);
}

void peer_close(struct peer *peer) {
    if (peer->closed)
        return;
    end(peer);
    close(peer->fd);
}

int peer_release(struct peer *peer) {
    CHECK(!peer->closed && peer->connecting);
    end(peer);
    return peer->fd;
}

void peer_free(struct peer *peer) {
    for (uint32_t i = 0; peer->out && i < peer->out_room; i++)
        free(peer->out[i].copy);
    while (peer->fd_count > 0)
        close(peer->fds[--peer->fd_count]);
    peer_tls_destroy(peer->tls);
    free(peer->out);
    free(peer->in);
    peer->tls = NULL;
    peer->out = NULL;
    peer->in = NULL;
}

/* The connection has failed or was closed by the other end. */
static void fail(struct peer *peer, const char *reason) {
    if (peer->closed)
        return;
    peer_close(peer);
    peer->events->closed(peer, reason);
}

/* ---- out ---- */

/* A slot for one more piece. NULL without memory. */
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

/* Room for `bytes` more of copies, in one piece of memory; for structs, at a multiple of 8 in it. */
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

/* Without memory, or if the peer reads nothing, the connection is closed at its next flush. */
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
    want_flush(peer);
    if (peer->counts)
        counter_add(&peer->counts->frames_out, 1);
    return at;
}

void *peer_frame_more(struct peer *peer, enum frame_kind kind, size_t struct_bytes) {
    struct frame *last = peer->last;
    if (last && last->kind == kind && last->count < WIRE_MANY && last->head_bytes + struct_bytes <= WIRE_HEAD_MAX) {
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

/* Bodies are not padded: the next frame begins in a new piece of memory if it would not be at a multiple of 8, and the
 * receiver moves it to one (frame_take()). */
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

/* Adds what is there to the pieces of a system call, `most` bytes at most. Returns how many. */
static size_t piece_add(struct iovec *piece, char *data, size_t bytes, size_t most) {
    *piece = (struct iovec){data, bytes < most ? bytes : most};
    return piece->iov_len;
}

/* Removes `bytes` that were sent from the pieces. */
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
    watch(peer);
}

/* Encrypts the next pieces, about as much as the socket takes. False: it failed. */
static bool encrypt(struct peer *peer) {
    while (peer_tls_established(peer->tls) && peer->out_count > 0 && peer_tls_unsent(peer->tls) < PEER_TLS_BYTES) {
        const struct out_piece *piece = piece_at(peer, 0);
        size_t part = piece->bytes - piece->done;
        part = part < PEER_TLS_BYTES ? part : PEER_TLS_BYTES;
        if (part > 0 && tls_stream_write(peer->tls->stream, piece->data + piece->done, part) < 0)
            return false;
        pieces_take(peer, part);
    }
    return true;
}

/* Handles the result of a send. The bytes sent; 0: interrupted by a signal; -1: no more for now. */
static ssize_t sent_note(struct peer *peer, ssize_t sent) {
    if (sent >= 0) {
        peer->bytes_out += (uint64_t)sent;
        if (peer->counts) {
            counter_add(&peer->counts->sends, 1);
            counter_add(&peer->counts->bytes_out, (uint64_t)sent);
        }
        return sent;
    }
    if (errno == EINTR)
        return 0;
    if (errno == EAGAIN)
        want_writable(peer, true);
    else
        fail(peer, strerror(errno));
    return -1;
}

static void flush_tls(struct peer *peer) {
    for (size_t done = 0; !peer->closed && !peer->connecting;) {
        if (!encrypt(peer)) {
            fail(peer, "it cannot be encrypted");
            return;
        }
        if (peer_tls_unsent(peer->tls) == 0 || done >= TURN_BYTES) {
            want_writable(peer, peer_tls_unsent(peer->tls) > 0);
            return;
        }
        ssize_t sent = sent_note(
            peer, send(peer->fd, peer_tls_next(peer->tls), peer_tls_unsent(peer->tls), MSG_NOSIGNAL | MSG_DONTWAIT));
        if (sent < 0)
            return;
        done += (size_t)sent;
        peer_tls_went(peer->tls, (size_t)sent);
    }
}

/* Moves pieces into the twin's buffer, as far as there is room; the rest follows once the twin has read that. */
static void flush_twin(struct peer *peer) {
    struct peer *twin = peer->twin;
    want_writable(peer, false); /* it is connected */
    size_t before = twin->in_used - twin->in_taken, moved = 0;
    for (size_t part = 1; peer->out_count > 0 && part > 0; moved += part) {
        const struct out_piece *piece = piece_at(peer, 0);
        if (twin->in_used == twin->in_room)
            buffer_compact(twin);
        part = twin->in_room - twin->in_used;
        part = part < piece->bytes - piece->done ? part : piece->bytes - piece->done;
        memcpy(twin->in + twin->in_used, piece->data + piece->done, part);
        twin->in_used += part;
        pieces_take(peer, part);
    }
    CHECK(moved > 0 || before > 0 || peer->out_count == 0); /* there is room for the begin of any frame */
    if (moved == 0)
        return;
    peer->bytes_out += moved;
    twin->bytes_in += moved;
    if (list_empty(&twin->arrival))
        list_append(twin->arrivals, &twin->arrival);
}

void peer_flush(struct peer *peer) {
    flush_over(peer);
    peer->last = NULL;
    if (peer->tls) {
        flush_tls(peer);
        return;
    }
    if (peer->twin && !peer->connecting) {
        flush_twin(peer);
        return;
    }
    for (size_t done = 0; !peer->closed && !peer->connecting && peer->out_count > 0 && done < TURN_BYTES;) {
        struct iovec pieces[SEND_PIECES];
        uint32_t count = 0;
        for (size_t most = TURN_BYTES - done; count < SEND_PIECES && count < peer->out_count && most > 0; count++) {
            const struct out_piece *piece = piece_at(peer, count);
            most -= piece_add(&pieces[count], (char *)piece->data + piece->done, piece->bytes - piece->done, most);
        }
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
        ssize_t sent = sent_note(peer, sendmsg(peer->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
        if (sent < 0)
            return;
        done += (size_t)sent;
        pieces_take(peer, (size_t)sent);
    }
    if (!peer->closed && !peer->connecting)
        want_writable(peer, peer->out_count > 0);
}

void peer_send_fds(struct peer *peer, enum frame_kind kind, uint32_t count, const void *head, size_t head_bytes,
                   const int *fds, uint32_t fd_count) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(PEER_FDS_MAX * sizeof(int))] = {0};
    struct frame frame = {.head_bytes = (uint32_t)head_bytes, .kind = (uint16_t)kind, .count = (uint16_t)count};
    struct iovec pieces[] = {{&frame, sizeof(frame)}, {(void *)(uintptr_t)head, head_bytes}};
    CHECK_EQ(head_bytes % 8, 0);
    CHECK_LE(fd_count, PEER_FDS_MAX);
    peer_flush(peer);
    if (peer->closed)
        return;
    struct msghdr message = {.msg_iov = pieces,
                             .msg_iovlen = 2,
                             .msg_control = control,
                             .msg_controllen = CMSG_SPACE(fd_count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
    if (peer->out_count > 0 ||
        sendmsg(peer->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)(sizeof(frame) + head_bytes))
        give_up(peer); /* half a frame is useless */
}

size_t peer_unsent(const struct peer *peer) {
    size_t bytes = 0;
    int in_socket = 0;
    if (ioctl(peer->fd, SIOCOUTQ, &in_socket) == 0 && in_socket > 0)
        bytes += (size_t)in_socket;
    if (peer->tls)
        bytes += peer_tls_unsent(peer->tls);
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

/* `bytes` of the body were received into its pieces. */
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

/* Copies the part of the body that is in the buffer. */
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

/* Moves the remaining bytes to the start of the buffer. Frames begin at multiples of 8 there, so that heads can be read
 * in place. */
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

/* Takes the next frame's head, if it is complete. 1: taken; 0: incomplete; -errno with a sentence. */
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
    if (peer->stranger && frame.head_bytes > IN_STRANGER)
        return error_set(err, -EPROTO, "an introduction of %u bytes", frame.head_bytes);
    size_t whole = sizeof(frame) + padded(frame.head_bytes);
    if (there < whole)
        return buffer_room(peer, whole) < 0 ? error_set(err, -ENOMEM, "no memory for a frame of %zu bytes", whole) : 0;
    const char *head = peer->in + peer->in_taken + sizeof(frame);
    if ((rc = wire_head_check(&frame, head, err)) < 0)
        return rc;
    peer->in_taken += whole;
    if (peer->counts)
        counter_add(&peer->counts->frames_in, 1);
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

/* Whether the next frame tells a frontend of models, which then waits until all of its threads have seen the change. */
static bool is_about_models(const struct peer *peer) {
    struct frame frame;
    if (peer->in_body || peer->in_used - peer->in_taken < sizeof(frame))
        return false;
    memcpy(&frame, peer->in + peer->in_taken, sizeof(frame));
    return frame.kind == FRAME_SERVE || frame.kind == FRAME_MODEL_GONE || frame.kind == FRAME_MODEL_ENDS ||
           frame.kind == FRAME_TOLD;
}

/* Takes all frames in the buffer; in a lent turn those before the first that is about models. False: the connection is
 * closed. */
static bool frames_take(struct peer *peer) {
    struct sy_error err = {.text = ""};
    int rc = 1;

    while (rc > 0 && !peer->closed && !(peer->lent && is_about_models(peer))) {
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

/* A peer that has introduced itself gets the larger buffer of a member. */
static void buffer_grow(struct peer *peer) {
    char *grown = peer->stranger || peer->in_room >= IN_BYTES ? NULL : realloc(peer->in, IN_BYTES);
    if (!grown)
        return;
    peer->in = grown;
    peer->in_room = IN_BYTES;
}

/* Receives by one system call. Returns the bytes read, 0 at the end, or -errno. *drained: fewer bytes came than there
 * was room for. */
static ssize_t receive(struct peer *peer, bool *drained) {
    struct iovec pieces[PEER_PIECES_MAX + 1];
    uint32_t count = 0;
    size_t wanted = 0;

    for (uint32_t i = peer->piece; peer->in_body && i < peer->piece_count && wanted < TURN_BYTES; i++)
        if (peer->pieces[i].iov_len > 0)
            wanted +=
                piece_add(&pieces[count++], peer->pieces[i].iov_base, peer->pieces[i].iov_len, TURN_BYTES - wanted);
    if (peer->in_used == peer->in_room)
        buffer_compact(peer);
    size_t room = peer->in_room - peer->in_used;
    if (peer->frame.body_bytes >= BODY_LONG && room > AHEAD_BYTES) /* the last frame with a body */
        room = AHEAD_BYTES;
    if (wanted == TURN_BYTES)
        room = 0;
    pieces[count++] = (struct iovec){peer->in + peer->in_used, room};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(PEER_FDS_MAX * sizeof(int))];
    struct msghdr message = {
        .msg_iov = pieces, .msg_iovlen = count, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(peer->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got >= 0) {
        /* descriptors that are not used are closed with the peer */
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
            if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                continue;
            size_t fd_count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < fd_count; i++) {
                int fd;
                memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
                if (peer->fd_count < PEER_FDS_MAX)
                    peer->fds[peer->fd_count++] = fd;
                else
                    close(fd);
            }
        }
    }
    if (got <= 0)
        return got < 0 ? -errno : 0;
    *drained = (size_t)got < wanted + room;
    peer->bytes_in += (uint64_t)got;
    count_in(peer, (uint64_t)got);
    size_t direct = (size_t)got < wanted ? (size_t)got : wanted;
    if (peer->in_body)
        body_advance(peer, direct);
    peer->in_used += (size_t)got - direct;
    return got;
}

/* ---- in, over TLS ---- */

/* Refuses, in plain text, a peer that sends plain frames although TLS is needed. */
static void refuse_plain(struct peer *peer, const char *why) {
    char text[sizeof(struct frame) + 256] = {0};
    struct frame frame = {.head_bytes = (uint32_t)strlen(why), .kind = FRAME_REFUSED, .count = 1};
    CHECK_LE(padded(frame.head_bytes), sizeof(text) - sizeof(frame));
    memcpy(text, &frame, sizeof(frame));
    memcpy(text + sizeof(frame), why, frame.head_bytes);
    send(peer->fd, text, sizeof(frame) + padded(frame.head_bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Decrypts the bytes given to the stream, into the buffer or the body's pieces, and takes them. False: the connection
 * is closed. */
static bool decrypt(struct peer *peer) {
    for (;;) {
        while (peer->in_body && peer->piece < peer->piece_count && peer->pieces[peer->piece].iov_len == 0)
            peer->piece++;
        bool direct = peer->in_body && peer->piece < peer->piece_count;
        if (!direct && peer->in_used == peer->in_room)
            buffer_compact(peer);
        char *to = direct ? peer->pieces[peer->piece].iov_base : peer->in + peer->in_used;
        size_t room = direct ? peer->pieces[peer->piece].iov_len : peer->in_room - peer->in_used;
        ssize_t got = tls_stream_read(peer->tls->stream, to, room);
        if (got == 0)
            return true;
        if (got < 0) {
            struct sy_error err;
            flush_tls(peer); /* the other end is told why */
            tls_stream_explain(peer->tls->stream, &err);
            fail(peer, err.text);
            return false;
        }
        if (direct)
            body_advance(peer, (size_t)got);
        else
            peer->in_used += (size_t)got;
        if (!frames_take(peer))
            return false;
    }
}

/* Receives over TLS by one system call. Returns as receive(). */
static ssize_t receive_tls(struct peer *peer, struct sy_error *err) {
    ssize_t got = recv(peer->fd, peer->tls->arrived, PEER_TLS_BYTES, MSG_DONTWAIT);
    if (got <= 0)
        return got < 0 ? -errno : 0;
    peer->bytes_in += (uint64_t)got;
    count_in(peer, (uint64_t)got);
    if (peer_tls_came(peer->tls, (size_t)got, err) < 0) {
        if (peer->tls->end == TLS_SERVER && !peer->tls->met)
            refuse_plain(peer, "the links of this cluster speak TLS: give --cluster-cert, --cluster-key and "
                               "--cluster-ca, as its other processes have them");
        return -EPROTO;
    }
    return got;
}

static void read_tls(struct peer *peer, int64_t now_ns) {
    struct sy_error err;
    for (int i = 0; i < READS_MOST && !peer->closed; i++) {
        buffer_grow(peer);
        ssize_t got = receive_tls(peer, &err);
        if (got == -EAGAIN)
            break;
        if (got == -EINTR)
            continue;
        if (got <= 0) {
            fail(peer, got == 0         ? "the other end closed the connection"
                       : got == -EPROTO ? err.text
                                        : strerror((int)-got));
            return;
        }
        peer->heard_ns = now_ns;
        if (!decrypt(peer))
            return;
    }
    if (!peer->closed && (peer_tls_unsent(peer->tls) > 0 || peer->out_count > 0))
        peer_flush(peer); /* sends the handshake's bytes, and frames that waited for its end */
}

static void read_ready(struct peer *peer, int64_t now_ns) {
    bool drained = false; /* if more comes meanwhile, epoll reports it again */
    uint64_t until_bytes = peer->bytes_in + READ_BYTES;
    for (int i = 0; i < READS_MOST && peer->bytes_in < until_bytes && !peer->closed && !drained; i++) {
        buffer_grow(peer);
        bool first = peer->bytes_in == 0;
        ssize_t got = receive(peer, &drained);
        if (got == -EAGAIN)
            return;
        if (got == -EINTR)
            continue;
        if (got <= 0) {
            fail(peer, got == 0 ? "the other end closed the connection" : strerror((int)-got));
            return;
        }
        peer->heard_ns = now_ns;
        if (first && peer_tls_is_tls(peer->in, (size_t)got)) {
            refuse_plain(peer, "the links of this process are plain text");
            fail(peer, "it speaks TLS, and the links of this process are plain text");
            return;
        }
        if (!frames_take(peer))
            return;
    }
}

void peer_twins(struct peer *a, struct peer *b) {
    a->twin = b;
    b->twin = a;
}

bool peer_twin_read(struct peer *peer, int64_t now_ns, bool lent) {
    list_remove(&peer->arrival);
    buffer_grow(peer);
    peer->heard_ns = now_ns;
    peer->lent = lent;
    if (frames_take(peer) && peer->twin && peer->twin->out_count > 0)
        want_flush(peer->twin);
    peer->lent = false;
    return peer->closed || !lent || !is_about_models(peer);
}

/* A connection attempt has succeeded or failed. */
static void connected(struct peer *peer) {
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(peer->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error) {
        fail(peer, strerror(error));
        return;
    }
    peer->connecting = false;
    near_limit(peer->fd);
    if (peer->tls && tls_stream_read(peer->tls->stream, peer->in, peer->in_room) < 0) {
        fail(peer, "TLS cannot begin");
        return;
    }
    peer_flush(peer);
}

void peer_ready(struct peer *peer, uint32_t epoll_events, int64_t now_ns) {
    if (peer->closed)
        return;
    if (peer_greets(peer) && epoll_events & (EPOLLERR | EPOLLHUP)) {
        fail(peer, "the other end closed the connection"); /* no answer would reach the other end */
        return;
    }
    if (peer->connecting && epoll_events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        connected(peer);
    else if (epoll_events & EPOLLOUT)
        peer_flush(peer);
    if (peer->closed || !(epoll_events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
        return;
    if (peer->tls)
        read_tls(peer, now_ns);
    else
        read_ready(peer, now_ns);
}
