/* outages.c - models whose accelerators have failed: moved to a part that has others for them, or set aside. */
#include <string.h>

#include "base/log.h"
#include "control/server_state.h"

/* The types of which a part has accelerators in service, a bit each. False: all there are, are in service. */
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

bool server_part_runs(const struct server *s, uint32_t part, uint32_t model) {
    uint32_t left[RANK_THREADS_MAX];

    types_left(s, left);
    return runs_on_any(s, model, left[part]);
}

static void set_aside(struct served_model *model) {
    int ready = MODEL_READY;

    /* relaxed: nobody reads the reason before the store that follows in served_model_refuse() */
    if (!atomic_compare_exchange_strong_explicit(&model->state, &ready, MODEL_LOADING, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    served_model_refuse(model, "no accelerator that runs it is in service any more");
    log_error("model set aside", "model=%s reason=\"%s\"", model->name, model->reason);
}

/* Moves what a part can no longer run; a full ring: the rest follows the next time. */
static void model_look(struct server *s, uint32_t model, const uint32_t left[RANK_THREADS_MAX]) {
    const struct server_placement *p = &s->placements[model];
    uint32_t to = 0;

    while (to < s->wiring.rank_threads && !runs_on_any(s, model, left[to]))
        to++;
    if (to == s->wiring.rank_threads) {
        set_aside(&s->config.models[model]);
        return;
    }
    for (uint32_t v = p->first_variant; v < p->first_variant + p->variant_count; v++) {
        uint32_t part = wiring_part(&s->wiring, v);
        if (part == PART_NOBODY || runs_on_any(s, model, left[part]))
            continue;
        log_info("model moves to a rank thread that has accelerators for it", "model=%s rank_thread=%u",
                 s->config.models[model].name, to);
        wiring_move(&s->wiring, v, to);
    }
}

void server_outages(struct server *s) {
    uint32_t left[RANK_THREADS_MAX];

    if (!types_left(s, left))
        return;
    pthread_mutex_lock(&s->models_lock);
    for (uint32_t i = 0; i < s->config.model_count; i++)
        if (s->placements[i].variant_count > 0)
            model_look(s, i, left);
    pthread_mutex_unlock(&s->models_lock);
}
