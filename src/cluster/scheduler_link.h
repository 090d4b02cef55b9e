/* scheduler_link.h - the scheduler process's end of the cluster: who belongs to it, which models and accelerators they
 * bring, requests in, plans out.
 *
 * To the scheduler's threads it is frontend 0 and executor 0 (LINK_SCHEDULER), with places for accelerators and models
 * that members fill. Accelerators of one type whose backends have the same models are one type of the scheduler's
 * (ACCELERATOR_TYPES_MAX of them), so that a model runs only where it is. */
#pragma once

#include "base/error.h"
#include "cluster/hello.h"
#include "cluster/link_report.h"
#include "repository/served_model.h"
#include "sched/central_thread.h"
#include "sched/model_thread.h"
#include "sched/wiring.h"

struct advice;
struct auth;
struct link_loop;
struct tls;
struct registry_place;
struct scheduler_link;

struct scheduler_link_config {
    struct wiring *wiring;
    struct model_thread *const *model_threads; /* [wiring->model_threads] */
    struct central_thread *central_thread;     /* instead of them, if a central policy plans; else NULL */
    uint32_t models_max;                       /* places; wiring->thread_of_served says whose each is */
    int listen_fd;                             /* for members; the link's from then on */
    struct hello self;                         /* incarnation, version, name, term */
    const struct auth *auth;                   /* tokens that let members in; NULL: none is needed */
    struct tls *tls;                           /* of the connections over TCP; outlives the link; NULL: plain text */
    const char *const *peers; /* [peer_count] all schedulers, as in standby.h; none: it is the only one */
    uint32_t peer_count, rank;
    const struct registry_place *registry; /* NULL: none */
    int64_t beat_ns;                       /* between heartbeats */
    double copy_ns_per_byte;               /* first guess of what gathering inputs takes */
    const struct advice *advice;           /* that frontends are told; NULL: none */
};

/* 0 or -errno with a sentence. */
int scheduler_link_start(struct scheduler_link **link, const struct scheduler_link_config *config,
                         struct sy_error *err);
/* While the scheduler's threads run. NULL is allowed. */
void scheduler_link_stop(struct scheduler_link *link);

/* Whether it leads. Any thread. */
bool scheduler_link_leads(const struct scheduler_link *link);
/* Its loop, for who measures it. */
const struct link_loop *scheduler_link_loop(const struct scheduler_link *link);
/* Calls these on the link's thread, and waits until it has: for each class of accelerators in service, and for each
 * model that is served, by its number. 0 or -ETIMEDOUT. One thread at a time, not the link's, while it runs. */
struct scheduler_link_describer {
    void (*type)(void *context, uint32_t class, const char *type, uint32_t count);
    void (*model)(void *context, uint32_t served, const struct served_model *model);
    void *context;
};
int scheduler_link_describe(struct scheduler_link *link, const struct scheduler_link_describer *to);
/* For who renders it. */
struct link_report *scheduler_link_report(struct scheduler_link *link);
