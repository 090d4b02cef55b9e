/* scheduler_members.c - members come, introduce themselves, are looked after, and go; visitors. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/data/advice.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "front/net/auth.h"

#define GREET_NS            (5 * NS_PER_S) /* time from a connection to the introduction */
#define SCHEDULER_SILENT_NS (10 * NS_PER_S)
#define STRANGERS_MAX       256              /* most connections without an introduction */
#define EVICT_LOOKS         32               /* most strangers that are checked to find the one to close */
#define LOOK_MEMBER_NS      (10 * NS_PER_US) /* added time between two checks for each member: one takes some 20 ns */

/* ---- members go ---- */

/* Cancels a frontend's queued requests. False: the rings are full; more follow when the threads have read these. */
static bool requests_cancel(struct scheduler_link *l, struct member *m) {
    size_t count = (size_t)m->hello.lanes * m->hello.slots;
    for (; m->cancelled < count; m->cancelled++) {
        const struct queued_request *last = &m->last[m->cancelled];
        if (last->handle && !request_cancel(l, last))
            return false;
    }
    return true;
}

void member_drop(struct scheduler_link *l, struct member *m, const char *reason) {
    if (m->left)
        log_info("member left", "role=%s name=%s number=%u", cluster_role_name(m->hello.role), m->hello.name,
                 m->hello.number);
    else if (m->known)
        log_warn("member lost", "role=%s name=%s number=%u reason=\"%s\"", cluster_role_name(m->hello.role),
                 m->hello.name, m->hello.number, reason);
    else if (!m->refused && !m->visits)
        link_loop_stranger(&l->loop, m->from, reason);
    if (l->asker == m)
        l->asker = NULL;
    list_remove(&m->stranger);
    l->stranger_count -= !m->known;
    link_loop_drop(&l->loop, &m->peer);
    list_remove(&m->node);
    if (!m->known)
        return;
    if (m->hello.role == ROLE_FRONTEND) {
        places_left_by(l, m);
        list_for_each_entry (other, &l->members, struct member, node)
            if (other->known && other->hello.role == ROLE_BACKEND)
                peer_send(&other->peer, FRAME_FRONTEND_GONE, 1, &m->hello.number, sizeof(m->hello.number));
    } else if (m->hello.role == ROLE_BACKEND)
        backend_gone(l, m);
}

void member_free(struct member *m) {
    free(m->last);
    free(m->owes);
    free(m->remote_of_known);
    late_free(m);
    free(m->accelerators);
    for (uint32_t i = 0; i < m->brought_count; i++)
        catalogue_brought_free(&m->brought[i]);
    free(m->brought);
    free(m->types);
    json_decref(m->aside);
    free(m);
}

void members_bury(void *owner, struct peer *peer) {
    struct scheduler_link *l = owner;
    if (standby_buries(l->standby, peer))
        return;
    struct member *m = container_of(peer, struct member, peer);
    if (!m->known || m->hello.role == ROLE_SCHEDULER) {
        member_free(m);
        return;
    }
    m->next = l->ghosts;
    l->ghosts = m;
}

void ghosts_look(struct scheduler_link *l) {
    for (struct member **at = &l->ghosts, *m; (m = *at);) {
        if (m->hello.role == ROLE_FRONTEND && !requests_cancel(l, m)) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        l->by_number[m->hello.number] = NULL;
        member_free(m);
    }
}

/* ---- introductions ---- */

/* Announces a frontend to a backend. */
static void tell_frontend(struct member *backend, const struct member *frontend) {
    struct hello hello = pass_introduction(&frontend->hello, backend->hello.incarnation);
    hello_send(&backend->peer, FRAME_FRONTEND, &hello);
}

/* The connection is about to be closed: tells the other end why, for its log. */
static void refusal_tell(struct member *m, const char *why) {
    peer_send(&m->peer, FRAME_REFUSED, 1, why, strlen(why));
    peer_flush(&m->peer);
}

/* The number that a member had before, or the one that has been free longest. 0: all are taken. */
static uint32_t number_find(struct scheduler_link *l, uint32_t wanted) {
    if (wanted && !l->by_number[wanted])
        return wanted;
    for (uint32_t i = 0; i < HELLO_NUMBERS; i++) {
        l->number_next = l->number_next % (HELLO_NUMBERS - 1) + 1;
        if (!l->by_number[l->number_next])
            return l->number_next;
    }
    return 0;
}

/* In an address without a host, the host is the one that the connection comes from. */
static void address_complete(struct member *m) {
    const char *end = strrchr(m->from, ':');
    if (m->hello.metrics && end)
        snprintf(m->metrics, sizeof(m->metrics), "%.*s:%u", (int)(end - m->from), m->from, m->hello.metrics);
    char port[HELLO_ADDRESS_MAX], *colon;
    if (*m->hello.address != ':')
        return;
    strcpy(port, m->hello.address);
    snprintf(m->hello.address, sizeof(m->hello.address), "%.90s", m->from);
    colon = strrchr(m->hello.address, ':');
    if (colon && strlen(port) < (size_t)(m->hello.address + sizeof(m->hello.address) - colon))
        strcpy(colon, port);
}

static const char *member_refused(struct scheduler_link *l, struct member *m, struct sy_error *why) {
    if (hello_agree(&l->config.self, &m->hello, &m->peer.format, why) < 0)
        return why->text;
    if (m->hello.role == ROLE_SCHEDULER && !l->standby)
        return "this scheduler knows of no other: start it with --peers or --registry";
    if (m->hello.role == ROLE_SCHEDULER)
        return standby_admits(l->standby, &m->hello, why) < 0 ? why->text : NULL;
    if (m->hello.role == ROLE_VISITOR)
        return NULL;
    if (!scheduler_link_leads(l))
        return "this scheduler does not lead";
    if (m->hello.role == ROLE_FRONTEND && (m->hello.lanes < 1 || m->hello.slots < 1 || !*m->hello.address))
        return "a frontend without threads, slots or an address";
    return NULL;
}

/* A member has introduced itself. */
static void member_known(struct scheduler_link *l, struct member *m) {
    m->known = true;
    if (m->hello.role == ROLE_FRONTEND || m->hello.role == ROLE_BACKEND)
        m->peer.tally = link_tally_of(&l->report.tallies, m->hello.role, m->hello.name);
    l->look_ns = 0;
    list_remove(&m->stranger);
    l->stranger_count--;
    peer_welcome(&m->peer);
}

/* A process that joins again has lost its connection of before, which may not be known here yet: it would go on getting
 * batches, and keep its accelerators' room from the same ones. */
static void earlier_drop(struct scheduler_link *l, const struct member *m) {
    list_for_each_entry (other, &l->members, struct member, node)
        if (other != m && other->known && other->hello.role == m->hello.role &&
            other->hello.incarnation == m->hello.incarnation) {
            member_drop(l, other, "it has joined again");
            return;
        }
}

static int member_hello(struct scheduler_link *l, struct member *m, const struct frame *frame, const char *head,
                        struct sy_error *err) {
    int rc = hello_read(head, frame->head_bytes, &m->hello, err);
    if (rc < 0) {
        refusal_tell(m, err->text);
        return rc;
    }
    struct sy_error unlike;
    bool known = !l->config.auth || auth_allows(l->config.auth, m->hello.token, strlen(m->hello.token));
    if (known && (m->hello.role == ROLE_FRONTEND || m->hello.role == ROLE_BACKEND)) /* a visitor knows of none */
        link_term_told(l, m->hello.term);
    const char *why = known ? member_refused(l, m, &unlike) : "its token does not let it in";
    if (!why && m->hello.role == ROLE_SCHEDULER) {
        /* another scheduler has connected, to send its heartbeats */
        member_known(l, m);
        snprintf(m->peer.name, sizeof(m->peer.name), "scheduler %s", m->hello.name);
        hello_send(&m->peer, FRAME_WELCOME, &l->config.self);
        log_info("another scheduler connected", "name=%s seniority=%u", m->hello.name, m->hello.number);
        return 0;
    }
    bool joins = !why && m->hello.role != ROLE_VISITOR;
    if (joins)
        earlier_drop(l, m);
    uint32_t number = joins ? number_find(l, m->hello.number) : 0;
    if (joins && !number)
        why = "the cluster has no room for another member";
    else if (joins && !member_room(l, m))
        why = "the scheduler has no memory for another member";
    if (why) {
        if (scheduler_link_leads(l)) /* otherwise members find the leader by trying schedulers in turn */
            link_loop_stranger(&l->loop, m->from, why);
        m->refused = true;
        refusal_tell(m, why);
        return error_set(err, -EACCES, "%s", why);
    }
    if (!joins) {
        m->visits = true;
        hello_send(&m->peer, FRAME_WELCOME, &l->config.self);
        return 0;
    }
    member_known(l, m);
    m->hello.number = number;
    address_complete(m);
    l->by_number[number] = m;
    l->passes->of[number].key = (struct siphash_key){{m->hello.secret[0], m->hello.secret[1]}};
    snprintf(m->peer.name, sizeof(m->peer.name), "%s %.80s", cluster_role_name(m->hello.role), m->hello.name);
    health_init(&m->health, l->config.beat_ns, clock_now_ns());
    struct hello answer = l->config.self;
    answer.number = number;
    hello_send(&m->peer, FRAME_WELCOME, &answer);
    scheduler_rollouts_tell(l, m);
    list_for_each_entry (other, &l->members, struct member, node) {
        if (other == m || !other->known)
            continue;
        if (m->hello.role == ROLE_BACKEND && other->hello.role == ROLE_FRONTEND)
            tell_frontend(m, other);
        else if (m->hello.role == ROLE_FRONTEND && other->hello.role == ROLE_BACKEND)
            tell_frontend(other, m);
    }
    log_info("member joined", "role=%s name=%s number=%u address=%s version=%s", cluster_role_name(m->hello.role),
             m->hello.name, number, m->hello.address, m->hello.version);
    return 0;
}

/* A visitor gets only its answer, and has GREET_NS in all. */
static int member_visits(struct scheduler_link *l, struct member *m, const struct frame *frame, const char *head,
                         struct sy_error *err) {
    struct sy_error why;
    struct member *leaver = NULL;
    bool cordons = frame->kind == FRAME_CORDON || frame->kind == FRAME_UNCORDON;
    if (frame->kind == FRAME_ROLLOUT && scheduler_link_leads(l)) {
        scheduler_rollouts_order(l, m, head, frame->head_bytes);
        return 0;
    }
    if (frame->kind != FRAME_STATUS && frame->kind != FRAME_DRAIN && frame->kind != FRAME_ROLLOUT && !cordons)
        return error_set(err, -EPROTO, "a visitor does not send frames of kind %u", frame->kind);
    if (frame->kind != FRAME_STATUS && scheduler_link_leads(l)) { /* else it hears that another one is to be asked */
        leaver = status_member(l, head, frame->head_bytes, &why);
        if (!leaver && clock_now_ns() < l->settled_ns) { /* or the same again */
            status_send(l, m, NULL);
            return 0;
        }
        if (leaver && cordons && leaver->hello.role != ROLE_BACKEND) {
            error_set(&why, -EINVAL, "'%s' is a frontend; only backends get batches", leaver->hello.name);
            leaver = NULL;
        }
        if (!leaver) {
            peer_send(&m->peer, FRAME_REFUSED, 1, why.text, strlen(why.text));
            return 0;
        }
        log_info(frame->kind == FRAME_DRAIN    ? "member asked to leave"
                 : frame->kind == FRAME_CORDON ? "backend asked to take no more batches"
                                               : "backend asked to take batches again",
                 "role=%s name=%s number=%u by=%s", cluster_role_name(leaver->hello.role), leaver->hello.name,
                 leaver->hello.number, m->from);
        peer_send(&leaver->peer, (enum frame_kind)frame->kind, 0, NULL, 0);
    }
    status_send(l, m, leaver);
    return 0;
}

/* ---- members there ---- */

/* Tells a frontend which models are served, once its clock is known. Then tells either role that this was all, so that
 * it forgets what was not announced; but not right after this scheduler began to lead, since other members are about to
 * join. */
static void member_tell(struct scheduler_link *l, struct member *m, int64_t now_ns, int64_t *until_ns) {
    if (m->hello.role == ROLE_FRONTEND && !m->told && clock_sync_known(&m->health.clock)) {
        m->told = true;
        places_tell(l, m);
    }
    if (m->told_all || !m->told)
        return;
    if (now_ns >= l->settled_ns) {
        m->told_all = true;
        peer_send(&m->peer, FRAME_TOLD, 0, NULL, 0);
    } else {
        *until_ns = time_earlier(l->settled_ns, *until_ns);
    }
}

/* Lowers *until_ns to when to call it again. The member may be gone afterwards. */
static void member_look(struct scheduler_link *l, struct member *m, int64_t now_ns, int64_t *until_ns) {
    int64_t over_ns = m->since_ns + GREET_NS;
    if (!m->known && now_ns > over_ns) {
        member_drop(l, m, "it did not introduce itself");
    } else if (!m->known) {
        *until_ns = time_earlier(over_ns, *until_ns);
    } else if (m->hello.role == ROLE_SCHEDULER) { /* the election decides whether it is alive */
        int64_t silent_ns = m->peer.heard_ns + SCHEDULER_SILENT_NS;
        if (now_ns > silent_ns)
            member_drop(l, m, "it has been silent");
        else
            *until_ns = time_earlier(silent_ns, *until_ns);
    } else if (!health_look(&m->health, &m->peer, now_ns, until_ns)) {
        member_drop(l, m, "it has been silent for three heartbeats");
    } else {
        member_tell(l, m, now_ns, until_ns);
        /* a frontend is told the advice on the number of accelerators, if that has changed */
        int64_t wanted = advice_get(l->config.advice);
        if (m->hello.role == ROLE_FRONTEND && wanted != ADVICE_NONE && m->advised != wanted + 1) {
            m->advised = wanted + 1;
            peer_send(&m->peer, FRAME_ADVICE, 1, &(uint32_t){(uint32_t)wanted}, sizeof(uint32_t));
        }
    }
}

void members_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns) {
    if (now_ns >= l->look_ns) {
        int64_t next_ns = TIME_NEVER, least_ns = now_ns + SCHEDULER_LOOK_NS;
        list_for_each_safe (node, &l->members) {
            member_look(l, list_entry(node, struct member, node), now_ns, &next_ns);
            least_ns += LOOK_MEMBER_NS;
        }
        l->look_ns = next_ns < least_ns ? least_ns : next_ns;
    }
    *until_ns = time_earlier(l->look_ns, *until_ns);
}

/* ---- frames ---- */

static int on_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct member *m = container_of(peer, struct member, peer);
    struct scheduler_link *l = peer->owner;

    if (m->visits)
        return member_visits(l, m, frame, head, err);
    if (!m->known)
        return frame->kind == FRAME_HELLO ? member_hello(l, m, frame, head, err)
                                          : error_set(err, -EPROTO, "it did not introduce itself");
    if (health_frame(&m->health, peer, frame, head)) {
        member_look(l, m, peer->heard_ns, &l->look_ns); /* it may have become possible to convert its clock */
        return 0;
    }
    if (frame->kind == FRAME_BYE) {
        m->left = true;
        return error_set(err, -ESHUTDOWN, "it said so");
    }
    if (m->hello.role == ROLE_SCHEDULER) /* a sign of life; what is believed comes by our connection (standby.c) */
        return frame->kind == FRAME_HEARTBEAT
                   ? 0
                   : error_set(err, -EPROTO, "a scheduler does not send frames of kind %u", frame->kind);
    int rc =
        m->hello.role == ROLE_FRONTEND ? frontend_frame(l, m, frame, head, err) : backend_frame(l, m, frame, head, err);
    if (rc == -ENOSPC || rc == -ENOMEM || rc == -EOPNOTSUPP) /* its log should say so, too */
        refusal_tell(m, err->text);
    return rc;
}

static void on_closed(struct peer *peer, const char *reason) {
    member_drop(peer->owner, container_of(peer, struct member, peer), reason);
}

static const struct peer_events events = {.frame = on_frame, .closed = on_closed};

/* ---- connections ---- */

/* There are too many strangers: closes the oldest that has sent nothing (a member sends its introduction immediately),
 * or else the oldest, which has had more time than a member needs. */
static void stranger_evict(struct scheduler_link *l) {
    struct member *out = list_entry(l->strangers.next, struct member, stranger);
    uint32_t looked = 0;
    list_for_each_entry (m, &l->strangers, struct member, stranger) {
        if (peer_is_silent(&m->peer)) {
            out = m;
            break;
        }
        if (++looked == EVICT_LOOKS)
            break;
    }
    member_drop(l, out, "others have come meanwhile");
}

void members_accept(void *owner, int fd, const char *from) {
    struct scheduler_link *l = owner;
    struct member *m = calloc(1, sizeof(*m));

    if (!m) {
        close(fd);
        return;
    }
    if (l->stranger_count >= STRANGERS_MAX)
        stranger_evict(l);
    m->since_ns = clock_now_ns();
    l->look_ns = 0;
    snprintf(m->from, sizeof(m->from), "%s", from);
    if (link_loop_add(&l->loop, &m->peer, fd, false, &events, l) < 0) {
        free(m);
        return;
    }
    snprintf(m->peer.name, sizeof(m->peer.name), "%s", from);
    list_append(&l->members, &m->node);
    list_append(&l->strangers, &m->stranger);
    l->stranger_count++;
}
