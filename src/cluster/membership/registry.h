/* registry.h - a client of etcd 3: registers this process, and reports the other members and the leader.
 *
 * A separate thread speaks with etcd, through its JSON gateway, and never makes its user wait. Orders go to it and
 * events come back in lists; a doorbell rings when there are events.
 *
 *     user    --- registry_read(), registry_swap() --->  thread  <--- HTTP --->  etcd
 *             <-- registry_events(), the doorbell  ----
 *
 * The thread keeps a lease, puts our member under it, lists all keys of NAME/ and watches them from that revision on,
 * so that no change is missed. If any of that fails it tries the next address, after 100 ms and then longer, up to 2 s,
 * and reports REGISTRY_DOWN once; questions are still asked. Once etcd is back, the thread lists again and reports all
 * changes in between, also members that have gone.
 *
 * Limits: plain HTTP without passwords, so etcd must be on a private network of the cluster; 8 addresses; 4096 members,
 * others are not reported; answers of up to 4 MiB. A question has 400 ms to be answered (200 ms of them to connect),
 * any other call a second. If etcd becomes silent, the thread notices that when the lease cannot be kept alive, within
 * a third of the lease's time and a second (without a lease, by TCP's probes, after ten seconds). A member that dies is
 * gone when its lease expires; one that calls registry_close(), immediately. */
#pragma once

#include "cluster/membership/etcd.h"
#include "core/system/doorbell.h"
#include "core/util/push_list.h"

#define REGISTRY_LEASE_S     5
#define REGISTRY_MEMBERS_MAX 4096

struct registry;

struct registry_config {
    struct registry_place place;
    struct registry_member self;            /* role "": do not register, only read */
    char address[REGISTRY_ADDRESS_MAX + 1]; /* written into the leader key when we win a term */
    int64_t lease_s;                        /* 0: REGISTRY_LEASE_S; etcd's least is 2 */
    struct doorbell *bell;                  /* of the thread that takes the events */
};

enum registry_event_kind {
    REGISTRY_UP,          /* the next events describe the present state; at first, and after each REGISTRY_DOWN */
    REGISTRY_DOWN,        /* no events until REGISTRY_UP */
    REGISTRY_MEMBER,      /* has joined, or has other addresses: member. Also for ourselves */
    REGISTRY_MEMBER_GONE, /* the former member */
    REGISTRY_LEADER,      /* the leader key changed, or is seen for the first time since REGISTRY_UP: leader */
    REGISTRY_ANSWER,      /* to a question: leader */
    REGISTRY_FAILED,      /* no answer to a question; a swap may still take effect */
};

/* A leader key with an unreadable value is reported as term 0 of incarnation 0. */
struct registry_event {
    struct push_node link; /* the thread's */
    enum registry_event_kind kind;
    struct registry_member member;
    struct registry_leader leader;
};

/* Starts the thread; does not wait for etcd. -EINVAL and a sentence if the member or the address does not have the form
 * of etcd.h; else -errno and a sentence. */
int registry_open(const struct registry_config *config, struct registry **registry, struct sy_error *err);
/* Removes our member, for which etcd has a quarter of a second, ends the thread and frees everything. Events not taken
 * are lost. */
void registry_close(struct registry *registry);

/* Questions. Each is answered by one REGISTRY_ANSWER or REGISTRY_FAILED, in order. Any thread, one at a time. */
void registry_read(struct registry *registry);
/* Writes {term, our incarnation, our address} if the key's revision is `revision`; 0: if there is no key. See
 * election.h. */
void registry_swap(struct registry *registry, int64_t revision, uint64_t term);

/* For the thread of the doorbell: whether there are events; and the oldest event, which the caller frees with free(),
 * or NULL. */
bool registry_pending(const struct registry *registry);
struct registry_event *registry_event_next(struct registry *registry);
