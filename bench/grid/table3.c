/* table3.c - table 3 of Symphony's evaluation (arXiv 2308.07470), and the families where accelerators outnumber models.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cells.h"
#include "core/data/zoo.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const names[] = {"DenseNet121", "InceptionV3", "ResNet50V2", "VGG16", "Xception", "BERT"};
static const uint32_t models[] = {8, 16, 24, 32, 48, 64};
static const double each[] = {1, 1.5, 2, 2.5, 3, 3.5, 4}; /* accelerators a model */
static const double slos_ms[] = {20, 25, 30, 40, 50};
static const double shapes[] = {0.1, 0.2, 0.3, 0.5, 0.7, 1};

#define TABLE3_CELLS (COUNT(names) * COUNT(models) * COUNT(each) * COUNT(slos_ms) * COUNT(shapes))
/* Cell k is combination k * STRIDE. STRIDE is about the golden section of the number of combinations, so that the first
 * cells lie far apart; it shares no factor with that number, so that every combination comes once. */
#define STRIDE 4673

static void copies(struct cell_cluster *cluster, const char *name, const char *type, uint32_t count,
                   uint32_t accelerators, double slo_ms, double slo_scale) {
    const struct zoo_entry *e = zoo_find(name, type);
    if (!e) {
        fprintf(stderr, "grid: the zoo has no %s\n", name);
        exit(1);
    }
    if (slo_scale > 0)
        slo_ms = slo_scale * (e->alpha_ms + e->beta_ms);
    cell_begin(cluster, accelerators);
    for (uint32_t m = 0; m < count; m++)
        cell_add(cluster, e->alpha_ms, e->beta_ms, slo_ms);
    snprintf(cluster->name, sizeof(cluster->name), "%u x %s%s, SLO %.4g ms", count, name,
             slo_scale > 0 ? " on A100" : "", slo_ms);
}

static uint32_t table3_count(void) {
    return TABLE3_CELLS;
}

static void table3_make(struct cell_cluster *cluster, uint32_t cell, uint64_t seed) {
    (void)seed;
    uint32_t number = (uint32_t)((uint64_t)cell * STRIDE % TABLE3_CELLS);
    double shape = shapes[cell_digit(&number, COUNT(shapes))], slo_ms = slos_ms[cell_digit(&number, COUNT(slos_ms))];
    double ratio = each[cell_digit(&number, COUNT(each))];
    uint32_t count = models[cell_digit(&number, COUNT(models))];
    copies(cluster, names[number], "gtx1080ti", count, (uint32_t)(ratio * count), slo_ms, 0);
    cell_workload(cluster, shape, 0);
}

const struct cell_set cells_table3 = {.name = "table3", .enough = 0.97, .count = table3_count, .make = table3_make};

/* ---- families ---- */

static const double dense_slos_ms[] = {20, 25, 30, 35, 40, 45, 50};
static const char *const fours[] = {"DenseNet121", "ResNet101",    "EfficientNetV2B3", "EfficientNetB2",
                                    "InceptionV3", "NASNetMobile", "MobileNet",        "VGG16"};

static uint32_t family_count(void) {
    return COUNT(dense_slos_ms) + COUNT(fours);
}

static void family_make(struct cell_cluster *cluster, uint32_t cell, uint64_t seed) {
    (void)seed;
    if (cell < COUNT(dense_slos_ms))
        copies(cluster, "DenseNet121", "gtx1080ti", 8, 16, dense_slos_ms[cell], 0);
    else
        copies(cluster, fours[cell - COUNT(dense_slos_ms)], "a100", 4, 8, 0, 2.3);
    cell_workload(cluster, 1, 0);
}

const struct cell_set cells_family = {.name = "family", .enough = 0.97, .count = family_count, .make = family_make};
