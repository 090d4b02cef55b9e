/* blox.c - the experiments of "Implementing Inference scheduler in Blox" (Jonnavithula et al.), figures 4 to 6, with
 * our squishy bin packing.
 *
 * A job is a model with an SLO and a rate, drawn at random as there; 25 models of the GTX 1080Ti zoo. Their FIFO gives
 * the residue of every job a GPU of its own. */
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/time.h"
#include "plan/squishy_fit.h"
#include "profile/zoo.h"

#define MODELS     25
#define JOBS_MAX   500
#define ITERATIONS 30
#define RATE_MOST  200 /* items per second of a job */

/* Of figure 6: so that 25 models take 8 GPUs, and models at random GPUs are where they were as seldom as there. */
#define FIGURE6_SCALE  0.2 /* of the rates */
#define FIGURE6_ABSENT 0.3 /* share of the models that are not asked for in an iteration */

struct world {
    struct rng rng;
    const struct zoo_entry *entries[MODELS];
    struct profile *profiles[MODELS];
    struct squishy_session jobs[JOBS_MAX];
};

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) {
        fprintf(stderr, "blox: out of memory\n");
        exit(1);
    }
    return memory;
}

static void world_init(struct world *w, uint64_t seed) {
    uint32_t models = 0;
    rng_seed(&w->rng, seed);
    for (const struct zoo_entry *e = zoo_entries; e->model && models < MODELS; e++)
        if (zoo_entry_in(e, "gtx1080ti", ZOO_ALL)) {
            w->entries[models] = e;
            w->profiles[models] = allocate(profile_bytes(PROFILE_BATCH_MAX));
            profile_set_line(w->profiles[models++], PROFILE_BATCH_MAX, e->alpha_ms * NS_PER_MS, e->beta_ms * NS_PER_MS);
        }
}

/* A model's job with a random SLO, 1.2 to 4 times the zoo's, and rate. */
static struct squishy_session job_draw(struct world *w, uint32_t model) {
    return (struct squishy_session){
        .profile = w->profiles[model],
        .batch_max = PROFILE_BATCH_MAX,
        .slo_ns = (int64_t)(w->entries[model]->slo_ms * (1.2 + 2.8 * rng_uniform(&w->rng)) * NS_PER_MS),
        .rate = RATE_MOST * rng_uniform(&w->rng),
    };
}

static struct squishy plan_new(uint32_t gpus, uint32_t sessions) {
    struct squishy plan;
    squishy_init(&plan, allocate(squishy_bytes(gpus, sessions)), gpus, sessions, 0);
    return plan;
}

static void plan_free(struct squishy *plan) {
    free(plan->gpus); /* the first of its memory */
}

/* ---- figure 4: GPUs by jobs ---- */

static void gpus_by_jobs(struct world *w) {
    printf("Figure 4: GPUs for a number of jobs\n%6s %6s %6s %9s\n", "jobs", "Nexus", "FIFO", "Nexus/FIFO");
    for (uint32_t m = 0; m < JOBS_MAX; m++)
        w->jobs[m] = job_draw(w, (uint32_t)rng_below(&w->rng, MODELS));
    static const uint32_t counts[] = {1, 10, 50, 100, 200, 300, 400, 500};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint32_t alone = squishy_gpus_most(w->jobs, counts[i]);
        struct squishy plan = plan_new(alone, counts[i]);
        squishy_update(&plan, w->jobs, 1);
        uint32_t used = squishy_gpus_used(&plan);
        printf("%6u %6u %6u %9.2f\n", counts[i], used, alone, (double)used / alone);
        plan_free(&plan);
    }
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

static void bad_rate_by_gpus(struct world *w, uint32_t count) {
    double offered = 0;
    for (uint32_t j = 0; j < count; j++)
        offered += w->jobs[j].rate;
    printf("\nFigure 5: share of the load without a GPU, %u jobs\n%6s %6s %6s\n", count, "GPUs", "Nexus", "FIFO");
    uint32_t most = squishy_gpus_most(w->jobs, count);
    for (uint32_t tenths = 1; tenths <= 10; tenths++) {
        uint32_t gpus = most * tenths / 10;
        double missing = 0;
        struct squishy plan = plan_new(gpus, count);
        squishy_update(&plan, w->jobs, 1);
        for (uint32_t j = 0; j < count; j++)
            missing += squishy_missing(&plan, w->jobs, j);
        printf("%6u %6.3f %6.3f\n", gpus, missing / offered, fifo_missing(&plan, w->jobs, count, gpus) / offered);
        plan_free(&plan);
    }
}

/* ---- figure 6: models that are where they were ---- */

static uint32_t places_of(const struct squishy *plan) {
    uint32_t places = 0;
    for (uint32_t s = 0; s < plan->sessions; s++)
        places += plan->places[s].saturated + (plan->places[s].gpu != SQUISHY_NONE);
    return places;
}

/* GPUs numbered at random: how many sessions are where they were. */
static uint32_t hits_at_random(struct world *w, const struct squishy *to, const struct squishy *from) {
    uint32_t hits = 0, *number = allocate(to->gpus_max * sizeof(*number));
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

static uint32_t gpus_needed(const struct squishy_session *jobs) {
    struct squishy plan = plan_new(squishy_gpus_most(jobs, MODELS), MODELS);
    squishy_update(&plan, jobs, 1);
    uint32_t used = squishy_gpus_used(&plan);
    plan_free(&plan);
    return used;
}

static void hit_rates(struct world *w) {
    uint32_t gpus = 0, places = 0, random = 0, local = 0, kept_places = 0, kept = 0;
    struct squishy_session jobs[ITERATIONS][MODELS];
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        for (uint32_t m = 0; m < MODELS; m++) {
            jobs[i][m] = job_draw(w, m);
            if (rng_uniform(&w->rng) < FIGURE6_ABSENT) /* not asked for this time */
                jobs[i][m].rate = 0;
            else
                jobs[i][m].rate *= FIGURE6_SCALE;
        }
        gpus = gpus_needed(jobs[i]) > gpus ? gpus_needed(jobs[i]) : gpus;
    }
    struct squishy before = plan_new(gpus, MODELS), plan = plan_new(gpus, MODELS), next = plan_new(gpus, MODELS);
    uint32_t *label = allocate(2 * gpus * sizeof(*label));
    squishy_update(&before, jobs[0], 1);
    squishy_copy(&plan, &before);
    for (uint32_t i = 1; i < ITERATIONS; i++) {
        squishy_clear(&next);
        squishy_update(&next, jobs[i], 1);
        places += places_of(&next);
        random += hits_at_random(w, &next, &before);
        squishy_relabel(&next, &before, label);
        local += places_of(&next) - squishy_moves(&next, &before);
        squishy_copy(&before, &next);

        squishy_copy(&next, &plan); /* and incrementally, as Nexus does */
        squishy_update(&plan, jobs[i], 1);
        kept_places += places_of(&plan);
        kept += places_of(&plan) - squishy_moves(&plan, &next);
    }
    printf("\nFigure 6: sessions on a GPU that had their model before, %d models, %d iterations, %u GPUs\n"
           "  at random %.2f, by locality %.2f, incremental %.2f\n",
           MODELS, ITERATIONS, gpus, (double)random / places, (double)local / places, (double)kept / kept_places);
    free(label);
    plan_free(&before);
    plan_free(&plan);
    plan_free(&next);
}

int main(int argc, char **argv) {
    struct world *w = allocate(sizeof(*w));
    world_init(w, argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    gpus_by_jobs(w);
    bad_rate_by_gpus(w, 100);
    hit_rates(w);
    for (uint32_t m = 0; m < MODELS; m++)
        free(w->profiles[m]);
    free(w);
    return 0;
}
