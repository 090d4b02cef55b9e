/* frontend_config.h - what every frontend is told, whatever protocol it speaks. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "repository/served_model.h"
#include "request/accelerators.h"
#include "request/inference.h"
#include "request/port.h"
#include "request/statistics.h"

struct advice;
struct auth;
struct bulk;
struct http_connection;
struct repository_desk;
struct shared_memory;
struct tls;
struct model_publication;
struct preparer;

/* Most bytes of a request that is neither an inference nor an order to load a model; more is answered 413. The thread
 * that serves everybody parses such requests into trees of many times their size. */
#define SERVICE_BYTES_MAX ((size_t)64 * 1024)

#define INPUTS_BYTES_MAX ((uint64_t)1 << 30)

struct frontend_config {
    int listen_fd;        /* of listen_open(); the frontend duplicates it */
    uint32_t index;       /* names the thread: "http-0" */
    struct port *port;    /* outlives the frontend; NULL: requests are answered by `page` alone */
    uint32_t model_count; /* their numbers are below this */
    const struct model_publication *models;
    struct bulk *bulk;                    /* does what takes long; NULL: the frontend does, in its turns */
    struct repository_desk *desk;         /* takes orders to load and unload; NULL: nobody does */
    bool of_cluster;                      /* its models are those of a cluster's backends */
    const _Atomic bool *ready, *draining; /* whether the server says that it is ready */
    struct statistics_source statistics;
    struct accelerator_source accelerators;
    const struct advice *advice;      /* for autoscalers; NULL: nobody gives any */
    struct shared_memory *shared;     /* NULL: shared memory is not served */
    struct preparer *preparer;        /* NULL: models that prepare inputs are not served */
    struct tls *tls;                  /* NULL: plain text */
    const struct auth *auth;          /* NULL: nobody needs a token */
    bool auth_health;                 /* requests that ask whether the server lives or is ready need one, too */
    uint64_t body_bytes_max;          /* 0: 64 MiB. Of an inference, or an order; more is answered 413 */
    uint64_t inputs_bytes_max;        /* 0: 1 GiB. Memory for the inputs of all requests; when it is full: 503 */
    uint32_t requests_max;            /* 0: 8192. Infer requests at once; when all are taken: 503 */
    uint32_t frontends;               /* 0: 1. How many the process has: they share its limit of open files */
    uint32_t connections_max;         /* 0: 10000, or what the limit of open files allows; more wait to be accepted */
    uint32_t connections_per_address; /* more are closed at once; 0: no limit of their own */
    uint32_t idle_timeout_s;          /* 0: 300. A connection that sends nothing for so long is closed */
    uint32_t
        head_timeout_s; /* 0: 15. For TLS and a request's head; bodies and answers get what rate_min gives, and this */
    uint32_t rate_min;  /* bytes a second of bodies and answers; slower ones are given up. 0: any speed */
    const char *name;   /* the server's, in its metadata; NULL: "symphony" */
    int grpc_level;     /* zlib's, 1 to 9, for gRPC's inference answers; 0: they are not compressed */
    bool busy_poll;     /* spin instead of sleeping */
    /* Over HTTP, without a port: answers a request whose body has been thrown away. The frontend's thread. */
    void (*page)(void *context, struct http_connection *connection);
    void *page_context;
};

/* How long the transfer of so many bytes may take. */
static inline int64_t frontend_transfer_ns(const struct frontend_config *config, uint64_t bytes) {
    int64_t rate_ns = config->rate_min ? (int64_t)(bytes * 1000 / config->rate_min) * 1000000 : INT64_MAX / 2;
    return config->head_timeout_s * (int64_t)1000000000 + rate_ns;
}

/* Whether a request is let in: nobody needs a token, it has one of them, or it asks for health (whether the server
 * lives and is ready), which is told to all unless `auth_health` says otherwise. */
static inline bool frontend_admits(const struct frontend_config *config, bool authorized, bool asks_for_health) {
    return !config->auth || authorized || (asks_for_health && !config->auth_health);
}

/* Where less than an eighth of the connections or calls is free, one that nobody uses makes way after so long. */
#define FRONTEND_CROWDED_IDLE_S 10

/* How many of the `open` ones make way if nobody uses them, so that an eighth of the `most` allowed is free. */
static inline uint32_t frontend_excess(uint32_t open, uint32_t most) {
    uint32_t wanted = most - most / 8;
    return open > wanted ? open - wanted : 0;
}

/* What its inferences are told; each slot of `slot_bytes`. */
struct inferences_config frontend_inferences(const struct frontend_config *config, size_t slot_bytes);

/* The configuration with every 0 replaced. Raises the limit of open files. */
struct frontend_config frontend_config_completed(const struct frontend_config *config);
