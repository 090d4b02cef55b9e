/* test_ensemble_run.c - ensembles drawn from seeds, run against accelerators that refuse, fail and lose requests, and
 * clients that leave, in this process or in others. An evaluation of the graph apart, in this file, says what each must
 * answer. Checked: every request ends once, with all its outputs or with one reason; nothing of a dead one starts; no
 * memory is left. */
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/rng.h"
#include "core/util/time.h"
#include "front/request/ensemble_plan.h"
#include "front/request/inference.h"
#include "histories.h"
#include "model/config/ensemble.h"
#include "sched/threads/wiring.h"
#include "specs.h"
#include "unit/test.h"

#define QUERIES   3 /* at once, each with models of its own */
#define KINDS     3 /* models that a query's steps ask: */
#define MODELS    (QUERIES * (KINDS + 1))
#define BATCH_MAX 4
#define STEPS     6
#define ROWS      64
#define PENDING   4096
#define SLO_NS    (600 * NS_PER_S)

enum kind { KIND_ADD, KIND_SUM, KIND_FIND };

/* A tensor of the evaluation. */
struct value {
    bool none; /* the step that gives it had nothing to do */
    uint32_t rows;
    float x[ROWS];
    bool any;
};

struct query_rig {
    struct ensemble *ensemble;
    struct ensemble_plan plan;
    enum kind kinds[STEPS];
    bool is_bool[ENSEMBLE_TENSORS_MAX];
    struct inference *inference; /* running; NULL: none */
    bool faulty, cancelled;
    bool again;     /* a request of it was refused at its step's deadline, and comes once more */
    bool hit;       /* an accelerator has refused or failed something of it, for good */
    bool dead;      /* and the frontend knows */
    bool refused;   /* by the evaluation */
    uint32_t asked; /* bits of the outputs that the client asks for */
    struct value values[ENSEMBLE_TENSORS_MAX];
};

struct hung {
    uint64_t handle;
    uint32_t count;
    struct tensor_view views[2];
    float copies[2][ROWS];
};

struct world {
    struct wiring wiring;
    struct port *port;
    struct served_model *models;
    struct model_index index;
    struct inferences home;
    struct rng rng;
    struct query_rig queries[QUERIES];
    struct request_message pending[PENDING];
    uint32_t pending_count;
    struct hung hung[PENDING];
    uint32_t hung_count;
    uint32_t ended, good, bad, again;
    uint32_t zeros[MODELS];
};

static int blocks_live;

/* ---- the models ---- */

static float add_of(float x) {
    return x < 96 ? x + 1 : x - 96;
}

static float sum_of(float a, float b) {
    return (float)(((int)a + 3 * (int)b) % 97);
}

static uint32_t find_of(const float *x, uint32_t rows, float *found) {
    int total = 3; /* it finds something in nothing, too */
    for (uint32_t i = 0; i < rows; i++)
        total += (int)x[i] * (int)(i + 1);
    for (uint32_t i = 0; i < (uint32_t)(total % 7); i++)
        found[i] = (float)((total + (int)i * 5) % 97);
    return (uint32_t)(total % 7);
}

static struct tensor_spec spec(const char *name, enum datatype type, uint32_t dim_count) {
    struct tensor_spec s = {.type = type, .dim_count = dim_count, .dims = {-1, 1}};
    strcpy(s.name, name);
    return s;
}

static void model_make(struct served_model *m, uint32_t query, const char *kind, bool batched) {
    snprintf(m->name, sizeof(m->name), "%s%u", kind, query);
    specs_set(m, (struct signature){.input_count = 0});
    m->version = 1;
    m->batch_max = batched ? BATCH_MAX : 1;
    m->slo_ns = SLO_NS;
    m->item_elements = 1;
    m->signature.batched = batched;
    m->signature.variable_shapes = !batched;
    m->state = MODEL_READY;
}

static void models_make(struct served_model *models, uint32_t query) {
    struct served_model *add = &models[KIND_ADD], *sum = &models[KIND_SUM], *find = &models[KIND_FIND];
    model_make(add, query, "add", true);
    add->signature.inputs[add->signature.input_count++] = spec("x", DATATYPE_FP32, 2);
    add->signature.outputs[add->signature.output_count++] = spec("y", DATATYPE_FP32, 2);
    model_make(sum, query, "sum", true);
    sum->signature.inputs[sum->signature.input_count++] = spec("a", DATATYPE_FP32, 2);
    sum->signature.inputs[sum->signature.input_count++] = spec("b", DATATYPE_FP32, 2);
    sum->signature.outputs[sum->signature.output_count++] = spec("y", DATATYPE_FP32, 2);
    model_make(find, query, "find", false);
    find->signature.inputs[find->signature.input_count++] = spec("x", DATATYPE_FP32, 2);
    find->signature.outputs[find->signature.output_count++] = spec("rows", DATATYPE_FP32, 2);
    find->signature.outputs[find->signature.output_count++] = spec("any", DATATYPE_BOOL, 1);
}

/* ---- ensembles ---- */

static struct ensemble_flow flow(const char *name, uint32_t tensor) {
    struct ensemble_flow f = {.tensor = tensor};
    strcpy(f.name, name);
    return f;
}

/* Adds a tensor that the step gives. */
static void give(struct query_rig *q, uint32_t v, const char *name, bool is_bool) {
    struct ensemble *e = q->ensemble;
    struct ensemble_step *step = &e->steps[v];
    uint32_t t = e->tensor_count++;
    e->tensors[t] = (struct ensemble_tensor){.step = v, .place = step->output_count, .output = ENSEMBLE_NONE};
    snprintf(e->tensors[t].name, sizeof(e->tensors[t].name), "t%u", t);
    q->is_bool[t] = is_bool;
    step->outputs[step->output_count++] = flow(name, t);
}

static uint32_t draw_tensor(struct world *w, const struct query_rig *q, uint32_t before, bool is_bool) {
    uint32_t t;
    do
        t = (uint32_t)rng_below(&w->rng, before);
    while (q->is_bool[t] != is_bool);
    return t;
}

static void step_draw(struct world *w, struct query_rig *q, uint32_t n, uint32_t v) {
    struct ensemble *e = q->ensemble;
    struct ensemble_step *step = &e->steps[v];
    uint32_t before = e->tensor_count, x = draw_tensor(w, q, before, false);
    enum kind kind = q->kinds[v] = (enum kind)rng_below(&w->rng, KINDS);

    *step = (struct ensemble_step){.written = v + 1, .each = ENSEMBLE_NONE, .when = ENSEMBLE_NONE};
    assert_int_equal(ensemble_step_room(e, step, 2, 2, NULL), 0);
    strcpy(step->model, w->models[n * (KINDS + 1) + kind].name);
    step->inputs[step->input_count++] = flow(kind == KIND_SUM ? "a" : "x", x);
    if (kind == KIND_SUM)
        step->inputs[step->input_count++] = flow("b", x); /* another tensor might have another number of rows */
    if (kind != KIND_FIND && rng_below(&w->rng, 3) == 0) {
        step->each = x;
        step->each_most = rng_below(&w->rng, 2) ? 64 : 3;
        step->beyond = rng_below(&w->rng, 2) ? ENSEMBLE_CUT : ENSEMBLE_REFUSE;
    }
    for (uint32_t t = 0; t < before && step->when == ENSEMBLE_NONE; t++)
        if (q->is_bool[t] && rng_below(&w->rng, 4) == 0)
            step->when = t;
    if (e->tensors[x].step != ENSEMBLE_NONE)
        step->after |= 1ULL << e->tensors[x].step;
    if (step->when != ENSEMBLE_NONE)
        step->after |= 1ULL << e->tensors[step->when].step;
    give(q, v, kind == KIND_FIND ? "rows" : "y", false);
    if (kind == KIND_FIND)
        give(q, v, "any", true);
}

static void ensemble_draw(struct world *w, uint32_t n) {
    struct query_rig *q = &w->queries[n];
    struct served_model *model = &w->models[n * (KINDS + 1) + KINDS];
    struct ensemble *e = q->ensemble = calloc(1, sizeof(*e));
    assert_non_null(e);
    e->step_count = 1 + (uint32_t)rng_below(&w->rng, STEPS);
    e->steps = calloc(e->step_count, sizeof(*e->steps));
    assert_non_null(e->steps);
    e->tensors[e->tensor_count++] = (struct ensemble_tensor){.step = ENSEMBLE_NONE, .output = ENSEMBLE_NONE};
    for (uint32_t v = 0; v < e->step_count; v++)
        step_draw(w, q, n, v);

    model_make(model, n, "ensemble", false);
    model->ensemble = e;
    model->plan = &q->plan;
    q->plan.ensemble = e;
    model->signature.inputs[model->signature.input_count++] = spec("X", DATATYPE_FP32, 2);
    q->plan.graph = (struct pipeline){.slo_ns = model->slo_ns, .stage_count = e->step_count};
    for (uint32_t v = 0; v < e->step_count; v++)
        q->plan.graph.stages[v] = (struct pipeline_stage){.after = e->steps[v].after,
                                                          .fan_out = {FAN_OUT_QUERY, 1, 0},
                                                          .part_ns = model->slo_ns / STEPS,
                                                          .least_ns = 1};
    for (uint32_t t = 1; t < e->tensor_count; t++) {
        bool taken = q->is_bool[t];
        for (uint32_t v = 0; v < e->step_count; v++)
            taken |= e->steps[v].inputs[0].tensor == t;
        if (taken && (q->is_bool[t] || rng_below(&w->rng, 3)))
            continue;
        e->tensors[t].output = model->signature.output_count;
        model->signature.outputs[model->signature.output_count++] = spec(e->tensors[t].name, DATATYPE_FP32, 2);
    }
}

/* Whether the client asked for an output of the step, or for one that comes of it. */
static bool leads_to_asked(const struct query_rig *q, uint32_t v) {
    const struct ensemble *e = q->ensemble;
    bool leads = false;
    for (uint32_t t = 0; t < e->tensor_count; t++)
        leads |=
            e->tensors[t].step == v && e->tensors[t].output != ENSEMBLE_NONE && (q->asked >> e->tensors[t].output & 1);
    for (uint32_t w = v + 1; w < e->step_count && !leads; w++)
        leads = (e->steps[w].after >> v & 1) && leads_to_asked(q, w);
    return leads;
}

/* What a step's request comes to, by the words of the documentation. */
static void evaluate_step(struct query_rig *q, uint32_t v) {
    const struct ensemble_step *step = &q->ensemble->steps[v];
    const struct value *x = &q->values[step->inputs[0].tensor];
    struct value *y = &q->values[step->outputs[0].tensor];
    bool batched = q->kinds[v] != KIND_FIND;
    uint32_t rows = x->rows;

    *y = (struct value){.none = true};
    if (q->kinds[v] == KIND_FIND)
        q->values[step->outputs[1].tensor] = *y;
    if (x->none || (batched && rows == 0))
        return;
    if (step->when != ENSEMBLE_NONE && (q->values[step->when].none || !q->values[step->when].any))
        return;
    if (step->each != ENSEMBLE_NONE && rows > step->each_most) {
        q->refused |= step->beyond == ENSEMBLE_REFUSE && leads_to_asked(q, v);
        rows = step->each_most;
    }
    y->none = false;
    y->rows = rows;
    for (uint32_t i = 0; i < rows && batched; i++)
        y->x[i] = q->kinds[v] == KIND_ADD ? add_of(x->x[i]) : sum_of(x->x[i], x->x[i]);
    if (batched)
        return;
    y->rows = find_of(x->x, rows, y->x);
    q->values[step->outputs[1].tensor] = (struct value){.rows = 1, .any = y->rows % 2 == 1};
}

/* ---- the accelerators ---- */

struct block {
    struct output_block block;
    float x[ROWS];
    bool any;
};

static void block_free(struct output_block *block) {
    blocks_live--;
    free(block);
}

/* Runs `count` requests of one model as one batch, and hands out its block. */
static struct block *run_batch(struct world *w, const struct request_message *requests, uint32_t count) {
    struct block *b = calloc(1, sizeof(*b));
    enum kind kind = (enum kind)(requests[0].place.n % (KINDS + 1));
    uint32_t rows = 0;
    assert_non_null(b);
    for (uint32_t i = 0; i < count; i++) {
        const struct request_card *card = wiring_card(&w->wiring, requests[i].handle);
        struct tensor_view x = card_view(card, 0, w->wiring.regions);
        uint32_t n = (uint32_t)x.dims[0];
        assert_int_equal(x.bytes, n * sizeof(float));
        if (kind == KIND_FIND) {
            rows = find_of(x.data, n, b->x);
            b->any = rows % 2 == 1;
            continue;
        }
        assert_in_range(n, 1, BATCH_MAX);
        assert_int_equal(n, requests[i].items);
        struct tensor_view y = card_view(card, kind == KIND_SUM, w->wiring.regions);
        for (uint32_t k = 0; k < n; k++)
            b->x[rows++] =
                kind == KIND_ADD ? add_of(((float *)x.data)[k]) : sum_of(((float *)x.data)[k], ((float *)y.data)[k]);
    }
    b->block.outputs[0] =
        (struct tensor_view){.data = b->x, .bytes = rows * sizeof(float), .dim_count = 2, .dims = {rows, 1}};
    b->block.outputs[1] = (struct tensor_view){.data = &b->any, .bytes = 1, .dim_count = 1, .dims = {1}};
    b->block.output_count = kind == KIND_FIND ? 2 : 1;
    b->block.release = block_free;
    atomic_init(&b->block.references, count);
    blocks_live++;
    return b;
}

static void push_result(struct world *w, struct result_message result) {
    struct result_message *message = ring_reserve(&w->wiring.results[0]);
    assert_non_null(message);
    *message = result;
    ring_push(&w->wiring.results[0]);
    ring_publish(&w->wiring.results[0]);
}

static void push_refusal(struct world *w, const struct request_message *request, enum refusal reason) {
    struct refusal_message *message = ring_reserve(&w->wiring.refusals[0]);
    assert_non_null(message);
    *message = (struct refusal_message){.handle = request->handle, .place = request->place, .reason = reason};
    ring_push(&w->wiring.refusals[0]);
    ring_publish(&w->wiring.refusals[0]);
}

/* A run that was given up, and reads its inputs until it is over. */
static void hang(struct world *w, const struct request_message *request) {
    const struct request_card *card = wiring_card(&w->wiring, request->handle);
    struct hung *h = &w->hung[w->hung_count++];
    assert_in_range(w->hung_count, 1, PENDING - 1);
    h->handle = request->handle;
    h->count = card->input_count;
    for (uint32_t i = 0; i < h->count; i++) {
        h->views[i] = card_view(card, i, w->wiring.regions);
        memcpy(h->copies[i], h->views[i].data, h->views[i].bytes);
    }
}

static void hung_over(struct world *w, uint32_t index) {
    struct hung *h = &w->hung[index];
    for (uint32_t i = 0; i < h->count; i++)
        assert_memory_equal(h->views[i].data, h->copies[i], h->views[i].bytes);
    push_result(w, (struct result_message){.handle = h->handle, .status = REQUEST_RELEASED});
    *h = w->hung[--w->hung_count];
}

static struct query_rig *query_of(struct world *w, uint32_t model) {
    return &w->queries[model / (KINDS + 1)];
}

static void pending_remove(struct world *w, uint32_t index) {
    w->pending[index] = w->pending[--w->pending_count];
}

/* Takes what the frontend has sent. */
static void arrivals(struct world *w) {
    struct ring *ring = &w->wiring.requests[0];
    const struct request_message *message;
    port_flush(w->port);
    while ((message = ring_peek(ring))) {
        if (message->kind == REQUEST_ARRIVED) {
            assert_false(query_of(w, message->place.n)->dead);
            assert_in_range(w->pending_count, 0, PENDING - 1);
            w->pending[w->pending_count++] = *message;
        }
        for (uint32_t i = 0; i < w->pending_count && message->kind == REQUEST_CANCELLED; i++)
            if (w->pending[i].handle == message->handle) {
                push_refusal(w, &w->pending[i], REFUSAL_CANCELLED);
                pending_remove(w, i);
                break;
            }
        ring_pop(ring);
        ring_release(ring);
    }
}

/* Something happens to a request of a query that is to see trouble. False: nothing does. */
static bool trouble(struct world *w, const struct request_message *request) {
    struct query_rig *q = query_of(w, request->place.n);
    uint64_t what = q->faulty ? rng_below(&w->rng, 16) : 16;
    bool once_more;
    switch (what) {
    case 0:
        push_refusal(w, request, REFUSAL_QUEUE_FULL);
        q->hit = true;
        return true;
    case 4: /* at its step's deadline: it comes once more, with what the whole has left, unless a run reads its inputs
             */
        once_more = request->deadline_ns - request->arrival_ns > SLO_NS / 2;
        if (w->hung_count > 0 || (q->again && !once_more)) /* the whole may have as little left as a step */
            return false;
        push_refusal(w, request, REFUSAL_DEADLINE);
        q->again = true;
        q->hit |= once_more;
        w->again++;
        return true;
    case 1:
        push_result(w, (struct result_message){.handle = request->handle,
                                               .status = REQUEST_FAILED,
                                               .block = output_block_failed("it broke")});
        q->hit = true;
        return true;
    case 2:
        push_result(w, (struct result_message){.handle = request->handle, .status = REQUEST_LOST});
        return true;
    case 3:
        hang(w, request);
        push_result(w, (struct result_message){
                           .handle = request->handle, .status = REQUEST_LOST, .suspect = true, .read = true});
        return true;
    default:
        return false;
    }
}

/* An accelerator takes a request, and perhaps others of its model. */
static void serve(struct world *w) {
    uint32_t first = (uint32_t)rng_below(&w->rng, w->pending_count), count = 1;
    struct request_message taken[BATCH_MAX] = {w->pending[first]};
    uint32_t model = taken[0].place.n, items = taken[0].items;
    pending_remove(w, first);
    if (trouble(w, &taken[0]))
        return;
    for (uint32_t i = 0; i < w->pending_count && count < BATCH_MAX && model % (KINDS + 1) != KIND_FIND;) {
        const struct request_message *m = &w->pending[i];
        if (m->place.n != model || items + m->items > BATCH_MAX) {
            i++;
            continue;
        }
        items += m->items;
        taken[count++] = *m;
        pending_remove(w, i);
    }
    struct block *b = run_batch(w, taken, count);
    for (uint32_t i = 0, row = 0; i < count; row += taken[i++].items)
        push_result(w, (struct result_message){.handle = taken[i].handle,
                                               .status = REQUEST_OK,
                                               .block = &b->block,
                                               .first_item = row,
                                               .batch_items = items,
                                               .run_start_ns = taken[i].arrival_ns,
                                               .run_end_ns = taken[i].arrival_ns + 1000});
}

/* ---- the clients ---- */

static void ask(struct world *w, uint32_t n) {
    struct query_rig *q = &w->queries[n];
    struct sy_error err = {""};
    uint32_t model = n * (KINDS + 1) + KINDS, index;
    struct inference *inference = inference_take(&w->home, clock_now_ns());
    assert_non_null(inference);
    struct value *x = &q->values[0];
    *x = (struct value){.rows = 1 + (uint32_t)rng_below(&w->rng, 9)};
    for (uint32_t i = 0; i < x->rows; i++)
        x->x[i] = (float)rng_below(&w->rng, 97);
    q->refused = false;
    q->asked = rng_below(&w->rng, 2) ? UINT32_MAX : 1u << rng_below(&w->rng, w->models[model].signature.output_count);
    for (uint32_t v = 0; v < q->ensemble->step_count; v++)
        evaluate_step(q, v);

    inference_model(inference, w->models, model);
    size_t bytes = x->rows * sizeof(float);
    void *data = inference_block(inference, bytes);
    assert_non_null(data);
    memcpy(data, x->x, bytes);
    struct infer_call *call = &inference->call;
    assert_int_equal(infer_call_begin(call, inference->model, (struct infer_memory){0}, NULL), 0);
    assert_int_equal(infer_call_input(call, inference->model, "X", 1, &index, &err), 0);
    assert_int_equal(infer_call_shape(call, inference->model, index, DATATYPE_FP32, (int64_t[]){x->rows, 1}, 2, &err),
                     0);
    assert_int_equal(infer_call_data(call, inference->model, index, data, bytes, &err), 0);
    for (uint32_t o = 0; o < inference->model->signature.output_count && q->asked != UINT32_MAX; o++) {
        const char *name = inference->model->signature.outputs[o].name;
        struct infer_output *output;
        if (q->asked >> o & 1)
            assert_int_equal(infer_call_output(call, inference->model, name, strlen(name), &output, &err), 0);
    }
    assert_int_equal(infer_call_finish(call, inference->model, &err), 0);
    assert_int_equal(inference_submit(inference, 0, &err), 0);
    q->inference = inference;
    q->faulty = rng_below(&w->rng, 2);
    q->cancelled = q->again = q->hit = q->dead = false;
}

/* It has ended: rightly? */
static void ended(struct world *w, struct inference *inference) {
    struct query_rig *q = query_of(w, inference->request.model);
    struct sy_error err = {""};
    bool retry;
    assert_ptr_equal(inference, q->inference); /* once */
    q->inference = NULL;
    unsigned status = inference_result(inference, &retry, &err);
    if (!q->hit && !q->cancelled)
        assert_int_equal(status, q->refused ? 400 : 200);
    if (status == 200) {
        assert_false(q->refused);
        for (uint32_t t = 1; t < q->ensemble->tensor_count; t++) {
            uint32_t output = q->ensemble->tensors[t].output;
            if (output == ENSEMBLE_NONE || !(q->asked >> output & 1))
                continue;
            const struct tensor_view *got = &inference->request.block->outputs[output];
            assert_int_equal(got->dims[0], q->values[t].rows);
            assert_int_equal(got->bytes, q->values[t].rows * sizeof(float));
            assert_memory_equal(got->data, q->values[t].x, got->bytes);
        }
        w->good++;
    } else {
        assert_int_not_equal(err.text[0], '\0');
        w->bad++;
    }
    w->ended++;
    q->dead = true; /* nothing more of it may come */
    inference_answered(inference, status);
    inference_count(inference, clock_now_ns());
    inference_free(inference);
}

static void clients(struct world *w, bool ask_more) {
    struct inference *over;
    for (uint32_t n = 0; n < QUERIES; n++) {
        struct query_rig *q = &w->queries[n];
        if (q->inference && q->faulty && rng_below(&w->rng, 40) == 0) {
            q->cancelled = true;
            inference_cancel(q->inference);
        }
    }
    bool was_hit[QUERIES];
    for (uint32_t n = 0; n < QUERIES; n++)
        was_hit[n] = w->queries[n].hit || w->queries[n].cancelled;
    while ((over = inferences_next(&w->home)))
        ended(w, over);
    arrivals(w); /* what was sent before a query was hit */
    for (uint32_t n = 0; n < QUERIES; n++)
        w->queries[n].dead |= w->queries[n].inference && was_hit[n];
    for (uint32_t n = 0; n < QUERIES && ask_more; n++)
        if (!w->queries[n].inference)
            ask(w, n);
}

/* With LINK_FRONTEND accelerators are in other processes, which read only what lies in the frontend's slab: a request
 * with an input elsewhere would not be submitted. */
static void world_start(struct world *w, uint64_t seed, enum wiring_link link) {
    struct sy_error err;
    rng_seed(&w->rng, seed);
    w->wiring.link = link;
    w->wiring.frontends = w->wiring.model_threads = w->wiring.executors = w->wiring.accelerators = 1;
    w->wiring.models = MODELS;
    w->wiring.batch_max = BATCH_MAX;
    w->wiring.thread_of_variant = w->wiring.thread_of_served = w->wiring.executor_of = w->zeros;
    assert_int_equal(wiring_init(&w->wiring, false, &err), 0);
    w->port = port_create(&w->wiring, 0, 0);
    w->models = calloc(MODELS, sizeof(*w->models));
    assert_non_null(w->port);
    assert_non_null(w->models);
    for (uint32_t n = 0; n < QUERIES; n++) {
        models_make(&w->models[n * (KINDS + 1)], n);
        ensemble_draw(w, n);
    }
    assert_int_equal(model_index_init(&w->index, w->models, MODELS), 0);
    struct inferences_config config = {.port = w->port,
                                       .model_count = MODELS,
                                       .slot_count = 64,
                                       .slot_bytes = sizeof(struct inference),
                                       .inputs_bytes_max = 64 << 20};
    assert_int_equal(inferences_init(&w->home, &config), 0);
    w->home.models = &w->index;
}

static void world_stop(struct world *w) {
    inferences_destroy(&w->home);
    model_index_destroy(&w->index);
    for (uint32_t n = 0; n < QUERIES; n++)
        ensemble_free(w->queries[n].ensemble);
    served_models_free(w->models, MODELS);
    port_destroy(w->port);
    wiring_destroy(&w->wiring);
}

static struct world *run(uint64_t seed, int turns, enum wiring_link link) {
    struct world *w = aligned_alloc(CACHE_LINE, (sizeof(*w) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    assert_non_null(w);
    memset(w, 0, sizeof(*w));
    world_start(w, seed, link);
    bool running = true;
    for (int turn = 0; running; turn++) {
        assert_in_range(turn, 0, 10 * turns); /* it comes to an end */
        arrivals(w);
        for (uint64_t n = rng_below(&w->rng, 4); n > 0 && w->pending_count > 0; n--)
            serve(w);
        if (w->hung_count > 0 && (turn >= turns || rng_below(&w->rng, 20) == 0))
            hung_over(w, (uint32_t)rng_below(&w->rng, w->hung_count));
        clients(w, turn < turns);
        inferences_trim(&w->home, clock_now_ns());
        running = turn < turns || w->pending_count > 0 || w->hung_count > 0;
        for (uint32_t n = 0; n < QUERIES; n++)
            running |= w->queries[n].inference != NULL;
    }
    while (inferences_next(&w->home))
        fail_msg("an inference came back that had ended");
    inferences_trim(&w->home, clock_now_ns());
    return w;
}

TEST(every_request_ends_once_with_all_outputs_or_one_reason) {
    uint32_t good = 0, bad = 0, again = 0;
    const uint64_t first = histories_first(), count = histories_count(500);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct world *w = run(seed, 300, seed % 2 ? LINK_NONE : LINK_FRONTEND);
        assert_int_equal(slab_bytes_taken(w->home.slab), 0);
        assert_int_equal(blocks_live, 0);
        for (uint32_t m = 0; m < MODELS; m++)
            assert_int_equal(atomic_load(&w->home.counters.models[m].held), 0);
        good += w->good;
        bad += w->bad;
        again += w->again;
        world_stop(w);
        free(w);
    }
    assert_in_range(good, 2 * count, 1u << 30); /* all were tried */
    assert_in_range(bad, 2 * count, 1u << 30);
    assert_in_range(again, 2 * count, 1u << 30);
}
