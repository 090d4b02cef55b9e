/* registry.h - a client of etcd 3: registers this process, and reports the other members and the leader.
 *
 * A thread of its own speaks with etcd, through etcd's JSON gateway, and never makes the user wait. Orders go to it and
 * events come back in lists; a doorbell rings when there are events.
 *
 *     user    --- registry_read(), registry_swap() --->  thread  <--- HTTP --->  etcd
 *             <-- registry_event_next(), doorbell  ----
 *
 * The thread keeps a lease, puts our member under it, lists all keys of NAME/ and watches them from that revision on,
 * so that no change is missed. If any of these steps fails, the thread reports REGISTRY_DOWN, once for each reason, and
 * tries the next address, after 100 ms and then longer, up to 2 s. It still asks questions meanwhile. Once etcd is
 * back, the thread lists again and reports all changes in between, also members that have gone.
 *
 * With a login (struct registry_place) the thread first asks for a token, and again when etcd says that it is not valid
 * any more; the call that heard that is made again. The files of login and TLS are read for each login, and for each
 * new connection.
 *
 * Limits: 8 addresses; 4096 members, others are not reported; answers of up to 4 MiB. A question has 400 ms to be
 * answered (200 ms of them to connect), any other call a second. If etcd becomes silent, the thread notices that when
 * the lease cannot be kept alive, within a third of the lease's time and a second (without a lease, by TCP's probes,
 * after ten seconds). A member that dies is gone when its lease expires; one that calls registry_close(), immediately.
 */
#pragma once

#include "cluster/membership/etcd.h"
#include "core/system/doorbell.h"
#include "core/util/push_list.h"

#define REGISTRY_LEASE_S     5
#define REGISTRY_MEMBERS_MAX 4096

struct registry;

struct registry_config {
    struct registry_place place;
    struct registry_member self;            /* this process as a member; role "": not registered, only reads */
    char address[REGISTRY_ADDRESS_MAX + 1]; /* our address, for the leader key when we win a term */
    int64_t lease_s;                        /* duration of the lease, at least 2 for etcd; 0: REGISTRY_LEASE_S */
    struct doorbell *bell;                  /* doorbell of the thread that takes the events */
};

enum registry_event_kind {
    REGISTRY_UP,          /* the next events describe the present state; at first, and after each REGISTRY_DOWN */
    REGISTRY_DOWN,        /* no events but this one until REGISTRY_UP; with `text`, the reason */
    REGISTRY_MEMBER,      /* a member has joined, or has other addresses; also this process; with `member` */
    REGISTRY_MEMBER_GONE, /* a member is gone; with `member` */
    REGISTRY_LEADER,   /* the leader key has changed, or is seen for the first time since REGISTRY_UP; with `leader` */
    REGISTRY_ANSWER,   /* answer to a question; with `leader` */
    REGISTRY_FAILED,   /* no answer to a question; a swap may still take effect */
    REGISTRY_ROLLOUTS, /* the key of the rollouts has changed, or is seen for the first time; with `text` */
    REGISTRY_RECORDED, /* answer to registry_record(): the text is in etcd */
    REGISTRY_UNRECORDED, /* answer to registry_record(): it is not, or that is not known */
};

/* A leader key with an unreadable value is reported as term 0 of incarnation 0. */
struct registry_event {
    struct push_node link; /* place in the thread's list */
    enum registry_event_kind kind;
    struct registry_member member;
    struct registry_leader leader;
    const char *text; /* terminated; lies behind the event, and is freed with it */
};

/* Starts the thread; does not wait for etcd. -EINVAL and a sentence if the member or the address does not have the form
 * of etcd.h; else -errno and a sentence. */
int registry_open(const struct registry_config *config, struct registry **registry, struct sy_error *err);
/* Removes our member, for which etcd has a quarter of a second, ends the thread and frees everything. Events not taken
 * are lost. */
void registry_close(struct registry *registry);

/* Questions, each answered by one REGISTRY_ANSWER or REGISTRY_FAILED, in order; the first ones after all keys were
 * listed, or that has failed: who hears of a leader should know all members, and where they are. Any thread, one at a
 * time. registry_read() reads the leader key. */
void registry_read(struct registry *registry);
/* Writes {term, our incarnation, our address} into the leader key, if its revision is `revision`; 0: if there is no
 * key. See election.h. */
void registry_swap(struct registry *registry, int64_t revision, uint64_t term);

/* Writes the rollouts (rollouts.h), which are copied, if our incarnation still is in the leader key. As the questions;
 * the answer is REGISTRY_RECORDED or REGISTRY_UNRECORDED. */
void registry_record(struct registry *registry, const char *rollouts);

/* For the thread of the doorbell: whether there are events; and the oldest event, which the caller frees with free();
 * NULL: there is none. */
bool registry_pending(const struct registry *registry);
struct registry_event *registry_event_next(struct registry *registry);
