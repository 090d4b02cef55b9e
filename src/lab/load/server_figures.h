/* server_figures.h - what a server itself says of its latencies and deadlines, to compare with what the client saw.
 *
 * Read before and after a load; the difference is the load's. Sources, the first that has anything: Symphony's
 * symphony_request_duration_seconds and symphony_requests_in_time_total, Triton's nv_inference_request_duration_us
 * (means only), the statistics extension of the v2 protocol (means only).
 *
 * Pure, except that it allocates; one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server_bucket {
    double low_s, high_s; /* over low, at most high; high of the last one is infinite */
    double count;
};

/* What was counted of one model since the server started, or between two readings. */
struct server_figures {
    double answered; /* requests; 0: the server tells nothing of it */
    double sum_s;    /* their latencies, added up */
    double in_time;  /* of these, those answered by their deadline */
    bool tells_in_time;
    struct server_bucket *buckets; /* sorted by high_s, each pair of edges once, none empty */
    uint32_t buckets_count, buckets_capacity;
};

/* Between two edges of the server's histogram. */
struct server_quantile {
    double low_s, high_s;
    double at_s; /* by linear interpolation; high_s is infinite in the last bucket, this is then low_s */
};

/* Adds what the Prometheus text tells of latencies of the models names[count] to figures[count], which begin zeroed.
 * Returns whether there was anything. */
bool server_figures_latency(struct server_figures *figures, const char *text, const char *const *names, uint32_t count);
/* The same of requests in time. */
bool server_figures_in_time(struct server_figures *figures, const char *text, const char *const *names, uint32_t count);
/* The same of the answer to GET /v2/models/stats. */
bool server_figures_stats(struct server_figures *figures, const char *json, size_t length, const char *const *names,
                          uint32_t count);
/* Adds any histogram's series that have the label `label`="`value`", or do not have that label at all. */
bool server_figures_histogram(struct server_figures *figures, const char *text, const char *metric, const char *label,
                              const char *value);
/* Subtracts an earlier reading. If it cannot be one, because the server was started anew, returns false and empties
 * `figures`. */
bool server_figures_subtract(struct server_figures *figures, const struct server_figures *earlier);
void server_figures_add(struct server_figures *into, const struct server_figures *from);
/* The value at quantile q in [0, 1]. False if there is no histogram. */
bool server_figures_quantile(const struct server_figures *figures, double q, struct server_quantile *found);
/* Frees what is within; zeroed afterwards. */
void server_figures_clear(struct server_figures *figures);
