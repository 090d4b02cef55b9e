/* clockwork_layout.c - lays out the state of the policy `clockwork` in the memory that it is given. */
#include <string.h>

#include "sched/policy/clockwork.h"

static void model_layout(struct clockwork *c, struct arena *arena, const struct central_config *config, uint32_t m) {
    const struct central_model *from = &config->models[m];
    struct clockwork_model *model = arena->base ? &c->models[m] : NULL;
    uint32_t batch_max = from->batch_max < c->batch_most ? from->batch_max : c->batch_most;
    if (model) {
        deadline_queue_init(&model->queue);
        model->batch_max = batch_max;
        model->slo_ns = from->slo_ns;
        model->ran_ns = TIME_NEVER;
        model->allocated_at_ns = INT64_MIN;
        model->load.stated_ns = from->load_ns;
        model->weights_bytes = from->weights_bytes;
        model->pinned = from->pinned;
        model->kept_by = NOBODY;
        c->weights_largest = from->weights_bytes > c->weights_largest ? from->weights_bytes : c->weights_largest;
    }
    for (uint32_t t = 0; t < config->types; t++) {
        if (!from->profiles[t])
            continue;
        struct profile *table = arena_take(arena, profile_bytes(batch_max));
        struct rolling *rolling = NULL;
        if (c->learn)
            rolling = arena_take(arena, rolling_bytes(batch_max, config->accelerators));
        if (!model)
            continue;
        table->batch_max = batch_max;
        memcpy(table->latency_ns, from->profiles[t]->latency_ns, (batch_max + 2) * sizeof(int64_t));
        profile_fit(table);
        model->tables[t] = table;
        model->rolling[t] = rolling;
        if (rolling)
            rolling_init(rolling, table, config->accelerators);
    }
}

static void groups_layout(struct clockwork *c, struct arena *arena, const struct central_config *config) {
    bool each = config->memory_bytes != NULL;
    uint32_t groups = each ? config->accelerators : config->types, at = 0;
    heap_take(arena, &c->due, groups);
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t count = 0, first = at;
        for (uint32_t a = 0; a < config->accelerators; a++) {
            if (each ? a != g : config->accelerator_type[a] != g)
                continue;
            if (arena->base) {
                c->members[at] = a;
                c->accelerators[a].group = g;
                c->accelerators[a].member = count;
                c->accelerators[a].type = config->accelerator_type[a];
                c->accelerators[a].up = true;
            }
            at++;
            count++;
        }
        struct clockwork_group *group = arena->base ? &c->groups[g] : &(struct clockwork_group){0};
        heap_take(arena, &group->strategies, config->model_count);
        heap_take(arena, &group->free, count);
        group->first = first;
        group->type = each ? config->accelerator_type[g] : (uint8_t)g;
        for (uint32_t i = 0; arena->base && i < count; i++)
            heap_set(&group->free, i, 0);
    }
    c->group_count = groups;
}

void clockwork_layout(struct clockwork *c, struct arena *arena, const struct central_config *config) {
    c->models = arena_take(arena, config->model_count * sizeof(*c->models));
    c->accelerators = arena_take(arena, config->accelerators * sizeof(*c->accelerators));
    c->members = arena_take(arena, config->accelerators * sizeof(*c->members));
    uint32_t groups = config->memory_bytes ? config->accelerators : config->types;
    c->groups = arena_take(arena, groups * sizeof(*c->groups));
    heap_take(arena, &c->expiry, config->model_count);
    for (uint32_t m = 0; m < config->model_count; m++)
        model_layout(c, arena, config, m);
    groups_layout(c, arena, config);
    if (config->memory_bytes)
        clockwork_load_layout(c, arena, config);
}
