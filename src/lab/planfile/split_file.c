/* split_file.c - reads the stages of a query from YAML. */
#include "lab/planfile/split_file.h"

#include <stdlib.h>
#include <string.h>

#include "lab/planfile/planned_model.h"

#define ITEMS_MAX 1e6
#define TURNS_MAX 10

struct document {
    int64_t slo_ns;
    double rate_rps, turns;
    const struct conf_node *stages;
};

static const struct conf_key document_keys[] = {
    CONF_KEY_TIME(struct document, slo_ns, "slo_ms", NS_PER_MS, 0.001, PLANNED_SLO_MS_MAX, PLANNED_TIME_WHAT),
    CONF_KEY_DOUBLE(struct document, rate_rps, "rate_rps", 0, PLANNED_RATE_MAX, "a number of queries per second"),
    CONF_KEY_DOUBLE(struct document, turns, "turns", 1, TURNS_MAX, "a multiple of a batch's latency"),
    CONF_KEY_NODE(struct document, stages, "stages"),
    CONF_KEYS_END,
};

struct stage {
    struct planned_model model;
    double items;
    const struct conf_node *after;
};

static const struct conf_key stage_keys[] = {
    PLANNED_MODEL_KEYS(struct stage, model),
    CONF_KEY_DOUBLE(struct stage, items, "items", 0, ITEMS_MAX, "a mean number of items of a query"),
    CONF_KEY_NODE(struct stage, after, "after"),
    CONF_KEYS_END,
};

/* Reads the names of the stages that this one comes after. */
static int after_read(const struct conf_node *list, struct split_file *file, struct sy_error *err) {
    if (list->kind != CONF_LIST)
        return conf_error(list, err, "expected a list of the names of stages");
    for (const struct conf_node *node = list->first; node; node = node->next) {
        uint32_t u = 0;
        if (node->kind != CONF_SCALAR)
            return conf_error(node, err, "expected the name of a stage");
        while (u < file->count && strcmp(file->names[u], node->text) != 0)
            u++;
        if (u == file->count)
            return conf_error(node, err, "there is no stage '%.60s' before this one", node->text);
        file->stages[file->count].after |= (uint64_t)1 << u;
    }
    return 0;
}

static int stage_read(const struct conf_node *node, const struct document *document, struct split_file *file,
                      struct sy_error *err) {
    struct stage stage = {.model = PLANNED_MODEL_NONE, .items = 1};
    struct profile *profile = NULL;
    int rc = conf_read_map(node, stage_keys, &stage, err);
    if (rc == 0 && !stage.model.name[0])
        rc = conf_error(node, err, "'name' is missing");
    for (uint32_t s = 0; rc == 0 && s < file->count; s++)
        if (strcmp(file->names[s], stage.model.name) == 0)
            rc = conf_error(node, err, "there are two stages '%s'", stage.model.name);
    stage.model.slo_ns = file->slo_ns;
    if (rc == 0)
        rc = planned_model_check(&stage.model, node, err);
    if (rc == 0 && stage.after)
        rc = after_read(stage.after, file, err);
    if (rc == 0)
        rc = planned_model_profile(&stage.model, node, &profile, err);
    if (rc)
        return rc;
    struct split_stage *to = &file->stages[file->count];
    to->profile = profile;
    to->batch_max = profile->batch_max;
    to->rate = file->rate_rps * stage.items;
    to->turns = document->turns;
    file->names[file->count] = strdup(stage.model.name);
    return file->names[file->count++] ? 0 : conf_error(node, err, "out of memory");
}

static int document_read(const struct conf_node *root, struct split_file *file, struct sy_error *err) {
    struct document document = {.turns = 1, .rate_rps = -1};
    int rc = conf_read_map(root, document_keys, &document, err);
    if (rc)
        return rc;
    const struct conf_node *list = document.stages;
    if (!list || !document.slo_ns || document.rate_rps < 0)
        return conf_error(root, err, "'%s' is missing", !list ? "stages" : !document.slo_ns ? "slo_ms" : "rate_rps");
    if (list->kind != CONF_LIST || !list->count || list->count > SPLIT_STAGES_MAX)
        return conf_error(list, err, "expected a list of 1 to %d stages", SPLIT_STAGES_MAX);
    file->slo_ns = document.slo_ns;
    file->rate_rps = document.rate_rps;
    for (const struct conf_node *node = list->first; rc == 0 && node; node = node->next)
        rc = stage_read(node, &document, file, err);
    return rc;
}

int split_file_read(struct conf_node *root, struct split_file *file, struct sy_error *err) {
    memset(file, 0, sizeof(*file));
    int rc = document_read(root, file, err);
    if (rc)
        split_file_free(file);
    conf_free(root);
    return rc;
}

void split_file_free(struct split_file *file) {
    for (uint32_t s = 0; s < file->count; s++) {
        free((void *)file->stages[s].profile);
        free(file->names[s]);
    }
    memset(file, 0, sizeof(*file));
}
