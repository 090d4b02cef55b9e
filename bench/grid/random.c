/* random.c - clusters drawn at random, on which no policy was tuned. */
#include <stdio.h>

#include "core/util/rng.h"
#include "cells.h"
#include "core/data/zoo.h"

#define MODELS_MOST       30
#define ACCELERATORS_MOST 48
#define RATIO_MOST        8 /* accelerators for two models, or models for two accelerators */
#define SLO_LEAST         1.8
#define SLO_MOST          7 /* times what a lone request takes */
#define RPS_LEAST         500

static const double shapes[] = {1, 0, 0.5, 0.3, 0.1};
static const double zipfs[] = {0, 0.9};
static const char *const types[] = {"gtx1080ti", "a100"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct zoo_entry *entry_draw(struct rng *rng, const char *type) {
    uint32_t count = 0;
    for (const struct zoo_entry *e = zoo_entries; e->model; e++)
        count += zoo_entry_in(e, type, ZOO_ALL);
    uint32_t left = (uint32_t)rng_below(rng, count);
    for (const struct zoo_entry *e = zoo_entries;; e++)
        if (zoo_entry_in(e, type, ZOO_ALL) && left-- == 0)
            return e;
}

static double slo_draw(struct rng *rng) {
    return SLO_LEAST + (SLO_MOST - SLO_LEAST) * rng_uniform(rng);
}

static void draw(struct rng *rng, struct cell_cluster *cluster) {
    const char *type = types[rng_below(rng, COUNT(types))];
    bool alike = rng_below(rng, 2);
    uint32_t models = 1 + (uint32_t)rng_below(rng, MODELS_MOST), ratio = 1 + (uint32_t)rng_below(rng, RATIO_MOST);
    uint32_t accelerators = rng_below(rng, 2) ? (models * ratio + 1) / 2 : (2 * models + ratio - 1) / ratio;
    double shape = shapes[rng_below(rng, COUNT(shapes))], zipf = models > 1 ? zipfs[rng_below(rng, COUNT(zipfs))] : 0;
    const struct zoo_entry *e = entry_draw(rng, type);
    double slo = slo_draw(rng);
    cell_begin(cluster, accelerators < ACCELERATORS_MOST ? accelerators : ACCELERATORS_MOST);
    for (uint32_t m = 0; m < models; m++) {
        cell_add(cluster, e->alpha_ms, e->beta_ms, slo * (e->alpha_ms + e->beta_ms));
        if (alike)
            continue;
        e = entry_draw(rng, type);
        slo = slo_draw(rng);
    }
    if (alike)
        snprintf(cluster->name, sizeof(cluster->name), "%u x %s %s, SLO x%.1f", models, type, e->model, slo);
    else
        snprintf(cluster->name, sizeof(cluster->name), "%u of %s, SLO x1.8 to 7", models, type);
    cell_workload(cluster, shape, zipf);
}

static void random_make(struct cell_cluster *cluster, uint32_t cell, uint64_t seed) {
    cell_drawn(cluster, cell, seed, draw, RPS_LEAST);
}

const struct cell_set cells_random = {.name = "random", .enough = 0.97, .rps_least = RPS_LEAST, .make = random_make};
