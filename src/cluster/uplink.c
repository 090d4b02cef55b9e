/* uplink.c - keeps a connection to the scheduler. */
#include "cluster/uplink.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define RETRY_NS       (20 * NS_PER_MS) /* the first RETRY_OFTEN times, since another may be about to lead */
#define RETRY_OFTEN    100
#define RETRY_LATER_NS (500 * NS_PER_MS)
#define BYE_LOOK_NS    (1 * NS_PER_MS)
#define BYE_MOST_NS    (1 * NS_PER_S)
#define CANDIDATES_MAX 64

int uplink_init(struct uplink *u, struct link_loop *loop, const char *const *schedulers, uint32_t count,
                const struct hello *self, int64_t beat_ns, const struct uplink_ops *ops, void *context,
                struct sy_error *err) {
    *u = (struct uplink){
        .loop = loop, .ops = ops, .context = context, .self = *self, .beat_ns = beat_ns, .scheduler_count = count};
    if (count > UPLINK_ADDRESSES_MAX)
        return error_set(err, -EINVAL, "%u schedulers; %d may be named", count, UPLINK_ADDRESSES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        int rc = name_check(schedulers[i], err);
        if (rc < 0)
            return rc;
        if (strlen(schedulers[i]) >= sizeof(u->schedulers[i]))
            return error_set(err, -EINVAL, "'%s' is too long", schedulers[i]);
        strcpy(u->schedulers[i], schedulers[i]);
    }
    return 0;
}

/* ---- the registry ---- */

int uplink_registry(struct uplink *u, const struct registry_place *place, struct sy_error *err) {
    struct registry_config config = {
        .place = *place,
        .self = {.incarnation = u->self.incarnation},
        .bell = u->loop->bell,
    };
    snprintf(config.self.role, sizeof(config.self.role), "%s", cluster_role_name(u->self.role));
    snprintf(config.self.addresses, sizeof(config.self.addresses), "%s", u->self.address);
    return registry_open(&config, &u->registry, err);
}

bool uplink_pending(const struct uplink *u) {
    return u->registry && registry_pending(u->registry);
}

void uplink_destroy(struct uplink *u) {
    if (u->registry)
        registry_close(u->registry);
    u->registry = NULL;
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

static void lost(struct uplink *u, const char *reason) {
    bool was_up = u->up;
    if (u->said_bye)
        log_info("left", "scheduler=%s", u->peer.name);
    else if (was_up)
        log_warn("scheduler lost", "scheduler=%s reason=\"%s\"", u->peer.name, reason);
    else if (!u->complained)
        log_warn("scheduler not reached; trying again", "scheduler=%s reason=\"%s\"", u->peer.name, reason);
    u->complained = true;
    u->up = false;
    link_loop_drop(u->loop, &u->peer);
    if (was_up)
        u->ops->down(u->context);
}

void uplink_again(struct uplink *u, const char *reason) {
    if (u->open && !u->peer.closed)
        lost(u, reason);
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
    if (answer.term < u->self.term)
        return error_set(err, -ESTALE, "its term %llu is over", (unsigned long long)answer.term);
    u->self.term = answer.term;
    u->self.number = answer.number;
    u->up = true;
    u->complained = false;
    u->times++;
    u->tries = 0;
    log_info("joined", "scheduler=%s number=%u term=%llu", u->peer.name, answer.number,
             (unsigned long long)answer.term);
    u->ops->up(u->context, &answer);
    return 0;
}

static int on_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct uplink *u = peer->owner;
    if (health_frame(&u->health, peer, frame, head))
        return 0;
    if (frame->kind == FRAME_REFUSED)
        return wire_refused(frame, head, err);
    if (frame->kind == FRAME_DRAIN) {
        if (!u->drains) { /* a second signal would end the process at once */
            log_info("asked to leave", "scheduler=%s", u->peer.name);
            kill(getpid(), SIGTERM);
        }
        u->drains = true;
        return 0;
    }
    if (!u->up)
        return frame->kind == FRAME_WELCOME ? welcome(u, frame, head, err)
                                            : error_set(err, -EPROTO, "it did not introduce itself");
    return u->ops->frame(u->context, frame, head, err);
}

static const struct peer_events events = {.frame = on_frame, .closed = on_closed};

/* A possible address of a scheduler: all known addresses of all names. */
struct candidate_address {
    struct name_address address;
    const char *name;
};

static uint32_t candidates(struct uplink *u, int64_t now_ns, struct candidate_address list[CANDIDATES_MAX]) {
    struct name_address found[NAME_ADDRESSES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < u->scheduler_count; i++) {
        uint32_t of_name = names_find(u->loop->names, u->schedulers[i], now_ns, found);
        for (uint32_t k = 0; k < of_name && count < CANDIDATES_MAX; k++)
            list[count++] = (struct candidate_address){found[k], u->schedulers[i]};
    }
    return count;
}

/* Tries the next address in turn. */
static void try_connect(struct uplink *u, int64_t now_ns) {
    struct candidate_address list[CANDIDATES_MAX];
    char text[96];
    uint32_t count = candidates(u, now_ns, list), most = count ? count : 1;
    u->retry_ns = now_ns + (u->tries++ < RETRY_OFTEN * most ? RETRY_NS / most : RETRY_LATER_NS);
    if (count == 0)
        return;
    const struct candidate_address *to = &list[u->next++ % count];
    const struct sockaddr *at = (const struct sockaddr *)&to->address.at;
    int fd = link_connect(at, to->address.bytes);
    if (fd < 0 || link_loop_add(u->loop, &u->peer, fd, true, &events, u) < 0)
        return;
    u->open = true;
    u->peer.flushed_last = true; /* so the scheduler learns of a batch's end only after its results were sent */
    link_address_text(at, text, sizeof(text));
    bool is_name = strcmp(to->name, text) != 0;
    snprintf(u->peer.name, sizeof(u->peer.name), "%.100s%s%.50s", to->name, is_name ? "/" : "", is_name ? text : "");
    health_init(&u->health, u->beat_ns, now_ns);
    hello_send(&u->peer, FRAME_HELLO, &u->self);
}

/* Says good-bye; the scheduler closes the connection when it has read that. */
static void say_bye(struct uplink *u) {
    u->said_bye = true;
    if (u->up)
        peer_send(&u->peer, FRAME_BYE, 0, NULL, 0);
}

void uplink_leave(struct uplink *u) {
    const struct timespec a_little = {.tv_nsec = BYE_LOOK_NS};
    int64_t until_ns = clock_now_ns() + BYE_MOST_NS;
    atomic_store_explicit(&u->leaves, true, memory_order_relaxed); /* a lone flag */
    do {
        doorbell_ring(u->loop->bell);
        nanosleep(&a_little, NULL);
    } while (!atomic_load_explicit(&u->left, memory_order_relaxed) && clock_now_ns() < until_ns);
}

void uplink_look(struct uplink *u, int64_t now_ns, int64_t *until_ns) {
    bool leaves = atomic_load_explicit(&u->leaves, memory_order_relaxed); /* the leaving thread rings until the link
                                                                           * thread has seen it */
    if (leaves && !u->said_bye)
        say_bye(u);
    if (leaves && !u->up) {
        atomic_store_explicit(&u->left, true, memory_order_relaxed); /* likewise */
        return;
    }
    registry_look(u, now_ns);
    if (!u->open && u->scheduler_count > 0) {
        if (now_ns >= u->retry_ns)
            try_connect(u, now_ns);
        if (!u->open)
            *until_ns = u->retry_ns < *until_ns ? u->retry_ns : *until_ns;
    }
    if (!u->open || u->peer.closed)
        return;
    if (!u->up) {
        /* A dead host does not answer; a host whose scheduler is stopped accepts the connection. Either way the next
         * address is tried then. */
        int64_t over_ns = u->peer.heard_ns + HEALTH_BEATS * u->beat_ns;
        if (now_ns > over_ns)
            lost(u, "it does not answer");
        else
            *until_ns = over_ns < *until_ns ? over_ns : *until_ns;
    } else if (!health_look(&u->health, &u->peer, now_ns, until_ns)) {
        lost(u, "it has been silent for three heartbeats");
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
