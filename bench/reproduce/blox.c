/* blox.c - figures of "Implementing Inference scheduler in Blox" (Jonnavithula et al.), with our squishy bin packing.
 *
 * A job is a model with an SLO and a rate, drawn at random as in the paper, of 25 models of the GTX 1080Ti zoo. The
 * paper's FIFO gives the residue of every job a GPU of its own. */
#include "core/data/zoo.h"
#include "core/util/rng.h"
#include "core/util/time.h"
#include "plans.h"
#include "report.h"
#include "runner.h"
#include "sched/plan/squishy_fit.h"

#define MODELS     25
#define JOBS_MAX   500
#define ITERATIONS 30
#define RATE_MOST  200 /* items per second of a job */
#define SEED       1

/* For figure 6, so that 25 models take 8 GPUs. */
#define FIGURE6_SCALE   0.2 /* of the rates */
#define FIGURE6_GOES_ON 0.9 /* chance that a job is there in the next iteration, too */
#define FIGURE6_ABSENT  0.3 /* share of the models without requests in an iteration */

struct world {
    struct rng rng;
    const struct zoo_entry *entries[MODELS];
    struct profile *profiles[MODELS];
    struct squishy_session jobs[JOBS_MAX];
};

/* A model's job with a random SLO, 1.2 to 4 times the zoo's, and rate. */
static struct squishy_session job_draw(struct world *w, uint32_t model) {
    return (struct squishy_session){
        .profile = w->profiles[model],
        .batch_max = PROFILE_BATCH_MAX,
        .slo_ns = (int64_t)(w->entries[model]->slo_ms * (1.2 + 2.8 * rng_uniform(&w->rng)) * NS_PER_MS),
        .rate = RATE_MOST * rng_uniform(&w->rng),
    };
}

static struct world *world_take(void) {
    struct world *w = memory_take(sizeof(*w));
    uint32_t models = 0;
    rng_seed(&w->rng, SEED);
    for (const struct zoo_entry *e = zoo_entries; e->model && models < MODELS; e++)
        if (zoo_entry_in(e, "gtx1080ti", ZOO_ALL)) {
            w->entries[models] = e;
            w->profiles[models] = memory_take(profile_bytes(PROFILE_BATCH_MAX));
            profile_set_line(w->profiles[models++], PROFILE_BATCH_MAX, e->alpha_ms * NS_PER_MS, e->beta_ms * NS_PER_MS);
        }
    for (uint32_t j = 0; j < JOBS_MAX; j++)
        w->jobs[j] = job_draw(w, (uint32_t)rng_below(&w->rng, MODELS));
    return w;
}

static void world_give(struct world *w) {
    for (uint32_t m = 0; m < MODELS; m++)
        free(w->profiles[m]);
    free(w);
}

static uint32_t gpus_needed(const struct squishy_session *jobs, uint32_t count) {
    struct squishy plan = plan_for(jobs, count);
    uint32_t used = squishy_gpus_used(&plan);
    plan_give(&plan);
    return used;
}

/* ---- figure 4: GPUs by jobs ---- */

static void figure4_run(struct context *c) {
    static const uint32_t counts[] = {1, 10, 50, 100, 200, 300, 400, 500};
    struct world *w = world_take();
    struct plot *plot = report_plot(c, "GPUs for a number of jobs", "jobs", "GPUs");
    struct series *squishy = plot_series(plot, PLOT_LINES, "squishy"), *fifo = plot_series(plot, PLOT_LINES, "FIFO");
    double ratio = 0;
    report_table(c, "jobs | squishy: GPUs | FIFO: GPUs | squishy over FIFO published | ours");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint32_t used = gpus_needed(w->jobs, counts[i]), alone = squishy_gpus_most(w->jobs, counts[i]);
        ratio = (double)used / alone;
        report_row(c, "%u | %u | %u | %s | %.2f", counts[i], used, alone, counts[i] == 500 ? "0.50" : "-", ratio);
        plot_point(squishy, counts[i], used);
        plot_point(fifo, counts[i], alone);
    }
    report_sentence_kept(c, "4: for 500 jobs squishy packing takes half of FIFO's GPUs, or less", ratio <= 0.5,
                         "%.2f of them", ratio);
    world_give(w);
}

/* ---- figure 5: bad rate by GPUs ---- */

/* First come, first served: a job's saturated GPUs, then one for its residue. */
static double fifo_missing(const struct squishy *plan, const struct squishy_session *jobs, uint32_t count,
                           uint32_t gpus) {
    double missing = 0;
    for (uint32_t j = 0; j < count; j++) {
        const struct squishy_place *place = &plan->places[j];
        uint32_t saturated = place->saturated_due < gpus ? place->saturated_due : gpus;
        gpus -= saturated;
        double full = place->saturated_due ? (jobs[j].rate - place->residue) / place->saturated_due : 0;
        missing += (place->saturated_due - saturated) * full;
        if (place->residue > 0 && gpus > 0)
            gpus--;
        else
            missing += place->residue;
    }
    return missing;
}

/* Shares of the load for which there is no GPU. */
struct bad {
    double squishy, fifo;
};

static struct bad bad_with(const struct world *w, uint32_t count, uint32_t gpus) {
    double offered = 0, missing = 0;
    struct squishy plan = plan_take(gpus, count);
    squishy_update(&plan, w->jobs, 1);
    for (uint32_t j = 0; j < count; j++) {
        offered += w->jobs[j].rate;
        missing += squishy_missing(&plan, w->jobs, j);
    }
    struct bad bad = {missing / offered, fifo_missing(&plan, w->jobs, count, gpus) / offered};
    plan_give(&plan);
    return bad;
}

static void figure5_run(struct context *c) {
    enum { JOBS = 100 };
    struct world *w = world_take();
    uint32_t most = squishy_gpus_most(w->jobs, JOBS), needed = gpus_needed(w->jobs, JOBS);
    struct plot *plot = report_plot(c, "100 jobs", "GPUs", "bad rate, %");
    struct series *squishy = plot_series(plot, PLOT_LINES, "squishy"), *fifo = plot_series(plot, PLOT_LINES, "FIFO");
    bool less = true;
    report_table(c, "GPUs | bad rate published | squishy | FIFO");
    for (uint32_t tenths = 1; tenths <= 10; tenths++) {
        uint32_t gpus = most * tenths / 10;
        struct bad bad = bad_with(w, JOBS, gpus);
        report_row(c, "%u | %s | %.1f %% | %.1f %%", gpus,
                   tenths == 1    ? "the same"
                   : tenths == 10 ? "none"
                                  : "squishy's is less",
                   100 * bad.squishy, 100 * bad.fifo);
        plot_point(squishy, gpus, 100 * bad.squishy);
        plot_point(fifo, gpus, 100 * bad.fifo);
        less &= bad.squishy <= bad.fifo;
    }
    report_check(c, less, "squishy packing never loses more than FIFO does");
    report_check(c, 2 * needed <= most + 2, "squishy packing serves all with about half of FIFO's GPUs (%u, %u)",
                 needed, most);
    world_give(w);
}

/* ---- figure 6: models that stay on their GPU ---- */

enum placing { AT_RANDOM, BY_LOCALITY, INCREMENTAL, PLACINGS };

/* How many of the sessions on GPUs were there before: by placing and iteration. */
struct hits {
    uint32_t hits[PLACINGS][ITERATIONS], places[PLACINGS][ITERATIONS];
};

static uint32_t places_of(const struct squishy *plan) {
    uint32_t places = 0;
    for (uint32_t s = 0; s < plan->sessions; s++)
        places += plan->places[s].saturated + (plan->places[s].gpu != SQUISHY_NONE);
    return places;
}

/* GPUs numbered at random: how many sessions are where they were. */
static uint32_t hits_at_random(struct world *w, const struct squishy *to, const struct squishy *from) {
    uint32_t hits = 0, *number = memory_take(to->gpus_max * sizeof(*number));
    for (uint32_t g = 0; g < to->gpus_max; g++) {
        uint32_t with = (uint32_t)rng_below(&w->rng, g + 1);
        number[g] = number[with];
        number[with] = g;
    }
    for (uint32_t g = 0; g < to->gpus_max; g++)
        for (uint32_t s = 0; s < to->sessions; s++)
            hits += squishy_on(to, g, s) && squishy_on(from, number[g], s);
    free(number);
    return hits;
}

/* Draws the jobs of all iterations: each goes on to the next with a chance, and else another one comes in its place, or
 * none. Returns how many GPUs these need. */
static uint32_t iterations_draw(struct world *w, double goes_on, struct squishy_session jobs[ITERATIONS][MODELS]) {
    uint32_t gpus = 0;
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        for (uint32_t m = 0; m < MODELS; m++) {
            if (i > 0 && rng_uniform(&w->rng) < goes_on) {
                jobs[i][m] = jobs[i - 1][m];
                continue;
            }
            jobs[i][m] = job_draw(w, m);
            jobs[i][m].rate *= rng_uniform(&w->rng) < FIGURE6_ABSENT ? 0 : FIGURE6_SCALE;
        }
        uint32_t needed = gpus_needed(jobs[i], MODELS);
        gpus = needed > gpus ? needed : gpus;
    }
    return gpus;
}

/* Makes a new plan every time, its GPUs numbered at random or by where models were. */
static void fresh_run(struct world *w, struct squishy_session jobs[ITERATIONS][MODELS], uint32_t gpus,
                      struct hits *hits) {
    struct squishy before = plan_take(gpus, MODELS), next = plan_take(gpus, MODELS);
    uint32_t *label = memory_take(2 * gpus * sizeof(*label));
    squishy_update(&before, jobs[0], 1);
    for (uint32_t i = 1; i < ITERATIONS; i++) {
        squishy_clear(&next);
        squishy_update(&next, jobs[i], 1);
        hits->places[AT_RANDOM][i] = hits->places[BY_LOCALITY][i] = places_of(&next);
        hits->hits[AT_RANDOM][i] = hits_at_random(w, &next, &before);
        squishy_relabel(&next, &before, label);
        hits->hits[BY_LOCALITY][i] = places_of(&next) - squishy_moves(&next, &before);
        squishy_copy(&before, &next);
    }
    free(label);
    plan_give(&before);
    plan_give(&next);
}

/* Keeps the earlier plan as far as it still fits. */
static void incremental_run(struct squishy_session jobs[ITERATIONS][MODELS], uint32_t gpus, struct hits *hits) {
    struct squishy before = plan_take(gpus, MODELS), plan = plan_take(gpus, MODELS);
    squishy_update(&plan, jobs[0], 1);
    for (uint32_t i = 1; i < ITERATIONS; i++) {
        squishy_copy(&before, &plan);
        squishy_update(&plan, jobs[i], 1);
        hits->places[INCREMENTAL][i] = places_of(&plan);
        hits->hits[INCREMENTAL][i] = places_of(&plan) - squishy_moves(&plan, &before);
    }
    plan_give(&before);
    plan_give(&plan);
}

/* The share over all iterations; draws a line, if there is a plot. */
static double hit_rate(struct plot *plot, const struct hits *hits, enum placing placing, const char *name) {
    struct series *series = plot ? plot_series(plot, PLOT_LINES, name) : NULL;
    uint32_t all = 0, places = 0;
    for (uint32_t i = 1; i < ITERATIONS; i++) {
        all += hits->hits[placing][i];
        places += hits->places[placing][i];
        if (series)
            plot_point(series, i, 100.0 * hits->hits[placing][i] / hits->places[placing][i]);
    }
    return (double)all / places;
}

/* Jobs that go on with that chance; returns how many GPUs they need. */
static uint32_t hits_count(struct world *w, double goes_on, struct hits *hits) {
    struct squishy_session jobs[ITERATIONS][MODELS];
    uint32_t gpus = iterations_draw(w, goes_on, jobs);
    fresh_run(w, jobs, gpus, hits);
    incremental_run(jobs, gpus, hits);
    return gpus;
}

/* The policy in virtual time: what a placement costs. Returns whether more hits were fewer bad requests. */
static bool placements_simulate(struct context *c) {
    static const char *const placements[] = {"random", "round_robin", "local", "kept"};
    const struct outcome *at[4];
    bool better = true;
    for (int p = 0; p < 4; p++)
        at[p] = run_add(c, "scenarios/blox-placement.yaml", "run.seconds=%d; policy.placement=%s",
                        figure_quick(c) ? 120 : 870, placements[p]);
    simulate(c);
    report_table(
        c, "`placement` of the policy `nexus` | places where the model was, % | moves | each until loaded, mean ms | "
           "models loaded | bad requests, %");
    for (int p = 0; p < 4; p++) {
        const struct central_moves *m = &at[p]->placement;
        uint64_t moves = m->places - m->kept;
        report_row(c, "`%s` | %.0f | %llu | %.0f | %llu | %.2f", placements[p],
                   100.0 * (double)m->kept / (double)m->places, (unsigned long long)moves,
                   (double)m->wait_ns / NS_PER_MS / (double)(moves ? moves : 1), (unsigned long long)at[p]->loads,
                   100 * at[p]->all.bad_rate);
        better &= p == 0 || (at[p]->all.bad_rate < at[p - 1]->all.bad_rate && m->kept > at[p - 1]->placement.kept);
    }
    return better;
}

static void figure6_run(struct context *c) {
    static const char *const names[PLACINGS] = {"fresh plan, GPUs at random", "fresh plan, GPUs by locality",
                                                "incremental plan"};
    static const char *const published[PLACINGS] = {"near 15 %", "around 60 %", "-"};
    struct world *w = world_take();
    struct hits lasting, anew;
    uint32_t gpus = hits_count(w, FIGURE6_GOES_ON, &lasting), gpus_anew = hits_count(w, 0, &anew);
    struct plot *plot = report_plot(c, "25 models, 30 iterations", "iteration", "sessions where they were, %");
    double rates[PLACINGS];
    report_table(c, "sessions that are where they were | published | jobs that last | all drawn anew each time");
    for (int p = 0; p < PLACINGS; p++) {
        rates[p] = hit_rate(plot, &lasting, p, names[p]);
        report_row(c, "%s | %s | %.0f %% | %.0f %%", names[p], published[p], 100 * rates[p],
                   100 * hit_rate(NULL, &anew, p, names[p]));
    }
    report_text(c, "On %u and %u GPUs.", gpus, gpus_anew);
    bool better = placements_simulate(c);
    report_sentence_kept(c, "6: placed at random, near 15 % are on a GPU that had them",
                         rates[AT_RANDOM] > 0.135 && rates[AT_RANDOM] < 0.165, "%.0f %%", 100 * rates[AT_RANDOM]);
    report_sentence_kept(c, "6: by locality, around 60 %", rates[BY_LOCALITY] > 0.54 && rates[BY_LOCALITY] < 0.66,
                         "%.0f %%; planned incrementally %.0f %%", 100 * rates[BY_LOCALITY], 100 * rates[INCREMENTAL]);
    report_check(c, rates[INCREMENTAL] > rates[BY_LOCALITY] && better,
                 "the more stay where they were, the fewer requests are bad");
    world_give(w);
}

const struct figure blox_figures[] = {
    {"blox-fig4", "Figure 4: GPUs for a number of jobs",
     "1 to 500 random jobs. FIFO gives each job's residue a GPU of its own; squishy packing takes 50 % of its GPUs "
     "for 500 jobs.",
     "Jobs are drawn: one of 25 models of the 1080Ti zoo, an SLO of 1.2 to 4 times the zoo's, up to 200 items/s.",
     figure4_run},
    {"blox-fig5", "Figure 5: bad rate by GPUs",
     "With few GPUs Nexus and FIFO drop the same, with very many nothing; in between Nexus drops less.",
     "Figure 4's jobs. Plans alone: bad is the load for which there is no GPU.", figure5_run},
    {"blox-fig6", "Figure 6: models that stay on their GPU",
     "25 models over 30 iterations: near 15 % of models are on a GPU that had them before if placed at random, around "
     "60 % by locality.",
     "Figure 4's jobs, at a fifth of the rates. How long they last is not published: here nine of ten go on to the "
     "next iteration. Data 2: 12 accelerators with room for six models each (scenarios/blox-placement.yaml).",
     figure6_run},
    {.id = NULL},
};
