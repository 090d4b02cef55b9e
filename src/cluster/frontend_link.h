/* frontend_link.h - a frontend process's end of the cluster: its requests to the scheduler, their cards and inputs to
 * the backends that pull them, results back.
 *
 * To the frontends' ports it is model thread 0 and executor 0 (LINK_FRONTEND). It knows every request that is away, so
 * that each comes back exactly once whatever dies: what nobody has answered is sent again to the next scheduler, unless
 * a backend that lives has taken it. */
#pragma once

#include "base/error.h"
#include "cluster/hello.h"
#include "cluster/link_report.h"
#include "repository/served_model.h"
#include "sched/wiring.h"

struct advice;
struct auth;
struct tls;
struct registry_place;
struct frontend_link;

/* What the process does when models come and go. The link thread. */
struct frontend_link_ops {
    /* A model is to be served, by its description (repository/model_description.h). Its number here, or -errno with a
     * sentence. A model that is served already keeps its number. */
    int (*serve)(void *context, const char *description, size_t bytes, struct sy_error *err);
    /* It is not served any more. */
    void (*gone)(void *context, uint32_t model);
    /* All models that there are have been told, and those that were not are gone. */
    void (*told)(void *context);
    /* Now and then; true: soon again, since requests are waited for. */
    bool (*look)(void *context);
};

struct frontend_link_config {
    struct wiring *wiring;
    const char *const *schedulers; /* [scheduler_count] HOST:PORT */
    uint32_t scheduler_count;
    const struct registry_place *registry; /* that knows who leads, instead; NULL: none */
    int listen_fd;                         /* for backends; the link's from then on */
    struct hello self;                     /* incarnation, version, name, address, token */
    const char *fabric; /* libfabric's provider that backends may read by; NULL: none. The regions are pinned slabs */
    const char *fabric_host;           /* an address of this host to listen at for that; NULL: all of IPv4 */
    const struct auth *auth;           /* tokens that let backends in; NULL: none is needed */
    struct tls *tls;                   /* of the connections over TCP; outlives the link; NULL: plain text */
    const struct served_model *models; /* [models_max] the places that `serve` puts models in */
    uint32_t models_max;
    int64_t beat_ns;       /* between heartbeats */
    struct advice *advice; /* gets what the scheduler says, while there is one; NULL: nobody asks */
    const struct frontend_link_ops *ops;
    void *context;
};

/* 0 or -errno with a sentence. */
int frontend_link_start(struct frontend_link **link, const struct frontend_link_config *config, struct sy_error *err);
/* Leaves the cluster, ends the thread and frees it: when the frontends have ended, and are still there. NULL is
 * allowed. */
void frontend_link_stop(struct frontend_link *link);

/* For who renders it. */
struct link_report *frontend_link_report(struct frontend_link *link);
