/* symphony_table2.c - Symphony, table 2: how requests reach backends if several frontends deal them out in turn. */
#include "base/rng.h"
#include "memory.h"
#include "symphony.h"

#include <math.h>

#define BACKENDS 100

/* One row. Requests come with exponential gaps, each to a frontend drawn at random; that frontend's own round robin
 * chooses the backend. The requests of every backend are counted by windows. */
struct dealing {
    double window_s, rate_rps;
    uint32_t frontends;
    double published_mean, published_deviation;
    uint32_t windows;
    double mean, deviation; /* of a backend's requests in a window */
};

static void dealing_do(void *argument) {
    struct dealing *d = argument;
    uint32_t *next = memory_take(d->frontends * sizeof(*next));
    double now_s = 0, sum = 0, squares = 0;
    struct rng rng;
    rng_seed(&rng, 1);
    for (uint32_t f = 0; f < d->frontends; f++)
        next[f] = (uint32_t)rng_below(&rng, BACKENDS);
    for (uint32_t w = 0; w < d->windows; w++) {
        uint32_t got[BACKENDS] = {0};
        for (; now_s < (w + 1) * d->window_s; now_s += rng_exponential(&rng) / d->rate_rps) {
            uint32_t *turn = &next[rng_below(&rng, d->frontends)];
            got[*turn]++;
            *turn = (*turn + 1) % BACKENDS;
        }
        for (uint32_t b = 0; b < BACKENDS; b++) {
            sum += got[b];
            squares += (double)got[b] * got[b];
        }
    }
    double count = (double)d->windows * BACKENDS;
    d->mean = sum / count;
    d->deviation = sqrt(squares / count - d->mean * d->mean);
    free(next);
}

void table2_run(struct context *c) {
    struct dealing rows[] = {
        {0.4, 10000, 1, 40, 0.753, 0, 0, 0},
        {0.4, 10000, 25, 40, 2.463, 0, 0, 0},
        {0.2, 2000, 1, 4, 0.396, 0, 0, 0},
        {0.2, 2000, 25, 4, 1.860, 0, 0, 0},
    };
    int count = sizeof(rows) / sizeof(rows[0]);
    for (int i = 0; i < count; i++) {
        rows[i].windows = figure_quick(c) ? 100 : 2000;
        work_add(c, dealing_do, &rows[i]);
    }
    simulate(c);
    struct plot *plot = report_plot(c, "Requests of a backend in a window", "", "standard deviation");
    struct series *published = plot_series(plot, PLOT_BARS, "published");
    struct series *ours = plot_series(plot, PLOT_BARS, "ours");
    report_table(c, "window, ms | requests/s | frontends | mean published | ours | deviation published | ours");
    for (int i = 0; i < count; i++) {
        const struct dealing *d = &rows[i];
        char label[64];
        snprintf(label, sizeof(label), "%gms, %u frontend%s", 1000 * d->window_s, d->frontends,
                 d->frontends > 1 ? "s" : "");
        plot_label(plot, i, label);
        plot_point(published, i, d->published_deviation);
        plot_point(ours, i, d->deviation);
        report_row(c, "%g | %g | %u | %g | %.2f | %.3f | %.3f", 1000 * d->window_s, d->rate_rps, d->frontends,
                   d->published_mean, d->mean, d->published_deviation, d->deviation);
    }
    report_check(
        c, rows[1].deviation > 2 * rows[0].deviation && rows[3].deviation > 2 * rows[2].deviation,
        "25 frontends make the deviation several times that of one (%.1f and %.1f times; published 3.3 and 4.7)",
        rows[1].deviation / rows[0].deviation, rows[3].deviation / rows[2].deviation);
}
