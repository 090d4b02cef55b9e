/* rolling.c - the window of each batch size, and the table made of them.
 *
 * What a window says is kept as a ratio to the profiled l(b). A size that ran seldom is drawn towards its neighbours'
 * ratio, and one that never ran takes it, so that a machine that became slower is believed for all sizes after a few
 * runs of some. One run far above the others of its window is an outlier until a second one confirms it. */
#include "profile/rolling.h"

#include <string.h>

#include "base/assert.h"

#define RELAXED 1.01f /* close enough to the profile */
#define OUTLIER 1.5   /* this much over the next smaller run of the window */

struct window {
    float run_ns[ROLLING_WINDOW];
    uint32_t count, next; /* runs in it; where the next goes */
    double ratio;         /* of its 99th percentile to the profiled latency */
    double above;         /* what it and the larger sizes say of that ratio together */
};

struct rolling {
    uint32_t batch_max;
    int64_t *profiled_ns;    /* [batch_max + 2] */
    struct window windows[]; /* [batch_max + 1], by items */
};

static size_t windows_bytes(uint32_t batch_max) {
    return sizeof(struct rolling) + (batch_max + 1) * sizeof(struct window);
}

size_t rolling_bytes(uint32_t batch_max) {
    return windows_bytes(batch_max) + (batch_max + 2) * sizeof(int64_t);
}

void rolling_init(struct rolling *rolling, const struct profile *profiled) {
    memset(rolling, 0, windows_bytes(profiled->batch_max));
    rolling->batch_max = profiled->batch_max;
    rolling->profiled_ns = (int64_t *)((char *)rolling + windows_bytes(profiled->batch_max));
    memcpy(rolling->profiled_ns, profiled->latency_ns, (profiled->batch_max + 2) * sizeof(int64_t));
}

/* The 99th percentile of a window, a lone outlier left out. */
static float window_percentile(const struct window *window) {
    float most = 0, second = 0;
    for (uint32_t i = 0; i < window->count; i++) {
        float run = window->run_ns[i];
        if (run >= most) {
            second = most;
            most = run;
        } else if (run > second) {
            second = run;
        }
    }
    return window->count > 1 && most > OUTLIER * second ? second : most;
}

/* An estimate after a window is added to it: believed the more, the fuller it is. */
static double estimate_add(double estimate, const struct window *window) {
    return estimate + (window->ratio - estimate) * window->count / ROLLING_WINDOW;
}

/* What the sizes at and above each one say together, from the largest down. */
static void above_estimate(struct rolling *rolling) {
    double estimate = 1;
    for (uint32_t b = rolling->batch_max; b >= 1; b--) {
        struct window *window = &rolling->windows[b];
        if (window->count > 0)
            window->above = estimate = estimate_add(estimate, window);
    }
}

static uint32_t next_run(const struct rolling *rolling, uint32_t items) {
    while (items <= rolling->batch_max && rolling->windows[items].count == 0)
        items++;
    return items <= rolling->batch_max ? items : 0;
}

/* The ratio at `items`, between what `low` and all below it say (`below`) and what `high` and all above it say; 0:
 * nothing has run on that side. */
static double ratio_between(const struct rolling *rolling, uint32_t low, double below, uint32_t high, uint32_t items) {
    if (!low || !high)
        return low ? below : high ? rolling->windows[high].above : 1;
    double part = (double)(items - low) / (double)(high - low);
    return below + part * (rolling->windows[high].above - below);
}

static void table_write(struct rolling *rolling, struct profile *table) {
    above_estimate(rolling);
    uint32_t low = 0, high = next_run(rolling, 1); /* sizes that have run, below and at or above */
    double below = 1;
    for (uint32_t b = 1; b <= rolling->batch_max + 1; b++) {
        bool ran = b == high;
        if (ran)
            high = next_run(rolling, b + 1);
        double ratio = ratio_between(rolling, low, below, high, b);
        if (ran) {
            ratio = estimate_add(ratio, &rolling->windows[b]);
            below = estimate_add(below, &rolling->windows[b]);
            low = b;
        }
        int64_t ns = (int64_t)((double)rolling->profiled_ns[b] * ratio + 0.5);
        table->latency_ns[b] = ns > table->latency_ns[b - 1] ? ns : table->latency_ns[b - 1];
        if (table->latency_ns[b] < 1)
            table->latency_ns[b] = 1;
    }
    profile_fit(table);
}

bool rolling_add(struct rolling *rolling, uint32_t items, int64_t run_ns, struct profile *table) {
    CHECK_EQ(table->batch_max, rolling->batch_max);
    if (items < 1 || items > rolling->batch_max || run_ns <= 0)
        return false;
    struct window *window = &rolling->windows[items];
    window->run_ns[window->next] = (float)run_ns;
    window->next = (window->next + 1) % ROLLING_WINDOW;
    bool grown = window->count < ROLLING_WINDOW;
    window->count += grown;
    double ratio = (double)window_percentile(window) / (double)rolling->profiled_ns[items];
    if (!grown && ratio == window->ratio)
        return false;
    window->ratio = ratio;
    table_write(rolling, table);
    return true;
}

bool rolling_relax(struct rolling *rolling, struct profile *table) {
    bool any = false;
    for (uint32_t b = 1; b <= rolling->batch_max; b++) {
        struct window *window = &rolling->windows[b];
        float profiled_ns = (float)rolling->profiled_ns[b];
        for (uint32_t i = 0; i < window->count; i++) {
            if (window->run_ns[i] <= profiled_ns * RELAXED)
                continue;
            window->run_ns[i] = (window->run_ns[i] + profiled_ns) / 2;
            any = true;
        }
        if (window->count)
            window->ratio = (double)window_percentile(window) / (double)rolling->profiled_ns[b];
    }
    if (any)
        table_write(rolling, table);
    return any;
}
