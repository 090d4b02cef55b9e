/* ensemble_run.c - the steps of an ensemble's request: their inputs, their requests, and the end of the whole. */
#include "front/request/ensemble_run.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/strings.h"
#include "core/system/clock.h"
#include "core/util/assert.h"
#include "core/util/container.h"
#include "front/request/ensemble_plan.h"
#include "front/request/ensemble_tensors.h"
#include "front/request/inference.h"
#include "front/request/preparation.h"
#include "front/request/preparer.h"
#include "front/request/refusal.h"
#include "model/config/ensemble.h"
#include "sched/plan/query.h"

_Static_assert(ENSEMBLE_STEPS_MAX <= PIPELINE_STAGES_MAX, "a step is a stage");
_Static_assert(ENSEMBLE_EACH_MAX <= PIPELINE_ITEMS_MAX, "rows are items");

static const struct served_model *step_model(const struct ensemble_run *run, uint32_t v) {
    return &run->inference->home->models->models[run->models[v]];
}

static int64_t earlier(int64_t a_ns, int64_t b_ns) {
    return a_ns < b_ns ? a_ns : b_ns;
}

/* Ends the request with this status, unless it has ended already. `err` has the reason; the ensemble and the step are
 * named in front of it. */
static void run_fail(struct ensemble_run *run, uint32_t v, unsigned status, bool retry, const struct sy_error *err) {
    if (run->over || run->status)
        return;
    run->status = status;
    run->retry = retry;
    error_set(&run->reason, 0, "ensemble '%.100s', step %s: %.350s", run->inference->model->name,
              run->ensemble->steps[v].label, err->text);
    query_cancel(run->query);
}

/* ---- a step's requests ---- */

static struct step_request *request_nth(const struct run_step *step, uint32_t n) {
    return (struct step_request *)((char *)step->requests + n * step->request_bytes);
}

/* The part of a step's inputs that one request takes. */
struct part {
    bool rows; /* the request takes the rows [first, first + count); false: all rows */
    uint32_t first, count;
    size_t strings_at[TENSORS_MAX]; /* begin of the next row in each input of strings, whose rows differ in length */
};

static int rows_take(const struct tensor_view *whole, enum datatype type, struct part *part, uint32_t input,
                     struct tensor_view *rows) {
    return type == DATATYPE_BYTES ? strings_rows(whole, part->count, &part->strings_at[input], rows)
                                  : tensor_rows(whole, part->first, part->count, rows);
}

/* The room for a request's infer_call, behind its inputs. */
static void *room_take(void *room, size_t bytes) {
    (void)bytes;
    return room;
}

/* Fills a request with its part. 0, or a status with a sentence. */
static int request_fill(struct ensemble_run *run, uint32_t v, struct step_request *r, struct part *taken,
                        struct sy_error *err) {
    const struct ensemble_step *step = &run->ensemble->steps[v];
    const struct served_model *model = step_model(run, v);
    struct infer_call call;
    struct infer_memory memory = {room_take, r->inputs + model->signature.input_count};
    int status = infer_call_begin(&call, model, memory, err);

    for (uint32_t i = 0; i < step->input_count && !status; i++) {
        const struct ensemble_flow *flow = &step->inputs[i];
        enum datatype type;
        struct tensor_view whole = ensemble_step_input(run, v, flow, &type), part = whole;
        uint32_t index;
        if (!whole.data) /* an optional input that the client left out */
            continue;
        if (taken->rows && rows_take(&whole, type, taken, i, &part) < 0)
            return error_set(err, 500, "tensor '%.100s' has fewer rows than the others",
                             run->ensemble->tensors[flow->tensor].name);
        status = infer_call_input(&call, model, flow->name, strlen(flow->name), &index, err);
        status = status ? status : infer_call_shape(&call, model, index, type, part.dims, part.dim_count, err);
        status = status ? status : infer_call_data(&call, model, index, part.data, part.bytes, err);
    }
    status = status ? status : infer_call_finish(&call, model, err);
    if (!status && model->prepared)
        status = preparation_make(run->inference->home, model, &call, &r->preparation, err);
    if (status)
        return status;
    memcpy(r->inputs, call.inputs, model->signature.input_count * sizeof(r->inputs[0]));
    r->request.items = call.items;
    r->request.shape_key = call.shape_key;
    r->request.work = call.work;
    return 0;
}

static void deadlines_set(const struct ensemble_run *run, uint32_t v, struct request *request) {
    const struct request *whole = &run->inference->request;
    const struct query_stage *stage = &run->query->stages[v];
    bool best_effort = whole->priority == PRIORITY_BEST_EFFORT;

    request->arrival_ns = stage->begun_ns;
    request->deadline_ns = best_effort ? run->query->deadline_ns : stage->deadline_ns;
    request->due_ns = request->deadline_ns;
    request->late_until_ns = 0; /* until it is sent_again() */
    request->priority = best_effort ? PRIORITY_BEST_EFFORT
                                    : queue_rules_priority(&step_model(run, v)->queue, run->inference->call.priority);
    request->delay = false;
    request->batch_most = (uint16_t)run->query->pipeline->stages[v].batch_most;
}

static const struct request_kind request_step;

/* Submits the n-th request of a step. 0, or a status with a sentence. */
static int request_send(struct ensemble_run *run, uint32_t v, uint32_t n, struct part *taken, struct sy_error *err) {
    struct step_request *r = request_nth(&run->steps[v], n);
    *r = (struct step_request){.request = {.model = run->models[v],
                                           .kind = &request_step,
                                           .step = true,
                                           .inputs = r->inputs,
                                           .input_count = step_model(run, v)->signature.input_count},
                               .run = run,
                               .step = v};
    int status = request_fill(run, v, r, taken, err);
    if (status)
        return status;
    deadlines_set(run, v, &r->request);
    status = inferences_submit(run->inference->home, &r->request, r->preparation, run->query->deadline_ns, err);
    if (status)
        return status;
    query_request_sent(run->query, v);
    counter_add(&run->counters->items[v], r->request.items);
    return 0;
}

/* Memory for a step's requests and for the views of its outputs. */
static bool step_reserve(struct ensemble_run *run, uint32_t v, uint32_t requests) {
    const struct ensemble_step *step = &run->ensemble->steps[v];
    struct run_step *to = &run->steps[v];
    size_t views = step->output_count * sizeof(struct tensor_view);
    to->request_bytes = sizeof(struct step_request) +
                        step_model(run, v)->signature.input_count * sizeof(struct tensor_view) +
                        infer_call_room(step_model(run, v));
    to->outputs = slab_take(run->inference->home->slab, views + requests * to->request_bytes);
    if (!to->outputs)
        return false;
    to->requests = (char *)to->outputs + views;
    to->count = requests;
    for (uint32_t n = 0; n < requests; n++) {
        request_nth(to, n)->request.block = NULL;
        request_nth(to, n)->preparation = NULL;
    }
    return true;
}

/* The size of a step: its requests, and their rows. */
struct extent {
    bool runs;     /* the step runs; false: it has nothing to do, and its outputs have no rows */
    bool rows;     /* the inputs are divided by rows */
    uint32_t all;  /* rows of the inputs */
    uint32_t most; /* most rows of one request */
};

/* The rows of the first input that was not left out: those of a step without `for_each`. */
static int64_t rows_of(const struct ensemble_run *run, uint32_t v) {
    const struct ensemble_step *step = &run->ensemble->steps[v];
    enum datatype type;
    for (uint32_t i = 0; i < step->input_count; i++) {
        struct tensor_view view = ensemble_step_input(run, v, &step->inputs[i], &type);
        if (view.data)
            return view.dim_count > 0 ? view.dims[0] : 1;
    }
    return 0;
}

static int extent_find(const struct ensemble_run *run, uint32_t v, struct extent *extent, struct sy_error *err) {
    const struct ensemble_step *step = &run->ensemble->steps[v];
    const struct served_model *model = step_model(run, v);
    enum datatype type;

    *extent = (struct extent){.runs = true, .all = 1, .most = 1};
    if (step->when != ENSEMBLE_NONE) {
        struct tensor_view when = ensemble_tensor(run, step->when, &type);
        extent->runs = when.bytes > 0 && *(const char *)when.data;
    }
    for (uint32_t i = 0; i < step->input_count; i++) /* a step before it had nothing to do, or found nothing */
        extent->runs = extent->runs && !ensemble_tensor_none(run, step->inputs[i].tensor);
    if (!extent->runs || !model->signature.batched)
        return 0;
    int64_t rows = step->each == ENSEMBLE_NONE ? rows_of(run, v) : ensemble_tensor(run, step->each, &type).dims[0];
    if (step->each != ENSEMBLE_NONE && rows > step->each_most && step->beyond == ENSEMBLE_REFUSE)
        return error_set(err, 400, "'%.100s' has %lld rows, and no more than %u may be (limit in symphony.yaml)",
                         run->ensemble->tensors[step->each].name, (long long)rows, step->each_most);
    if (step->each != ENSEMBLE_NONE && rows > step->each_most)
        rows = step->each_most;
    extent->runs = rows > 0;
    uint32_t items_max = served_model_items_max(model);
    extent->rows = step->each != ENSEMBLE_NONE || rows > items_max;
    extent->most = step->each != ENSEMBLE_NONE ? 1 : items_max;
    extent->all = extent->rows ? (uint32_t)rows : 1;
    extent->most = extent->rows ? extent->most : 1;
    return 0;
}

/* Whether all requests of a step can be submitted: 0, or a status with a sentence. If not, none is: if a step fails
 * before its last request is sent, those sent before would cost other queries time for nothing. */
static int room_find(const struct ensemble_run *run, uint32_t requests, struct sy_error *err) {
    const struct port *port = run->inference->home->port;
    bool best_effort = run->inference->request.priority == PRIORITY_BEST_EFFORT;
    if (requests <= 1 || requests <= port_room(port, best_effort))
        return 0;
    if (requests > port_room_most(port, best_effort))
        return error_set(err, 400, "it would be %u requests, and no more than %u may be outstanding", requests,
                         port_room_most(port, best_effort));
    return error_set(err, 503, "it would be %u requests, and this frontend has room for %u more of a query now",
                     requests, port_room(port, best_effort));
}

/* Begins a step: one request; or one for each row of the tensor that it runs for; or several, if it has more rows than
 * a batch may. */
static void step_begin(struct ensemble_run *run, uint32_t v, int64_t now_ns) {
    struct sy_error err = {""};
    struct extent extent;
    int status = extent_find(run, v, &extent, &err);
    if (status) {
        run_fail(run, v, (unsigned)status, false, &err);
        return;
    }
    uint32_t requests = extent.runs ? (extent.all + extent.most - 1) / extent.most : 0;
    if ((status = room_find(run, requests, &err))) {
        run_fail(run, v, (unsigned)status, status == 503, &err);
        return;
    }
    if (!step_reserve(run, v, requests)) {
        error_set(&err, 503, "the memory for inputs is exhausted");
        run_fail(run, v, 503, true, &err);
        return;
    }
    query_stage_begin(run->query, v, now_ns, requests);
    counter_add(&run->counters->whole[v], run->inference->request.items);
    if (!requests)
        ensemble_step_empty(run, v, step_model(run, v));
    struct part part = {.rows = extent.rows};
    for (uint32_t n = 0; n < requests && !status; n++, part.first += extent.most) {
        uint32_t left = extent.all - part.first;
        part.count = left < extent.most ? left : extent.most;
        status = request_send(run, v, n, &part, &err);
    }
    if (status)
        run_fail(run, v, (unsigned)status, status == 503, &err);
}

/* ---- what comes back ---- */

static enum outcome outcome_of(const struct request *request) {
    return request->status == REQUEST_OK           ? OUTCOME_OK
           : request->status == REQUEST_FAILED     ? OUTCOME_FAILED
           : request->refusal == REFUSAL_CANCELLED ? OUTCOME_CANCELLED
                                                   : OUTCOME_REFUSED;
}

static void refused(struct ensemble_run *run, const struct step_request *r) {
    const struct request *request = &r->request;
    struct sy_error err = {""};
    bool retry = false;
    unsigned status = preparation_failed(r->preparation, &err);
    if (!status)
        status = refusal_result(step_model(run, r->step), request, run->inference->limited,
                                run->inference->home->models, clock_now_ns(), &retry, &err);
    run->refusal = request->refusal;
    run->inference->request.cause = request->cause;
    run->inference->request.figures = request->figures;
    run_fail(run, r->step, status, retry, &err);
}

/* A request that could not run by its step's deadline is sent once more, with all the time that the ensemble's request
 * has left; or late, where nobody asked for the deadline. True: it was sent. */
static bool sent_again(struct ensemble_run *run, struct step_request *r, int64_t now_ns) {
    struct request *request = &r->request;
    const struct request *whole = &run->inference->request;
    int64_t margin_ns = port_reply_margin_ns(run->inference->home->port, whole);
    if (request->status != REQUEST_REFUSED || request->refusal != REFUSAL_DEADLINE || r->again || run->over ||
        run->status || request->priority == PRIORITY_BEST_EFFORT || request_is_read(request))
        return false;
    bool in_time =
        query_request_again(run->query, r->step, now_ns, request->deadline_ns,
                            earlier(whole->deadline_ns - margin_ns, run->query->deadline_ns), &request->deadline_ns);
    request->late_until_ns = whole->late_until_ns > 0 ? run->query->deadline_ns : 0;
    if ((!in_time && !request->late_until_ns) || port_submit(run->inference->home->port, request) < 0)
        return false;
    r->again = true;
    return true;
}

static void failed(struct ensemble_run *run, const struct step_request *r) {
    struct sy_error err;
    error_set(&err, 0, "model '%.100s' failed: %.300s", step_model(run, r->step)->name, request_failure(&r->request));
    run_fail(run, r->step, 500, false, &err);
}

static void go_on(struct ensemble_run *run) {
    int64_t now_ns = clock_now_ns();
    for (uint32_t v, before; query_stage_ready(run->query, &v, &before);)
        step_begin(run, v, now_ns);
}

/* If the ensemble's request has ended, takes back those of its requests that still wait: a step's last one first, since
 * taking back the first might let the others start. True: none is away any more, and the inference has its result. */
static bool settled(struct ensemble_run *run) {
    struct query *query = run->query;
    struct request *whole = &run->inference->request;
    if (query->end == QUERY_RUNS)
        return false;
    for (uint64_t left = run->over ? 0 : query->begun & ~query->ended; left; left &= left - 1) {
        const struct run_step *step = &run->steps[__builtin_ctzll(left)];
        for (uint32_t n = query->stages[__builtin_ctzll(left)].sent; n-- > 0;)
            if (!request_nth(step, n)->returned)
                port_cancel(run->inference->home->port, &request_nth(step, n)->request);
    }
    run->over = true;
    if (query->away)
        return false;
    if (query->end == QUERY_GOOD && !run->status && !ensemble_compose(run, &run->reason))
        run->status = 500;
    whole->status = query->end == QUERY_GOOD && !run->status ? REQUEST_OK : REQUEST_REFUSED;
    whole->refusal = run->refusal;
    whole->block = whole->status == REQUEST_OK ? run->composed : NULL;
    whole->first_item = ITEMS_WHOLE;
    whole->batch_items = whole->items;
    whole->run_start_ns = run->end_ns > 0 ? run->start_ns : 0;
    whole->run_end_ns = run->end_ns;
    whole->past = (struct batch_past){.ready_us = UINT32_MAX, .before = MODEL_NONE};
    return true;
}

static struct inference *step_returned(struct request *request) {
    struct step_request *r = container_of(request, struct step_request, request);
    struct ensemble_run *run = r->run;
    struct query *query = run->query;
    int64_t now_ns = clock_now_ns();

    run->read |= request_is_read(request);
    if (sent_again(run, r, now_ns))
        return NULL;
    r->returned = true;
    preparation_waited(r->preparation);
    inferences_count(run->inference->home, request, outcome_of(request), now_ns);
    if (request->status == REQUEST_OK) {
        run->start_ns = earlier(run->start_ns, request->run_start_ns);
        run->end_ns = request->run_end_ns > run->end_ns ? request->run_end_ns : run->end_ns;
        /* the answer of a step that ends late is there all the same; steps behind it have no time */
        query_request_ended(query, r->step, earlier(now_ns, query->deadline_ns), true);
    } else if (request->status == REQUEST_REFUSED) {
        refused(run, r);
        query_request_refused(query, request->refusal);
    } else {
        failed(run, r);
        query_request_ended(query, r->step, now_ns, false);
    }
    if (query->ended >> r->step & 1 && !run->status) {
        struct sy_error err;
        counter_add(&run->counters->ended[r->step], 1);
        counter_add(&run->counters->took_ns[r->step], (uint64_t)(now_ns - run->query->stages[r->step].begun_ns));
        int status =
            run->steps[r->step].count ? ensemble_step_outputs(run, r->step, step_model(run, r->step), &err) : 0;
        if (status)
            run_fail(run, r->step, (unsigned)status, status == 503, &err);
        ensemble_outputs_put(run);
    }
    go_on(run);
    return settled(run) ? run->inference : NULL;
}

static const struct request_kind request_step = {.returned = step_returned};

/* ---- from beginning to end ---- */

/* Finds the steps' models as they are now, and holds them until the run is freed. 0, or a status with a sentence. */
static int models_find(struct ensemble_run *run, struct sy_error *err) {
    struct inferences *home = run->inference->home;
    const char *name = run->inference->model->name;
    for (uint32_t v = 0; v < run->ensemble->step_count; v++) {
        const struct ensemble_step *step = &run->ensemble->steps[v];
        struct sy_error why = {""};
        bool retry;
        int number = model_index_number(home->models, step->model, strlen(step->model), step->version);
        if (number < 0)
            return error_set(err, 503, "ensemble '%.100s', step %s: there is no model '%.100s'", name, step->label,
                             step->model);
        if (home->models->models[number].ensemble) /* since a moment ago, and the plan is not made yet */
            return error_set(err, 503, "ensemble '%.100s', step %s: the model '%.100s' has become an ensemble", name,
                             step->label, step->model);
        if (!served_model_ready(&home->models->models[number], &retry, &why))
            return error_set(err, 503, "ensemble '%.100s', step %s: %.300s", name, step->label, why.text);
        run->models[v] = (uint32_t)number;
        run->held++;
        inferences_hold(home, (uint32_t)number, 1);
    }
    return 0;
}

/* This frontend's times of the ensemble: the graph with the present parts of the SLO, and how long stages take. NULL:
 * no memory. */
static struct inference_times *times_of(struct inferences *home, uint32_t model, const struct ensemble_plan *plan) {
    struct inference_times *times = home->times[model];
    if (!times || times->of != plan ||
        times->number != plan->number) { /* another plan, of this ensemble or an earlier */
        if (!times || times->runs > 0)   /* the last of them frees those that it has */
            times = home->times[model] = calloc(1, sizeof(*times));
        if (!times)
            return NULL;
        *times = (struct inference_times){.of = plan, .number = plan->number, .graph = plan->graph};
        pipeline_times_init(&times->times, &times->graph);
    }
    uint64_t divisions = atomic_load_explicit(&plan->divisions, memory_order_acquire); /* with split() in ensembles.c */
    for (uint32_t v = 0; divisions != times->divisions && v < times->graph.stage_count; v++) {
        times->graph.stages[v].part_ns = atomic_load_explicit(&plan->part_ns[v], memory_order_relaxed);
        times->graph.stages[v].batch_most = atomic_load_explicit(&plan->batch_most[v], memory_order_relaxed);
    }
    times->divisions = divisions;
    return times;
}

static struct ensemble_run *run_make(struct inference *inference) {
    struct ensemble_plan *plan =
        atomic_load_explicit(&inference->model->plan, memory_order_acquire); /* with plan_replace() */
    const struct ensemble *ensemble = plan->ensemble;
    struct inference_times *times = times_of(inference->home, inference->request.model, plan);
    size_t steps = ensemble->step_count * sizeof(struct run_step), bytes = sizeof(struct ensemble_run) + steps;
    size_t query = query_bytes(ensemble->step_count);
    size_t composed =
        offsetof(struct output_block, outputs) + inference->model->signature.output_count * sizeof(struct tensor_view);
    struct ensemble_run *run = slab_take(inference->home->slab, bytes + query + composed);
    struct step_counters *counters = infer_counters_steps(&inference->home->counters, inference->request.model);
    if (!run || !times || !counters) {
        slab_give(run);
        return NULL;
    }
    memset(run, 0, bytes);
    run->inference = inference;
    run->plan = plan;
    atomic_fetch_add_explicit(&plan->runs, 1, memory_order_relaxed); /* the grace period orders it: plans_tidy() */
    run->times = times;
    times->runs++;
    run->ensemble = ensemble;
    run->counters = counters;
    run->query = (struct query *)((char *)run + bytes);
    run->composed = (struct output_block *)((char *)run + bytes + query);
    memset(run->composed, 0, composed);
    run->start_ns = TIME_NEVER;
    run->refusal = REFUSAL_CANCELLED;
    const struct request *whole = &inference->request;
    int64_t deadline_ns = whole->late_until_ns > 0 ? whole->late_until_ns : whole->deadline_ns;
    deadline_ns -= port_reply_margin_ns(inference->home->port, whole);
    query_begin(run->query, &times->graph, &times->times, clock_now_ns(), deadline_ns);
    query_stretch(run->query, (double)(whole->deadline_ns - whole->arrival_ns) / (double)times->graph.slo_ns);
    return run;
}

/* The steps that lead to an output that the client wants. */
static uint64_t steps_wanted(const struct ensemble *ensemble, const struct infer_call *call) {
    uint64_t steps = 0;
    for (uint32_t t = 0; t < ensemble->tensor_count; t++)
        for (uint32_t i = 0; i < call->output_count; i++)
            if (ensemble->tensors[t].output == call->outputs[i].index)
                steps |= 1ULL << ensemble->tensors[t].step;
    for (uint32_t v = ensemble->step_count; v-- > 0;) /* a step comes after those that it waits for */
        if (steps >> v & 1)
            steps |= ensemble->steps[v].after;
    return steps;
}

static void run_free(struct ensemble_run *run) {
    for (uint32_t v = 0; v < run->ensemble->step_count; v++) {
        ensemble_step_put(run, v);
        for (uint32_t n = 0; run->steps[v].outputs && n < run->steps[v].count; n++)
            preparation_free(request_nth(&run->steps[v], n)->preparation);
        slab_give(run->steps[v].outputs);
    }
    while (run->held > 0)
        inferences_hold(run->inference->home, run->models[--run->held], -1);
    if (--run->times->runs == 0 && run->times != run->inference->home->times[run->inference->request.model])
        free(run->times);
    atomic_fetch_sub_explicit(&run->plan->runs, 1, memory_order_release); /* with plans_tidy() */
    slab_give(run);
}

/* ---- the kind of the ensemble's request ---- */

static int ensemble_submit(struct inference *inference, struct sy_error *err) {
    struct inferences *home = inference->home;
    struct ensemble_run *run = run_make(inference);
    if (!run)
        return error_set(err, 503, "the memory for inputs is exhausted");
    int status = models_find(run, err);
    if (status) {
        run_free(run);
        return status;
    }
    inference->run = run;
    uint64_t wanted = steps_wanted(run->ensemble, &inference->call);
    for (uint32_t v = 0; v < run->ensemble->step_count; v++)
        if (!(wanted >> v & 1))
            query_stage_skip(run->query, v);
    go_on(run);
    if (settled(run)) {
        run->next = home->runs_over;
        home->runs_over = run;
    }
    return 0;
}

struct inference *ensemble_runs_next(struct inferences *home) {
    struct ensemble_run *run = home->runs_over;
    if (!run)
        return NULL;
    home->runs_over = run->next;
    return run->inference;
}

static void ensemble_cancel(struct inference *inference) {
    struct ensemble_run *run = inference->run;
    bool was_over = run->over;
    query_cancel(run->query);
    bool over = settled(run);
    CHECK(was_over || !over); /* while it runs, some request of it is away */
}

static unsigned ensemble_failed(const struct inference *inference, bool *retry, struct sy_error *err) {
    const struct ensemble_run *run = inference->run;
    if (inference->request.status == REQUEST_OK)
        return 0;
    *retry = run->retry;
    if (!run->status)
        return (unsigned)error_set(err, 503, "the request was cancelled");
    return (unsigned)error_set(err, (int)run->status, "%s", run->reason.text);
}

/* The labels of the ensemble, of the nearest ensemble around the step that gives the output, or of the step's model. */
static struct labels *ensemble_labels(const struct inference *inference, uint32_t output) {
    const struct ensemble_run *run = inference->run;
    const struct ensemble *e = run->ensemble;
    if (inference->model->labels[output])
        return inference->model->labels[output];
    if (run->plan->labels[output])
        return run->plan->labels[output];
    for (uint32_t t = 0; t < e->tensor_count; t++)
        if (e->tensors[t].output == output) {
            /* not by home->models, which the frontend's thread changes */
            const struct served_model *models = inference->model - inference->request.model,
                                      *model = &models[run->models[e->tensors[t].step]];
            const char *name = e->steps[e->tensors[t].step].outputs[e->tensors[t].place].name;
            const struct signature *s = &model->signature;
            int index = tensor_spec_find(s->outputs, s->output_count, name, strlen(name));
            return index < 0 ? NULL : model->labels[index];
        }
    return NULL;
}

static bool ensemble_is_read(const struct inference *inference) {
    const struct ensemble_run *run = inference->run;
    for (uint32_t v = 0; run && run->read && v < run->ensemble->step_count; v++)
        for (uint32_t n = 0; run->steps[v].outputs && n < run->query->stages[v].sent; n++)
            if (request_is_read(&request_nth(&run->steps[v], n)->request))
                return true;
    return false;
}

static void ensemble_end(struct inference *inference) {
    if (inference->run)
        run_free(inference->run);
    inference->run = NULL;
}

const struct request_kind request_ensemble = {
    .submit = ensemble_submit,
    .cancel = ensemble_cancel,
    .failed = ensemble_failed,
    .labels = ensemble_labels,
    .is_read = ensemble_is_read,
    .end = ensemble_end,
};
