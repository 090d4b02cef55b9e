/* scheduling.c - places models in threads and sub-clusters, and starts and stops the scheduling threads. */
#include "server/threads/scheduling.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/residency.h"
#include "server/threads/decision_files.h"
#include "server/threads/model_control.h"

void scheduling_host(const struct scheduling *s, uint32_t model) {
    const struct served_model *served = &s->config->models[model];
    bool suffix = served_model_is_suffix(served);
    s->wiring->host_of_served[model] = suffix ? served->host : model;
    s->wiring->suffix_of_served[model] = suffix ? served->suffix : 0;
}

/* Distributes models over model threads, and gives each its range of the rank core's indexes: one index, or several for
 * a model whose inputs may have different shapes, or none for a model that is set aside. */
int scheduling_init(struct scheduling *s, struct wiring *w, const struct server_config *config,
                    const struct calibration *calibration) {
    uint32_t threads = w->model_threads, count = config->model_count, variants = 0;
    uint32_t per_thread[threads];

    *s = (struct scheduling){.wiring = w, .config = config, .calibration = calibration};
    memset(per_thread, 0, sizeof(per_thread));
    s->rank_threads = calloc(w->rank_threads, sizeof(*s->rank_threads));
    s->model_threads = calloc(w->model_threads, sizeof(*s->model_threads));
    s->placements = calloc(count + 1, sizeof(*s->placements));
    w->thread_of_served = calloc(count + 1, sizeof(uint32_t));
    w->host_of_served = calloc(count + 1, sizeof(uint32_t));
    w->suffix_of_served = calloc(count + 1, sizeof(uint8_t));
    if (!s->rank_threads || !s->model_threads || !s->placements || !w->thread_of_served || !w->host_of_served ||
        !w->suffix_of_served)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        const struct served_model *model = &config->models[i];
        struct server_placement *p = &s->placements[i];
        p->thread = i % threads;
        p->thread_model.n = per_thread[p->thread]++;
        p->first_variant.n = variants;
        scheduling_host(s, i);
        if (served_model_state(model) == MODEL_READY && served_model_is_scheduled(model))
            p->variant_count = model->signature.variable_shapes ? VARIANTS_MAX : 1;
        variants += p->variant_count;
        w->thread_of_served[i] = p->thread;
        if (model->batch_max > w->batch_max)
            w->batch_max = model->batch_max;
    }
    if (server_has_places(config) && server_schedules(config)) {
        uint32_t most = config->control ? config->control->models_max : count;
        variants = count + (VARIANTS_MAX - 1) * (most < CONTROL_VARIABLE ? most : CONTROL_VARIABLE);
        w->models_unused = variants;
        w->batch_max = PROFILE_BATCH_MAX;
    }
    if (config->control)
        w->batch_max = PROFILE_BATCH_MAX;
    w->models = variants;
    w->thread_of_variant = calloc(variants + 1, sizeof(uint32_t));
    w->subcluster_of_model = calloc(variants + 1, 1);
    if (server_orders_loads(config)) {
        w->place_of_variant = calloc(variants + 1, sizeof(*w->place_of_variant));
        w->memory_counters = calloc(count + 1, sizeof(*w->memory_counters));
    }
    if (!w->thread_of_variant || !w->subcluster_of_model ||
        (server_orders_loads(config) && (!w->place_of_variant || !w->memory_counters)))
        return -ENOMEM;
    memset(w->subcluster_of_model, server_has_places(config) ? SUBCLUSTER_NONE : 0, variants);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t v = 0; v < s->placements[i].variant_count; v++) {
            w->thread_of_variant[s->placements[i].first_variant.n + v] = s->placements[i].thread;
            if (w->place_of_variant)
                w->place_of_variant[s->placements[i].first_variant.n + v].n = i;
            w->subcluster_of_model[s->placements[i].first_variant.n + v] = (uint8_t)(i % w->rank_threads);
        }
    return 0;
}

struct thread_model scheduling_model(const struct scheduling *s, uint32_t model) {
    struct thread_model m =
        thread_model_of(&s->config->models[model], (struct place_id){model}, s->calibration->copy_ns_per_byte);
    if (s->config->memory_bytes)
        m.pages = pages_of(m.weights_bytes, s->config->page_bytes);
    for (uint32_t type = 0; type < s->config->type_count; type++)
        m.profiles[type] = s->config->accelerators[type].profiles[model];
    return m;
}

/* The configuration of a scheduling thread; `models` has room for all models. */
static struct thread_rings_config rings_config(const struct scheduling *s, uint32_t index,
                                               struct thread_model *models) {
    struct thread_rings_config config = {
        .wiring = s->wiring,
        .index = index,
        .models = models,
        .queue_max = s->config->queue_max,
        .ctrl_ns = s->calibration->dispatch_ns,
        .types = s->wiring->types,
        .record_bytes = s->config->record_bytes / s->wiring->model_threads,
    };

    for (uint32_t i = 0; i < s->config->model_count; i++) {
        if (s->placements[i].thread != index)
            continue;
        struct thread_model *m = &models[config.model_count++];
        *m = scheduling_model(s, i);
        m->first_variant = s->placements[i].first_variant;
        m->variant_count = s->placements[i].variant_count;
    }
    return config;
}

/* Sets the weights of the models that are there from the start: [wiring.models], zeroed. */
static void weights_fill(const struct scheduling *s, struct rank_weights *weights) {
    for (uint32_t i = 0; i < s->config->model_count; i++) {
        struct thread_model model = scheduling_model(s, i);
        model.first_variant = s->placements[i].first_variant;
        model.variant_count = s->placements[i].variant_count;
        for (uint32_t v = 0; v < model.variant_count; v++)
            weights[model.first_variant.n + v] = thread_weights(&model);
    }
}

int scheduling_start(struct scheduling *s, const uint8_t *type_of, struct sy_error *err) {
    const struct server_config *c = s->config;
    struct wiring *w = s->wiring;
    struct thread_model *models = calloc(c->model_count + 1, sizeof(*models)); /* the threads copy it */
    int rc = 0;

    if (!models)
        return error_set(err, -ENOMEM, "no memory for %u models", c->model_count);
    if (c->decisions)
        rc = decision_files_create(&s->decisions, w, c->decisions, c->decisions_bytes, err);
    if (rc == 0 && w->central) {
        struct central_thread_config config = {
            .rings = rings_config(s, 0, models),
            .accelerator_type = type_of,
            .types = server_role(c) == LINK_SCHEDULER ? CENTRAL_TYPES_MAX : w->types,
            .absent = server_role(c) == LINK_SCHEDULER,
            .limited = server_orders_loads(c),
            .memory_bytes = c->memory_bytes,
            .page_bytes = c->page_bytes,
            .policy = c->policy,
            .policy_options = &c->policy_options,
        };
        for (uint32_t t = 0; t < c->type_count; t++)
            config.price[t] = c->accelerators[t].price;
        rc = central_thread_start(&s->central_thread, &config, err);
    }
    struct rank_weights *weights = server_orders_loads(c) ? calloc(w->models + 1, sizeof(*weights)) : NULL;
    if (server_orders_loads(c) && !weights)
        rc = error_set(err, -ENOMEM, "no memory for %u models", w->models);
    else if (c->memory_bytes)
        weights_fill(s, weights);
    struct rank_core_config rank = {
        .models = w->models,
        .accelerators = w->accelerators,
        .accelerator_type = type_of,
        .types = w->types,
        .absent = server_role(c) == LINK_SCHEDULER,
        .grace_ns = RANK_GRACE_NS,
        .limited = server_orders_loads(c),
        .told = c->orders_loads,
        .cuts_loads = !c->orders_loads && residency_cuts(c->page_bytes),
        .memory_pages = c->orders_loads   ? MEMORY_PAGES_MOST
                        : c->memory_bytes ? (uint32_t)(c->memory_bytes / c->page_bytes)
                                          : 0,
        .copies_most = c->model_count,
        .weights = weights,
        .policy = c->policy,
        .policy_options = &c->policy_options,
    };
    for (uint32_t k = 0; k < w->rank_threads && !w->central && rc == 0; k++)
        rc = rank_thread_start(&s->rank_threads[k], w, k, &rank, err);
    for (uint32_t t = 0; t < w->model_threads && !w->central && rc == 0; t++) {
        struct model_thread_config config = {
            .rings = rings_config(s, t, models),
            .types = w->types,
            .learn = c->learn,
            .policy = c->policy,
            .policy_options = &c->policy_options,
        };
        rc = model_thread_start(&s->model_threads[t], &config, err);
    }
    free(weights);
    free(models);
    return rc;
}

void scheduling_stop(struct scheduling *s) {
    for (uint32_t t = 0; s->model_threads && t < s->wiring->model_threads; t++)
        if (s->model_threads[t])
            model_thread_stop(s->model_threads[t]);
    if (s->central_thread)
        central_thread_stop(s->central_thread);
    for (uint32_t k = 0; s->rank_threads && k < s->wiring->rank_threads; k++)
        if (s->rank_threads[k])
            rank_thread_stop(s->rank_threads[k]);
    decision_files_close(s->decisions);
}

void scheduling_free(struct scheduling *s) {
    free(s->placements);
    free(s->rank_threads);
    free(s->model_threads);
}
