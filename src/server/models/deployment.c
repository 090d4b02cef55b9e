/* deployment.c - models, accelerators and profiles of a server, from a repository or a scenario. */
#include "server/models/deployment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system/log.h"
#include "core/system/thread.h"
#include "model/profile/prepare.h"
#include "model/profile/twins.h"
#include "model/repository/repository.h"
#include "model/repository/repository_look.h"
#include "server/models/ensembles.h"
#include "server/models/instances.h"
#include "server/models/scenario_served.h"

void deployment_progress_show(void *context, const struct profile_progress *p) {
    (void)context;
    fprintf(stderr, "\r\033[K[%u/%u] %s: %s", p->index + 1, p->count, p->model, p->phase);
    if (strcmp(p->phase, "measuring") == 0)
        fprintf(stderr, ", batches of %u", p->batch);
}

/* ---- from a repository ---- */

#ifdef SYMPHONY_HAVE_ONNXRUNTIME
static const struct engine_ops *const file_engine = &engine_onnxruntime;
#else
static const struct engine_ops *const file_engine = NULL;
#endif

const struct transform_ops *deployment_transforms(void) {
    return file_engine ? file_engine->transforms : NULL;
}

/* Engines by kind of accelerator; an emulated accelerator sleeps for the time that a CPU would run. */
static const char *const providers[] = {"cpu", "cuda", "cpu"};

/* How models are profiled for a group of accelerators. */
static struct profile_options group_profiling(const struct accelerator_group *group,
                                              const struct deployment_options *options) {
    return (struct profile_options){
        .engine = file_engine,
        .provider = providers[group->kind],
        .core = group->kind == ACCELERATOR_CUDA ? -1 : thread_core_nth(&options->cores, 0),
        .cache_dir = options->cache_dir,
    };
}

/* Adds a group of accelerators, with room for `places` profiles; returns how models are profiled for it. */
static struct profile_options group_add(struct deployment *d, const struct accelerator_group *group, uint32_t places,
                                        const struct deployment_options *options) {
    struct server_accelerators *a = &d->accelerators[d->type_count++];

    snprintf(a->type, sizeof(a->type), "%s", group->type);
    a->engine = group->kind == ACCELERATOR_EMULATED ? &engine_emulated : file_engine;
    a->provider = providers[group->kind];
    a->cache_dir = options->cache_dir;
    a->count = group->count;
    a->profiles = (const struct profile **)&d->profiles[d->profile_count];
    d->profile_count += places;
    return group_profiling(group, options);
}

/* ---- shared prefixes ---- */

/* Whether models may share their first layers here; if not, the log says why. */
static bool sharing_possible(const struct deployment_options *options) {
    if (!options->share_prefixes)
        return false;
    const char *reason = options->backend ? "not in a backend of a cluster" : NULL;
    for (uint32_t i = 0; i < options->group_count; i++)
        if (options->groups[i].kind != ACCELERATOR_CPU)
            reason = "only where all accelerators are CPUs";
    if (options->group_count != 1 && !reason)
        reason = "only where all accelerators are of one type";
    if (reason)
        log_warn("models do not share their first layers", "reason=\"%s\"", reason);
    return !reason;
}

/* The models that a server is to load first. */
struct first_models {
    struct served_model **models; /* [count] models, each allocated */
    struct profile **profiles;    /* [count] profiles of the models; NULL: the model is not served */
    uint32_t count, room;
    struct server_accelerators cpu; /* accelerators of the kind that the server has */
};

/* Appends versions of a model, each with its profile if it is to be served and has one. -EINTR or -ENOMEM: the whole
 * search ends. */
static int first_models_add(struct first_models *first, const struct served_model *found, uint32_t versions,
                            const struct deployment_options *options, const struct profile_options *how,
                            struct profile_progress *progress) {
    int rc = 0;
    if (first->count + versions > first->room) {
        first->room = 2 * (first->count + versions);
        struct served_model **models = realloc(first->models, first->room * sizeof(*models));
        first->models = models ? models : first->models;
        struct profile **profiles = realloc(first->profiles, first->room * sizeof(*profiles));
        first->profiles = profiles ? profiles : first->profiles;
        rc = models && profiles ? 0 : -ENOMEM;
    }
    for (uint32_t v = 0; v < versions && !rc; v++) {
        struct served_model *model = calloc(1, sizeof(*model));
        struct profile **profile = &first->profiles[first->count];
        bool measured, served = served_model_state(&found[v]) == MODEL_LOADING && !found[v].ensemble;
        if (!model) {
            rc = -ENOMEM;
            break;
        }
        served_model_share(model, &found[v]);
        *profile = NULL;
        first->models[first->count++] = model;
        if (!served)
            continue;
        progress->model = model->name;
        if (!model->slo_ns)
            model->slo_ns = options->slo_ns;
        instances_place(model, &first->cpu, 1);
        rc = profile_prepare(model, how, progress, NULL, profile, &measured);
        rc = rc == -EINTR || rc == -ENOMEM ? rc : 0;
    }
    return rc;
}

/* Finds groups among the models that the server is to load first; the repository's thread makes their places later. */
static int sharing_prepare(struct deployment *d, const struct repository_control *control,
                           const struct repository_entry *entries, uint32_t entry_count,
                           const struct deployment_options *options, struct sy_error *err) {
    struct profile_options how = group_profiling(&options->groups[0], options);
    bool all = control->mode == CONTROL_POLL || (control->name_count == 1 && strcmp(control->names[0], "*") == 0);
    struct profile_progress progress = {.count = control->start_count ? control->start_count
                                                 : all                ? entry_count
                                                                      : control->name_count};
    struct first_models first = {.cpu = {.engine = file_engine, .provider = how.provider, .count = 1}};
    int rc = 0;
    how.progress = isatty(STDERR_FILENO) ? deployment_progress_show : NULL;
    for (progress.index = 0; progress.index < progress.count && !rc; progress.index++) {
        struct served_model *found = NULL;
        struct sy_error why;
        uint32_t versions = 0;
        if (control->start_count) {
            rc = first_models_add(&first, &d->models[progress.index], 1, options, &how, &progress);
            continue;
        }
        const char *name = all ? entries[progress.index].name : control->names[progress.index];
        if (repository_find(&control->from, name, &found, &versions, &why) == 0) /* else its thread will say why */
            rc = first_models_add(&first, found, versions, options, &how, &progress);
        served_models_free(found, versions);
    }
    rc = rc ? error_set(err, rc, "the models to load first cannot be read")
            : shared_prefixes_find(&d->shared, first.models, (const struct profile *const *)first.profiles, first.count,
                                   &how, err);
    if (how.progress)
        fputs("\r\033[K", stderr);
    for (uint32_t i = 0; i < first.count; i++) {
        free(first.profiles[i]);
        served_models_free(first.models[i], 1);
    }
    free(first.models);
    free(first.profiles);
    return rc;
}

int deployment_from_repositories(struct deployment *d, struct repository_control *control,
                                 const struct deployment_options *options, struct sy_error *err) {
    struct repository_entry *entries = NULL;
    bool comes = control->mode != CONTROL_NONE;
    uint32_t count = 0;
    int rc;

    *d = (struct deployment){.models = NULL};
    if (!file_engine)
        return error_set(err, -ENOTSUP,
                         "this build has no ONNX Runtime, so it serves scenarios only (--scenario FILE)");
    for (uint32_t i = 0; comes && i < control->from.count; i++)
        if (repository_is_model(control->from.paths[i]))
            return error_set(err, -EINVAL,
                             "%s is one model; --model-control-mode other than none needs a directory of models",
                             control->from.paths[i]);
    rc = comes ? repository_look(&control->from, NULL, &entries, &count, err)
               : repository_scan(&control->from, &d->models, &d->model_count, err);
    control->start_count = d->model_count;
    if (!rc && sharing_possible(options))
        rc = sharing_prepare(d, control, entries, count, options, err);
    free(entries);
    if (rc < 0)
        return rc;
    control->models_max = comes ? control->models_max : control->start_count;
    control->shared = &d->shared;
    control->slo_ns = options->slo_ns;
    uint32_t places = control->models_max + d->shared.count + (comes ? CONTROL_SPARE : 0);
    struct served_model *models = realloc(d->models, places * sizeof(*models));
    d->models = models ? models : d->models;
    d->profiles = calloc((size_t)options->group_count * places, sizeof(*d->profiles));
    if (!models || !d->profiles)
        return error_set(err, -ENOMEM, "no memory for the places of %u models", places);
    memset(d->models + d->model_count, 0, (places - d->model_count) * sizeof(*models));
    d->model_count = places;
    for (uint32_t i = 0; i < options->group_count; i++)
        control->how[i] = group_add(d, &options->groups[i], places, options);
    return 0;
}

int deployment_nothing(const struct repository_control *control, const struct served_model *models,
                       struct sy_error *err) {
    const char *more = control->from.count > 1 ? ", ..." : "";
    if (control->start_count == 1)
        return error_set(err, -ENOENT, "%s%s: its model cannot be served: %s", control->from.paths[0], more,
                         models[0].reason);
    return error_set(err, -ENOENT, "%s%s: none of its %u models can be served: %s", control->from.paths[0], more,
                     control->start_count, models[0].reason);
}

static void profiling_tell(void *context, const struct profile_progress *p) {
    struct start_progress *progress = context;
    atomic_store_explicit(&progress->awaited, p->count - p->index, memory_order_relaxed); /* start_progress_words() */
    atomic_store_explicit(&progress->profiles, true, memory_order_relaxed);               /* as above */
}

int deployment_profile(struct deployment *d, const struct repository_control *control, struct start_progress *progress,
                       const _Atomic bool *stop, struct sy_error *err) {
    uint32_t count = control->start_count, left = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!d->models[i].ensemble)
            instances_place(&d->models[i], d->accelerators, d->type_count);
    for (uint32_t t = 0; t < d->type_count; t++) {
        struct profile_options how = control->how[t];
        struct profile_twins *twins = calloc(1, sizeof(*twins)); /* without memory each model is measured */
        how.progress = profiling_tell;
        how.context = progress;
        how.stop = stop;
        how.twins = twins;
        int rc = profile_prepare_all(d->models, count, t, &how, (struct profile **)d->accelerators[t].profiles);
        if (twins)
            twins_free(twins);
        free(twins);
        if (rc < 0)
            return error_set(err, rc, "profiling was stopped");
    }
    for (uint32_t i = 0; i < count; i++)
        left += served_model_state(&d->models[i]) != MODEL_UNAVAILABLE;
    if (!left)
        return deployment_nothing(control, d->models, err);
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
        a->price = scenario->types[type].price;
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
        ensemble_release(&d->models[i]);
    served_models_free(d->models, d->model_count);
    shared_prefixes_free(&d->shared);
    *d = (struct deployment){.models = NULL};
}
