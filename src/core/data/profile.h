/* profile.h - the latency of a model's batches on one accelerator type, as a table with a linear fit. Pure.
 *
 * l(b) for b items is latency_ns[b], for b in 1..batch_max+1 (Symphony's rules look at l(b+1)); it never decreases with
 * b. Fit: l(b) = alpha*b + beta (Symphony, arXiv 2308.07470, section 2). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PROFILE_BATCH_MAX 1024 /* greatest batch a table may hold */

struct profile {
    uint32_t batch_max;       /* greatest batch of the table */
    double alpha_ns, beta_ns; /* least-squares fit of the table; alpha > 0, beta >= 0 */
    int64_t latency_ns[];     /* [batch_max + 2] latencies by batch size; [0] is 0 */
};

/* Bytes of a profile for batches up to `batch_max`. */
size_t profile_bytes(uint32_t batch_max);
/* Fills a table from a line; alpha_ns > 0 or beta_ns > 0. */
void profile_set_line(struct profile *profile, uint32_t batch_max, double alpha_ns, double beta_ns);
/* Fills a table from `count` measured points (batch ascending): interpolates between them, extends the last slope,
 * makes the table non-decreasing, and fits the line. 0; -EINVAL: there are no points, or a latency is not positive. */
int profile_set_points(struct profile *profile, uint32_t batch_max, const uint32_t *batch, const int64_t *latency_ns,
                       uint32_t count);
/* Computes alpha and beta anew, after the table has changed. */
void profile_fit(struct profile *profile);
/* How long a batch takes whose items each cost `work` times the profiled item: see profile_scale(). */
int64_t profile_scaled_ns(const struct profile *profile, uint32_t items, double work);
/* Makes the table for items that each cost `work` times the profiled item (a larger image): the part of l(b) that grows
 * with b is scaled, the fixed part stays. `to` has room for the batch_max of `from`. work > 0. */
void profile_scale(struct profile *to, const struct profile *from, double work);
/* Accelerator time of an item, by the line, where many accelerators take turns. The batches have the size that suits
 * the model's rate (items a second, over 0) and SLO: the b* of the policy `deferred`, at most `batch_max` items. */
double profile_item_ns(const struct profile *profile, uint32_t batch_max, int64_t slo_ns, double rate);
/* The batch size up to which batching pays: the least b whose l(b)/b is within 1 % of the best; 1 if the best is not at
 * least 3 % better than l(1). */
uint32_t profile_batch_best(const struct profile *profile);
/* The batch size beyond which an item only costs more: the least b whose l(b)/b is within 0.1 % of the best. */
uint32_t profile_batch_cheapest(const struct profile *profile);
