/* scenario_sections.h - the larger sections of a scenario file. For scenario.c, which calls them in this order. */
#pragma once

#include "core/util/conf.h"
#include "lab/scenario/scenario.h"

#define ACCELERATORS_MAX 1000000
#define SECONDS_MAX      1e7
#define SLO_MS_MAX       3.6e6

/* Reads the cluster, `node`. If it names no accelerators, those of `models` are taken. */
int scenario_read_cluster(const struct conf_node *node, const struct conf_node *models, struct scenario *s,
                          struct sy_error *err);
int scenario_read_models(const struct conf_node *node, struct scenario *s, struct sy_error *err);
/* Makes room for the pipelines, before the models are read: with pipelines, models need no SLOs. */
int scenario_take_pipelines(const struct conf_node *node, struct scenario *s, struct sy_error *err);
/* Reads the pipelines, `node`. An error names a line of `models` where a model has no SLO. */
int scenario_read_pipelines(const struct conf_node *node, const struct conf_node *models, struct scenario *s,
                            struct sy_error *err);
/* After the workload has been read: divides the SLOs of pipelines whose parts depend on rates, and sets the SLOs of
 * models without one. `node`: the pipelines. */
int scenario_split_pipelines(const struct conf_node *node, struct scenario *s, struct sy_error *err);
/* The largest batch of a model that takes at most time_ns, on the type that can run the largest; at least 1. 0: out of
 * memory. */
uint32_t scenario_batch_max(const struct scenario *s, const struct scenario_model *model, int64_t time_ns);
/* Reads the workload, `node`, which may be NULL. */
int scenario_read_workload(const struct conf_node *node, struct scenario *s, struct sy_error *err);

/* The value of a mapping with just this key; NULL otherwise. */
static inline const struct conf_node *scenario_only(const struct conf_node *node, const char *key) {
    return node->kind == CONF_MAP && node->count == 1 ? conf_find(node, key) : NULL;
}
