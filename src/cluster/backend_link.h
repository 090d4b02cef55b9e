/* backend_link.h - a backend process's end of the cluster: plans from the scheduler, cards and inputs pulled from the
 * frontends, results to them, and what the scheduler is to know of runs and accelerators.
 *
 * To the executors it is model thread 0, rank thread 0 and frontend 0 (LINK_BACKEND). A plan is handed to its executor
 * when all of its requests have been pulled, or cannot be: in the order in which the scheduler sent the plans of an
 * accelerator. */
#pragma once

#include "base/error.h"
#include "cluster/hello.h"
#include "cluster/link_report.h"
#include "repository/model_description.h"
#include "sched/wiring.h"

struct backend_link;
struct tls;

struct backend_link_config {
    struct wiring *wiring;
    const char *const *schedulers; /* [scheduler_count] HOST:PORT */
    uint32_t scheduler_count;
    const struct registry_place *registry; /* that knows who leads, instead; NULL: none */
    struct hello self;                     /* incarnation, version, name, token */
    const char *fabric;                    /* libfabric's provider that inputs may come by; NULL: none */
    uint32_t transports;                   /* that inputs may come by, TRANSPORT_BIT(); 0: all that there are */
    struct tls *tls;                       /* of the connections over TCP; outlives the link; NULL: plain text */
    int64_t beat_ns;                       /* between heartbeats */
    const struct served_model *models;     /* [model_count] those that are READY are offered, */
    bool told_of_models;                   /* or those that backend_link_model_comes() tells of */
    uint32_t model_count;
    const char *types[ACCELERATOR_TYPES_MAX];                     /* [type_count] names */
    const struct profile *const *profiles[ACCELERATOR_TYPES_MAX]; /* [type_count][model_count]; NULL: the model does not
                                                                   * run on it */
    uint32_t type_count;
    const uint8_t *accelerator_type; /* [wiring->accelerators] */
    uint64_t inputs_bytes_max;       /* memory for inputs that were pulled */
};

/* 0 or -errno with a sentence. */
int backend_link_start(struct backend_link **link, const struct backend_link_config *config, struct sy_error *err);
/* Where models come and go (told_of_models), from one thread: the first have all come, and the scheduler may be told.
 */
void backend_link_begin(struct backend_link *link);
/* A model is READY and its executors have it: it is offered. It stays as it is until it is gone. */
void backend_link_model_comes(struct backend_link *link, uint32_t model);
/* It is to go: the scheduler is asked to send no more plans for it. Those that are here, and those that still come,
 * run.
 */
void backend_link_model_goes(struct backend_link *link, uint32_t model);
/* Whether nothing here needs it any more. */
bool backend_link_model_gone(const struct backend_link *link, uint32_t model);
/* From now on accelerators take no more batches: the scheduler is told so, and what it sends until it knows still runs.
 * Any thread. */
void backend_link_quiesce(struct backend_link *link);
/* Whether it is quiesced, the scheduler has said that no plan comes any more, nothing runs, and the frontends' hosts
 * have all results. Any thread. */
bool backend_link_ended(const struct backend_link *link);
/* Ends the thread; the scheduler hears a good-bye, if backend_link_ended(). What the executors read stays until
 * backend_link_free(). NULL is allowed. */
void backend_link_stop(struct backend_link *link);
/* When the executors have ended, too. NULL is allowed. */
void backend_link_free(struct backend_link *link);

/* For who renders it. */
struct link_report *backend_link_report(struct backend_link *link);
