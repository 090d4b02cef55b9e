/* frontend_link.h - a frontend's link to its cluster: requests to the scheduler, their cards and inputs to the backends
 * that pull them, results back.
 *
 * To the frontends' ports it takes the part of model thread 0 and executor 0 (LINK_FRONTEND). It knows every request
 * that is away, so that each comes back exactly once whichever process dies: an unanswered request is sent again to the
 * next scheduler, unless a living backend has taken it. */
#pragma once

#include "cluster/peer/hello.h"
#include "cluster/peer/link_report.h"
#include "core/util/error.h"
#include "model/config/served_model.h"
#include "sched/threads/wiring.h"

struct advice;
struct auth;
struct tls;
struct registry_place;
struct frontend_link;

/* Called by the link thread when models come and go. */
struct frontend_link_ops {
    /* A model is to be served; its description is as in model/repository/model_description.h. Returns its number here,
     * or -errno with a sentence; -ENOSPC: there is no room now, and the link asks again. A model that is served already
     * keeps its number. */
    int (*serve)(void *context, const char *description, size_t bytes, struct sy_error *err);
    /* The model of this number is not served any more. */
    void (*gone)(void *context, uint32_t model);
    /* Whether a model goes on here although the scheduler ends it: the model that is to take its place is not ready
     * yet, or requests for it are still coming in. Called again until it returns false. NULL: no model goes on. */
    bool (*outlasts)(void *context, uint32_t model);
    /* The scheduler has announced all models; any others are gone. */
    void (*told)(void *context);
    /* Called now and then; true: call it again soon, since a model's last requests have not ended. */
    bool (*look)(void *context);
    /* Whether there is room for another model. NULL: always. */
    bool (*room)(void *context);
};

struct frontend_link_config {
    struct wiring *wiring;
    const char *const *schedulers; /* [scheduler_count] HOST:PORT */
    uint32_t scheduler_count;
    const struct registry_place *registry; /* used instead, to find the scheduler that leads; NULL: none */
    int listen_fd;                         /* for backends; the link's from then on */
    struct hello self;                     /* incarnation, version, name, address, token */
    const char *fabric; /* libfabric's provider that backends may read by; NULL: none. The regions are pinned slabs */
    const char *fabric_host;           /* an address of this host to listen at for that; NULL: all of IPv4 */
    const struct auth *auth;           /* tokens that let backends in; NULL: none is needed */
    struct tls *tls;                   /* of the connections over TCP; outlives the link; NULL: plain text */
    const struct served_model *models; /* [models_max] the places that `serve` puts models in */
    uint32_t models_max;
    uint64_t outputs_bytes_max;     /* memory for outputs, from their arrival until their answers are sent */
    int64_t beat_ns;                /* between heartbeats */
    int64_t cancelled_ns;           /* a cancelled request comes back after so long, whoever still has it; 0: 5 s */
    struct advice *advice;          /* gets the scheduler's advice while one is connected; NULL: not wanted */
    struct running *const *running; /* [running_count] of backends that say what they run (running.h); 0: none does,
                                     * and a lost backend may have ended because of any request that it had read */
    uint32_t running_count;
    const struct frontend_link_ops *ops;
    void *context;
};

/* 0 or -errno with a sentence. */
int frontend_link_start(struct frontend_link **link, const struct frontend_link_config *config, struct sy_error *err);
/* Leaves the cluster, ends the thread and frees it. Call it when the frontends' threads have ended, but before the
 * frontends are freed. NULL is allowed. */
void frontend_link_stop(struct frontend_link *link);

/* The report for the metrics page. */
struct link_report *frontend_link_report(struct frontend_link *link);
