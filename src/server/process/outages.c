/* outages.c - watches for runs that hang, and decides whether the server is ready. A model whose accelerators have
 * failed moves to a sub-cluster with accelerators that run it, or is set aside until an accelerator is back. */
#include <string.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "server/process/server_state.h"

/* Finds the types of the accelerators in service in each sub-cluster, a bit a type. False: all accelerators are in
 * service. */
static bool types_left(const struct server *s, uint32_t left[RANK_THREADS_MAX]) {
    bool any_out = false;

    memset(left, 0, RANK_THREADS_MAX * sizeof(*left));
    for (uint32_t a = 0; a < s->wiring.accelerators; a++) {
        if (wiring_accelerator_state(&s->wiring, a) == ACCELERATOR_SERVING)
            left[s->wiring.part_of_accelerator[a]] |= 1u << s->accelerator_type[a];
        else
            any_out = true;
    }
    return any_out;
}

static bool runs_on_any(const struct server *s, uint32_t model, uint32_t types) {
    for (uint32_t t = 0; t < s->config.type_count; t++)
        if (types >> t & 1 && s->config.accelerators[t].profiles[model])
            return true;
    return false;
}

#define NO_ACCELERATOR "no accelerator that runs it is in service"

bool server_model_strand(struct served_model *model, bool stranded) {
    int ready = MODEL_READY;

    if (!stranded) {
        /* only this thread sets aside a model that has variants, or a suffix */
        if (served_model_state(model) != MODEL_UNAVAILABLE || strcmp(model->reason, NO_ACCELERATOR) != 0)
            return false;
        atomic_store_explicit(&model->state, MODEL_READY, memory_order_release); /* as served_model_refuse() */
        log_info("model is back", "model=%s", model->name);
        return true;
    }
    /* relaxed: no thread reads the reason before the store that follows in served_model_refuse() */
    if (!atomic_compare_exchange_strong_explicit(&model->state, &ready, MODEL_LOADING, memory_order_relaxed,
                                                 memory_order_relaxed))
        return false;
    served_model_refuse(model, NO_ACCELERATOR);
    log_error("model set aside", "model=%s reason=\"%s\"", model->name, model->reason);
    return true;
}

/* Moves the model's variants away from sub-clusters that can no longer run them; if a ring is full, the rest follow the
 * next time. True: the model serves. */
static bool model_look(struct server *s, uint32_t model, const uint32_t left[RANK_THREADS_MAX]) {
    const struct server_placement *p = &s->placements[model];
    uint32_t to = 0;

    while (to < s->wiring.rank_threads && !runs_on_any(s, model, left[to]))
        to++;
    if (to == s->wiring.rank_threads) {
        server_model_strand(&s->config.models[model], true);
        return false;
    }
    server_model_strand(&s->config.models[model], false);
    for (uint32_t v = 0; v < p->variant_count; v++) {
        struct variant_id variant = variant_next(p->first_variant, v);
        uint32_t part = wiring_part(&s->wiring, variant);
        if (part == PART_NOBODY || runs_on_any(s, model, left[part]))
            continue;
        log_info("model moves to a rank thread that has accelerators for it", "model=%s rank_thread=%u",
                 s->config.models[model].name, to);
        wiring_move(&s->wiring, variant, to);
    }
    return served_model_state(&s->config.models[model]) == MODEL_READY;
}

void server_serving_update(struct server *s) {
    bool serving = atomic_load_explicit(&s->ready, memory_order_acquire) &&
                   atomic_load_explicit(&s->able, memory_order_acquire); /* lone flags */

    /* with the frontends' loads; if two threads compute different values at once, the next call corrects it */
    if (atomic_exchange_explicit(&s->serving, serving, memory_order_acq_rel) == serving)
        return;
    server_frontends_wake(s); /* clients may watch readiness */
}

/* Whether some model can run; without models, whether some accelerator serves. */
static bool look(struct server *s, const uint32_t left[RANK_THREADS_MAX]) {
    bool models = false, able = false;

    pthread_mutex_lock(&s->models_lock);
    for (uint32_t i = 0; i < s->config.model_count; i++)
        if (s->placements[i].variant_count > 0) {
            able |= model_look(s, i, left);
            models = true;
        }
    /* a suffix has no variants: it follows its prefix, which was looked at above */
    const struct model_index *listed = atomic_load_explicit(&s->models.now, memory_order_relaxed); /* under the lock */
    for (uint32_t i = 0; listed && i < listed->count; i++) {
        struct served_model *model = &s->config.models[listed->listed[i]];
        if (!served_model_is_suffix(model))
            continue;
        server_model_strand(model, served_model_state(&s->config.models[model->host]) != MODEL_READY);
    }
    pthread_mutex_unlock(&s->models_lock);
    for (uint32_t k = 0; k < s->wiring.rank_threads && !models; k++)
        able |= left[k] != 0;
    return able;
}

void server_outages(struct server *s) {
    uint32_t left[RANK_THREADS_MAX];
    server_ensembles_look(s);
    if (s->config.cluster) /* the scheduler knows what runs */
        return;
    bool out = types_left(s, left);

    if (!out && !s->outage)
        return;
    s->outage = out;
    atomic_store_explicit(&s->able, look(s, left), memory_order_release); /* with server_serving_update() */
    server_serving_update(s);
}

void server_watch_executors(struct server *s, bool ending) {
    int64_t now_ns = clock_now_ns();

    for (uint32_t e = 0; s->executors && e < s->wiring.executors; e++)
        if (s->executors[e])
            executor_watch(s->executors[e], now_ns, ending);
}

void server_watch(struct server *s) {
    server_watch_executors(s, false);
}
