/* backend_link.h - a backend's link to its cluster: plans from the scheduler, cards and inputs from the frontends,
 * results to the frontends, and reports about runs and accelerators to the scheduler.
 *
 * For the executors the link stands for model thread 0, rank thread 0 and frontend 0 (LINK_BACKEND). A plan is handed
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
    const struct registry_place *registry; /* registry to find the leader, instead of `schedulers`; NULL: none */
    struct hello self;                     /* introduction of this process: incarnation, version, name, token */
    const char *fabric;                    /* libfabric's provider for inputs; NULL: none */
    uint32_t transports;                   /* transports allowed for inputs, TRANSPORT_BIT() of each; 0: all */
    struct tls *tls;                       /* TLS of the connections over TCP, outlives the link; NULL: plain text */
    int64_t beat_ns;                       /* time between heartbeats */
    const struct served_model *models;     /* [model_count] models; the READY ones are offered to the scheduler */
    bool twins;          /* all backends have the same models and configurations (`serve --isolate`) */
    bool told_of_models; /* only models named by backend_link_model_comes() are offered */
    uint32_t model_count;
    const char *types[ACCELERATOR_TYPES_MAX];                     /* [type_count] names of types */
    const struct profile *const *profiles[ACCELERATOR_TYPES_MAX]; /* [type_count][model_count] profiles; NULL: the model
                                                                     does not run on the type */
    uint32_t type_count;
    const uint8_t *accelerator_type; /* [wiring->accelerators] type of each accelerator */
    uint64_t memory_bytes;           /* memory of each accelerator for models; 0: all models are there for good */
    uint64_t page_bytes;             /* pages in which it is counted, a multiple of CPU_PAGE_BYTES */
    uint64_t inputs_bytes_max;       /* bound of the memory for pulled inputs */
    _Atomic uint8_t *state; /* place for the enum accelerator_state of accelerator 0, from when the backend has joined
                               on; NULL: none */
};

/* 0 or -errno with a sentence. */
int backend_link_start(struct backend_link **link, const struct backend_link_config *config, struct sy_error *err);
/* The backend may introduce itself to the scheduler, with the models that have come. Once the link has been told of
 * models (told_of_models), one thread calls this function and the next four. */
void backend_link_begin(struct backend_link *link);
/* Offers a model that is READY and resident on its executors. The model must stay unchanged until
 * backend_link_model_gone(). */
void backend_link_model_comes(struct backend_link *link, uint32_t model);
/* The hash by which the scheduler and its frontends know such a model, before or after it is offered; 0: none. */
uint64_t backend_link_model_hash(const struct backend_link *link, uint32_t model);
/* Asks the scheduler to send no more plans for a model that is to go. Plans that are here or on the way still run. */
void backend_link_model_goes(struct backend_link *link, uint32_t model);
/* Whether nothing here needs the model any more. */
bool backend_link_model_gone(const struct backend_link *link, uint32_t model);
/* Takes the list of all models that this process could not load, or has set aside, with the reasons (aside.h); it
 * replaces the list before. The link owns the text from then on, and will free() it. Any thread, one at a time. */
void backend_link_aside(struct backend_link *link, char *text);
/* From now on the accelerators take no more batches, and the scheduler is told that. Plans that it has sent until it
 * knows still run. Any thread. */
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
