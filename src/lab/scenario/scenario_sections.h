/* scenario_sections.h - the larger sections of a scenario file. For scenario.c, which calls them in this order. */
#pragma once

#include "core/util/conf.h"
#include "lab/scenario/scenario.h"

#define ACCELERATORS_MAX 1000000
#define SECONDS_MAX      1e7
#define SLO_MS_MAX       3.6e6

/* `models` says what the accelerators are if `node`, the cluster, does not. */
int scenario_read_cluster(const struct conf_node *node, const struct conf_node *models, struct scenario *s,
                          struct sy_error *err);
int scenario_read_models(const struct conf_node *node, struct scenario *s, struct sy_error *err);
/* Makes room for the pipelines, so that models may be without SLOs. */
int scenario_take_pipelines(const struct conf_node *node, struct scenario *s, struct sy_error *err);
/* `models` is named where one of them has no SLO. */
int scenario_read_pipelines(const struct conf_node *node, const struct conf_node *models, struct scenario *s,
                            struct sy_error *err);
/* After the workload has been read: divides the SLOs whose parts depend on rates, and gives models without an SLO
 * theirs. `node` is the pipelines'. */
int scenario_split_pipelines(const struct conf_node *node, struct scenario *s, struct sy_error *err);
/* The greatest batch of a model that takes no longer than time_ns, on the type where it is greatest; at least 1. 0: out
 * of memory. */
uint32_t scenario_batch_max(const struct scenario *s, const struct scenario_model *model, int64_t time_ns);
/* `node` may be NULL. */
int scenario_read_workload(const struct conf_node *node, struct scenario *s, struct sy_error *err);
