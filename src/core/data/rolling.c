/* rolling.c - the window of each batch size, and the table made of them.
 *
 * A window gives a ratio to the profiled l(b): its 99th percentile, but at most SPIKE times its median. Where a machine
 * became slower, the median moves, and the table follows all the way. Where it only stalls now and then, the median
 * stays: to plan every batch for the worst stall would refuse requests most of which can be in time.
 *
 * The first run of a size on an accelerator may take a hundred times as long as the next ones: memory is taken, kernels
 * are chosen. A first run that takes over FAR times what the table says is not learned from; if the machine did become
 * slow, the next runs show it. The only run in a window counts as FAR times the profile at most.
 *
 * A size's own window weighs by how many runs it holds and how recent they are; the rest of the weight is that of all
 * sizes together. So a size that never ran follows the others, and one that was slow long ago is tried again: otherwise
 * the table, which decides what runs, would keep it from ever being measured again. */
#include "core/data/rolling.h"

#include <string.h>

#include "core/util/assert.h"

#define SPIKE         1.5  /* over the median */
#define FAR           2.0  /* over what is expected: to be confirmed by a second run */
#define FULL_TRUST    10.0 /* a window of so many runs speaks for itself */
#define STALE_RUNS    64.0 /* after so many runs of other sizes a window counts half */
#define PRIOR         0.5  /* weight of the profile among what all sizes say */
#define REWRITE_EVERY 32   /* runs after which the table is rewritten even if no window changed */
#define CHANGE        0.01 /* of a ratio that is worth rewriting for */
#define RELAXED       1.01 /* close enough to the profile */
#define PAIRS_MOST    65536

struct window {
    float ratio[ROLLING_WINDOW];  /* of runs to the profiled latency, as they came */
    float sorted[ROLLING_WINDOW]; /* the same, ascending */
    uint32_t count, next;         /* runs in it; where the next goes in `ratio` */
    uint64_t last_run;            /* as rolling.runs counted */
    double expected;              /* what the window says; 0: never ran */
};

struct rolling {
    uint32_t batch_max, pairs; /* pairs: that `begun` has bits for */
    uint64_t runs;             /* of all sizes */
    int64_t *profiled_ns;      /* [batch_max + 2] */
    uint64_t *begun;           /* a bit for each accelerator and size that ran */
    struct window windows[];   /* [batch_max + 1], by items */
};

/* Pairs of accelerators and sizes, at most PAIRS_MOST: beyond that several share a bit, and a first run may be taken
 * for a later one. */
static uint32_t pairs_of(uint32_t batch_max, uint32_t accelerators) {
    uint64_t pairs = (uint64_t)batch_max * accelerators;
    return pairs < 1 ? 1 : pairs < PAIRS_MOST ? (uint32_t)pairs : PAIRS_MOST;
}

static size_t windows_bytes(uint32_t batch_max) {
    return sizeof(struct rolling) + (batch_max + 1) * sizeof(struct window);
}

static size_t begun_bytes(uint32_t pairs) {
    return (pairs + 63) / 64 * sizeof(uint64_t);
}

size_t rolling_bytes(uint32_t batch_max, uint32_t accelerators) {
    return windows_bytes(batch_max) + (batch_max + 2) * sizeof(int64_t) +
           begun_bytes(pairs_of(batch_max, accelerators));
}

void rolling_init(struct rolling *rolling, const struct profile *profiled, uint32_t accelerators) {
    memset(rolling, 0, rolling_bytes(profiled->batch_max, accelerators));
    rolling->batch_max = profiled->batch_max;
    rolling->pairs = pairs_of(profiled->batch_max, accelerators);
    rolling->profiled_ns = (int64_t *)((char *)rolling + windows_bytes(profiled->batch_max));
    rolling->begun = (uint64_t *)(rolling->profiled_ns + profiled->batch_max + 2);
    memcpy(rolling->profiled_ns, profiled->latency_ns, (profiled->batch_max + 2) * sizeof(int64_t));
}

/* Whether a size runs on an accelerator for the first time. */
static bool is_first(struct rolling *rolling, uint32_t accelerator, uint32_t items) {
    uint64_t pair = ((uint64_t)accelerator * rolling->batch_max + items - 1) % rolling->pairs, bit = 1ULL << pair % 64;
    bool first = !(rolling->begun[pair / 64] & bit);
    rolling->begun[pair / 64] |= bit;
    return first;
}

int64_t rolling_profiled_ns(const struct rolling *rolling, uint32_t items) {
    CHECK_LE(items, rolling->batch_max);
    return rolling->profiled_ns[items];
}

/* Takes the oldest run out of a full window and puts the new one in, in both orders. */
static void window_add(struct window *window, float ratio) {
    float *sorted = window->sorted;
    uint32_t count = window->count, at = 0;
    if (count == ROLLING_WINDOW) {
        while (sorted[at] != window->ratio[window->next])
            at++;
        memmove(&sorted[at], &sorted[at + 1], (count - at - 1) * sizeof(*sorted));
        count--;
    }
    for (at = count; at > 0 && sorted[at - 1] > ratio; at--)
        sorted[at] = sorted[at - 1];
    sorted[at] = ratio;
    window->ratio[window->next] = ratio;
    window->next = (window->next + 1) % ROLLING_WINDOW;
    window->count = count + 1;
}

/* The 99th percentile, a lone slowest run left out, but not over SPIKE medians. */
static double window_expected(const struct window *window) {
    if (window->count == 1)
        return window->sorted[0] < FAR ? window->sorted[0] : FAR;
    double median = window->sorted[window->count / 2];
    double percentile = window->sorted[window->count - 2];
    return percentile < SPIKE * median ? percentile : SPIKE * median;
}

/* How much a window counts for itself, 0 to 1. */
static double window_trust(const struct rolling *rolling, const struct window *window) {
    double age = (double)(rolling->runs - window->last_run);
    double full = window->count < FULL_TRUST ? window->count / FULL_TRUST : 1;
    return full * (STALE_RUNS / (STALE_RUNS + age));
}

static void table_write(const struct rolling *rolling, struct profile *table) {
    double weight = PRIOR, sum = PRIOR;
    for (uint32_t b = 1; b <= rolling->batch_max; b++) {
        const struct window *window = &rolling->windows[b];
        if (!window->count)
            continue;
        double trust = window_trust(rolling, window);
        weight += trust;
        sum += trust * window->expected;
    }
    double all = sum / weight;
    for (uint32_t b = 1; b <= rolling->batch_max + 1; b++) {
        double ratio = all;
        if (b <= rolling->batch_max && rolling->windows[b].count) {
            const struct window *window = &rolling->windows[b];
            ratio += window_trust(rolling, window) * (window->expected - all);
        }
        int64_t ns = (int64_t)((double)rolling->profiled_ns[b] * ratio + 0.5);
        table->latency_ns[b] = ns > table->latency_ns[b - 1] ? ns : table->latency_ns[b - 1];
        if (table->latency_ns[b] < 1)
            table->latency_ns[b] = 1;
    }
    profile_fit(table);
}

bool rolling_add(struct rolling *rolling, uint32_t accelerator, uint32_t items, int64_t run_ns, struct profile *table) {
    CHECK_EQ(table->batch_max, rolling->batch_max);
    if (items < 1 || items > rolling->batch_max || run_ns <= 0)
        return false;
    if (is_first(rolling, accelerator, items) && (double)run_ns > FAR * (double)table->latency_ns[items])
        return false;
    struct window *window = &rolling->windows[items];
    window_add(window, (float)((double)run_ns / (double)rolling->profiled_ns[items]));
    window->last_run = ++rolling->runs;
    double expected = window_expected(window), change = expected - window->expected;
    bool grown = window->count <= FULL_TRUST;
    if (!grown && change < CHANGE * expected && -change < CHANGE * expected && rolling->runs % REWRITE_EVERY != 0)
        return false;
    window->expected = expected;
    table_write(rolling, table);
    return true;
}

bool rolling_relax(struct rolling *rolling, struct profile *table) {
    bool any = false;
    for (uint32_t b = 1; b <= rolling->batch_max; b++) {
        struct window *window = &rolling->windows[b];
        for (uint32_t i = 0; i < window->count; i++) { /* keeps the order of both */
            any |= window->ratio[i] > RELAXED;
            if (window->ratio[i] > 1)
                window->ratio[i] = (window->ratio[i] + 1) / 2;
            if (window->sorted[i] > 1)
                window->sorted[i] = (window->sorted[i] + 1) / 2;
        }
        if (window->count)
            window->expected = window_expected(window);
    }
    if (any)
        table_write(rolling, table);
    return any;
}
