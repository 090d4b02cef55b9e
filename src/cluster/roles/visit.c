/* visit.c - one connection with an introduction, a question and an answer. */
#include "cluster/roles/visit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/membership/registry.h"
#include "cluster/peer/hello.h"
#include "cluster/peer/link_loop.h"
#include "core/system/clock.h"
#include "core/util/container.h"

#define ANSWER_MAX ((uint64_t)1 << 30)

/* A visit under way: the caller takes the turns of a loop of its own. */
struct conversation {
    struct link_loop loop;
    struct doorbell bell; /* nobody rings it */
    struct peer peer;
    enum frame_kind kind; /* kind of the question */
    const char *text;     /* its head */
    char *answer;         /* the answer, terminated; NULL: it has not begun to come */
    int64_t until_ns;     /* time at which the visit ends */
    int rc;               /* 0, or -errno: the visit has failed, with a sentence in `err` */
    bool over;
    struct sy_error err;
};

static int on_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct conversation *c = peer->owner;
    if (frame->kind == FRAME_REFUSED) {
        c->rc = wire_refused(frame, head, err);
    } else if (frame->kind == FRAME_WELCOME) {
        peer_send(peer, c->kind, 1, c->text, strlen(c->text));
    } else if (frame->kind != FRAME_STATUS) {
        c->rc = error_set(err, -EPROTO, "no scheduler answers there");
    } else if (frame->body_bytes > ANSWER_MAX || c->answer) {
        c->rc = error_set(err, -EPROTO, "an answer of %llu bytes", (unsigned long long)frame->body_bytes);
    } else if (!(c->answer = malloc((size_t)frame->body_bytes + 1))) {
        c->rc = error_set(err, -ENOMEM, "no memory for an answer of %llu bytes", (unsigned long long)frame->body_bytes);
    } else {
        c->answer[frame->body_bytes] = '\0';
        c->over = frame->body_bytes == 0;
    }
    return c->rc;
}

static uint32_t on_body(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]) {
    const struct conversation *c = peer->owner;
    pieces[0] = (struct iovec){c->answer, (size_t)frame->body_bytes};
    return 1;
}

static void on_body_over(struct peer *peer) {
    struct conversation *c = peer->owner;
    c->over = true;
}

static void on_closed(struct peer *peer, const char *reason) {
    struct conversation *c = peer->owner;
    int rc = peer->tls && peer->bytes_in > 0 ? -EACCES : -ECONNRESET; /* TLS has been refused, most likely */
    c->rc = error_set(&c->err, c->rc ? c->rc : rc, "%s", reason);
    c->over = true;
}

static int64_t turn(void *owner, int64_t now_ns) {
    (void)now_ns;
    return ((const struct conversation *)owner)->until_ns;
}

static bool pending(void *owner) {
    (void)owner;
    return false;
}

static void bury(void *owner, struct peer *peer) {
    (void)owner, (void)peer;
}

static int ask(struct conversation *c, const struct visit *visit) {
    static const struct link_loop_ops ops = {.turn = turn, .pending = pending, .bury = bury};
    static const struct peer_events events = {on_frame, on_body, on_body_over, on_closed};
    struct hello hello = {.role = ROLE_VISITOR, .version = SYMPHONY_VERSION, .name = "visitor"};
    int fd = -1, rc = link_loop_init(&c->loop, &ops, c, &c->bell, -1, visit->tls, &c->err);
    if (rc < 0)
        return rc;
    if ((rc = fd = link_connect((const struct sockaddr *)&visit->at->at, visit->at->bytes)) < 0 ||
        (rc = link_loop_add(&c->loop, &c->peer, fd, true, &events, c)) < 0)
        return error_set(&c->err, rc, "%s", strerror(-rc));
    hello_formats(&hello);
    snprintf(hello.token, sizeof(hello.token), "%s", visit->token);
    hello_send(&c->peer, FRAME_HELLO, &hello);
    while (!c->over && clock_now_ns() < c->until_ns)
        link_loop_turn(&c->loop, true);
    return c->over ? c->rc : error_set(&c->err, -ETIMEDOUT, "it does not answer");
}

int visit_ask(const struct visit *visit, enum frame_kind kind, const char *text, char **answer, struct sy_error *err) {
    struct conversation c = {.kind = kind, .text = text, .until_ns = clock_now_ns() + visit->timeout_ns};
    int rc = doorbell_init(&c.bell, true, false);
    if (rc < 0)
        return error_set(err, rc, "%s: %s", visit->scheduler, strerror(-rc));
    rc = ask(&c, visit);
    link_loop_stop(&c.loop);
    doorbell_destroy(&c.bell);
    if (rc == 0) {
        *answer = c.answer;
        return 0;
    }
    free(c.answer);
    return error_set(err, rc, "%s: %s", visit->scheduler, c.err.text);
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
        return error_set(err, rc, "%s", strerror(-rc));
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
