/* ensembles.c - finds the models of ensembles' steps, and divides SLOs among them. */
#include "server/models/ensembles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/container.h"
#include "core/util/counter.h"
#include "core/util/time.h"
#include "front/request/ensemble_plan.h"
#include "front/request/infer_counters.h"
#include "model/config/ensemble.h"
#include "model/config/labels.h"
#include "model/profile/prepare.h"
#include "sched/plan/split.h"

#define EACH_MEAN 4.0 /* rows for which a step with for_each is planned at first */
#define TURNS     1.0 /* split_stage.turns: an item takes the latency of one batch, as in the paper's program */

#define EPOCH_NS    (30 * NS_PER_S) /* time between two divisions of the SLO (Nexus's epoch, section 6.1) */
#define SEEN_LEAST  100             /* items of the ensemble that must reach a step before its own items are measured */
#define ITEMS_LEAST 0.001           /* items of a step that hardly ever has any, for one item of the ensemble */

/* The plan of an ensemble that is served, for the thread that looks at it (ensembles_look()). */
struct plan {
    struct ensemble_plan shared;
    struct ensemble *flat; /* graph that `shared.ensemble` points to, if steps are ensembles; NULL: that is the model's
                            * own graph */
    struct plan *earlier;  /* list of plans that this plan has replaced, as long as requests may have them */
    uint64_t replaced;     /* in a replaced plan: ensemble_world.published when it was replaced */
    double items[PIPELINE_STAGES_MAX]; /* items of each step for one item of the ensemble */
    uint64_t seen_whole[PIPELINE_STAGES_MAX],
        seen_items[PIPELINE_STAGES_MAX]; /* counts when `items` was last measured */
    const struct profile *profiles[ENSEMBLE_STEPS_MAX];
    int64_t divided_ns; /* time at which the SLO was last divided */
    double rate;        /* the ensemble's items per second; 0: not known */
    uint64_t counted;   /* items of the ensemble in all, when `rate` was last measured */
    int64_t counted_ns; /* time at which `rate` was last measured */
};

/* The plan of an ensemble; NULL: none has been made yet. */
static struct plan *plan_of(const struct served_model *model) {
    struct ensemble_plan *plan = atomic_load_explicit(&model->plan, memory_order_relaxed); /* set under the same lock */
    return plan ? container_of(plan, struct plan, shared) : NULL;
}

/* The steps that run, with their models, and the models' profiles on the first type of accelerators that runs them. */
struct steps {
    const struct ensemble *ensemble; /* graph of the steps: the model's own, or `flat` */
    struct ensemble *flat; /* graph in which ensembles are replaced by their steps; NULL: no step is an ensemble */
    const struct served_model *models[ENSEMBLE_STEPS_MAX];
    const struct profile *profiles[ENSEMBLE_STEPS_MAX];
};

/* The model of this name and version; without a version the one that requests go to. NULL: there is none. */
static const struct served_model *model_find(const struct ensemble_world *world, const char *name, uint32_t version) {
    const struct served_model *found = NULL;
    for (uint32_t i = 0; i < world->count; i++) {
        const struct served_model *model = &world->models[world->listed ? world->listed[i] : i];
        if (strcmp(model->name, name) != 0 || (version && model->version != version))
            continue;
        if (!found || model_version_precedes(model, found))
            found = model;
    }
    return found;
}

static int step_error(const struct ensemble *e, uint32_t v, struct sy_error *err, const char *why, const char *detail) {
    const struct ensemble_step *step = &e->steps[v];
    return error_set(err, -EINVAL, "%.200s:%u:%u: step %s (%.100s): %s%.300s", e->path, step->line, step->column,
                     step->label, step->model, why, detail);
}

/* A chain of ensembles, each a step of the one before, from the outermost on. */
struct way {
    const struct way *before;
    const struct served_model *model;
    uint32_t depth;
};

/* Whether two models are the same ensemble. Names are compared, not addresses: a new version of an ensemble may be
 * loaded beside the version that it will replace. */
static bool is_same(const struct served_model *a, const struct served_model *b) {
    return a->version == b->version && strcmp(a->name, b->name) == 0;
}

/* Reports that a step's model is an ensemble which the way has passed already. */
static int circle_error(const struct way *way, const struct ensemble *e, uint32_t v, const struct served_model *again,
                        struct sy_error *err) {
    const char *names[ENSEMBLE_DEPTH_MAX];
    uint32_t count = 0;
    char text[300];
    size_t at = (size_t)snprintf(text, sizeof(text), "%.60s", again->name);
    for (; !is_same(way->model, again); way = way->before)
        names[count++] = way->model->name;
    while (count > 0 && at < sizeof(text))
        at += (size_t)snprintf(text + at, sizeof(text) - at, ", whose step is %.60s", names[--count]);
    if (at < sizeof(text))
        snprintf(text + at, sizeof(text) - at, ", whose step is %.60s", again->name);
    return step_error(e, v, err, "the ensembles are steps of each other in a circle: ", text);
}

static int graph_find(const struct served_model *ensemble, const struct ensemble_world *world, const struct way *before,
                      struct ensemble **flat, struct sy_error *err);

/* Finds the graph of a step that is an ensemble: its own, or *flat if that ensemble has ensembles as steps, too. */
static int inner_find(const struct way *way, uint32_t v, const struct served_model *model,
                      const struct ensemble_world *world, const struct ensemble **inner, struct ensemble **flat,
                      struct sy_error *err) {
    const struct ensemble *e = way->model->ensemble;
    struct sy_error why;
    for (const struct way *w = way; w; w = w->before)
        if (is_same(w->model, model))
            return circle_error(way, e, v, model, err);
    if (way->depth == ENSEMBLE_DEPTH_MAX) {
        error_set(&why, 0, "%d", ENSEMBLE_DEPTH_MAX);
        return step_error(e, v, err, "more ensembles within each other than may be: ", why.text);
    }
    if (e->steps[v].each != ENSEMBLE_NONE)
        return step_error(e, v, err, "for_each: the model is an ensemble", "");
    int rc = graph_find(model, world, way, flat, &why);
    *inner = *flat ? *flat : model->ensemble;
    if (rc && way->before) /* the message names the outermost step and the innermost reason */
        return error_set(err, rc, "%s", why.text);
    if (rc)
        return step_error(e, v, err, "", why.text);
    if (!plan_of(model) &&
        served_model_state(model) == MODEL_UNAVAILABLE) /* the ensemble was refused for another reason */
        return step_error(e, v, err, "the model cannot be served: ", model->reason);
    return 0;
}

/* Finds the models of an ensemble's steps as the ensemble names them, and checks that they fit. *flat: graph in which
 * ensembles are replaced by their steps, for the caller to free; NULL: no step is an ensemble. */
static int graph_find(const struct served_model *ensemble, const struct ensemble_world *world, const struct way *before,
                      struct ensemble **flat, struct sy_error *err) {
    const struct way way = {before, ensemble, before ? before->depth + 1 : 1};
    const struct ensemble *e = ensemble->ensemble, *inner[ENSEMBLE_STEPS_MAX] = {NULL};
    const struct served_model *models[ENSEMBLE_STEPS_MAX] = {NULL};
    struct ensemble *flats[ENSEMBLE_STEPS_MAX] = {NULL};
    bool nested = false;
    int rc = 0;
    *flat = NULL;
    for (uint32_t v = 0; v < e->step_count && !rc; v++) {
        const struct served_model *model = models[v] = model_find(world, e->steps[v].model, e->steps[v].version);
        if (!model)
            rc = step_error(e, v, err, "there is no such model", "");
        else if (model->ensemble)
            rc = inner_find(&way, v, model, world, &inner[v], &flats[v], err);
        else if (served_model_state(model) != MODEL_READY)
            rc = step_error(e, v, err, "the model cannot be served: ",
                            served_model_state(model) == MODEL_UNAVAILABLE ? model->reason : "it is still loading");
        nested |= inner[v] != NULL;
    }
    rc = rc ? rc : ensemble_check(ensemble, e, models, err);
    if (!rc && nested)
        rc = ensemble_flatten(e, inner, flat, err);
    for (uint32_t v = 0; v < e->step_count; v++)
        ensemble_free(flats[v]);
    return rc;
}

/* Fills `steps`. The caller frees `steps->flat`. */
static int steps_find(const struct served_model *ensemble, const struct ensemble_world *world, struct steps *steps,
                      struct sy_error *err) {
    int rc = graph_find(ensemble, world, NULL, &steps->flat, err);
    const struct ensemble *e = steps->ensemble = steps->flat ? steps->flat : ensemble->ensemble;
    for (uint32_t v = 0; v < e->step_count && !rc; v++) {
        const struct served_model *model = steps->models[v] = model_find(world, e->steps[v].model, e->steps[v].version);
        steps->profiles[v] = NULL;
        for (uint32_t t = 0; t < world->type_count && !steps->profiles[v]; t++)
            steps->profiles[v] = world->accelerators[t].profiles[model - world->models];
        if (!steps->profiles[v])
            rc = step_error(e, v, err, "the model has no profile", "");
    }
    if (!rc && steps->flat)
        rc = ensemble_check(ensemble, steps->flat, steps->models, err);
    if (rc) {
        ensemble_free(steps->flat);
        steps->flat = NULL;
    }
    return rc;
}

/* The number of rows of a tensor, as far as the models' signatures say it; 0: not known. `items`: numbers of items of
 * the steps before this one. `dim_count`: dimensions with which a step takes the tensor. */
static double rows_of(const struct served_model *model, const struct steps *steps, const double *items, uint32_t tensor,
                      uint32_t dim_count) {
    const struct ensemble_tensor *t = &steps->ensemble->tensors[tensor];
    const struct tensor_spec *spec = &model->signature.inputs[t->place];
    if (t->step != ENSEMBLE_NONE) {
        const struct signature *signature = &steps->models[t->step]->signature;
        const char *name = steps->ensemble->steps[t->step].outputs[t->place].name;
        int index = tensor_spec_find(signature->outputs, signature->output_count, name, strlen(name));
        if (signature->batched)
            return items[t->step];
        spec = &signature->outputs[index]; /* the output exists: ensemble_check() */
    }
    if (spec->dim_count < dim_count) /* a batch dimension of one is added */
        return 1;
    return spec->dim_count > 0 && spec->dims[0] > 0 ? (double)spec->dims[0] : 0;
}

/* Estimates the items of each step for one item of the ensemble, before any request has been seen. */
static void items_expect(const struct served_model *model, const struct steps *steps, double *items) {
    for (uint32_t v = 0; v < steps->ensemble->step_count; v++) {
        const struct ensemble_step *step = &steps->ensemble->steps[v];
        bool each = step->each != ENSEMBLE_NONE;
        double rows = 0;
        if (steps->models[v]->signature.batched && !model->signature.batched) {
            const struct signature *signature = served_model_offered(steps->models[v]);
            const char *name = step->inputs[0].name;
            int index = tensor_spec_find(signature->inputs, signature->input_count, name, strlen(name));
            rows = rows_of(model, steps, items, each ? step->each : step->inputs[0].tensor,
                           each ? 0 : signature->inputs[index].dim_count); /* the input exists: ensemble_check() */
        }
        items[v] = rows > 0 ? rows : each ? EACH_MEAN : 1;
    }
}

/* The fewest items of a batch that the step runs in: those of one request. */
static uint32_t items_least(const struct steps *steps, uint32_t v, double items) {
    uint32_t most = steps->models[v]->batch_max;
    if (steps->ensemble->steps[v].each != ENSEMBLE_NONE || items < 1)
        return 1;
    return items < most ? (uint32_t)items : most;
}

/* The time that a batch of items_least() takes. */
static int64_t least_ns(const struct steps *steps, uint32_t v, double items) {
    return steps->profiles[v]->latency_ns[items_least(steps, v, items)];
}

/* The default SLO of an ensemble. Each step counts with the SLO that would be chosen for its model, or with twice the
 * time of a batch of one request if that is longer. */
static int64_t slo_choose(const struct steps *steps, const double *items) {
    const struct ensemble *e = steps->ensemble;
    struct split_stage stages[ENSEMBLE_STEPS_MAX];
    int64_t step_ns[ENSEMBLE_STEPS_MAX] = {0};
    for (uint32_t v = 0; v < e->step_count; v++) {
        int64_t twice_ns = 2 * least_ns(steps, v, items[v]);
        step_ns[v] = profile_default_slo_ns(steps->profiles[v]);
        step_ns[v] = twice_ns > step_ns[v] ? twice_ns : step_ns[v];
        stages[v] = (struct split_stage){.after = e->steps[v].after};
    }
    return (split_longest_path(stages, e->step_count, step_ns) + NS_PER_MS - 1) / NS_PER_MS * NS_PER_MS;
}

/* Divides the SLO so that the steps need the fewest accelerators; if it is too short even for lone requests, in
 * proportion to the time of each step. `items`: items of each step for one item of the ensemble. `rate`: the ensemble's
 * items per second; 0: not known, and batches are planned as if they gathered in no time. 1: done; 0: the SLO is too
 * short for lone requests; or -ENOMEM. */
static int split(struct ensemble_plan *plan, const struct steps *steps, const double *items, double rate) {
    const struct pipeline *graph = &plan->graph;
    struct split_stage stages[PIPELINE_STAGES_MAX];
    struct split_part parts[PIPELINE_STAGES_MAX];
    int64_t least[PIPELINE_STAGES_MAX];
    void *memory = malloc(split_bytes(graph->stage_count));
    if (!memory)
        return -ENOMEM;
    for (uint32_t v = 0; v < graph->stage_count; v++) {
        /* a step is planned for the largest batch that pays, or for one request if that is larger */
        uint32_t pays = profile_batch_best(steps->profiles[v]), one = items_least(steps, v, items[v]);
        uint32_t most = pays > one ? pays : one, able = steps->models[v]->batch_max;
        stages[v] = (struct split_stage){.profile = steps->profiles[v],
                                         .batch_max = most < able ? most : able,
                                         .rate = items[v] * (rate > 0 ? rate : 1),
                                         .gathers = rate > 0,
                                         .turns = TURNS,
                                         .after = graph->stages[v].after};
        least[v] = least_ns(steps, v, items[v]);
    }
    bool fits = split_best(stages, graph->stage_count, graph->slo_ns, memory, parts);
    free(memory);
    split_share(stages, graph->stage_count, graph->slo_ns, least, parts);
    /* A frontend that reads at the same time may get parts of two divisions; at its next request it sees the new count,
     * and reads the parts once more. */
    for (uint32_t v = 0; v < graph->stage_count; v++) {
        stages[v].batch_max = steps->models[v]->batch_max;
        atomic_store_explicit(&plan->part_ns[v], parts[v].budget_ns, memory_order_relaxed);
        atomic_store_explicit(&plan->batch_most[v], split_batch_most(&stages[v], parts[v].budget_ns),
                              memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&plan->divisions, 1, memory_order_release); /* with times_of() in ensemble_run.c */
    return fits;
}

static _Atomic uint64_t plans_made; /* number of plans made in this process */

/* The labels that the ensembles among the steps have for an output of the ensemble, the outermost first; NULL: none. */
static struct labels *labels_within(const struct served_model *ensemble, uint32_t output,
                                    const struct ensemble_world *world) {
    for (const struct served_model *model = ensemble;;) {
        const struct ensemble *e = model->ensemble;
        uint32_t t = 0;
        while (e->tensors[t].output != output) /* each output comes from a step */
            t++;
        const struct ensemble_step *step = &e->steps[e->tensors[t].step];
        const char *name = step->outputs[e->tensors[t].place].name;
        model = model_find(world, step->model, step->version); /* the model exists: graph_find() */
        if (!model->ensemble)
            return NULL;
        output =
            (uint32_t)tensor_spec_find(model->signature.outputs, model->signature.output_count, name, strlen(name));
        if (model->labels[output])
            return model->labels[output];
    }
}

static void plan_free(struct plan *plan) {
    for (uint32_t i = 0; i < TENSORS_MAX; i++)
        labels_free(plan->shared.labels[i]);
    ensemble_free(plan->flat);
    free(plan);
}

/* Makes a plan for the steps, and chooses the ensemble's SLO if it has none. The plan owns the flat graph of `steps`.
 * NULL: out of memory. */
static struct plan *plan_make(struct served_model *model, const struct ensemble_world *world, const struct steps *steps,
                              struct sy_error *err) {
    struct plan *plan = calloc(1, sizeof(*plan));
    int rc = -ENOMEM;
    if (plan) {
        struct ensemble_plan *shared = &plan->shared;
        shared->number = 1 + atomic_fetch_add_explicit(&plans_made, 1, memory_order_relaxed);
        shared->ensemble = steps->ensemble;
        plan->flat = steps->flat;
        items_expect(model, steps, plan->items);
        if (model->slo_ns == 0) {
            model->slo_ns = slo_choose(steps, plan->items);
            model->slo_chosen = true;
        }
        shared->graph.slo_ns = model->slo_ns;
        shared->graph.deadlines = PIPELINE_FLOATING;
        shared->graph.stage_count = steps->ensemble->step_count;
        for (uint32_t v = 0; v < steps->ensemble->step_count; v++)
            shared->graph.stages[v] = (struct pipeline_stage){
                .after = steps->ensemble->steps[v].after,
                .fan_out = {FAN_OUT_QUERY, plan->items[v], 0},
                .least_ns = least_ns(steps, v, plan->items[v]),
            };
        plan->divided_ns = clock_now_ns();
        memcpy(plan->profiles, steps->profiles, sizeof(plan->profiles));
        plan->counted_ns = plan->divided_ns;
        rc = split(shared, steps, plan->items, plan->rate);
        for (uint32_t v = 0; v < shared->graph.stage_count; v++) {
            shared->graph.stages[v].part_ns = shared->part_ns[v];
            shared->graph.stages[v].batch_most = shared->batch_most[v];
        }
    }
    if (rc < 0) {
        ensemble_free(steps->flat);
        free(plan);
        error_set(err, rc, "%.300s: out of memory", model->ensemble->path);
        return NULL;
    }
    for (uint32_t i = 0; i < model->signature.output_count; i++)
        plan->shared.labels[i] = labels_hold(labels_within(model, i, world));
    if (!rc)
        log_warn("an ensemble's SLO is shorter than its steps take for a lone request", "model=%s slo_ms=%.6g",
                 model->name, (double)model->slo_ns / 1e6);
    return plan;
}

int ensemble_prepare(struct served_model *model, const struct ensemble_world *world, struct sy_error *err) {
    struct steps steps = {.profiles = {NULL}};
    int rc = steps_find(model, world, &steps, err);
    if (rc < 0)
        return rc;
    if (model->batch_max > PROFILE_BATCH_MAX)
        model->batch_max = PROFILE_BATCH_MAX;
    struct plan *plan = plan_make(model, world, &steps, err);
    if (!plan)
        return -ENOMEM;
    atomic_store_explicit(&model->plan, &plan->shared, memory_order_release); /* with run_make() in ensemble_run.c */
    return 0;
}

int ensemble_fits(const struct served_model *ensemble, const struct ensemble_world *world, struct sy_error *err) {
    struct steps steps = {.profiles = {NULL}};
    int rc = steps_find(ensemble, world, &steps, err);
    ensemble_free(steps.flat);
    return rc;
}

/* ---- while it is served ---- */

/* Divides the SLO anew every epoch, and when a step's model was replaced: by the items that steps had since the last
 * measurement, where enough requests reached the step, and by the rate since, if enough came. */
static void divide_anew(struct plan *plan, const struct ensemble_world *world, const struct steps *steps,
                        const struct step_counters *counts, int64_t now_ns) {
    uint64_t arrived = 0; /* every item of the ensemble reaches a first step */
    if (now_ns - plan->divided_ns < EPOCH_NS && memcmp(plan->profiles, steps->profiles, sizeof(plan->profiles)) == 0)
        return;
    plan->divided_ns = now_ns;
    memcpy(plan->profiles, steps->profiles, sizeof(plan->profiles));
    for (uint32_t v = 0; v < plan->shared.graph.stage_count; v++) {
        uint64_t whole = counter_get(&counts->whole[v]), items = counter_get(&counts->items[v]);
        if (!plan->shared.graph.stages[v].after && whole > arrived)
            arrived = whole;
        if (whole - plan->seen_whole[v] < SEEN_LEAST)
            continue;
        double mean = (double)(items - plan->seen_items[v]) / (double)(whole - plan->seen_whole[v]);
        plan->items[v] = mean > ITEMS_LEAST ? mean : ITEMS_LEAST;
        plan->seen_whole[v] = whole;
        plan->seen_items[v] = items;
    }
    if (!world->elsewhere && now_ns - plan->counted_ns >= EPOCH_NS) {
        if (arrived - plan->counted >= SEEN_LEAST)
            plan->rate = (double)(arrived - plan->counted) / ((double)(now_ns - plan->counted_ns) / (double)NS_PER_S);
        plan->counted = arrived;
        plan->counted_ns = now_ns;
    }
    split(&plan->shared, steps, plan->items, plan->rate); /* without memory the parts stay as they are */
}

/* Frees replaced plans that no request has. Once models have been published twice since, a frontend that found such a
 * plan before has counted its request in the plan's `runs`. */
static void plans_tidy(struct plan *plan, uint64_t published) {
    for (struct plan **at = &plan->earlier, *old; (old = *at);) {
        if (published < old->replaced + 2 ||
            atomic_load_explicit(&old->shared.runs, memory_order_acquire)) { /* with run_free() in ensemble_run.c */
            at = &old->earlier;
            continue;
        }
        *at = old->earlier;
        plan_free(old);
    }
}

/* An ensemble that is a step has changed: new requests run the steps as they are now. Counts begin anew, since the old
 * ones are those of other steps. */
static int plan_replace(struct served_model *model, const struct ensemble_world *world, const struct steps *steps,
                        const struct step_counters *counts, struct sy_error *err) {
    struct plan *old = plan_of(model), *plan = plan_make(model, world, steps, err);
    if (!plan)
        return -ENOMEM;
    for (uint32_t v = 0; v < ENSEMBLE_STEPS_MAX; v++) {
        plan->seen_whole[v] = counter_get(&counts->whole[v]);
        plan->seen_items[v] = counter_get(&counts->items[v]);
        plan->counted = plan->seen_whole[v] > plan->counted ? plan->seen_whole[v] : plan->counted;
    }
    plan->earlier = old;
    old->replaced = world->published;
    atomic_store_explicit(&model->plan, &plan->shared, memory_order_release); /* as ensemble_prepare() */
    return 0;
}

int ensemble_look(struct served_model *model, const struct ensemble_world *world, const struct step_counters *counts,
                  int64_t now_ns, struct sy_error *err) {
    struct steps steps = {.profiles = {NULL}};
    int rc = steps_find(model, world, &steps, err);
    if (rc)
        return rc;
    plans_tidy(plan_of(model), world->published);
    bool same = ensemble_same(plan_of(model)->shared.ensemble, steps.ensemble);
    for (uint32_t i = 0; i < model->signature.output_count && same; i++)
        same = plan_of(model)->shared.labels[i] == labels_within(model, i, world);
    if (!same)
        return plan_replace(model, world, &steps, counts, err);
    divide_anew(plan_of(model), world, &steps, counts, now_ns);
    ensemble_free(steps.flat);
    return 0;
}

static void counts_sum(const struct frontends *fs, uint32_t number, struct step_counters *sum) {
    memset(sum, 0, sizeof(*sum));
    for (uint32_t f = 0; f < fs->count; f++) {
        const struct step_counters *steps = infer_counters_steps_of(frontends_counters(fs, f), number);
        for (uint32_t v = 0; steps && v < ENSEMBLE_STEPS_MAX; v++) {
            counter_add(&sum->whole[v], counter_get(&steps->whole[v]));
            counter_add(&sum->items[v], counter_get(&steps->items[v]));
        }
    }
}

/* The ensemble was served before, and its state is READY or UNAVAILABLE. */
static void state_look(const struct frontends *fs, struct served_model *model, const struct ensemble_world *world) {
    struct step_counters counts;
    struct sy_error err;
    int ready = MODEL_READY;
    counts_sum(fs, (uint32_t)(model - world->models), &counts);
    bool able = ensemble_look(model, world, &counts, clock_now_ns(), &err) == 0;
    if (able && served_model_state(model) == MODEL_UNAVAILABLE) {
        atomic_store_explicit(&model->state, MODEL_READY, memory_order_release); /* as served_model_refuse() */
        log_info("ensemble is back", "model=%s", model->name);
    }
    /* relaxed: nobody reads the reason before the store that follows in served_model_refuse() */
    if (able || !atomic_compare_exchange_strong_explicit(&model->state, &ready, MODEL_LOADING, memory_order_relaxed,
                                                         memory_order_relaxed))
        return;
    served_model_refuse(model, "%s", err.text);
    log_error("ensemble set aside", "model=%s reason=\"%s\"", model->name, model->reason);
}

int ensemble_able(const struct frontends *fs, struct served_model *model, const struct ensemble_world *world,
                  struct sy_error *err) {
    struct step_counters counts;
    if (!plan_of(model))
        return ensemble_prepare(model, world, err);
    counts_sum(fs, (uint32_t)(model - world->models), &counts);
    return ensemble_look(model, world, &counts, clock_now_ns(), err);
}

void ensembles_look(struct model_list *list, const struct server_accelerators *accelerators, uint32_t type_count,
                    bool elsewhere) {
    const struct model_index *now = model_list_lock(list);
    const struct ensemble_world world = {.models = list->models,
                                         .listed = now->listed,
                                         .count = now->count,
                                         .accelerators = accelerators,
                                         .type_count = type_count,
                                         .elsewhere = elsewhere,
                                         .published = atomic_load_explicit(&list->published, memory_order_acquire)};
    struct sy_error err;
    for (uint32_t i = 0; i < now->count; i++) {
        struct served_model *model = &list->models[now->listed[i]];
        if (plan_of(model) && elsewhere)
            ensemble_able(list->frontends, model, &world, &err);
        else if (plan_of(model))
            state_look(list->frontends, model, &world);
    }
    model_list_unlock(list);
}

void ensemble_log(const struct served_model *model) {
    const struct plan *plan = plan_of(model);
    const struct ensemble *e = plan ? plan->shared.ensemble : model->ensemble;
    char parts[512] = "";
    size_t at = 0;
    for (uint32_t v = 0; plan && v < e->step_count && at < sizeof(parts); v++)
        at += (size_t)snprintf(parts + at, sizeof(parts) - at, "%s%s:%.6g", v ? "," : "", e->steps[v].model,
                               (double)plan->shared.part_ns[v] / 1e6);
    log_info("ensemble", "model=%s version=%u slo_ms=%.6g max_batch=%u steps=%u%s%s", model->name, model->version,
             (double)model->slo_ns / 1e6, model->batch_max, e->step_count, *parts ? " parts_ms=" : "", parts);
}

void ensemble_release(struct served_model *model) {
    for (struct plan *plan = plan_of(model), *earlier; plan; plan = earlier) {
        earlier = plan->earlier;
        plan_free(plan);
    }
    atomic_store_explicit(&model->plan, NULL, memory_order_relaxed); /* no frontend reads the plan any more */
}
