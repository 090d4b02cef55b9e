/* backend_link.h - a backend's link to its cluster: plans from the scheduler, cards and inputs pulled from the
 * frontends, results to them, and reports about runs and accelerators to the scheduler.
 *
 * To the executors it takes the part of model thread 0, rank thread 0 and frontend 0 (LINK_BACKEND). A plan is handed
 * to its executor when each of its requests has been pulled, or cannot be. An accelerator's plans go in the order in
 * which the scheduler sent them. */
#pragma once

#include "cluster/peer/hello.h"
#include "cluster/peer/link_report.h"
#include "core/util/error.h"
#include "model/repository/model_description.h"
#include "sched/threads/wiring.h"

struct backend_link;
struct tls;

struct backend_link_config {
    struct wiring *wiring;
    const char *const *schedulers; /* [scheduler_count] HOST:PORT */
    uint32_t scheduler_count;
    const struct registry_place *registry; /* used instead, to find the scheduler that leads; NULL: none */
    struct hello self;                     /* incarnation, version, name, token */
    const char *fabric;                    /* libfabric's provider that inputs may come by; NULL: none */
    uint32_t transports;                   /* allowed for inputs, TRANSPORT_BIT(); 0: all */
    struct tls *tls;                       /* of the connections over TCP; outlives the link; NULL: plain text */
    int64_t beat_ns;                       /* between heartbeats */
    const struct served_model *models;     /* [model_count] those that are READY are offered to the scheduler, */
    bool told_of_models;                   /* or only those named by backend_link_model_comes() */
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
/* If models come and go (told_of_models), the next functions are called from one thread. This one: all models of the
 * start have come, so the backend may introduce itself to the scheduler. */
void backend_link_begin(struct backend_link *link);
/* A model is READY and resident on its executors: it is offered. It must stay unchanged until it is gone. */
void backend_link_model_comes(struct backend_link *link, uint32_t model);
/* A model is to go: the scheduler is asked to send no more plans for it. Plans that are here, and those on the way,
 * still run. */
void backend_link_model_goes(struct backend_link *link, uint32_t model);
/* Whether nothing here needs the model any more. */
bool backend_link_model_gone(const struct backend_link *link, uint32_t model);
/* Says which models this process has and could not load, or has set aside, with their reasons (aside.h): all of them,
 * in place of those said before. The link owns the text from then on, and will free() it. Any thread, one at a time. */
void backend_link_aside(struct backend_link *link, char *text);
/* From now on accelerators take no more batches: the scheduler is told so, and plans that it sends before it knows
 * still run. Any thread. */
void backend_link_quiesce(struct backend_link *link);
/* Whether the link is quiesced, the scheduler has said that no more plans come, nothing runs, and the frontends' hosts
 * have all results. Any thread. */
bool backend_link_ended(const struct backend_link *link);
/* Ends the thread; if backend_link_ended(), it tells the scheduler good-bye. Memory that executors read stays until
 * backend_link_free(). NULL is allowed. */
void backend_link_stop(struct backend_link *link);
/* Call it when the executors have ended, too. NULL is allowed. */
void backend_link_free(struct backend_link *link);

/* The report for the metrics page. */
struct link_report *backend_link_report(struct backend_link *link);
