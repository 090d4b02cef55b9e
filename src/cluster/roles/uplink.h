/* uplink.h - a member's connection to the scheduler: finds the one that leads, introduces the member, and reconnects
 * after a loss. Owned by the link thread. */
#pragma once

#include "cluster/membership/registry.h"
#include "cluster/peer/health.h"
#include "cluster/peer/hello.h"
#include "cluster/peer/link_loop.h"
#include "cluster/peer/link_report.h"

#define UPLINK_ADDRESSES_MAX 16 /* most schedulers that may be named */
#define UPLINK_PLACES_MAX    64 /* most addresses of all schedulers together */

struct uplink_ops {
    /* The scheduler has accepted this process; `welcome` has our number. */
    void (*up)(void *context, const struct hello *welcome);
    /* Handles a frame from the scheduler. -errno with a sentence closes the connection. */
    int (*frame)(void *context, const struct frame *frame, const void *head, struct sy_error *err);
    /* The connection is lost. */
    void (*down)(void *context);
};

/* A possible address of a scheduler. */
struct uplink_place {
    struct name_address address;
    const char *name; /* HOST:PORT that the address belongs to */
    int fd;           /* socket that goes on connecting while other places are tried; -1: none */
    int64_t began_ns; /* begin of the attempt to connect */
    int64_t quiet_ns; /* end of the time for which the place is left out, after a connection on which nothing came */
    char reason[64];  /* begin of the last logged reason why the place was not reached; "": none since `up` */
};

struct uplink {
    struct link_loop *loop;
    const struct uplink_ops *ops;
    void *context;
    struct hello self;                                        /* introduction of this process */
    int64_t beat_ns;                                          /* time between heartbeats */
    char schedulers[UPLINK_ADDRESSES_MAX][HELLO_ADDRESS_MAX]; /* HOST:PORT of each; a name may have many addresses */
    uint32_t scheduler_count;
    struct uplink_place places[UPLINK_PLACES_MAX]; /* all addresses of all names, as of the last attempt */
    uint32_t place_count, place;                   /* number of places; index of the place tried last */
    uint32_t next;                                 /* index of the next place to try */
    struct registry *registry;                     /* registry; NULL: there are only the schedulers named above */
    struct peer peer;
    struct health health;
    bool open, up;             /* there is a connection; the scheduler has accepted us on it */
    uint32_t times;            /* count of times that a scheduler has accepted us */
    int64_t retry_ns;          /* time of the next attempt to connect */
    int64_t aside_ns;          /* time at which the present attempt is put aside */
    uint32_t tries;            /* attempts since a scheduler last accepted us */
    int64_t complain_ns;       /* earliest time of the next line in the log about schedulers that are not reached */
    bool refused;              /* the scheduler has refused this process's models or accelerators, and said why */
    bool drains;               /* the scheduler has asked this process to end */
    char *rollouts;            /* rollouts that a scheduler told last (rollouts.h), for the next one; NULL: none */
    bool said_bye;             /* FRAME_BYE was sent */
    _Atomic bool leaves, left; /* uplink_leave() waits; the scheduler has read FRAME_BYE */
};

struct uplink_config {
    const char *const *schedulers; /* [scheduler_count] HOST:PORT */
    uint32_t scheduler_count;
    const struct registry_place *registry; /* registry that knows the leading scheduler, and that this process is
                                              registered with, instead of `schedulers`; NULL: none */
    const struct hello *self;              /* introduction of this process */
    int64_t beat_ns;                       /* time between heartbeats */
};

/* Call it after link_loop_init(). Names are looked up later, by the loop's `names`, and again while no scheduler
 * answers. 0, or -errno with a sentence; call uplink_destroy() in either case. Set-up only. */
int uplink_init(struct uplink *uplink, struct link_loop *loop, const struct uplink_config *config,
                const struct uplink_ops *ops, void *context, struct sy_error *err);
/* Whether the registry has news. */
bool uplink_pending(const struct uplink *uplink);
void uplink_destroy(struct uplink *uplink);
/* Once a turn. Lowers *until_ns to when to call it again. */
void uplink_look(struct uplink *uplink, int64_t now_ns, int64_t *until_ns);
/* Tells the scheduler that this process leaves, and waits for a short time until the scheduler has read that. Called by
 * the thread that ends the loop, before it does so. */
void uplink_leave(struct uplink *uplink);
/* Adds the connection to the report, if there is one. */
void uplink_report(const struct uplink *uplink, struct link_report *report, int64_t now_ns);
/* The loop's bury(): true if the peer was the uplink's. */
bool uplink_buries(struct uplink *uplink, struct peer *peer);
