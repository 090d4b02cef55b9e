/* frontend_config.h - the configuration of a frontend of any protocol. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "front/request/accelerators.h"
#include "front/request/inference.h"
#include "front/request/port.h"
#include "front/request/statistics.h"
#include "model/config/served_model.h"

#define FRONTENDS_MAX            64    /* frontends of a port */
#define FRONTEND_CONNECTIONS_MAX 10000 /* default for the connections of a frontend */

struct acceptor_group;
struct advice;
struct auth;
struct bulk;
struct http_connection;
struct repository_desk;
struct shared_memory;
struct tls;
struct doorbell;
struct model_publication;
struct preparer;

/* Most bytes of a request that is neither an inference nor an order to load a model; more is answered 413. The thread
 * that serves everybody parses such requests into trees of many times their size. */
#define SERVICE_BYTES_MAX ((size_t)64 * 1024)

/* Slots beyond requests_max, and connections beyond connections_max, for requests that ask for health. */
#define SLOTS_SPARE       64
#define CONNECTIONS_SPARE 8

#define INPUTS_BYTES_MAX ((uint64_t)1 << 30)

struct frontend_config {
    int listen_fd;                /* listening socket of listen_open(); the frontend duplicates it */
    uint32_t index;               /* number among the frontends of the port; names the thread: "http-0" */
    struct acceptor_group *group; /* group that shares the port's connections; NULL: each keeps those it accepts */
    struct port *port;            /* port to the scheduler, outlives the frontend; NULL: `page` answers all requests */
    uint32_t model_count;         /* bound of the models' numbers */
    const struct model_publication *models;
    struct doorbell *models_bell; /* rung once the frontend uses another list of models, or ends; NULL: nobody waits */
    struct bulk *bulk;            /* threads for long work; NULL: the frontend does it, in its turns */
    struct repository_desk *desk; /* desk for orders to load and unload; NULL: nobody takes orders */
    bool of_cluster;              /* the models are those of a cluster's backends */
    const _Atomic bool *ready, *draining; /* states that the server reports: ready, draining */
    const _Atomic bool *failed;           /* whether the server reports that it is not live; NULL: it always is */
    const struct start_progress *start;   /* what the server waits for before it is ready */
    struct statistics_source statistics;
    struct accelerator_source accelerators;
    const struct advice *advice;  /* advice for autoscalers; NULL: none */
    struct shared_memory *shared; /* registry of shared memory; NULL: not served */
    struct preparer *preparer;    /* threads that prepare inputs; NULL: models that need them are not served */
    uint32_t trails_keep;         /* trails of requests that are kept, of each state; 0: none */
    uint32_t trails_every;        /* one in so many requests in time leaves a trail; 0: none */
    struct tracing *tracing;      /* which requests leave a trace; NULL: none does */
    struct tls *tls;              /* TLS of the connections; NULL: plain text */
    const struct auth *auth;      /* tokens that let clients in; NULL: nobody needs one */
    bool auth_health;             /* requests for health (live, ready) need a token, too */
    uint64_t body_bytes_max;      /* most bytes of an inference's or an order's body; more is answered 413; 0: 64 MiB */
    uint64_t inputs_bytes_max;    /* memory for the inputs of all requests; 503 when it is full; 0: 1 GiB */
    uint64_t answers_bytes_max;   /* bytes of answers that wait for clients; beyond it connections end; 0: 512 MiB */
    uint32_t requests_max;        /* infer requests at once (shared out by slots.h); 0: 8192 */
    uint32_t frontends;           /* frontends of the process, which share its limit of open files; 0: 1 */
    uint32_t connections_max;     /* connections at once; for more, others make way; 0: 10000, or what the limit of open
                                     files allows */
    uint32_t connections_per_address; /* connections of one address; more are closed at once; 0: no limit */
    uint32_t idle_timeout_s;          /* time without a byte after which a connection is closed; 0: 300 */
    uint32_t age_s;          /* age at which a connection of gRPC takes no more calls; 0: it takes them for ever */
    uint32_t head_timeout_s; /* time for the TLS handshake, and for a request's head; 0: 15 */
    uint32_t rate_min; /* bytes a second of bodies and answers; a transfer that is slower for head_timeout_s is given
                          up; 0: any speed */
    const char *name;  /* name of the server in its metadata; NULL: "symphony" */
    int grpc_level;    /* zlib's level (1 to 9) for gRPC's inference answers; 0: not compressed */
    bool busy_poll;    /* the thread spins instead of sleeping */
    /* For HTTP without a port: answers a request, whose body has been thrown away. Called by the frontend's thread. */
    void (*page)(void *context, struct http_connection *connection);
    /* With `page`: called when `page_due_ns` of the frontend is due; returns the next such time, TIME_NEVER: none. */
    int64_t (*page_look)(void *context, int64_t now_ns);
    void *page_context;
};

/* How far a transfer was when its present window of time began. Zeroed when another transfer begins. */
struct frontend_pace {
    int64_t since_ns; /* begin of the window; 0: none has begun */
    uint64_t bytes;   /* bytes of the transfer at that time */
};

/* Whether a transfer, of which `bytes` have gone by now, is slow: fewer bytes went in a window of head_timeout_s than
 * rate_min asks for. The first window begins with the first call for the transfer, each later one at the end of the one
 * before: bytes that went fast buy no time for later. Called once a second. */
static inline bool frontend_slow(const struct frontend_config *config, struct frontend_pace *pace, uint64_t bytes,
                                 int64_t now_ns) {
    bool first = pace->since_ns == 0;
    if (!first && now_ns - pace->since_ns < config->head_timeout_s * (int64_t)1000000000)
        return false;
    int64_t least = (int64_t)config->rate_min * config->head_timeout_s;
    bool slow = !first && least > 0 && (int64_t)(bytes - pace->bytes) < least;
    *pace = (struct frontend_pace){now_ns, bytes};
    return slow;
}

/* Whether a request is let in: nobody needs a token, it has one of them, or it asks for health (whether the server
 * lives and is ready), which is told to all unless `auth_health` says otherwise. */
static inline bool frontend_admits(const struct frontend_config *config, bool authorized, bool asks_for_health) {
    return !config->auth || authorized || (asks_for_health && !config->auth_health);
}

/* The configuration of the frontend's inferences, with slots of `slot_bytes`. */
struct inferences_config frontend_inferences(const struct frontend_config *config, size_t slot_bytes);

/* The default number of frontends of a port: the cores that are left beside the `others`, threads that need a core
 * each. At least 1, and so few that each has memory for four of the largest bodies and at least 256 connections, since
 * memory and connections are divided among them. */
uint32_t frontends_for(uint32_t cores, uint32_t others, uint64_t inputs_mib, uint64_t body_mib,
                       uint32_t connections_max);

/* The configuration with every 0 replaced. Raises the limit of open files. */
struct frontend_config frontend_config_completed(const struct frontend_config *config);
