/* bench_server.h - reads the server's own figures before and after a load, and compares them with the client's.
 *
 * Reads its Prometheus page and, if that tells no latencies, the statistics extension of the v2 protocol. A server that
 * tells nothing is no error. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lab/load/batch_metrics.h"
#include "lab/load/fetch.h"
#include "lab/load/load.h"
#include "lab/load/server_figures.h"

#define BENCH_SERVER_TIMEOUT_NS (2 * NS_PER_S)

struct bench_server_reading {
    struct batch_count *batches;    /* [models_count] */
    struct server_figures *figures; /* [models_count] */
    struct server_figures wait;     /* of its HTTP frontends: how long bytes waited until they were read */
};

struct bench_server {
    const struct server *server, *metrics; /* metrics is NULL if it has no such page */
    const char *const *names;              /* [models_count] */
    uint32_t models_count;
    bool lacks_fine, lacks_stats; /* it does not have these, so it is not asked again */
    struct bench_server_reading before, after;

    /* of the load between both readings */
    double *batch_mean;             /* [models_count + 1], the last over all; 0: not known */
    struct server_figures *figures; /* [models_count + 1], the same */
    struct server_figures wait;
};

/* The server's and the client's figures of one model, or of all, for the same requests: all that were answered 200,
 * those of the warm-up included. */
struct bench_agreement {
    bool told;          /* the server told anything; else all is zero */
    bool same_requests; /* it counted as many as the client; only then do the next fields judge */
    bool p99_differs;   /* the 99th percentiles differ by more than BENCH_P99_TOLERANCE_MS, wherever the server's may
                         * lie between two edges of its histogram */
    bool has_quantiles, has_in_time;
    double server_mean_ms, server_p50_ms, server_p99_ms, server_in_time; /* in time: a share */
    double client_mean_ms, client_p50_ms, client_p99_ms, client_in_time; /* from the hand-over to the kernel */
    double unseen_late; /* share that was in time for the server, but late for the client */
};

#define BENCH_P99_TOLERANCE_MS 0.3

/* `names` and both servers must outlive it. 0 or -ENOMEM. */
int bench_server_init(struct bench_server *s, const struct server *server, const struct server *metrics,
                      const char *const *names, uint32_t models_count);
void bench_server_free(struct bench_server *s);
/* Read before a load, and after it; the second computes the figures. */
void bench_server_begin(struct bench_server *s);
void bench_server_end(struct bench_server *s);
/* `model`: an index, or models_count for all; `client`: its statistics; `same_slo`: both sides use the same SLO. */
struct bench_agreement bench_server_compare(const struct bench_server *s, uint32_t model,
                                            const struct load_model_stats *client, bool same_slo);
