/* scheduler_link.h - the scheduler's link to its cluster: the members, the models and accelerators that they bring,
 * requests in, plans out.
 *
 * For the scheduling threads the link stands for frontend 0 and executor 0 (LINK_SCHEDULER), with places for the
 * accelerators and models of members. All accelerators of one type are one type of the scheduler (at most
 * ACCELERATOR_TYPES_MAX of these), and which models each has is told to its rank thread (scheduler_memory.c). Without
 * `orders_loads`, only those whose backends have the same models are one type, so that a model runs only on backends
 * that have it; central policies tell CENTRAL_TYPES_MAX of these apart. */
#pragma once

#include "cluster/peer/hello.h"
#include "cluster/peer/link_report.h"
#include "core/util/error.h"
#include "model/config/served_model.h"
#include "sched/threads/central_thread.h"
#include "sched/threads/model_thread.h"
#include "sched/threads/wiring.h"

struct advice;
struct auth;
struct link_loop;
struct tls;
struct registry_place;
struct scheduler_link;

struct scheduler_link_config {
    struct wiring *wiring;
    struct model_thread *const *model_threads; /* [wiring->model_threads] */
    struct central_thread *central_thread;     /* thread of a central policy, instead of model threads; NULL: none */
    uint32_t models_max;                       /* places for models; wiring->thread_of_served has the thread of each */
    uint32_t models_served_max;     /* most models served; the other places are for models that move to a new one */
    int listen_fd;                  /* listening socket for members; the link's from then on; -1: none */
    const char *local;              /* name of the Unix socket for members of this host and user; NULL: none */
    struct hello self;              /* introduction of this process: incarnation, version, name, term */
    const struct auth *auth;        /* tokens that let members in; NULL: no token is needed */
    struct tls *tls;                /* TLS of the connections over TCP, outlives the link; NULL: plain text */
    const char *const *peers;       /* [peer_count] all schedulers, as in standby.h; none: this is the only one */
    uint32_t peer_count, seniority; /* `seniority`: our index in `peers`, 0 the most senior */
    const struct registry_place *registry; /* place of the registry; NULL: none */
    int64_t beat_ns;                       /* time between heartbeats */
    double copy_ns_per_byte;               /* first estimate of the time for gathering inputs */
    const struct advice *advice;           /* advice that is sent to frontends; NULL: none */
    /* The rank threads are told which models each accelerator has, and order what those of limited memory load; or the
     * central thread orders what backends' accelerators load. */
    bool orders_loads, central_loads;
    uint32_t backends; /* backends that tell their models before members hear that all models were told; 0: members hear
                          that after a while */
};

/* 0 or -errno with a sentence. */
int scheduler_link_start(struct scheduler_link **link, const struct scheduler_link_config *config,
                         struct sy_error *err);
/* Hands the lead over to another scheduler, if one stands by, and ends the link thread. Call it while the scheduling
 * threads run, and then scheduler_link_free(). NULL is allowed. */
void scheduler_link_stop(struct scheduler_link *link);
/* Call it when the scheduling threads have ended, too: they read models' profiles. NULL is allowed. */
void scheduler_link_free(struct scheduler_link *link);

/* Whether this scheduler leads. Any thread. */
bool scheduler_link_leads(const struct scheduler_link *link);
/* The link's loop, for measurements, and for a frontend's link that shares its thread. */
struct link_loop *scheduler_link_loop(struct scheduler_link *link);
/* Functions for scheduler_link_describe(), called by the link thread: type() for each class of accelerators in service,
 * model() for each served model, by its number. */
struct scheduler_link_describer {
    void (*type)(void *context, uint32_t class, const char *type, uint32_t count);
    void (*model)(void *context, uint32_t served, const struct served_model *model);
    void *context;
};
/* Has the link thread call these functions, and waits until it has. 0 or -ETIMEDOUT. One thread at a time, not the link
 * thread, while the link runs. */
int scheduler_link_describe(struct scheduler_link *link, const struct scheduler_link_describer *to);
/* The report for the metrics page. */
struct link_report *scheduler_link_report(struct scheduler_link *link);
