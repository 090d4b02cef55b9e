/* cells.c - the grid's cells by number: all combinations of the values listed here that make sense. */
#include "cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/sim/goodput.h"
#include "core/data/zoo.h"
#include "core/util/rng.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SECONDS_MOST 200
#define RPS_MOST     50000 /* of a drawn cluster: runs should be short */

static const double shapes[] = {1, 0.3, 0.1}; /* of the gaps' gamma distribution; 1 is Poisson */
static const double zipfs[] = {0, 0.9};       /* popularity; 0: equal */

/* The whole zoos. */
static const struct {
    const char *type, *set_name;
    enum zoo_set set;
} zoos[] = {
    {"gtx1080ti", "all", ZOO_ALL}, {"gtx1080ti", "beta/alpha > 2", ZOO_GT2}, {"gtx1080ti", "beta/alpha < 2", ZOO_LT2},
    {"a100", "all", ZOO_ALL},      {"a100", "beta/alpha > 2", ZOO_GT2},      {"a100", "beta/alpha < 2", ZOO_LT2},
};
static const uint32_t zoo_accelerators[] = {16, 64};
static const double zoo_slo_scales[] = {1, 2};

/* Copies of one model. */
static const char *const names[] = {"DenseNet121", "InceptionV3", "ResNet50V2", "VGG16", "Xception", "BERT"};
static const double slos_ms[] = {20, 30, 50};
static const struct { uint32_t models, accelerators; } sizes[] = {{1, 8}, {8, 8}, {8, 24}, {24, 36}};

static void *memory_or_end(void *memory) {
    if (!memory) {
        fprintf(stderr, "grid: out of memory\n");
        exit(1);
    }
    return memory;
}

void cell_add(struct cell_cluster *cluster, double alpha_ms, double beta_ms, double slo_ms) {
    struct sim_model *model = &cluster->models[cluster->config.model_count++];
    memory_or_end(sim_model_line(model, alpha_ms, beta_ms, slo_ms) ? model : NULL);
    snprintf(model->name, sizeof(model->name), "%u", cluster->config.model_count);
}

void cell_begin(struct cell_cluster *cluster, uint32_t accelerators) {
    memset(cluster, 0, sizeof(*cluster));
    cluster->config = (struct sim_config){
        .models = cluster->models,
        .accelerator_type = cluster->types,
        .accelerators = accelerators,
        .types = 1,
        .warmup_s = 3,
        .seed = 1,
    };
}

void cell_workload(struct cell_cluster *cluster, double shape, double zipf) {
    char arrivals[32] = "Poisson";
    cluster->config.arrivals = shape <= 0 ? SIM_UNIFORM : shape < 1 ? SIM_GAMMA : SIM_POISSON;
    cluster->config.gamma_shape = shape;
    if (zipf > 0)
        sim_shares_zipf(cluster->models, cluster->config.model_count, zipf);
    if (shape <= 0)
        snprintf(arrivals, sizeof(arrivals), "regular");
    else if (shape < 1)
        snprintf(arrivals, sizeof(arrivals), "gamma %g", shape);
    size_t at = strlen(cluster->name);
    snprintf(cluster->name + at, sizeof(cluster->name) - at, ", %u acc., %s%s", cluster->config.accelerators, arrivals,
             zipf > 0 ? ", zipf" : "");
}

uint32_t cell_digit(uint32_t *number, size_t base) {
    uint32_t value = *number % (uint32_t)base;
    *number /= (uint32_t)base;
    return value;
}

#define ZOO_CELLS  (COUNT(zoos) * COUNT(zoo_accelerators) * COUNT(zoo_slo_scales) * COUNT(shapes) * COUNT(zipfs))
#define COPY_CELLS (COUNT(names) * COUNT(slos_ms) * COUNT(sizes) * COUNT(shapes) * COUNT(zipfs))
#define MIX_CELLS  (COUNT(shapes) * COUNT(zipfs))

/* One of the ZOO_CELLS, all of which make sense; makes it if `cluster` is given. */
static bool zoo_cell(uint32_t number, struct cell_cluster *cluster) {
    double zipf = zipfs[cell_digit(&number, COUNT(zipfs))], shape = shapes[cell_digit(&number, COUNT(shapes))];
    double scale = zoo_slo_scales[cell_digit(&number, COUNT(zoo_slo_scales))];
    uint32_t accelerators = zoo_accelerators[cell_digit(&number, COUNT(zoo_accelerators))];
    if (!cluster)
        return true;
    cell_begin(cluster, accelerators);
    for (const struct zoo_entry *e = zoo_entries; e->model; e++)
        if (zoo_entry_in(e, zoos[number].type, zoos[number].set))
            cell_add(cluster, e->alpha_ms, e->beta_ms, scale * e->slo_ms);
    snprintf(cluster->name, sizeof(cluster->name), "%s %s, SLO x%g", zoos[number].type, zoos[number].set_name, scale);
    cell_workload(cluster, shape, zipf);
    return true;
}

/* One of the COPY_CELLS. False if it makes no sense: the SLO leaves no time for batches, or popularity means nothing
 * with one model. */
static bool copy_cell(uint32_t number, struct cell_cluster *cluster) {
    double zipf = zipfs[cell_digit(&number, COUNT(zipfs))], shape = shapes[cell_digit(&number, COUNT(shapes))];
    uint32_t size = cell_digit(&number, COUNT(sizes)), models = sizes[size].models;
    double slo_ms = slos_ms[cell_digit(&number, COUNT(slos_ms))];
    const struct zoo_entry *e = zoo_find(names[number], "gtx1080ti");
    if (!e || 4 * e->alpha_ms + e->beta_ms > slo_ms || (models == 1 && zipf > 0))
        return false;
    if (!cluster)
        return true;
    cell_begin(cluster, sizes[size].accelerators);
    for (uint32_t m = 0; m < models; m++)
        cell_add(cluster, e->alpha_ms, e->beta_ms, slo_ms);
    snprintf(cluster->name, sizeof(cluster->name), "%u x %s, SLO %g ms", models, names[number], slo_ms);
    cell_workload(cluster, shape, zipf);
    return true;
}

static void mix_make(struct cell_cluster *cluster, double slo_least_ms) {
    cell_begin(cluster, 32);
    for (int m = 0; m < 20; m++)
        cell_add(cluster, 1.053, 5.072, slo_least_ms + (100 - slo_least_ms) * m / 19);
    snprintf(cluster->name, sizeof(cluster->name), "20 x ResNet50, SLO %g to 100 ms", slo_least_ms);
}

static bool mix_cell(uint32_t number, struct cell_cluster *cluster) {
    if (!cluster)
        return true;
    double zipf = zipfs[cell_digit(&number, COUNT(zipfs))];
    mix_make(cluster, 15);
    cell_workload(cluster, shapes[number], zipf);
    return true;
}

static bool cell_try(uint32_t number, struct cell_cluster *cluster) {
    if (number < ZOO_CELLS)
        return zoo_cell(number, cluster);
    number -= ZOO_CELLS;
    return number < COPY_CELLS ? copy_cell(number, cluster) : mix_cell(number - COPY_CELLS, cluster);
}

static uint32_t grid_count(void) {
    uint32_t count = 0;
    for (uint32_t number = 0; number < ZOO_CELLS + COPY_CELLS + MIX_CELLS; number++)
        count += cell_try(number, NULL);
    return count;
}

static void grid_make(struct cell_cluster *cluster, uint32_t cell, uint64_t seed) {
    uint32_t number = 0;
    (void)seed;
    while (!cell_try(number, NULL) || cell-- > 0)
        number++;
    cell_try(number, cluster);
}

const struct cell_set cells_grid = {.name = "grid", .enough = 0.98, .count = grid_count, .make = grid_make};

void cell_make_flood(struct cell_cluster *cluster) {
    mix_make(cluster, 25);
}

void cell_free(struct cell_cluster *cluster) {
    for (uint32_t m = 0; m < cluster->config.model_count; m++)
        for (uint32_t t = 0; t < cluster->config.types; t++)
            free((void *)cluster->models[m].profiles[t]);
    free(cluster->memory);
}

void cell_drawn(struct cell_cluster *cluster, uint32_t cell, uint64_t seed, cell_draw *draw, double rps_least) {
    struct rng rng;
    rng_seed(&rng, seed * 0x9e3779b97f4a7c15ULL + cell);
    for (;;) {
        draw(&rng, cluster);
        double rps = goodput_guess(&cluster->config);
        if (rps >= rps_least && rps <= RPS_MOST)
            return;
        cell_free(cluster);
    }
}

struct profile *cell_profile(uint32_t batch_max) {
    return memory_or_end(malloc(profile_bytes(batch_max)));
}

void *cell_memory(struct cell_cluster *cluster, size_t bytes) {
    if (bytes > cluster->memory_bytes) {
        free(cluster->memory);
        cluster->memory = memory_or_end(malloc(bytes));
        cluster->memory_bytes = bytes;
    }
    return cluster->memory;
}

void cell_run(struct cell_cluster *cluster, struct sim_result *result) {
    sim_run(&cluster->config, cell_memory(cluster, sim_bytes(&cluster->config)), result);
}

double cell_seconds(double requests, double least_s, double rps) {
    double seconds = requests / rps;
    return seconds < least_s ? least_s : seconds < SECONDS_MOST ? seconds : SECONDS_MOST;
}

struct search {
    struct cell_cluster *cluster;
    double requests;
    uint32_t runs;
    void *memory;
    uint64_t *bad, *offered; /* [models] of the runs at one rate so far */
};

/* Whether no model has lost over 1 % once all runs are done (`share` is 1), or too much for that before. */
static bool few_bad(const struct search *search, double share) {
    double most = share < 1 ? GOODPUT_GIVE_UP_BAD / share : GOODPUT_BAD_MOST;
    for (uint32_t m = 0; m < search->cluster->config.model_count; m++)
        if ((double)search->bad[m] > most * (double)search->offered[m])
            return false;
    return true;
}

static int search_holds(void *context, double rps) {
    struct search *search = context;
    struct sim_rate_step step = {0, rps};
    struct sim_config run = search->cluster->config;
    run.steps = &step;
    run.step_count = 1;
    run.give_up_bad = GOODPUT_GIVE_UP_BAD * search->runs;
    run.seconds = cell_seconds(search->requests / search->runs, run.seconds, rps);
    memset(search->bad, 0, run.model_count * sizeof(*search->bad));
    memset(search->offered, 0, run.model_count * sizeof(*search->offered));
    for (uint32_t i = 1; i <= search->runs; i++, run.seed++) {
        struct sim_result result;
        sim_run(&run, search->memory, &result);
        for (uint32_t m = 0; m < run.model_count; m++) {
            search->bad[m] += result.models[m].offered - result.models[m].good;
            search->offered[m] += result.models[m].offered;
        }
        if (result.gave_up || !result.good || !few_bad(search, (double)i / search->runs))
            return 0;
    }
    return 1;
}

double cell_goodput(struct cell_cluster *cluster, double requests, uint32_t runs, double within) {
    uint32_t models = cluster->config.model_count;
    double guess_rps = goodput_guess(&cluster->config);
    struct search search = {cluster, requests, runs,
                            .memory = cell_memory(cluster, goodput_bytes(&cluster->config, guess_rps)),
                            .bad = memory_or_end(calloc(models, sizeof(*search.bad))),
                            .offered = memory_or_end(calloc(models, sizeof(*search.offered)))};
    double rps = goodput_search(search_holds, &search, guess_rps, within, guess_rps * GOODPUT_GUESS_TIMES_MOST);
    free(search.bad);
    free(search.offered);
    return rps;
}
