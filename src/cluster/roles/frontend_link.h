/* frontend_link.h - a frontend's link to its cluster: sends requests to the scheduler, and cards and inputs to the
 * backends that pull them; takes the results.
 *
 * For the frontends' ports the link stands for model thread 0 and executor 0 (LINK_FRONTEND). The link knows every
 * request that is away, so that each comes back exactly once whichever process dies: an unanswered request is sent
 * again to the next scheduler, unless a living backend has taken the request. */
#pragma once

#include "cluster/peer/hello.h"
#include "cluster/peer/link_report.h"
#include "core/util/error.h"
#include "model/config/served_model.h"
#include "sched/threads/wiring.h"

struct advice;
struct auth;
struct tls;
struct link_loop;
struct registry_place;
struct frontend_link;

/* Called by the link thread when models come and go. */
struct frontend_link_ops {
    /* A model is to be served; its description is as in model/repository/model_description.h. Returns the model's
     * number here, or -errno with a sentence; -ENOSPC, -ENOMEM: there is no room now, and the link asks again. A model
     * that is served already keeps its number. */
    int (*serve)(void *context, const char *description, size_t bytes, struct sy_error *err);
    /* The model of this number is not served any more. */
    void (*gone)(void *context, uint32_t model);
    /* Whether a model that the scheduler ends goes on here for now: the model's successor is not ready yet, or requests
     * for the model are still coming in. Called again until it returns false. NULL: no model goes on. */
    bool (*outlasts)(void *context, uint32_t model);
    /* The scheduler has announced all models; any other model is gone. */
    void (*told)(void *context);
    /* Called now and then. True: the last requests of a model have not ended, so it is called again soon. */
    bool (*look)(void *context);
    /* Whether there is room for another model. NULL: always. */
    bool (*room)(void *context);
    /* From now on requests can be sent on, or (false) they cannot, and are refused at once (link_wait_ns). At first
     * they can. NULL: not wanted. */
    void (*linked)(void *context, bool linked);
};

struct frontend_link_config {
    struct wiring *wiring;
    const char *const *schedulers; /* [scheduler_count] HOST:PORT */
    uint32_t scheduler_count;
    const struct registry_place *registry; /* registry to find the leader, instead of `schedulers`; NULL: none */
    struct link_loop *host; /* loop of the scheduler's link in this process, whose thread and bell the link shares, and
                             * to which it connects; outlives the link. NULL: the link has a thread of its own */
    int listen_fd;          /* listening socket for backends; the link's from then on; -1: none */
    struct hello self;      /* introduction of this process: incarnation, version, name, address, token */
    const char *fabric; /* libfabric's provider for backends' reads, which needs pinned slabs as regions; NULL: none */
    const char *fabric_host;           /* address of this host to listen at for libfabric; NULL: all of IPv4 */
    const struct auth *auth;           /* tokens that let backends in; NULL: no token is needed */
    struct tls *tls;                   /* TLS of the connections over TCP, outlives the link; NULL: plain text */
    const struct served_model *models; /* [models_max] places into which ops->serve() puts models */
    uint32_t models_max;
    uint64_t outputs_bytes_max; /* bound of the memory for outputs, from their arrival until the answers are sent */
    int64_t beat_ns;            /* time between heartbeats */
    int64_t link_wait_ns;       /* time without a scheduler, or without any backend, after which requests are refused
                                 * at once; until then they wait. TIME_NEVER: they always wait */
    int64_t cancelled_ns;       /* time after which a cancelled request comes back, whoever still has it; 0: 5 s */
    struct advice *advice;      /* target for the advice of the connected scheduler; NULL: not wanted */
    struct running *const *running; /* [running_count] present runs of the backends that show their runs (running.h) */
    uint32_t running_count; /* number of such backends; 0: any request that a lost backend had read may have ended the
                               backend */
    const struct frontend_link_ops *ops;
    void *context;
};

/* 0 or -errno with a sentence. */
int frontend_link_start(struct frontend_link **link, const struct frontend_link_config *config, struct sy_error *err);
/* Leaves the cluster, ends the thread and frees the link. Call it when the frontends' threads have ended, but before
 * the frontends are freed. NULL is allowed. */
void frontend_link_stop(struct frontend_link *link);

/* Has the owner's look() called in the next turn, which comes at once. Any thread. */
void frontend_link_look(struct frontend_link *link);

/* The report for the metrics page. */
struct link_report *frontend_link_report(struct frontend_link *link);
