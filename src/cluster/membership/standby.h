/* standby.h - several schedulers of one cluster: the links between them, the registry, and the election over both
 * (election.h). Owned by the link thread.
 *
 * Each scheduler connects to every other one, and sends its heartbeats on these connections; heartbeats of the others
 * come on the connections that they have made. The schedulers are known from a list that all have (--peers), or from
 * the registry. */
#pragma once

#include "cluster/membership/election.h"
#include "cluster/membership/registry.h"
#include "cluster/peer/hello.h"
#include "cluster/peer/link_loop.h"

struct standby_config {
    const char *const *peers; /* [peer_count] HOST:PORT of all schedulers, ourselves included, the most senior first */
    uint32_t peer_count;      /* number of schedulers; 0: there is a registry, or no other scheduler */
    uint32_t seniority;       /* our index in `peers`, 0 the most senior */
    const struct registry_place *registry; /* place of the registry; NULL: none */
    struct hello self;                     /* introduction of this process: incarnation, name, token, address */
    bool trusts;                           /* members show a token or a certificate (election.h) */
};

struct standby_ops {
    /* This scheduler leads `term` from now on. */
    void (*lead)(void *context, uint64_t term);
    /* Sends a heartbeat to the schedulers that have connected to this one. */
    void (*beat)(void *context, const struct wire_heartbeat *heartbeat);
    /* From now on nothing may be granted, and nothing sent to members. */
    void (*stand_down)(void *context);
    /* The registry has these rollouts (rollouts.h). */
    void (*rollouts)(void *context, const char *text);
    /* The registry has taken the rollouts of standby_record(), or (false) perhaps not. */
    void (*recorded)(void *context, bool done);
};

struct standby;

/* 0 or -errno with a sentence. The registry rings the loop's doorbell. */
int standby_create(struct standby **standby, const struct standby_config *config, struct link_loop *loop,
                   const struct standby_ops *ops, void *context, struct sy_error *err);
/* The standby's peers are closed with those of the loop. NULL is allowed. */
void standby_destroy(struct standby *standby);

/* Once a turn. Lowers *until_ns to when to call it again. */
void standby_look(struct standby *standby, int64_t now_ns, int64_t *until_ns);
/* Whether the registry has news. */
bool standby_pending(const struct standby *standby);
/* Whether another scheduler may connect: 0, or -EPROTO with a sentence if its --peers cannot be the same as ours. */
int standby_admits(const struct standby *standby, const struct hello *other, struct sy_error *err);
/* A member has obeyed a leader of this term. */
void standby_told(struct standby *standby, uint64_t term);
/* This scheduler is to end: another one takes over, if one is there (true), which stands this one down. */
bool standby_resign(struct standby *standby);
/* Has the registry record rollouts, which are copied; ops->recorded() follows. False: there is no registry. */
bool standby_record(struct standby *standby, const char *rollouts);
/* The address of the leader; "": not known. */
const char *standby_leader(const struct standby *standby);
/* The loop's bury(): true if the peer was one of ours. */
bool standby_buries(struct standby *standby, struct peer *peer);
