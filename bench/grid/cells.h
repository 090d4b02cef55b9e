/* cells.h - the sets of clusters that bench_grid runs, and one such cluster. */
#pragma once

#include "core/util/rng.h"
#include "lab/sim/sim.h"

#define CELL_MODELS_MAX       64
#define CELL_ACCELERATORS_MAX 256

struct cell_cluster {
    char name[128];
    struct sim_config config; /* without steps, seconds and policy */
    struct sim_model models[CELL_MODELS_MAX];
    uint8_t types[CELL_ACCELERATORS_MAX];
    void *memory; /* of the last run */
    size_t memory_bytes;
};

/* Clusters by number. */
struct cell_set {
    const char *name;
    double enough;           /* deferred should reach this part of the best other policy in every cell */
    double rps_least;        /* a cell counts only if some policy answers so many requests a second */
    bool several_types;      /* there are cells with accelerators of several types */
    uint32_t (*count)(void); /* NULL: there is any number */
    /* Sets up cell number `cell`; `seed` is for sets that are drawn. */
    void (*make)(struct cell_cluster *cluster, uint32_t cell, uint64_t seed);
};

/* After table 3, figure 6 and figure 7 of Symphony's evaluation (arXiv 2308.07470): the first set that policies were
 * tested on. */
extern const struct cell_set cells_grid;
/* All of its table 3, 7560 cells. The first N of them are an even sample, for any N. */
extern const struct cell_set cells_table3;
/* Two families in which accelerators outnumber models. */
extern const struct cell_set cells_family;
/* Drawn at random: 1 to 30 models of either zoo, copies of one or mixed; 1 to 8 accelerators for every two models, or 1
 * to 8 models for every two accelerators, 48 at most; SLOs of 1.8 to 7 times what a lone request takes; Poisson,
 * regular or gamma distributed gaps of shape 0.5, 0.3 or 0.1; equal popularity or Zipf's. A cluster that could answer
 * less than 500 requests/s or more than 50,000 is drawn again: a percent of few requests says little, and runs should
 * be short. */
extern const struct cell_set cells_random;
/* Drawn at random: 1 to 8 models of Kairos's or of both Symphony zoos, on 1 to 4 types of accelerators, 1 to 6 of each;
 * requests of 1 to n items, n up to 1,000 (32 where only a line is known), or all of n; SLOs of 1.3 to 4 times what the
 * largest request takes on the fastest type; Poisson or gamma distributed gaps of shape 0.5 or 0.3; equal popularity or
 * Zipf's. Drawn again unless they could answer 100 to 50,000 requests/s. */
extern const struct cell_set cells_sizes;

/* Twenty models like ResNet50 with SLOs from 25 to 100 ms on 32 accelerators. */
void cell_make_flood(struct cell_cluster *cluster);
void cell_free(struct cell_cluster *cluster);

/* For sets. They begin an empty cluster; add a model; then set how requests come, and add that to the name. shape: of
 * the gaps' gamma distribution, 1 for Poisson, 0 for regular gaps. zipf: exponent of the popularity, 0 for equal. */
void cell_begin(struct cell_cluster *cluster, uint32_t accelerators);
void cell_add(struct cell_cluster *cluster, double alpha_ms, double beta_ms, double slo_ms);
void cell_workload(struct cell_cluster *cluster, double shape, double zipf);
/* For sets that are drawn: draws until the cluster could answer rps_least to 50,000 requests/s. */
typedef void cell_draw(struct rng *rng, struct cell_cluster *cluster);
void cell_drawn(struct cell_cluster *cluster, uint32_t cell, uint64_t seed, cell_draw *draw, double rps_least);
/* Room for a profile; cell_free() frees the profiles of the cluster's models. Ends the program if there is none. */
struct profile *cell_profile(uint32_t batch_max);
/* Takes the next digit, under `base`, off a number. */
uint32_t cell_digit(uint32_t *number, size_t base);

/* Memory of `bytes`, kept until cell_free(). Ends the program if there is none. */
void *cell_memory(struct cell_cluster *cluster, size_t bytes);
/* Runs the cell's configuration as it is; the result's models stay valid until the next run. */
void cell_run(struct cell_cluster *cluster, struct sim_result *result);
/* How long a run at a rate lasts: about so many requests, but from `least_s` to 200 s. A few seconds of a few hundred
 * bursty requests a second would say little. */
double cell_seconds(double requests, double least_s, double rps);
/* Goodput to `within`, under config's policy. A rate is tried by so many runs, with seeds of their own, which are
 * counted together. They have about `requests` together, but each lasts config's seconds at the least. */
double cell_goodput(struct cell_cluster *cluster, double requests, uint32_t runs, double within);
