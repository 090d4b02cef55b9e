/* deployment.c - models, accelerators and profiles of a server, from a repository or a scenario. */
#include "control/deployment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"
#include "control/ensembles.h"
#include "control/instances.h"
#include "control/scenario_served.h"
#include "profile/prepare.h"
#include "repository/preparations.h"
#include "repository/repository.h"
#include "repository/repository_look.h"

/* ---- progress ---- */

static void progress_show(void *context, const struct profile_progress *p) {
    static const int WIDTH = 24;
    const bool *terminal = context;
    int done = p->count ? (int)(p->index * (uint32_t)WIDTH / p->count) : 0;

    if (!*terminal)
        return;
    fprintf(stderr, "\r\033[K[%.*s%*s] profiling %u of %u: %s, %s", done, "########################", WIDTH - done, "",
            p->index + 1, p->count, p->model, p->phase);
    if (p->batch)
        fprintf(stderr, " a batch of %u", p->batch);
}

static void progress_end(const bool *terminal) {
    if (*terminal)
        fputs("\r\033[K", stderr);
}

/* ---- from a repository ---- */

#ifdef SYMPHONY_HAVE_ONNXRUNTIME
static const struct engine_ops *const file_engine = &engine_onnxruntime;
#else
static const struct engine_ops *const file_engine = NULL;
#endif

/* Adds a group of accelerators, with room for profiles; returns how models are profiled for it. */
static struct profile_options group_add(struct deployment *d, const struct accelerator_group *group,
                                        const struct deployment_options *options) {
    static const char *const providers[] = {"cpu", "cuda",
                                            "cpu"}; /* by kind; an emulated one sleeps as long as a CPU runs */
    struct server_accelerators *a = &d->accelerators[d->type_count++];

    snprintf(a->type, sizeof(a->type), "%s", group->type);
    a->engine = group->kind == ACCELERATOR_EMULATED ? &engine_emulated : file_engine;
    a->provider = providers[group->kind];
    a->cache_dir = options->cache_dir;
    a->count = group->count;
    a->profiles = (const struct profile **)&d->profiles[d->profile_count];
    d->profile_count += d->model_count;
    return (struct profile_options){
        .engine = file_engine,
        .provider = a->provider,
        .core = group->kind == ACCELERATOR_CUDA ? -1 : thread_core_nth(&options->cores, 0),
        .cache_dir = options->cache_dir,
    };
}

/* Profiles the models that run on accelerators of a type. */
static int profile_type(struct deployment *d, uint32_t type, struct profile_options *how, struct sy_error *err) {
    bool terminal = isatty(STDERR_FILENO);

    how->progress = progress_show;
    how->context = &terminal;
    int found = profile_prepare_all(d->models, d->model_count, type, how, &d->profiles[type * d->model_count]);
    progress_end(&terminal);
    return found < 0 ? error_set(err, found, "profiling was stopped") : 0;
}

/* Decides where every model runs; for those already set aside it does not matter. */
static void models_place(struct deployment *d) {
    for (uint32_t i = 0; i < d->model_count; i++)
        if (served_model_state(&d->models[i]) == MODEL_LOADING && !d->models[i].ensemble)
            instances_place(&d->models[i], d->accelerators, d->type_count);
}

/* The profile of a model that is to be served, on the first type that runs it. */
static const struct profile *profile_first(const struct deployment *d, uint32_t model) {
    uint32_t type = 0;
    while (!d->accelerators[type].profiles[model])
        type++;
    return d->accelerators[type].profiles[model];
}

static void model_log(const struct deployment *d, uint32_t model) {
    const struct served_model *m = &d->models[model];
    const struct profile *p = profile_first(d, model);
    log_info("model", "model=%s version=%u slo_ms=%.6g max_batch=%u l1_ms=%.3f best_batch=%u%s", m->name, m->version,
             (double)m->slo_ns / 1e6, m->batch_max, (double)p->latency_ns[1] / 1e6, profile_batch_best(p),
             m->signature.batched ? "" : " batched=no");
}

/* Makes each model ready, or each ensemble, or sets it aside with its reason. Returns how many are ready. In a backend
 * an ensemble is ready as it is: the models of its steps may be those of other backends, and frontends find them. */
static uint32_t settle(struct deployment *d, const struct deployment_options *options, bool ensembles) {
    const struct ensemble_world world = {d->models, NULL, d->model_count, d->accelerators, d->type_count};
    struct sy_error err;
    uint32_t ready = 0;

    for (uint32_t i = 0; i < d->model_count; i++) {
        struct served_model *m = &d->models[i];
        bool refused = served_model_state(m) == MODEL_UNAVAILABLE;
        if ((m->ensemble != NULL) != ensembles)
            continue;
        if (!refused && options->backend && m->prepared)
            served_model_refuse(m, "%s: " PREPARE_NOT_IN_CLUSTERS, m->folder);
        else if (!refused && preparations_open(m, file_engine->transforms, &err) < 0)
            served_model_refuse(m, "%s", err.text);
        refused = served_model_state(m) == MODEL_UNAVAILABLE;
        if (!refused && ((ensembles && !options->backend && ensemble_prepare(m, &world, &err) < 0) ||
                         served_model_labels_read(m, &err) < 0))
            served_model_refuse(m, "%s", err.text);
        if (served_model_state(m) == MODEL_UNAVAILABLE) {
            log_error("model set aside", "model=%s reason=\"%s\"", m->name, m->reason);
            continue;
        }
        atomic_store_explicit(&m->state, MODEL_READY, memory_order_relaxed); /* no other thread yet */
        if (ensembles)
            ensemble_log(m);
        else
            model_log(d, i);
        ready++;
    }
    return ready;
}

int deployment_from_repository(struct deployment *d, const char *path, const struct deployment_options *options,
                               struct sy_error *err) {
    struct profile_options how[ACCELERATOR_TYPES_MAX];

    *d = (struct deployment){.models = NULL};
    if (!file_engine)
        return error_set(err, -ENOTSUP,
                         "this build has no ONNX Runtime, so it serves scenarios only (--scenario FILE)");
    int rc = repository_scan(path, &d->models, &d->model_count, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < d->model_count && options->slo_ns; i++)
        if (!d->models[i].slo_ns)
            d->models[i].slo_ns = options->slo_ns;
    d->profiles = calloc((size_t)options->group_count * d->model_count, sizeof(*d->profiles));
    if (!d->profiles)
        return error_set(err, -ENOMEM, "no memory for the profiles of %u models", d->model_count);
    for (uint32_t i = 0; i < options->group_count; i++)
        how[i] = group_add(d, &options->groups[i], options);
    models_place(d);
    for (uint32_t i = 0; i < options->group_count; i++)
        if ((rc = profile_type(d, i, &how[i], err)) < 0)
            return rc;
    if (settle(d, options, false) + settle(d, options, true) == 0)
        return error_set(err, -ENOENT, "%s: none of its %u models can be served: %s", path, d->model_count,
                         d->models[0].reason);
    return 0;
}

int deployment_for_control(struct deployment *d, struct repository_control *control,
                           const struct deployment_options *options, struct sy_error *err) {
    uint32_t places = control->models_max + CONTROL_SPARE;
    struct repository_entry *entries;
    uint32_t count;

    *d = (struct deployment){.models = NULL};
    if (!file_engine)
        return error_set(err, -ENOTSUP,
                         "this build has no ONNX Runtime, so it serves scenarios only (--scenario FILE)");
    if (repository_is_model(control->path))
        return error_set(err, -EINVAL,
                         "%s is one model; --model-control-mode other than none needs a directory of models",
                         control->path);
    int rc = repository_look(control->path, &entries, &count, err);
    if (rc < 0)
        return rc;
    free(entries);
    d->models = calloc(places, sizeof(*d->models));
    d->profiles = calloc((size_t)options->group_count * places, sizeof(*d->profiles));
    if (!d->models || !d->profiles)
        return error_set(err, -ENOMEM, "no memory for the places of %u models", places);
    d->model_count = places;
    control->slo_ns = options->slo_ns;
    for (uint32_t i = 0; i < options->group_count; i++)
        control->how[i] = group_add(d, &options->groups[i], options);
    return 0;
}

/* ---- from a scenario ---- */

int deployment_from_scenario(struct deployment *d, const struct scenario *scenario, struct sy_error *err) {
    struct profile **by_model;

    *d = (struct deployment){.models = NULL};
    if (scenario->accelerator_count > ACCELERATORS_MAX)
        return error_set(err, -EINVAL, "%u accelerators are more than one process serves live: %d",
                         scenario->accelerator_count, ACCELERATORS_MAX);
    int rc = scenario_served_models(scenario, &d->models, &by_model, &d->model_count, err);
    if (rc < 0)
        return rc;
    /* The scenario's profiles lie by model, the server wants them by type. */
    d->profile_count = d->model_count * scenario->type_count;
    d->profiles = calloc(d->profile_count + 1, sizeof(*d->profiles));
    if (!d->profiles) {
        scenario_models_free(scenario, d->models, by_model, d->model_count);
        *d = (struct deployment){.models = NULL};
        return error_set(err, -ENOMEM, "no memory for %u profiles", d->model_count * scenario->type_count);
    }
    for (uint32_t type = 0; type < scenario->type_count; type++) {
        struct server_accelerators *a = &d->accelerators[d->type_count++];
        snprintf(a->type, sizeof(a->type), "%s", scenario->types[type].name);
        a->engine = &engine_emulated;
        a->provider = "emulated";
        a->count = scenario->types[type].count;
        a->profiles = (const struct profile **)&d->profiles[type * d->model_count];
        for (uint32_t i = 0; i < d->model_count; i++)
            a->profiles[i] = by_model[i * scenario->type_count + type];
    }
    for (uint32_t i = 0; i < d->model_count; i++)
        instances_place(&d->models[i], d->accelerators, d->type_count);
    free(by_model);
    return 0;
}

void deployment_free(struct deployment *d) {
    for (uint32_t i = 0; i < d->profile_count; i++)
        free(d->profiles[i]);
    free(d->profiles);
    for (uint32_t i = 0; i < d->model_count; i++)
        served_model_labels_free(&d->models[i]);
    for (uint32_t i = 0; i < d->model_count; i++)
        preparations_close(&d->models[i]);
    for (uint32_t i = 0; i < d->model_count; i++)
        ensemble_release(&d->models[i]);
    free(d->models);
    *d = (struct deployment){.models = NULL};
}
