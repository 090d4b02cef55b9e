/* repository_known.c - the models that the repository's thread knows: looking for them, loading and unloading them, and
 * telling of them. */
#include "server/models/repository_control_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/temporary_folder.h"
#include "core/util/array.h"
#include "core/util/utf8.h"
#include "front/request/repository_order.h"
#include "model/config/ensemble.h"
#include "model/config/model_name.h"
#include "model/config/model_override.h"
#include "model/repository/repository.h"
#include "server/models/ensembles.h"

#define STRANGERS_MAX 64 /* models in the list for which is_stranger() is true */
#define LOAD_TRIES    3  /* tries to load a model whose files change meanwhile */

/* ---- what is known ---- */

struct known_model *known_find(const struct repository_thread *t, const char *name) {
    for (uint32_t i = 0; i < t->known_count; i++)
        if (strcmp(t->known[i].name, name) == 0)
            return &t->known[i];
    return NULL;
}

/* Adds a model that is not known. NULL without memory. Earlier pointers to known models may have become invalid. */
static struct known_model *known_add(struct repository_thread *t, const char *name) {
    struct known_model *grown = array_room(t->known, t->known_count, sizeof(*grown));
    if (!grown)
        return NULL;
    t->known = grown;
    struct known_model *k = &t->known[t->known_count++];
    *k = (struct known_model){.state = MODEL_UNAVAILABLE, .reason = "unloaded"};
    snprintf(k->name, sizeof(k->name), "%s", name);
    return k;
}

/* Finds or adds a model, as known_add(). */
static struct known_model *known_get(struct repository_thread *t, const char *name) {
    struct known_model *k = known_find(t, name);
    return k ? k : known_add(t, name);
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
        k = known_add(t, name);
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

void known_publish(struct repository_thread *t) {
    struct model_absent *absent = malloc((t->known_count + t->start.awaited + 1) * sizeof(*absent));
    uint32_t count = 0;
    if (absent)
        awaited_note(t, absent, &count);
    for (uint32_t i = 0; absent && i < t->known_count; i++) {
        const struct known_model *k = &t->known[i];
        if (k->serving.count)
            continue;
        struct model_absent *a = &absent[count++];
        strcpy(a->name, k->name);
        a->version = k->version;
        a->state = k->state;
        a->failed = k->failed;
        strcpy(a->reason, k->reason);
    }
    bool failed = !absent || model_slots_publish(&t->slots, absent, count) < 0;
    if (failed && !t->unpublished)
        log_error("models not published", "reason=\"out of memory\"");
    t->unpublished = failed;
    t->slots.stale |= failed;
    ensembles_look(t->slots.list, t->slots.executors->types, t->slots.executors->type_count, false);
}

void known_publish_due(struct repository_thread *t, bool at_once) {
    int64_t began_ns = clock_now_ns();
    if (!at_once && began_ns < t->start.publish_ns)
        return;
    known_publish(t);
    t->start.publish_ns = time_rested(began_ns, clock_now_ns());
}

/* ---- looking ---- */

void known_look(struct repository_thread *t) {
    int64_t began_ns = clock_now_ns();
    t->look_ns = began_ns + t->control.look_every_ns;
    repository_mark(&t->control.from, &t->seen, found_mark, t);
    t->looked = true;
    known_forget(t);
    t->idle_ns = time_rested(began_ns, clock_now_ns());
}

void known_order_look(struct repository_thread *t, const char *name) {
    if (clock_now_ns() >= t->idle_ns) {
        known_look(t);
        return;
    }
    name_look(t, name);
    known_forget(t);
}

uint32_t known_awaited(const struct repository_thread *t) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->known_count; i++)
        count += !t->known[i].serving.count && t->known[i].state == MODEL_LOADING;
    return count;
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

void loading_commit(struct repository_thread *t, struct loading *l) {
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
    known_publish_due(t, t->pass == PASS_NONE);
    log_info("model loaded", "model=%s version=%u versions=%u seconds=%.3f", k->name, k->version, l->loaded.count,
             (double)(clock_now_ns() - l->start_ns) / 1e9);
    l->loaded = (struct places){.count = 0};
}

void loading_discard(struct repository_thread *t, struct loading *l) {
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
        known_publish_due(t, t->pass == PASS_NONE);
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
            status = known_load(t, ensemble->steps[v].model, &none, NULL, &why);
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

int known_load(struct repository_thread *t, const char *name, const struct model_override *override,
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
        known_publish(t);
    }
    return status;
}

void known_unload(struct repository_thread *t, const char *name) {
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
    known_publish(t);
}

void known_unload_dependents(struct repository_thread *t, const char *name) {
    const struct known_model *k = known_find(t, name);
    const struct ensemble *e = k && k->serving.count ? t->slots.list->models[k->serving.slots[0]].ensemble : NULL;
    char models[ENSEMBLE_STEPS_MAX][MODEL_NAME_MAX]; /* the graph goes with the ensemble */
    uint32_t count = e ? e->step_count : 0;
    for (uint32_t v = 0; v < count; v++)
        strcpy(models[v], e->steps[v].model);
    known_unload(t, name);
    for (uint32_t v = 0; v < count; v++)
        known_unload_dependents(t, models[v]);
}

void known_drain(struct repository_thread *t) {
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
        known_publish_due(t, t->pass == PASS_NONE);
}

/* ---- the repository as it is ---- */

void known_follow(struct repository_thread *t) {
    static const struct model_override nothing;
    struct sy_error err;
    known_look(t);
    for (uint32_t i = 0; i < t->known_count && !is_stopped(t); i++) {
        struct known_model *k = &t->known[i];
        uint64_t stamp = k->found ? repository_stamp(&t->control.from, k->name) : 0;
        if (!k->found && (k->serving.count || k->failed)) {
            known_unload(t, k->name);
        } else if (k->found && stamp != k->tried) {
            k->tried = stamp;
            if (t->pass != PASS_NONE)
                progress_tell(t, known_awaited(t), 0);
            int status = known_load(t, k->name, &nothing, NULL, &err);
            if (status == 503 || status == TO_MEASURE) /* not a fault of the model: try again */
                t->known[i].tried = 0; /* `k` may be stale: the list may have moved when models of steps were added */
        } else {
            continue;
        }
        known_drain(t);
    }
    known_forget(t);
    known_publish(t);
}
