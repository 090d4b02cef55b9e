/* scenario_served.c - makes served models from the models of a scenario. */
#include "server/models/scenario_served.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int scenario_served_models(const struct scenario *scenario, struct served_model **models, struct profile ***profiles,
                           uint32_t *count, struct sy_error *err) {
    static const struct tensor_spec spec = {.type = DATATYPE_FP32, .rank = 2, .dims = {-1, 1}};
    uint32_t n = scenario->model_count, types = scenario->type_count;
    struct served_model *served = calloc(n, sizeof(*served));
    struct profile **tables = calloc((size_t)n * types, sizeof(struct profile *));
    bool whole = served && tables;
    for (uint32_t i = 0; whole && i < n; i++) {
        const struct scenario_model *from = &scenario->models[i];
        struct served_model *to = &served[i];
        memcpy(to->name, from->name, sizeof(to->name));
        to->version = 1;
        strcpy(to->platform, "emulated");
        to->signature.batched = true;
        to->signature.input_count = to->signature.output_count = 1;
        to->signature.inputs[0] = to->signature.outputs[0] = spec;
        strcpy(to->signature.inputs[0].name, "INPUT");
        strcpy(to->signature.outputs[0].name, "OUTPUT");
        to->batch_max = from->batch_max;
        to->slo_ns = from->slo_ns;
        to->weights_bytes = from->weights_bytes;
        to->load_ns = from->load_ns;
        to->weight = from->weight;
        to->best_effort = from->best_effort >= 1;
        to->queue.priorities = to->queue.priority_default = from->priority_count;
        to->item_elements = 1;
        to->reference_dims[0][0] = to->reference_dims[0][1] = 1;
        atomic_init(&to->state, MODEL_READY);
        served_model_draw_secret(to);
        for (uint32_t t = 0; whole && t < types; t++) {
            struct profile *table = tables[i * types + t] = malloc(profile_bytes(to->batch_max));
            whole = table;
            if (table)
                scenario_profile(from, t, to->batch_max, table);
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
    free(models);
}
