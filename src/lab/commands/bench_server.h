/* bench_server.h - reads the server's own figures before and after a load, and compares them with the client's.
 *
 * Reads the server's Prometheus page and, if that tells no latencies, the statistics extension of the v2 protocol. A
 * server without figures is no error. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lab/load/fetch.h"
#include "lab/load/load.h"
#include "lab/load/server_figures.h"

#define BENCH_SERVER_TIMEOUT_NS (2 * NS_PER_S)

struct bench_server_reading {
    struct server_figures *figures; /* [models_count] */
    struct server_figures wait;     /* waits of bytes until the server's HTTP frontends read them */
};

struct bench_server {
    const struct server *server, *metrics; /* metrics NULL: the server has no Prometheus page */
    const char *const *names;              /* [models_count] */
    uint32_t models_count;
    bool lacks_fine, lacks_stats; /* whether the server lacks fine metrics, statistics: it is then not asked again */
    struct bench_server_reading before, after;

    /* figures of the load between both readings */
    struct server_figures *figures; /* [models_count + 1] figures by model, the last over all models */
    struct server_figures wait;
};

/* The server's and the client's figures of one model, or of all, for the same requests: all that were answered 200,
 * with those of the warm-up. */
struct bench_agreement {
    bool told;          /* whether the server told any figures; else all fields are zero */
    bool same_requests; /* whether the server counted as many requests as the client; else the next fields mean nothing
                         */
    bool p99_differs; /* whether the 99th percentiles differ by more than BENCH_P99_TOLERANCE_MS, wherever the server's
                       * lies between two edges of its histogram */
    bool has_quantiles, has_in_time;
    double server_mean_ms, server_p50_ms, server_p99_ms,
        server_in_time; /* server's figures; server_in_time: share in time */
    double client_mean_ms, client_p50_ms, client_p99_ms,
        client_in_time; /* client's figures, from the hand-over to the kernel */
    double unseen_late; /* share of requests that were in time for the server, but late for the client */
};

#define BENCH_P99_TOLERANCE_MS 0.3

/* `names` and both servers must outlive `s`. 0 or -ENOMEM. */
int bench_server_init(struct bench_server *s, const struct server *server, const struct server *metrics,
                      const char *const *names, uint32_t models_count);
void bench_server_free(struct bench_server *s);
/* Reads the server's figures before a load; reads them after it, and computes those of the load. */
void bench_server_begin(struct bench_server *s);
void bench_server_end(struct bench_server *s);
/* Compares figures. `model`: an index, or models_count for all models; `client`: the client's statistics; `same_slo`:
 * both sides use the same SLO. */
struct bench_agreement bench_server_compare(const struct bench_server *s, uint32_t model,
                                            const struct load_model_stats *client, bool same_slo);
