/* kairos_latency.c - latencies learned online. */
#include "sched/policy/kairos_latency.h"

#define SEEN_ENOUGH 3    /* runs of a size from which on the size's own mean counts */
#define SEEN_MOST   16   /* runs of a size that are counted: a run weighs at least 1/16 in the size's mean */
#define FAR         2    /* multiple of the mean that a slower run counts as: one slow run (the first) means little */
#define RUNS_MOST   1000 /* runs after which the line's sums are halved, so that the line follows the last runs */

size_t kairos_latency_bytes(uint32_t items_max) {
    return sizeof(struct kairos_latency) + ((size_t)items_max + 1) * sizeof(struct kairos_size);
}

void kairos_latency_init(struct kairos_latency *latency, uint32_t items_max, const struct profile *profile) {
    *latency = (struct kairos_latency){.items_max = items_max};
    for (uint32_t items = 0; items <= items_max; items++)
        latency->sizes[items] =
            profile ? (struct kairos_size){profile->latency_ns[items], profile->latency_ns[items], SEEN_ENOUGH}
                    : (struct kairos_size){0, INT64_MAX, 0};
}

void kairos_latency_add(struct kairos_latency *latency, uint32_t items, int64_t run_ns) {
    struct kairos_size *size = &latency->sizes[items];
    if (size->seen >= SEEN_ENOUGH && run_ns > FAR * size->mean_ns)
        run_ns = FAR * size->mean_ns;
    if (size->seen < SEEN_MOST)
        size->seen++;
    size->mean_ns += (run_ns - size->mean_ns) / size->seen;
    if (run_ns < size->least_ns)
        size->least_ns = run_ns;

    if (latency->runs >= RUNS_MOST) {
        latency->runs /= 2;
        latency->items /= 2;
        latency->ns /= 2;
        latency->items_items /= 2;
        latency->items_ns /= 2;
    }
    latency->runs += 1;
    latency->items += items;
    latency->ns += (double)run_ns;
    latency->items_items += (double)items * items;
    latency->items_ns += (double)items * (double)run_ns;
}

/* The least-squares line; the mean while that line does not rise. */
static double line_ns(const struct kairos_latency *latency, uint32_t items) {
    double mean = latency->ns / latency->runs;
    double spread = latency->runs * latency->items_items - latency->items * latency->items;
    double slope = latency->runs * latency->items_ns - latency->items * latency->ns;
    if (!(spread > 0) || !(slope > 0))
        return mean;
    double ns = mean + slope / spread * (items - latency->items / latency->runs);
    return ns > 1 ? ns : 1;
}

int64_t kairos_latency_ns(const struct kairos_latency *latency, uint32_t items) {
    if (latency->sizes[items].seen >= SEEN_ENOUGH)
        return latency->sizes[items].mean_ns;
    return latency->runs > 0 ? (int64_t)line_ns(latency, items) : 0;
}

int64_t kairos_latency_least_ns(const struct kairos_latency *latency, uint32_t items) {
    return latency->sizes[items].least_ns;
}

void kairos_latency_relax(struct kairos_latency *latency, uint32_t items) {
    struct kairos_size *size = &latency->sizes[items];
    if (size->least_ns < size->mean_ns)
        size->mean_ns -= (size->mean_ns - size->least_ns + 1) / 2;
}
