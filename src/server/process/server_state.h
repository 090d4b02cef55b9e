/* server_state.h - the parts of a running server. Only files of src/server/process and their tests include it. */
#pragma once

#include <pthread.h>

#include "back/executor/executor.h"
#include "core/data/advice.h"
#include "core/util/text.h"
#include "front/http/metrics_endpoint.h"
#include "front/net/frontend.h"
#include "front/request/port.h"
#include "front/request/shared_memory.h"
#include "front/v2/v2.h"
#include "sched/plan/advisor.h"
#include "sched/threads/central_thread.h"
#include "sched/threads/model_thread.h"
#include "sched/threads/rank_thread.h"
#include "server/process/calibrate.h"
#include "server/process/recording.h"
#include "server/process/server.h"

#define SERVER_PROTOCOLS 2 /* HTTP, gRPC */

/* The counts at the last look at the load. */
struct server_load {
    struct model_counted *counted;      /* [model_count] */
    uint64_t requests;                  /* requests that a cluster's scheduler link has received, in all */
    double needed_ns[RANK_THREADS_MAX]; /* accelerator time that the load has needed in all, by rank thread */
    int64_t looked_ns;                  /* time of the last look; 0: none yet */
};

/* Where a served model is scheduled. */
struct server_placement {
    uint32_t thread; /* index of the model's model thread; 0 with a central thread */
    struct thread_model_id thread_model;
    struct variant_id first_variant; /* the first of the model's variants, whose numbers are in a row */
    uint32_t variant_count;          /* 0: the model is not scheduled */
};

/* owned by the thread that starts and stops the server; constant while it runs */
struct server {
    struct wiring wiring;
    struct server_config config;
    struct server_placement *placements; /* [model_count] */
    struct calibration calibration;
    uint8_t *accelerator_type;             /* [wiring.accelerators] indexes in config.accelerators */
    struct executor **executors;           /* [wiring.executors] */
    struct model_thread **model_threads;   /* [wiring.model_threads] NULL: not in this process, or a central thread
                                            * schedules */
    struct rank_thread **rank_threads;     /* [wiring.rank_threads] NULL: not in this process, or a central thread
                                            * schedules */
    struct central_thread *central_thread; /* NULL: the policy is not central */
    struct decision_files *decisions;      /* logs of the scheduler's decisions; NULL: none */
    struct port **ports;                   /* [wiring.frontends] */
    struct bulk *bulk;
    struct preparer *preparer;   /* NULL: this process prepares no inputs */
    struct frontend **frontends; /* [server_frontends()] those of HTTP, then those of gRPC, in the order of `ports` */
    struct metrics_server *metrics;
    struct shared_memory *shared;          /* regions of shared memory that clients register; NULL: they may not */
    struct repository_desk *desk;          /* orders to load and unload models; NULL: models do not come and go */
    struct repository_thread *repository;  /* NULL: models do not come and go */
    struct model_publication models;       /* the list of models, for frontends and metrics */
    struct doorbell models_bell;           /* rung by frontends that have come to use another list, or have ended */
    struct scheduler_link *scheduler_link; /* NULL: not a scheduler of a cluster */
    struct frontend_link *frontend_link;   /* NULL: not a frontend of a cluster */
    struct backend_link *backend_link;     /* NULL: not a backend of a cluster */
    char *aside; /* backend: text that last told the scheduler of the models not served here; NULL: none */
    struct cluster_models *cluster_models; /* frontend of a cluster: models that the scheduler announces */
    struct server_balancer *balancer;      /* state of server_balance(); NULL: models do not move */
    struct server_advisor *advisor;        /* state of server_advise(); NULL: no advice is given here */
    struct advice advice; /* advice of server_advise(); in a frontend of a cluster: the scheduler's advice */
    struct advice advice_of[RANK_THREADS_MAX]; /* advice for each sub-cluster, if there are several */
    _Atomic double bad_rate;                   /* share of bad requests that server_advise() found at its last look */
    struct server_rehearsal *rehearsal;        /* NULL: no rehearsal thread runs */
    struct server_history *history; /* counts of the last minutes, for recordings; NULL: no model is scheduled here, or
                                     * requests are not recorded */
    pthread_mutex_t commands_lock;  /* held while an order is sent to an executor */
    pthread_mutex_t describe_lock;  /* held by the caller of scheduler_link_describe() */
    pthread_mutex_t models_lock; /* held to read the list of models (metrics), to move models (server_balance()), and to
                                  * change them (repository thread) */
    int listen_fds[SERVER_PROTOCOLS];               /* listening sockets of HTTP and gRPC; -1: not open */
    struct acceptor_group groups[SERVER_PROTOCOLS]; /* how the frontends of a protocol share its connections */
    struct server_ports bound;                      /* ports that are listened on */
    _Atomic uint64_t published; /* number of lists of models, since the start, that every frontend has come to use */
    _Atomic bool ready;         /* whether each model of the start is loaded, or has failed to load */
    _Atomic bool able;          /* whether an accelerator is in service that runs a model */
    _Atomic bool serving;       /* `ready` and `able`: what clients see as readiness */
    _Atomic bool draining;
    bool drained;         /* whether server_obey_parent() has had the accelerator leave */
    bool outage;          /* whether some accelerators were out of service at the last look of server_outages() */
    _Atomic bool watched; /* whether a thread watches runs while the server is being stopped */
    int64_t started_ns;
};

static inline enum wiring_link server_role(const struct server *s) {
    return s->config.cluster ? s->config.cluster->role : LINK_NONE;
}

/* Whether this process has frontends; whether it has the scheduler's threads. */
static inline bool server_listens(const struct server *s) {
    return server_role(s) == LINK_NONE || server_role(s) == LINK_FRONTEND;
}
static inline bool server_schedules(const struct server *s) {
    return server_role(s) == LINK_NONE || server_role(s) == LINK_SCHEDULER;
}
/* The server of this process that schedules: this one, or that beside it. */
static inline struct server *server_scheduling(struct server *s) {
    return s->config.scheduler ? s->config.scheduler : s;
}
static inline bool server_runs(const struct server *s) {
    return server_role(s) == LINK_NONE || server_role(s) == LINK_BACKEND;
}

/* Whether this process runs batches. */
static inline bool server_has_places(const struct server *s) {
    return s->config.control || server_role(s) == LINK_FRONTEND || server_role(s) == LINK_SCHEDULER;
}

/* The measurements and counters of a scheduling thread. */
static inline const struct thread_rings *server_rings(const struct server *s, uint32_t thread) {
    return s->central_thread ? central_thread_rings(s->central_thread) : model_thread_rings(s->model_threads[thread]);
}

/* The counters that its scheduling thread keeps of a place. They count nothing for a model that is scheduled with its
 * prefix. */
static inline const struct model_counters *server_place_counters(const struct server *s, uint32_t place) {
    const struct server_placement *p = &s->placements[place];
    return &server_rings(s, p->thread)->counters[p->thread_model.n];
}

/* The number of frontends that speak a protocol. Their ports come before those of the caller's own frontends. */
static inline uint32_t server_frontends(const struct server *s) {
    if (!server_listens(s))
        return 0;
    return s->config.grpc_port < 0 ? s->config.frontends : 2 * s->config.frontends;
}

/* A frontend's counters of infer requests. */
static inline const struct infer_counters *server_infer_counters(const struct server *s, uint32_t frontend) {
    return &s->frontends[frontend]->inferences.counters;
}

/* Notes how requests to a model are scheduled: by itself, or with others whose first layers it shares. Before the model
 * is published. */
void server_model_host(struct server *s, uint32_t model);

/* The description of a model for its scheduling thread, except the model's numbers in the scheduler. */
struct thread_model server_thread_model(const struct server *s, uint32_t model);

/* Does the work of server_watch(); `ending` as in executor_watch(). */
void server_watch_executors(struct server *s, bool ending);

/* Wakes every frontend, since something has changed that they read once a turn. */
static inline void server_frontends_wake(const struct server *s) {
    for (uint32_t f = 0; f < server_frontends(s); f++)
        inbox_wake(&s->frontends[f]->inbox);
}

/* Publishes a list of models, which is put into the order of names and versions, with those absent; `partial`: more may
 * come that are not known yet. When this returns no frontend uses an earlier one. 0 or -ENOMEM: everything stays as it
 * was. One thread at a time. */
int server_models_publish(struct server *s, uint32_t *listed, uint32_t count, const struct model_absent *absent,
                          uint32_t absent_count, bool partial);
/* Clears what frontends count of a place, which was of its last model. */
void server_counts_clear(struct server *s, uint32_t place);
/* Whether a frontend holds a request of the model. */
bool server_model_held(const struct server *s, uint32_t model);

/* ---- server_cluster.c: the link of a role of a cluster ---- */

/* Puts the link thread in place of the other roles in the wiring. */
void server_cluster_plan(struct server *s);
/* Listens for members, and starts the link. The last step of the start. 0 or -errno with a sentence. */
int server_cluster_start(struct server *s, struct sy_error *err);
/* Lets a backend take no more batches; waits until it has none, or until `until_ns`. False: it still had some then. */
bool server_cluster_drain(struct server *s, int64_t until_ns);
/* Writes the link's metrics. The metrics thread. */
void server_cluster_render(struct server *s, struct text *out);
/* Whether this `struct server` has joined, or leads, and does not drain. Any thread. */
bool server_cluster_ready(void *server);
/* Call it after the frontends have ended, while the scheduling threads and the executors still run. */
void server_cluster_stop(struct server *s);
/* Call it when the executors have ended. */
void server_cluster_free(struct server *s);

/* ---- server_load.c ---- */

/* 0 or -ENOMEM; free it in either case. */
int server_load_init(const struct server *s, struct server_load *load);
void server_load_free(struct server_load *load);
/* The number of sub-clusters that have a load of their own. */
static inline uint32_t server_parts(const struct server *s) {
    return s->central_thread ? 1 : s->wiring.rank_threads;
}
/* Sets `seen` to the counts since the last look. Always call it from the same thread. */
void server_load_since(struct server *s, struct server_load *load, int64_t now_ns, struct advisor_load *seen);

/* ---- server_history.c ---- */

/* 0 or -ENOMEM; free it in either case. */
int server_history_init(struct server *s);
void server_history_free(struct server *s);
/* Copies the counts at the last looks, the oldest first, and their number. NULL without memory. The caller frees it.
 * Any thread. */
struct recording_look *server_history_read(struct server *s, uint32_t *count);

/* ---- server_trails.c ---- */

/* Answers GET /v2/symphony/requests, as metrics_config.requests. The metrics thread. */
int server_requests(void *server, const char *query, size_t length, struct text *out, struct sy_error *err);

/* ---- server_recording.c ---- */

/* The recording of the last `seconds` (server/process/recording.h), as metrics_config.recording. The metrics thread. */
struct http_source *server_recording(void *server, double seconds, int *rc, struct sy_error *err);
/* Collects what was recorded since from_ns, at most `requests_most` requests: all of one scheduling thread, then all of
 * the next. Some of them may have come before the recording's start_ns. 0, -ENOMEM or, from a cluster's link,
 * -ETIMEDOUT; free it in any case. Any thread. */
int server_recording_read(struct server *s, int64_t from_ns, uint64_t requests_most, struct recording *recording);

/* ---- server_rehearsal.c ---- */

/* Starts the thread that rehearses the policy's ways, if it has several, and requests are recorded. The rank threads
 * run. 0 or -errno with a sentence. */
int server_rehearsal_start(struct server *s, struct sy_error *err);
void server_rehearsal_stop(struct server *s);
/* Writes the rehearsal's metrics. Any thread. */
void server_rehearsal_render(const struct server *s, struct text *out);

/* ---- server_balance.c ---- */

/* 0 or -ENOMEM; free it in either case. */
int server_balance_init(struct server *s);
void server_balance_free(struct server *s);

/* ---- server_advice.c ---- */

/* 0 or -ENOMEM; free it in either case. */
int server_advice_init(struct server *s);
void server_advice_free(struct server *s);

/* ---- ensembles.c ---- */

/* Sets ensembles aside while the model of a step cannot be asked, and takes them back. Any thread. */
void server_ensembles_look(struct server *s);

/* Sets a model aside, or takes it back, because no accelerator that runs it is in service, or one is again. One thread
 * at a time. Whether its state has changed. */
bool server_model_strand(struct served_model *model, bool stranded);

/* Sets `serving` by `ready` and `able`, and wakes the frontends if it changed. */
void server_serving_update(struct server *s);

/* The state of an accelerator of `serve --isolate`, in the frontend; GONE also while its process starts. */
enum accelerator_state server_isolated_state(const struct server *s, uint32_t accelerator);
/* Lets frontends read the state of accelerators, and pass orders to them. */
struct accelerator_source server_accelerators(struct server *s);
/* wiring_model_command() under commands_lock, since orders to accelerators may come from any frontend. */
int server_model_command(struct server *s, uint32_t executor, uint32_t model, bool resident);

/* Writes all metrics in Prometheus' text format. The metrics thread. */
void server_render_metrics(void *server, struct text *out);
/* Writes the latencies only, as infer_metrics_render_fine(). The metrics thread. */
void server_render_fine_metrics(void *server, struct text *out);
