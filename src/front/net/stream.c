/* stream.c - bytes of a connection, both ways.
 *
 * A request arrives when the kernel has it (SO_TIMESTAMPING), not when we read it: else a thread that is busy, or that
 * the system has put off, would count answers as in time that their clients see late. Asking the kernel costs nothing
 * that can be measured (sending and receiving 1 KB over loopback takes 8 us either way). */
#include "front/net/stream.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/util/assert.h"

#define SILENT_MS     60000           /* time without an answer of the peer's machine after which the peer has gone */
#define WAITED_MAX_NS (10 * NS_PER_S) /* longest wait that is believed; else the clock was set meanwhile */
#define CONTROL_BYTES 256

int stream_home_init(struct stream_home *home, int epoll_fd, struct tls *tls, const char *alpn,
                     struct histogram *waited_ns) {
    *home = (struct stream_home){.epoll_fd = epoll_fd, .tls = tls, .alpn = alpn, .waited_ns = waited_ns};
    text_init(&home->encrypted, NULL, 0);
    read_queue_init(&home->reads);
    home->decrypted = malloc(STREAM_RECORD_BYTES);
    return home->decrypted ? 0 : -ENOMEM;
}

void stream_home_destroy(struct stream_home *home) {
    free(home->decrypted);
    text_free(&home->encrypted);
}

/* ---- begin and end ---- */

int stream_open(struct stream *s, struct stream_home *home, int fd, int64_t now_ns) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = s};
    *s = (struct stream){.home = home, .fd = fd, .watched = event.events, .begun_ns = now_ns, .active_ns = now_ns};
    text_init(&s->unsent, NULL, 0);
    int one = 1, idle_s = SILENT_MS / 2000, interval_s = SILENT_MS / 12000, silent_ms = SILENT_MS;
    int stamps = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms, sizeof(silent_ms));
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof(stamps));
    if (home->tls && !(s->tls = tls_stream_create(home->tls, TLS_SERVER, home->alpn, &home->encrypted)))
        return -ENOMEM;
    if (epoll_ctl(home->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return 0;
    int rc = -errno;
    tls_stream_destroy(s->tls);
    return rc;
}

void stream_close(struct stream *s) {
    read_queue_remove(&s->place);
    if (s->tls) {
        tls_stream_end(s->tls);
        stream_write_encrypted(s, s->active_ns); /* sends as much as the socket takes at once */
        tls_stream_destroy(s->tls);
    }
    /* a process that was forked meanwhile may still have the socket, which would keep it in the epoll set */
    epoll_ctl(s->home->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
    close(s->fd);
    s->fd = -1;
    text_free(&s->unsent);
}

int stream_release(struct stream *s) {
    int fd = s->fd;
    CHECK(!s->tls && !stream_congested(s));
    read_queue_remove(&s->place);
    epoll_ctl(s->home->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    s->fd = -1;
    text_free(&s->unsent);
    return fd;
}

/* ---- what is watched ---- */

static void watch(struct stream *s, uint32_t events, bool held) {
    if (events == s->watched && held == s->held)
        return;
    struct epoll_event event = {.events = held ? events & ~(EPOLLIN | EPOLLRDHUP) : events, .data.ptr = s};
    epoll_ctl(s->home->epoll_fd, EPOLL_CTL_MOD, s->fd, &event);
    s->watched = events;
    s->held = held;
}

static void watch_also(struct stream *s, uint32_t events, bool wanted) {
    watch(s, wanted ? s->watched | events : s->watched & ~events, s->held);
}

void stream_reading(struct stream *s, bool wanted) {
    watch_also(s, EPOLLIN, wanted);
}

void stream_writing(struct stream *s, bool wanted) {
    watch_also(s, EPOLLOUT, wanted || stream_congested(s));
}

void stream_hold(struct stream *s, bool held) {
    watch(s, s->watched, held);
}

void stream_shut(struct stream *s) {
    s->shut = true;
    watch_also(s, EPOLLRDHUP, false);
}

/* ---- reading ---- */

/* The time at which the bytes came, by CLOCK_REALTIME; 0: the kernel does not say. */
static int64_t stamp_of(struct msghdr *message) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPING) {
            struct timespec stamp; /* the first of three: software's */
            memcpy(&stamp, CMSG_DATA(c), sizeof(stamp));
            return stamp.tv_sec * NS_PER_S + stamp.tv_nsec;
        }
    return 0;
}

/* The time for which bytes that came at `stamp_ns` of CLOCK_REALTIME have waited. */
static int64_t waited_since(int64_t stamp_ns) {
    struct timespec today;
    clock_gettime(CLOCK_REALTIME, &today);
    int64_t waited_ns = today.tv_sec * NS_PER_S + today.tv_nsec - stamp_ns;
    return stamp_ns == 0 || waited_ns < 0 || waited_ns > WAITED_MAX_NS ? 0 : waited_ns;
}

ssize_t stream_receive(struct stream *s, void *data, size_t bytes, int64_t *arrived_ns) {
    char control[CONTROL_BYTES];
    struct iovec piece = {data, bytes};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(s->fd, &message, 0);
    if (n < 0)
        return errno == EINTR || errno == EWOULDBLOCK ? -EAGAIN : -errno;
    int64_t waited_ns = n > 0 ? waited_since(stamp_of(&message)) : 0;
    s->active_ns = clock_now_ns();
    *arrived_ns = s->active_ns - waited_ns;
    histogram_add(s->home->waited_ns, waited_ns);
    read_queue_note(&s->home->reads, waited_ns, s->active_ns);
    return n;
}

/* ---- writing ---- */

static ssize_t send_some(struct stream *s, struct iovec *pieces, size_t count, int64_t now_ns) {
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    ssize_t n = sendmsg(s->fd, &message, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
    if (n > 0)
        s->active_ns = now_ns;
    return n;
}

static int write_plain(struct stream *s, struct iovec *pieces, size_t count, int64_t now_ns) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    if (bytes == 0)
        return 1;
    ssize_t n = stream_congested(s) ? 0 : send_some(s, pieces, count, now_ns);
    if (n < 0)
        return (int)n;
    if ((size_t)n == bytes)
        return 1;
    size_t sent = (size_t)n;
    for (size_t i = 0; i < count; i++) { /* the rest is kept in `unsent` */
        size_t skip = sent < pieces[i].iov_len ? sent : pieces[i].iov_len;
        text_append(&s->unsent, (const char *)pieces[i].iov_base + skip, pieces[i].iov_len - skip);
        sent -= skip;
    }
    watch_also(s, EPOLLOUT, true);
    return s->unsent.failed ? -ENOMEM : 0;
}

int stream_write_encrypted(struct stream *s, int64_t now_ns) {
    struct text *encrypted = &s->home->encrypted;
    int rc =
        encrypted->failed ? -ENOMEM : write_plain(s, &(struct iovec){encrypted->data, encrypted->length}, 1, now_ns);
    text_clear(encrypted);
    return rc;
}

int stream_write(struct stream *s, struct iovec *pieces, size_t count, int64_t now_ns) {
    if (!s->tls)
        return write_plain(s, pieces, count, now_ns);
    for (size_t i = 0; i < count; i++)
        if (tls_stream_write(s->tls, pieces[i].iov_base, pieces[i].iov_len) < 0)
            return -EIO;
    return stream_write_encrypted(s, now_ns);
}

ssize_t stream_send(struct stream *s, struct iovec *pieces, size_t count, int64_t now_ns) {
    return send_some(s, pieces, count, now_ns);
}

size_t stream_pending(const struct stream *s) {
    int queued = 0;
    ioctl(s->fd, SIOCOUTQ, &queued);
    return (size_t)queued + s->unsent.length - s->unsent_at;
}

int stream_flush(struct stream *s, int64_t now_ns) {
    ssize_t n =
        send_some(s, &(struct iovec){s->unsent.data + s->unsent_at, s->unsent.length - s->unsent_at}, 1, now_ns);
    if (n < 0)
        return (int)n;
    s->unsent_at += (size_t)n;
    if (s->unsent_at < s->unsent.length)
        return 0;
    text_free(&s->unsent);
    s->unsent_at = 0;
    watch_also(s, EPOLLOUT, false);
    return 1;
}
