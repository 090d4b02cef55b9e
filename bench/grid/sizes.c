/* sizes.c - clusters drawn at random whose requests have up to 1,000 items, and whose accelerators are of several
 * types. No policy was tuned on them. */
#include <stdio.h>

#include "cells.h"
#include "core/data/zoo.h"
#include "core/util/container.h"
#include "core/util/rng.h"

#define MODELS_MOST    8
#define EACH_MOST      6   /* accelerators of a type */
#define SLO_LEAST      1.3 /* times what the largest request takes on the fastest type */
#define SLO_MOST       4
#define FEW_ITEMS_MOST 32 /* of a request to a model of which only the line is known */
#define RPS_LEAST      100

static const double shapes[] = {1, 0.5, 0.3};
static const char *const kairos_types[] = {"g4dn.xlarge", "c5n.2xlarge", "r5n.large", "t3.xlarge"};
static const char *const gpu_types[] = {"a100", "gtx1080ti"};

/* A model as all types run it, with batches of up to batch_max items. Its profiles stay the cluster's. */
static void profiles_set(struct cell_cluster *cluster, struct sim_model *model, const char *name,
                         const char *const *types) {
    for (uint32_t t = 0; t < cluster->config.types; t++) {
        const struct zoo_entry *e = zoo_find(name, types[t]);
        struct profile *profile = cell_profile(model->batch_max);
        if (e->points)
            profile_set_points(profile, model->batch_max, e->batch, e->latency_ns, e->points);
        else
            profile_set_line(profile, model->batch_max, e->alpha_ms * NS_PER_MS, e->beta_ms * NS_PER_MS);
        model->profiles[t] = profile;
    }
}

/* A model that both types of a kind have, of those of the first one. */
static const char *model_draw(struct rng *rng, const char *const *types) {
    uint32_t count = 0;
    for (int round = 0;; round++) {
        uint32_t left = round ? (uint32_t)rng_below(rng, count) : UINT32_MAX;
        for (const struct zoo_entry *e = zoo_entries; e->model; e++) {
            if (!zoo_entry_in(e, types[0], ZOO_ALL) || !zoo_find(e->model, types[1]))
                continue;
            if (round && left-- == 0)
                return e->model;
            count += !round;
        }
    }
}

static void draw(struct rng *rng, struct cell_cluster *cluster) {
    bool kairos = rng_below(rng, 2);
    const char *const *types = kairos ? kairos_types : gpu_types;
    uint32_t type_count = 1 + (uint32_t)rng_below(rng, kairos ? ARRAY_COUNT(kairos_types) : ARRAY_COUNT(gpu_types));
    uint32_t each[ARRAY_COUNT(kairos_types)] = {0}, accelerators = 0;
    for (uint32_t t = 0; t < type_count; t++)
        accelerators += each[t] = 1 + (uint32_t)rng_below(rng, EACH_MOST);
    cell_begin(cluster, accelerators);
    cluster->config.types = type_count;
    /* Types are numbered from either end: the fastest has the lowest numbers, or the highest. */
    bool slow_first = rng_below(rng, 2);
    for (uint32_t a = 0, i = 0; i < type_count; i++) {
        uint32_t t = slow_first ? type_count - 1 - i : i;
        for (uint32_t k = 0; k < each[t]; k++)
            cluster->types[a++] = (uint8_t)t;
    }
    uint32_t models = 1 + (uint32_t)rng_below(rng, MODELS_MOST);
    uint32_t items_least = 1, items_most = 1 + (uint32_t)rng_below(rng, kairos ? 1000 : FEW_ITEMS_MOST);
    bool alike = rng_below(rng, 4) == 0; /* all requests of a model have the same number of items */
    for (uint32_t m = 0; m < models; m++) {
        struct sim_model *model = &cluster->models[cluster->config.model_count++];
        const char *name = model_draw(rng, types);
        double slo = SLO_LEAST + (SLO_MOST - SLO_LEAST) * rng_uniform(rng);
        *model = (struct sim_model){.batch_max = kairos ? PROFILE_BATCH_MAX : 4 * FEW_ITEMS_MOST, .share = 1};
        profiles_set(cluster, model, name, types);
        model->items_most = items_most;
        model->items_least = alike ? items_most : items_least;
        model->slo_ns = (int64_t)(slo * (double)model->profiles[0]->latency_ns[items_most]);
        snprintf(model->name, sizeof(model->name), "%u", m + 1);
    }
    snprintf(cluster->name, sizeof(cluster->name), "%u of %s, %u types, %u to %u items", models,
             kairos ? "kairos" : "symphony", type_count, alike ? items_most : items_least, items_most);
    cell_workload(cluster, shapes[rng_below(rng, ARRAY_COUNT(shapes))], models > 1 && rng_below(rng, 2) ? 0.9 : 0);
}

static void sizes_make(struct cell_cluster *cluster, uint32_t cell, uint64_t seed) {
    cell_drawn(cluster, cell, seed, draw, RPS_LEAST);
}

const struct cell_set cells_sizes = {
    .name = "sizes", .enough = 0.97, .rps_least = RPS_LEAST, .several_types = true, .make = sizes_make};
