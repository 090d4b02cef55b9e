/* cluster_models.c - puts models into places, publishes them, and frees the places. */
#include "server/process/cluster_models.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link.h"
#include "core/data/running.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"
#include "front/request/preparer.h"
#include "model/config/preparations.h"
#include "model/repository/model_description.h"
#include "model/repository/model_life.h"
#include "server/process/deployment.h"
#include "server/process/ensembles.h"
#include "server/process/server_state.h"

/* Requests of a model that is gone may still be on their way in: a client sends a request's head, by which the model is
 * chosen, before its body. For this time the scheduler and the backend keep the old model for such requests; where one
 * backend has the old model and another one that took over, requests of the new model may have to wait. An upload that
 * takes longer is refused. */
#define UPLOADS_NS NS_PER_S
/* With `serve --isolate`: time from when all processes run until the scheduler's report, which is made four times a
 * second, tells of all of them. */
#define REPORTED_NS NS_PER_S

/* A thread that opens the preparations of a model's inputs. */
struct opening {
    pthread_t thread;
    struct served_model *model;
    int rc; /* result of preparations_open(), with `err`; read once `done` is set */
    struct sy_error err;
    _Atomic bool done;
};

struct place {
    bool able; /* in an ensemble: whether its steps can run */
    uint64_t hash;
    int64_t gone_ns;         /* LEAVING: time since which no client can ask for the model */
    struct opening *opening; /* thread that opens preparations, while the place is PREPARING; NULL: none */
};

/* Models that are known in this process (server_models_know()). Constant. */
struct known_models {
    uint32_t count;
    struct model_absent models[];
};

struct cluster_models {
    struct server *server;
    struct known_models *known;                /* known models, as last published; NULL: none are known */
    _Atomic(struct known_models *) known_next; /* newest known models, not taken yet; NULL: none */
    _Atomic bool known_new;                    /* whether the newest known models have not been published yet */
    struct place *places;                      /* [count] */
    uint32_t count;
    struct model_life *life; /* states of the places, which have no parties here */
    bool stale;              /* whether the published list is not the present one, for lack of memory */
    bool told; /* whether the scheduler has told of all models at least once: before, clients would miss some */
    const char **names; /* [name_count] names of models of which some version is served, or soon will be; in order */
    uint32_t name_count;
    struct model_absent *absent; /* [absent_count] models that were set aside, or were served and are not now */
    uint32_t absent_count;
    /* with `serve --isolate` */
    bool idle;                           /* whether no accelerator is in service, and none soon will be */
    bool stranded;                       /* whether models were set aside since no accelerator runs them */
    int64_t started_ns;                  /* time at which a process was last seen to be starting */
    struct server_accelerators profiles; /* accelerators of one type, with profiles [count] by place; NULL: an ensemble,
                                          * or the place is free */
};

struct cluster_models *cluster_models_create(struct server *server) {
    struct cluster_models *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->server = server;
    m->count = server->config.model_count;
    m->places = calloc(m->count, sizeof(*m->places));
    m->absent = calloc(m->count + server->config.aside_count, sizeof(*m->absent));
    m->profiles.profiles = calloc(m->count, sizeof(*m->profiles.profiles));
    m->names = calloc(m->count, sizeof(*m->names));
    m->life = calloc(1, model_life_bytes(m->count, 0));
    if (m->places && m->absent && m->profiles.profiles && m->names && m->life) {
        model_life_init(m->life, m->count, 0);
        for (; m->absent_count < server->config.aside_count; m->absent_count++)
            m->absent[m->absent_count] = server->config.aside[m->absent_count];
        return m;
    }
    cluster_models_destroy(m);
    return NULL;
}

static struct served_model *model_at(const struct cluster_models *m, uint32_t place) {
    return &m->server->config.models[place];
}

static void place_empty(struct cluster_models *m, uint32_t i) {
    ensemble_release(model_at(m, i));
    served_model_release(model_at(m, i));
    free((void *)m->profiles.profiles[i]);
    m->profiles.profiles[i] = NULL;
}

/* Waits until the place's opening has ended, and puts its outcome into `result`. */
static void opening_end(struct cluster_models *m, uint32_t place, struct opening *result) {
    struct opening *opening = m->places[place].opening;
    pthread_join(opening->thread, NULL);
    result->rc = opening->rc;
    result->err = opening->err;
    m->places[place].opening = NULL;
    free(opening);
}

void cluster_models_destroy(struct cluster_models *m) {
    struct opening opened;
    if (!m)
        return;
    for (uint32_t i = 0; m->places && m->profiles.profiles && m->life && i < m->count; i++) {
        if (m->places[i].opening)
            opening_end(m, i, &opened);
        if (model_life_state(m->life, i) != LIFE_FREE)
            place_empty(m, i);
    }
    free(atomic_load_explicit(&m->known_next, memory_order_relaxed)); /* the last thread */
    free(m->known);
    free(m->profiles.profiles);
    free(m->absent);
    free(m->names);
    free(m->places);
    free(m->life);
    free(m);
}

const struct server_accelerators *cluster_models_profiles(const struct cluster_models *m) {
    return &m->profiles;
}

/* ---- publishing ---- */

static bool is_ensemble(const struct cluster_models *m, uint32_t place) {
    return model_life_stays(m->life, place) && model_at(m, place)->ensemble;
}

/* Whether an ensemble can run with the models of `world`; if not, `absent` gets the reason. */
static bool ensemble_listed(struct cluster_models *m, uint32_t place, const struct ensemble_world *world,
                            struct model_absent *absent) {
    struct served_model *model = model_at(m, place);
    struct sy_error err;
    bool able = server_ensemble_able(m->server, model, world, &err) == 0, was = m->places[place].able;
    m->places[place].able = able;
    if (able && !was)
        ensemble_log(model);
    if (able)
        return true;
    *absent = (struct model_absent){.version = model->version, .state = MODEL_UNAVAILABLE, .failed = true};
    memcpy(absent->name, model->name, sizeof(absent->name));
    snprintf(absent->reason, sizeof(absent->reason), "%s", err.text);
    if (was)
        log_error("ensemble set aside", "model=%s reason=\"%s\"", model->name, err.text);
    return false;
}

/* Adds the ensembles that can run to the listed models, the others to those absent. 0 or -ENOMEM. */
static int ensembles_list(struct cluster_models *m, uint32_t *listed, uint32_t *count, struct model_absent *absent,
                          uint32_t *absent_count) {
    uint32_t *candidates = calloc(m->count + 1, sizeof(*candidates)), candidate_count = *count;
    if (!candidates)
        return -ENOMEM;
    memcpy(candidates, listed, *count * sizeof(*candidates));
    for (uint32_t i = 0; i < m->count; i++) /* ensembles may be steps of each other */
        if (is_ensemble(m, i))
            candidates[candidate_count++] = i;
    const struct ensemble_world world = {
        .models = m->server->config.models,
        .listed = candidates,
        .count = candidate_count,
        .accelerators = &m->profiles,
        .type_count = 1,
        .elsewhere = true,
        .published = atomic_load_explicit(&m->server->published, memory_order_acquire),
    };
    server_models_lock(m->server); /* server_ensembles_look() divides SLOs of ensembles, too */
    for (uint32_t i = 0; i < m->count; i++) {
        if (!is_ensemble(m, i))
            continue;
        if (ensemble_listed(m, i, &world, &absent[*absent_count]))
            listed[(*count)++] = i;
        else
            ++*absent_count;
    }
    server_models_unlock(m->server);
    free(candidates);
    return 0;
}

/* The entry that tells clients of a model that this process does not serve, though the cluster does. */
static struct model_absent absent_of(const struct cluster_models *m, uint32_t place) {
    const struct served_model *model = model_at(m, place);
    struct model_absent absent = {.version = model->version, .state = served_model_state(model)};
    absent.failed = absent.state == MODEL_UNAVAILABLE;
    memcpy(absent.name, model->name, sizeof(absent.name));
    snprintf(absent.reason, sizeof(absent.reason), "%s", absent.failed ? model->reason : "");
    return absent;
}

static const struct model_absent *known_find(const struct cluster_models *m, const char *name) {
    for (uint32_t i = 0; i < m->known->count; i++)
        if (strcmp(m->known->models[i].name, name) == 0)
            return &m->known->models[i];
    return NULL;
}

static int name_compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void names_sort(struct cluster_models *m) {
    m->name_count = 0;
    for (uint32_t i = 0; i < m->count; i++)
        if (model_life_stays(m->life, i))
            m->names[m->name_count++] = model_at(m, i)->name;
    qsort(m->names, m->name_count, sizeof(*m->names), name_compare);
}

static bool is_served(const struct cluster_models *m, const char *name) {
    return bsearch(&name, m->names, m->name_count, sizeof(*m->names), name_compare);
}

/* Whether requests of a model that was unloaded are still to be answered. */
static bool is_unloading(const struct cluster_models *m, const char *name) {
    MODEL_LIFE_EACH_MOVING (m->life, i)
        if (model_life_state(m->life, i) == LIFE_LEAVING && m->life->places[i].replaced_ns == 0 &&
            strcmp(model_at(m, i)->name, name) == 0)
            return true;
    return false;
}

/* Adds the models that are not served. First, models that no backend has any more; if this process knows models
 * (server_models_know()), only those that are to be served. Second, known models that are not to be served. */
static void absent_list(const struct cluster_models *m, struct model_absent *absent, uint32_t *absent_count) {
    for (uint32_t i = 0; i < m->absent_count; i++) {
        const struct model_absent *known = m->known ? known_find(m, m->absent[i].name) : NULL;
        if (!m->known || (known && known->state == MODEL_READY && !is_served(m, known->name)))
            absent[(*absent_count)++] = m->absent[i];
    }
    for (uint32_t i = 0; m->known && i < m->known->count; i++) {
        const struct model_absent *known = &m->known->models[i];
        if (known->state == MODEL_READY || is_served(m, known->name))
            continue;
        struct model_absent *one = &absent[(*absent_count)++];
        *one = *known;
        if (known->state == MODEL_UNAVAILABLE && !known->failed && is_unloading(m, known->name)) {
            one->state = MODEL_UNLOADING;
            one->reason[0] = '\0';
        }
    }
}

/* Publishes the models that serve now. */
static void publish(struct cluster_models *m) {
    uint32_t *listed = calloc(m->count + 1, sizeof(*listed)), count = 0, absent_count = 0;
    uint32_t known = m->known ? m->known->count : 0;
    bool able = false;
    struct model_absent *absent = calloc(m->absent_count + known + m->count + 1, sizeof(*absent));
    names_sort(m);
    if (listed && absent) {
        absent_list(m, absent, &absent_count);
        for (uint32_t i = 0; i < m->count; i++) {
            if (!model_life_stays(m->life, i) || model_at(m, i)->ensemble)
                continue;
            able |= served_model_state(model_at(m, i)) == MODEL_READY;
            if (model_life_state(m->life, i) == LIFE_SERVING) /* even while no accelerator runs it */
                listed[count++] = i;
            else
                absent[absent_count++] = absent_of(m, i);
        }
    }
    m->stale = !listed || !absent || ensembles_list(m, listed, &count, absent, &absent_count) < 0 ||
               server_models_publish(m->server, listed, count, absent, absent_count, !m->told) < 0;
    if (m->stale)
        log_error("models not published", "reason=\"out of memory\"");
    free(absent);
    free(listed);
    able |= count == 0 && m->known && !m->idle;                                     /* models may come */
    atomic_store_explicit(&m->server->able, m->told && able, memory_order_release); /* with server_serving_update() */
    server_serving_update(m->server);
}

static void absent_forget(struct cluster_models *m, const struct served_model *model) {
    for (uint32_t i = 0; i < m->absent_count; i++)
        if (m->absent[i].version == model->version && strcmp(m->absent[i].name, model->name) == 0)
            m->absent[i--] = m->absent[--m->absent_count];
}

/* ---- preparations ---- */

/* The model's inputs can be prepared from now on, or never. */
static void place_opened(struct cluster_models *m, uint32_t place, int rc, struct sy_error *err) {
    struct served_model *model = model_at(m, place);
    struct server *s = m->server;
    if (rc == 0 && model->prepared)
        rc =
            s->preparer ? preparer_start(s->preparer, err) : error_set(err, -ENOTSUP, "no thread here prepares inputs");
    if (rc < 0) {
        served_model_refuse(model, "%s", err->text);
        model_life_failed(m->life, place);
        log_error("model not served here", "model=%s reason=\"%s\"", model->name, model->reason);
        return;
    }
    /* release: with every load of the state that precedes reading the model, also before it is published */
    atomic_store_explicit(&model->state, MODEL_READY, memory_order_release);
    model_life_prepared(m->life, place, LIFE_NOBODY, clock_now_ns());
    if (!model->ensemble && model_life_state(m->life, place) == LIFE_SERVING)
        log_info("model", "model=%s version=%u slo_ms=%.6g max_batch=%u", model->name, model->version,
                 (double)model->slo_ns / 1e6, model->batch_max);
}

static void *opening_main(void *context) {
    struct opening *opening = context;
    thread_begin("open", 0, THREAD_SHARED);
    opening->rc = preparations_open(opening->model, deployment_transforms(), &opening->err);
    atomic_store_explicit(&opening->done, true, memory_order_release); /* with cluster_models_look() */
    return NULL;
}

/* Whether a model in a file of its own prepares an input of the model. */
static bool has_files(const struct served_model *model) {
    for (uint32_t i = 0; i < model->signature.input_count; i++)
        if (model->prepared & tensor_bit(i) && model->preparations[i].file[0])
            return true;
    return false;
}

/* Makes a model that was put into its place ready: now, or when its preparations have been opened. */
static void place_open(struct cluster_models *m, uint32_t place) {
    struct served_model *model = model_at(m, place);
    struct sy_error err = {""};
    struct opening *opening = has_files(model) ? calloc(1, sizeof(*opening)) : NULL;
    if (!opening) {
        int rc = has_files(model) ? error_set(&err, -ENOMEM, "no memory") : preparations_open(model, NULL, &err);
        place_opened(m, place, rc, &err);
        return;
    }
    opening->model = model;
    int rc = -pthread_create(&opening->thread, NULL, opening_main, opening);
    if (rc < 0) {
        free(opening);
        place_opened(m, place, error_set(&err, rc, "no thread to open what prepares inputs: %s", strerror(-rc)), &err);
        return;
    }
    m->places[place].opening = opening;
}

/* ---- places ---- */

/* Carries out the orders for places. `changed`: publishes in any case. */
static void orders_carry_out(struct cluster_models *m, bool changed) {
    struct life_order order;
    while (model_life_next(m->life, clock_now_ns(), &order)) {
        changed |= order.kind != LIFE_FREED || m->known; /* a known model is not UNLOADING any more */
        if (order.kind == LIFE_HIDE) {
            m->places[order.place].gone_ns = clock_now_ns();
            model_life_hold(m->life, order.place, 1); /* the list that is published now, and requests */
        } else if (order.kind == LIFE_FREED) {
            place_empty(m, order.place);
            atomic_store_explicit(&model_at(m, order.place)->state, MODEL_LOADING, memory_order_relaxed); /* unseen */
        }
    }
    if (changed)
        publish(m);
}

/* The place of the same model, which keeps it and the secret by which its shapes are told apart, even if a new
 * scheduler got another secret from another backend: then only requests that came by different frontends do not share
 * batches. */
static uint32_t place_same(const struct cluster_models *m, uint64_t key, uint64_t hash) {
    uint32_t i = LIFE_NONE;
    do
        i = model_life_of_key(m->life, key, i);
    while (i != LIFE_NONE && m->places[i].hash != hash);
    return i;
}

/* The scheduler announces a place's model once more, perhaps after it was gone: then its last requests go on. */
static void place_again(struct cluster_models *m, uint32_t place, const struct served_model *announced) {
    struct served_model *model = model_at(m, place);
    uint32_t items_max = atomic_load_explicit(&announced->items_max, memory_order_relaxed);
    atomic_store_explicit(&model->items_max, items_max, memory_order_relaxed); /* a lone number */
    if (model_life_stays(m->life, place))
        return;
    model_life_back(m->life, place, clock_now_ns());
    absent_forget(m, model);
    log_info("model is back", "model=%s version=%u", model->name, model->version);
    orders_carry_out(m, true);
}

/* A process of `serve --isolate` has described the model, which knows of one accelerator: its own. */
static void instances_count(const struct cluster_models *m, struct served_model *model) {
    const struct server_cluster *c = m->server->config.cluster;
    for (struct served_on *on = model->on; on < model->on + ACCELERATOR_TYPES_MAX && on->count > 0; on++) {
        on->count = 0;
        for (uint32_t n = 0; n < c->running_count; n++)
            on->count += strcmp(c->running_types[n], on->type) == 0;
    }
}

int cluster_models_serve(void *models, const char *description, size_t bytes, struct sy_error *err) {
    struct cluster_models *m = models;
    struct described_profile profiles[ACCELERATOR_TYPES_MAX];
    struct served_model found = {.memory = NULL}, *model = &found;
    uint32_t count = 0;
    int rc = model_description_read(description, bytes, model, profiles, &count, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 1; i < count; i++) /* one profile is enough here, for ensembles; the scheduler uses the others */
        free(profiles[i].profile);
    uint64_t key = served_model_key(model), hash = model_description_hash(model);
    uint32_t same = place_same(m, key, hash), place = same;
    if (m->server->config.scheduler)
        instances_count(m, model);
    if (same == LIFE_NONE)
        place = model_life_put(m->life, key);
    if (same == LIFE_NONE && place != LIFE_NONE) {
        server_counts_clear(m->server, place);
        m->profiles.profiles[place] = count > 0 ? profiles[0].profile : NULL;
        served_model_move(model_at(m, place), model);
        m->places[place] = (struct place){.hash = hash};
        absent_forget(m, model);
        place_open(m, place);
        orders_carry_out(m, true);
        return (int)place;
    }
    if (same == LIFE_NONE)
        rc = error_set(err, -ENOSPC, "model '%s' waits: there is no room for more than %u (--max-models)", model->name,
                       m->count);
    else
        place_again(m, same, model);
    model_description_release(model, profiles, count > 0);
    return rc < 0 ? rc : (int)same;
}

/* Whether another model of the same name and version is announced; `opening`: one that is being opened. */
static bool has_other(const struct cluster_models *m, uint32_t place, bool opening) {
    uint64_t key = m->life->places[place].key;
    for (uint32_t i = LIFE_NONE; (i = model_life_of_key(m->life, key, i)) != LIFE_NONE;)
        if (i != place && model_life_stays(m->life, i) && (!opening || m->places[i].opening))
            return true;
    return false;
}

void cluster_models_gone(void *models, uint32_t place) {
    struct cluster_models *m = models;
    const struct served_model *model = model_at(m, place);

    if (!model_life_stays(m->life, place))
        return; /* the model was replaced, or has gone before */
    if (!has_other(m, place, false) && m->absent_count < m->count + m->server->config.aside_count) {
        struct model_absent *absent = &m->absent[m->absent_count++];
        *absent = (struct model_absent){
            .version = model->version, .state = MODEL_UNAVAILABLE, .failed = true, .reason = CLUSTER_MODEL_GONE};
        memcpy(absent->name, model->name, sizeof(absent->name));
        const struct model_absent *known = m->known ? known_find(m, model->name) : NULL;
        if (!m->known || (known && known->state == MODEL_READY))
            log_warn("model not served any more", "model=%s version=%u reason=\"" CLUSTER_MODEL_GONE "\"", model->name,
                     model->version);
    }
    model_life_end(m->life, place);
    orders_carry_out(m, true);
}

bool cluster_models_outlasts(void *models, uint32_t place) {
    const struct cluster_models *m = models;
    /* as without --isolate: no other model waits for the requests */
    bool unloaded = m->server->config.scheduler && m->life->places[place].replaced_ns == 0;
    return (model_life_state(m->life, place) == LIFE_LEAVING && server_model_held(m->server, place) &&
            (unloaded || clock_now_ns() < m->places[place].gone_ns + UPLOADS_NS)) ||
           has_other(m, place, true);
}

void cluster_models_told(void *models) {
    struct cluster_models *m = models;
    if (m->told)
        return;
    m->told = true;
    publish(m);
}

bool cluster_models_room(void *models) {
    const struct cluster_models *m = models;
    return model_life_room(m->life);
}

int cluster_models_know(struct cluster_models *m, const struct model_absent *known, uint32_t count) {
    struct known_models *next = malloc(sizeof(*next) + count * sizeof(*known));
    if (!next)
        return -ENOMEM;
    next->count = count;
    memcpy(next->models, known, count * sizeof(*known));
    atomic_store_explicit(&m->known_new, true, memory_order_relaxed);           /* before the next is seen */
    free(atomic_exchange_explicit(&m->known_next, next, memory_order_acq_rel)); /* with known_look() */
    return 0;
}

bool cluster_models_knows(struct cluster_models *m) {
    return !atomic_load_explicit(&m->known_new, memory_order_acquire); /* with known_look() */
}

/* Publishes the models that are known, if there are newer ones. */
static void known_look(struct cluster_models *m) {
    struct known_models *next = atomic_exchange_explicit(&m->known_next, NULL, memory_order_acq_rel);
    if (!next)
        return;
    free(m->known);
    m->known = next;
    publish(m);
    atomic_store_explicit(&m->known_new, false, memory_order_release); /* with cluster_models_knows() */
}

/* With `serve --isolate`: sets models aside while no accelerator that runs them is in service, and takes them back. A
 * process that starts counts as an accelerator in service: its models' requests wait. Whether that changed anything. */
static bool outages_look(struct cluster_models *m) {
    const struct server_cluster *c = m->server->config.cluster;
    int64_t now_ns = clock_now_ns();
    uint32_t count, serving = 0, starting = 0;
    for (uint32_t n = 0; n < c->running_count; n++) {
        uint8_t state = atomic_load_explicit(&c->running[n]->state, memory_order_relaxed); /* a word on its own */
        serving += state == ACCELERATOR_SERVING;
        starting += state == RUNNING_STARTS;
    }
    bool idle = serving + starting == 0, changed = idle != m->idle;
    m->idle = idle;
    m->started_ns = starting > 0 ? now_ns : m->started_ns;
    bool reported = now_ns >= m->started_ns + REPORTED_NS, look = serving < c->running_count || m->stranded;
    struct link_model *told =
        reported && look
            ? link_report_models(scheduler_link_report(m->server->config.scheduler->scheduler_link), &count)
            : NULL;
    m->stranded &= !told;
    for (uint32_t t = 0; told && t < count; t++)
        for (uint32_t i = 0; i < m->count; i++) {
            struct served_model *model = model_at(m, i);
            if (model_life_state(m->life, i) != LIFE_SERVING || model->ensemble || told[t].version != model->version ||
                strcmp(told[t].name, model->name) != 0)
                continue;
            changed |= server_model_strand(model, told[t].stranded);
            m->stranded |= told[t].stranded;
        }
    free(told);
    return changed;
}

bool cluster_models_look(void *models) {
    struct cluster_models *m = models;
    bool changed = m->stale;
    known_look(m);
    if (m->server->config.scheduler)
        changed |= outages_look(m);
    MODEL_LIFE_EACH_MOVING (m->life, i) {
        struct opening opened, *opening = m->places[i].opening;
        if (model_life_lingers(m->life, i) && !m->stale && !server_model_held(m->server, i))
            model_life_release(m->life, i, 1);
        if (!opening || !atomic_load_explicit(&opening->done, memory_order_acquire)) /* with opening_main() */
            continue;
        opening_end(m, i, &opened);
        place_opened(m, i, opened.rc, &opened.err);
        changed = true;
    }
    orders_carry_out(m, changed);
    return m->stale || !list_empty(&m->life->moving);
}
