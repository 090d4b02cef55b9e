/* policy_cluster.h - a cluster in virtual time for the tests of policies: models on lines, accelerators of one type, a
 * run. */
#pragma once

#include <stdlib.h>

#include "core/data/zoo.h"
#include "lab/sim/sim.h"
#include "unit/test.h"

struct cluster {
    struct sim_config config;
    struct sim_model models[80];
    uint8_t types[64];
    struct sim_rate_step steps[2]; /* one, unless a test makes it two */
    struct sim_result result;
    void *memory;
};

static struct cluster *cluster_new(uint32_t accelerators) {
    struct cluster *cluster = calloc(1, sizeof(*cluster));
    assert_non_null(cluster);
    cluster->config = (struct sim_config){
        .models = cluster->models,
        .accelerator_type = cluster->types,
        .accelerators = accelerators,
        .types = 1,
        .steps = cluster->steps,
        .step_count = 1,
        .warmup_s = 3,
        .seed = 1,
        .policy = &policy_deferred,
    };
    return cluster;
}

static struct sim_model *cluster_add(struct cluster *cluster, double alpha_ms, double beta_ms, double slo_ms) {
    struct sim_model *model = &cluster->models[cluster->config.model_count++];
    assert_true(cluster->config.model_count <= ARRAY_COUNT(cluster->models));
    assert_true(sim_model_line(model, alpha_ms, beta_ms, slo_ms));
    return model;
}

static inline void cluster_add_zoo(struct cluster *cluster, const char *type, enum zoo_set set) {
    for (const struct zoo_entry *e = zoo_entries; e->model; e++)
        if (zoo_entry_in(e, type, set))
            cluster_add(cluster, e->alpha_ms, e->beta_ms, e->slo_ms);
}

static void cluster_free(struct cluster *cluster) {
    for (uint32_t m = 0; m < cluster->config.model_count; m++)
        free((void *)cluster->models[m].profiles[0]);
    free(cluster->memory);
    free(cluster);
}

/* The result's models stay valid until the next run of the cluster. */
static const struct sim_result *cluster_run(struct cluster *cluster, double seconds) {
    cluster->config.seconds = seconds;
    free(cluster->memory);
    cluster->memory = malloc(sim_bytes(&cluster->config));
    assert_non_null(cluster->memory);
    sim_run(&cluster->config, cluster->memory, &cluster->result);
    return &cluster->result;
}
