/* clockwork_layout.c - where the state of the policy `clockwork` lies in the memory that it is given. */
#include <string.h>

#include "policy/clockwork.h"

void *clockwork_take(char *base, size_t *used, size_t bytes) {
    void *piece = base ? base + *used : NULL;
    *used += (bytes + 63) & ~(size_t)63;
    return piece;
}

void clockwork_heap_layout(struct heap *heap, char *base, size_t *used, uint32_t capacity) {
    struct heap_entry *entries = clockwork_take(base, used, capacity * sizeof(*entries));
    uint32_t *position = clockwork_take(base, used, capacity * sizeof(*position));
    if (base)
        heap_init(heap, entries, position, capacity);
}

static void model_layout(struct clockwork *c, char *base, size_t *used, const struct central_config *config,
                         uint32_t m) {
    const struct central_model *from = &config->models[m];
    struct clockwork_model *model = base ? &c->models[m] : NULL;
    uint32_t batch_max = from->batch_max < c->batch_most ? from->batch_max : c->batch_most;
    if (model) {
        deadline_queue_init(&model->queue);
        model->batch_max = batch_max;
        model->ran_ns = TIME_NEVER;
        model->allocated_at_ns = INT64_MIN;
        model->load_ns = from->load_ns;
        model->pages = pages_of(from->weights_bytes ? from->weights_bytes : 1);
    }
    for (uint32_t t = 0; t < config->types; t++) {
        if (!from->profiles[t])
            continue;
        struct profile *table = clockwork_take(base, used, profile_bytes(batch_max));
        struct rolling *rolling = NULL;
        if (c->learn)
            rolling = clockwork_take(base, used, rolling_bytes(batch_max));
        if (!model)
            continue;
        table->batch_max = batch_max;
        memcpy(table->latency_ns, from->profiles[t]->latency_ns, (batch_max + 2) * sizeof(int64_t));
        profile_fit(table);
        model->tables[t] = table;
        model->rolling[t] = rolling;
        if (rolling)
            rolling_init(rolling, table);
    }
}

static void groups_layout(struct clockwork *c, char *base, size_t *used, const struct central_config *config) {
    bool each = config->memory_bytes > 0;
    uint32_t groups = each ? config->accelerators : config->types, at = 0;
    clockwork_heap_layout(&c->due, base, used, groups);
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t count = 0, first = at;
        for (uint32_t a = 0; a < config->accelerators; a++) {
            if (each ? a != g : config->accelerator_type[a] != g)
                continue;
            if (base) {
                c->members[at] = a;
                c->accelerators[a].group = g;
                c->accelerators[a].member = count;
                c->accelerators[a].type = config->accelerator_type[a];
                c->accelerators[a].up = true;
            }
            at++;
            count++;
        }
        struct clockwork_group *group = base ? &c->groups[g] : &(struct clockwork_group){0};
        clockwork_heap_layout(&group->strategies, base, used, config->model_count);
        clockwork_heap_layout(&group->free, base, used, count);
        group->first = first;
        group->type = each ? config->accelerator_type[g] : (uint8_t)g;
        for (uint32_t i = 0; base && i < count; i++)
            heap_set(&group->free, i, 0);
    }
    c->group_count = groups;
}

void clockwork_layout(struct clockwork *c, char *base, size_t *used, const struct central_config *config) {
    c->models = clockwork_take(base, used, config->model_count * sizeof(*c->models));
    c->accelerators = clockwork_take(base, used, config->accelerators * sizeof(*c->accelerators));
    c->members = clockwork_take(base, used, config->accelerators * sizeof(*c->members));
    uint32_t groups = config->memory_bytes ? config->accelerators : config->types;
    c->groups = clockwork_take(base, used, groups * sizeof(*c->groups));
    clockwork_heap_layout(&c->expiry, base, used, config->model_count);
    for (uint32_t m = 0; m < config->model_count; m++)
        model_layout(c, base, used, config, m);
    groups_layout(c, base, used, config);
    if (config->memory_bytes)
        clockwork_load_layout(c, base, used, config);
}
