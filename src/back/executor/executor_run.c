/* executor_run.c - runs a batch as a whole if that works, else in sub-batches. */
#include <errno.h>
#include <stdlib.h>

#include "back/executor/executor_state.h"
#include "core/data/profile.h"
#include "core/data/running.h"
#include "core/system/clock.h"
#include "core/system/log.h"

_Static_assert(RUNNING_MAX == PROFILE_BATCH_MAX, "there is room for the requests of any batch");

/* Once a run has failed, the sub-batches of its batch may run for APART_TIMES times the profiled latency of the whole
 * batch, plus APART_NS. Halving finds one bad request among 64, and answers the others, in 8 runs that together cost
 * less than two batches. Requests that are left when the time is up go back to their frontends, are submitted again,
 * and run alone. */
#define APART_TIMES 8
#define APART_NS    (10 * NS_PER_MS)

#define FAILURES_APART_NS (10 * NS_PER_S) /* time between two lines of the log, whatever clients send */

int batch_under_way_init(struct executor *x) {
    x->batch.subbatch = malloc(batch_plan_bytes(PROFILE_BATCH_MAX));
    x->batch.handles = malloc(PROFILE_BATCH_MAX * sizeof(uint64_t));
    x->batch.alone = malloc(PROFILE_BATCH_MAX * sizeof(bool));
    x->batch.slices = malloc(PART_SUFFIXES_MAX * sizeof(*x->batch.slices));
    return x->batch.subbatch && x->batch.handles && x->batch.alone && x->batch.slices ? 0 : -ENOMEM;
}

void batch_under_way_destroy(struct executor *x) {
    free(x->batch.subbatch);
    free(x->batch.handles);
    free(x->batch.alone);
    free(x->batch.slices);
}

/* ---- sub-batches ---- */

/* Orders the requests: those whose inputs are not prepared come first, and do not run. Those suspected of making a run
 * fail, and those whose shape differs from the first one's, come last, and run alone. Between them, those of models
 * that share a prefix are ordered by suffix, so that each suffix finds its rows together. */
static void requests_order(struct executor *x) {
    struct batch_under_way *b = &x->batch;
    uint32_t count = b->plan->request_count, together = 0, apart = 0, unready = 0;

    bool lone = atomic_load_explicit(&x->config.models[b->plan->place.n].lone, memory_order_relaxed); /* a flag */
    for (uint32_t k = 0; k < count; k++)
        b->alone[k] = lone || wiring_card(x->wiring, b->plan->handles[k])->alone;
    batch_split(x, b->plan, b->alone);
    for (uint32_t k = 0; k < count; k++) /* only one look at each: it may become ready meanwhile */
        if (request_unready(x, b->plan->handles[k])) {
            b->handles[unready++] = b->plan->handles[k];
            b->alone[k] = false;
        } else {
            apart += b->alone[k];
        }
    b->unready = together = unready;
    b->together = count - apart;
    apart = b->together;
    for (uint32_t k = 0, left = 0; k < count; k++)
        if (left < unready && b->handles[left] == b->plan->handles[k])
            left++;
        else
            b->handles[b->alone[k] ? apart++ : together++] = b->plan->handles[k];
    b->sorted = count > 1 && served_model_is_prefix(&x->config.models[b->plan->place.n]);
    if (b->sorted)
        suffixes_order(x, unready, together);
}

/* How many requests run next. If one of some requests is known to be bad: half of these. If that half works, the bad
 * request is in the other half, which need not be tried as a whole. */
static uint32_t subbatch_next(const struct batch_under_way *b) {
    if (b->bad_end > b->done + 1)
        return (b->bad_end - b->done) / 2;
    return b->bad_end == b->done + 1 || b->done >= b->together ? 1 : b->together - b->done;
}

/* Makes a plan of the `count` requests that run next. */
static const struct batch_plan *subbatch_of(struct executor *x, uint32_t count) {
    struct batch_under_way *b = &x->batch;
    struct batch_plan *subbatch = b->subbatch;

    b->run_count = count;
    if (count == b->plan->request_count && !b->sorted)
        return b->plan;
    *subbatch = *b->plan;
    if (count < subbatch->request_count)
        subbatch->latest_ns = TIME_NEVER; /* only the deadlines count */
    subbatch->request_count = count;
    subbatch->items = 0;
    for (uint32_t k = 0; k < count; k++) {
        subbatch->handles[k] = b->handles[b->done + k];
        subbatch->items += wiring_card(x->wiring, subbatch->handles[k])->items;
    }
    return subbatch;
}

/* ---- the end ---- */

/* Reports the batch before its last answers are sent, so that the next batch is chosen meanwhile, and a client that
 * immediately sends another request finds the accelerator free. A batch that had a failed run, or ran in sub-batches,
 * does not correct the tables: a single request decided how long the batch took, and which requests were late. */
static void batch_over(struct executor *x, const struct batch_plan *subbatch, const struct run_result *result) {
    struct batch_under_way *b = &x->batch;
    struct run_result whole = *result;

    x->ended_ns = b->ended_ns;
    x->ended_model = b->plan->place.n;
    x->spin_until_ns = b->ended_ns + (int64_t)(x->config.spin * (double)(b->ended_ns - whole.start_ns));
    if (subbatch->request_count == b->plan->request_count && !b->failed) {
        b->ran.late = batch_late(x, subbatch, result);
        if (result->status == REQUEST_OK)
            b->ran.run_ns = result->end_ns - result->start_ns;
    } else {
        b->ran.gather_ns = 0;
        b->ran.dispatch_ns = -1;
        whole.start_ns = b->start_ns;
        if (b->failed && whole.status != REQUEST_LOST)
            whole.status = REQUEST_FAILED;
    }
    batch_count(x, b->plan, &whole);
    batch_report(x, b->model_thread, &b->ran, b->ended_ns);
    executor_publish_freed(x);
}

/* The sub-batch has its result: answers its requests, and reports the batch if it was the last sub-batch. */
static void subbatch_over(struct executor *x, const struct batch_plan *subbatch, const struct run_result *result) {
    struct batch_under_way *b = &x->batch;
    bool last = b->done + subbatch->request_count == b->plan->request_count;

    if (last)
        batch_over(x, subbatch, result);
    batch_answer(x, subbatch, result);
    if (result->status == REQUEST_FAILED && b->ended_ns >= x->failure_next_ns) {
        x->failure_next_ns = b->ended_ns + FAILURES_APART_NS;
        log_warn("a request failed", "model=%s accelerator=%u reason=\"%s\"", x->config.models[b->plan->place.n].name,
                 b->plan->accelerator, result->error.text);
    }
    b->done += subbatch->request_count;
    if (last)
        b->plan = NULL;
    executor_publish(x);
}

/* Hands all requests without an answer back, to be sent again. Requests before `suspect_end` may have made a run fail
 * or hang. `broke`: the run broke the accelerator. `read`: the run may still read the first request. */
static void rest_lost(struct executor *x, uint32_t suspect_end, bool broke, bool read) {
    struct batch_under_way *b = &x->batch;
    struct run_result result = {.status = REQUEST_LOST, .start_ns = b->ended_ns, .end_ns = b->ended_ns};

    if (suspect_end > b->done) {
        result.suspect = true;
        result.broke = broke;
        result.read = read;
        subbatch_over(x, subbatch_of(x, suspect_end - b->done), &result);
        result.suspect = result.broke = result.read = false;
    }
    if (b->plan)
        subbatch_over(x, subbatch_of(x, b->plan->request_count - b->done), &result);
}

void batch_abandon(struct executor *x) {
    struct batch_under_way *b = &x->batch;

    if (!b->plan) /* the run was a trial */
        return;
    struct ring *ring = wiring_plans(x->wiring, b->model_thread, x->config.index);
    uint32_t slots = batch_plan_slots(b->plan->request_count);
    x->lost_reads = true;
    x->lost_handle = b->handles[b->done + b->reading];
    b->failed = true;
    b->ended_ns = clock_now_ns();
    rest_lost(x, b->done + b->run_count, true, true);
    b->slots = 0;
    ring_pop_run(ring, slots);
    ring_release(ring);
}

/* ---- runs ---- */

/* What follows from how a run ended. */
enum outcome {
    OUTCOME_ANSWER, /* the requests are answered with the result */
    OUTCOME_HALVE,  /* the run failed, and had several requests: half of them run next */
    OUTCOME_APART,  /* it is not known which rows belong to which request: the requests run one at a time */
    OUTCOME_BROKEN, /* the run failed, and so has the engine: the requests that are left are lost */
    OUTCOME_GIVE,   /* the run was stopped: the requests that are left are lost; the accelerator stays in service */
    OUTCOME_GONE,   /* the thread has lost the executor */
};

/* The run failed by itself. */
static enum outcome run_failed(struct executor *x, const struct batch_plan *subbatch, struct run_result *result) {
    bool works = true;

    result->status = REQUEST_FAILED;
    x->batch.failed = true;
    if (x->batch.done + subbatch->request_count > x->batch.failed_end)
        x->batch.failed_end = x->batch.done + subbatch->request_count;
    if (subbatch->request_count > 1)
        return OUTCOME_HALVE;
    if (!x->batch.engine_ran && engine_works(x, &works) == RUN_LOST)
        return OUTCOME_GONE;
    return works ? OUTCOME_ANSWER : OUTCOME_BROKEN;
}

/* The run had to be stopped. */
static enum outcome run_stopped(struct executor *x, const struct batch_plan *subbatch, int64_t took_ns,
                                struct run_result *result) {
    output_block_put(result->block);
    result->block = NULL;
    result->status = REQUEST_FAILED;
    x->batch.failed = true;
    error_set(&result->error, -ETIMEDOUT, "its run took too long, and was stopped after %.3g s",
              (double)took_ns / NS_PER_S);
    return subbatch->request_count > 1 ? OUTCOME_GIVE : OUTCOME_ANSWER;
}

/* Looks whether each output has as many rows as there are items. If not, the outputs can be given to a request only if
 * it ran alone; from now on, each request of the model runs alone. */
static enum outcome rows_count(struct executor *x, const struct batch_plan *subbatch, struct run_result *result) {
    struct served_model *model = &x->config.models[subbatch->place.n];
    const struct output_block *block = result->block;
    uint32_t items = batch_items(x, subbatch), o = 0;

    while (o < block->output_count && tensor_row_count(&block->outputs[o]) == items)
        o++;
    if (!model->signature.batched || o == block->output_count)
        return OUTCOME_ANSWER;
    if (!atomic_exchange_explicit(&model->lone, true, memory_order_relaxed)) /* a flag */
        log_warn("an output has another number of rows than its batch; requests run one at a time from now on",
                 "model=%s output=%s rows=%lld batch=%u", model->name, model->signature.outputs[o].name,
                 (long long)tensor_row_count(&block->outputs[o]), items);
    result->whole = subbatch->request_count == 1;
    if (result->whole)
        return OUTCOME_ANSWER;
    output_block_put(result->block);
    result->block = NULL;
    x->batch.failed = true;
    x->batch.together = x->batch.done;
    return OUTCOME_APART;
}

static enum outcome engine_run(struct executor *x, struct engine_model *model, const struct tensor_view *inputs,
                               const struct batch_plan *subbatch, struct run_result *result) {
    const struct engine_ops *engine = x->config.engine; /* used when this thread may have lost the executor */
    uint32_t items = batch_items(x, subbatch);
    float work = wiring_card(x->wiring, subbatch->handles[0])->work;

    struct run_watch *watch = run_begin(x, model, run_limit(x, subbatch->place, items, work));
    int rc = engine->run(model, inputs, items, &result->block, &result->error);
    enum run_end end = run_over(watch, engine, model);
    if (end == RUN_LOST) {
        if (rc == 0)
            output_block_put(result->block);
        if (engine->go_on)
            engine->go_on(model); /* the request keeps the model from being freed */
        run_back(watch);
        return OUTCOME_GONE;
    }
    if (rc < 0)
        result->block = NULL;
    if (end == RUN_STOPPED)
        return run_stopped(x, subbatch, clock_now_ns() - result->start_ns, result);
    if (rc < 0)
        return run_failed(x, subbatch, result);
    result->status = REQUEST_OK;
    x->batch.engine_ran = true;
    return rows_count(x, subbatch, result);
}

/* As engine_run(), for models that share a prefix. */
static enum outcome engine_run_shared(struct executor *x, const struct tensor_view *inputs,
                                      const struct batch_plan *subbatch, struct run_result *result) {
    switch (shared_run(x, subbatch, inputs, result)) {
    case SHARED_DONE:
        result->status = REQUEST_OK;
        x->batch.engine_ran = true;
        return OUTCOME_ANSWER;
    case SHARED_STOPPED:
        return run_stopped(x, subbatch, clock_now_ns() - result->start_ns, result);
    case SHARED_ABSENT:
        result->status = REQUEST_LOST;
        result->absent = true;
        return OUTCOME_ANSWER;
    case SHARED_LOST:
        return OUTCOME_GONE;
    default:
        return run_failed(x, subbatch, result);
    }
}

/* Gathers a sub-batch's inputs and runs it. */
static enum outcome subbatch_gather_run(struct executor *x, const struct batch_plan *subbatch,
                                        struct run_result *result) {
    struct engine_model *model = x->models[subbatch->place.n].model;
    struct tensor_view inputs[TENSORS_MAX];
    int64_t now_ns = result->start_ns;

    result->status = REQUEST_FAILED;
    if (batch_gather(x, subbatch, inputs, &result->error) < 0) {
        x->batch.failed = true;
        return subbatch->request_count > 1 ? OUTCOME_HALVE : OUTCOME_ANSWER;
    }
    result->start_ns = clock_now_ns();
    x->batch.ran.gather_ns = result->start_ns - now_ns;
    if (served_model_is_prefix(&x->config.models[subbatch->place.n]))
        return engine_run_shared(x, inputs, subbatch, result);
    return engine_run(x, model, inputs, subbatch, result);
}

/* Runs a sub-batch, unless it is too late or its model is not resident. */
static enum outcome subbatch_run(struct executor *x, const struct batch_plan *subbatch, struct run_result *result) {
    struct running *running = x->config.running;

    x->batch.reading = 0;
    if (batch_expired(x, subbatch, result->start_ns))
        return OUTCOME_ANSWER;
    if (!x->models[subbatch->place.n].model) {
        result->status = REQUEST_LOST;
        result->absent = true;
        return OUTCOME_ANSWER;
    }
    if (running)
        running_begin(running, subbatch->handles, subbatch->request_count);
    enum outcome outcome = subbatch_gather_run(x, subbatch, result);
    if (running && outcome != OUTCOME_GONE) /* else another thread has the executor */
        running_end(running);
    return outcome;
}

/* Whether the batch runs in sub-batches, and the time for its sub-batches is up. */
static bool apart_too_long(struct executor *x, int64_t now_ns) {
    struct batch_under_way *b = &x->batch;
    const struct profile *profile = x->config.profiles[b->plan->place.n];

    if (b->apart_ns)
        return now_ns > b->apart_ns;
    if (b->failed || b->done > 0) {
        uint32_t items = b->ran.items;
        b->apart_ns =
            now_ns + APART_NS + (profile && items <= profile->batch_max ? APART_TIMES * profile->latency_ns[items] : 0);
    }
    return false;
}

bool batch_run(struct executor *x, uint32_t model_thread, const struct batch_plan *plan) {
    struct batch_under_way *b = &x->batch;
    int64_t now_ns = clock_now_ns();

    b->plan = plan;
    b->model_thread = model_thread;
    b->slots = batch_plan_slots(plan->request_count);
    b->start_ns = b->ended_ns = now_ns;
    b->done = b->failed_end = b->bad_end = 0;
    b->apart_ns = 0;
    b->engine_ran = b->failed = false;
    b->ran = batch_ran(x, plan, now_ns, x->ended_ns);
    b->before = batch_before(plan->sealed_ns, plan->ready_us, x->ended_ns, x->ended_model);
    timeline_begin(executor_timeline(x, plan->accelerator), x->models[plan->place.n].key, b->ran.items, now_ns);
    requests_order(x);
    if (b->unready) { /* their inputs are not prepared: they go back, and the others do not wait for them */
        struct run_result unready = {.status = REQUEST_LOST, .unready = true, .start_ns = now_ns, .end_ns = now_ns};
        subbatch_over(x, subbatch_of(x, b->unready), &unready);
    }
    while (b->plan) {
        struct run_result result = {.status = REQUEST_REFUSED, .start_ns = b->ended_ns, .before = b->before};
        if (apart_too_long(x, b->ended_ns)) {
            rest_lost(x, plan->request_count, false, false);
            break;
        }
        const struct batch_plan *subbatch = subbatch_of(x, subbatch_next(b));
        enum outcome outcome = subbatch_run(x, subbatch, &result);
        if (outcome == OUTCOME_GONE)
            return false;
        b->ended_ns = result.end_ns = clock_now_ns();
        switch (outcome) {
        case OUTCOME_HALVE:
            b->bad_end = b->done + subbatch->request_count;
            break;
        case OUTCOME_APART:
            b->bad_end = 0;
            break;
        case OUTCOME_BROKEN:
            engine_lose(x, plan->accelerator, result.error.text);
            rest_lost(x, b->failed_end, true, false);
            break;
        case OUTCOME_GIVE:
            rest_lost(x, b->done + subbatch->request_count, false, false);
            break;
        default:
            subbatch_over(x, subbatch, &result);
            if (result.status == REQUEST_FAILED) /* the bad one is found */
                b->bad_end = 0;
        }
    }
    b->slots = 0;
    return true;
}
