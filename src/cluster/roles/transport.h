/* transport.h - the ways of requests' inputs from a frontend to a backend. There are three transports, each a table of
 * a few functions; each pair of processes uses the best one that both have.
 *
 *     shm     the frontend is on this host: its memory is mapped and read (transport_shm.c); large inputs come by tcp
 *     fabric  the frontend says where a request's inputs are, and libfabric reads them there (transport_fabric.c)
 *     tcp     the frontend sends the inputs over the link (transport_tcp.c)
 *
 * A pull begins when the plan of a batch comes, and ends by backend_landed_settle() or backend_landed_lose(). Memory
 * that inputs arrive in is not reused while bytes may still arrive in it: `struct landed.arrives` is set until the
 * transport has seen the end of the transfer, or end() has returned. The link thread. */
#pragma once

#include "cluster/peer/hello.h"
#include "core/util/error.h"

struct backend_link;  /* cluster/roles/backend_link_state.h */
struct frontend_peer; /* likewise */
struct landed;        /* cluster/roles/landing.h */

enum transport_kind { /* the best first */
                      TRANSPORT_SHM,
                      TRANSPORT_FABRIC,
                      TRANSPORT_TCP,
                      TRANSPORTS
};

#define TRANSPORT_BIT(kind) (1u << (kind))
/* The transports that every process has. */
#define TRANSPORTS_PLAIN (TRANSPORT_BIT(TRANSPORT_SHM) | TRANSPORT_BIT(TRANSPORT_TCP))

enum pull_state {
    PULL_UNDER_WAY, /* the pull ends by backend_landed_settle() or backend_landed_lose() */
    PULL_HERE,      /* the request is LANDED_ALL */
    PULL_NONE,      /* the request cannot be pulled; nothing is under way */
    PULL_REFUSED,   /* the request cannot be pulled, and its frontend was told; nothing is under way */
};

struct transport {
    /* Begins to pull a request that is LANDED_PULLING, or LANDED_UNREADY. Called while the frontend is connected. */
    enum pull_state (*pull)(struct backend_link *l, struct frontend_peer *f, struct landed *landed);
    /* Handles a frame that only this transport knows. NULL: there are none. -errno with a sentence closes the link. */
    int (*frame)(struct backend_link *l, struct frontend_peer *f, const struct frame *frame, const void *head,
                 struct sy_error *err);
    /* The frontend's connection is lost: when this returns, nothing more arrives from it. */
    void (*end)(struct backend_link *l, struct frontend_peer *f);
};

extern const struct transport transport_shm, transport_fabric, transport_tcp;

const char *transport_name(enum transport_kind kind);
/* Sets the transports in a process's introduction: those that every process has, and `fabric` by libfabric's provider
 * of this name, unless it is NULL. */
void transport_offer(struct hello *self, const char *fabric);
/* Chooses the best transport that both have; `local`: they share a host. 0, or -ENOTSUP with a sentence that names the
 * transports of each. */
int transport_choose(const struct hello *frontend, const struct hello *backend, bool local, enum transport_kind *kind,
                     struct sy_error *err);
