/* rolling.c - keeps a window of runs for each batch size, and makes the table of these windows.
 *
 * A window gives a ratio to the profiled l(b): its 99th percentile, but at most SPIKE times its median. Where a machine
 * became slower, the median moves, and the table follows all the way. Where the machine only stalls now and then, the
 * median stays: to plan every batch for the worst stall would refuse requests most of which can be in time.
 *
 * The first run of a size on an accelerator may take a hundred times as long as the next ones: memory is allocated,
 * kernels are chosen. So a first run that takes over FAR times what the table says is left out; if the machine did
 * become slow, the next runs show it. A run that is alone in its window counts as FAR times the profile at most.
 *
 * The weight of a size's own window grows with the number of its runs and shrinks with their age; the rest of the
 * weight is that of all sizes together. So a size that never ran follows the others, and a size that was slow long ago
 * is tried again: otherwise the table, which decides what runs, would keep that size from ever being measured again.
 *
 * Relaxing halves what the windows add to the profile, at first in the table only. The next run decides: if it is
 * closer to what the windows said, they count in full again at once, since to learn them anew would take as many long
 * runs as half of a window has; if it is closer to the table, the windows' runs are halved for good. */
#include "core/data/rolling.h"

#include <math.h>
#include <string.h>

#include "core/util/assert.h"

#define SPIKE         1.5  /* greatest ratio of a window's percentile to its median */
#define FAR           2.0  /* ratio to the expected latency above which a second run must confirm the first */
#define FULL_TRUST    10.0 /* runs of a window from which on only its own ratio counts */
#define STALE_RUNS    64.0 /* runs of other sizes after which a window counts half */
#define PRIOR         0.5  /* weight of the profile in the mean of all sizes */
#define REWRITE_EVERY 32   /* runs after which the table is rewritten even if no window changed */
#define CHANGE        0.01 /* change of a ratio, relative, from which the table is rewritten */
#define RELAXED       1.01 /* ratio that is close enough to the profile */
#define PAIRS_MOST    65536

/* The runs of a window. They are not cleared, and take memory only once a batch of that size has run: of thousands of
 * models, most run few sizes. */
struct window_runs {
    float ratio[ROLLING_WINDOW];  /* ratios of runs to the profiled latency, as they came */
    float sorted[ROLLING_WINDOW]; /* ratios of the window's runs, ascending */
};

struct window {
    uint32_t count, next; /* number of runs in the window; place of the next run in `ratio` */
    uint64_t last_run;    /* value of rolling.runs at the last run */
    double expected;      /* ratio that the window gives; 0: no run yet */
};

struct rolling {
    uint32_t batch_max, pairs; /* greatest batch; number of bits of `begun` */
    int halvings;              /* how often the table was relaxed since the last run */
    uint64_t runs;             /* number of runs of all sizes */
    int64_t *profiled_ns;      /* [batch_max + 2] profiled latencies */
    uint64_t *begun;           /* pairs of accelerator and size that ran, a bit each: the first `begun_words` words */
    uint32_t begun_words;      /* the others take memory only once such an accelerator runs a batch */
    struct window_runs *of;    /* [batch_max + 1] runs of the windows, the first `count` of each */
    struct window windows[];   /* [batch_max + 1] windows by batch size */
};

/* The number of pairs of accelerator and size, at most PAIRS_MOST. If there are more, several pairs share a bit, and a
 * first run may be taken for a later one. */
static uint32_t pairs_of(uint32_t batch_max, uint32_t accelerators) {
    uint64_t pairs = (uint64_t)batch_max * accelerators;
    return pairs < 1 ? 1 : pairs < PAIRS_MOST ? (uint32_t)pairs : PAIRS_MOST;
}

static size_t windows_bytes(uint32_t batch_max) {
    return sizeof(struct rolling) + (batch_max + 1) * sizeof(struct window);
}

static size_t begun_bytes(uint32_t batch_max, uint32_t accelerators) {
    return (pairs_of(batch_max, accelerators) + 63) / 64 * sizeof(uint64_t);
}

size_t rolling_bytes(uint32_t batch_max, uint32_t accelerators) {
    return windows_bytes(batch_max) + (batch_max + 2) * sizeof(int64_t) + begun_bytes(batch_max, accelerators) +
           (batch_max + 1) * sizeof(struct window_runs);
}

void rolling_init(struct rolling *rolling, const struct profile *profiled, uint32_t accelerators) {
    memset(rolling, 0, windows_bytes(profiled->batch_max));
    rolling->batch_max = profiled->batch_max;
    rolling->pairs = pairs_of(profiled->batch_max, accelerators);
    rolling->profiled_ns = (int64_t *)((char *)rolling + windows_bytes(profiled->batch_max));
    rolling->begun = (uint64_t *)(rolling->profiled_ns + profiled->batch_max + 2);
    rolling->of = (struct window_runs *)((char *)rolling->begun + begun_bytes(profiled->batch_max, accelerators));
    memcpy(rolling->profiled_ns, profiled->latency_ns, (profiled->batch_max + 2) * sizeof(int64_t));
}

int64_t rolling_profiled_ns(const struct rolling *rolling, uint32_t items) {
    CHECK_LE(items, rolling->batch_max);
    return rolling->profiled_ns[items];
}

/* Adds a run to a window, in both orders; takes the oldest run out of a full window first. */
static void window_add(struct window *window, struct window_runs *runs, float ratio) {
    float *sorted = runs->sorted;
    uint32_t count = window->count, at = 0;
    if (count == ROLLING_WINDOW) {
        while (sorted[at] != runs->ratio[window->next])
            at++;
        memmove(&sorted[at], &sorted[at + 1], (count - at - 1) * sizeof(*sorted));
        count--;
    }
    for (at = count; at > 0 && sorted[at - 1] > ratio; at--)
        sorted[at] = sorted[at - 1];
    sorted[at] = ratio;
    runs->ratio[window->next] = ratio;
    window->next = (window->next + 1) % ROLLING_WINDOW;
    window->count = count + 1;
}

/* The window's 99th percentile, which leaves the slowest run out, but at most SPIKE medians. */
static double window_expected(const struct window *window, const struct window_runs *runs) {
    if (window->count == 1)
        return runs->sorted[0] < FAR ? runs->sorted[0] : FAR;
    double median = runs->sorted[window->count / 2];
    double percentile = runs->sorted[window->count - 2];
    return percentile < SPIKE * median ? percentile : SPIKE * median;
}

/* A ratio after so many halvings; less than 0: before them. */
static double relaxed(double ratio, int halvings) {
    return ratio > 1 ? 1 + ldexp(ratio - 1, -halvings) : ratio;
}

/* The weight of a window's own ratio, 0 to 1. */
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
        int64_t ns = (int64_t)((double)rolling->profiled_ns[b] * relaxed(ratio, rolling->halvings) + 0.5);
        table->latency_ns[b] = ns > table->latency_ns[b - 1] ? ns : table->latency_ns[b - 1];
        if (table->latency_ns[b] < 1)
            table->latency_ns[b] = 1;
    }
    profile_fit(table);
}

/* Halves the windows' runs as often as the table was. */
static void halve(struct rolling *rolling) {
    for (uint32_t b = 1; b <= rolling->batch_max; b++) {
        struct window *window = &rolling->windows[b];
        struct window_runs *runs = &rolling->of[b];
        for (uint32_t i = 0; i < window->count; i++) { /* keeps the order of `ratio` and `sorted` */
            runs->ratio[i] = (float)relaxed((double)runs->ratio[i], rolling->halvings);
            runs->sorted[i] = (float)relaxed((double)runs->sorted[i], rolling->halvings);
        }
        if (window->count)
            window->expected = window_expected(window, runs);
    }
}

bool rolling_add(struct rolling *rolling, uint32_t accelerator, uint32_t items, int64_t run_ns, struct profile *table) {
    CHECK_EQ(table->batch_max, rolling->batch_max);
    if (items < 1 || items > rolling->batch_max || run_ns <= 0)
        return false;
    uint64_t pair = ((uint64_t)accelerator * rolling->batch_max + items - 1) % rolling->pairs, bit = 1ULL << pair % 64;
    while (rolling->begun_words <= pair / 64)
        rolling->begun[rolling->begun_words++] = 0;
    bool first = !(rolling->begun[pair / 64] & bit); /* the first run of this size on this accelerator */
    rolling->begun[pair / 64] |= bit;
    if (first && (double)run_ns > FAR * (double)table->latency_ns[items])
        return false;
    struct window *window = &rolling->windows[items];
    double profiled_ns = (double)rolling->profiled_ns[items], ratio = (double)run_ns / profiled_ns;
    double now = (double)table->latency_ns[items] / profiled_ns;
    bool was_relaxed = rolling->halvings > 0;
    if (was_relaxed && ratio < (now + relaxed(now, -rolling->halvings)) / 2)
        halve(rolling);
    rolling->halvings = 0;
    window_add(window, &rolling->of[items], (float)ratio);
    window->last_run = ++rolling->runs;
    double expected = window_expected(window, &rolling->of[items]), change = expected - window->expected;
    bool grown = window->count <= FULL_TRUST;
    if (!was_relaxed && !grown && change < CHANGE * expected && -change < CHANGE * expected &&
        rolling->runs % REWRITE_EVERY != 0)
        return false;
    window->expected = expected;
    table_write(rolling, table);
    return true;
}

bool rolling_relax(struct rolling *rolling, struct profile *table) {
    bool any = false;
    for (uint32_t b = 1; b <= rolling->batch_max; b++)
        any |= relaxed(rolling->windows[b].expected, rolling->halvings) > RELAXED;
    if (!any)
        return false;
    rolling->halvings++;
    table_write(rolling, table);
    return true;
}
