/* registry.h - a client of etcd 3: says that we are there, who else is, and who leads.
 *
 * A thread of its own speaks with etcd, through its JSON gateway, and never makes its user wait. Orders go to it and
 * events come back as lists; a doorbell rings when there are some.
 *
 *     user    --- registry_read(), registry_swap() --->  thread  <--- HTTP --->  etcd
 *             <-- registry_events(), the doorbell  ----
 *
 * The thread keeps a lease, puts our member under it, lists all of NAME/ and watches it from that revision on, so that
 * nothing in between is missed. If any of that fails it tries the next address, after 100 ms and then longer, up to
 * 2 s, and says REGISTRY_DOWN once; questions are asked even then. Once it is back it lists again and says what has
 * changed meanwhile, members that have gone included.
 *
 * Limits: plain HTTP without passwords, so etcd belongs on a network of the cluster's own; 8 addresses; 4096 members,
 * others are not told of; answers of up to 4 MiB. A question has 400 ms to be answered (200 ms of them to connect), all
 * else a second. That etcd is silently gone shows when the lease cannot be kept alive, within a third of its time and a
 * second (who only looks: by TCP's own probes, ten seconds). A member that dies is gone when its lease is over; one
 * that closes its registry, at once. */
#pragma once

#include "base/doorbell.h"
#include "base/push_list.h"
#include "cluster/etcd.h"

#define REGISTRY_LEASE_S     5
#define REGISTRY_MEMBERS_MAX 4096

struct registry;

struct registry_config {
    struct registry_place place;
    struct registry_member self;            /* role "": we only look */
    char address[REGISTRY_ADDRESS_MAX + 1]; /* goes into the leader key when we win it */
    int64_t lease_s;                        /* 0: REGISTRY_LEASE_S; etcd's least is 2 */
    struct doorbell *bell;                  /* of the thread that takes the events */
};

enum registry_event_kind {
    REGISTRY_UP,          /* what follows is what there is; at first, and after each REGISTRY_DOWN */
    REGISTRY_DOWN,        /* until REGISTRY_UP no news come */
    REGISTRY_MEMBER,      /* came, or has other addresses: member. Ourselves included */
    REGISTRY_MEMBER_GONE, /* member, as it was */
    REGISTRY_LEADER,      /* the leader key changed, or is seen for the first time since REGISTRY_UP: leader */
    REGISTRY_ANSWER,      /* to a question: leader */
    REGISTRY_FAILED,      /* no answer to a question; a swap may yet come true */
};

/* A value in the leader key that is not ours to read is told as term 0 of incarnation 0. */
struct registry_event {
    struct push_node link; /* the thread's */
    enum registry_event_kind kind;
    struct registry_member member;
    struct registry_leader leader;
};

/* Starts the thread; does not wait for etcd. -EINVAL and a sentence if what is to be written there is not as etcd.h
 * says; else -errno and a sentence. */
int registry_open(const struct registry_config *config, struct registry **registry, struct sy_error *err);
/* Takes our member away, for which etcd has a quarter of a second, ends the thread and frees all. Events not taken are
 * lost. */
void registry_close(struct registry *registry);

/* Questions. Each is answered by one REGISTRY_ANSWER or REGISTRY_FAILED, in their order. Any one thread at a time. */
void registry_read(struct registry *registry);
/* {term, our incarnation, our address}, if the key's revision is that; 0: if there is no key. See election.h. */
void registry_swap(struct registry *registry, int64_t revision, uint64_t term);

/* The thread whose doorbell it is: whether there are events; and the oldest, which the caller frees with free(), or
 * NULL. */
bool registry_pending(const struct registry *registry);
struct registry_event *registry_event_next(struct registry *registry);
