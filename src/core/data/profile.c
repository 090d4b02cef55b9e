/* profile.c - latency tables: filled from a line or from measured points, fitted, scaled. */
#include "core/data/profile.h"

#include <errno.h>

#include "core/util/assert.h"

/* Cost of an item, relative to the least, up to which a batch is as good as the best: larger ones save less than 1
 * %. */
#define BATCH_WITHIN 1.01
/* Cost of an item, relative to the least, that differs from the least only by noise. */
#define CHEAPEST_WITHIN 1.001
/* Cost of an item in the best batch, relative to l(1), above which that batch is not worth waiting for. */
#define BATCH_GAIN_MIN 0.97

size_t profile_bytes(uint32_t batch_max) {
    return sizeof(struct profile) + (batch_max + 2) * sizeof(int64_t);
}

static int64_t round_ns(double ns) {
    return (int64_t)(ns + 0.5);
}

void profile_set_line(struct profile *profile, uint32_t batch_max, double alpha_ns, double beta_ns) {
    CHECK(batch_max >= 1 && batch_max <= PROFILE_BATCH_MAX);
    CHECK(alpha_ns >= 0 && beta_ns >= 0 && alpha_ns + beta_ns > 0);
    profile->batch_max = batch_max;
    profile->latency_ns[0] = 0;
    for (uint32_t b = 1; b <= batch_max + 1; b++) {
        int64_t ns = round_ns(alpha_ns * b + beta_ns);
        profile->latency_ns[b] = ns > 0 ? ns : 1;
    }
    profile_fit(profile);
}

int profile_set_points(struct profile *profile, uint32_t batch_max, const uint32_t *batch, const int64_t *latency_ns,
                       uint32_t count) {
    if (count == 0 || batch_max < 1 || batch_max > PROFILE_BATCH_MAX)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++)
        if (latency_ns[i] <= 0 || batch[i] < 1 || (i > 0 && batch[i] <= batch[i - 1]))
            return -EINVAL;
    profile->batch_max = batch_max;
    profile->latency_ns[0] = 0;
    uint32_t i = 0; /* number of the line in use, which goes through points i and i+1 */
    for (uint32_t b = 1; b <= batch_max + 1; b++) {
        while (i + 2 < count && b >= batch[i + 1])
            i++;
        /* One point says nothing about the fixed part: an item costs the same at any size. */
        double part_ns = (double)latency_ns[0] * b / batch[0];
        double ns = part_ns;
        if (count > 1) {
            double slope = (double)(latency_ns[i + 1] - latency_ns[i]) / (double)(batch[i + 1] - batch[i]);
            ns = (double)latency_ns[i] + slope * ((double)b - (double)batch[i]);
        }
        if (b < batch[0] && ns < part_ns)
            ns = part_ns; /* a steep line would make small batches free */
        int64_t rounded = round_ns(ns);
        profile->latency_ns[b] = rounded > profile->latency_ns[b - 1] ? rounded : profile->latency_ns[b - 1];
        if (profile->latency_ns[b] < 1)
            profile->latency_ns[b] = 1;
    }
    profile_fit(profile);
    return 0;
}

void profile_fit(struct profile *profile) {
    double n = profile->batch_max, sum_l = 0, sum_bl = 0;
    double mean_b = (n + 1) / 2;
    for (uint32_t b = 1; b <= profile->batch_max; b++) {
        sum_l += (double)profile->latency_ns[b];
        sum_bl += ((double)b - mean_b) * (double)profile->latency_ns[b];
    }
    double mean_l = sum_l / n, spread = n * (n * n - 1) / 12; /* sum of (b - mean_b)^2 */
    double alpha = spread > 0 ? sum_bl / spread : (double)(profile->latency_ns[2] - profile->latency_ns[1]);
    double alpha_most = mean_l / mean_b; /* steeper, and beta would be negative: the line through the origin */
    if (alpha > alpha_most)
        alpha = alpha_most;
    if (alpha < 1)
        alpha = 1;
    profile->alpha_ns = alpha;
    profile->beta_ns = mean_l > alpha * mean_b ? mean_l - alpha * mean_b : 0;
}

int64_t profile_scaled_ns(const struct profile *profile, uint32_t items, double work) {
    CHECK(work > 0);
    double fixed_ns = profile->beta_ns;
    if (fixed_ns > (double)profile->latency_ns[1])
        fixed_ns = (double)profile->latency_ns[1];
    int64_t ns = round_ns(fixed_ns + ((double)profile->latency_ns[items] - fixed_ns) * work);
    return ns > 0 ? ns : 1;
}

void profile_scale(struct profile *to, const struct profile *from, double work) {
    to->batch_max = from->batch_max;
    to->latency_ns[0] = 0;
    for (uint32_t b = 1; b <= from->batch_max + 1; b++)
        to->latency_ns[b] = profile_scaled_ns(from, b, work);
    profile_fit(to);
}

/* The least l(b)/b of the table. */
static double cost_least(const struct profile *profile) {
    double least = (double)profile->latency_ns[1];
    for (uint32_t b = 2; b <= profile->batch_max; b++) {
        double cost = (double)profile->latency_ns[b] / b;
        if (cost < least)
            least = cost;
    }
    return least;
}

/* The least b that costs at most `cost` an item; there is one. */
static uint32_t batch_costing(const struct profile *profile, double cost) {
    uint32_t b = 1;
    while ((double)profile->latency_ns[b] / b > cost)
        b++;
    return b;
}

uint32_t profile_batch_best(const struct profile *profile) {
    double least = cost_least(profile);
    if (least > (double)profile->latency_ns[1] * BATCH_GAIN_MIN)
        return 1;
    return batch_costing(profile, least * BATCH_WITHIN);
}

uint32_t profile_batch_cheapest(const struct profile *profile) {
    return batch_costing(profile, cost_least(profile) * CHEAPEST_WITHIN);
}

double profile_item_ns(const struct profile *profile, uint32_t batch_max, int64_t slo_ns, double rate) {
    double alpha = profile->alpha_ns, beta = profile->beta_ns, slo = (double)slo_ns, gap = 1e9 / rate;
    double most = alpha > 0 ? (slo - beta) / alpha : batch_max, batch = (slo - beta + gap) / (alpha + gap);
    most = most < batch_max ? most : batch_max;
    batch = batch < most ? batch : most;
    return alpha + beta / (batch > 1 ? batch : 1);
}
