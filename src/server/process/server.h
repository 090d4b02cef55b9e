/* server.h - one process that serves: builds the threads from a configuration, watches them, ends them in order. */
#pragma once

#include <sched.h>

#include "core/util/error.h"
#include "model/config/served_model.h"
#include "model/engine/engine.h"
#include "sched/core/policy.h"
#include "sched/plan/autoscale.h"
#include "sched/threads/wiring.h"

struct auth;
struct inferences_config;
struct running;
struct tls;

/* Accelerators of one type. */
struct server_accelerators {
    char type[TYPE_NAME_MAX]; /* "cpu", "cuda", or an emulated type's name */
    const struct engine_ops *engine;
    const char *provider;  /* "cpu", "cuda"; if not emulated */
    const char *cache_dir; /* as in engine_options */
    uint32_t count;
    const struct profile **profiles; /* [model_count]; NULL where the model does not run on this type */
};

struct repository_control;
struct model_absent;
struct model_index;
struct registry_place;
struct repository_desk;

/* Of a process that is one role of a cluster (docs/cluster.md); what it points to outlives the server. */
struct server_cluster {
    enum wiring_link role;         /* LINK_FRONTEND, LINK_SCHEDULER or LINK_BACKEND */
    const char *name;              /* for people */
    const char *const *schedulers; /* [scheduler_count] HOST:PORT; not of a scheduler */
    uint32_t scheduler_count;
    const char *host;          /* to listen on: a scheduler for members, a frontend for backends; "": all addresses */
    int port;                  /* 0: any free one */
    const char *address;       /* of a frontend: HOST:PORT where backends reach it; NULL: where it connects from */
    const char *token;         /* that it sends; NULL: none */
    const struct auth *auth;   /* tokens that it accepts; NULL: none is needed */
    const char *fabric;        /* libfabric's provider for inputs; NULL: none */
    uint32_t transports;       /* of a backend: the allowed transports of inputs, TRANSPORT_BIT(); 0: all */
    struct tls *tls;           /* of the links, outlives the server; NULL: plain text */
    int64_t beat_ns;           /* between heartbeats */
    uint32_t accelerators_max; /* of a scheduler: in the whole cluster */
    const char *const *peers;  /* of a scheduler: [peer_count] all of them, this one at `rank`; 0: it is the only one */
    uint32_t peer_count, rank;
    const struct registry_place *registry; /* NULL: none */
    /* `serve --isolate`: the process of each accelerator says what it runs (running.h) */
    struct running *const *running; /* [running_count] of a backend its own, of a frontend all */
    uint32_t running_count;
    uint32_t backends; /* of a scheduler: once so many have joined, all models are known; 0: as many as come */
};

struct server_config {
    struct served_model *models; /* state READY or UNAVAILABLE; outlive the server. With `control`: the places of
                                  * models that deployment_for_control() made */
    uint32_t model_count;
    const struct repository_control *control; /* models come and go; NULL: they do not */
    const struct server_cluster *cluster;     /* NULL: all roles are in this process. A frontend's and a scheduler's
                                               * models are places, as with `control` */
    struct repository_desk
        *desk; /* of a frontend: takes clients' orders to load models; outlives it. NULL: none does */
    const struct model_absent *aside; /* [aside_count] of a frontend: models that are not served, with their reasons */
    uint32_t aside_count;
    struct server *scheduler; /* of a frontend: the scheduler, if it is in this process, too: the metrics
                               * port shows both; NULL: it is elsewhere */
    struct server_accelerators *accelerators; /* [type_count] */
    uint32_t type_count;
    uint32_t model_threads;
    uint32_t rank_threads;     /* no more than accelerators of any type */
    int64_t epoch_ns;          /* how often server_balance() looks; 0: models stay where they are */
    double rank_rate_max;      /* highest items/s of a rank thread, kept as far as possible; 0: no limit */
    uint32_t frontends;        /* threads of each protocol */
    uint32_t prepare_threads;  /* that prepare inputs (front/request/preparer.h), where there are frontends */
    uint32_t frontends_inside; /* the caller's own, see server_inside(); not with `control` */
    const struct policy_ops *policy;
    struct policy_options policy_options;
    const char *host;
    int http_port, grpc_port, metrics_port; /* 0: any free one; the last two -1: none */
    cpu_set_t executor_cores;               /* executor n is pinned to the n-th; empty: not pinned */
    bool accelerator_control; /* clients may drain accelerators and have them join; with CONTROL_EXPLICIT they may */
    bool busy_poll;
    double spin;        /* CPU executors with a core of their own poll for `spin` times the last batch, then sleep */
    bool shared_memory; /* clients may register regions of it, */
    const char *shared_memory_prefix; /* whose keys begin so; NULL: any */
    int64_t run_limit_ns;             /* any run may take at least this long before it is stopped; 0: RUN_LIMIT_NS
                                       * (back/executor/executor.h) */
    bool learn;                       /* correct profiles from measured runs */
    uint32_t queue_max;               /* requests queued per model thread */
    uint64_t
        record_bytes; /* for the last requests (core/data/recorder.h), of all scheduling threads; 0: not recorded */
    const char *decisions; /* a folder for the decision logs of the scheduling threads; NULL: none. Not with a central
                            * policy */
    uint64_t decisions_bytes; /* of each of them */
    uint64_t body_bytes_max, inputs_bytes_max;
    uint64_t answers_bytes_max; /* that clients have not taken, of each protocol; 0: 512 MiB of each frontend */
    uint64_t outputs_bytes_max; /* of a cluster's frontend (frontend_link.h); 0: half of the machine's memory */
    uint32_t connections_max, connections_per_address; /* of each port; these and the next ones as in frontend_config */
    uint32_t idle_timeout_s, head_timeout_s, rate_min;
    const char *name; /* in the server's metadata; NULL: "symphony" */
    int grpc_level;
    struct tls *tls;                   /* of HTTP and gRPC, outlives the server; NULL: plain text */
    const struct auth *auth;           /* outlives the server; NULL: no token is needed */
    bool auth_health, auth_metrics;    /* whether these need a token, too */
    bool tls_metrics;                  /* the metrics port speaks TLS, too */
    struct autoscale_config autoscale; /* for server_advise(); every_ns 0: it gives no advice */
};

struct server;

/* Loads the models on every accelerator, starts all threads, listens. 0 or -errno with a sentence. */
int server_start(struct server **server, const struct server_config *config, struct sy_error *err);
/* The ports that the server listens on; -1: none. */
struct server_ports {
    int http, grpc, metrics, cluster;
};
struct server_ports server_ports(const struct server *server);
/* For requests from inside this process: the configuration of the n-th of `frontends_inside`. One thread of the caller
 * drives a struct inferences (front/request/inference.h) with it, and destroys that before it stops the server. The
 * server's statistics do not count its requests. */
struct inferences_config server_inside(struct server *server, uint32_t n, size_t slot_bytes);
/* The scheduling threads of a server, for measurements (lab/stress/links.h); valid until the server is stopped. */
struct server_scheduler {
    const struct wiring *wiring;
    struct model_thread *const *model_threads; /* [wiring->model_threads] */
    struct rank_thread *const *rank_threads;   /* [wiring->rank_threads] */
    const struct scheduler_link *link;         /* NULL: not a scheduler of a cluster */
};
struct server_scheduler server_scheduler(const struct server *server);
/* Tells a frontend of a cluster which models are known here, for its repository index: those that are READY are to be
 * served, the others are not. Waits until clients see it, a second at most, unless `at_once`. One thread at a time. */
void server_models_know(struct server *server, const struct model_absent *known, uint32_t count, bool at_once);
/* Where orders about models go, with `control`. */
struct repository_desk *server_desk(const struct server *server);
/* Whether all models to load at start-up are served, or could not be loaded; without `control` always true. */
bool server_is_ready(const struct server *server);
/* The models as they are now. They stay unchanged until they are unlocked; no serving thread waits for that. Any
 * thread. */
const struct model_index *server_models_lock(struct server *server);
void server_models_unlock(struct server *server);
/* With several rank threads: every epoch moves models between them, if that makes the load of their accelerators
 * sufficiently more even (sched/plan/balance.h). Not in a cluster. The thread that started the server calls it every
 * second. */
void server_balance(struct server *server);
/* Stops runs that hang, and takes accelerators out of service whose runs cannot be stopped (back/executor/executor.h).
 * The same thread, every second. */
void server_watch(struct server *server);
/* Looks for models whose sub-cluster has lost all accelerators that run them. They move to another sub-cluster that has
 * some; if there is none, they are set aside with their reason until an accelerator is back. The server is not ready
 * while no accelerator can run any model. The same thread, every second. */
void server_outages(struct server *server);
/* In a process that schedules: every `autoscale.every_ns` computes how many accelerators there should be, for metrics
 * and for KEDA (front/grpc/external_scaler.h). There is no advice before the first time, nor while another scheduler
 * leads. The same thread, every second. */
void server_advise(struct server *server);
/* In a process that schedules: saves the counts, for recordings (server/process/recording.h). The same thread, every
 * second. */
void server_look(struct server *server);
/* In a backend of a cluster: tells the scheduler of the models that it does not serve, if they have changed. The same
 * thread, every second. */
void server_cluster_look(struct server *server);
/* Drains: readiness fails; a model that is being handed over is waited for, at most `timeout_ns`; requests are served
 * for `grace_ns` more; then no new connections are taken, and requests in flight are waited for, again at most
 * `timeout_ns`. Then stops everything and frees it. 0, or -ETIMEDOUT if requests were cut off. -EINPROGRESS: a run that
 * was given up has not ended, and may still read the models and its inputs, so these are not freed: end the process by
 * _exit(). */
int server_stop(struct server *server, int64_t grace_ns, int64_t timeout_ns);
