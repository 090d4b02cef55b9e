/* grid.h - what the modes of bench_grid share. */
#pragma once

#include <jansson.h>

#include "cells.h"
#include "sched/policy.h"

#define GRID_POLICIES_MAX 24

struct grid_policy {
    const char *text; /* as given: NAME:KEY=VALUE,... */
    const struct policy_ops *ops;
    struct policy_options options;
};

struct grid {
    struct grid_policy policies[GRID_POLICIES_MAX]; /* deferred is the first */
    uint32_t policy_count;
    const struct cell_set *set;
    uint64_t draw;   /* seed of a set that is drawn */
    uint32_t *cells; /* the numbers of the cells chosen */
    uint32_t cell_count;
    const char *append, *plot; /* files, or NULL: what is found is appended to, and taken from; of the distribution */
    double seconds, within;
    double requests; /* a search's runs last until about so many have come, but seconds at least */
    uint64_t seed;
    bool json;
};

/* A mode: pieces of work done on all cores, and what is said of them. */
struct grid_mode {
    const char *name, *help;
    uint32_t (*pieces)(const struct grid *grid);
    size_t result_bytes; /* of a piece */
    /* Before the first piece: fills in what is known already. -errno after it has said why. Or NULL. */
    int (*begin)(struct grid *grid, void *results);
    void (*work)(const struct grid *grid, uint32_t piece, void *result);  /* any thread */
    void (*show)(const struct grid *grid, uint32_t piece, void *results); /* in order, once it is done; a line or not */
    /* At the end: prints the summary, fills `json`; false if it is not as it should be. */
    bool (*summary)(const struct grid *grid, void *results, json_t *json);
};

extern const struct grid_mode grid_goodput, grid_below, grid_flash, grid_flood;

/* Makes a chosen cell, and sets what all runs share. */
void grid_cell(const struct grid *grid, uint32_t index, struct cell_cluster *cluster);
void grid_policy_set(const struct grid *grid, uint32_t policy, struct cell_cluster *cluster);
/* The policy of that text, or the first of that name; the grid has it. */
uint32_t grid_policy_find(const struct grid *grid, const char *text);
