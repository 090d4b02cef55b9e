/* server_figures.h - the figures that a server itself tells of latencies and deadlines, for comparison with the
 * client's.
 *
 * They are read before and after a load; the difference is that of the load. The first of these sources that has
 * figures is taken: Symphony's symphony_request_duration_seconds and symphony_requests_in_time_total, Triton's
 * nv_inference_request_duration_us (means only), the statistics extension of the v2 protocol (means only). Batches are
 * those of Symphony's symphony_batch_size, else of Triton's nv_inference_count and nv_inference_exec_count.
 *
 * Pure, except that it allocates; one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server_bucket {
    double low_s, high_s; /* edges: times over low_s, up to high_s; high_s of the last bucket is infinite */
    double count;
};

/* The counts of one model since the server started, or between two readings. */
struct server_figures {
    double answered;               /* answered requests; 0: the server tells nothing of the model */
    double sum_s;                  /* sum of the latencies of answered requests */
    double in_time;                /* requests answered by their deadline */
    bool tells_in_time;            /* whether the server tells in_time */
    double items, batches;         /* items that were run, in so many batches */
    struct server_bucket *buckets; /* [buckets_count] buckets, none empty, sorted by high_s, each pair of edges once */
    uint32_t buckets_count;
};

/* A quantile, known to lie between two edges of the server's histogram. */
struct server_quantile {
    double low_s, high_s;
    double at_s; /* value by linear interpolation; in the last bucket, whose high_s is infinite: low_s */
};

/* Adds the latencies that the Prometheus text tells of the models names[count] to figures[count], which begin zeroed.
 * Returns whether the text had any. */
bool server_figures_latency(struct server_figures *figures, const char *text, const char *const *names, uint32_t count);
/* Adds the requests in time that the Prometheus text tells; otherwise as server_figures_latency(). */
bool server_figures_in_time(struct server_figures *figures, const char *text, const char *const *names, uint32_t count);
/* Adds the sizes of batches that the Prometheus text tells; otherwise as server_figures_latency(). */
bool server_figures_batches(struct server_figures *figures, const char *text, const char *const *names, uint32_t count);
/* Adds the latencies that the answer to GET /v2/models/stats tells; otherwise as server_figures_latency(). */
bool server_figures_stats(struct server_figures *figures, const char *json, size_t length, const char *const *names,
                          uint32_t count);
/* Adds those series of a histogram that have the label `label`="`value`", or do not have that label at all. */
bool server_figures_histogram(struct server_figures *figures, const char *text, const char *metric, const char *label,
                              const char *value);
/* Subtracts an earlier reading. If the server was started anew since, returns false and empties `figures`. */
bool server_figures_subtract(struct server_figures *figures, const struct server_figures *earlier);
/* `into` tells requests in time if all that it is made of do. */
void server_figures_add(struct server_figures *into, const struct server_figures *from);
/* The value at quantile q in [0, 1]. False if there is no histogram. */
bool server_figures_quantile(const struct server_figures *figures, double q, struct server_quantile *found);
/* Frees the memory of the figures, and zeroes them. */
void server_figures_clear(struct server_figures *figures);
