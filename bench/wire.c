/* wire.c - bench_wire: sends one request again and again on a few connections, in a closed loop, from bytes made
 * beforehand, so that the client costs little next to the server. bench/wire.py drives it and measures the server.
 *
 *     bench_wire http|grpc PORT PATH [--body FILE] [--head-bytes N] [--connections C] [--streams S] [--seconds T]
 *                [--pause-us U] [--spin]
 *
 * POSTs the file (GET without one). For grpc the file holds a message with its prefix, and S calls are outstanding on
 * each connection. For http one request is, and N is the Inference-Header-Content-Length. After an answer the next
 * request waits for U.
 * With --spin the client polls instead of sleeping. The first tenth of the time is not counted. Prints a line of JSON.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/util/assert.h"
#include "core/system/clock.h"
#include "core/util/text.h"
#include "core/util/time.h"
#include "server/commands/options.h"
#include "lab/load/latency.h"

#define CONNECTIONS_MAX 256
#define CALLS           4096 /* of a connection, from the oldest open to the newest */
#define OUT_BYTES       ((size_t)256 << 10)
#define IN_BYTES        ((size_t)1 << 20)
#define FRAME_BYTES     16384
#define FRAME_HEAD      9
#define FRAMES_MAX      512
#define WINDOW          INT32_MAX

enum frame_type { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, WINDOW_UPDATE = 8 };
enum { FLAG_ACK = 1, FLAG_END_STREAM = 1, FLAG_END_HEADERS = 4 };

struct call {
    int64_t sent_ns;
    bool open, data_came;
};

struct connection {
    int fd;
    char *in;
    size_t in_length, skip; /* bytes read but not parsed yet; bytes still to come of a body that is skipped */
    uint32_t wanted;        /* requests that may be sent now */
    bool failed;            /* http: the answer being skipped is not 200 */
    /* HTTP/2 */
    uint32_t stream; /* the next one */
    int64_t window, received;
    struct call calls[CALLS];
};

struct settings {
    const char *body;
    int64_t head_bytes, connections, streams, pause_us;
    double seconds;
    bool spin;
};

struct bench {
    struct settings settings;
    bool grpc;
    struct text request;
    size_t frames[FRAMES_MAX]; /* where each begins in the request */
    uint32_t frame_count;
    size_t body_bytes;
    struct connection *connections;
    char *out;
    size_t out_length;
    int64_t count_ns, end_ns;
    struct latency latency;
    uint64_t failed;
};

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* ---- the request ---- */

static void put_frame(struct text *text, size_t length, enum frame_type type, int flags, uint32_t stream) {
    const uint8_t head[FRAME_HEAD] = {(uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length,
                                      (uint8_t)type,           (uint8_t)flags,         (uint8_t)(stream >> 24),
                                      (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    text_append(text, (const char *)head, sizeof(head));
}

/* Never indexed, so that the bytes do not depend on earlier headers (RFC 7541, 6.2.2). */
static void put_header(struct text *text, const char *name, const char *value) {
    CHECK_LT(strlen(value), 127);
    text_put_char(text, 0);
    text_put_char(text, (char)strlen(name));
    text_put(text, name);
    text_put_char(text, (char)strlen(value));
    text_put(text, value);
}

static void frame_begins(struct bench *b) {
    CHECK_LT(b->frame_count, FRAMES_MAX);
    b->frames[b->frame_count++] = b->request.length;
}

static void make_call(struct bench *b, const char *path, const char *body, size_t bytes) {
    struct text headers = {0};
    put_header(&headers, ":method", "POST");
    put_header(&headers, ":scheme", "http");
    put_header(&headers, ":path", path);
    put_header(&headers, ":authority", "localhost");
    put_header(&headers, "content-type", "application/grpc");
    put_header(&headers, "te", "trailers");
    frame_begins(b);
    put_frame(&b->request, headers.length, HEADERS, FLAG_END_HEADERS, 0);
    text_append(&b->request, headers.data, headers.length);
    text_free(&headers);
    for (size_t at = 0; at < bytes; at += FRAME_BYTES) {
        size_t length = bytes - at < FRAME_BYTES ? bytes - at : FRAME_BYTES;
        frame_begins(b);
        put_frame(&b->request, length, DATA, at + length == bytes ? FLAG_END_STREAM : 0, 0);
        text_append(&b->request, body + at, length);
    }
}

static void make_http(struct bench *b, const char *path, const char *body, size_t bytes) {
    text_printf(&b->request, "%s %s HTTP/1.1\r\nHost: localhost\r\n", body ? "POST" : "GET", path);
    if (b->settings.head_bytes > 0)
        text_printf(&b->request, "Inference-Header-Content-Length: %lld\r\n", (long long)b->settings.head_bytes);
    if (body)
        text_printf(&b->request, "Content-Length: %zu\r\n", bytes);
    text_put(&b->request, "\r\n");
    text_append(&b->request, body, bytes);
}

static void request_make(struct bench *b, const char *path) {
    struct text body = {0};
    FILE *file = b->settings.body ? fopen(b->settings.body, "rb") : NULL;
    if (b->settings.body && !file)
        die(b->settings.body);
    while (file && !feof(file)) {
        CHECK(text_reserve(&body, 65536));
        body.length += fread(body.data + body.length, 1, 65536, file);
    }
    if (file)
        fclose(file);
    b->body_bytes = body.length;
    (b->grpc ? make_call : make_http)(b, path, body.data, body.length);
    CHECK(!body.failed && !b->request.failed);
    text_free(&body);
}

/* ---- sending: gathered, in the order of the turns. The server always reads, so this does not block for long ---- */

static void send_bytes(struct connection *c, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t n = send(c->fd, bytes, length, MSG_NOSIGNAL);
        if (n < 0)
            die("send");
        bytes += n;
        length -= (size_t)n;
    }
}

static void flush(struct bench *b, struct connection *c) {
    send_bytes(c, b->out, b->out_length);
    b->out_length = 0;
}

static void put_out(struct bench *b, struct connection *c, const char *bytes, size_t length) {
    if (b->out_length + length > OUT_BYTES)
        flush(b, c);
    if (length > OUT_BYTES) {
        send_bytes(c, bytes, length);
        return;
    }
    memcpy(b->out + b->out_length, bytes, length);
    b->out_length += length;
}

static void put_control(struct bench *b, struct connection *c, enum frame_type type, int flags, const void *payload,
                        size_t length) {
    char bytes[64];
    struct text frame;
    text_init(&frame, bytes, sizeof(bytes));
    put_frame(&frame, length, type, flags, 0);
    text_append(&frame, payload, length);
    put_out(b, c, frame.data, frame.length);
}

/* False: the window is too small for now. */
static bool call_send(struct bench *b, struct connection *c, int64_t now_ns) {
    struct call *call = &c->calls[c->stream / 2 % CALLS];
    const uint8_t stream[4] = {(uint8_t)(c->stream >> 24), (uint8_t)(c->stream >> 16), (uint8_t)(c->stream >> 8),
                               (uint8_t)c->stream};
    if (call->open || c->window < (int64_t)b->body_bytes)
        return false;
    for (uint32_t i = 0; i < b->frame_count; i++)
        memcpy(b->request.data + b->frames[i] + 5, stream, sizeof(stream));
    *call = (struct call){.sent_ns = now_ns, .open = true};
    c->window -= (int64_t)b->body_bytes;
    c->stream += 2;
    put_out(b, c, b->request.data, b->request.length);
    return true;
}

static void send_wanted(struct bench *b, struct connection *c) {
    int64_t now_ns = clock_now_ns();
    for (; c->wanted > 0 && now_ns < b->end_ns; c->wanted--)
        if (b->grpc) {
            if (!call_send(b, c, now_ns))
                break;
        } else {
            c->calls[0].sent_ns = now_ns;
            put_out(b, c, b->request.data, b->request.length);
        }
    flush(b, c);
}

/* ---- receiving ---- */

static void answered(struct bench *b, struct connection *c, int64_t sent_ns, bool good) {
    int64_t now_ns = clock_now_ns();
    if (sent_ns >= b->count_ns && now_ns < b->end_ns) {
        latency_add(&b->latency, now_ns - sent_ns);
        b->failed += !good;
    }
    c->wanted++;
}

static uint32_t number(const char *at, int bytes) {
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | (uint8_t)at[i];
    return value;
}

static void take_frame(struct bench *b, struct connection *c, const char *frame, size_t length) {
    int flags = frame[4];
    uint32_t stream = number(frame + 5, 4);
    struct call *call = &c->calls[stream / 2 % CALLS];
    switch ((enum frame_type)frame[3]) {
    case DATA:
        call->data_came = true;
        break;
    case HEADERS: /* a call that fails has no data */
    case RST_STREAM:
        if (!call->open || (frame[3] == HEADERS && !(flags & FLAG_END_STREAM)))
            break;
        call->open = false;
        answered(b, c, call->sent_ns, call->data_came && frame[3] == HEADERS);
        break;
    case SETTINGS:
        if (!(flags & FLAG_ACK))
            put_control(b, c, SETTINGS, FLAG_ACK, NULL, 0);
        break;
    case PING:
        if (!(flags & FLAG_ACK))
            put_control(b, c, PING, FLAG_ACK, frame + FRAME_HEAD, length);
        break;
    case WINDOW_UPDATE:
        if (stream == 0)
            c->window += number(frame + FRAME_HEAD, 4);
        break;
    case GOAWAY:
        fprintf(stderr, "the server says good-bye\n");
        exit(1);
    }
}

/* Takes the whole frames of the bytes read; of a data frame the head is enough. Returns how many bytes it took. */
static size_t take_frames(struct bench *b, struct connection *c) {
    size_t at = 0;
    while (c->in_length - at >= FRAME_HEAD) {
        const char *frame = c->in + at;
        size_t length = number(frame, 3), needed = frame[3] == DATA ? FRAME_HEAD : FRAME_HEAD + length;
        if (c->in_length - at < needed)
            break;
        take_frame(b, c, frame, length);
        at += needed;
        if (frame[3] != DATA)
            continue;
        size_t here = c->in_length - at < length ? c->in_length - at : length;
        c->skip = length - here;
        at += here;
    }
    return at;
}

static size_t take_answers(struct bench *b, struct connection *c) {
    size_t at = 0;
    while (at < c->in_length) {
        const char *head = c->in + at, *end = memmem(head, c->in_length - at, "\r\n\r\n", 4);
        if (!end)
            break;
        const char *length_at = memmem(head, (size_t)(end - head), "\r\nContent-Length: ", 18);
        size_t length = length_at ? strtoul(length_at + 18, NULL, 10) : 0;
        c->failed = memcmp(head, "HTTP/1.1 200", 12) != 0;
        at = (size_t)(end + 4 - c->in);
        size_t here = c->in_length - at < length ? c->in_length - at : length;
        c->skip = length - here;
        at += here;
        if (c->skip == 0)
            answered(b, c, c->calls[0].sent_ns, !c->failed);
    }
    return at;
}

/* Fills the window that we have granted again, once half of it is used up. */
static void refill(struct bench *b, struct connection *c) {
    const uint8_t bytes[4] = {(uint8_t)(c->received >> 24), (uint8_t)(c->received >> 16), (uint8_t)(c->received >> 8),
                              (uint8_t)c->received};
    if (!b->grpc || c->received < WINDOW / 2)
        return;
    put_control(b, c, WINDOW_UPDATE, 0, bytes, sizeof(bytes));
    c->received = 0;
}

/* False: there was nothing. */
static bool read_some(struct bench *b, struct connection *c) {
    ssize_t n = recv(c->fd, c->in + c->in_length, IN_BYTES - c->in_length, MSG_DONTWAIT);
    if (n < 0)
        return false;
    if (n == 0) {
        fprintf(stderr, "the server closed a connection\n");
        exit(1);
    }
    size_t skipped = c->skip < (size_t)n ? c->skip : (size_t)n; /* nothing else is in the buffer then */
    c->received += n;
    c->skip -= skipped;
    c->in_length += (size_t)n - skipped;
    if (skipped > 0) {
        memmove(c->in, c->in + skipped, c->in_length);
        if (c->skip == 0 && !b->grpc)
            answered(b, c, c->calls[0].sent_ns, !c->failed);
    }
    size_t taken = (b->grpc ? take_frames : take_answers)(b, c);
    c->in_length -= taken;
    memmove(c->in, c->in + taken, c->in_length);
    refill(b, c);
    return true;
}

/* ---- the run ---- */

static void connection_open(struct bench *b, struct connection *c, int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const uint8_t settings[] = {0, 4, 0x7f, 0xff, 0xff, 0xff}; /* INITIAL_WINDOW_SIZE */
    static const uint8_t window[] = {0x7f, 0xff, 0, 0};               /* to 2^31-1 */
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        die("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    c->in = malloc(IN_BYTES);
    c->stream = 1;
    c->window = 65535;
    c->wanted = b->grpc ? (uint32_t)b->settings.streams : 1;
    CHECK(c->in);
    if (!b->grpc)
        return;
    put_out(b, c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    put_control(b, c, SETTINGS, 0, settings, sizeof(settings));
    put_control(b, c, WINDOW_UPDATE, 0, window, sizeof(window));
    flush(b, c);
    while (c->window == 65535) /* until the server has told its settings and its window */
        if (read_some(b, c))
            flush(b, c);
}

static void pause_spinning(const struct bench *b, int64_t ns) {
    int64_t until_ns = clock_now_ns() + ns;
    if (!b->settings.spin && ns > 0)
        usleep((useconds_t)(ns / NS_PER_US));
    while (b->settings.spin && clock_now_ns() < until_ns) {
    }
}

static void run(struct bench *b, int epoll_fd) {
    uint32_t count = (uint32_t)b->settings.connections;
    struct epoll_event events[CONNECTIONS_MAX];
    for (uint32_t i = 0; i < count; i++)
        send_wanted(b, &b->connections[i]);
    while (clock_now_ns() < b->end_ns) {
        int ready = b->settings.spin ? (int)count : epoll_wait(epoll_fd, events, CONNECTIONS_MAX, 100);
        for (int i = 0; i < ready; i++) {
            struct connection *c = b->settings.spin ? &b->connections[i] : events[i].data.ptr;
            if (!read_some(b, c))
                continue;
            if (b->settings.pause_us > 0 && c->wanted > 0)
                pause_spinning(b, b->settings.pause_us * NS_PER_US);
            send_wanted(b, c);
        }
    }
}

#define S struct settings
static const struct option_row rows[] = {
    OPTION_TEXT(S, body, "body", "FILE", "what is POSTed; GET without it"),
    OPTION_INT(S, head_bytes, "head-bytes", "N", 0, 1 << 30, "Inference-Header-Content-Length"),
    OPTION_INT(S, connections, "connections", "C", 1, CONNECTIONS_MAX, "connections"),
    OPTION_INT(S, streams, "streams", "S", 1, 1024, "grpc: calls outstanding on each"),
    OPTION_DOUBLE(S, seconds, "seconds", "T", 0.01, 1e6, "how long"),
    OPTION_INT(S, pause_us, "pause-us", "U", 0, 10000000, "between an answer and the next request"),
    OPTION_FLAG(S, spin, "spin", "poll instead of sleeping"),
    OPTION_END,
};
static const struct options options = {.command = "bench_wire",
                                       .usage = "http|grpc PORT PATH [OPTION]...",
                                       .rows = rows,
                                       .args_min = 3,
                                       .args_max = 3,
                                       .args_name = "argument"};

int main(int argc, char **argv) {
    static struct bench bench = {.settings = {.connections = 1, .streams = 1, .seconds = 1}};
    struct bench *b = &bench;
    int args, status = options_parse(&options, argc, argv, &b->settings, &args);
    if (status != OPTIONS_GO_ON)
        return status;
    b->grpc = strcmp(argv[1], "grpc") == 0;
    b->out = malloc(OUT_BYTES);
    b->connections = calloc((size_t)b->settings.connections, sizeof(*b->connections));
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    CHECK(b->out && b->connections && epoll_fd >= 0);
    request_make(b, argv[3]);
    for (int64_t i = 0; i < b->settings.connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &b->connections[i]};
        connection_open(b, &b->connections[i], atoi(argv[2]));
        CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, b->connections[i].fd, &event) == 0);
    }
    b->count_ns = clock_now_ns() + (int64_t)(b->settings.seconds * 0.1 * NS_PER_S);
    b->end_ns = b->count_ns + (int64_t)(b->settings.seconds * 0.9 * NS_PER_S);
    run(b, epoll_fd);
    uint64_t count = b->latency.count;
    printf("{\"requests\":%llu,\"failed\":%llu,\"requests_per_s\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
           (unsigned long long)count, (unsigned long long)b->failed, (double)count / (b->settings.seconds * 0.9),
           (double)latency_quantile_ns(&b->latency, 0.5) / 1e3, (double)latency_quantile_ns(&b->latency, 0.99) / 1e3);
    return 0;
}
