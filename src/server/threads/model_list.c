/* model_list.c - publishes lists of models, and waits until frontends use them. */
#include "server/threads/model_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/threads/model_control.h"

void model_list_init(struct model_list *list, const struct server_config *config, const struct frontends *frontends) {
    list->models = config->models;
    list->count = config->model_count;
    list->frontends = frontends;
    doorbell_init(&list->bell, false, false);
    pthread_mutex_init(&list->lock, NULL);
}

int model_list_begin(struct model_list *list, const struct server_config *config) {
    struct model_index *models = calloc(1, sizeof(*models));
    uint32_t *listed = calloc(list->count + 1, sizeof(*listed)), count = 0, absent_count = 0;
    uint32_t start_count = config->control ? config->control->start_count : 0;
    struct model_absent *absent = calloc(start_count + 1, sizeof(*absent));
    list->gone = calloc(list->count + 1, sizeof(*list->gone)); /* pages that are not written take no memory */

    for (uint32_t i = 0; listed && absent && i < list->count; i++) {
        const struct served_model *model = &list->models[i];
        bool waits = i < start_count && served_model_state(model) == MODEL_LOADING;
        if (waits) {
            absent[absent_count++] = model_absent_of(model, MODEL_LOADING, "");
        } else if ((i < start_count || !server_has_places(config)) && !served_model_is_prefix(model)) {
            listed[count++] = i;
        }
    }
    bool whole = models && listed && absent && list->gone;
    if (!whole)
        free(absent);
    int rc = whole ? model_index_init_listed(models, list->models, listed, count, absent, absent_count) : -ENOMEM;
    free(listed);
    if (rc < 0) {
        if (whole)
            model_index_destroy(models);
        free(models);
        return -ENOMEM;
    }
    models->partial = server_role(config) == LINK_FRONTEND;
    atomic_init(&list->now.now, models);
    return 0;
}

void model_list_free(struct model_list *list) {
    struct model_index *models = (struct model_index *)atomic_load_explicit(&list->now.now, memory_order_relaxed);

    if (models)
        model_index_destroy(models);
    free(models);
    free(list->gone);
    pthread_mutex_destroy(&list->lock);
}

static bool is_seen(const struct frontend *frontend, const struct model_index *models) {
    return frontend_models(frontend) == models || frontend_ended(frontend);
}

static int name_compare(const void *a, const void *b, void *context) {
    const struct served_model *models = context, *x = &models[*(const uint32_t *)a], *y = &models[*(const uint32_t *)b];
    int order = strcmp(x->name, y->name);
    return order ? order : (x->version > y->version) - (x->version < y->version);
}

/* Notes which models of the old list are not in the new one; `stays`: [count] 0. */
static void gone_note(struct model_list *list, const struct model_index *old, const struct model_index *models,
                      bool *stays) {
    for (uint32_t i = 0; i < models->count; i++)
        stays[models->listed[i]] = true;
    for (uint32_t i = 0; i < old->count; i++) {
        const struct served_model *model = &list->models[old->listed[i]];
        struct model_gone *gone = &list->gone[old->listed[i]];
        if (stays[old->listed[i]])
            continue;
        snprintf(gone->name, sizeof(gone->name), "%s", model->name);
        gone->version = model->version;
        gone->key = served_model_key(model);
    }
}

int model_list_publish(struct model_list *list, uint32_t *listed, uint32_t count, struct model_absent *absent,
                       uint32_t absent_count, bool partial) {
    struct model_index *models = malloc(sizeof(*models));
    bool *stays = calloc(list->count + 1, sizeof(*stays));
    if (!models || !stays) {
        free(models);
        free(absent);
        free(stays);
        return -ENOMEM;
    }
    qsort_r(listed, count, sizeof(*listed), name_compare, list->models);
    if (model_index_init_listed(models, list->models, listed, count, absent, absent_count) < 0) {
        model_index_destroy(models);
        free(models);
        free(stays);
        return -ENOMEM;
    }
    models->partial = partial;
    pthread_mutex_lock(&list->lock); /* metrics no longer read the old list */
    struct model_index *old = (struct model_index *)atomic_load_explicit(&list->now.now, memory_order_relaxed);
    gone_note(list, old, models, stays);
    atomic_store_explicit(&list->now.now, models,
                          memory_order_release); /* with models_look() in front/net/frontend.c */
    pthread_mutex_unlock(&list->lock);
    free(stays);
    frontends_wake(list->frontends); /* they read the list once a turn, and turns are short */
    for (uint32_t f = 0; f < list->frontends->count; f++)
        while (!is_seen(list->frontends->list[f], models)) {
            doorbell_arm(&list->bell);
            if (is_seen(list->frontends->list[f], models))
                doorbell_cancel(&list->bell);
            else
                doorbell_sleep(&list->bell, TIME_NEVER);
        }
    atomic_fetch_add_explicit(&list->published, 1, memory_order_release);
    model_index_destroy(old);
    free(old);
    return 0;
}
