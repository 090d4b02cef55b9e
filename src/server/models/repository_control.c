/* repository_control.c - the thread that loads and unloads models: keeps the state of each, carries out orders, and
 * checks the repository for changes. */
#include "server/models/repository_control.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/backend_link.h"
#include "core/data/running.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/temporary_folder.h"
#include "core/system/thread.h"
#include "core/util/utf8.h"
#include "front/request/repository_order.h"
#include "model/config/ensemble.h"
#include "model/config/model_name.h"
#include "model/config/model_override.h"
#include "model/profile/twins.h"
#include "model/repository/repository.h"
#include "model/repository/repository_look.h"
#include "model/repository/start_progress.h"
#include "server/models/deployment.h"
#include "server/models/ensembles.h"
#include "server/models/model_slots.h"
#include "server/threads/readiness.h"

#define STRANGERS_MAX   64 /* models in the list for which is_stranger() is true */
#define LOAD_TRIES      3  /* tries to load a model whose files change meanwhile */
#define TO_MEASURE      425 /* status of a model that the first pass of the start leaves: its profile is to be measured */
#define LOG_EACH_MAX    100            /* models of the start that are each logged when they serve */
#define SAID_NS         (5 * NS_PER_S) /* time between two lines about the start, where there are more */
#define PIECE_PREPARING (128 << 10)    /* bytes from which on memory is a piece of its own: while models are prepared */
#define PIECE_SERVING   (32 << 20)     /* and afterwards, the most that glibc allows */
#define FOLLOW_NS       (200 * NS_PER_MS) /* time between two looks at what the parent has measured, */
#define FOLLOW_SHARE    4                 /* and so many times as long as a look takes */
#define RECENT          10                /* models over which the time that the others will take is averaged */

/* The places of a model, one for each version. */
struct places {
    uint32_t count;
    uint32_t *slots; /* [count]; allocated if there are any */
    uint64_t born;   /* number (model_life.h) that none of their models exceeds */
};

/* Versions of a model that are loaded, and not served yet. */
struct loading {
    char name[MODEL_NAME_MAX];
    struct places loaded;
    uint32_t version; /* the highest */
    bool overridden;  /* a client has sent files or a configuration */
    uint64_t stamp;   /* stamp of the repository's files */
    int64_t start_ns;
};

/* A model that was found, asked for or served. */
struct known_model {
    char name[MODEL_NAME_MAX];
    uint32_t version; /* highest version; 0: not known */
    struct places serving;
    struct places draining; /* places that served last, while the model is being unloaded */
    enum model_state state; /* state of the model while no place serves it */
    bool found;             /* whether the model was in the repository at the last look */
    bool failed;            /* whether the model could not be loaded */
    bool overridden;        /* whether a version from a client is served, not the repository's */
    uint64_t stamp, tried;  /* stamps of the repository's files: of the version that serves, and of the last that
                             * CONTROL_POLL tried to load */
    char reason[512];
};

/* The models of the start. Where models neither come nor go each is in its place, PREPARING until it serves or is set
 * aside. */
struct start {
    uint32_t all;         /* number of models of the start */
    bool *filled;         /* [start_count] whether the model is loaded, and waits for the other versions of its name */
    uint32_t awaited;     /* models that are PREPARING */
    uint32_t set_aside;   /* models that are set aside */
    uint32_t deferred;    /* models whose profiles are to be measured */
    uint32_t current;     /* place of the model that is being prepared */
    const char *measured; /* name of the model that was measured last, only to tell it from the next one */
    int64_t publish_ns;   /* time from which on the list may be published again */
    int64_t said_ns;      /* time of the next line about the start */
};

/* What is under way. At the start there are two passes over the models: first those with cached profiles are loaded,
 * which takes moments, and then the others. */
enum pass { PASS_CACHED, PASS_MEASURE, PASS_NONE };

#define WAITS    "it waits until other models are prepared"
#define MEASURES "its profile is being measured"

struct repository_thread {
    struct repository_control control;
    enum pass pass;
    struct start start;
    struct profile_twins twins[ACCELERATOR_TYPES_MAX]; /* by type */
    struct model_slots slots;
    struct repository_desk *desk;
    struct readiness *readiness;
    bool joins_at_once; /* as in the configuration, like the next */
    struct running *running;
    struct known_model *known;
    uint32_t known_count, known_room;
    struct loading prepared;                        /* by ORDER_PREPARE; without places: none */
    char outer[ENSEMBLE_DEPTH_MAX][MODEL_NAME_MAX]; /* [outer_count] ensembles whose steps' models are being loaded,
                                                     * each a step of the one before it */
    uint32_t outer_count;
    bool unpublished; /* whether the last list was not published, for lack of memory, which is said once */
    int64_t look_ns;  /* time of the next look at the repository */
    bool looked;      /* whether there was one */
    int64_t idle_ns;  /* until then no order looks at all models again */
    struct repositories_seen seen;
    pthread_t thread;
    _Atomic bool stop, ended;
    struct sy_error failure; /* written before `failed` */
    _Atomic bool failed;     /* repository_thread_failed() */
};

static bool is_stopped(const struct repository_thread *t) {
    return atomic_load_explicit(&t->stop, memory_order_relaxed); /* a lone flag */
}

/* ---- what is known ---- */

static struct known_model *known_find(const struct repository_thread *t, const char *name) {
    for (uint32_t i = 0; i < t->known_count; i++)
        if (strcmp(t->known[i].name, name) == 0)
            return &t->known[i];
    return NULL;
}

/* Finds or adds a model. NULL without memory. Earlier pointers to known models may have become invalid. */
static struct known_model *known_get(struct repository_thread *t, const char *name) {
    struct known_model *k = known_find(t, name);
    if (k)
        return k;
    if (t->known_count == t->known_room) {
        uint32_t room = t->known_room ? 2 * t->known_room : 16;
        struct known_model *grown = realloc(t->known, room * sizeof(*grown));
        if (!grown)
            return NULL;
        t->known = grown;
        t->known_room = room;
    }
    k = &t->known[t->known_count++];
    *k = (struct known_model){.state = MODEL_UNAVAILABLE, .reason = "unloaded"};
    snprintf(k->name, sizeof(k->name), "%s", name);
    return k;
}

static bool is_alive(const struct known_model *k) {
    return k->found || k->serving.count || k->draining.count;
}

/* Whether a model could not be loaded, and is not in the repository: a client brought the model, or it was once in the
 * repository. */
static bool is_stranger(const struct known_model *k) {
    return k->failed && !is_alive(k);
}

/* Forgets models that can no longer be asked for, and the oldest strangers if there are too many: clients may invent
 * any number of names. */
static void known_forget(struct repository_thread *t) {
    uint32_t kept = 0, strangers = 0;
    for (uint32_t i = 0; i < t->known_count; i++)
        strangers += is_stranger(&t->known[i]);
    for (uint32_t i = 0; i < t->known_count; i++) {
        const struct known_model *k = &t->known[i];
        if (is_alive(k) || (is_stranger(k) && strangers-- < STRANGERS_MAX))
            t->known[kept++] = *k;
    }
    t->known_count = kept;
}

/* Other folders, like lost+found, are no models. One whose files are gone is still the model that it was: they may be
 * about to be replaced. */
static void found_mark(void *context, const char *name) {
    struct repository_thread *t = context;
    for (uint32_t i = 0; i < t->known_count && !name; i++)
        t->known[i].found = false;
    struct known_model *k = name ? known_find(t, name) : NULL;
    if (name && !k && repository_holds(&t->control.from, name))
        k = known_get(t, name);
    if (k)
        k->found = true;
    else if (name && !t->looked)
        log_warn("repository entry ignored",
                 "name=\"%s\" reason=\"no version folder, config.pbtxt, symphony.yaml or model in it\"", name);
}

/* Looks whether the repository holds a model of this name. */
static void name_look(struct repository_thread *t, const char *name) {
    if (model_name_is_valid(name) && name[0] != '.' && repository_holds(&t->control.from, name))
        found_mark(t, name);
}

/* Notes the models of the start that neither serve nor are set aside yet, in their order, and what they wait for. */
static void awaited_note(const struct repository_thread *t, struct model_absent *absent, uint32_t *count) {
    for (uint32_t i = 0; i < t->control.start_count; i++) {
        const struct served_model *model = &t->slots.list->models[i];
        if (model_life_state(t->slots.life, i) != LIFE_PREPARING)
            continue;
        bool measures = i == t->start.current && t->pass == PASS_MEASURE;
        absent[(*count)++] = model_absent_of(model, MODEL_LOADING, measures ? MEASURES : WAITS);
    }
}

/* Publishes the models. Without memory the earlier list stays, until drain() tries again. */
static void publish(struct repository_thread *t) {
    struct model_absent *absent = calloc(t->known_count + t->start.awaited + 1, sizeof(*absent));
    uint32_t count = 0;
    if (absent)
        awaited_note(t, absent, &count);
    for (uint32_t i = 0; absent && i < t->known_count; i++) {
        const struct known_model *k = &t->known[i];
        if (k->serving.count)
            continue;
        absent[count] = (struct model_absent){.version = k->version, .state = k->state, .failed = k->failed};
        memcpy(absent[count].name, k->name, sizeof(k->name));
        memcpy(absent[count].reason, k->reason, sizeof(k->reason));
        count++;
    }
    bool failed = !absent || model_slots_publish(&t->slots, absent, count) < 0;
    if (failed && !t->unpublished)
        log_error("models not published", "reason=\"out of memory\"");
    t->unpublished = failed;
    t->slots.stale |= failed;
    free(absent);
    ensembles_look(t->slots.list, t->slots.executors->types, t->slots.executors->type_count, false);
}

/* Publishes what serves, at the latest before something that takes long. With many models publishing takes a while
 * itself, and rests. */
static void start_publish(struct repository_thread *t, bool at_once) {
    int64_t began_ns = clock_now_ns();
    if (!at_once && began_ns < t->start.publish_ns)
        return;
    publish(t);
    t->start.publish_ns = time_rested(began_ns, clock_now_ns());
}

/* ---- loading ---- */

/* The versions of a model to be loaded, and where they lie. */
struct source {
    struct repositories from;       /* repositories of the server, or only `folder_path` */
    const char *folder_path;        /* path of `folder` */
    struct temporary_folder folder; /* folder with the files that a client sent; path "": none */
    uint64_t stamp;                 /* stamp of the model's files in the server's repositories */
    uint64_t first;                 /* stamp of the model's files in `from`, before any file was read */
    struct served_model *models;    /* [count] versions of the model */
    uint32_t count;
};

static void source_close(struct source *source) {
    if (*source->folder.path)
        temporary_folder_remove(&source->folder);
    served_models_free(source->models, source->count);
}

int repository_version_failed(const char *name, uint32_t version, const char *reason, struct sy_error *err) {
    return error_set(err, 400, "load failed for model '%s': version %u is at UNAVAILABLE state: %.330s;", name, version,
                     reason);
}

/* Finds the versions to load. 0, or a status with a sentence; call source_close() in either case. */
static int source_open(const struct repository_thread *t, const char *name, const struct model_override *override,
                       struct source *source, struct sy_error *err) {
    int rc = 0;
    const char *path = t->control.from.paths[0];
    *source = (struct source){.from = t->control.from, .stamp = repository_stamp(&t->control.from, name)};
    /* a name that two repositories have is refused below, whatever a client adds to its files */
    if (override->file_count > 0 || (override->config && repository_holders(&t->control.from, name, &path) <= 1)) {
        struct temporary_folder folder;
        rc = override_folder_make(override, path, name, &folder, err);
        if (rc == 0)
            source->folder = folder;
        source->folder_path = source->folder.path;
        source->from = (struct repositories){.paths = &source->folder_path,
                                             .count = 1,
                                             .op_library_dir = t->control.from.op_library_dir,
                                             .brought = override->file_count > 0};
    }
    source->first = repository_stamp(&source->from, name);
    if (rc == 0)
        rc = repository_find(&source->from, name, &source->models, &source->count, err);
    if (rc)
        return rc == -ENOENT ? 404 : rc == -ENOMEM ? 503 : 400;
    for (uint32_t i = 0; i < source->count; i++)
        if (atomic_load_explicit(&source->models[i].state, memory_order_relaxed) == MODEL_UNAVAILABLE) /* own copy */
            return repository_version_failed(name, source->models[i].version, source->models[i].reason, err);
    return 0;
}

/* Whether files of a model have changed since they were found. If so, the loaded versions may be a mix of old and new
 * files. */
static bool has_changed(const struct source *source, const char *name) {
    return repository_stamp(&source->from, name) != source->first;
}

/* Retires the versions that serve. */
static void known_retire(struct repository_thread *t, struct known_model *k) {
    for (uint32_t i = 0; i < k->serving.count; i++)
        model_slot_retire(&t->slots, k->serving.slots[i]);
}

/* Loads all versions, or none if one fails or if files change meanwhile (-EBUSY). *version: the last version tried. */
static int versions_load(struct repository_thread *t, const char *name, struct source *source, struct places *loaded,
                         uint32_t *version, struct sy_error *err) {
    int rc = 0;
    *loaded = (struct places){.slots = calloc(source->count, sizeof(uint32_t))};
    if (!loaded->slots)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < source->count && rc == 0; i++) {
        rc = model_slot_load(&t->slots, &source->models[i], &loaded->slots[i], err);
        loaded->count += rc == 0;
        *version = source->models[i].version;
    }
    if (rc != -EINTR && has_changed(source, name))
        rc = error_set(err, -EBUSY, "files of model '%s' have changed while it was being loaded", name);
    if (rc == 0)
        return 0;
    while (loaded->count > 0)
        model_slot_discard(&t->slots, loaded->slots[--loaded->count]);
    free(loaded->slots);
    return rc;
}

/* Serves loaded versions of a model instead of those that serve now. */
static void loading_commit(struct repository_thread *t, struct loading *l) {
    struct known_model *k = known_get(t, l->name);
    for (uint32_t i = 0; i < l->loaded.count && k; i++)
        model_slot_enter(&t->slots, l->loaded.slots[i]);
    if (!k)
        return;
    known_retire(t, k);
    free(k->serving.slots);
    k->serving = l->loaded;
    k->version = l->version;
    k->failed = false;
    k->overridden = l->overridden;
    k->stamp = l->stamp;
    start_publish(t, t->pass == PASS_NONE);
    log_info("model loaded", "model=%s version=%u versions=%u seconds=%.3f", k->name, k->version, l->loaded.count,
             (double)(clock_now_ns() - l->start_ns) / 1e9);
    l->loaded = (struct places){.count = 0};
}

static void loading_discard(struct repository_thread *t, struct loading *l) {
    while (l->loaded.count > 0)
        model_slot_discard(&t->slots, l->loaded.slots[--l->loaded.count]);
    free(l->loaded.slots);
    l->loaded = (struct places){.count = 0};
    struct known_model *k = known_find(t, l->name);
    if (k && !k->serving.count && k->state == MODEL_LOADING) {
        k->state = MODEL_UNAVAILABLE;
        strcpy(k->reason, "unloaded");
    }
}

/* Loads the found versions beside those that serve, and then replaces those by the found ones. `prepared`: instead of
 * that, what is loaded is kept there. */
static int source_load(struct repository_thread *t, struct known_model *k, struct source *source,
                       struct loading *prepared, struct sy_error *err) {
    struct sy_error why = {""};
    uint32_t others = t->slots.life->serving - k->serving.count, version = source->models[source->count - 1].version;
    if (others + source->count > t->control.models_max)
        return error_set(err, 503, "%u models are loaded, and no more than %u may be (--max-models)",
                         t->slots.life->serving, t->control.models_max);
    if (t->pass != PASS_MEASURE) /* else the pass before has said so */
        log_info("model is being loaded", "model=%s version=%u versions=%u", k->name, version, source->count);
    if (!k->serving.count) {
        k->version = version;
        k->state = MODEL_LOADING;
        strcpy(k->reason, t->pass == PASS_MEASURE ? MEASURES : "");
        start_publish(t, t->pass == PASS_NONE);
    }
    struct loading l = {
        .version = version, .overridden = *source->folder.path, .stamp = source->stamp, .start_ns = clock_now_ns()};
    memcpy(l.name, k->name, sizeof(l.name));
    uint32_t tried = version;
    int rc = versions_load(t, k->name, source, &l.loaded, &tried, &why);
    if (rc == -EBUSY || rc == -EINTR || rc == -ENOMEM)
        return error_set(err, 503, "%s", why.text);
    if (rc == -EAGAIN) {
        strcpy(k->reason, WAITS);
        return TO_MEASURE;
    }
    if (rc)
        return repository_version_failed(k->name, tried, why.text, err);
    if (prepared) {
        *prepared = l;
        log_info("model prepared", "model=%s version=%u versions=%u", k->name, version, l.loaded.count);
    } else {
        loading_commit(t, &l);
    }
    return 200;
}

static int load(struct repository_thread *t, const char *name, const struct model_override *override,
                struct loading *prepared, struct sy_error *err);

/* Loads the models of an ensemble's steps that are not served, as Triton does. 0, or a status with a sentence. */
static int steps_load(struct repository_thread *t, const char *name, const struct source *source,
                      struct sy_error *err) {
    static const struct model_override none;
    const struct ensemble *ensemble = source->models[0].ensemble;
    struct sy_error why;
    int status = 200;
    for (uint32_t i = 0; i < t->outer_count; i++)
        if (strcmp(t->outer[i], name) == 0)
            return error_set(err, 400, "load failed for model '%s': it is an ensemble whose steps lead back to it",
                             name);
    if (t->outer_count == ENSEMBLE_DEPTH_MAX)
        return error_set(err, 400, "load failed for model '%s': more ensembles within each other than may be: %d", name,
                         ENSEMBLE_DEPTH_MAX);
    snprintf(t->outer[t->outer_count++], MODEL_NAME_MAX, "%s", name);
    for (uint32_t v = 0; v < ensemble->step_count && status == 200; v++) {
        /* in a cluster it may be another backend's; but all processes of `serve --isolate` have the same models */
        bool alone = !t->slots.backend || t->control.told;
        name_look(t, ensemble->steps[v].model);
        const struct known_model *k = known_find(t, ensemble->steps[v].model);
        if (k ? !k->serving.count && (k->found || alone) : alone)
            status = load(t, ensemble->steps[v].model, &none, NULL, &why);
        if (status != 200 && status != TO_MEASURE)
            error_set(err, status, "load failed for model '%s': step %u: %.300s", name, ensemble->steps[v].written,
                      why.text);
    }
    t->outer_count--;
    return status == 200 ? 0 : status;
}

/* Finds a model and loads it. 200, or another status with a sentence; call source_close() in either case. */
static int load_once(struct repository_thread *t, const char *name, const struct model_override *override,
                     struct source *source, struct loading *prepared, struct sy_error *err) {
    int status = source_open(t, name, override, source, err);
    bool plain = !*source->folder.path;
    if (status == 0 && source->models[0].ensemble)
        status = steps_load(t, name, source, err);
    struct known_model *k = status == 404 ? known_find(t, name) : known_get(t, name);
    if (k && status == 0 && plain && k->serving.count && !k->overridden && k->stamp == source->stamp)
        status = 200; /* these versions serve already */
    else if (k && status == 0)
        status = source_load(t, k, source, prepared, err);
    else if (!k && status != 404)
        status = error_set(err, 503, "out of memory");
    return status;
}

/* Loads a model, and serves it or keeps it in `prepared`. 200, or another status with a sentence: then the versions
 * that served before go on. */
static int load(struct repository_thread *t, const char *name, const struct model_override *override,
                struct loading *prepared, struct sy_error *err) {
    struct source source;
    if (!model_name_is_valid(name) || name[0] == '.') { /* such names are not listed either */
        log_error("model not loaded", "reason=\"its name will not do\"");
        error_set(err, 404, "its name will not do");
        return order_poll_failed(name, 404, err);
    }
    int status = load_once(t, name, override, &source, prepared, err);
    for (int try = 1;
         try < LOAD_TRIES && status != 200 && status != TO_MEASURE && has_changed(&source, name) && !is_stopped(t);
         try++) {
        log_info("model to be loaded again", "model=%s reason=\"its files have changed while it was being loaded\"",
                 name);
        source_close(&source);
        status = load_once(t, name, override, &source, prepared, err);
    }
    struct known_model *k = known_find(t, name);
    source_close(&source);
    if (status == 200 || status == TO_MEASURE)
        return status;
    if (!source.count)
        status = order_poll_failed(name, status, err);
    log_error("model not loaded", "model=%s reason=\"%s\"", name, err->text);
    if (k && !k->serving.count) {
        k->state = MODEL_UNAVAILABLE;
        k->failed = true;
        snprintf(k->reason, sizeof(k->reason), "%s", err->text);
        utf8_clean(k->reason, strlen(k->reason));
        publish(t);
    }
    return status;
}

static void unload(struct repository_thread *t, const char *name) {
    struct known_model *k = known_find(t, name);
    if (!k)
        return;
    if (k->serving.count) {
        known_retire(t, k);
        free(k->draining.slots); /* if an earlier unload still drains, its end is not reported */
        k->draining = k->serving;
        k->draining.born = t->slots.life->births;
        k->serving = (struct places){.count = 0};
        k->state = MODEL_UNLOADING;
        k->reason[0] = '\0';
        log_info("model is being unloaded", "model=%s version=%u", k->name, k->version);
    } else if (!k->draining.count) {
        k->state = MODEL_UNAVAILABLE;
        strcpy(k->reason, "unloaded");
    }
    k->failed = k->overridden = false;
    publish(t);
}

/* Unloads a model and, if it is an ensemble, the models of its steps, and of theirs. */
static void unload_dependents(struct repository_thread *t, const char *name) {
    const struct known_model *k = known_find(t, name);
    const struct ensemble *e = k && k->serving.count ? t->slots.list->models[k->serving.slots[0]].ensemble : NULL;
    char models[ENSEMBLE_STEPS_MAX][MODEL_NAME_MAX]; /* the graph goes with the ensemble */
    uint32_t count = e ? e->step_count : 0;
    for (uint32_t v = 0; v < count; v++)
        strcpy(models[v], e->steps[v].model);
    unload(t, name);
    for (uint32_t v = 0; v < count; v++)
        unload_dependents(t, models[v]);
}

/* Frees places whose last requests have been answered. */
static void drain(struct repository_thread *t) {
    bool changed = t->slots.stale;
    while (model_slots_look(&t->slots)) {
    }
    for (uint32_t i = 0; i < t->known_count; i++) {
        struct known_model *k = &t->known[i];
        uint32_t freed = 0;
        while (freed < k->draining.count && model_slot_freed(&t->slots, k->draining.slots[freed], k->draining.born))
            freed++;
        if (!k->draining.count || freed < k->draining.count)
            continue;
        log_info("model unloaded", "model=%s version=%u", k->name, k->version);
        free(k->draining.slots);
        k->draining = (struct places){.count = 0};
        changed = true;
        if (!k->serving.count && k->state == MODEL_UNLOADING) {
            k->state = MODEL_UNAVAILABLE;
            strcpy(k->reason, "unloaded");
        }
    }
    if (changed)
        start_publish(t, t->pass == PASS_NONE);
}

/* ---- looking ---- */

static const struct model_override nothing;

static void look(struct repository_thread *t) {
    int64_t began_ns = clock_now_ns();
    t->look_ns = began_ns + t->control.look_every_ns;
    repository_mark(&t->control.from, &t->seen, found_mark, t);
    t->looked = true;
    known_forget(t);
    t->idle_ns = time_rested(began_ns, clock_now_ns());
}

/* Looks before an order at the model that it names, at least. */
static void order_look(struct repository_thread *t, const char *name) {
    if (clock_now_ns() >= t->idle_ns) {
        look(t);
        return;
    }
    name_look(t, name);
    known_forget(t);
}

/* The models, where they come and go, that are to be loaded. */
static uint32_t known_awaited(const struct repository_thread *t) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->known_count; i++)
        count += !t->known[i].serving.count && t->known[i].state == MODEL_LOADING;
    return count;
}

/* Tells how many models of the start are awaited, and how long they will take; left_ns 0: not known. */
static void progress_tell(struct repository_thread *t, uint32_t awaited, int64_t left_ns) {
    struct start_progress *p = &t->readiness->start;
    int64_t left_s = (left_ns + NS_PER_S - 1) / NS_PER_S;
    atomic_store_explicit(&p->all, t->start.all, memory_order_relaxed); /* with start_progress_words(), as the others */
    atomic_store_explicit(&p->profiles, t->pass == PASS_MEASURE, memory_order_relaxed);
    atomic_store_explicit(&p->left_s, (uint32_t)left_s, memory_order_relaxed);
    atomic_store_explicit(&p->awaited, awaited, memory_order_relaxed);
}

/* Serves the models that the repository holds now. Models that appear while others load are found the next time. */
static void follow(struct repository_thread *t) {
    struct sy_error err;
    look(t);
    for (uint32_t i = 0; i < t->known_count && !is_stopped(t); i++) {
        struct known_model *k = &t->known[i];
        uint64_t stamp = k->found ? repository_stamp(&t->control.from, k->name) : 0;
        if (!k->found && (k->serving.count || k->failed)) {
            unload(t, k->name);
        } else if (k->found && stamp != k->tried) {
            k->tried = stamp;
            if (t->pass != PASS_NONE)
                progress_tell(t, known_awaited(t), 0);
            int status = load(t, k->name, &nothing, NULL, &err);
            if (status == 503 || status == TO_MEASURE) /* not a fault of the model: try again */
                t->known[i].tried = 0; /* `k` may be stale: the list may have moved when models of steps were added */
        }
        drain(t);
    }
    known_forget(t);
    publish(t);
}

/* ---- the start ---- */

static void start_aside(struct repository_thread *t, uint32_t place, const char *reason) {
    model_slot_set_aside(&t->slots, place, reason);
    t->start.awaited--;
    t->start.set_aside++;
}

/* Logs a model of the start that serves; of many models, now and then how many. */
static void start_log(struct repository_thread *t, uint32_t place) {
    const struct served_model *m = &t->slots.list->models[place];
    const struct profile *profile = NULL; /* on the first type that runs it */
    uint32_t all = t->control.start_count;
    if (all > LOG_EACH_MAX) {
        if (clock_now_ns() < t->start.said_ns)
            return;
        t->start.said_ns = clock_now_ns() + SAID_NS;
        char words[START_PROGRESS_WORDS];
        start_progress_words(&t->readiness->start, words);
        log_info("models are being prepared", "ready=%u set_aside=%u of=%u now=\"%s\"", t->slots.life->serving,
                 t->start.set_aside, all, words);
        return;
    }
    for (uint32_t type = 0; type < t->slots.executors->type_count && !profile; type++)
        profile = t->slots.executors->types[type].profiles[place];
    if (m->ensemble)
        ensemble_log(m);
    else
        log_info("model", "model=%s version=%u slo_ms=%.6g max_batch=%u l1_ms=%.3f best_batch=%u%s", m->name,
                 m->version, (double)m->slo_ns / 1e6, m->batch_max, (double)profile->latency_ns[1] / 1e6,
                 profile_batch_best(profile), m->signature.batched ? "" : " batched=no");
}

/* Loads the versions of one name, `count` from place `first` on, and serves those that can be, all at once: a client
 * that names no version is answered by the highest one from the beginning. False: one is to be measured first. */
static bool versions_start(struct repository_thread *t, uint32_t first, uint32_t count) {
    bool measure = false;
    for (uint32_t i = first; i < first + count && !is_stopped(t); i++) {
        struct sy_error err;
        if (model_life_state(t->slots.life, i) != LIFE_PREPARING || t->start.filled[i])
            continue;
        t->start.current = i;
        int rc = model_slot_fill(&t->slots, i, &err);
        t->start.filled[i] = rc == 0;
        measure |= rc == -EAGAIN;
        if (rc && rc != -EAGAIN && rc != -EINTR)
            start_aside(t, i, err.text);
    }
    t->start.current = LIFE_NONE;
    for (uint32_t i = first; i < first + count && !measure && !is_stopped(t); i++) {
        if (!t->start.filled[i])
            continue;
        model_slot_enter(&t->slots, i);
        t->start.filled[i] = false;
        t->start.awaited--;
        start_log(t, i);
    }
    return !measure;
}

/* A model is about to be measured, which takes a while: clients are told of those that serve by now. */
static void measure_begin(void *thread, const struct profile_progress *progress) {
    struct repository_thread *t = thread;
    bool begins = t->start.measured != progress->model;
    t->start.measured = progress->model;
    if (!begins || t->pass != PASS_MEASURE)
        return;
    if (t->control.start_count <= LOG_EACH_MAX)
        log_info("model is being measured", "model=%s", progress->model);
    start_publish(t, true);
}

/* Begins a pass: tells the profiler whether to measure, and the allocator how to serve this thread.
 *
 * Preparing a model takes some large pieces of memory for a moment. As glibc has it by itself, their pages then become
 * the arena of the model's session, a mebibyte of which little is used, and stay resident: of 400 small models 264 MiB.
 * With pieces of their own that go back at once it is 141. Serving is served as glibc does after a large piece was
 * freed. */
static void pass_begin(struct repository_thread *t, enum pass pass) {
    t->pass = pass;
    mallopt(M_MMAP_THRESHOLD, pass == PASS_NONE ? PIECE_SERVING : PIECE_PREPARING);
    mallopt(M_TRIM_THRESHOLD, 2 * PIECE_SERVING);
    for (uint32_t type = 0; type < ACCELERATOR_TYPES_MAX; type++) {
        t->control.how[type].cached = pass == PASS_CACHED;
        t->control.how[type].missed = pass == PASS_MEASURE;
        t->control.how[type].follows = t->running;
    }
}

/* Goes over all models of the start that are not served yet, ensembles or the others, name by name. */
static void start_pass(struct repository_thread *t, bool ensembles) {
    const struct served_model *models = t->slots.list->models;
    uint32_t all = t->control.start_count, count, done = 0, todo = t->start.deferred;
    double mean_ns = 0; /* what a name has taken; the last ones count most, since models of one graph are quick */
    for (uint32_t i = 0; i < all && !is_stopped(t); i += count) {
        int64_t began_ns = clock_now_ns();
        bool waits = false;
        for (count = 1; i + count < all && strcmp(models[i + count].name, models[i].name) == 0;)
            count++;
        for (uint32_t v = i; v < i + count; v++)
            waits |= model_life_state(t->slots.life, v) == LIFE_PREPARING && (models[v].ensemble != NULL) == ensembles;
        if (!waits)
            continue;
        progress_tell(t, t->start.awaited, done && todo > done ? (int64_t)(mean_ns * (todo - done)) : 0);
        t->start.current = i;
        start_publish(t, false);
        if (!versions_start(t, i, count))
            t->start.deferred++;
        double took_ns = (double)(clock_now_ns() - began_ns);
        mean_ns = done++ ? mean_ns + (took_ns - mean_ns) / RECENT : took_ns;
    }
    start_publish(t, true);
}

/* Serves the models of the start, where models come and go. */
static void start_known(struct repository_thread *t) {
    bool all = t->control.mode == CONTROL_POLL || (t->control.name_count == 1 && strcmp(t->control.names[0], "*") == 0);
    look(t);
    for (uint32_t i = 0; i < t->known_count; i++) {
        bool wanted = all;
        for (uint32_t n = 0; n < t->control.name_count && !wanted; n++)
            wanted = strcmp(t->known[i].name, t->control.names[n]) == 0;
        if (!wanted)
            continue;
        t->known[i].state = MODEL_LOADING;
        strcpy(t->known[i].reason, WAITS);
    }
    t->start.all = known_awaited(t);
    publish(t);
    if (t->control.mode == CONTROL_POLL) {
        follow(t);
        pass_begin(t, PASS_MEASURE);
        follow(t);
        return;
    }
    uint32_t count = all ? t->known_count : t->control.name_count;
    bool *done = calloc(count + 1, sizeof(*done)); /* without memory there is one pass, which measures */
    for (int pass = done ? PASS_CACHED : PASS_MEASURE; pass <= PASS_MEASURE; pass++) {
        pass_begin(t, (enum pass)pass);
        for (uint32_t i = 0; i < count && !is_stopped(t); i++) {
            struct sy_error err;
            char name[MODEL_NAME_MAX];
            if (done && done[i])
                continue;
            progress_tell(t, known_awaited(t), 0);
            snprintf(name, sizeof(name), "%s", all ? t->known[i].name : t->control.names[i]);
            bool waits = load(t, name, &nothing, NULL, &err) == TO_MEASURE;
            if (done)
                done[i] = !waits;
        }
    }
    free(done);
}

/* Serves what the parent has measured since, again and again, until it measures no more. */
static void start_follow(struct repository_thread *t) {
    const struct served_model *models = t->slots.list->models;
    for (bool last = false; t->start.deferred && !last && !is_stopped(t);) {
        int64_t began_ns = clock_now_ns();
        last = atomic_load_explicit(&t->running->profiled, memory_order_acquire); /* with profiler_take() */
        t->start.deferred = 0;
        start_pass(t, false);
        if (last || !t->start.deferred)
            continue;
        int64_t nap_ns = FOLLOW_NS + FOLLOW_SHARE * (clock_now_ns() - began_ns);
        doorbell_arm(&t->desk->bell);
        if (is_stopped(t))
            doorbell_cancel(&t->desk->bell);
        else
            doorbell_sleep(&t->desk->bell, began_ns + nap_ns);
    }
    t->start.deferred = 0;
    for (uint32_t i = 0; i < t->control.start_count && !is_stopped(t); i++)
        if (!models[i].ensemble && model_life_state(t->slots.life, i) == LIFE_PREPARING)
            start_aside(t, i, "it could not be measured");
}

/* Serves the models of the start, where models neither come nor go, and last ensembles, whose steps' models are
 * needed. */
static void start(struct repository_thread *t) {
    struct start *s = &t->start;
    const struct served_model *models = t->slots.list->models;
    s->all = t->control.start_count;
    s->current = LIFE_NONE;
    s->filled = calloc(t->control.start_count + 1, sizeof(*s->filled));
    for (uint32_t i = 0; i < t->control.start_count; i++) {
        bool waits = model_life_state(t->slots.life, i) == LIFE_PREPARING;
        if (waits && !s->filled)
            model_slot_set_aside(&t->slots, i, "out of memory");
        else if (!waits)
            log_error("model set aside", "model=%s reason=\"%s\"", models[i].name, models[i].reason);
        s->awaited += waits && s->filled;
    }
    s->set_aside = t->control.start_count - s->awaited;
    start_pass(t, false);
    if (t->running)
        start_follow(t);
    pass_begin(t, PASS_MEASURE);
    if (s->deferred)
        start_pass(t, false);
    s->deferred = 0;
    pass_begin(t, PASS_CACHED); /* ensembles are not measured */
    start_pass(t, true);
    for (uint32_t type = 0; type < ACCELERATOR_TYPES_MAX; type++)
        twins_free(&t->twins[type]); /* no other model comes */
    free(s->filled);
    s->filled = NULL;
    malloc_trim(0); /* memory that only the loading needed */
}

/* ---- orders ---- */

/* Makes the server ready: the models of the start are loaded, or could not be. */
static void begin(struct repository_thread *t) {
    pass_begin(t, PASS_NONE);
    progress_tell(t, 0, 0);
    if (t->control.start_count && !t->slots.life->serving) {
        deployment_nothing(&t->control, t->slots.list->models, &t->failure);
        atomic_store_explicit(&t->failed, true, memory_order_release); /* with repository_thread_failed() */
        return;
    }
    if (t->slots.backend && !t->joins_at_once)
        backend_link_begin(t->slots.backend);
    if (t->running)
        atomic_store_explicit(&t->running->prepared, true, memory_order_release); /* with wait_until_heard() */
    executors_cold_warn(t->slots.executors, t->slots.scheduling->config);
    readiness_begin(t->readiness);
    publish(t); /* wakes the frontends: clients may wait for this */
}

/* Tells how the versions of a model are known to the scheduler of a cluster and its frontends. */
static void versions_tell(struct repository_thread *t, const struct places *of, struct repository_order *order) {
    for (uint32_t i = 0; i < of->count && i < VERSIONS_MAX && t->slots.backend; i++)
        order->versions[order->version_count++] = backend_link_model_hash(t->slots.backend, of->slots[i]);
}

static void carry_out(struct repository_thread *t, struct repository_order *order) {
    bool prepare = order->kind == ORDER_PREPARE;
    struct model_override override;
    int status = 200;
    if (prepare || order->kind == ORDER_DISCARD)
        loading_discard(t, &t->prepared);
    if (order->kind == ORDER_COMMIT && t->prepared.loaded.count > 0)
        loading_commit(t, &t->prepared);
    if (order->kind == ORDER_BEGIN)
        begin(t);
    if (order->kind == ORDER_LOAD || order->kind == ORDER_UNLOAD || prepare) {
        status = order_read(order, &override, &order->error);
        if (status == 0 && order->kind != ORDER_UNLOAD) {
            order_look(t, order->name);
            status = load(t, order->name, &override, prepare ? &t->prepared : NULL, &order->error);
        } else if (status == 0) {
            if (override.unload_dependents)
                unload_dependents(t, order->name);
            else
                unload(t, order->name);
            status = 200;
        }
        model_override_free(&override);
    }
    const struct known_model *k = prepare && status == 200 ? known_find(t, order->name) : NULL;
    if (k)
        versions_tell(t, t->prepared.loaded.count > 0 ? &t->prepared.loaded : &k->serving, order);
    order->status = (unsigned)status;
    order_return(order);
}

static void *repository_main(void *argument) {
    struct repository_thread *t = argument;
    thread_begin("repository", 0, THREAD_BACKGROUND);
    pass_begin(t, PASS_CACHED);
    if (t->joins_at_once)
        backend_link_begin(t->slots.backend);
    if (t->control.mode == CONTROL_NONE)
        start(t);
    else
        start_known(t);
    if (t->control.told)
        pass_begin(t, PASS_NONE);
    else if (!is_stopped(t))
        begin(t);
    while (!is_stopped(t)) {
        for (struct repository_order *order = desk_take(t->desk), *next; order; order = next) {
            next = order_next(order);
            carry_out(t, order);
            drain(t);
        }
        drain(t);
        if (clock_now_ns() >= t->look_ns) {
            if (t->control.mode == CONTROL_POLL) {
                follow(t);
            } else {
                look(t);
                publish(t);
            }
        }
        doorbell_arm(&t->desk->bell);
        bool busy = model_slots_look(&t->slots);
        int64_t until_ns = model_slots_wake(&t->slots);
        until_ns = t->look_ns < until_ns ? t->look_ns : until_ns;
        if (busy || desk_pending(t->desk) || is_stopped(t))
            doorbell_cancel(&t->desk->bell);
        else
            doorbell_sleep(&t->desk->bell, until_ns);
    }
    desk_close(t->desk);
    atomic_store_explicit(&t->ended, true, memory_order_release); /* with repository_thread_ended() */
    return NULL;
}

/* ---- start and end ---- */

struct repository_desk *repository_desk_create(void) {
    struct repository_desk *desk =
        aligned_alloc(CACHE_LINE, (sizeof(*desk) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!desk)
        return NULL;
    memset(desk, 0, sizeof(*desk));
    doorbell_init(&desk->bell, false, false);
    return desk;
}

int repository_thread_start(struct repository_thread **thread, const struct repository_thread_config *config,
                            struct sy_error *err) {
    struct repository_thread *t = calloc(1, sizeof(*t));
    if (!t)
        return error_set(err, -ENOMEM, "no memory for the repository's thread");
    t->control = *config->control;
    t->desk = config->desk;
    t->readiness = config->readiness;
    t->joins_at_once = config->joins_at_once;
    t->running = config->running;
    t->look_ns = TIME_NEVER;
    for (uint32_t type = 0; type < ACCELERATOR_TYPES_MAX; type++) {
        t->control.how[type].stop = &t->stop;
        t->control.how[type].twins = &t->twins[type];
        if (!t->control.how[type].progress) {
            t->control.how[type].progress = measure_begin;
            t->control.how[type].context = t;
        }
    }
    t->slots = (struct model_slots){.control = &t->control,
                                    .list = config->list,
                                    .executors = config->executors,
                                    .scheduling = config->scheduling,
                                    .backend = config->backend};
    int rc = model_slots_init(&t->slots);
    if (rc < 0) {
        error_set(err, rc, "no memory for the places of %u models", config->list->count);
        goto err_free;
    }
    rc = -pthread_create(&t->thread, NULL, repository_main, t);
    if (rc < 0) {
        error_set(err, rc, "cannot start the repository's thread: %s", strerror(-rc));
        goto err_free;
    }
    *thread = t;
    return 0;

err_free:
    repository_thread_free(t);
    return rc;
}

bool repository_thread_failed(const struct repository_thread *t, struct sy_error *err) {
    if (!t || !atomic_load_explicit(&t->failed, memory_order_acquire)) /* with begin() */
        return false;
    *err = t->failure;
    return true;
}

void repository_thread_quit(struct repository_thread *t) {
    if (!t)
        return;
    atomic_store_explicit(&t->stop, true, memory_order_relaxed); /* a lone flag; ringing the bell orders it */
    doorbell_ring(&t->desk->bell);
}

bool repository_thread_ended(const struct repository_thread *t) {
    return !t || atomic_load_explicit(&t->ended, memory_order_acquire);
}

void repository_thread_stop(struct repository_thread *t) {
    if (!t)
        return;
    repository_thread_quit(t);
    pthread_join(t->thread, NULL);
}

void repository_thread_free(struct repository_thread *t) {
    if (!t)
        return;
    model_slots_free(&t->slots);
    for (uint32_t type = 0; type < ACCELERATOR_TYPES_MAX; type++)
        twins_free(&t->twins[type]);
    free(t->prepared.loaded.slots);
    for (uint32_t i = 0; i < t->known_count; i++) {
        free(t->known[i].serving.slots);
        free(t->known[i].draining.slots);
    }
    free(t->known);
    free(t);
}
