/* cells.h - the grid: clusters after table 3, figure 6 and figure 7 of Symphony's evaluation (arXiv 2308.07470). */
#pragma once

#include "sim/sim.h"

#define CELL_MODELS_MAX       64
#define CELL_ACCELERATORS_MAX 64

struct cell_cluster {
    char name[128];
    struct sim_config config; /* without steps, seconds and policy */
    struct sim_model models[CELL_MODELS_MAX];
    uint8_t types[CELL_ACCELERATORS_MAX];
    void *memory; /* of the last run */
    size_t memory_bytes;
};

uint32_t cell_count(void);
/* Sets up cell number `cell`, under cell_count(). */
void cell_make(struct cell_cluster *cluster, uint32_t cell);
/* Twenty models like ResNet50 with SLOs from 25 to 100 ms on 32 accelerators. */
void cell_make_flood(struct cell_cluster *cluster);
void cell_free(struct cell_cluster *cluster);

/* Room for `bytes`, kept until cell_free(). Ends the program when memory is out. */
void *cell_memory(struct cell_cluster *cluster, size_t bytes);
/* Runs the cell's configuration as it is; the result's models stay valid until the next run. */
void cell_run(struct cell_cluster *cluster, struct sim_result *result);
/* Goodput to `within`, under config's policy. */
double cell_goodput(struct cell_cluster *cluster, double within);
