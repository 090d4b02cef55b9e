/* load.h - puts a load on a server: many connections driven by one thread, latency counted from each request's
 * scheduled time.
 *
 * Open loop: requests are due when the arrival process says, whether or not earlier ones were answered. A request that
 * finds no free connection waits at the client, and its latency still counts from the time at which it was due, so that
 * a server cannot hide its stalls (coordinated omission). Closed loop: a fixed number of requests is outstanding.
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
    int64_t slo_ns; /* SLO; 0: none, every answer 200 is good */
    double weight;  /* share of the requests; the shares of all models add up to 1 */
    uint32_t payloads_count;
    struct payload payloads[LOAD_PAYLOADS_MAX]; /* requests, used in turn */
};

struct load_config {
    const struct server *server;
    const struct load_model *models; /* [models_count] models, which must outlive the load */
    uint32_t models_count;
    uint32_t connections;     /* connections that are opened at the start and kept */
    uint32_t connections_max; /* most connections; more are opened up to this number while all are busy */
    enum reuse reuse;         /* which idle connection takes the next request */
    bool spin;                /* whether the thread never sleeps: precise timing for a client with a core of its own */
    const volatile sig_atomic_t *stop; /* order to stop; 1: send no new requests; 2: do not wait for answers either;
                                        * NULL: no such order */
};

struct load_trial {
    uint32_t closed; /* requests outstanding in a closed loop; 0: open loop at rate_rps */
    struct arrivals_spec arrivals;
    double rate_rps;                   /* rate of requests; with a workload an estimate */
    const struct sim_config *workload; /* open loop: source of requests; NULL: `arrivals` */
    double warmup_s, seconds; /* lengths of the warm-up, whose requests are not counted, and of the counted part */
    double grace_s;           /* time to wait for answers after the last request */
    uint64_t seed;
    bool give_up; /* whether the trial ends early once some model can no longer have 99 % good */
};

struct load_model_stats {
    uint64_t offered;       /* requests: good + late + refused + errors + unanswered */
    uint64_t good;          /* answers 200 within the SLO */
    uint64_t late;          /* answers 200 after the SLO */
    uint64_t refused;       /* answers 503 */
    uint64_t errors;        /* answers with any other status, and requests whose connection failed */
    uint64_t unanswered;    /* requests without an answer at the end of the grace time */
    struct latency latency; /* latencies of answers 200; an unanswered request counts with its wait so far */
    struct latency wire; /* times from the hand-over to the kernel to the answer, of all answers 200, with the warm-up,
                          * for comparison with the server's own counts */
    uint64_t wire_in_time;    /* number of times in `wire` that are within the SLO */
    struct histogram refusal; /* latencies of answers 503, in nanoseconds */
    char first_error[256];    /* text of the first answer that is neither 200 nor 503 */
    char first_refusal[256];  /* text of the first answer 503 */
};

struct load_result {
    double seconds;                  /* length of the counted part; shorter than asked for if the trial ended early */
    struct load_model_stats *models; /* [models_count] */
    struct latency send_lag; /* times from due to handed to the kernel: waits for a connection, or a late client */
    uint64_t waited;         /* counted requests that found no free connection */
    uint32_t connections;    /* most connections that were open at once */
    bool gave_up, interrupted;
};

/* The figures of the last second, for a line that is shown during the trial. */
struct load_progress {
    double elapsed_s, total_s; /* time since the start, and length of the trial; warm-up included */
    bool warming;
    uint64_t offered, good, refused, bad;
    int64_t p99_ns; /* 99th percentile of the latencies of answers 200 */
    uint32_t outstanding, connections;
};

struct load;

/* The number of connections, at most `wanted`, that there may be at once: the limit of open files, which is raised as
 * far as possible, less a few for other open files. */
uint32_t load_connections_allowed(uint32_t wanted);
/* Makes a load. Lowers connections_max to the number that the process may open. NULL with a sentence if memory or file
 * descriptors do not suffice. */
struct load *load_create(const struct load_config *config, struct sy_error *err);
void load_free(struct load *load);
/* Takes memory for a result; free it with load_result_free(). Results may be swapped by assignment. */
int load_result_init(struct load_result *result, uint32_t models_count);
void load_result_free(struct load_result *result);
/* Runs one trial; connections stay open for the next. `progress` (may be NULL) is called once a second. 0, or -errno
 * and a sentence if no connection could be opened at all. */
int load_run(struct load *load, const struct load_trial *trial, struct load_result *result,
             void (*progress)(void *context, const struct load_progress *now), void *context, struct sy_error *err);

/* Whether at least 99 % of the requests of every model that got any are good. */
bool load_result_held(const struct load_result *result, uint32_t models_count);
