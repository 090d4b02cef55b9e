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
    char type[TYPE_NAME_MAX]; /* name of the type: "cpu", "cuda", or an emulated type's name */
    const struct engine_ops *engine;
    const char *provider;  /* "cpu" or "cuda"; NULL: the type is emulated */
    const char *cache_dir; /* folder for what engines keep, as in engine_options */
    uint32_t count;
    const struct profile **profiles; /* [model_count]; NULL where the model does not run on this type */
};

struct repository_control;
struct model_absent;
struct model_index;
struct registry_place;
struct repository_desk;

/* How a process is one role of a cluster (docs/cluster.md). All that the pointers point to outlives the server. */
struct server_cluster {
    enum wiring_link role;         /* LINK_FRONTEND, LINK_SCHEDULER or LINK_BACKEND */
    const char *name;              /* name of the process, for people */
    const char *const *schedulers; /* [scheduler_count] frontend, backend: HOST:PORT of each scheduler */
    uint32_t scheduler_count;
    const char *host;    /* address to listen on, in a scheduler for members, in a frontend for backends; "": all
                          * addresses */
    int port;            /* port to listen on; 0: any free one */
    const char *address; /* HOST:PORT where others reach this process; NULL: backends reach a frontend at the address
                          * that it connects from */
    const char *token;   /* token that this process shows others; NULL: none */
    const struct auth *auth;   /* tokens that this process accepts from others; NULL: none is needed */
    const char *fabric;        /* name of libfabric's provider for inputs; NULL: libfabric is not used */
    uint32_t transports;       /* backend: allowed transports of inputs, a bit each: TRANSPORT_BIT(); 0: all */
    struct tls *tls;           /* TLS of the links; NULL: plain text */
    int64_t beat_ns;           /* time between heartbeats */
    uint32_t accelerators_max; /* scheduler: most accelerators in the whole cluster */
    const char *const *peers;  /* [peer_count] scheduler: HOST:PORT of each scheduler; none if there is one scheduler */
    uint32_t peer_count, rank; /* rank: this scheduler's index in `peers` */
    const struct registry_place *registry; /* place of the cluster in etcd; NULL: no registry is used */
    /* with `serve --isolate`: where the process of each accelerator says what it runs (core/data/running.h) */
    struct running *const *running; /* [running_count] in a backend its own; in a frontend those of all backends */
    uint32_t running_count;
    const char *const *running_types;    /* frontend: [running_count] types of the accelerators */
    void (*running_ring)(void *context); /* frontend: has the processes look at `drained` in `running`; any thread */
    void *running_context;
    uint32_t backends; /* scheduler: number of backends that tell their models before members hear that these are all;
                        * 0: members hear it after a while */
};

struct server_config {
    struct served_model *models; /* [model_count] models, READY or UNAVAILABLE, which outlive the server; with
                                  * `control`: places that deployment_for_control() made */
    uint32_t model_count;
    const struct repository_control *control; /* how models come and go; NULL: they do not */
    const struct server_cluster *cluster; /* role in a cluster; NULL: all roles are in this process. In a frontend and a
                                           * scheduler `models` are places, as with `control` */
    struct repository_desk *desk; /* frontend: list for clients' orders to load models, which outlives the server; NULL:
                                   * nobody takes orders */
    const struct model_absent *aside; /* [aside_count] frontend: models that are not served, with their reasons */
    uint32_t aside_count;
    struct server *scheduler; /* frontend: the server of this process that has the scheduler's threads, whose metrics
                               * the metrics port shows, too; NULL: the scheduler is in another process */
    struct server_accelerators *accelerators; /* [type_count] */
    uint32_t type_count;
    uint32_t model_threads;
    uint32_t rank_threads;     /* number of rank threads; at most the accelerators of the type that has the fewest */
    int64_t epoch_ns;          /* time between two balances (server_balance()); 0: models stay where they are */
    double rank_rate_max;      /* highest items/s of a rank thread, kept as far as possible; 0: no limit */
    uint32_t frontends;        /* frontend threads of each protocol */
    uint32_t prepare_threads;  /* threads that prepare inputs (front/request/preparer.h); not used without frontends */
    uint32_t frontends_inside; /* frontends that the caller runs itself (server_inside()); 0 with `control` */
    const struct policy_ops *policy;
    struct policy_options policy_options;
    const char *host;                       /* address to listen on for clients */
    int http_port, grpc_port, metrics_port; /* ports to listen on; 0: any free one; -1, of gRPC and metrics: none */
    cpu_set_t executor_cores; /* cores for executors: executor n is pinned to the n-th; empty: not pinned */
    bool accelerator_control; /* whether clients may drain accelerators and have them join; with CONTROL_EXPLICIT they
                               * may in any case */
    bool busy_poll;           /* whether threads spin instead of sleeping */
    double spin; /* factor: a CPU executor with a core of its own polls for `spin` times the last batch's duration
                  * before it sleeps */
    bool shared_memory;               /* whether clients may register regions of shared memory */
    const char *shared_memory_prefix; /* beginning of the keys of shared memory that clients may register; NULL: any */
    int64_t run_limit_ns;             /* time that any run may take before it is stopped; 0: RUN_LIMIT_NS
                                       * (back/executor/executor.h) */
    bool learn;                       /* whether profiles are corrected by measured runs */
    uint32_t queue_max;               /* most requests queued in a model thread */
    uint64_t record_bytes;    /* memory for the last requests (core/data/recorder.h) of all scheduling threads; 0: not
                               * recorded */
    const char *decisions;    /* folder for the decision logs of the scheduling threads; NULL: none; NULL with a central
                               * policy */
    uint64_t decisions_bytes; /* size of a thread's decision log */
    uint64_t body_bytes_max, inputs_bytes_max; /* most bytes of a body; of the inputs of a protocol's requests */
    uint64_t answers_bytes_max; /* most bytes of answers that clients have not taken, of each protocol; 0: 512 MiB for
                                 * each frontend */
    uint64_t outputs_bytes_max; /* frontend of a cluster: most bytes of outputs (cluster/roles/frontend_link.h); 0: half
                                 * of the machine's memory */
    uint32_t connections_max, connections_per_address; /* most connections of a port, in all and from one address; as in
                                                        * frontend_config */
    uint32_t idle_timeout_s, head_timeout_s, rate_min; /* as in frontend_config */
    const char *name;                                  /* name in the server's metadata; NULL: "symphony" */
    int grpc_level;                 /* zlib's level for gRPC's inference answers, as in frontend_config */
    struct tls *tls;                /* TLS of HTTP and gRPC, which outlives the server; NULL: plain text */
    const struct auth *auth;        /* tokens that clients may show, which outlive the server; NULL: none is needed */
    bool auth_health, auth_metrics; /* whether questions for health, and the metrics port, need a token, too */
    bool tls_metrics;               /* whether the metrics port speaks TLS, too */
    struct autoscale_config autoscale; /* settings of server_advise(); every_ns 0: no advice is given */
};

struct server;

/* Loads the models on every accelerator, starts all threads, listens. 0 or -errno with a sentence. */
int server_start(struct server **server, const struct server_config *config, struct sy_error *err);
/* The ports that the server listens on; -1: none. */
struct server_ports {
    int http, grpc, metrics, cluster;
};
struct server_ports server_ports(const struct server *server);
/* The configuration of the n-th of `frontends_inside`, for requests from inside this process. One thread of the caller
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
/* Tells a frontend of a cluster which models are known here, for its repository index: READY models are to be served,
 * the others are not. Waits until clients see the new index, a second at most, unless `at_once`. One thread at a time.
 */
void server_models_know(struct server *server, const struct model_absent *known, uint32_t count, bool at_once);
/* In such a frontend: the hash of a model's description. Call it under server_models_lock(), for listed models. */
uint64_t server_model_hash(const struct server *server, uint32_t model);
/* The list that takes orders about models, with `control`. */
struct repository_desk *server_desk(const struct server *server);
/* Whether all models to load at start-up are served, or could not be loaded; without `control` always true. */
bool server_is_ready(const struct server *server);
/* The models as they are now. They stay unchanged until they are unlocked; no serving thread waits for the lock. Any
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
/* In a process that `serve --isolate` has started: passes on the order to its accelerator (running.h), if it has
 * changed. The same thread, at the start and whenever the parent asks for it. */
void server_obey_parent(struct server *server);
/* In a backend of a cluster: tells the scheduler of the models that it does not serve, if they have changed. The same
 * thread, every second. */
void server_cluster_look(struct server *server);
/* Drains: readiness fails; a model that is being handed over is waited for, at most `timeout_ns`; requests are served
 * for `grace_ns` more; then no new connections are taken, and requests in flight are waited for, again at most
 * `timeout_ns`. Then stops everything and frees it. 0, or -ETIMEDOUT if requests were cut off. -EINPROGRESS: a run that
 * was given up has not ended, and may still read the models and its inputs, so these are not freed: end the process by
 * _exit(). */
int server_stop(struct server *server, int64_t grace_ns, int64_t timeout_ns);
