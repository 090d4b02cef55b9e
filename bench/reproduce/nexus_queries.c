/* nexus_queries.c - Nexus, figure 17: what dividing a query's SLO by its models' profiles gains over even parts. */
#include <math.h>
#include <stdlib.h>

#include "core/util/time.h"
#include "memory.h"
#include "nexus.h"
#include "sched/plan/split.h"
#include "core/data/zoo.h"

#define GAMMAS 3
#define SLOS   5
#define TURNS  2 /* an item may just miss a batch: section 4.1 */

static const double gammas[GAMMAS] = {0.1, 1, 10};
static const int slos_ms[SLOS] = {300, 350, 400, 450, 500};

static struct profile *line(double alpha_ms, double beta_ms, double slo_ms) {
    uint32_t batch_max = zoo_batch_max(alpha_ms, beta_ms, slo_ms);
    struct profile *profile = memory_take(profile_bytes(batch_max));
    profile_set_line(profile, batch_max, alpha_ms * NS_PER_MS, beta_ms * NS_PER_MS);
    return profile;
}

/* GPUs for 100 queries a second: the best and even parts; and what the first stage gets. */
static void divide(double gamma, int slo_ms, double gpus[2], double *first_ms) {
    const struct zoo_entry *inception = zoo_find("InceptionV3", "gtx1080ti");
    struct profile *profiles[2] = {line(12, 35, slo_ms), line(inception->alpha_ms, inception->beta_ms, slo_ms)};
    struct split_stage stages[2];
    struct split_part parts[2];
    void *memory = memory_take(split_bytes(2));
    for (uint32_t v = 0; v < 2; v++)
        stages[v] = (struct split_stage){.profile = profiles[v],
                                         .batch_max = profiles[v]->batch_max,
                                         .rate = v ? 100 * gamma : 100,
                                         .turns = TURNS,
                                         .after = v};
    split_best(stages, 2, slo_ms * NS_PER_MS, memory, parts);
    gpus[0] = split_gpus(parts, 2);
    *first_ms = (double)parts[0].budget_ns / NS_PER_MS;
    split_even(stages, 2, slo_ms * NS_PER_MS, parts);
    gpus[1] = split_gpus(parts, 2);
    free(memory);
    free(profiles[0]);
    free(profiles[1]);
}

void nexus17_run(struct context *c) {
    struct plot *plot = report_plot(c, "Throughput over even parts", "SLO, ms", "times");
    double least = INFINITY, most = 0;
    report_table(c, "gamma | SLO, ms | for SSD, ms | GPUs for 100 queries/s | in even parts | gain, % (published: 13 to "
                    "55)");
    for (int g = 0; g < GAMMAS; g++) {
        char name[32];
        snprintf(name, sizeof(name), "gamma %g", gammas[g]);
        struct series *series = plot_series(plot, PLOT_LINES, name);
        for (int i = 0; i < SLOS; i++) {
            double gpus[2], first_ms;
            divide(gammas[g], slos_ms[i], gpus, &first_ms);
            double gain = gpus[1] / gpus[0];
            plot_point(series, slos_ms[i], gain);
            report_row(c, "%g | %d | %.0f | %.2f | %.2f | %.0f", gammas[g], slos_ms[i], first_ms, gpus[0], gpus[1],
                       100 * (gain - 1));
            least = fmin(least, gain);
            most = fmax(most, gain);
        }
    }
    report_sentence(c, "17: with the query analyzer throughput is 13 to 55 % higher", least >= 1.13 && most <= 1.55,
                    "%.0f to %.0f %%", 100 * (least - 1), 100 * (most - 1));
    report_check(
        c, least >= 1 && most >= 1.13,
        "dividing gains everywhere, and in some case at least as much as the least published (%.0f to %.0f %%)",
        100 * (least - 1), 100 * (most - 1));
}
