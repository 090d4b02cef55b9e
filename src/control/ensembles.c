/* ensembles.c - finds the models of ensembles' steps, and divides SLOs among them. */
#include "control/ensembles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/container.h"
#include "base/counter.h"
#include "base/log.h"
#include "base/time.h"
#include "control/cluster_models.h"
#include "control/server_state.h"
#include "plan/split.h"
#include "profile/prepare.h"
#include "repository/ensemble.h"
#include "request/ensemble_plan.h"
#include "request/infer_counters.h"

#define EACH_MEAN 4.0 /* rows that a step with for_each is planned for at first */
#define TURNS     1.0 /* the paper's program: a batch takes its latency once */

#define EPOCH_NS    (30 * NS_PER_S) /* the SLO is divided anew so often (Nexus's epoch, section 6.1) */
#define SEEN_LEAST  100             /* items of the ensemble that must reach a step before its own items are measured */
#define ITEMS_LEAST 0.001           /* of a step that hardly ever has anything to do */

/* What is kept of an ensemble that is served, for the thread that looks at it (server_ensembles_look()). */
struct plan {
    struct ensemble_plan shared;
    double items[PIPELINE_STAGES_MAX]; /* of each step, for one item of the ensemble */
    uint64_t seen_whole[PIPELINE_STAGES_MAX],
        seen_items[PIPELINE_STAGES_MAX]; /* counts when `items` was last measured */
    const struct profile *profiles[ENSEMBLE_STEPS_MAX];
    int64_t divided_ns; /* when the SLO was */
    double rate;        /* the ensemble's items per second; 0: not known */
    uint64_t counted;   /* the ensemble's items in all, when `rate` was last measured, */
    int64_t counted_ns; /* and when that was */
};

static struct plan *plan_of(const struct served_model *model) {
    return container_of(model->plan, struct plan, shared);
}

/* The models of an ensemble's steps, and what they take on the first type of accelerators that runs them. */
struct steps {
    const struct served_model *models[ENSEMBLE_STEPS_MAX];
    const struct profile *profiles[ENSEMBLE_STEPS_MAX];
};

/* The model of this name, by version the highest that is ready; NULL: there is none. */
static const struct served_model *model_find(const struct ensemble_world *world, const char *name, uint32_t version) {
    const struct served_model *found = NULL;
    for (uint32_t i = 0; i < world->count; i++) {
        const struct served_model *model = &world->models[world->listed ? world->listed[i] : i];
        if (strcmp(model->name, name) != 0 || (version && model->version != version))
            continue;
        bool ready = served_model_state(model) == MODEL_READY;
        if (!found || (ready && (served_model_state(found) != MODEL_READY || model->version > found->version)))
            found = model;
    }
    return found;
}

static int step_error(const struct ensemble *e, uint32_t v, struct sy_error *err, const char *why, const char *detail) {
    const struct ensemble_step *step = &e->steps[v];
    return error_set(err, -EINVAL, "%.300s:%u:%u: step %u (%.100s): %s%.200s", e->path, step->line, step->column,
                     step->written, step->model, why, detail);
}

static int steps_find(const struct served_model *ensemble, const struct ensemble_world *world, struct steps *steps,
                      struct sy_error *err) {
    const struct ensemble *e = ensemble->ensemble;
    for (uint32_t v = 0; v < e->step_count; v++) {
        const struct served_model *model = model_find(world, e->steps[v].model, e->steps[v].version);
        if (!model)
            return step_error(e, v, err, "there is no such model", "");
        if (model->ensemble)
            return step_error(e, v, err, "it is an ensemble itself; steps are models", "");
        if (served_model_state(model) != MODEL_READY)
            return step_error(e, v, err, "the model cannot be served: ",
                              served_model_state(model) == MODEL_UNAVAILABLE ? model->reason : "it is still loading");
        steps->models[v] = model;
        steps->profiles[v] = NULL;
        for (uint32_t t = 0; t < world->type_count && !steps->profiles[v]; t++)
            steps->profiles[v] = world->accelerators[t].profiles[model - world->models];
        if (!steps->profiles[v])
            return step_error(e, v, err, "the model has no profile", "");
    }
    return ensemble_check(ensemble, steps->models, err);
}

/* How many rows a tensor has, as far as the models' signatures say it; 0: they do not say. `items`: of the steps before
 * this one. `rank`: that it is taken with. */
static double rows_of(const struct served_model *model, const struct steps *steps, const double *items, uint32_t tensor,
                      uint32_t rank) {
    const struct ensemble_tensor *t = &model->ensemble->tensors[tensor];
    const struct tensor_spec *spec = &model->signature.inputs[t->place];
    if (t->step != ENSEMBLE_NONE) {
        const struct signature *signature = &steps->models[t->step]->signature;
        const char *name = model->ensemble->steps[t->step].outputs[t->place].name;
        int index = tensor_spec_find(signature->outputs, signature->output_count, name, strlen(name));
        if (signature->batched)
            return items[t->step];
        spec = &signature->outputs[index]; /* it is there: ensemble_check() */
    }
    if (spec->rank < rank) /* a batch dimension of one is added */
        return 1;
    return spec->rank > 0 && spec->dims[0] > 0 ? (double)spec->dims[0] : 0;
}

/* The rank of the step's first input, as its model takes it. */
static uint32_t input_rank(const struct served_model *model, const struct ensemble_step *step) {
    const struct signature *signature = served_model_offered(model);
    const char *name = step->inputs[0].name;
    int index = tensor_spec_find(signature->inputs, signature->input_count, name, strlen(name));
    return signature->inputs[index].rank; /* it is there: ensemble_check() */
}

/* How many items each step is expected to have for one item of the ensemble, before any request has been seen. */
static void items_expect(const struct served_model *model, const struct steps *steps, double *items) {
    for (uint32_t v = 0; v < model->ensemble->step_count; v++) {
        const struct ensemble_step *step = &model->ensemble->steps[v];
        bool each = step->each != ENSEMBLE_NONE;
        double rows = 0;
        if (steps->models[v]->signature.batched && !model->signature.batched)
            rows = rows_of(model, steps, items, each ? step->each : step->inputs[0].tensor,
                           each ? 0 : input_rank(steps->models[v], step));
        items[v] = rows > 0 ? rows : each ? EACH_MEAN : 1;
    }
}

/* The fewest items of a batch that the step runs in: those of one request. */
static uint32_t items_least(const struct served_model *model, const struct steps *steps, uint32_t v, double items) {
    uint32_t most = steps->models[v]->batch_max;
    if (model->ensemble->steps[v].each != ENSEMBLE_NONE || items < 1)
        return 1;
    return items < most ? (uint32_t)items : most;
}

/* The time that a batch of items_least() takes. */
static int64_t least_ns(const struct served_model *model, const struct steps *steps, uint32_t v, double items) {
    return steps->profiles[v]->latency_ns[items_least(model, steps, v, items)];
}

/* Each step counts with the SLO that is chosen for its model if none is given, or with twice the time of a batch of one
 * request if that is more. */
static int64_t slo_choose(const struct served_model *model, const struct steps *steps, const double *items) {
    const struct ensemble *e = model->ensemble;
    struct split_stage stages[ENSEMBLE_STEPS_MAX];
    int64_t step_ns[ENSEMBLE_STEPS_MAX] = {0};
    for (uint32_t v = 0; v < e->step_count; v++) {
        int64_t twice_ns = 2 * least_ns(model, steps, v, items[v]);
        step_ns[v] = profile_default_slo_ns(steps->profiles[v]);
        step_ns[v] = twice_ns > step_ns[v] ? twice_ns : step_ns[v];
        stages[v] = (struct split_stage){.after = e->steps[v].after};
    }
    return (split_longest_path(stages, e->step_count, step_ns) + NS_PER_MS - 1) / NS_PER_MS * NS_PER_MS;
}

static void graph_make(const struct served_model *model, const struct steps *steps, const double *items,
                       struct pipeline *graph) {
    const struct ensemble *e = model->ensemble;
    graph->slo_ns = model->slo_ns;
    graph->deadlines = PIPELINE_FLOATING;
    graph->stage_count = e->step_count;
    for (uint32_t v = 0; v < e->step_count; v++)
        graph->stages[v] = (struct pipeline_stage){
            .after = e->steps[v].after,
            .fan_out = {FAN_OUT_QUERY, items[v], 0},
            .least_ns = least_ns(model, steps, v, items[v]),
        };
}

/* A frontend that reads at the same time may get parts of two divisions; at its next request it sees the new count, and
 * reads the parts once more. */
static void parts_publish(struct ensemble_plan *plan, const struct split_stage *stages,
                          const struct split_part *parts) {
    for (uint32_t v = 0; v < plan->graph.stage_count; v++) {
        atomic_store_explicit(&plan->part_ns[v], parts[v].budget_ns, memory_order_relaxed);
        atomic_store_explicit(&plan->batch_most[v], split_batch_most(&stages[v], parts[v].budget_ns),
                              memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&plan->divisions, 1, memory_order_release); /* with times_of() in ensemble_run.c */
}

/* A step is planned for batches as large as pays, or as large as one request if that is larger. */
static uint32_t batch_planned(const struct served_model *model, const struct steps *steps, uint32_t v, double items) {
    uint32_t pays = profile_batch_best(steps->profiles[v]), least = items_least(model, steps, v, items);
    uint32_t most = pays > least ? pays : least, able = steps->models[v]->batch_max;
    return most < able ? most : able;
}

/* Divides the SLO so that the steps need the fewest accelerators; if it is too short even for lone requests, in
 * proportion to the time of each step. `items`: of each step, for one item of the ensemble. `rate`: the ensemble's
 * items per second; 0: not known, and batches are planned as if they gathered in no time. 1: done; 0: the SLO is too
 * short for lone requests; or -ENOMEM. */
static int split(const struct served_model *model, const struct steps *steps, const double *items, double rate) {
    const struct pipeline *graph = &model->plan->graph;
    struct split_stage stages[PIPELINE_STAGES_MAX];
    struct split_part parts[PIPELINE_STAGES_MAX];
    int64_t least[PIPELINE_STAGES_MAX];
    void *memory = malloc(split_bytes(graph->stage_count));
    if (!memory)
        return -ENOMEM;
    for (uint32_t v = 0; v < graph->stage_count; v++) {
        stages[v] = (struct split_stage){.profile = steps->profiles[v],
                                         .batch_max = batch_planned(model, steps, v, items[v]),
                                         .rate = items[v] * (rate > 0 ? rate : 1),
                                         .gathers = rate > 0,
                                         .turns = TURNS,
                                         .after = graph->stages[v].after};
        least[v] = least_ns(model, steps, v, items[v]);
    }
    bool fits = split_best(stages, graph->stage_count, graph->slo_ns, memory, parts);
    free(memory);
    split_share(stages, graph->stage_count, graph->slo_ns, least, parts);
    for (uint32_t v = 0; v < graph->stage_count; v++)
        stages[v].batch_max = steps->models[v]->batch_max;
    parts_publish(model->plan, stages, parts);
    return fits;
}

static _Atomic uint64_t plans_made; /* in this process */

int ensemble_prepare(struct served_model *model, const struct ensemble_world *world, struct sy_error *err) {
    struct steps steps = {.profiles = {NULL}};
    int rc = steps_find(model, world, &steps, err);
    if (rc < 0)
        return rc;
    if (model->batch_max > PROFILE_BATCH_MAX)
        model->batch_max = PROFILE_BATCH_MAX;
    struct plan *plan = calloc(1, sizeof(*plan));
    if (plan) {
        plan->shared.number = 1 + atomic_fetch_add_explicit(&plans_made, 1, memory_order_relaxed);
        items_expect(model, &steps, plan->items);
        if (model->slo_ns == 0) {
            model->slo_ns = slo_choose(model, &steps, plan->items);
            model->slo_chosen = true;
        }
        model->plan = &plan->shared;
        graph_make(model, &steps, plan->items, &plan->shared.graph);
        plan->divided_ns = clock_now_ns();
        memcpy(plan->profiles, steps.profiles, sizeof(plan->profiles));
        plan->counted_ns = plan->divided_ns;
        rc = split(model, &steps, plan->items, plan->rate);
        for (uint32_t v = 0; v < plan->shared.graph.stage_count; v++) {
            plan->shared.graph.stages[v].part_ns = plan->shared.part_ns[v];
            plan->shared.graph.stages[v].batch_most = plan->shared.batch_most[v];
        }
    }
    if (!plan || rc < 0) {
        free(plan);
        model->plan = NULL;
        return error_set(err, -ENOMEM, "%.300s: out of memory", model->ensemble->path);
    }
    if (!rc)
        log_warn("an ensemble's SLO is shorter than its steps take for a lone request", "model=%s slo_ms=%.6g",
                 model->name, (double)model->slo_ns / 1e6);
    return 0;
}

/* ---- while it is served ---- */

/* Measures how many items the steps had since they were last measured. A step that too few requests have reached keeps
 * what it had. */
static void items_measure(struct plan *plan, const struct step_counters *counts) {
    for (uint32_t v = 0; v < plan->shared.graph.stage_count; v++) {
        uint64_t whole = counter_get(&counts->whole[v]), items = counter_get(&counts->items[v]);
        if (whole - plan->seen_whole[v] < SEEN_LEAST)
            continue;
        double mean = (double)(items - plan->seen_items[v]) / (double)(whole - plan->seen_whole[v]);
        plan->items[v] = mean > ITEMS_LEAST ? mean : ITEMS_LEAST;
        plan->seen_whole[v] = whole;
        plan->seen_items[v] = items;
    }
}

/* Measures the rate since it was last measured, if that is an epoch ago; if too few items have come since, the rate
 * stays. Every item of the ensemble reaches a first step. */
static void rate_measure(struct plan *plan, const struct step_counters *counts, int64_t now_ns) {
    uint64_t whole = 0;
    for (uint32_t v = 0; v < plan->shared.graph.stage_count; v++)
        if (!plan->shared.graph.stages[v].after && counter_get(&counts->whole[v]) > whole)
            whole = counter_get(&counts->whole[v]);
    if (now_ns - plan->counted_ns < EPOCH_NS)
        return;
    if (whole - plan->counted >= SEEN_LEAST)
        plan->rate = (double)(whole - plan->counted) / ((double)(now_ns - plan->counted_ns) / (double)NS_PER_S);
    plan->counted = whole;
    plan->counted_ns = now_ns;
}

/* Divides the SLO anew every epoch, and when a step's model was replaced. */
static void divide_anew(const struct served_model *model, const struct ensemble_world *world, const struct steps *steps,
                        const struct step_counters *counts, int64_t now_ns) {
    struct plan *plan = plan_of(model);
    if (now_ns - plan->divided_ns < EPOCH_NS && memcmp(plan->profiles, steps->profiles, sizeof(plan->profiles)) == 0)
        return;
    plan->divided_ns = now_ns;
    memcpy(plan->profiles, steps->profiles, sizeof(plan->profiles));
    items_measure(plan, counts);
    if (!world->elsewhere)
        rate_measure(plan, counts, now_ns);
    split(model, steps, plan->items, plan->rate); /* without memory the parts stay as they are */
}

int ensemble_look(const struct served_model *model, const struct ensemble_world *world,
                  const struct step_counters *counts, int64_t now_ns, struct sy_error *err) {
    struct steps steps = {.profiles = {NULL}};
    int rc = steps_find(model, world, &steps, err);
    if (!rc)
        divide_anew(model, world, &steps, counts, now_ns);
    return rc;
}

static void counts_sum(const struct server *s, uint32_t number, struct step_counters *sum) {
    memset(sum, 0, sizeof(*sum));
    for (uint32_t f = 0; f < server_frontends(s); f++) {
        const struct step_counters *steps = infer_counters_steps_of(server_infer_counters(s, f), number);
        for (uint32_t v = 0; steps && v < ENSEMBLE_STEPS_MAX; v++) {
            counter_add(&sum->whole[v], counter_get(&steps->whole[v]));
            counter_add(&sum->items[v], counter_get(&steps->items[v]));
        }
    }
}

/* The ensemble was served before, and its state is READY or UNAVAILABLE. */
static void state_look(const struct server *s, struct served_model *model, const struct ensemble_world *world) {
    struct step_counters counts;
    struct sy_error err;
    int ready = MODEL_READY;
    counts_sum(s, (uint32_t)(model - s->config.models), &counts);
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

int server_ensemble_able(const struct server *s, struct served_model *model, const struct ensemble_world *world,
                         struct sy_error *err) {
    struct step_counters counts;
    if (!model->plan)
        return ensemble_prepare(model, world, err);
    counts_sum(s, (uint32_t)(model - s->config.models), &counts);
    return ensemble_look(model, world, &counts, clock_now_ns(), err);
}

void server_ensembles_look(struct server *s) {
    const struct model_index *now = server_models_lock(s);
    struct ensemble_world world = {s->config.models,       now->listed,          now->count,
                                   s->config.accelerators, s->config.type_count, false};
    struct sy_error err;
    if (s->cluster_models) {
        world.accelerators = cluster_models_profiles(s->cluster_models);
        world.type_count = 1;
        world.elsewhere = true;
    }
    for (uint32_t i = 0; i < now->count; i++) {
        struct served_model *model = &s->config.models[now->listed[i]];
        if (model->plan && s->cluster_models)
            server_ensemble_able(s, model, &world,
                                 &err); /* only divides it: cluster_models.c lists those that can run */
        else if (model->plan)
            state_look(s, model, &world);
    }
    server_models_unlock(s);
}

void ensemble_log(const struct served_model *model) {
    char parts[512] = "";
    size_t at = 0;
    for (uint32_t v = 0; model->plan && v < model->ensemble->step_count && at < sizeof(parts); v++)
        at += (size_t)snprintf(parts + at, sizeof(parts) - at, "%s%s:%.6g", v ? "," : "",
                               model->ensemble->steps[v].model, (double)model->plan->part_ns[v] / 1e6);
    log_info("ensemble", "model=%s version=%u slo_ms=%.6g max_batch=%u steps=%u%s%s", model->name, model->version,
             (double)model->slo_ns / 1e6, model->batch_max, model->ensemble->step_count, *parts ? " parts_ms=" : "",
             parts);
}

void ensemble_release(struct served_model *model) {
    if (model->plan)
        free(plan_of(model));
    model->plan = NULL;
    ensemble_free(model->ensemble);
    model->ensemble = NULL;
}
