/* server_state.h - the parts of a running server. Only files of src/server/process and their tests include it. */
#pragma once

#include <pthread.h>

#include "core/data/advice.h"
#include "core/util/text.h"
#include "front/http/metrics_endpoint.h"
#include "sched/plan/advisor.h"
#include "server/process/executors.h"
#include "server/process/frontends.h"
#include "server/process/model_list.h"
#include "server/process/readiness.h"
#include "server/process/recording.h"
#include "server/process/scheduling.h"
#include "server/process/server.h"

/* The counts at the last look at the load. */
struct server_load {
    struct model_counted *counted;      /* [model_count] */
    uint64_t requests;                  /* requests that a cluster's scheduler link has received, in all */
    double needed_ns[RANK_THREADS_MAX]; /* accelerator time that the load has needed in all, by rank thread */
    int64_t looked_ns;                  /* time of the last look; 0: none yet */
};

/* owned by the thread that starts and stops the server; constant while it runs */
struct server {
    struct server_config config;
    struct wiring wiring;
    struct calibration calibration;
    struct executors executors;
    struct scheduling scheduling;
    struct frontends frontends;
    struct model_list models;
    struct readiness readiness;
    struct metrics_server *metrics;
    struct repository_desk *desk;         /* orders to load and unload models; NULL: models do not come and go */
    struct repository_thread *repository; /* NULL: models do not come and go */
    struct frontend_link *frontend_link;  /* NULL: not a frontend of a cluster */
    struct backend_link *backend_link;    /* NULL: not a backend of a cluster */
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
    pthread_mutex_t describe_lock;  /* held by the caller of scheduler_link_describe() */
    int cluster_port;               /* port for members of the cluster; -1: none */
    _Atomic bool watched;           /* whether a thread watches runs while the server is being stopped */
    int64_t started_ns;
};

/* The server of this process that schedules: this one, or that beside it. */
static inline struct server *server_scheduling(struct server *s) {
    return s->config.scheduler ? s->config.scheduler : s;
}
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
/* Sets `seen` to the counts since the last look. Always call it from the same thread. */
void server_load_since(struct server *s, struct server_load *load, int64_t now_ns, struct advisor_load *seen);

/* ---- server_history.c ---- */

/* 0 or -ENOMEM; free it in either case. */
int server_history_init(struct server *s);
void server_history_free(struct server *s);
/* Copies the counts at the last looks, the oldest first, and their number. NULL without memory. The caller frees it.
 * Any thread. */
struct recording_look *server_history_read(struct server *s, uint32_t *count);

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

/* Writes all metrics in Prometheus' text format. The metrics thread. */
void server_render_metrics(void *server, struct text *out);
/* Writes the latencies only, as infer_metrics_render_fine(). The metrics thread. */
void server_render_fine_metrics(void *server, struct text *out);
