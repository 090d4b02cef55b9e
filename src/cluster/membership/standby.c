/* standby.c - sends heartbeats between schedulers, and carries out the election's actions.
 *
 * Each scheduler connects to each other, and a heartbeat goes by all connections. By one that it has made itself a
 * scheduler knows with whom it speaks: with the address that --peers or the registry names. So it believes what comes
 * by these, and takes the rest for signs of life: who only reaches the port deposes nobody. */
#include "cluster/membership/standby.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/system/log.h"

#define RETRY_NS  (50 * NS_PER_MS) /* time between two attempts to connect to another scheduler */
#define SILENT_MS 2000             /* longest silence of another scheduler's host; then another address is tried */

/* Another scheduler, to which we send heartbeats. */
struct other {
    struct peer peer;
    bool wanted; /* the struct is in use for a scheduler */
    bool open, up;
    bool gone;            /* the registry has forgotten it; so do we when the link breaks */
    uint64_t incarnation; /* incarnation, from the registry; 0: not known */
    uint64_t answers;     /* incarnation of the one that has answered at that address */
    char address[HELLO_ADDRESS_MAX];
    uint32_t tries;          /* count of tried addresses of the scheduler's name */
    int64_t retry_ns;        /* time of the next attempt to connect */
    struct sy_error refused; /* reason of the last refusal, as logged; "": none since it last accepted us */
};

struct standby {
    struct standby_config config;
    const struct standby_ops *ops;
    void *context;
    struct link_loop *loop;
    struct election election;
    struct other others[ELECTION_PEERS_MAX];
    struct registry *registry;
    struct registry_place place;
    char leader[REGISTRY_ADDRESS_MAX + 1]; /* address of the leader; "": not known */
    int64_t wake_ns;                       /* time of the election's next step */
};

/* ---- actions of the election ---- */

static void step(struct standby *s, int64_t now_ns, const struct election_event *event) {
    struct election_actions actions;
    election_step(&s->election, now_ns, event, &actions);
    s->wake_ns = actions.wake_ns;
    if (actions.change == ELECTION_STAND_DOWN)
        s->ops->stand_down(s->context);
    if (actions.change == ELECTION_LEAD)
        s->ops->lead(s->context, election_term(&s->election));
    const struct wire_heartbeat heartbeat = {.term = election_term(&s->election),
                                             .incarnation = s->config.self.incarnation,
                                             .seniority = s->config.seniority,
                                             .leads = !election_leads(&s->election)    ? 0
                                                      : election_resigns(&s->election) ? WIRE_RESIGNS
                                                                                       : 1};
    for (uint32_t i = 0; actions.heartbeat && i < ELECTION_PEERS_MAX; i++)
        if (s->others[i].up)
            peer_send(&s->others[i].peer, FRAME_HEARTBEAT, 1, &heartbeat, sizeof(heartbeat));
    if (actions.heartbeat)
        s->ops->beat(s->context, &heartbeat);
    if (actions.ask == ELECTION_READ)
        registry_read(s->registry);
    else if (actions.ask == ELECTION_SWAP)
        registry_swap(s->registry, actions.swap_revision, actions.swap_term);
}

int standby_admits(const struct standby *s, const struct hello *other, struct sy_error *err) {
    if (s->registry)
        return 0;
    if (other->number >= s->config.peer_count)
        return error_set(err, -EPROTO,
                         "it is number %u of its --peers, and those of this scheduler are %u: all need the same list",
                         other->number + 1, s->config.peer_count);
    if (other->number == s->config.seniority)
        return error_set(err, -EPROTO,
                         "it is number %u of its --peers, and so is this scheduler of its own: all need the same list, "
                         "in the same order",
                         other->number + 1);
    return 0;
}

/* A heartbeat has come by a connection that we made. */
static void heard(struct standby *s, const struct other *o, const struct wire_heartbeat *heartbeat) {
    if (!o->wanted || (s->registry && o->incarnation != heartbeat->incarnation))
        return; /* at that address is another one by now, which the registry has not named yet */
    if (heartbeat->leads)
        snprintf(s->leader, sizeof(s->leader), "%s", o->address);
    step(s, clock_now_ns(),
         &(struct election_event){.kind = ELECTION_HEARD,
                                  .peer = (uint32_t)(o - s->others),
                                  .leads = heartbeat->leads,
                                  .resigns = heartbeat->leads == WIRE_RESIGNS,
                                  .term = heartbeat->term,
                                  .incarnation = heartbeat->incarnation});
}

void standby_told(struct standby *s, uint64_t term) {
    if (term > election_term(&s->election))
        step(s, clock_now_ns(),
             &(struct election_event){.kind = ELECTION_TOLD, .term = term, .peer = ELECTION_PEERS_MAX});
}

bool standby_resign(struct standby *s) {
    bool up = false;
    for (uint32_t i = 0; i < ELECTION_PEERS_MAX; i++)
        up |= s->others[i].up;
    step(s, clock_now_ns(), &(struct election_event){.kind = ELECTION_RESIGN});
    return up && election_leads(&s->election);
}

bool standby_record(struct standby *s, const char *rollouts) {
    if (s && s->registry)
        registry_record(s->registry, rollouts);
    return s && s->registry;
}

const char *standby_leader(const struct standby *s) {
    return s->leader;
}

/* ---- links to the others ---- */

static void link_told(struct standby *s, struct other *o, bool up) {
    o->up = up;
    step(s, clock_now_ns(),
         &(struct election_event){.kind = ELECTION_LINK, .peer = (uint32_t)(o - s->others), .up = up});
}

static void other_closed(struct peer *peer, const char *reason) {
    struct standby *s = peer->owner;
    struct other *o = container_of(peer, struct other, peer);
    bool was_up = o->up;
    link_loop_drop(s->loop, peer);
    if (was_up)
        log_warn("link to a scheduler lost", "scheduler=%s reason=\"%s\"", o->address, reason);
    o->wanted &= !o->gone;
    link_told(s, o, false);
}

/* A frame on a connection that we made. */
static int other_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct standby *s = peer->owner;
    struct other *o = container_of(peer, struct other, peer);
    int rc;
    if (frame->kind == FRAME_REFUSED) {
        rc = wire_refused(frame, head, err);
        if (strcmp(o->refused.text, err->text) != 0) /* each reason once */
            log_warn("refused by another scheduler; trying again", "scheduler=%s reason=\"%s\"", o->address, err->text);
        o->refused = *err;
        return rc;
    }
    for (uint32_t i = 0; i < frame->count && frame->kind == FRAME_HEARTBEAT && o->up; i++)
        heard(s, o, &((const struct wire_heartbeat *)head)[i]);
    if (frame->kind != FRAME_WELCOME || o->up)
        return 0;
    struct hello hello;
    rc = hello_read(head, frame->head_bytes, &hello, err);
    if (rc < 0 || (rc = hello_agree(&s->config.self, &hello, &peer->format, err)) < 0)
        return rc;
    *o->refused.text = '\0';
    o->answers = hello.incarnation;
    link_told(s, o, true);
    return 0;
}

static const struct peer_events events = {.frame = other_frame, .closed = other_closed};

static void other_connect(struct standby *s, struct other *o, int64_t now_ns) {
    static const unsigned SILENT_MOST_MS = SILENT_MS;
    struct name_address found[NAME_ADDRESSES_MAX];
    uint32_t count = names_find(s->loop->names, o->address, now_ns, found);
    o->retry_ns = now_ns + RETRY_NS;
    if (count == 0)
        return;
    const struct name_address *to = &found[o->tries++ % count];
    int fd = link_connect((const struct sockaddr *)&to->at, to->bytes);
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &SILENT_MOST_MS, sizeof(SILENT_MOST_MS));
    if (fd < 0 || link_loop_add(s->loop, &o->peer, fd, true, &events, s) < 0)
        return;
    o->open = true;
    snprintf(o->peer.name, sizeof(o->peer.name), "%s", o->address);
    struct hello self = s->config.self;
    self.number = s->config.seniority;
    self.term = election_term(&s->election);
    hello_send(&o->peer, FRAME_HELLO, &self);
}

bool standby_buries(struct standby *s, struct peer *peer) {
    for (uint32_t i = 0; s && i < ELECTION_PEERS_MAX; i++)
        if (peer == &s->others[i].peer) {
            s->others[i].open = false;
            return true;
        }
    return false;
}

/* ---- the registry ---- */

static void member_comes(struct standby *s, const struct registry_member *member) {
    struct other *free = NULL;
    if (strcmp(member->role, "scheduler") != 0 || member->incarnation == s->config.self.incarnation)
        return;
    for (uint32_t i = 0; i < ELECTION_PEERS_MAX; i++) {
        struct other *o = &s->others[i];
        if (o->wanted && o->incarnation == member->incarnation) {
            o->gone = false;
            return;
        }
        if (!o->wanted && !o->open && !free)
            free = o;
    }
    if (!free) {
        log_warn("more schedulers than there may be", "most=%d", ELECTION_PEERS_MAX + 1);
        return;
    }
    *free = (struct other){.wanted = true, .incarnation = member->incarnation};
    snprintf(free->address, sizeof(free->address), "%.127s", member->addresses);
    log_info("another scheduler", "address=%s", free->address);
}

/* A scheduler that cannot reach the registry goes on as long as its link is up: if it leads, nobody has to take over.
 */
static void member_goes(struct standby *s, const struct registry_member *member) {
    for (uint32_t i = 0; i < ELECTION_PEERS_MAX; i++) {
        struct other *o = &s->others[i];
        if (!o->wanted || o->incarnation != member->incarnation)
            continue;
        if (o->up && o->answers == member->incarnation) {
            log_info("a scheduler has left the registry, or cannot reach it", "scheduler=%s", o->address);
            o->gone = true;
            continue;
        }
        o->wanted = false;
        if (o->open && !o->peer.closed)
            link_loop_drop(s->loop, &o->peer);
        link_told(s, o, false);
    }
}

static void registry_take(struct standby *s, int64_t now_ns, const struct registry_event *event) {
    struct election_event key = {.key = event->leader.key};
    switch (event->kind) {
    case REGISTRY_MEMBER:
        member_comes(s, &event->member);
        return;
    case REGISTRY_MEMBER_GONE:
        member_goes(s, &event->member);
        return;
    case REGISTRY_LEADER:
    case REGISTRY_ANSWER:
        if (event->leader.key.exists)
            snprintf(s->leader, sizeof(s->leader), "%s", event->leader.address);
        key.kind = event->kind == REGISTRY_LEADER ? ELECTION_KEY_CHANGED : ELECTION_KEY_ANSWER;
        step(s, now_ns, &key);
        return;
    case REGISTRY_ROLLOUTS:
        s->ops->rollouts(s->context, event->text);
        return;
    case REGISTRY_RECORDED:
    case REGISTRY_UNRECORDED:
        s->ops->recorded(s->context, event->kind == REGISTRY_RECORDED);
        return;
    case REGISTRY_FAILED:
        step(s, now_ns, &(struct election_event){.kind = ELECTION_REGISTRY_FAILED});
        return;
    default:
        return;
    }
}

bool standby_pending(const struct standby *s) {
    return s->registry && registry_pending(s->registry);
}

/* ---- turns ---- */

void standby_look(struct standby *s, int64_t now_ns, int64_t *until_ns) {
    struct registry_event *event;
    while (s->registry && (event = registry_event_next(s->registry))) {
        registry_take(s, now_ns, event);
        free(event);
    }
    for (uint32_t i = 0; i < ELECTION_PEERS_MAX; i++) {
        struct other *o = &s->others[i];
        if (!o->wanted || o->open)
            continue;
        if (now_ns >= o->retry_ns)
            other_connect(s, o, now_ns);
        *until_ns = time_earlier(o->retry_ns, *until_ns);
    }
    if (now_ns >= s->wake_ns)
        step(s, now_ns, &(struct election_event){.kind = ELECTION_TIMER});
    *until_ns = time_earlier(s->wake_ns, *until_ns);
}

/* ---- start and end ---- */

int standby_create(struct standby **standby, const struct standby_config *config, struct link_loop *loop,
                   const struct standby_ops *ops, void *context, struct sy_error *err) {
    struct standby *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, -ENOMEM, "no memory for the links to other schedulers");
    s->config = *config;
    s->loop = loop;
    s->ops = ops;
    s->context = context;
    const struct election_config election = {
        .incarnation = config->self.incarnation,
        .registry = config->registry,
        .seniority = config->seniority,
        .trusts = config->trusts,
        .peers = config->registry     ? ELECTION_PEERS_MAX
                 : config->peer_count ? config->peer_count
                                      : 1,
    };
    int64_t now_ns = clock_now_ns();
    election_init(&s->election, &election, now_ns);
    s->wake_ns = now_ns;
    for (uint32_t i = 0; i < config->peer_count && !config->registry; i++) {
        s->others[i].wanted = i != config->seniority;
        snprintf(s->others[i].address, sizeof(s->others[i].address), "%s", config->peers[i]);
    }
    if (config->registry) {
        struct registry_config registry = {
            .place = *config->registry,
            .self = {.incarnation = config->self.incarnation, .role = "scheduler"},
            .bell = loop->bell,
        };
        snprintf(registry.self.addresses, sizeof(registry.self.addresses), "%s", config->self.address);
        snprintf(registry.address, sizeof(registry.address), "%s", config->self.address);
        int rc = registry_open(&registry, &s->registry, err);
        if (rc < 0) {
            free(s);
            return rc;
        }
    }
    *standby = s;
    return 0;
}

void standby_destroy(struct standby *s) {
    if (!s)
        return;
    if (s->registry)
        registry_close(s->registry);
    free(s);
}
