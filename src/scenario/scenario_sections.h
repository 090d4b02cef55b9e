/* scenario_sections.h - the larger sections of a scenario file. For scenario.c, which calls them in this order. */
#pragma once

#include "base/conf.h"
#include "scenario/scenario.h"

#define ACCELERATORS_MAX 1000000
#define SECONDS_MAX      1e7
#define SLO_MS_MAX       3.6e6

/* `models` says what the accelerators are if `node`, the cluster, does not. */
int scenario_read_cluster(const struct conf_node *node, const struct conf_node *models, struct scenario *s,
                          struct sy_error *err);
int scenario_read_models(const struct conf_node *node, struct scenario *s, struct sy_error *err);
/* `node` may be NULL. */
int scenario_read_workload(const struct conf_node *node, struct scenario *s, struct sy_error *err);
