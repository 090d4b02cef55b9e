/* virtual_net.c - links, connections, sockets. Descriptors and epoll are in virtual_files.c. */
#include "sim/virtual_net.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/util/assert.h"
#include "sim/virtual_files.h"

#define RTO_FIRST_NS   (200 * NS_PER_MS)
#define RTO_CONNECT_NS NS_PER_S
#define RTO_MOST_NS    (120 * NS_PER_S)
#define UNIX_NS        (5 * NS_PER_US)
#define WINDOW_NS      NS_PER_MS /* how often a sender probes a window that is closed */
#define SEGMENT_BYTES  ((size_t)65536)
#define FDS_MOST       64
#define BACKLOG        4096

enum segment_kind { SEGMENT_SYN, SEGMENT_SYNACK, SEGMENT_ESTABLISH, SEGMENT_DATA, SEGMENT_FIN, SEGMENT_RESET };

struct segment {
    struct segment *next;
    enum segment_kind kind;
    int64_t sent_ns, arrive_ns, rto_ns;
    size_t bytes, taken;
    int fds[FDS_MOST];
    uint32_t fd_count;
    char data[];
};

/* One way of a connection. */
struct way {
    struct segment *first, **last;
    int64_t arrive_ns; /* of the last segment: TCP keeps the order */
    bool due;          /* an event is to look at it */
    bool hole;         /* a segment is lost for good: TCP delivers nothing that was sent after it */
    uint64_t sent, delivered, acknowledged;
};

struct connection {
    struct connection *next;
    bool local;
    uint32_t host[2]; /* of the one that connected, and of the other */
    uint16_t port[2];
    struct file *end[2]; /* NULL: closed */
    bool vanished[2];    /* the end's host has lost power: it sends nothing again */
    struct way way[2];   /* from that end */
};

static struct {
    struct virtual_link links[VIRTUAL_HOSTS_MAX][VIRTUAL_HOSTS_MAX];
    struct connection *connections;
    uint16_t ports;
} n;

void virtual_net_begin(void) {
    files_begin();
    for (uint32_t i = 0; i < VIRTUAL_HOSTS_MAX; i++)
        for (uint32_t k = 0; k < VIRTUAL_HOSTS_MAX; k++)
            n.links[i][k] = (struct virtual_link){.delay_ns = i == k ? 10 * NS_PER_US : 50 * NS_PER_US,
                                                  .jitter_ns = i == k ? 0 : 20 * NS_PER_US,
                                                  .bytes_per_ns = i == k ? 0 : 1.25};
    n.ports = VIRTUAL_PORT_ANY;
}

struct virtual_link *virtual_link(uint32_t from, uint32_t to) {
    return &n.links[from][to];
}

int64_t virtual_behind_ns(uint32_t host) {
    int64_t most[2] = {0};
    for (uint32_t other = 0; other < virtual_world.host_count; other++)
        for (int out = 0; out < 2; out++) {
            int64_t behind_ns = (out ? &n.links[host][other] : &n.links[other][host])->behind_ns;
            most[out] = behind_ns > most[out] ? behind_ns : most[out];
        }
    return most[0] + most[1];
}

struct in_addr virtual_address(uint32_t host) {
    return (struct in_addr){htonl(0x0a000001 + host)};
}

static int host_of(struct in_addr address) {
    uint32_t host = ntohl(address.s_addr) - 0x0a000001;
    return host < virtual_world.host_count ? (int)host : -1;
}

/* ---- segments on their way ---- */

static void way_look(void *connection, uint64_t side);

static struct virtual_link *link_of(const struct connection *c, int side) {
    return &n.links[c->host[side]][c->host[!side]];
}

static int64_t delay_of(const struct connection *c, int side) {
    if (c->local)
        return UNIX_NS;
    const struct virtual_link *link = link_of(c, side);
    return link->delay_ns + (link->jitter_ns > 0 ? virtual_between(0, link->jitter_ns) : 0);
}

static void way_due(struct connection *c, int side) {
    struct way *way = &c->way[side];
    if (way->due || !way->first)
        return;
    way->due = true;
    virtual_at(way->first->arrive_ns, way_look, c, (uint64_t)side);
}

static struct segment *send_segment(struct connection *c, int side, enum segment_kind kind, size_t bytes) {
    struct way *way = &c->way[side];
    struct virtual_link *link = link_of(c, side);
    struct segment *s = calloc(1, sizeof(*s) + bytes);
    CHECK(s);
    s->kind = kind;
    s->bytes = bytes;
    s->sent_ns = virtual_world.now_ns;
    s->rto_ns = kind < SEGMENT_ESTABLISH ? RTO_CONNECT_NS : RTO_FIRST_NS;
    s->arrive_ns = virtual_world.now_ns;
    if (!c->local && link->bytes_per_ns > 0) {
        int64_t begin_ns = link->busy_ns > virtual_world.now_ns ? link->busy_ns : virtual_world.now_ns;
        link->busy_ns = begin_ns + (int64_t)((double)(bytes + 66) / link->bytes_per_ns);
        s->arrive_ns = link->busy_ns;
        if (s->arrive_ns - s->sent_ns > link->behind_ns)
            link->behind_ns = s->arrive_ns - s->sent_ns;
    }
    s->arrive_ns += delay_of(c, side);
    if (!c->local && link->loss > 0 && virtual_chance(link->loss))
        s->arrive_ns += s->rto_ns;
    if (s->arrive_ns < way->arrive_ns)
        s->arrive_ns = way->arrive_ns;
    way->arrive_ns = s->arrive_ns;
    *way->last = s;
    way->last = &s->next;
    way_due(c, side);
    return s;
}

static void segment_free(struct segment *s) {
    while (s->fd_count > 0)
        close(s->fds[--s->fd_count]);
    free(s);
}

/* What the other end has no room for is not on the wire yet, and is thrown away. */
static void reset_back(struct connection *c, int from) {
    size_t there = c->end[!from] ? c->end[!from]->received_bytes : 0;
    struct way *way = &c->way[from];
    struct segment **s = &way->first;
    for (; *s && there < VIRTUAL_BUFFER; s = &(*s)->next)
        there += (*s)->bytes;
    while (*s) {
        struct segment *next = (*s)->next;
        segment_free(*s);
        *s = next;
    }
    way->last = s;
    send_segment(c, from, SEGMENT_RESET, 0);
}

static void acknowledged(void *connection, uint64_t tag) {
    struct connection *c = connection;
    int side = tag & 1;
    uint64_t up_to = tag >> 1;
    if (!c->local && link_of(c, !side)->cut) { /* the sender asks again until one comes */
        virtual_at(virtual_world.now_ns + RTO_FIRST_NS, acknowledged, c, tag);
        return;
    }
    struct way *way = &c->way[side];
    if (up_to > way->acknowledged)
        way->acknowledged = up_to;
    if (c->end[side])
        file_changed(c->end[side]);
}

static void end_broken(struct file *f, int error) {
    if (f->error || f->state == SOCKET_BROKEN)
        return;
    f->error = error;
    f->state = SOCKET_BROKEN;
    file_changed(f);
}

/* The listening socket that a connection is for. */
static struct file *listener_of(const struct connection *c) {
    return file_listening(c->host[1], c->port[1], NULL);
}

static void syn_arrives(struct connection *c) {
    struct file *listener = listener_of(c);
    if (!c->end[0])
        return;
    if (!listener) {
        reset_back(c, 1);
        return;
    }
    if (c->end[1])
        return; /* it is there */
    struct file *f = file_new(FILE_SOCKET, listener->process);
    f->state = SOCKET_OPEN;
    f->connection = c;
    f->side = 1;
    c->end[1] = f;
    c->vanished[1] = c->way[1].hole = false; /* an earlier process may have been there */
    send_segment(c, 1, SEGMENT_SYNACK, 0);
}

static void waiting_add(struct file *listener, struct file *f) {
    *listener->waiting_last = f;
    listener->waiting_last = &f->waiting_next;
    listener->waiting_count++;
    file_changed(listener);
}

static struct file *waiting_take(struct file *listener) {
    struct file *first = listener->waiting;
    listener->waiting = first->waiting_next;
    if (!listener->waiting)
        listener->waiting_last = &listener->waiting;
    listener->waiting_count--;
    return first;
}

static void established(struct connection *c) {
    struct file *listener = listener_of(c), *f = c->end[1];
    if (!f)
        return;
    if (!listener || listener->waiting_count == BACKLOG) {
        file_put(f);
        reset_back(c, 1);
        return;
    }
    waiting_add(listener, f);
}

/* False: there is no room for it. */
static bool segment_arrives(struct connection *c, int side, struct segment *s) {
    struct way *way = &c->way[side];
    struct file *to = c->end[!side];
    switch (s->kind) {
    case SEGMENT_SYN:
        syn_arrives(c);
        return true;
    case SEGMENT_SYNACK:
        if (!to) {
            reset_back(c, !side);
        } else if (to->state == SOCKET_CONNECTING) {
            to->state = SOCKET_OPEN;
            send_segment(c, !side, SEGMENT_ESTABLISH, 0);
            file_changed(to);
        }
        return true;
    case SEGMENT_ESTABLISH:
        established(c);
        return true;
    case SEGMENT_RESET:
        if (to)
            end_broken(to, to->state == SOCKET_CONNECTING ? ECONNREFUSED : ECONNRESET);
        return true;
    default:
        break;
    }
    if (to && to->state != SOCKET_BROKEN && s->kind == SEGMENT_DATA && to->received_bytes >= VIRTUAL_BUFFER)
        return false;
    if (!to || to->state == SOCKET_BROKEN) {
        if (s->kind == SEGMENT_DATA)
            reset_back(c, !side);
        return true;
    }
    if (s->kind == SEGMENT_FIN) {
        to->ended = true;
    } else {
        struct segment *kept = malloc(sizeof(*s) + s->bytes);
        CHECK(kept);
        memcpy(kept, s, sizeof(*s) + s->bytes);
        s->fd_count = 0; /* they go along */
        kept->next = NULL;
        *to->received_last = kept;
        to->received_last = &kept->next;
        to->received_bytes += s->bytes;
        way->delivered += s->bytes;
        virtual_at(virtual_world.now_ns + (c->local ? 0 : delay_of(c, !side)), acknowledged, c,
                   way->delivered << 1 | (uint64_t)side);
    }
    file_changed(to);
    return true;
}

/* A segment meets a link that is cut: TCP sends it again, unless its user has set a limit. */
static void segment_again(struct connection *c, int side, struct segment *s) {
    struct file *from = c->end[side];
    if (from && from->patience_ns > 0 && virtual_world.now_ns - s->sent_ns > from->patience_ns)
        end_broken(from, ETIMEDOUT);
    s->arrive_ns = virtual_world.now_ns + s->rto_ns;
    s->rto_ns = 2 * s->rto_ns < RTO_MOST_NS ? 2 * s->rto_ns : RTO_MOST_NS;
}

static void way_look(void *connection, uint64_t tag) {
    struct connection *c = connection;
    int side = (int)tag;
    struct way *way = &c->way[side];
    way->due = false;
    for (struct segment *s; (s = way->first) && s->arrive_ns <= virtual_world.now_ns;) {
        bool cut = !c->local && link_of(c, side)->cut;
        if (cut && s->kind != SEGMENT_RESET && !c->vanished[side]) {
            segment_again(c, side, s);
            break;
        }
        way->hole |= cut && s->kind != SEGMENT_RESET;
        bool lost = cut || (way->hole && s->kind != SEGMENT_RESET);
        if (lost && side == 1 && c->end[0] && c->end[0]->state == SOCKET_CONNECTING) /* who connects asks again */
            send_segment(c, 0, SEGMENT_SYN, 0)->arrive_ns += RTO_CONNECT_NS;
        if (!lost && !segment_arrives(c, side, s)) {
            s->arrive_ns = virtual_world.now_ns + WINDOW_NS;
            break;
        }
        way->first = s->next;
        if (!way->first)
            way->last = &way->first;
        segment_free(s);
    }
    way_due(c, side);
}

/* ---- sockets ---- */

static struct file *socket_of(int fd) {
    struct file *f = file_of(fd);
    return f && f->kind == FILE_SOCKET ? f : NULL;
}

int virtual_socket(int family) {
    if (virtual_self()->no_sockets)
        return -EMFILE;
    struct file *f = file_new(FILE_SOCKET, virtual_self());
    f->local = family == AF_UNIX;
    return file_open(f);
}

/* The name of a Unix socket, which begins with a zero. */
static void unix_name(const struct sockaddr *address, socklen_t bytes, char name[108]) {
    const struct sockaddr_un *un = (const struct sockaddr_un *)address;
    size_t length = bytes - offsetof(struct sockaddr_un, sun_path) - 1;
    memset(name, 0, 108);
    memcpy(name, un->sun_path + 1, length < 107 ? length : 107);
}

int virtual_bind(int fd, const struct sockaddr *address, socklen_t bytes) {
    struct file *f = socket_of(fd);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    if (!f)
        return -EBADF;
    if (f->local) {
        unix_name(address, bytes, f->name);
        return 0;
    }
    uint16_t port = ntohs(v4->sin_port);
    if (port && file_listening(virtual_self()->host, port, NULL))
        return -EADDRINUSE;
    f->port = port ? port : n.ports++;
    return 0;
}

int virtual_listen(int fd) {
    struct file *f = socket_of(fd);
    if (!f)
        return -EBADF;
    f->state = SOCKET_LISTENING;
    return 0;
}

static struct connection *connection_new(bool local, uint32_t from, uint32_t to) {
    struct connection *c = calloc(1, sizeof(*c));
    CHECK(c);
    c->local = local;
    c->host[0] = from;
    c->host[1] = to;
    for (int side = 0; side < 2; side++)
        c->way[side].last = &c->way[side].first;
    c->next = n.connections;
    n.connections = c;
    return c;
}

static int connect_local(struct file *f, const struct sockaddr *address, socklen_t bytes) {
    char name[108];
    unix_name(address, bytes, name);
    struct file *listener = file_listening(virtual_self()->host, 0, name);
    if (!listener)
        return -ECONNREFUSED;
    if (listener->waiting_count == BACKLOG)
        return -EAGAIN;
    struct connection *c = connection_new(true, virtual_self()->host, virtual_self()->host);
    struct file *other = file_new(FILE_SOCKET, listener->process);
    other->local = true;
    other->side = 1;
    f->connection = other->connection = c;
    f->state = other->state = SOCKET_OPEN;
    c->end[0] = f;
    c->end[1] = other;
    waiting_add(listener, other);
    return 0;
}

int virtual_connect(int fd, const struct sockaddr *address, socklen_t bytes) {
    struct file *f = socket_of(fd);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    if (!f)
        return -EBADF;
    if (f->local)
        return connect_local(f, address, bytes);
    int host = host_of(v4->sin_addr);
    if (host < 0)
        return -ENETUNREACH;
    struct connection *c = connection_new(false, virtual_self()->host, (uint32_t)host);
    n.ports = n.ports < UINT16_MAX ? n.ports + 1 : VIRTUAL_PORT_ANY;
    c->port[0] = n.ports;
    c->port[1] = ntohs(v4->sin_port);
    c->end[0] = f;
    f->connection = c;
    f->state = SOCKET_CONNECTING;
    send_segment(c, 0, SEGMENT_SYN, 0);
    return -EINPROGRESS;
}

static void address_of(const struct connection *c, int side, struct sockaddr *address, socklen_t *bytes) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(c->port[side])};
    v4.sin_addr = virtual_address(c->host[side]);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t length = c->local ? (socklen_t)sizeof(sa_family_t) : (socklen_t)sizeof(v4);
    memcpy(address, c->local ? (const void *)&un : (const void *)&v4, length < *bytes ? length : *bytes);
    *bytes = length;
}

int virtual_accept(int fd, struct sockaddr *address, socklen_t *bytes) {
    struct file *f = socket_of(fd);
    if (!f || f->state != SOCKET_LISTENING)
        return -EINVAL;
    if (f->waiting_count == 0)
        return -EAGAIN;
    if (virtual_self()->no_sockets && (f->port < VIRTUAL_PORT_SPARED || f->port > VIRTUAL_PORT_SPARED + 1) &&
        (virtual_self()->spare = !virtual_self()->spare))
        return -EMFILE;
    struct file *first = waiting_take(f);
    if (address)
        address_of(first->connection, 0, address, bytes);
    return file_open(first);
}

int virtual_name(int fd, struct sockaddr *address, socklen_t *bytes) {
    struct file *f = socket_of(fd);
    if (!f)
        return -EBADF;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(f->port)};
    v4.sin_addr = virtual_address(f->process->host);
    memcpy(address, &v4, sizeof(v4) < *bytes ? sizeof(v4) : *bytes);
    *bytes = sizeof(v4);
    return 0;
}

int virtual_shutdown(int fd, int how) {
    struct file *f = socket_of(fd);
    if (!f)
        return -EBADF;
    if (f->state != SOCKET_OPEN)
        return -ENOTCONN;
    if (!f->shut)
        send_segment(f->connection, f->side, SEGMENT_FIN, 0);
    f->shut = true;
    f->shut_read = how != SHUT_WR;
    file_changed(f);
    return 0;
}

/* What a send may take. */
size_t socket_room(const struct file *f) {
    const struct way *way = &f->connection->way[f->side];
    uint64_t under_way = way->sent - way->acknowledged;
    return under_way < VIRTUAL_BUFFER ? VIRTUAL_BUFFER - (size_t)under_way : 0;
}

static void fds_attach(struct segment *s, const struct msghdr *message) {
    for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h; h = CMSG_NXTHDR((struct msghdr *)(uintptr_t)message, h)) {
        size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && h->cmsg_type == SCM_RIGHTS; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(fd));
            s->fds[s->fd_count++] = dup(fd);
        }
    }
}

ssize_t virtual_send(int fd, const struct msghdr *message) {
    struct file *f = socket_of(fd);
    size_t wanted = 0, done = 0;
    if (!f)
        return -EBADF;
    if (f->error) {
        int error = f->error;
        f->error = 0;
        return -error;
    }
    if (f->state == SOCKET_CONNECTING)
        return -EAGAIN;
    if (f->state != SOCKET_OPEN || f->shut)
        return -EPIPE;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        wanted += message->msg_iov[i].iov_len;
    size_t room = socket_room(f);
    size_t bytes = wanted < room ? wanted : room;
    if (bytes == 0 && wanted > 0)
        return -EAGAIN;
    struct segment *s = NULL;
    size_t used = 0;
    for (size_t i = 0, at = 0; done < bytes;) {
        if (!s || used == s->bytes) {
            s = send_segment(f->connection, f->side, SEGMENT_DATA,
                             bytes - done < SEGMENT_BYTES ? bytes - done : SEGMENT_BYTES);
            used = 0;
        }
        size_t left = message->msg_iov[i].iov_len - at, part = left < s->bytes - used ? left : s->bytes - used;
        memcpy(s->data + used, (const char *)message->msg_iov[i].iov_base + at, part);
        used += part;
        done += part;
        at += part;
        if (at == message->msg_iov[i].iov_len) {
            at = 0;
            i++;
        }
    }
    f->connection->way[f->side].sent += bytes;
    if (s && message->msg_controllen > 0)
        fds_attach(s, message);
    return (ssize_t)bytes;
}

static size_t fds_give(struct segment *s, struct msghdr *message) {
    size_t bytes = s->fd_count * sizeof(int);
    struct cmsghdr *h = CMSG_FIRSTHDR(message);
    if (!h || message->msg_controllen < CMSG_SPACE(bytes))
        return 0;
    *h = (struct cmsghdr){.cmsg_len = CMSG_LEN(bytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(h), s->fds, bytes);
    s->fd_count = 0;
    return CMSG_SPACE(bytes);
}

ssize_t virtual_receive(int fd, struct msghdr *message) {
    struct file *f = socket_of(fd);
    size_t done = 0, control = 0;
    if (!f)
        return -EBADF;
    if (!f->received && f->error) {
        int error = f->error;
        f->error = 0;
        return -error;
    }
    if (!f->received) {
        message->msg_controllen = 0; /* as the kernel */
        return f->ended || f->shut_read || f->state == SOCKET_BROKEN ? 0
               : f->state == SOCKET_OPEN                             ? -EAGAIN
                                                                     : -ENOTCONN;
    }
    for (size_t i = 0, at = 0; f->received && i < message->msg_iovlen;) {
        struct segment *s = f->received;
        size_t left = message->msg_iov[i].iov_len - at, there = s->bytes - s->taken, part = left < there ? left : there;
        if (s->fd_count > 0 && done > 0)
            break;
        if (s->fd_count > 0)
            control = fds_give(s, message);
        memcpy((char *)message->msg_iov[i].iov_base + at, s->data + s->taken, part);
        s->taken += part;
        done += part;
        at += part;
        f->received_bytes -= part;
        if (s->taken == s->bytes) {
            f->received = s->next;
            if (!f->received)
                f->received_last = &f->received;
            segment_free(s);
        }
        if (at == message->msg_iov[i].iov_len) {
            at = 0;
            i++;
        }
    }
    message->msg_controllen = control;
    message->msg_flags = 0;
    return (ssize_t)done;
}

int virtual_option(int fd, int level, int name, const void *value) {
    struct file *f = socket_of(fd);
    unsigned ms;
    if (!f)
        return -EBADF;
    if (f->local)
        return -ENOTSUP;
    if (level != IPPROTO_TCP || name != TCP_USER_TIMEOUT)
        return 0;
    memcpy(&ms, value, sizeof(ms));
    f->patience_ns = ms * NS_PER_MS;
    return 0;
}

int virtual_error(int fd) {
    struct file *f = socket_of(fd);
    int error = f ? f->error : EBADF;
    if (f)
        f->error = 0;
    return error;
}

size_t virtual_unsent(int fd) {
    struct file *f = socket_of(fd);
    return f && f->connection ? VIRTUAL_BUFFER - socket_room(f) : 0;
}

/* ---- ends ---- */

void socket_closed(struct file *f) {
    struct connection *c = f->connection;
    while (f->waiting_count > 0)
        file_put(waiting_take(f));
    bool unread = f->received;
    for (struct segment *s = f->received, *next; s; s = next) {
        next = s->next;
        segment_free(s);
    }
    if (!c)
        return;
    c->end[f->side] = NULL;
    c->vanished[f->side] = f->vanished;
    if (f->state != SOCKET_OPEN || f->vanished || (f->shut && !unread))
        return;
    if (unread)
        reset_back(c, f->side);
    else
        send_segment(c, f->side, SEGMENT_FIN, 0);
}

uint32_t virtual_reset(uint32_t host, uint32_t other) {
    uint32_t count = 0;
    for (struct connection *c = n.connections; c; c = c->next) {
        bool between = (c->host[0] == host && c->host[1] == other) || (c->host[0] == other && c->host[1] == host);
        if (!between || c->local)
            continue;
        for (int side = 0; side < 2; side++)
            if (c->end[side] && c->end[side]->state != SOCKET_CONNECTING) {
                end_broken(c->end[side], ECONNRESET);
                count += side;
            }
    }
    return count;
}
