/* measured_partitions.c - Symphony, figure 15: how evenly models can be put into sub-clusters in ten seconds. */
#include <math.h>

#include "measured.h"
#include "memory.h"
#include "runner.h"
#include "solvers.h"

#define CONFIGURATIONS 10
#define MODELS         800
#define SUBCLUSTERS    20
#define LIMIT_S        10
#define EARLY_S        0.1
#define VARIES         0.1 /* sizes of a variant, from its model's */
#define ROOM           1.5 /* limits, of the mean */

enum solver { EARLY, OURS, RANDOM, CBC, SOLVERS };

/* A configuration, and what came of it. */
struct contest {
    struct partition_model model[MODELS];
    struct partition_problem problem;
    uint32_t number;
    double limit_s;
    bool cbc;
    struct partition_score scores[SOLVERS];
};

static struct partition_model variant_draw(struct rng *rng) {
    const struct published_model *of = &published_models[rng_below(rng, PUBLISHED_MODELS)];
    double size = 1 + VARIES * (2 * rng_uniform(rng) - 1);
    double rate = 100 * rng_exponential(rng);
    return (struct partition_model){
        .rate = rate,
        .load = rate,
        .static_mb = of->static_mb * size,
        .dynamic_mb = of->dynamic_mb * size,
        .current = PARTITION_NONE,
    };
}

static void contest_draw(struct contest *contest, uint32_t number, bool quick, bool cbc) {
    struct partition_problem *problem = &contest->problem;
    struct rng rng;
    double rate = 0, memory = 0, dynamic = 0;
    *contest = (struct contest){.number = number, .limit_s = quick ? 1 : LIMIT_S, .cbc = cbc};
    *problem = (struct partition_problem){
        .subclusters = quick ? 4 : SUBCLUSTERS,
        .models = quick ? 60 : MODELS,
        .model = contest->model,
        .memory_weight = 1,
        .max_move_cost = INFINITY,
    };
    rng_seed(&rng, number);
    for (uint32_t i = 0; i < problem->models; i++) {
        contest->model[i] = variant_draw(&rng);
        rate += contest->model[i].rate;
        memory += contest->model[i].static_mb;
        dynamic = fmax(dynamic, contest->model[i].dynamic_mb);
    }
    problem->max_rate = ROOM * rate / problem->subclusters;
    problem->max_memory_mb = ROOM * memory / problem->subclusters + dynamic;
}

static void contest_do(void *argument) {
    struct contest *contest = argument;
    const struct partition_problem *problem = &contest->problem;
    annealing_solve(problem, EARLY_S, contest->limit_s, &contest->scores[EARLY], &contest->scores[OURS]);
    contest->scores[RANDOM] = random_solve(problem, contest->limit_s, contest->number);
    if (contest->cbc)
        contest->scores[CBC] = cbc_solve(problem, contest->limit_s);
}

static int by_value(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

enum measure { MEMORY, LOAD, OBJECTIVE, MEASURES };

static double measure_of(const struct partition_score *score, enum measure measure) {
    return measure == MEMORY ? score->memory : measure == LOAD ? score->rate : score->objective;
}

/* A solver's values over the configurations for which it found something, in order. Returns how many. */
static uint32_t values_of(const struct contest *contests, uint32_t count, int solver, enum measure measure,
                          double *values) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        if (contests[i].scores[solver].found)
            values[found++] = measure_of(&contests[i].scores[solver], measure);
    qsort(values, found, sizeof(*values), by_value);
    return found;
}

static double median(const double *values, uint32_t count) {
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void distribution_plot(struct plot *plot, const char *name, const double *values, uint32_t found,
                              uint32_t count) {
    struct series *series = plot_series(plot, PLOT_LINES, name);
    for (uint32_t i = 0; i < found; i++)
        plot_point(series, values[i], (i + 1.0) / count);
}

static void scores_report(struct context *c, const struct contest *contests, uint32_t count) {
    char early[64], late[64], cbc[64];
    snprintf(early, sizeof(early), "ours, %g s", EARLY_S);
    snprintf(late, sizeof(late), "ours, %g s", contests->limit_s);
    snprintf(cbc, sizeof(cbc), contests->cbc ? "cbc, %g s" : "cbc (not on the path)", contests->limit_s);
    const char *names[] = {[EARLY] = early, [OURS] = late, [RANDOM] = "random", [CBC] = cbc};
    struct plot *plots[] = {[MEMORY] = report_plot(c, "Static memory", "(max - min)/avg", "share of configurations"),
                            [LOAD] = report_plot(c, "Load", "(max - min)/avg", "share of configurations")};
    plot_logarithmic(plots[MEMORY], true, false);
    plot_logarithmic(plots[LOAD], true, false);
    report_table(
        c, "solver | found for | imbalance of memory: median | greatest | of load: median | greatest | objective: "
           "median | greatest");
    for (int solver = 0; solver < SOLVERS; solver++) {
        double values[MEASURES][CONFIGURATIONS];
        uint32_t found = 0;
        for (int measure = 0; measure < MEASURES; measure++) {
            found = values_of(contests, count, solver, measure, values[measure]);
            if (measure < OBJECTIVE)
                distribution_plot(plots[measure], names[solver], values[measure], found, count);
        }
        if (!found) {
            report_row(c, "%s | 0 of %u | - | - | - | - | - | -", names[solver], count);
            continue;
        }
        report_row(c, "%s | %u of %u | %.2g | %.2g | %.2g | %.2g | %.2g | %.2g", names[solver], found, count,
                   median(values[MEMORY], found), values[MEMORY][found - 1], median(values[LOAD], found),
                   values[LOAD][found - 1], median(values[OBJECTIVE], found), values[OBJECTIVE][found - 1]);
    }
}

/* In how many configurations ours is better; also where the other found nothing. */
static uint32_t better_count(const struct contest *contests, uint32_t count, enum solver other) {
    uint32_t better = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct partition_score *ours = &contests[i].scores[OURS], *theirs = &contests[i].scores[other];
        better += ours->found && (!theirs->found || ours->objective < theirs->objective);
    }
    return better;
}

void partitions_run(struct context *c) {
    uint32_t count = figure_quick(c) ? 2 : CONFIGURATIONS;
    bool cbc = cbc_found();
    struct contest *contests = memory_take(count * sizeof(*contests));
    for (uint32_t i = 0; i < count; i++) {
        contest_draw(&contests[i], i + 1, figure_quick(c), cbc);
        work_add(c, contest_do, &contests[i]);
    }
    simulate(c);
    report_machine(c);
    report_text(c, "%u configurations of %u models in %u sub-clusters, %g s of processor time each.", count,
                contests->problem.models, contests->problem.subclusters, contests->limit_s);
    scores_report(c, contests, count);
    uint32_t random = better_count(contests, count, RANDOM), solver = better_count(contests, count, CBC);
    report_check(c, random == count, "ours is better than the random search (in %u of %u configurations)", random,
                 count);
    if (cbc)
        report_check(c, solver == count, "ours is better than cbc, or cbc found nothing (in %u of %u configurations)",
                     solver, count);
    free(contests);
}
