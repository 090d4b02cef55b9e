/* server_models.c - the list of models that frontends use: published and replaced as a whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/counter.h"
#include "front/request/infer_counters.h"
#include "server/process/server_state.h"

static bool is_seen(const struct frontend *frontend, const struct model_index *models) {
    return frontend_models(frontend) == models || frontend_ended(frontend);
}

/* Waits until every frontend uses this list. A frontend reads the list once a turn, and turns are short. */
static void frontends_await(struct server *s, const struct model_index *models) {
    server_frontends_wake(s);
    for (uint32_t f = 0; f < server_frontends(s); f++)
        while (!is_seen(s->frontends[f], models)) {
            doorbell_arm(&s->models_bell);
            if (is_seen(s->frontends[f], models))
                doorbell_cancel(&s->models_bell);
            else
                doorbell_sleep(&s->models_bell, TIME_NEVER);
        }
}

static int name_compare(const void *a, const void *b, void *context) {
    const struct served_model *models = context, *x = &models[*(const uint32_t *)a], *y = &models[*(const uint32_t *)b];
    int order = strcmp(x->name, y->name);
    return order ? order : (x->version > y->version) - (x->version < y->version);
}

int server_models_publish(struct server *s, uint32_t *listed, uint32_t count, const struct model_absent *absent,
                          uint32_t absent_count, bool partial) {
    struct model_index *models = malloc(sizeof(*models));
    if (!models)
        return -ENOMEM;
    qsort_r(listed, count, sizeof(*listed), name_compare, s->config.models);
    if (model_index_init_listed(models, s->config.models, listed, count, absent, absent_count) < 0) {
        model_index_destroy(models);
        free(models);
        return -ENOMEM;
    }
    models->partial = partial;
    pthread_mutex_lock(&s->models_lock); /* metrics no longer read the old list */
    struct model_index *old = (struct model_index *)atomic_load_explicit(&s->models.now, memory_order_relaxed);
    atomic_store_explicit(&s->models.now, models,
                          memory_order_release); /* with models_look() in front/net/frontend.c */
    pthread_mutex_unlock(&s->models_lock);
    frontends_await(s, models);
    atomic_fetch_add_explicit(&s->published, 1, memory_order_release);
    model_index_destroy(old);
    free(old);
    return 0;
}

void server_counts_clear(struct server *s, uint32_t place) {
    for (uint32_t f = 0; f < server_frontends(s); f++) {
        const struct infer_counters *counters = server_infer_counters(s, f);
        struct step_counters *steps = infer_counters_steps_of(counters, place);
        counters_clear(&counters->models[place], sizeof(struct model_infer_counters));
        if (steps)
            counters_clear(steps, sizeof(*steps));
    }
}

bool server_model_held(const struct server *s, uint32_t model) {
    for (uint32_t f = 0; f < server_frontends(s); f++) /* acquire: with inferences_hold() */
        if (atomic_load_explicit(&server_infer_counters(s, f)->models[model].held, memory_order_acquire) > 0)
            return true;
    return false;
}
