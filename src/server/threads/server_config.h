/* server_config.h - what a process that serves is made of: models, accelerators, threads, limits, and its role in a
 * cluster. Constant while the server runs, and so are the things that it points to, but for the models. */
#pragma once

#include <sched.h>

#include "core/util/error.h"
#include "front/net/frontend_config.h"
#include "model/config/served_model.h"
#include "model/engine/engine.h"
#include "sched/core/policy.h"
#include "sched/plan/autoscale.h"
#include "sched/threads/wiring.h"

struct auth;
struct model_absent;
struct registry_place;
struct repository_control;
struct repository_desk;
struct running;
struct server;
struct tls;

/* Accelerators of one type. */
struct server_accelerators {
    char type[TYPE_NAME_MAX]; /* name of the type: "cpu", "cuda", or an emulated type's name */
    const struct engine_ops *engine;
    const char *provider;  /* "cpu" or "cuda"; NULL: the type is emulated */
    const char *cache_dir; /* folder for what engines keep, as in engine_options */
    uint32_t count;
    double price;                    /* dollars an hour for one; 0: not known */
    const struct profile **profiles; /* [model_count]; NULL where the model does not run on this type */
};

/* How a process is one role of a cluster (docs/cluster.md). All that the pointers point to outlives the server. */
struct server_cluster {
    enum wiring_link role;         /* LINK_FRONTEND, LINK_SCHEDULER or LINK_BACKEND */
    const char *name;              /* name of the process, for people */
    const char *const *schedulers; /* [scheduler_count] frontend, backend: HOST:PORT of each scheduler */
    uint32_t scheduler_count;
    const char *host;    /* address to listen on, in a scheduler for members, in a frontend for backends; "": all
                          * addresses */
    int port;            /* port to listen on; 0: any free one */
    const char *local;   /* name of the Unix socket at which members of this host and user join a scheduler; no port is
                          * listened at then, nor, whatever the name, in a frontend; NULL: none */
    const char *address; /* HOST:PORT where others reach this process; NULL: backends reach a frontend at the address
                          * that it connects from */
    const struct auth *auth;   /* tokens that this process accepts from others; it shows them the first one; NULL: none
                                * is needed */
    const char *fabric;        /* name of libfabric's provider for inputs; NULL: libfabric is not used */
    uint32_t transports;       /* backend: allowed transports of inputs, a bit each: TRANSPORT_BIT(); 0: all */
    struct tls *tls;           /* TLS of the links; NULL: plain text */
    int64_t beat_ns;           /* time between heartbeats */
    int64_t link_wait_ns;      /* frontend: as in frontend_link_config */
    uint32_t accelerators_max; /* scheduler: most accelerators in the whole cluster */
    const char *const *peers;  /* [peer_count] scheduler: HOST:PORT of each scheduler; none if there is one scheduler */
    uint32_t peer_count, seniority;        /* seniority: this scheduler's index in `peers`, 0 the most senior */
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
                                  * `control`: places that deployment_from_repositories() made, in CONTROL_NONE with
                                  * the models of the start, LOADING or UNAVAILABLE */
    uint32_t model_count;
    const struct repository_control *control; /* how models are loaded, and come and go; NULL: `models` are complete,
                                               * and emulated */
    const struct server_cluster *cluster; /* role in a cluster; NULL: all roles are in this process. In a frontend and a
                                           * scheduler `models` are places, as with `control` */
    struct repository_desk *desk; /* frontend: list for clients' orders to load models, which outlives the server; NULL:
                                   * nobody takes orders */
    bool held;                    /* frontend: not ready before server_begin() */
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
    uint32_t frontends_inside; /* frontends that the caller runs itself (server_inside()), once the server is ready; 0
                                * where models come and go */
    const struct policy_ops *policy;
    struct policy_options policy_options;
    /* what all frontends have in common: limits (of memory and connections for all frontends of a protocol), trails,
     * TLS, tokens, name; the server sets the other fields */
    struct frontend_config clients;
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
    uint64_t memory_bytes; /* memory for models of each accelerator, all of which are emulated or on CPUs, for a policy
                            * that loads models; 0: every model is loaded everywhere, for good */
    bool orders_loads;   /* scheduler of a cluster: which models each accelerator has is known to the rank thread, which
                          * orders loads where a backend's memory is limited */
    uint64_t page_bytes; /* pages in which that memory is counted */
    double noise;        /* of emulated accelerators, as in executor_config */
    bool learn;          /* whether profiles are corrected by measured runs */
    uint32_t queue_max;  /* most requests queued in a model thread */
    uint64_t timeline_bytes;  /* memory for what accelerators did lately (core/data/timeline.h); 0: nothing is kept. A
                               * process of `--isolate` has what core/data/running.h says */
    const char *trace_file;   /* file for traces; NULL: none are written; NULL without trails */
    const char *otlp;         /* address of a collector of spans; NULL: none are sent; NULL without trails */
    const char *access_log;   /* file of the access log, "-" for standard output; NULL: none; NULL without trails */
    uint64_t record_bytes;    /* memory for the last requests (core/data/recorder.h) of all scheduling threads; 0: not
                               * recorded */
    const char *decisions;    /* folder for the decision logs of the scheduling threads; NULL: none; NULL with a central
                               * policy */
    uint64_t decisions_bytes; /* size of a thread's decision log */
    uint64_t outputs_bytes_max; /* frontend of a cluster: most bytes of outputs (cluster/roles/frontend_link.h); 0: half
                                 * of the machine's memory */
    bool auth_metrics, tls_metrics;    /* whether the metrics port needs a token, and speaks TLS, too */
    struct autoscale_config autoscale; /* settings of the advice; every_ns 0: no advice is given */
};

static inline enum wiring_link server_role(const struct server_config *config) {
    return config->cluster ? config->cluster->role : LINK_NONE;
}

/* Whether models are loaded and unloaded as they are asked for, by orders of this process's scheduler. */
static inline bool server_orders_loads(const struct server_config *config) {
    return config->memory_bytes > 0 || config->orders_loads;
}

/* Whether this process has frontends; the scheduler's threads; executors; places for models that come and go. */
static inline bool server_listens(const struct server_config *config) {
    return server_role(config) == LINK_NONE || server_role(config) == LINK_FRONTEND;
}
static inline bool server_schedules(const struct server_config *config) {
    return server_role(config) == LINK_NONE || server_role(config) == LINK_SCHEDULER;
}
static inline bool server_runs(const struct server_config *config) {
    return server_role(config) == LINK_NONE || server_role(config) == LINK_BACKEND;
}
static inline bool server_has_places(const struct server_config *config) {
    return config->control || server_role(config) == LINK_FRONTEND || server_role(config) == LINK_SCHEDULER;
}
