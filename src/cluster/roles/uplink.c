/* uplink.c - keeps a connection to the scheduler.
 *
 * Addresses of schedulers are tried in turn. Some never answer an attempt to connect (a dead host, a firewall). So an
 * attempt that takes long is put aside: its socket goes on connecting while other addresses are tried, and is looked at
 * again when its turn comes. Only one connection at a time sends FRAME_HELLO, because a scheduler would take two of
 * them for two members. A scheduler that accepts the connection but says nothing is left out for a while. */
#include "cluster/roles/uplink.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/log.h"

#define RETRY_NS       (20 * NS_PER_MS) /* time between the first RETRY_OFTEN attempts: another may be about to lead */
#define RETRY_OFTEN    100
#define RETRY_LATER_NS (500 * NS_PER_MS) /* time between later attempts; both times are for each address */
#define REFUSED_NS     (2 * NS_PER_S)    /* pause after a scheduler has refused our models or accelerators */
#define BYE_LOOK_NS    (1 * NS_PER_MS)
#define BYE_MOST_NS    (1 * NS_PER_S)
#define COMPLAIN_NS    (5 * NS_PER_S)   /* time between two lines in the log about schedulers that are not reached */
#define ASIDE_NS       (20 * NS_PER_MS) /* time for an attempt to connect before it is put aside */
#define ASIDE_AGAIN_NS (1 * NS_PER_MS)  /* time for an attempt that is looked at again */

int uplink_init(struct uplink *u, struct link_loop *loop, const struct uplink_config *config,
                const struct uplink_ops *ops, void *context, struct sy_error *err) {
    uint32_t count = config->scheduler_count;
    *u = (struct uplink){.loop = loop,
                         .ops = ops,
                         .context = context,
                         .self = *config->self,
                         .beat_ns = config->beat_ns,
                         .scheduler_count = count};
    if (count > UPLINK_ADDRESSES_MAX)
        return error_set(err, -EINVAL, "%u schedulers; %d may be named", count, UPLINK_ADDRESSES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        int rc = name_check(config->schedulers[i], err);
        if (rc < 0)
            return rc;
        if (strlen(config->schedulers[i]) >= sizeof(u->schedulers[i]))
            return error_set(err, -EINVAL, "'%s' is too long", config->schedulers[i]);
        strcpy(u->schedulers[i], config->schedulers[i]);
    }
    if (!config->registry)
        return 0;
    struct registry_config registry = {
        .place = *config->registry,
        .self = {.incarnation = u->self.incarnation},
        .bell = u->loop->bell,
    };
    snprintf(registry.self.role, sizeof(registry.self.role), "%s", cluster_role_name(u->self.role));
    snprintf(registry.self.addresses, sizeof(registry.self.addresses), "%s", u->self.address);
    return registry_open(&registry, &u->registry, err);
}

/* ---- the registry ---- */

bool uplink_pending(const struct uplink *u) {
    return u->registry && registry_pending(u->registry);
}

/* Longest silence of a scheduler. */
static int64_t silence_most(const struct uplink *u) {
    return HEALTH_BEATS * u->beat_ns;
}

/* Closes a socket that was put aside. */
static void place_close(struct uplink_place *place) {
    if (place->fd >= 0)
        close(place->fd);
    place->fd = -1;
}

static void places_close(struct uplink *u) {
    for (uint32_t i = 0; i < u->place_count; i++)
        place_close(&u->places[i]);
}

void uplink_destroy(struct uplink *u) {
    places_close(u);
    if (u->registry)
        registry_close(u->registry);
    u->registry = NULL;
    free(u->rollouts);
    u->rollouts = NULL;
}

/* Another scheduler leads: it is tried next. */
static void leader_take(struct uplink *u, const char *address, int64_t now_ns) {
    struct sy_error err;
    if (u->scheduler_count == 1 && strcmp(u->schedulers[0], address) == 0)
        return;
    if (name_check(address, &err) < 0) {
        log_warn("scheduler not found", "address=%s reason=\"%s\"", address, err.text);
        return;
    }
    snprintf(u->schedulers[0], sizeof(u->schedulers[0]), "%.127s", address);
    u->scheduler_count = 1;
    u->next = u->tries = 0;
    u->retry_ns = now_ns;
}

static void registry_look(struct uplink *u, int64_t now_ns) {
    struct registry_event *event;
    while (u->registry && (event = registry_event_next(u->registry))) {
        if (event->kind == REGISTRY_LEADER && event->leader.key.exists)
            leader_take(u, event->leader.address, now_ns);
        free(event);
    }
}

/* ---- the connection ---- */

/* Logs why a place was not reached: a repeated reason only once until the link is up again, and at most one line in
 * COMPLAIN_NS, since a place may have several reasons in turn. */
static void not_reached(struct uplink *u, struct uplink_place *place, const char *scheduler, const char *reason) {
    int64_t now_ns = clock_now_ns();
    if (now_ns < u->complain_ns || strncmp(place->reason, reason, sizeof(place->reason) - 1) == 0)
        return;
    log_warn("scheduler not reached; trying again", "scheduler=%s reason=\"%s\"", scheduler, reason);
    snprintf(place->reason, sizeof(place->reason), "%s", reason);
    u->complain_ns = now_ns + COMPLAIN_NS;
}

static void lost(struct uplink *u, const char *reason) {
    bool was_up = u->up;
    if (u->said_bye)
        log_info("left", "scheduler=%s", u->peer.name);
    else if (was_up)
        log_warn("scheduler lost", "scheduler=%s reason=\"%s\"", u->peer.name, reason);
    else
        not_reached(u, &u->places[u->place], u->peer.name, reason);
    if (was_up)
        u->complain_ns = clock_now_ns() + COMPLAIN_NS; /* another scheduler may be about to lead */
    u->up = false;
    if (was_up && u->refused)
        u->retry_ns = clock_now_ns() + REFUSED_NS;
    link_loop_drop(u->loop, &u->peer);
    if (was_up)
        u->ops->down(u->context);
}

static void on_closed(struct peer *peer, const char *reason) {
    lost(peer->owner, reason);
}

static int welcome(struct uplink *u, const struct frame *frame, const char *head, struct sy_error *err) {
    struct hello answer;
    int rc = hello_read(head, frame->head_bytes, &answer, err);
    if (rc < 0)
        return rc;
    if (answer.role != ROLE_SCHEDULER)
        return error_set(err, -EPROTO, "no scheduler answers there");
    if ((rc = hello_agree(&u->self, &answer, &u->peer.format, err)) < 0)
        return rc;
    if (answer.term > ELECTION_TERM_MAX)
        return error_set(err, -EPROTO, "an impossible term");
    if (answer.term < u->self.term)
        return error_set(err, -ESTALE, "its term %llu is over", (unsigned long long)answer.term);
    u->self.term = answer.term;
    u->self.number = answer.number;
    u->up = true;
    u->refused = false;
    u->complain_ns = 0;
    for (uint32_t i = 0; i < u->place_count; i++)
        *u->places[i].reason = '\0';
    u->times++;
    u->tries = 0;
    places_close(u);
    log_info("joined", "scheduler=%s number=%u term=%llu", u->peer.name, answer.number,
             (unsigned long long)answer.term);
    if (u->rollouts)
        peer_send(&u->peer, FRAME_ROLLOUTS, 1, u->rollouts, strlen(u->rollouts));
    u->ops->up(u->context, &answer);
    return 0;
}

static int on_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct uplink *u = peer->owner;
    if (health_frame(&u->health, peer, frame, head))
        return 0;
    if (frame->kind == FRAME_REFUSED) {
        u->refused = true;
        return wire_refused(frame, head, err);
    }
    if (frame->kind == FRAME_DRAIN) {
        if (!u->drains) { /* a second signal would end the process at once */
            log_info("asked to leave", "scheduler=%s", u->peer.name);
            kill(getpid(), SIGTERM);
        }
        u->drains = true;
        return 0;
    }
    if (u->up && frame->kind == FRAME_ROLLOUTS) {
        char *told = strndup(head, frame->head_bytes);
        if (!told) /* the one before is no worse than none */
            return 0;
        free(u->rollouts);
        u->rollouts = told;
        return 0;
    }
    if (!u->up)
        return frame->kind == FRAME_WELCOME ? welcome(u, frame, head, err)
                                            : error_set(err, -EPROTO, "it did not introduce itself");
    return u->ops->frame(u->context, frame, head, err);
}

static const struct peer_events events = {.frame = on_frame, .closed = on_closed};

/* The scheduler says nothing: closes the connection, and leaves its address out for a while. */
static void silent(struct uplink *u, const char *reason, int64_t now_ns) {
    u->places[u->place].quiet_ns = now_ns + silence_most(u);
    lost(u, reason);
}

/* ---- its possible addresses ---- */

static bool same_address(const struct name_address *a, const struct name_address *b) {
    return a->bytes == b->bytes && memcmp(&a->at, &b->at, a->bytes) == 0;
}

/* The place of an address, or NULL. Index `first` is looked at first. */
static struct uplink_place *place_of(struct uplink_place *places, uint32_t count, uint32_t first,
                                     const struct name_address *address) {
    if (first < count && same_address(&places[first].address, address))
        return &places[first];
    for (uint32_t i = 0; i < count; i++)
        if (same_address(&places[i].address, address))
            return &places[i];
    return NULL;
}

/* Lists all known addresses of all names. */
static void places_look(struct uplink *u, int64_t now_ns) {
    struct name_address found[NAME_ADDRESSES_MAX];
    struct uplink_place before[UPLINK_PLACES_MAX];
    uint32_t before_count = u->place_count;
    memcpy(before, u->places, before_count * sizeof(*before));
    u->place_count = 0;
    for (uint32_t i = 0; i < u->scheduler_count; i++) {
        uint32_t count = names_find(u->loop->names, u->schedulers[i], now_ns, found);
        for (uint32_t k = 0; k < count; k++) {
            if (u->place_count == UPLINK_PLACES_MAX || place_of(u->places, u->place_count, UINT32_MAX, &found[k]))
                continue;
            struct uplink_place *place = &u->places[u->place_count];
            struct uplink_place *known = place_of(before, before_count, u->place_count, &found[k]);
            *place = known ? *known : (struct uplink_place){.address = found[k], .fd = -1};
            place->name = u->schedulers[i];
            if (known)
                known->fd = -1; /* it has moved */
            u->place_count++;
        }
    }
    for (uint32_t i = 0; i < before_count; i++)
        place_close(&before[i]);
}

/* The next place in turn that is not left out; if all are, simply the next one. */
static uint32_t place_next(struct uplink *u, int64_t now_ns) {
    for (uint32_t i = 0; i < u->place_count; i++) {
        uint32_t place = u->next++ % u->place_count;
        if (u->places[place].quiet_ns <= now_ns)
            return place;
    }
    return u->next++ % u->place_count;
}

/* A socket that is connected to the place or still connecting, or -errno. One that was put aside is used again, unless
 * it has been connecting for so long that the kernel rarely tries any more. */
static int place_connect(struct uplink *u, struct uplink_place *place, int64_t now_ns) {
    int fd = place->fd;
    place->fd = -1;
    u->aside_ns = now_ns + ASIDE_AGAIN_NS;
    if (fd >= 0 && now_ns - place->began_ns <= silence_most(u))
        return fd;
    if (fd >= 0) {
        close(fd);
        not_reached(u, place, place->name, "it does not answer");
    }
    place->began_ns = now_ns;
    u->aside_ns = now_ns + ASIDE_NS;
    return link_connect((const struct sockaddr *)&place->address.at, place->address.bytes);
}

static void try_connect(struct uplink *u, int64_t now_ns) {
    char text[96];
    places_look(u, now_ns);
    uint32_t most = u->place_count ? u->place_count : 1;
    u->retry_ns = now_ns + (u->tries++ < RETRY_OFTEN * most ? RETRY_NS : RETRY_LATER_NS) / most;
    if (u->place_count == 0)
        return;
    u->place = place_next(u, now_ns);
    struct uplink_place *to = &u->places[u->place];
    int fd = u->loop->host ? -1 : place_connect(u, to, now_ns);
    if (u->loop->host ? link_loop_meet(u->loop, &u->peer, &events, u) < 0
                      : fd < 0 || link_loop_add(u->loop, &u->peer, fd, true, &events, u) < 0)
        return;
    u->open = true;
    u->peer.flushed_last = true; /* so the scheduler learns of a batch's end only after its results were sent */
    link_address_text((const struct sockaddr *)&to->address.at, text, sizeof(text));
    bool is_name = strcmp(to->name, text) != 0;
    snprintf(u->peer.name, sizeof(u->peer.name), "%.100s%s%.50s", to->name, is_name ? "/" : "", is_name ? text : "");
    health_init(&u->health, u->beat_ns, now_ns);
    hello_send(&u->peer, FRAME_HELLO, &u->self);
}

/* Puts aside an attempt to connect that takes long, if there are other places. Its hello was not sent. */
static bool put_aside(struct uplink *u, int64_t now_ns, int64_t *until_ns) {
    struct uplink_place *place = &u->places[u->place];
    if (!u->peer.connecting || u->place_count < 2)
        return false;
    if (now_ns < u->aside_ns) {
        *until_ns = time_earlier(u->aside_ns, *until_ns);
        return false;
    }
    place->fd = link_loop_release(u->loop, &u->peer);
    return true;
}

void uplink_leave(struct uplink *u) {
    int64_t until_ns = clock_now_ns() + BYE_MOST_NS;
    atomic_store_explicit(&u->leaves, true, memory_order_relaxed); /* a lone flag */
    do {
        doorbell_ring(u->loop->bell);
        clock_sleep(BYE_LOOK_NS);
    } while (!atomic_load_explicit(&u->left, memory_order_relaxed) && clock_now_ns() < until_ns);
}

void uplink_look(struct uplink *u, int64_t now_ns, int64_t *until_ns) {
    bool leaves = atomic_load_explicit(&u->leaves, memory_order_relaxed); /* the leaving thread rings until the link
                                                                           * thread has seen it */
    if (leaves && !u->said_bye) {
        /* the scheduler closes the connection when it has read the good-bye */
        u->said_bye = true;
        if (u->up)
            peer_send(&u->peer, FRAME_BYE, 0, NULL, 0);
    }
    if (leaves && !u->up) {
        atomic_store_explicit(&u->left, true, memory_order_relaxed); /* likewise */
        return;
    }
    registry_look(u, now_ns);
    if (!u->open && u->scheduler_count > 0) {
        if (now_ns >= u->retry_ns)
            try_connect(u, now_ns);
        if (!u->open)
            *until_ns = time_earlier(u->retry_ns, *until_ns);
    }
    if (!u->open || u->peer.closed)
        return;
    if (!u->up && put_aside(u, now_ns, until_ns)) {
        *until_ns = time_earlier(u->retry_ns, *until_ns);
    } else if (!u->up) {
        /* A dead host does not answer; a host whose scheduler is stopped accepts the connection. Either way the next
         * address is tried then. */
        if (!health_hears(&u->health, &u->peer, now_ns, until_ns))
            silent(u, "it does not answer", now_ns);
    } else if (!health_look(&u->health, &u->peer, now_ns, until_ns)) {
        silent(u, "it has been silent for three heartbeats", now_ns);
    }
}

void uplink_report(const struct uplink *u, struct link_report *report, int64_t now_ns) {
    if (u->up && !u->peer.closed)
        link_report_add(report, u->peer.name, ROLE_SCHEDULER, 0, &u->peer, &u->health, now_ns);
}

bool uplink_buries(struct uplink *u, struct peer *peer) {
    if (peer != &u->peer)
        return false;
    u->open = false;
    return true;
}
