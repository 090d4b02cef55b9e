/* load.h - puts a load on a server: many connections driven by one thread, latency counted from each request's
 * scheduled time.
 *
 * Open loop: requests are due when the arrival process says, whether or not earlier ones were answered. One that finds
 * no free connection waits at the client, and its latency still counts from when it was due, so that a stalled server
 * cannot hide its stalls (coordinated omission). Closed loop: a fixed number of requests is outstanding.
 *
 * All functions: the thread that created the load. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"
#include "core/util/histogram.h"
#include "lab/load/arrivals.h"
#include "lab/load/fetch.h"
#include "lab/load/idle_pool.h"
#include "lab/load/latency.h"
#include "lab/load/payload.h"
#include "lab/load/replay.h"

#define LOAD_PAYLOADS_MAX 8

struct load_model {
    const char *name;
    int64_t slo_ns; /* 0: none, every answer 200 is good */
    double weight;  /* share of the requests; all add up to 1 */
    uint32_t payloads_count;
    struct payload payloads[LOAD_PAYLOADS_MAX]; /* used in turn */
};

struct load_config {
    const struct server *server;
    const struct load_model *models; /* must outlive the load */
    uint32_t models_count;
    uint32_t connections;              /* opened at the start and kept */
    uint32_t connections_max;          /* more are opened up to here while all are busy */
    enum reuse reuse;                  /* which idle connection takes the next request */
    bool spin;                         /* never sleep: precise timing for a client with a core of its own */
    const volatile sig_atomic_t *stop; /* 1: no new requests; 2: nor wait for answers; may be NULL */
};

struct load_trial {
    uint32_t closed; /* this many requests outstanding; 0: open loop at rate_rps */
    struct arrivals_spec arrivals;
    double rate_rps;                   /* with a workload: about */
    const struct sim_config *workload; /* open loop: its requests instead, of the load's models; or NULL */
    double warmup_s, seconds;          /* requests due during the warm-up are sent but not counted */
    double grace_s;                    /* how long answers are waited for after the last request */
    uint64_t seed;
    bool give_up; /* end early once some model can no longer have 99 % good */
};

struct load_model_stats {
    uint64_t offered;         /* = good + late + refused + errors + unanswered */
    uint64_t good;            /* 200 within the SLO */
    uint64_t late;            /* 200 after the SLO */
    uint64_t refused;         /* 503 */
    uint64_t errors;          /* any other status, or the connection failed */
    uint64_t unanswered;      /* nothing by the end of the grace time */
    struct latency latency;   /* of the 200s; an unanswered request counts with the time it has waited */
    struct latency wire;      /* of all 200s, the warm-up's too: from handed to the kernel to answered, for comparison
                               * with what the server itself counts */
    uint64_t wire_in_time;    /* of these, those within the SLO */
    struct histogram refusal; /* ns of the 503s */
    char first_error[256];    /* what the first answer that is neither 200 nor 503 said */
    char first_refusal[256];
};

struct load_result {
    double seconds;                  /* the counted part, shorter than asked when ended early */
    struct load_model_stats *models; /* [models_count] */
    struct latency send_lag;         /* from due to handed to the kernel: waiting for a connection, or a late client */
    uint64_t waited;                 /* counted requests that found no free connection */
    uint32_t connections;            /* most that were open */
    bool gave_up, interrupted;
};

/* The last second, for a live line. */
struct load_progress {
    double elapsed_s, total_s; /* warm-up included */
    bool warming;
    uint64_t offered, good, refused, bad;
    int64_t p99_ns; /* of the answers 200 */
    uint32_t outstanding, connections;
};

struct load;

/* How many connections of `wanted` there may be at once: the limit of open files, which is raised as far as it may be,
 * less a few for what else is open. */
uint32_t load_connections_allowed(uint32_t wanted);
/* NULL and a sentence if memory or descriptors do not suffice. connections_max is lowered to what the process may open.
 */
struct load *load_create(const struct load_config *config, struct sy_error *err);
void load_free(struct load *load);
/* Space for a result, to be freed with load_result_free. Results may be swapped by assignment. */
int load_result_init(struct load_result *result, uint32_t models_count);
void load_result_free(struct load_result *result);
/* Runs one trial; connections stay open for the next. `progress` (may be NULL) is called once a second. 0, or -errno
 * and a sentence if no connection could be opened at all. */
int load_run(struct load *load, const struct load_trial *trial, struct load_result *result,
             void (*progress)(void *context, const struct load_progress *now), void *context, struct sy_error *err);

/* Whether every model that got requests has at least 99 % of them good. */
bool load_result_held(const struct load_result *result, uint32_t models_count);
