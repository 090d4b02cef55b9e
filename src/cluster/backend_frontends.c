/* backend_frontends.c - the frontends that a backend pulls from: connections, and the cards and inputs that come. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/backend_link_state.h"
#include "link/visible.h"

#define PULL_GUESS_NS (1 * NS_PER_MS)
#define RETRY_NS      (200 * NS_PER_MS) /* to connect to a frontend */
#define LOOK_UP_NS    (10 * NS_PER_MS)  /* to see whether its name is known by now */
#define GREET_NS      (5 * NS_PER_S)

static void card_end(struct backend_link *l, struct frontend_peer *f, struct landed *landed) {
    struct sy_error err;
    struct pulled_plan *p = landed->plan;
    if (landed->state == LANDED_GONE) { /* given up, or no memory: now nothing arrives any more */
        landing_give(&f->landing, landed);
        return;
    }
    if (landing_over(&f->landing, landed, &err) < 0) {
        log_warn("inputs refused", "frontend=%s reason=\"%s\"", f->peer.name, err.text);
        backend_landed_lose(l, landed);
        return;
    }
    if (!p) { /* its plan went without it */
        landing_give(&f->landing, landed);
        return;
    }
    margin_add(&f->pulls, clock_now_ns() - p->begun_ns);
    backend_landed_settle(l, landed);
}

static uint32_t frontend_body(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]) {
    (void)frame;
    struct frontend_peer *f = container_of(peer, struct frontend_peer, peer);
    const struct landed *landed = f->arriving;
    const struct request_card *card = landed ? landing_card(&f->landing, landed) : NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; card && i < card->input_count; i++)
        if (card->inputs[i].bytes > 0)
            pieces[count++] =
                (struct iovec){region_at(((struct backend_link *)peer->owner)->wiring->regions, &card->inputs[i]),
                               card->inputs[i].bytes};
    return count;
}

static void frontend_body_over(struct peer *peer) {
    struct frontend_peer *f = container_of(peer, struct frontend_peer, peer);
    struct landed *landed = f->arriving;
    f->arriving = NULL;
    if (landed)
        card_end(peer->owner, f, landed);
}

static void take_card(struct backend_link *l, struct frontend_peer *f, const struct frame *frame,
                      const struct wire_card *card) {
    struct landed *landed = landing_place(&f->landing, card->handle);
    struct iovec pieces[TENSORS_MAX];
    struct sy_error err;
    uint32_t count;

    f->arriving = NULL;
    if (!landed || landed->handle != card->handle || landed->block || landed->arrives)
        return;                         /* not asked for: thrown away */
    if (landed->state == LANDED_GONE) { /* given up */
        landing_give(&f->landing, landed);
        return;
    }
    if (landed->state != LANDED_PULLING)
        return;
    int64_t deadline_ns = health_local(&f->health, card->deadline_ns);
    if (landing_take(&f->landing, landed, card, deadline_ns, pieces, &count, &err) < 0) {
        log_warn("inputs refused", "frontend=%s reason=\"%s\"", f->peer.name, err.text);
        backend_landed_lose(l, landed);
        return;
    }
    if (frame->body_bytes > 0)
        f->arriving = landed;
    else
        card_end(l, f, landed);
}

static void take_no_card(struct backend_link *l, struct frontend_peer *f, uint64_t handle) {
    struct landed *landed = landing_place(&f->landing, handle);
    if (!landed || landed->handle != handle || landed->arrives)
        return;
    if (landed->state == LANDED_GONE) {
        landing_give(&f->landing, landed);
    } else if (landed->state == LANDED_PULLING) {
        landed->state = LANDED_GONE; /* its frontend knows */
        backend_landed_settle(l, landed);
    }
}

static void regions_unmap(struct frontend_peer *f) {
    for (uint32_t i = 0; i < HELLO_LANES_MAX; i++)
        if (f->cards[i])
            munmap((void *)(uintptr_t)f->cards[i], f->hello.slots * sizeof(struct request_card));
    for (uint32_t i = 0; i <= HELLO_LANES_MAX; i++)
        if (f->regions[i].base)
            munmap((void *)(uintptr_t)f->regions[i].base, f->regions[i].bytes);
    memset(f->cards, 0, sizeof(f->cards));
    memset(f->regions, 0, sizeof(f->regions));
    f->local = false;
}

/* One of them, mapped. */
static bool region_take(struct frontend_peer *f, const struct wire_region *r, int fd) {
    bool fits = r->cards ? r->number < f->hello.lanes && !f->cards[r->number] &&
                               r->bytes == f->hello.slots * sizeof(struct request_card)
                         : r->number <= HELLO_LANES_MAX && !f->regions[r->number].base;
    const void *base = fits ? visible_look(fd, r->bytes) : NULL;
    if (base && r->cards) {
        f->cards[r->number] = base;
    } else if (base) {
        f->regions[r->number].base = base;
        f->regions[r->number].bytes = r->bytes;
    }
    return base;
}

/* The frontend is of this host, and shows its memory. */
static int regions_take(struct frontend_peer *f, const struct wire_region *regions, uint32_t count,
                        struct sy_error *err) {
    uint32_t cards = 0;
    bool fits = count == f->peer.fd_count && !f->local;
    for (uint32_t i = 0; i < count && fits; i++) {
        fits = region_take(f, &regions[i], f->peer.fds[i]);
        cards += fits && regions[i].cards;
    }
    while (f->peer.fd_count > 0)
        close(f->peer.fds[--f->peer.fd_count]);
    if (!fits || cards != f->hello.lanes) {
        regions_unmap(f);
        return error_set(err, -EPROTO, "memory that cannot be mapped");
    }
    f->local = true;
    return 0;
}

static int frontend_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct frontend_peer *f = container_of(peer, struct frontend_peer, peer);
    struct backend_link *l = peer->owner;
    const uint64_t *handles = head;
    struct hello hello;

    if (health_frame(&f->health, peer, frame, head))
        return 0;
    switch (frame->kind) {
    case FRAME_WELCOME: {
        int rc = hello_read(head, frame->head_bytes, &hello, err);
        if (rc < 0)
            return rc;
        if (hello.incarnation != f->hello.incarnation)
            return error_set(err, -ESTALE, "another process is there now");
        f->known = true;
        f->complained = false;
        log_info("frontend connected", "frontend=%s number=%u", f->peer.name, f->hello.number);
        return 0;
    }
    case FRAME_REFUSED:
        return wire_refused(frame, head, err);
    case FRAME_REGIONS:
        return regions_take(f, head, frame->count, err);
    case FRAME_CARD:
        take_card(l, f, frame, head);
        return 0;
    case FRAME_NO_CARD:
        for (uint32_t i = 0; i < frame->count; i++)
            take_no_card(l, f, handles[i]);
        return 0;
    default:
        return error_set(err, -EPROTO, "a frontend does not send frames of kind %u to a backend", frame->kind);
    }
}

/* Nothing more comes from it: what was pulled is lost. */
static void frontend_lost(struct backend_link *l, struct frontend_peer *f, const char *reason) {
    if (f->known || !f->complained)
        log_warn(f->known ? "frontend lost" : "frontend not reached", "frontend=%s reason=\"%s\"", f->peer.name,
                 reason);
    f->complained = true;
    f->known = false;
    f->arriving = NULL;
    regions_unmap(f);
    link_loop_drop(&l->loop, &f->peer);
    for (size_t i = 0; i < (size_t)f->landing.lanes * f->landing.slots; i++) {
        struct landed *landed = &f->landing.landed[i];
        if (!landed->handle || (landed->state == LANDED_ALL && !landed->arrives))
            continue;
        landed->arrives = false;
        if (landed->state == LANDED_PULLING && landed->plan)
            backend_landed_lose(l, landed); /* its plan gives it back */
        else if (!landed->plan)
            landing_give(&f->landing, landed);
    }
}

static void frontend_closed(struct peer *peer, const char *reason) {
    frontend_lost(peer->owner, container_of(peer, struct frontend_peer, peer), reason);
}

static const struct peer_events frontend_events = {frontend_frame, frontend_body, frontend_body_over, frontend_closed};

static void frontend_connect(struct backend_link *l, struct frontend_peer *f, int64_t now_ns) {
    struct name_address found[NAME_ADDRESSES_MAX];

    f->retry_ns = now_ns + RETRY_NS;
    char local[HELLO_LOCAL_MAX];
    hello_local_name(f->hello.incarnation, local);
    int fd = l->config.tcp ? -ENOTSUP : link_connect_local(local); /* fails at once if it is of another host */
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
    snprintf(f->peer.name, sizeof(f->peer.name), "%s", f->hello.name);
    health_init(&f->health, l->config.beat_ns, now_ns);
    hello_send(&f->peer, FRAME_HELLO, &l->uplink.self);
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
    /* The plans that come next are about the new one's requests: nobody is asked for them before it is in its place. */
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

/* Nothing of it is here any more. */
static void frontend_end(struct backend_link *l, struct frontend_peer *f) {
    struct hello heir = f->heir;
    struct sy_error err;
    l->by_number[f->hello.number] = NULL;
    landing_destroy(&f->landing);
    free(f);
    if (heir.number && frontend_begin(l, &heir, &err) < 0)
        log_error("frontend not reached", "frontend=%s reason=\"%s\"", heir.name, err.text);
}

void backend_frontends_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns) {
    for (struct frontend_peer **at = &l->frontends, *f; (f = *at);) {
        if (f->leaving && f->open && !f->peer.closed)
            frontend_lost(l, f, "the scheduler says that it is gone");
        if (f->leaving && !f->open && !frontend_used(f)) {
            *at = f->next;
            frontend_end(l, f);
            *until_ns = now_ns; /* an heir is the first of the list now */
            continue;
        }
        if (f->leaving) {
            *until_ns = now_ns + NS_PER_MS < *until_ns ? now_ns + NS_PER_MS : *until_ns;
        } else if (!f->open) {
            if (now_ns >= f->retry_ns)
                frontend_connect(l, f, now_ns);
            *until_ns = f->retry_ns < *until_ns ? f->retry_ns : *until_ns;
        } else if (f->peer.closed) {
            ; /* buried at the end of this turn; then the loop looks again */
        } else if (f->known && !health_look(&f->health, &f->peer, now_ns, until_ns)) {
            frontend_lost(l, f, "it has been silent for three heartbeats");
        } else if (!f->known) {
            int64_t over_ns = f->peer.heard_ns + GREET_NS;
            if (now_ns > over_ns)
                frontend_lost(l, f, "it does not answer");
            else
                *until_ns = over_ns < *until_ns ? over_ns : *until_ns;
        }
        at = &f->next;
    }
}
