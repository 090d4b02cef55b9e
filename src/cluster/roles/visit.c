/* visit.c - one connection with an introduction, a question and an answer. */
#include "cluster/roles/visit.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/membership/registry.h"
#include "cluster/peer/hello.h"
#include "cluster/peer/link_loop.h"
#include "cluster/peer/peer_tls.h"
#include "core/system/clock.h"

#define ANSWER_MAX ((uint64_t)1 << 30)

struct conversation {
    int fd;
    int64_t until_ns;     /* time at which the visit ends */
    struct peer_tls *tls; /* TLS of the connection; NULL: plain text */
    char *arrived;        /* [PEER_TLS_BYTES] received bytes, with TLS */
};

/* Waits until the socket can be read or written. 0 or -errno. */
static int wait_for(const struct conversation *c, short events) {
    struct pollfd ready = {.fd = c->fd, .events = events};
    int64_t left_ns = c->until_ns - clock_now_ns();
    if (left_ns <= 0)
        return -ETIMEDOUT;
    int count = poll(&ready, 1, (int)(left_ns / NS_PER_MS) + 1);
    return count > 0 ? 0 : count < 0 && errno != EINTR ? -errno : wait_for(c, events);
}

static int failed(int rc, struct sy_error *err) {
    return error_set(err, rc, rc == -ETIMEDOUT ? "it does not answer" : "%s", strerror(-rc));
}

static int send_all(const struct conversation *c, const void *data, size_t bytes, struct sy_error *err) {
    for (size_t done = 0; done < bytes;) {
        ssize_t sent = send(c->fd, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
        int rc = sent >= 0 || errno == EINTR ? 0 : errno == EAGAIN ? wait_for(c, POLLOUT) : -errno;
        if (rc < 0)
            return failed(rc, err);
        done += sent > 0 ? (size_t)sent : 0;
    }
    return 0;
}

/* Receives at least one byte. The number of bytes, or -errno with a sentence. */
static ssize_t receive_some(const struct conversation *c, void *data, size_t bytes, struct sy_error *err) {
    for (;;) {
        ssize_t got = recv(c->fd, data, bytes, 0);
        int rc = got > 0           ? 0
                 : got == 0        ? -ECONNRESET
                 : errno == EINTR  ? 0
                 : errno == EAGAIN ? wait_for(c, POLLIN)
                                   : -errno;
        if (rc < 0)
            return failed(rc, err);
        if (got > 0)
            return got;
    }
}

/* Sends the encrypted bytes. */
static int send_encrypted(const struct conversation *c, struct sy_error *err) {
    size_t bytes = peer_tls_unsent(c->tls);
    int rc = send_all(c, peer_tls_next(c->tls), bytes, err);
    peer_tls_went(c->tls, bytes);
    return rc;
}

static int write_all(const struct conversation *c, const void *data, size_t bytes, struct sy_error *err) {
    if (!c->tls)
        return send_all(c, data, bytes, err);
    if (bytes > 0 && tls_stream_write(c->tls->stream, data, bytes) < 0)
        return failed(-EIO, err);
    return send_encrypted(c, err);
}

/* Receives and decrypts at least one byte; without `data` it returns 0 when the handshake is over. */
static ssize_t decrypt_some(const struct conversation *c, void *data, size_t bytes, struct sy_error *err) {
    struct sy_error why;
    for (;;) {
        char nothing;
        ssize_t got = tls_stream_read(c->tls->stream, data ? data : &nothing, data ? bytes : 1);
        int rc = send_encrypted(c, err);
        if (got < 0) {
            tls_stream_explain(c->tls->stream, &why);
            return error_set(err, -EACCES, "%s", why.text);
        }
        if (rc < 0 || got > 0 || (!data && peer_tls_established(c->tls)))
            return rc < 0 ? rc : got;
        got = receive_some(c, c->arrived, PEER_TLS_BYTES, err);
        if (got < 0 || (rc = peer_tls_came(c->tls, (size_t)got, err)) < 0)
            return got < 0 ? got : rc;
    }
}

static int read_all(const struct conversation *c, void *data, size_t bytes, struct sy_error *err) {
    for (size_t done = 0; done < bytes;) {
        char *to = (char *)data + done;
        ssize_t got = c->tls ? decrypt_some(c, to, bytes - done, err) : receive_some(c, to, bytes - done, err);
        if (got < 0)
            return (int)got;
        done += (size_t)got;
    }
    return 0;
}

static size_t padded(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

/* Sends it by one call: a scheduler that refuses us may close the connection after a first part. */
static int send_frame(const struct conversation *c, enum frame_kind kind, const char *text, struct sy_error *err) {
    size_t bytes = strlen(text), whole = sizeof(struct frame) + padded(bytes);
    char *out = calloc(1, whole);
    if (!out)
        return error_set(err, -ENOMEM, "no memory for a question");
    *(struct frame *)out = (struct frame){.head_bytes = (uint32_t)bytes, .kind = (uint16_t)kind, .count = 1};
    memcpy(out + sizeof(struct frame), text, bytes);
    int rc = write_all(c, out, whole, err);
    free(out);
    return rc;
}

/* Reads the next frame, which must be of the wanted kind. Its body, terminated, to be freed. -EACCES: it is a
 * refusal. */
static int read_frame(const struct conversation *c, enum frame_kind wanted, char **body, struct sy_error *err) {
    struct frame frame;
    int rc = read_all(c, &frame, sizeof(frame), err);
    if (rc < 0 || (rc = wire_frame_check(&frame, err)) < 0)
        return rc;
    size_t head_bytes = padded(frame.head_bytes);
    if (frame.body_bytes > ANSWER_MAX)
        return error_set(err, -EPROTO, "an answer of %llu bytes", (unsigned long long)frame.body_bytes);
    char *text = malloc(head_bytes + (size_t)frame.body_bytes + 1);
    if (!text)
        return error_set(err, -ENOMEM, "no memory for an answer of %llu bytes", (unsigned long long)frame.body_bytes);
    rc = read_all(c, text, head_bytes + (size_t)frame.body_bytes, err);
    if (rc == 0 && frame.kind == FRAME_REFUSED)
        rc = wire_refused(&frame, text, err);
    else if (rc == 0 && frame.kind != wanted)
        rc = error_set(err, -EPROTO, "no scheduler answers there");
    if (rc < 0) {
        free(text);
        return rc;
    }
    memmove(text, text + head_bytes, (size_t)frame.body_bytes);
    text[frame.body_bytes] = '\0';
    *body = text;
    return 0;
}

static int greet(const struct conversation *c, const char *token, struct sy_error *err) {
    struct hello hello = {.role = ROLE_VISITOR, .version = SYMPHONY_VERSION, .name = "visitor"};
    char *answer = NULL;
    hello_formats(&hello);
    snprintf(hello.token, sizeof(hello.token), "%s", token);
    char *text = hello_write(&hello);
    int rc = text ? send_frame(c, FRAME_HELLO, text, err) : error_set(err, -ENOMEM, "no memory for an introduction");
    free(text);
    rc = rc < 0 ? rc : read_frame(c, FRAME_WELCOME, &answer, err);
    free(answer);
    return rc;
}

static int connect_to(struct conversation *c, const struct name_address *to, struct sy_error *err) {
    socklen_t size = sizeof(int);
    int rc, error = 0;
    c->fd = link_connect((const struct sockaddr *)&to->at, to->bytes);
    if (c->fd < 0)
        return failed(c->fd, err);
    if ((rc = wait_for(c, POLLOUT)) < 0)
        return failed(rc, err);
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error ? failed(-error, err) : 0;
}

static int ask(const struct visit *visit, enum frame_kind kind, const char *text, char **answer, struct sy_error *err) {
    struct conversation c = {.fd = -1, .until_ns = clock_now_ns() + visit->timeout_ns};
    int rc = connect_to(&c, visit->at, err);
    if (rc == 0 && visit->tls) {
        c.arrived = malloc(PEER_TLS_BYTES);
        c.tls = c.arrived ? peer_tls_create(visit->tls, TLS_CLIENT, c.arrived) : NULL;
        rc = c.tls ? (int)decrypt_some(&c, NULL, 0, err) : error_set(err, -ENOMEM, "no memory for TLS");
    }
    if (rc == 0 && (rc = greet(&c, visit->token, err)) == 0 && (rc = send_frame(&c, kind, text, err)) == 0)
        rc = read_frame(&c, FRAME_STATUS, answer, err);
    peer_tls_destroy(c.tls);
    free(c.arrived);
    if (c.fd >= 0)
        close(c.fd);
    return rc;
}

int visit_ask(const struct visit *visit, enum frame_kind kind, const char *text, char **answer, struct sy_error *err) {
    struct sy_error why;
    int rc = ask(visit, kind, text, answer, &why);
    return rc < 0 ? error_set(err, rc, "%s: %s", visit->scheduler, why.text) : 0;
}

/* The registry's answer: 1: the leader; -ENOENT: there is none; 0: no answer yet, and `why` is the last reason for
 * that. */
static int leader_take(struct registry *registry, char leader[REGISTRY_ADDRESS_MAX + 1], struct sy_error *why) {
    struct registry_event *event;
    int rc = 0;
    while ((event = registry_event_next(registry))) {
        if (event->kind == REGISTRY_LEADER) {
            rc = event->leader.key.exists ? 1 : -ENOENT;
            snprintf(leader, REGISTRY_ADDRESS_MAX + 1, "%s", event->leader.address);
        }
        if (event->kind == REGISTRY_DOWN)
            error_set(why, 0, "%s", event->text);
        free(event);
    }
    return rc;
}

int visit_leader(const struct registry_place *place, int64_t timeout_ns, char leader[REGISTRY_ADDRESS_MAX + 1],
                 struct sy_error *err) {
    int64_t until_ns = clock_now_ns() + timeout_ns;
    struct doorbell bell;
    const struct registry_config config = {.place = *place, .bell = &bell}; /* no role: only read */
    struct registry *registry;
    struct sy_error why = {"it does not answer"};
    int rc = doorbell_init(&bell, false, false);
    if (rc < 0)
        return failed(rc, err);
    if ((rc = registry_open(&config, &registry, err)) < 0) {
        doorbell_destroy(&bell);
        return rc;
    }
    while ((rc = leader_take(registry, leader, &why)) == 0 && clock_now_ns() < until_ns) {
        doorbell_arm(&bell);
        if (!registry_pending(registry))
            doorbell_sleep(&bell, until_ns);
        doorbell_cancel(&bell);
    }
    registry_close(registry);
    doorbell_destroy(&bell);
    return rc > 0   ? 0
           : rc < 0 ? error_set(err, rc, "the registry knows of no scheduler that leads '%s'", place->name)
                    : error_set(err, -ETIMEDOUT, "the registry at %s: %s", place->endpoints[0], why.text);
}
