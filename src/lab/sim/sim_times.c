/* sim_times.c - latencies of a simulation's requests. */
#include "lab/sim/sim_times.h"

void sim_times_add(struct sim_times *times, int64_t ns) {
    uint64_t units = ns > 0 ? (uint64_t)ns >> SIM_TIMES_UNIT_BITS : 0;
    uint32_t bucket = log_linear_bucket(units, SIM_TIMES_STEP_BITS);
    times->buckets[bucket < SIM_TIMES_BUCKETS ? bucket : SIM_TIMES_BUCKETS - 1]++;
    times->count++;
    if (ns > times->max_ns)
        times->max_ns = ns;
}

void sim_times_merge(struct sim_times *into, const struct sim_times *from) {
    for (uint32_t i = 0; from->count && i < SIM_TIMES_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    into->count += from->count;
    if (from->max_ns > into->max_ns)
        into->max_ns = from->max_ns;
}

/* Queueing of a microsecond or less is none. */
static int64_t bucket_middle_ns(uint32_t bucket) {
    uint64_t width, from = log_linear_from(bucket, SIM_TIMES_STEP_BITS, &width);
    return bucket ? (int64_t)((2 * from + width) << (SIM_TIMES_UNIT_BITS - 1)) : 0;
}

int64_t sim_times_quantile_ns(const struct sim_times *times, double q) {
    double nth = q * (double)times->count;
    uint64_t seen = 0;
    for (uint32_t i = 0; times->count && i < SIM_TIMES_BUCKETS; i++) {
        seen += times->buckets[i];
        if (seen && (double)seen >= nth)
            return bucket_middle_ns(i) < times->max_ns ? bucket_middle_ns(i) : times->max_ns;
    }
    return times->max_ns;
}
