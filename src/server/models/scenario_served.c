/* scenario_served.c - makes served models from the models of a scenario. */
#include "server/models/scenario_served.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int model_fill(const struct scenario_model *from, struct served_model *to, struct sy_error *err) {
    struct tensor_spec input = {.name = "INPUT", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 1}};
    struct tensor_spec output = {.name = "OUTPUT", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 1}};
    int rc = served_model_tensors_set(
        to,
        &(struct signature){.input_count = 1, .output_count = 1, .batched = true, .inputs = &input, .outputs = &output},
        err);
    if (rc)
        return rc;
    memcpy(to->name, from->name, sizeof(to->name));
    to->version = 1;
    strcpy(to->platform, "emulated");
    to->batch_max = from->batch_max;
    to->slo_ns = from->slo_ns;
    to->weights_bytes = from->weights_bytes;
    to->load_ns = from->load_ns;
    to->weight = from->weight;
    to->pinned = from->pinned;
    to->best_effort = from->best_effort >= 1;
    to->queue.priorities = to->queue.priority_default = from->priority_count;
    to->item_elements = 1;
    to->reference_dims[0][0] = to->reference_dims[0][1] = 1;
    atomic_init(&to->state, MODEL_READY);
    served_model_draw_secret(to);
    return 0;
}

int scenario_served_models(const struct scenario *scenario, struct served_model **models, struct profile ***profiles,
                           uint32_t *count, struct sy_error *err) {
    uint32_t n = scenario->model_count, types = scenario->type_count;
    struct served_model *served = calloc(n, sizeof(*served));
    struct profile **tables = calloc((size_t)n * types, sizeof(struct profile *));
    bool whole = served && tables;
    for (uint32_t i = 0; whole && i < n; i++) {
        const struct scenario_model *model = &scenario->models[i];
        whole = model_fill(model, &served[i], err) == 0;
        for (uint32_t t = 0; whole && t < types; t++) {
            struct profile *table = tables[i * types + t] = malloc(profile_bytes(served[i].batch_max));
            whole = table;
            if (table)
                scenario_profile(model, t, served[i].batch_max, table);
        }
    }
    if (!whole) {
        scenario_models_free(scenario, served, tables, n);
        return error_set(err, -ENOMEM, "out of memory for the scenario's %u models", n);
    }
    *models = served;
    *profiles = tables;
    *count = n;
    return 0;
}

void scenario_models_free(const struct scenario *scenario, struct served_model *models, struct profile **profiles,
                          uint32_t count) {
    for (uint32_t i = 0; profiles && i < count * scenario->type_count; i++)
        free(profiles[i]);
    free(profiles);
    served_models_free(models, models ? count : 0);
}
