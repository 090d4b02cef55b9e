/* backend_frontends.c - the frontends that a backend pulls from: connections, and received cards. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/roles/backend_link_state.h"
#include "core/system/clock.h"
#include "core/system/log.h"

#define PULL_GUESS_NS  (1 * NS_PER_MS)
#define AWAIT_NS       (20 * NS_PER_MS)  /* time that plans wait for a connection; no longer than a pull may take */
#define RETRY_NS       (200 * NS_PER_MS) /* time between attempts to connect to a frontend */
#define REFUSED_NS     (2 * NS_PER_S)    /* time until the next attempt once the frontend has refused us */
#define LOOK_UP_NS     (10 * NS_PER_MS)  /* time between checks whether the frontend's name was looked up */
#define REFUSED_LOG_NS (1 * NS_PER_S)    /* time between two lines in the log about refused inputs of a frontend */

/* ---- cards ---- */

struct landed *backend_card_wanted(const struct backend_link *l, struct frontend_peer *f, uint64_t handle) {
    struct landed *landed = landing_place(&f->landing, handle);
    (void)l;
    if (!landed || landed->handle != handle || landed->arrives)
        return NULL;
    if (landed->state == LANDED_UNREADY)
        return landed;
    if (landed->block)
        return NULL;
    if (landed->state == LANDED_GONE) /* the pull was given up, and now its transfer has ended */
        landing_give(&f->landing, landed);
    return landed->state == LANDED_PULLING ? landed : NULL;
}

enum lost_reason backend_inputs_refused(struct frontend_peer *f, struct landed *landed, int rc,
                                        const struct sy_error *err) {
    struct pulled_plan *plan = landed->plan;
    int64_t now_ns = clock_now_ns();
    f->refused++;
    if (now_ns >= f->refused_at_ns) {
        log_warn("inputs refused", "frontend=%s reason=\"%s\" count=%llu", f->peer.name, err->text,
                 (unsigned long long)f->refused);
        f->refused_at_ns = now_ns + REFUSED_LOG_NS;
    }
    if (plan)
        plan->unreached = true;
    return rc == -EFBIG || rc == -EINVAL ? LOST_MISFIT : LOST_INPUTS;
}

bool backend_is_avoided(const struct backend_link *l, struct landed *landed, const struct wire_card *card) {
    struct pulled_plan *plan = landed->plan;
    bool avoided = card->avoid && card->avoid == l->uplink.self.number;
    if (avoided && plan)
        plan->unreached = plan->avoided = true;
    return avoided;
}

/* An UNREADY request may be with its executor already, which leaves it out of its batch. */
static void inputs_refused(struct backend_link *l, struct frontend_peer *f, struct landed *landed, int rc,
                           const struct sy_error *err) {
    enum lost_reason reason = backend_inputs_refused(f, landed, rc, err);
    if (landed->state != LANDED_UNREADY)
        backend_landed_lose(l, landed, reason);
}

bool backend_card_take(struct backend_link *l, struct frontend_peer *f, struct landed *landed,
                       const struct wire_card *card, struct iovec pieces[TENSORS_MAX], uint32_t *count) {
    int64_t deadline_ns = health_local(&f->health, card->deadline_ns);
    struct sy_error err;
    if (backend_is_avoided(l, landed, card)) {
        if (landed->state != LANDED_UNREADY)
            backend_landed_lose(l, landed, LOST_AVOIDED);
        return false;
    }
    int rc = landing_take(&f->landing, landed, card, deadline_ns, pieces, count, &err);
    if (rc == 0)
        return true;
    inputs_refused(l, f, landed, rc, &err);
    return false;
}

/* The batch need not wait for this request. */
void backend_card_unready(struct backend_link *l, struct frontend_peer *f, const struct wire_card *card) {
    struct landed *landed = backend_card_wanted(l, f, card->handle);
    struct sy_error err;
    if (!landed || landed->state != LANDED_PULLING)
        return;
    int rc = landing_take_unready(&f->landing, landed, card, health_local(&f->health, card->deadline_ns), &err);
    if (rc < 0)
        inputs_refused(l, f, landed, rc, &err);
    else
        backend_landed_settle(l, landed);
}

/* The inputs of an UNREADY request are there: pulls them. If the transport does not get them, the executor leaves the
 * request out of its batch. */
void backend_card_ready(struct backend_link *l, struct frontend_peer *f, uint64_t handle) {
    struct landed *landed = backend_card_wanted(l, f, handle);
    if (!landed || landed->state != LANDED_UNREADY || !f->transport)
        return;
    landed->begun_ns = clock_now_ns();
    if (f->transport->pull(l, f, landed) != PULL_UNDER_WAY)
        landed->arrives = false;
}

void backend_card_over(struct backend_link *l, struct frontend_peer *f, struct landed *landed) {
    struct sy_error err;
    margin_add(&f->pulls, clock_now_ns() - landed->begun_ns); /* given-up pulls count, too, so that the margin learns */
    bool unready = landed->state == LANDED_UNREADY;
    int rc;
    if (landed->state == LANDED_GONE) {
        landing_give(&f->landing, landed);
    } else if ((rc = landing_over(&f->landing, landed, &err)) < 0) {
        inputs_refused(l, f, landed, rc, &err);
    } else {
        link_report_count(&l->report, f->peer.tally, LINK_PULLED, 1);
        if (!unready && !landed->plan) /* its plan went to the executor without it */
            landing_give(&f->landing, landed);
        else if (!unready) /* else its plan did not wait for it */
            backend_landed_settle(l, landed);
    }
}

/* ---- connections ---- */

/* The frontend has accepted us: chooses the transport. */
static int welcomed(struct backend_link *l, struct frontend_peer *f, const struct frame *frame, const char *head,
                    struct sy_error *err) {
    struct hello hello;
    enum transport_kind kind;
    int rc = hello_read(head, frame->head_bytes, &hello, err);
    if (rc < 0)
        return rc;
    if (hello.incarnation != f->hello.incarnation)
        return error_set(err, -ESTALE, "another process is there now");
    if ((rc = hello_agree(&l->uplink.self, &hello, &f->peer.format, err)) < 0 ||
        (rc = transport_choose(&hello, &l->uplink.self, f->local, &kind, err)) < 0)
        return rc;
    int64_t now_ns = clock_now_ns(), until_ns = TIME_NEVER;
    f->known = true;
    f->complained = false;
    f->await_ns = now_ns + AWAIT_NS;
    health_look(&f->health, &f->peer, now_ns, &until_ns); /* asks for its clock */
    /* until the chosen transport is ready, which a frame announces */
    f->transport = l->uplink.self.transports & TRANSPORT_BIT(TRANSPORT_TCP) ? &transport_tcp : NULL;
    log_info("frontend connected", "frontend=%s number=%u transport=%s", f->peer.name, f->hello.number,
             transport_name(kind));
    return 0;
}

static int on_frame(struct frontend_peer *f, const struct frame *frame, const void *head, struct sy_error *err) {
    struct backend_link *l = f->peer.owner;
    const struct transport *transport;

    if (health_frame(&f->health, &f->peer, frame, head))
        return 0;
    if ((frame->kind == FRAME_UNREADY || frame->kind == FRAME_READY) && !f->known)
        return error_set(err, -EPROTO, "it has not let us in");
    switch (frame->kind) {
    case FRAME_UNREADY:
        backend_card_unready(l, f, head);
        return 0;
    case FRAME_READY:
        for (uint32_t i = 0; i < frame->count; i++)
            backend_card_ready(l, f, ((const uint64_t *)head)[i]);
        return 0;
    case FRAME_FAULTS:
        for (uint32_t i = 0; i < frame->count && f->known; i++)
            backend_model_fault(l, ((const uint64_t *)head)[i]);
        return 0;
    case FRAME_WELCOME:
        return welcomed(l, f, frame, head, err);
    case FRAME_REFUSED:
        f->retry_ns = clock_now_ns() + REFUSED_NS;
        return wire_refused(frame, head, err);
    case FRAME_CARD:
    case FRAME_NO_CARD:
        transport = &transport_tcp;
        break;
    case FRAME_REGIONS:
        transport = &transport_shm;
        break;
    case FRAME_FABRIC:
    case FRAME_LIES:
        transport = &transport_fabric;
        break;
    default:
        return error_set(err, -EPROTO, "a frontend does not send frames of kind %u to a backend", frame->kind);
    }
    return f->known ? transport->frame(l, f, frame, head, err) : error_set(err, -EPROTO, "it has not let us in");
}

static int frontend_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct frontend_peer *f = container_of(peer, struct frontend_peer, peer);
    bool could = backend_can_pull(f);
    int rc = on_frame(f, frame, head, err);
    if (rc == 0 && !could && backend_can_pull(f))
        backend_pulls_begin(peer->owner, f);
    return rc;
}

/* The frontend's connection is lost, and so are requests that were being pulled. */
static void frontend_lost(struct backend_link *l, struct frontend_peer *f, const char *reason) {
    if (f->known || !f->complained)
        log_warn(f->known ? "frontend lost" : "frontend not reached", "frontend=%s reason=\"%s\"", f->peer.name,
                 reason);
    f->complained = true;
    f->known = false;
    f->await_ns = 0;
    link_loop_drop(&l->loop, &f->peer);
    transport_shm.end(l, f);
    transport_fabric.end(l, f);
    transport_tcp.end(l, f);
    f->transport = NULL;
    for (size_t i = 0; i < (size_t)f->landing.lanes * f->landing.slots; i++) {
        struct landed *landed = &f->landing.landed[i];
        if (!landed->handle || (landed->state == LANDED_ALL && !landed->arrives))
            continue;
        landed->arrives = false;
        if (landed->state == LANDED_UNREADY) /* the batch, when it begins, leaves the request out and frees it */
            continue;
        if (landed->state == LANDED_PULLING && landed->plan)
            backend_landed_lose(l, landed, LOST_INPUTS); /* its plan may free it */
        else if (!landed->plan)
            landing_give(&f->landing, landed);
    }
}

static void frontend_closed(struct peer *peer, const char *reason) {
    frontend_lost(peer->owner, container_of(peer, struct frontend_peer, peer), reason);
}

static const struct peer_events frontend_events = {frontend_frame, transport_tcp_body, transport_tcp_body_over,
                                                   frontend_closed};

static void frontend_connect(struct backend_link *l, struct frontend_peer *f, int64_t now_ns) {
    struct name_address found[NAME_ADDRESSES_MAX];

    f->retry_ns = now_ns + RETRY_NS;
    char local[HELLO_LOCAL_MAX];
    hello_local_name(f->hello.incarnation, local);
    uint32_t transports_wanted = l->uplink.self.transports;
    int fd = transports_wanted & TRANSPORT_BIT(TRANSPORT_SHM)
                 ? link_connect_local(local) /* fails at once for a frontend of another host */
                 : -ENOTSUP;
    f->local = fd >= 0;
    if (fd < 0 && transports_wanted == TRANSPORT_BIT(TRANSPORT_SHM)) {
        if (!f->complained)
            log_warn("frontend not reached", "frontend=%s reason=\"it is not on this host, or gone; --transport shm\"",
                     f->hello.name);
        f->complained = true;
        return;
    }
    uint32_t count = fd < 0 ? names_find(l->loop.names, f->hello.address, now_ns, found) : 0;
    const struct name_address *to = count ? &found[f->tries++ % count] : NULL;
    if (to)
        fd = link_connect((const struct sockaddr *)&to->at, to->bytes);
    if (fd < 0 || link_loop_add(&l->loop, &f->peer, fd, true, &frontend_events, l) < 0) {
        if (!f->complained && to)
            log_warn("frontend not reached", "address=%s reason=\"%s\"", f->hello.address,
                     strerror(fd < 0 ? -fd : ENOMEM));
        f->complained |= to != NULL;
        if (!to && fd < 0)
            f->retry_ns = now_ns + LOOK_UP_NS;
        return;
    }
    f->open = true;
    f->transport = NULL;
    snprintf(f->peer.name, sizeof(f->peer.name), "%s", f->hello.name);
    f->peer.tally = link_tally_of(&l->report.tallies, ROLE_FRONTEND, f->hello.name);
    health_init(&f->health, l->config.beat_ns, now_ns);
    struct hello self = l->uplink.self;
    memcpy(self.secret, f->hello.secret, sizeof(self.secret));
    hello_send(&f->peer, FRAME_HELLO, &self);
}

static int frontend_begin(struct backend_link *l, const struct hello *hello, struct sy_error *err) {
    struct frontend_peer *f = calloc(1, sizeof(*f));
    if (!f || landing_init(&f->landing, l->wiring, l->slab, l->config.models, hello->number, hello->lanes,
                           hello->slots) < 0) {
        free(f);
        return error_set(err, -ENOMEM, "no memory for a frontend's requests");
    }
    f->hello = *hello;
    f->told = true;
    f->await_ns = clock_now_ns() + AWAIT_NS;
    margin_init(&f->pulls, PULL_GUESS_NS);
    f->next = l->frontends;
    l->frontends = f;
    l->by_number[hello->number] = f;
    frontend_connect(l, f, clock_now_ns());
    return 0;
}

int backend_frontend_told(struct backend_link *l, const struct frame *frame, const char *head, struct sy_error *err) {
    struct hello hello;
    int rc = hello_read(head, frame->head_bytes, &hello, err);
    if (rc < 0)
        return rc;
    if (hello.role != ROLE_FRONTEND || !hello.number || !hello.lanes || !hello.slots)
        return error_set(err, -EPROTO, "an introduction of a frontend without number, lanes or slots");
    struct frontend_peer *f = l->by_number[hello.number];
    if (!f)
        return frontend_begin(l, &hello, err);
    bool same = f->hello.incarnation == hello.incarnation;
    f->told = same;
    f->leaving = !same;
    f->heir = same ? (struct hello){.number = 0} : hello;
    /* The next plans name requests of the new frontend: nothing is pulled for them before it has taken the place of the
     * old one. */
    if (!same && f->open && !f->peer.closed)
        frontend_lost(l, f, "its number is another frontend's now");
    return 0;
}

void backend_frontend_gone(struct backend_link *l, uint32_t number) {
    struct frontend_peer *f = number < HELLO_NUMBERS ? l->by_number[number] : NULL;
    if (!f)
        return;
    f->leaving = true;
    f->heir.number = 0;
}

static bool frontend_used(const struct frontend_peer *f) {
    for (size_t i = 0; i < (size_t)f->landing.lanes * f->landing.slots; i++)
        if (f->landing.landed[i].handle)
            return true;
    return false;
}

void backend_frontends_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns) {
    for (struct frontend_peer **at = &l->frontends, *f; (f = *at);) {
        if (f->leaving && f->open && !f->peer.closed)
            frontend_lost(l, f, "the scheduler says that it is gone");
        if (f->leaving && !f->open && !frontend_used(f)) {
            *at = f->next;
            /* nothing of the frontend is here any more; its heir, if there is one, takes its place */
            struct hello heir = f->heir;
            struct sy_error err;
            l->by_number[f->hello.number] = NULL;
            landing_destroy(&f->landing);
            free(f);
            if (heir.number && frontend_begin(l, &heir, &err) < 0)
                log_error("frontend not reached", "frontend=%s reason=\"%s\"", heir.name, err.text);
            *until_ns = now_ns; /* the heir is now the first of the list */
            continue;
        }
        if (f->leaving) {
            *until_ns = time_earlier(now_ns + NS_PER_MS, *until_ns);
        } else if (!f->open) {
            if (now_ns >= f->retry_ns)
                frontend_connect(l, f, now_ns);
            *until_ns = time_earlier(f->retry_ns, *until_ns);
        } else if (f->peer.closed) {
            ; /* freed at the end of this turn; then the loop calls this again */
        } else if (!transport_fabric_look(l, f)) {
            frontend_lost(l, f, f->fabric_reason);
        } else if (f->known && !health_look(&f->health, &f->peer, now_ns, until_ns)) {
            frontend_lost(l, f, "it has been silent for three heartbeats");
        } else if (!f->known && !health_hears(&f->health, &f->peer, now_ns, until_ns)) {
            frontend_lost(l, f, "it does not answer");
        }
        at = &f->next;
    }
}
