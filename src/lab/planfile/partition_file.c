/* partition_file.c - reads models and sub-clusters from YAML. */
#include "lab/planfile/partition_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RATE_MAX   1e12
#define MB_MAX     1e12
#define COST_MAX   1e12
#define WEIGHT_MAX 1e6
#define RATE_WHAT  "a number of requests per second"
#define MB_WHAT    "a number of MB"
#define COST_WHAT  "a cost"

struct document {
    int64_t subclusters;
    double max_rate_rps, max_memory_mb, memory_weight, max_move_cost;
    const struct conf_node *models;
};

static const struct conf_key document_keys[] = {
    CONF_KEY_INT(struct document, subclusters, "subclusters", 1, PARTITION_FILE_SUBCLUSTERS_MAX,
                 "a number of sub-clusters"),
    CONF_KEY_DOUBLE(struct document, max_rate_rps, "max_rate_rps", 0, RATE_MAX, RATE_WHAT),
    CONF_KEY_DOUBLE(struct document, max_memory_mb, "max_memory_mb", 0, MB_MAX, MB_WHAT),
    CONF_KEY_DOUBLE(struct document, memory_weight, "memory_weight", 0, WEIGHT_MAX, "a weight"),
    CONF_KEY_DOUBLE(struct document, max_move_cost, "max_move_cost", 0, COST_MAX, COST_WHAT),
    CONF_KEY_NODE(struct document, models, "models"),
    CONF_KEYS_END,
};

struct model {
    char name[128];
    double rate_rps, static_mb, dynamic_mb, move_cost;
    int64_t current;
};

static const struct conf_key model_keys[] = {
    CONF_KEY_TEXT(struct model, name, "name", "a name"),
    CONF_KEY_DOUBLE(struct model, rate_rps, "rate_rps", 0, RATE_MAX, RATE_WHAT),
    CONF_KEY_DOUBLE(struct model, static_mb, "static_mb", 0, MB_MAX, MB_WHAT),
    CONF_KEY_DOUBLE(struct model, dynamic_mb, "dynamic_mb", 0, MB_MAX, MB_WHAT),
    CONF_KEY_DOUBLE(struct model, move_cost, "move_cost", 0, COST_MAX, COST_WHAT),
    CONF_KEY_INT(struct model, current, "current", 0, PARTITION_FILE_SUBCLUSTERS_MAX - 1, "a sub-cluster, from 0"),
    CONF_KEYS_END,
};

static int model_read(const struct conf_node *node, struct partition_file *file, struct partition_model *to,
                      struct sy_error *err) {
    struct model model = {.rate_rps = -1, .move_cost = 1, .current = -1};
    int rc = conf_read_map(node, model_keys, &model, err);
    if (rc == 0 && (!model.name[0] || model.rate_rps < 0))
        rc = conf_error(node, err, "'%s' is missing", model.name[0] ? "rate_rps" : "name");
    if (rc == 0 && model.current >= (int64_t)file->problem.subclusters)
        rc = conf_error(conf_find(node, "current"), err, "there are %u sub-clusters, numbered from 0",
                        file->problem.subclusters);
    if (rc)
        return rc;
    *to = (struct partition_model){
        .rate = model.rate_rps,
        .load = model.rate_rps,
        .static_mb = model.static_mb,
        .dynamic_mb = model.dynamic_mb,
        .move_cost = model.move_cost,
        .current = model.current < 0 ? PARTITION_NONE : (uint32_t)model.current,
    };
    file->names[file->problem.models] = strdup(model.name);
    return file->names[file->problem.models++] ? 0 : conf_error(node, err, "out of memory");
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* No two models have the same name. */
static int names_check(const struct partition_file *file, const struct conf_node *list, struct sy_error *err) {
    uint32_t count = file->problem.models;
    char **sorted = malloc((count + 1) * sizeof(*sorted));
    int rc = sorted ? 0 : conf_error(list, err, "out of memory");
    if (sorted)
        memcpy(sorted, file->names, count * sizeof(*sorted));
    if (sorted)
        qsort(sorted, count, sizeof(*sorted), by_name);
    for (uint32_t i = 1; rc == 0 && i < count; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            rc = conf_error(list, err, "there are two models '%s'", sorted[i]);
    free(sorted);
    return rc;
}

static int document_read(const struct conf_node *root, struct partition_file *file, struct sy_error *err) {
    struct document document = {
        .max_rate_rps = INFINITY, .max_memory_mb = INFINITY, .memory_weight = 1, .max_move_cost = INFINITY};
    int rc = conf_read_map(root, document_keys, &document, err);
    if (rc)
        return rc;
    const struct conf_node *list = document.models;
    if (!list || !document.subclusters)
        return conf_error(root, err, "'%s' is missing", list ? "subclusters" : "models");
    if (list->kind != CONF_LIST || !list->count || list->count > PARTITION_FILE_MODELS_MAX)
        return conf_error(list, err, "expected a list of 1 to %d models", PARTITION_FILE_MODELS_MAX);
    struct partition_model *models = calloc(list->count, sizeof(*models));
    file->names = calloc(list->count, sizeof(*file->names));
    file->problem = (struct partition_problem){
        .subclusters = (uint32_t)document.subclusters,
        .model = models,
        .max_rate = document.max_rate_rps,
        .max_memory_mb = document.max_memory_mb,
        .memory_weight = document.memory_weight,
        .max_move_cost = document.max_move_cost,
    };
    if (!models || !file->names)
        return conf_error(list, err, "out of memory");
    for (const struct conf_node *node = list->first; rc == 0 && node; node = node->next)
        rc = model_read(node, file, &models[file->problem.models], err);
    return rc ? rc : names_check(file, list, err);
}

int partition_file_read(struct conf_node *root, struct partition_file *file, struct sy_error *err) {
    *file = (struct partition_file){.names = NULL};
    int rc = document_read(root, file, err);
    if (rc)
        partition_file_free(file);
    conf_free(root);
    return rc;
}

void partition_file_free(struct partition_file *file) {
    for (uint32_t i = 0; i < file->problem.models; i++)
        free(file->names[i]);
    free(file->names);
    free((void *)file->problem.model);
    *file = (struct partition_file){.names = NULL};
}
