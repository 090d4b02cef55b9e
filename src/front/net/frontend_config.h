/* frontend_config.h - what every frontend is told, whatever protocol it speaks. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "front/request/accelerators.h"
#include "front/request/inference.h"
#include "front/request/port.h"
#include "front/request/statistics.h"
#include "model/config/served_model.h"

#define FRONTENDS_MAX            64    /* of a port */
#define FRONTEND_CONNECTIONS_MAX 10000 /* of a frontend, where nobody says */

struct acceptor_group;
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

/* Slots beyond requests_max, and connections beyond connections_max, for requests that ask for health. */
#define SLOTS_SPARE       64
#define CONNECTIONS_SPARE 8

#define INPUTS_BYTES_MAX ((uint64_t)1 << 30)

struct frontend_config {
    int listen_fd;                /* of listen_open(); the frontend duplicates it */
    uint32_t index;               /* among the frontends of the port; names the thread: "http-0" */
    struct acceptor_group *group; /* they share the port's connections; NULL: each has those that it accepts */
    struct port *port;            /* outlives the frontend; NULL: requests are answered by `page` alone */
    uint32_t model_count;         /* their numbers are below this */
    const struct model_publication *models;
    struct bulk *bulk;                    /* does what takes long; NULL: the frontend does, in its turns */
    struct repository_desk *desk;         /* takes orders to load and unload; NULL: nobody does */
    bool of_cluster;                      /* its models are those of a cluster's backends */
    const _Atomic bool *ready, *draining; /* whether the server says that it is ready */
    struct statistics_source statistics;
    struct accelerator_source accelerators;
    const struct advice *advice;  /* for autoscalers; NULL: nobody gives any */
    struct shared_memory *shared; /* NULL: shared memory is not served */
    struct preparer *preparer;    /* NULL: models that prepare inputs are not served */
    struct tls *tls;              /* NULL: plain text */
    const struct auth *auth;      /* NULL: nobody needs a token */
    bool auth_health;             /* requests that ask whether the server lives or is ready need one, too */
    uint64_t body_bytes_max;      /* 0: 64 MiB. Of an inference, or an order; more is answered 413 */
    uint64_t inputs_bytes_max;    /* 0: 1 GiB. Memory for the inputs of all requests; when it is full: 503 */
    uint64_t answers_bytes_max;   /* 0: 512 MiB. Of answers that clients have not taken; beyond it connections end */
    uint32_t requests_max;        /* 0: 8192. Infer requests at once; how they are shared out: slots.h */
    uint32_t frontends;           /* 0: 1. How many the process has: they share its limit of open files */
    uint32_t connections_max;     /* 0: 10000, or what the limit of open files allows; for more others make way */
    uint32_t connections_per_address; /* more are closed at once; 0: no limit of their own */
    uint32_t idle_timeout_s;          /* 0: 300. A connection that sends nothing for so long is closed */
    uint32_t head_timeout_s;          /* 0: 15. For TLS and a request's head */
    uint32_t rate_min; /* bytes a second of bodies and answers; what is slower for head_timeout_s is given up. 0: any
                        * speed */
    const char *name;  /* the server's, in its metadata; NULL: "symphony" */
    int grpc_level;    /* zlib's, 1 to 9, for gRPC's inference answers; 0: they are not compressed */
    bool busy_poll;    /* spin instead of sleeping */
    /* Over HTTP, without a port: answers a request whose body has been thrown away. The frontend's thread. */
    void (*page)(void *context, struct http_connection *connection);
    void *page_context;
};

/* How far a transfer was when its present window of time began. Zeroed when another transfer begins. */
struct frontend_pace {
    int64_t since_ns;
    uint64_t bytes;
};

/* Whether a transfer, of which `bytes` have gone by now, is slow: in head_timeout_s less has gone than rate_min gives.
 * A window of time begins with the first look at the transfer, and anew with the end of each one, so that bytes that
 * went fast buy no time for later. Who looks does so once a second. */
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

/* What its inferences are told; each slot of `slot_bytes`. */
struct inferences_config frontend_inferences(const struct frontend_config *config, size_t slot_bytes);

/* How many frontends a port has where nobody says: as many as there are cores beside `others`, threads that need one.
 * At least 1; and no more than leave each room for four of the largest bodies, and 256 connections, since these are
 * divided among them. */
uint32_t frontends_for(uint32_t cores, uint32_t others, uint64_t inputs_mib, uint64_t body_mib,
                       uint32_t connections_max);

/* The configuration with every 0 replaced. Raises the limit of open files. */
struct frontend_config frontend_config_completed(const struct frontend_config *config);
