/* uplink.h - a member's connection to the scheduler: finds the one that leads, says who it is, and comes back after it
 * was lost. Owned by the link thread. */
#pragma once

#include "cluster/health.h"
#include "cluster/hello.h"
#include "cluster/link_loop.h"
#include "cluster/link_report.h"
#include "cluster/registry.h"

#define UPLINK_ADDRESSES_MAX 16 /* schedulers that may be named */
#define UPLINK_PLACES_MAX    64 /* all addresses of all of them */

struct uplink_ops {
    /* The scheduler has let us in; `welcome` has our number. */
    void (*up)(void *context, const struct hello *welcome);
    /* A frame, of those that a scheduler sends. -errno with a sentence ends the connection. */
    int (*frame)(void *context, const struct frame *frame, const void *head, struct sy_error *err);
    /* The connection is lost. */
    void (*down)(void *context);
};

/* An address at which a scheduler may be. */
struct uplink_place {
    struct name_address address;
    const char *name;
    int fd;           /* that is being connected there while others are tried; -1: none */
    int64_t began_ns; /* when that began */
    int64_t quiet_ns; /* nobody answered: until then others are tried */
};

struct uplink {
    struct link_loop *loop;
    const struct uplink_ops *ops;
    void *context;
    struct hello self;
    int64_t beat_ns;
    char schedulers[UPLINK_ADDRESSES_MAX][HELLO_ADDRESS_MAX]; /* HOST:PORT; a name may have many addresses */
    uint32_t scheduler_count;
    struct uplink_place places[UPLINK_PLACES_MAX]; /* as of the last try */
    uint32_t place_count, place; /* and the one that it went to */
    uint32_t next;               /* place to be tried */
    struct registry *registry;   /* NULL: these are all there are */
    struct peer peer;
    struct health health;
    bool open, up;
    uint32_t times; /* that it came up */
    int64_t retry_ns;
    int64_t aside_ns; /* a connection that does not come about is put aside */
    uint32_t tries; /* since it was up last */
    bool complained;
    bool drains; /* the scheduler has asked this process to end */
    bool said_bye;
    _Atomic bool leaves, left;
};

/* `schedulers` are HOST:PORT; none, if a registry knows. 0, or -EINVAL with a sentence. Set-up. Names are looked
 * up later, by the loop's thread for names, and again while no scheduler answers. */
int uplink_init(struct uplink *uplink, struct link_loop *loop, const char *const *schedulers, uint32_t count,
                const struct hello *self, int64_t beat_ns, const struct uplink_ops *ops, void *context,
                struct sy_error *err);
/* Says in a registry that we are there, and goes by it for the scheduler that leads. After uplink_init(), with no
 * scheduler, and link_loop_init(). 0 or -errno with a sentence. */
int uplink_registry(struct uplink *uplink, const struct registry_place *place, struct sy_error *err);
/* Whether the registry has news. */
bool uplink_pending(const struct uplink *uplink);
void uplink_destroy(struct uplink *uplink);
/* Ends the connection, if there is one, and makes another. */
void uplink_again(struct uplink *uplink, const char *reason);
/* Once a turn. Lowers *until_ns to when to look again. */
void uplink_look(struct uplink *uplink, int64_t now_ns, int64_t *until_ns);
/* Tells the scheduler that this process leaves, and waits until it has read that; not for long. The thread that ends
 * the loop, before. */
void uplink_leave(struct uplink *uplink);
/* Adds the connection, if it is up. */
void uplink_report(const struct uplink *uplink, struct link_report *report, int64_t now_ns);
/* The loop buries a peer: true, if it was the uplink's. */
bool uplink_buries(struct uplink *uplink, struct peer *peer);
