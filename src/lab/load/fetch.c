/* fetch.c - one HTTP request and its whole answer. */
#include "lab/load/fetch.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/system/clock.h"
#include "core/util/text.h"
#include "lab/load/channel.h"
#include "lab/load/reply.h"

#define ANSWER_BYTES_MAX (128u << 20)

int server_parse(const char *url, struct server *s, struct sy_error *err) {
    *s = (struct server){.port = "8000", .headers = ""};
    const char *at = url;
    if (strncasecmp(at, "https://", 8) == 0) {
        at += 8;
        strcpy(s->port, "443");
        s->secure = true;
    } else if (strncasecmp(at, "http://", 7) == 0) {
        at += 7;
        strcpy(s->port, "80");
    } else if (strstr(at, "://")) {
        return error_set(err, -EINVAL, "'%s' is neither an http:// nor an https:// address", url);
    }
    size_t authority = strcspn(at, "/?#"), host = authority;
    const char *port = NULL;
    if (*at == '[') {
        host = strcspn(at, "]");
        if (host >= authority)
            return error_set(err, -EINVAL, "'%s' has no ']'", url);
        port = at[host + 1] == ':' ? at + host + 2 : NULL;
        if (!port && host + 1 != authority)
            return error_set(err, -EINVAL, "'%s': after ']' comes a port or nothing", url);
        snprintf(s->host, sizeof(s->host), "%.*s", (int)host - 1, at + 1);
    } else {
        host = strcspn(at, ":/?#");
        port = at[host] == ':' ? at + host + 1 : NULL;
        snprintf(s->host, sizeof(s->host), "%.*s", (int)host, at);
    }
    if (port) {
        size_t digits = strspn(port, "0123456789");
        if (!digits || digits > 5 || port + digits != at + authority || atoi(port) < 1 || atoi(port) > 65535)
            return error_set(err, -EINVAL, "'%s' has no port number between 1 and 65535 after ':'", url);
        snprintf(s->port, sizeof(s->port), "%.*s", (int)digits, port);
    }
    if (!s->host[0])
        return error_set(err, -EINVAL, "'%s' names no host", url);
    size_t path = strlen(at + authority);
    while (path && at[authority + path - 1] == '/')
        path--;
    if (authority >= sizeof(s->authority) || path >= sizeof(s->path))
        return error_set(err, -EINVAL, "the address is too long");
    if (strcspn(at + authority, "?# \t\r\n") < path)
        return error_set(err, -EINVAL, "'%s': the path may not hold '?', '#' or blanks", url);
    snprintf(s->authority, sizeof(s->authority), "%.*s", (int)authority, at);
    snprintf(s->path, sizeof(s->path), "%.*s", (int)path, at + authority);
    return 0;
}

/* Waits until the descriptor is ready for `events`. */
static int ready_wait(int fd, short events, int64_t deadline_ns) {
    for (;;) {
        int64_t left_ns = deadline_ns - clock_now_ns();
        if (left_ns <= 0)
            return -ETIMEDOUT;
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, (int)(left_ns / NS_PER_MS) + 1);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

/* Connects and shakes hands until bytes may be sent. */
static int channel_prepare(struct channel *c, int64_t deadline_ns) {
    int rc = ready_wait(c->fd, POLLOUT, deadline_ns);
    rc = rc ? rc : channel_connected(c);
    while (!rc && (rc = channel_handshake(c)) == -EAGAIN)
        rc = ready_wait(c->fd, channel_events(c, POLLIN), deadline_ns);
    return rc;
}

int server_resolve(struct server *s, int64_t timeout_ns, struct sy_error *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    int rc = getaddrinfo(s->host, s->port, &hints, &list);
    if (rc)
        return error_set(err, -EHOSTUNREACH, "cannot find host '%s': %s", s->host, gai_strerror(rc));
    struct sy_error why = {""};
    rc = -EADDRNOTAVAIL;
    for (struct addrinfo *a = list; a && rc; a = a->ai_next) {
        struct channel channel;
        memcpy(&s->address, a->ai_addr, a->ai_addrlen);
        s->address_length = a->ai_addrlen;
        rc = channel_open(&channel, s);
        if (!rc) {
            rc = channel_prepare(&channel, clock_now_ns() + timeout_ns);
            channel_explain(&channel, rc, &why);
            channel_close(&channel);
        }
    }
    freeaddrinfo(list);
    return rc ? error_set(err, rc, "cannot connect to %s port %s: %.400s", s->host, s->port,
                          why.text[0] ? why.text : strerror(-rc))
              : 0;
}

static int all_send(struct channel *c, const char *bytes, size_t length, int64_t deadline_ns) {
    while (length) {
        ssize_t n = channel_send(c, bytes, length);
        if (n < 0 && n != -EAGAIN)
            return (int)n;
        int rc = n < 0 ? ready_wait(c->fd, channel_events(c, POLLOUT), deadline_ns) : 0;
        if (rc)
            return rc;
        bytes += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void body_append(void *context, const char *bytes, size_t length) {
    struct text *body = context;
    if (body->length + length > ANSWER_BYTES_MAX)
        body->failed = true;
    else
        text_append(body, bytes, length);
}

static int answer_read(struct channel *c, struct reply *reply, int64_t deadline_ns) {
    char bytes[16384];
    while (reply->state != REPLY_DONE) {
        ssize_t n = channel_receive(c, bytes, sizeof(bytes));
        if (n == 0)
            return reply_end(reply) ? 0 : -ECONNRESET;
        if (n < 0 && n != -EAGAIN)
            return (int)n;
        int rc = n < 0 ? ready_wait(c->fd, channel_events(c, POLLIN), deadline_ns) : 0;
        if (rc)
            return rc;
        if (n > 0)
            reply_feed(reply, bytes, (size_t)n);
        if (reply->state == REPLY_BROKEN)
            return -EBADMSG;
    }
    return 0;
}

int fetch_bytes(const struct server *s, const char *request, size_t length, int64_t timeout_ns, struct answer *answer,
                struct sy_error *err) {
    int64_t deadline_ns = clock_now_ns() + timeout_ns;
    struct text body = {0};
    struct reply reply = {.sink = body_append, .sink_context = &body};
    struct channel channel;
    struct sy_error why;
    *answer = (struct answer){0};
    reply_init(&reply);
    int rc = channel_open(&channel, s);
    if (rc)
        return error_set(err, rc, "cannot connect to %s: %s", s->authority, strerror(-rc));
    rc = channel_prepare(&channel, deadline_ns);
    bool connected = !rc;
    rc = rc ? rc : all_send(&channel, request, length, deadline_ns);
    /* the server may have answered before it stopped reading */
    if (connected && (!rc || rc == -EPIPE || rc == -ECONNRESET)) {
        int read_rc = answer_read(&channel, &reply, deadline_ns);
        text_end(&body);
        rc = read_rc ? (rc && read_rc != -EPROTO ? rc : read_rc) : body.failed ? -ENOMEM : 0;
    }
    const char *hint = channel.session ? "" : " (https:// is for a server that speaks TLS)";
    if (rc == -ETIMEDOUT)
        error_set(&why, rc, "no answer in time");
    else if (rc == -EBADMSG || rc == -ECONNRESET)
        error_set(&why, rc, "%s%s", rc == -EBADMSG ? "not an HTTP answer" : strerror(-rc), hint);
    else
        channel_explain(&channel, rc, &why);
    channel_close(&channel);
    if (rc) {
        text_free(&body);
        return error_set(err, rc, "%s%s: %.400s", connected ? "" : "cannot connect to ", s->authority, why.text);
    }
    *answer = (struct answer){.status = reply.status, .body = body.data, .length = body.length};
    return 0;
}

int fetch(const struct server *s, const char *method, const char *path, int64_t timeout_ns, struct answer *answer,
          struct sy_error *err) {
    char request[8192];
    const char *body = strcmp(method, "POST") == 0
                           ? "Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
                           : "Connection: close\r\n\r\n";
    int length = snprintf(request, sizeof(request), "%s %s%s HTTP/1.1\r\nHost: %s\r\n%s%s", method, s->path, path,
                          s->authority, s->headers, body);
    *answer = (struct answer){0};
    if (length >= (int)sizeof(request))
        return error_set(err, -EINVAL, "the path '%.100s...' and the headers are too long", path);
    return fetch_bytes(s, request, (size_t)length, timeout_ns, answer, err);
}
