/* cluster_models.c - puts models into places, publishes them, and frees the places. */
#include "server/models/cluster_models.h"

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
#include "server/models/deployment.h"
#include "server/models/ensembles.h"
#include "server/models/outages.h"
#include "server/threads/readiness.h"

/* Requests of a model that is gone may still be on their way in: a client sends a request's head, by which the model is
 * chosen, before its body. For this time the scheduler and the backend keep the old model for such requests; where one
 * backend has the old model and another one that took over, requests of the new model may have to wait. An upload that
 * takes longer is refused. */
#define UPLOADS_NS NS_PER_S
/* With `serve --isolate`: time from when all processes run until the scheduler's report, which is made four times a
 * second, tells of all of them. */
#define REPORTED_NS NS_PER_S

/* Publishing takes the longer the more models there are. So of more models than this, those that come are published a
 * little later: it rests. */
#define PUBLISH_EACH_MOST 100
#define GONE_LINES_MOST   100 /* models that go together that are each logged */

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

/* A list of enum models_handed. Constant. */
struct known_models {
    uint64_t number; /* number of the list among all of its kind, from 1 on */
    uint32_t count;
    struct model_absent models[];
};

/* The way of such lists from the thread that hands them over. */
struct handed {
    _Atomic(struct known_models *) next; /* newest list, not taken yet; NULL: none */
    uint64_t count;                      /* lists that were handed over; the other thread's */
    _Atomic uint64_t shown;              /* number of the list that is published; 0: none */
};

struct cluster_models {
    const struct server_config *config;
    struct model_list *list;
    struct readiness *readiness;
    struct scheduler_link *beside; /* as in cluster_models_create() */
    struct known_models *known;    /* known models, as last published; NULL: none are known */
    struct known_models *aside;    /* server_models_aside(), as last published; NULL: none */
    struct handed handed[MODELS_HANDED];
    struct place *places; /* [count] */
    uint32_t count;
    struct model_life *life; /* states of the places, which have no parties here */
    bool stale;              /* whether the published list is not the present one */
    bool failed;             /* whether there was no memory for the present one, which is said once */
    int64_t publish_ns;      /* until then models that come are not published */
    uint32_t gone;           /* models that have gone since the list was published, and are to be logged */
    bool able;               /* whether there is a model to serve */
    bool unlinked;           /* whether requests cannot be sent on, and are refused */
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

struct cluster_models *cluster_models_create(const struct server_config *config, struct model_list *list,
                                             struct readiness *readiness, struct scheduler_link *beside) {
    struct cluster_models *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->config = config;
    m->list = list;
    m->readiness = readiness;
    m->beside = beside;
    m->count = list->count;
    m->places = calloc(m->count, sizeof(*m->places));
    m->absent = calloc(m->count + 1, sizeof(*m->absent));
    m->profiles.profiles = calloc(m->count, sizeof(*m->profiles.profiles));
    m->names = calloc(m->count, sizeof(*m->names));
    m->life = calloc(1, model_life_bytes(m->count, 0));
    if (m->places && m->absent && m->profiles.profiles && m->names && m->life) {
        model_life_init(m->life, m->count, 0);
        return m;
    }
    cluster_models_destroy(m);
    return NULL;
}

static struct served_model *model_at(const struct cluster_models *m, uint32_t place) {
    return &m->list->models[place];
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
    for (int kind = 0; kind < MODELS_HANDED; kind++)
        free(atomic_load_explicit(&m->handed[kind].next, memory_order_relaxed)); /* the last thread */
    free(m->known);
    free(m->aside);
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
        .models = m->list->models,
        .listed = candidates,
        .count = candidate_count,
        .accelerators = &m->profiles,
        .type_count = 1,
        .elsewhere = true,
        .published = atomic_load_explicit(&m->list->published, memory_order_acquire),
    };
    model_list_lock(m->list); /* ensembles_look() divides SLOs of ensembles, too */
    for (uint32_t i = 0; i < m->count; i++) {
        struct served_model *model = model_at(m, i);
        struct sy_error err;
        if (!is_ensemble(m, i))
            continue;
        bool able = ensemble_able(m->list->frontends, model, &world, &err) == 0, was = m->places[i].able;
        m->places[i].able = able;
        if (able) {
            listed[(*count)++] = i;
            if (!was)
                ensemble_log(model);
            continue;
        }
        absent[(*absent_count)++] = model_absent_of(model, MODEL_UNAVAILABLE, err.text);
        if (was)
            log_error("ensemble set aside", "model=%s reason=\"%s\"", model->name, err.text);
    }
    model_list_unlock(m->list);
    free(candidates);
    return 0;
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
 * (server_models_know()), only those that are to be served. Second, known models that are not to be served. Third,
 * those of server_models_aside(). */
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
    for (uint32_t i = 0; m->aside && i < m->aside->count; i++) {
        struct served_model named = {.version = m->aside->models[i].version};
        memcpy(named.name, m->aside->models[i].name, sizeof(named.name));
        uint64_t key = served_model_key(&named);
        bool there = false;
        for (uint32_t place = LIFE_NONE; (place = model_life_of_key(m->life, key, place)) != LIFE_NONE;)
            there |= model_life_stays(m->life, place);
        if (!there)
            absent[(*absent_count)++] = m->aside->models[i];
    }
}

/* Publishes the models that serve now. Without memory the earlier list stays, until cluster_models_look() tries again.
 */
static void publish(struct cluster_models *m) {
    int64_t began_ns = clock_now_ns();
    uint32_t *listed = calloc(m->count + 1, sizeof(*listed)), count = 0, absent_count = 0;
    uint32_t known = (m->known ? m->known->count : 0) + (m->aside ? m->aside->count : 0);
    bool able = false, said = m->failed;
    struct model_absent *absent = malloc((m->absent_count + known + m->count + 1) * sizeof(*absent));
    m->name_count = 0;
    for (uint32_t i = 0; i < m->count; i++)
        if (model_life_stays(m->life, i))
            m->names[m->name_count++] = model_at(m, i)->name;
    qsort(m->names, m->name_count, sizeof(*m->names), name_compare);
    if (listed && absent)
        absent_list(m, absent, &absent_count);
    for (uint32_t i = 0; listed && absent && i < m->count; i++) {
        const struct served_model *model = model_at(m, i);
        int state = served_model_state(model);
        if (!model_life_stays(m->life, i) || model->ensemble)
            continue;
        able |= state == MODEL_READY;
        if (model_life_state(m->life, i) == LIFE_SERVING) { /* even while no accelerator runs it */
            listed[count++] = i;
            continue;
        }
        /* this process does not serve it, though the cluster does */
        absent[absent_count++] = model_absent_of(model, state, state == MODEL_UNAVAILABLE ? model->reason : "");
    }
    bool whole = listed && absent && ensembles_list(m, listed, &count, absent, &absent_count) == 0;
    if (!whole)
        free(absent);
    m->failed = m->stale = !whole || model_list_publish(m->list, listed, count, absent, absent_count, !m->told) < 0;
    if (m->gone > GONE_LINES_MOST)
        log_warn("more models not served any more", "models=%u", m->gone - GONE_LINES_MOST);
    m->gone = 0;
    if (m->failed && !said)
        log_error("models not published", "reason=\"out of memory\"");
    free(listed);
    m->able = able || (count == 0 && m->known && !m->idle); /* models may come */
    readiness_set_able(m->readiness, m->told && m->able && !m->unlinked);
    m->publish_ns = m->name_count > PUBLISH_EACH_MOST ? time_rested(began_ns, clock_now_ns()) : 0;
}

void cluster_models_linked(void *models, bool linked) {
    struct cluster_models *m = models;
    m->unlinked = !linked;
    readiness_set_able(m->readiness, m->told && m->able && linked);
}

/* Publishes what has come, at once or, where there are many models, a little later. */
static void come_publish(struct cluster_models *m) {
    m->stale = true;
    if (clock_now_ns() >= m->publish_ns)
        publish(m);
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
    struct preparer *preparer = m->list->frontends->config.preparer;
    if (rc == 0 && model->prepared)
        rc = preparer ? preparer_start(preparer, err) : error_set(err, -ENOTSUP, "no thread here prepares inputs");
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
                 (double)served_model_slo_ns(model) / 1e6, model->batch_max);
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

/* Carries out the orders for places. True: the list to be published is another one. */
static bool orders_carry_out(struct cluster_models *m) {
    struct life_order order;
    bool changed = false;
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
    return changed;
}

/* Says to which version requests without one go from now on. */
static void versions_log(const struct served_model *model, bool begins, uint32_t share) {
    if (share > 0)
        log_info("requests without a version go here, a part of them", "model=%s version=%u share=%.6g", model->name,
                 model->version, share / 1e4);
    else
        log_info(begins ? "requests without a version go to another one" : "requests without a version go here",
                 "model=%s version=%u", model->name, model->version);
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
    if (hash == 0) {
        model_description_release(model, profiles, count > 0);
        return error_set(err, -ENOMEM, "no memory for the description of model '%s'", model->name);
    }
    /* The place of the same model keeps it and the secret by which its shapes are told apart, even if a new scheduler
     * got another secret from another backend: then only requests that came by different frontends do not share
     * batches. */
    uint32_t same = model_life_of_key(m->life, key, LIFE_NONE);
    while (same != LIFE_NONE && m->places[same].hash != hash)
        same = model_life_of_key(m->life, key, same);
    /* a process of `serve --isolate` that describes a model knows of one accelerator: its own */
    const struct server_cluster *c = m->config->cluster;
    for (struct served_on *on = model->on; m->beside && on < model->on + ACCELERATOR_TYPES_MAX && on->count > 0; on++) {
        on->count = 0;
        for (uint32_t n = 0; n < c->running_count; n++)
            on->count += strcmp(c->running_types[n], on->type) == 0;
    }
    uint32_t place = same == LIFE_NONE ? model_life_put(m->life, key) : same;
    if (same == LIFE_NONE && place != LIFE_NONE) {
        frontends_counters_clear(m->list->frontends, place);
        m->profiles.profiles[place] = count > 0 ? profiles[0].profile : NULL;
        served_model_move(model_at(m, place), model);
        m->places[place] = (struct place){.hash = hash};
        absent_forget(m, model);
        place_open(m, place);
        orders_carry_out(m);
        come_publish(m);
        return (int)place;
    }
    if (same == LIFE_NONE) {
        rc = error_set(err, -ENOSPC, "model '%s' waits: there is no room for more than %u (--max-models)", model->name,
                       m->count);
    } else {
        uint32_t items_max = atomic_load_explicit(&model->items_max, memory_order_relaxed);
        atomic_store_explicit(&model_at(m, same)->items_max, items_max, memory_order_relaxed); /* a lone number */
        int64_t slo_ns = served_model_slo_ns(model), was_ns = served_model_slo_ns(model_at(m, same));
        if (slo_ns != was_ns) {
            atomic_store_explicit(&model_at(m, same)->slo_cluster_ns, slo_ns, memory_order_relaxed); /* likewise */
            log_info("SLO chosen anew", "model=%s version=%u slo_ms=%.6g before_ms=%.6g", model->name, model->version,
                     (double)slo_ns / 1e6, (double)was_ns / 1e6);
        }
        bool begins = atomic_load_explicit(&model->begins, memory_order_relaxed);
        bool began = atomic_exchange_explicit(&model_at(m, same)->begins, begins, memory_order_relaxed); /* a flag */
        uint32_t share = atomic_load_explicit(&model->share, memory_order_relaxed);
        uint32_t shared =
            atomic_exchange_explicit(&model_at(m, same)->share, share, memory_order_relaxed); /* a number */
        bool moved = began != begins || shared != share;
        if (moved)
            versions_log(model, begins, share);
        if (!model_life_stays(m->life, same)) { /* it was gone: its last requests go on */
            model_life_back(m->life, same, clock_now_ns());
            absent_forget(m, model);
            log_info("model is back", "model=%s version=%u", model->name, model->version);
            orders_carry_out(m);
            come_publish(m);
        } else if (moved) {
            come_publish(m); /* ensembles look whether the version that carries fits */
        }
    }
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
    if (!has_other(m, place, false) && m->absent_count < m->count) {
        m->absent[m->absent_count++] = model_absent_of(model, MODEL_UNAVAILABLE, CLUSTER_MODEL_GONE);
        const struct model_absent *known = m->known ? known_find(m, model->name) : NULL;
        bool said = !m->known || (known && known->state == MODEL_READY);
        m->gone += said;
        if (said && m->gone <= GONE_LINES_MOST)
            log_warn("model not served any more", "model=%s version=%u reason=\"" CLUSTER_MODEL_GONE "\"", model->name,
                     model->version);
    }
    model_life_end(m->life, place);
    orders_carry_out(m);
    m->stale = true;
    m->publish_ns = 0;
}

bool cluster_models_outlasts(void *models, uint32_t place) {
    const struct cluster_models *m = models;
    /* as without --isolate: nothing else waits for the requests */
    bool patient = m->beside || clock_now_ns() < m->places[place].gone_ns + UPLOADS_NS;
    return (model_life_state(m->life, place) == LIFE_LEAVING &&
            (m->stale || (frontends_hold(m->list->frontends, place) && patient))) ||
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

uint64_t cluster_models_hash(const struct cluster_models *m, uint32_t place) {
    return m->places[place].hash;
}

int cluster_models_hand(struct cluster_models *m, enum models_handed kind, const struct model_absent *list,
                        uint32_t count) {
    struct known_models *next = malloc(sizeof(*next) + count * sizeof(*list));
    if (!next)
        return -ENOMEM;
    next->number = ++m->handed[kind].count;
    next->count = count;
    memcpy(next->models, list, count * sizeof(*list));
    free(atomic_exchange_explicit(&m->handed[kind].next, next, memory_order_acq_rel)); /* with handed_take() */
    return 0;
}

bool cluster_models_shown(const struct cluster_models *m, enum models_handed kind) {
    const struct handed *h = &m->handed[kind];
    return atomic_load_explicit(&h->shown, memory_order_acquire) == h->count; /* with handed_show() */
}

/* Takes the newest list into *now; false: there is none. */
static bool handed_take(struct handed *h, struct known_models **now) {
    struct known_models *next = atomic_exchange_explicit(&h->next, NULL, memory_order_acq_rel);
    if (!next)
        return false;
    free(*now);
    *now = next;
    return true;
}

static void handed_show(struct handed *h, const struct known_models *now) {
    if (now)
        atomic_store_explicit(&h->shown, now->number, memory_order_release); /* with cluster_models_shown() */
}

/* With `serve --isolate`: sets models aside while no accelerator that runs them is in service, and takes them back. A
 * process that starts counts as an accelerator in service: its models' requests wait. Whether that changed anything. */
static bool isolated_outages_look(struct cluster_models *m) {
    const struct server_cluster *c = m->config->cluster;
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
    struct link_model *told = reported && look ? link_report_models(scheduler_link_report(m->beside), &count) : NULL;
    m->stranded &= !told;
    for (uint32_t t = 0; told && t < count; t++)
        for (uint32_t i = 0; i < m->count; i++) {
            struct served_model *model = model_at(m, i);
            if (model_life_state(m->life, i) != LIFE_SERVING || model->ensemble || told[t].version != model->version ||
                strcmp(told[t].name, model->name) != 0)
                continue;
            changed |= model_strand(model, told[t].stranded);
            m->stranded |= told[t].stranded;
        }
    free(told);
    return changed;
}

bool cluster_models_look(void *models) {
    struct cluster_models *m = models;
    bool changed = m->stale && clock_now_ns() >= m->publish_ns;
    changed |= handed_take(&m->handed[MODELS_KNOWN], &m->known);
    changed |= handed_take(&m->handed[MODELS_ASIDE], &m->aside);
    if (m->beside)
        changed |= isolated_outages_look(m);
    MODEL_LIFE_EACH_MOVING (m->life, i) {
        struct opening opened, *opening = m->places[i].opening;
        if (model_life_lingers(m->life, i) && !m->stale && !frontends_hold(m->list->frontends, i))
            model_life_release(m->life, i, 1);
        if (!opening || !atomic_load_explicit(&opening->done, memory_order_acquire)) /* with opening_main() */
            continue;
        opening_end(m, i, &opened);
        place_opened(m, i, opened.rc, &opened.err);
        changed = true;
    }
    if (orders_carry_out(m) || changed)
        publish(m);
    if (!m->stale) {
        handed_show(&m->handed[MODELS_KNOWN], m->known);
        handed_show(&m->handed[MODELS_ASIDE], m->aside);
    }
    return m->stale || !list_empty(&m->life->moving);
}
