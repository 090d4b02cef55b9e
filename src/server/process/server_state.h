/* server_state.h - the parts of a running server, for the few files that see it whole. */
#pragma once

#include "front/http/metrics_endpoint.h"
#include "server/load/server_advice.h"
#include "server/load/server_alarm.h"
#include "server/load/server_balance.h"
#include "server/load/server_history.h"
#include "server/load/server_recording.h"
#include "server/load/server_rehearsal.h"
#include "server/process/access_log.h"
#include "server/process/otlp.h"
#include "server/process/server.h"
#include "server/process/trace_file.h"
#include "server/stats/server_statistics.h"
#include "server/threads/executors.h"
#include "server/threads/frontends.h"
#include "server/threads/model_list.h"
#include "server/threads/readiness.h"
#include "server/threads/scheduling.h"

/* owned by the thread that starts and stops the server; constant while it runs, but for what its parts say */
struct server {
    struct server_config config;
    struct wiring wiring;
    struct calibration calibration;
    struct executors executors;
    struct scheduling scheduling;
    struct frontends frontends;
    struct model_list models;
    struct readiness readiness;
    struct server_statistics statistics;
    struct server_advice advice;
    struct server_balancer *balancer; /* NULL: models do not move */
    struct server_history *history;   /* NULL: no model is scheduled here, or requests are not recorded */
    struct server_alarm *alarm;       /* NULL: no frontend runs here */
    struct access_log *access_log;    /* NULL: none is written */
    struct otlp *otlp;                /* NULL: no spans are sent */
    struct tracing tracing;           /* only with config.trace_file */
    struct trace_file *trace_file;    /* NULL: no traces are written */
    struct server_recordings recordings;
    struct server_rehearsal *rehearsal; /* NULL: no rehearsal thread runs */
    struct metrics_server *metrics;
    struct repository_desk *desk;         /* orders to load and unload models; NULL: models do not come and go */
    struct repository_thread *repository; /* NULL: models do not come and go */
    /* links of a cluster's frontend and backend; that of a scheduler is in `scheduling` */
    struct frontend_link *frontend_link;
    struct backend_link *backend_link;
    char *aside; /* backend: text that last told the scheduler of the models not served here; NULL: none */
    struct cluster_models *cluster_models; /* frontend of a cluster: models that the scheduler announces */
    int cluster_port;                      /* port for members of the cluster; -1: none */
    _Atomic bool watched;                  /* whether a thread watches runs while the server is being stopped */
    int64_t started_ns;
    struct server_live
        *live; /* what the state is compared with; NULL: nobody has asked for it yet; the metrics thread's */
    uint32_t timelines_open; /* timelines that are being sent; the metrics thread's */
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
/* The report of this process's link. Any thread. */
struct link_report *server_cluster_report(struct server *s);
/* Writes the link's metrics. The metrics thread. */
void server_cluster_render(struct server *s, struct text *out);
/* Whether this `struct server` has joined, or leads, and does not drain. Any thread. */
bool server_cluster_ready(void *server);
/* In a backend: tells the scheduler of the models that it does not serve, if they have changed. */
void server_cluster_look(struct server *s);
/* Call it after the frontends have ended, while the scheduling threads and the executors still run. */
void server_cluster_stop(struct server *s);
/* Call it when the executors have ended. */
void server_cluster_free(struct server *s);

/* ---- server_accelerators.c: of this process, or of those that it has started (`serve --isolate`) ---- */

struct executor_counters;

struct server_accelerator {
    const char *type;
    uint32_t group; /* the same number for all of one type */
    uint8_t state;  /* enum accelerator_state */
    const struct executor_counters *counters;
    const struct timeline *timeline;
};

uint32_t server_accelerator_count(const struct server *s);
struct server_accelerator server_accelerator(const struct server *s, uint32_t n);
/* Whether this process has accelerators, and all of them have failed by themselves. */
bool server_accelerators_failed(const struct server *s);

/* ---- server_timeline.c ---- */

/* Answers GET /v2/symphony/timeline, as metrics_config.timeline. The metrics thread. */
struct http_source *server_timeline(void *server, const char *query, size_t length, int *status, struct sy_error *err);

/* ---- server_page.c ---- */

/* The files of the page for browsers. */
const struct metrics_file *server_page(unsigned *count);

/* ---- server_live.c ---- */

/* Answers GET /v2/symphony/state, as metrics_config.state. The metrics thread. */
int server_live(void *server, const char *query, size_t length, struct text *out, struct sy_error *err);
/* NULL is allowed. */
void server_live_free(struct server_live *live);

/* ---- server_trails.c ---- */

/* Answers GET /v2/symphony/requests, as metrics_config.requests. The metrics thread. */
int server_requests(void *server, const char *query, size_t length, struct text *out, struct sy_error *err);

/* ---- server_metrics.c: for the metrics thread; `server` is a struct server ---- */

/* Writes all metrics in Prometheus' text format. */
void server_render_metrics(void *server, struct text *out);
/* Writes the latencies only, as infer_metrics_render_fine(). */
void server_render_fine_metrics(void *server, struct text *out);
/* server_recording_open() of the server that schedules. */
struct http_source *server_render_recording(void *server, double seconds, int *rc, struct sy_error *err);
