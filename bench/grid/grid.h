/* grid.h - shared by the modes of bench_grid. */
#pragma once

#include <jansson.h>

#include "cells.h"
#include "sched/core/policy.h"

#define GRID_POLICIES_MAX 24
#define GRID_LINE_MOST    512 /* of a file of results */

struct grid_policy {
    const char *text; /* as given: NAME:KEY=VALUE,... */
    const struct policy_ops *ops;
    struct policy_options options;
    bool published; /* as the policy's paper or program has it */
};

struct grid {
    struct grid_policy policies[GRID_POLICIES_MAX]; /* deferred is the first */
    uint32_t policy_count;
    const struct cell_set *set;
    uint64_t draw;   /* seed of a set that is drawn */
    uint32_t *cells; /* the numbers of the cells chosen */
    uint32_t cell_count;
    const char *append, *plot; /* files, or NULL: for results, to take known ones from and append new ones; the plot */
    const char *rates;         /* file of results, or NULL: where rates are taken from */
    double seconds, within;
    double requests; /* at one rate, about: of a search's runs together, of losses' each; it lasts `seconds` at least */
    uint32_t runs;   /* at one rate, each with a seed of its own */
    uint64_t seed;
    bool json;
};

/* A mode: pieces of work done on all cores, and how they are reported. */
struct grid_mode {
    const char *name;
    uint32_t (*pieces)(const struct grid *grid);
    size_t result_bytes; /* of a piece */
    /* Before the first piece: fills in the results known already. -errno after it has printed why. May be NULL. */
    int (*begin)(struct grid *grid, void *results);
    void (*work)(const struct grid *grid, uint32_t piece, void *result);  /* any thread */
    void (*show)(const struct grid *grid, uint32_t piece, void *results); /* in order, once it is done; may print */
    /* At the end: prints the summary, fills `json`. False if the results are not as they should be. */
    bool (*summary)(const struct grid *grid, void *results, json_t *json);
};

extern const struct grid_mode grid_goodput, grid_losses, grid_below, grid_flash, grid_flood;

/* A line of a file of results, after the first one. */
struct grid_result {
    uint32_t cell;
    char policy[GRID_LINE_MOST];
    double rps;
};

/* False if a line is none. */
bool grid_result_read(const char *line, struct grid_result *result);
/* Whether a file that begins with this line has results of the same clusters, however they were found. */
bool grid_head_is_of(const struct grid *grid, const char *line);

/* Makes a chosen cell, with the settings that all runs share. */
void grid_cell(const struct grid *grid, uint32_t index, struct cell_cluster *cluster);
void grid_policy_set(const struct grid *grid, uint32_t policy, struct cell_cluster *cluster);
/* The policy of that text, or the first of that name; it must be in the grid. */
uint32_t grid_policy_find(const struct grid *grid, const char *text);
