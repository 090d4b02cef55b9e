/* outages.c - sets models aside and takes them back, and moves them between sub-clusters. */
#include "server/models/outages.h"

#include <string.h>

#include "core/system/log.h"

#define NO_ACCELERATOR "no accelerator that runs it is in service"

static bool runs_on_any(const struct executors *e, uint32_t model, uint32_t types) {
    for (uint32_t t = 0; t < e->type_count; t++)
        if (types >> t & 1 && e->types[t].profiles[model])
            return true;
    return false;
}

bool model_strand(struct served_model *model, bool stranded) {
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
static bool model_look(const struct executors *e, const struct server_placement *p, struct served_model *model,
                       uint32_t place, const uint32_t left[RANK_THREADS_MAX]) {
    uint32_t to = 0;

    while (to < e->wiring->rank_threads && !runs_on_any(e, place, left[to]))
        to++;
    model_strand(model, to == e->wiring->rank_threads);
    if (to == e->wiring->rank_threads)
        return false;
    for (uint32_t v = 0; v < p->variant_count; v++) {
        struct variant_id variant = variant_next(p->first_variant, v);
        uint32_t subcluster = wiring_subcluster(e->wiring, variant);
        if (subcluster == SUBCLUSTER_NONE || runs_on_any(e, place, left[subcluster]))
            continue;
        log_info("model moves to a rank thread that has accelerators for it", "model=%s rank_thread=%u", model->name,
                 to);
        wiring_move(e->wiring, variant, to);
    }
    return served_model_state(model) == MODEL_READY;
}

void outages_look(struct executors *e, const struct scheduling *s, struct model_list *list, struct readiness *r) {
    uint32_t left[RANK_THREADS_MAX] = {0}; /* types of the accelerators in service in each sub-cluster, a bit a type */
    bool out = false, models = false, able = false;

    for (uint32_t a = 0; a < e->wiring->accelerators; a++) {
        if (wiring_accelerator_state(e->wiring, a) == ACCELERATOR_SERVING)
            left[e->wiring->subcluster_of_accelerator[a]] |= 1u << e->type_of[a];
        else
            out = true;
    }
    if (!out && !e->outage)
        return;
    e->outage = out;
    const struct model_index *listed = model_list_lock(list);
    for (uint32_t i = 0; i < list->count; i++)
        if (s->placements[i].variant_count > 0) {
            able |= model_look(e, &s->placements[i], &list->models[i], i, left);
            models = true;
        }
    /* a suffix has no variants: it follows its prefix, which was looked at above */
    for (uint32_t i = 0; i < listed->count; i++) {
        struct served_model *model = &list->models[listed->listed[i]];
        if (served_model_is_suffix(model))
            model_strand(model, served_model_state(&list->models[model->host]) != MODEL_READY);
    }
    model_list_unlock(list);
    for (uint32_t k = 0; k < e->wiring->rank_threads && !models; k++) /* without models, an accelerator is enough */
        able |= left[k] != 0;
    readiness_set_able(r, able);
}
