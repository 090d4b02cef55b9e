/* deployment.c - models, accelerators and profiles of a server, from a repository or a scenario. */
#include "server/models/deployment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system/log.h"
#include "core/system/thread.h"
#include "model/config/preparations.h"
#include "model/profile/prepare.h"
#include "model/repository/repository.h"
#include "model/repository/repository_look.h"
#include "server/models/ensembles.h"
#include "server/models/instances.h"
#include "server/models/scenario_served.h"

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

/* Makes each model ready, or each ensemble, or sets it aside with its reason. Returns how many are ready. In a backend
 * an ensemble is ready as it is: the models of its steps may be those of other backends, and frontends find them. */
static uint32_t settle(struct deployment *d, const struct deployment_options *options, bool ensembles) {
    const struct ensemble_world world = {
        .models = d->models, .count = d->model_count, .accelerators = d->accelerators, .type_count = d->type_count};
    struct sy_error err;
    uint32_t ready = 0;

    for (uint32_t i = 0; i < d->model_count; i++) /* models before ensembles, whose steps they are */
        if (served_model_state(&d->models[i]) == MODEL_LOADING && (d->models[i].ensemble != NULL) == ensembles &&
            served_model_labels_read(&d->models[i], &err) < 0)
            served_model_refuse(&d->models[i], "%s", err.text);
    for (uint32_t i = 0; i < d->model_count; i++) {
        struct served_model *m = &d->models[i];
        bool refused = served_model_state(m) == MODEL_UNAVAILABLE;
        if ((m->ensemble != NULL) != ensembles)
            continue;
        int (*prepare)(struct served_model *, const struct transform_ops *, struct sy_error *) =
            options->backend ? preparations_pack : preparations_open; /* a cluster's frontends prepare */
        if (!refused && prepare(m, deployment_transforms(), &err) < 0)
            served_model_refuse(m, "%s", err.text);
        refused = served_model_state(m) == MODEL_UNAVAILABLE;
        if (!refused && ensembles && !options->backend && ensemble_prepare(m, &world, &err) < 0)
            served_model_refuse(m, "%s", err.text);
        if (served_model_state(m) == MODEL_UNAVAILABLE) {
            log_error("model set aside", "model=%s reason=\"%s\"", m->name, m->reason);
            continue;
        }
        atomic_store_explicit(&m->state, MODEL_READY, memory_order_relaxed); /* no other thread yet */
        ready += !served_model_is_prefix(m);
        if (ensembles) {
            ensemble_log(m);
            continue;
        }
        uint32_t type = 0;
        while (!d->accelerators[type].profiles[i])
            type++;
        const struct profile *p = d->accelerators[type].profiles[i]; /* on the first type that runs it */
        log_info("model", "model=%s version=%u slo_ms=%.6g max_batch=%u l1_ms=%.3f best_batch=%u%s", m->name,
                 m->version, (double)m->slo_ns / 1e6, m->batch_max, (double)p->latency_ns[1] / 1e6,
                 profile_batch_best(p), m->signature.batched ? "" : " batched=no");
    }
    return ready;
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

static int sharing_find(struct deployment *d, struct served_model **models, const struct profile *const *profiles,
                        uint32_t count, const struct profile_options *how, struct sy_error *err) {
    bool terminal = isatty(STDERR_FILENO);
    struct profile_options shown = *how;
    shown.progress = progress_show;
    shown.context = &terminal;
    int rc = shared_prefixes_find(&d->shared, models, profiles, count, &shown, err);
    progress_end(&terminal);
    return rc;
}

/* Finds groups among the models of the deployment, which have their profiles, and adds a place for each prefix. There
 * is room for all of them. */
static int sharing_apply(struct deployment *d, const struct profile_options *how, struct sy_error *err) {
    const struct profile **profiles = d->accelerators[0].profiles;
    struct served_model **models = calloc(d->model_count + 1, sizeof(*models));
    if (!models)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < d->model_count; i++)
        models[i] = &d->models[i];
    int rc = sharing_find(d, models, profiles, d->model_count, how, err);
    free(models);
    for (uint32_t i = 0; i < d->shared.refusal_count; i++) /* where models come and go: when they are loaded */
        shared_whole_log(d->shared.refusals[i].name, d->shared.refusals[i].version, d->shared.refusals[i].reason);
    struct served_model *grown =
        rc ? NULL : realloc(d->models, (d->model_count + d->shared.count) * sizeof(*d->models));
    if (!grown)
        return rc ? rc : error_set(err, -ENOMEM, "out of memory");
    d->models = grown;
    memset(d->models + d->model_count, 0, d->shared.count * sizeof(*d->models));
    uint32_t members = d->model_count;
    for (uint32_t i = 0; i < members && !rc; i++) {
        struct shared_group *group;
        struct sy_error why;
        struct shared_member *member = profiles[i] ? shared_member_find(&d->shared, &d->models[i], &group, &why) : NULL;
        if (!member)
            continue;
        if (!group->users) {
            group->place = d->model_count;
            served_model_share(&d->models[d->model_count], group->host);
            memcpy(d->models[d->model_count].on, d->models[i].on, sizeof(group->host->on));
            rc = (profiles[d->model_count++] = shared_profile_copy(group)) ? 0 : -ENOMEM;
        }
        uint8_t number = (uint8_t)group->users++;
        group->places[number] = i;
        shared_member_apply(&d->models[i], group, member, group->place, number);
        free((void *)profiles[i]);
        if (!(profiles[i] = shared_profile_copy(group)))
            rc = -ENOMEM;
    }
    return rc ? error_set(err, rc, "out of memory") : 0;
}

/* The models that a server whose models come and go is to load first. */
struct first_models {
    struct served_model **models; /* [count] models, each allocated */
    struct profile **profiles;    /* [count] profiles of the models; NULL: the model is not served */
    uint32_t count, room;
    struct server_accelerators cpu; /* accelerators of the kind that the server has */
};

/* Appends the versions of a model, each with its profile if it is to be served and has one. If the model cannot be
 * read, none: the repository's thread will say why. -EINTR or -ENOMEM: the whole search ends. */
static int first_models_add(struct first_models *first, const struct repositories *from, const char *name,
                            const struct deployment_options *options, const struct profile_options *how,
                            struct profile_progress *progress) {
    struct served_model *found = NULL;
    uint32_t versions = 0;
    struct sy_error why;
    int rc = 0;
    if (repository_find(from, name, &found, &versions, &why))
        versions = 0;
    if (first->count + versions > first->room) {
        first->room = 2 * (first->count + versions);
        struct served_model **models = realloc(first->models, first->room * sizeof(*models));
        first->models = models ? models : first->models;
        struct profile **profiles = realloc(first->profiles, first->room * sizeof(*profiles));
        first->profiles = profiles ? profiles : first->profiles;
        rc = models && profiles ? 0 : -ENOMEM;
    }
    progress->model = name;
    for (uint32_t v = 0; v < versions && !rc; v++) {
        struct served_model *model = calloc(1, sizeof(*model));
        struct profile **profile = &first->profiles[first->count];
        bool measured, served = served_model_state(&found[v]) == MODEL_LOADING && !found[v].ensemble;
        if (!model) {
            rc = -ENOMEM;
            break;
        }
        served_model_move(model, &found[v]);
        *profile = NULL;
        first->models[first->count++] = model;
        if (!served)
            continue;
        if (!model->slo_ns)
            model->slo_ns = options->slo_ns;
        instances_place(model, &first->cpu, 1);
        rc = profile_prepare(model, how, progress, NULL, profile, &measured);
        rc = rc == -EINTR || rc == -ENOMEM ? rc : 0;
    }
    served_models_free(found, versions);
    return rc;
}

/* Finds groups among the models that a server whose models come and go is to load first; the repository's thread makes
 * their places later. */
static int sharing_prepare(struct deployment *d, const struct repository_control *control,
                           const struct repository_entry *entries, uint32_t entry_count,
                           const struct deployment_options *options, struct sy_error *err) {
    struct profile_options how = group_profiling(&options->groups[0], options);
    bool all = control->mode == CONTROL_POLL || (control->name_count == 1 && strcmp(control->names[0], "*") == 0);
    struct profile_progress progress = {.count = all ? entry_count : control->name_count};
    struct first_models first = {.cpu = {.engine = file_engine, .provider = how.provider, .count = 1}};
    int rc = 0;
    for (progress.index = 0; progress.index < progress.count && !rc; progress.index++)
        rc = first_models_add(&first, &control->from,
                              all ? entries[progress.index].name : control->names[progress.index], options, &how,
                              &progress);
    rc = rc ? error_set(err, rc, "the models to load first cannot be read")
            : sharing_find(d, first.models, (const struct profile *const *)first.profiles, first.count, &how, err);
    for (uint32_t i = 0; i < first.count; i++) {
        free(first.profiles[i]);
        served_models_free(first.models[i], 1);
    }
    free(first.models);
    free(first.profiles);
    return rc;
}

int deployment_from_repositories(struct deployment *d, const struct repositories *from,
                                 const struct deployment_options *options, struct sy_error *err) {
    struct profile_options how[ACCELERATOR_TYPES_MAX];

    *d = (struct deployment){.models = NULL};
    if (!file_engine)
        return error_set(err, -ENOTSUP,
                         "this build has no ONNX Runtime, so it serves scenarios only (--scenario FILE)");
    int rc = repository_scan(from, &d->models, &d->model_count, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < d->model_count && options->slo_ns; i++)
        if (!d->models[i].slo_ns)
            d->models[i].slo_ns = options->slo_ns;
    bool sharing = sharing_possible(options);
    uint32_t places = d->model_count + (sharing ? d->model_count / 2 : 0);
    d->profiles = calloc((size_t)options->group_count * places + 1, sizeof(*d->profiles));
    if (!d->profiles)
        return error_set(err, -ENOMEM, "no memory for the profiles of %u models", d->model_count);
    for (uint32_t i = 0; i < options->group_count; i++)
        how[i] = group_add(d, &options->groups[i], places, options);
    /* for models that were set aside the decision has no effect */
    for (uint32_t i = 0; i < d->model_count; i++)
        if (served_model_state(&d->models[i]) == MODEL_LOADING && !d->models[i].ensemble)
            instances_place(&d->models[i], d->accelerators, d->type_count);
    for (uint32_t i = 0; i < options->group_count; i++) {
        bool terminal = isatty(STDERR_FILENO);
        how[i].progress = progress_show;
        how[i].context = &terminal;
        rc = profile_prepare_all(d->models, d->model_count, i, &how[i], (struct profile **)d->accelerators[i].profiles);
        progress_end(&terminal);
        if (rc < 0)
            return error_set(err, rc, "profiling was stopped");
    }
    if (sharing && (rc = sharing_apply(d, &how[0], err)) < 0)
        return rc;
    if (settle(d, options, false) + settle(d, options, true) == 0)
        return error_set(err, -ENOENT, "%s%s: none of its %u models can be served: %s", from->paths[0],
                         from->count > 1 ? ", ..." : "", d->model_count, d->models[0].reason);
    return 0;
}

int deployment_for_control(struct deployment *d, struct repository_control *control,
                           const struct deployment_options *options, struct sy_error *err) {
    struct repository_entry *entries;
    uint32_t count;

    *d = (struct deployment){.models = NULL};
    if (!file_engine)
        return error_set(err, -ENOTSUP,
                         "this build has no ONNX Runtime, so it serves scenarios only (--scenario FILE)");
    for (uint32_t i = 0; i < control->from.count; i++)
        if (repository_is_model(control->from.paths[i]))
            return error_set(err, -EINVAL,
                             "%s is one model; --model-control-mode other than none needs a directory of models",
                             control->from.paths[i]);
    int rc = repository_look(&control->from, &entries, &count, err);
    if (!rc && sharing_possible(options))
        rc = sharing_prepare(d, control, entries, count, options, err);
    free(entries);
    if (rc < 0)
        return rc;
    uint32_t prefixes = d->shared.count;
    uint32_t places = control->models_max + CONTROL_SPARE + prefixes;
    control->shared = &d->shared;
    d->models = calloc(places, sizeof(*d->models));
    d->profiles = calloc((size_t)options->group_count * places, sizeof(*d->profiles));
    if (!d->models || !d->profiles)
        return error_set(err, -ENOMEM, "no memory for the places of %u models", places);
    d->model_count = places;
    control->slo_ns = options->slo_ns;
    for (uint32_t i = 0; i < options->group_count; i++)
        control->how[i] = group_add(d, &options->groups[i], places, options);
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
        ensemble_release(&d->models[i]);
    served_models_free(d->models, d->model_count);
    shared_prefixes_free(&d->shared);
    *d = (struct deployment){.models = NULL};
}
