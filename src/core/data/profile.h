/* profile.h - the latency of a model's batches on one accelerator type, as a table with a linear fit. Pure.
 *
 * l(b) for b items is latency_ns[b], for b in 1..batch_max+1 (Symphony's rules look at l(b+1)); it never decreases with
 * b. Fit: l(b) = alpha*b + beta (Symphony, arXiv 2308.07470, section 2). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PROFILE_BATCH_MAX 1024 /* greatest batch a table may hold */

struct profile {
    uint32_t batch_max;
    double alpha_ns, beta_ns; /* least-squares fit of the table; alpha > 0, beta >= 0 */
    int64_t latency_ns[];     /* [batch_max + 2]; [0] is 0 */
};

/* Bytes of a profile for batches up to `batch_max`. */
size_t profile_bytes(uint32_t batch_max);
/* Fills a table from a line; alpha_ns > 0 or beta_ns > 0. */
void profile_set_line(struct profile *profile, uint32_t batch_max, double alpha_ns, double beta_ns);
/* Fills a table from `count` measured points (batch ascending), interpolating between them and extending the last
 * slope; makes it non-decreasing; fits the line. -EINVAL without points or with a non-positive latency. */
int profile_set_points(struct profile *profile, uint32_t batch_max, const uint32_t *batch, const int64_t *latency_ns,
                       uint32_t count);
/* Recomputes alpha and beta after the table changed. */
void profile_fit(struct profile *profile);
/* How long a batch takes whose items each cost `work` times the profiled item: see profile_scale(). */
int64_t profile_scaled_ns(const struct profile *profile, uint32_t items, double work);
/* The table for items that each cost `work` times the profiled item (a larger image): the part of l(b) that grows with
 * b is scaled, the fixed part stays. `to` has room for the same batch_max. work > 0. */
void profile_scale(struct profile *to, const struct profile *from, double work);
/* Time of an accelerator that an item takes, by the line, in the batches that suit its model's rate (over 0, items a
 * second) and SLO where many accelerators take turns: the b* of the policy `deferred`, at most `batch_max` items. */
double profile_item_ns(const struct profile *profile, uint32_t batch_max, int64_t slo_ns, double rate);
/* The batch size up to which batching pays: the least b whose l(b)/b is within 1 % of the best; 1 if the best is not at
 * least 3 % better than l(1). */
uint32_t profile_batch_best(const struct profile *profile);
/* The batch size beyond which an item only costs more: the least b whose l(b)/b is within 0.1 % of the best. */
uint32_t profile_batch_cheapest(const struct profile *profile);
