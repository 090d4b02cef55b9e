/* inference.c - slots of infer requests, and their hand-over. */
#include "frontend/inference.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/container.h"
#include "frontend/classify.h"

#define NO_FREE            UINT32_MAX
#define SLO_DEFAULT_NS     NS_PER_S /* for a model whose SLO nobody chose */
#define IDLE_BEFORE_TRIM_S 10

static struct inference *slot(const struct inferences *home, uint32_t index) {
    return (struct inference *)(home->slots + index * home->slot_bytes);
}

int inferences_init(struct inferences *home, const struct frontend_config *config, size_t slot_bytes) {
    *home = (struct inferences){.port = config->port,
                                .slot_bytes = (slot_bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE,
                                .slot_count = config->requests_max,
                                .shared = {.memory = config->shared},
                                .free = NO_FREE,
                                .busy_ns = clock_now_ns()};
    /* calloc leaves pages untouched until a request needs them */
    home->slots = calloc(home->slot_count, home->slot_bytes);
    home->slab = slab_create(config->inputs_bytes_max);
    return home->slots && home->slab ? infer_counters_init(&home->counters, config->model_count) : -ENOMEM;
}

void inferences_destroy(struct inferences *home) {
    shared_view_end(&home->shared);
    slab_destroy(home->slab);
    infer_counters_destroy(&home->counters);
    free(home->slots);
}

void *inference_take(struct inferences *home, int64_t now_ns) {
    struct inference *taken;
    if (home->free != NO_FREE) {
        taken = slot(home, home->free);
        home->free = taken->free_next;
    } else if (home->fresh < home->slot_count) {
        taken = slot(home, home->fresh++);
    } else {
        return NULL;
    }
    taken->home = home;
    taken->model = NULL;
    taken->state = INFERENCE_UPLOAD;
    taken->cancelled = taken->limited = false;
    taken->block_count = taken->region_count = 0;
    taken->request.block = NULL;
    taken->request.arrival_ns = now_ns;
    text_init(&taken->text, taken->text_memory, sizeof(taken->text_memory));
    text_init(&taken->classes, NULL, 0);
    text_init(&taken->packed, NULL, 0);
    gauge_add(&home->counters.in_flight, 1);
    return taken;
}

void inference_blocks_give(struct inference *inference) {
    while (inference->block_count > 0)
        slab_give(inference->home->slab, inference->blocks[--inference->block_count]);
}

void inference_block_give(void *context, void *block) {
    struct inference *inference = context;
    for (uint32_t i = 0; i < inference->block_count; i++)
        if (inference->blocks[i] == block) {
            inference->blocks[i] = inference->blocks[--inference->block_count];
            slab_give(inference->home->slab, block);
            return;
        }
    CHECK(!"a block of this inference");
}

/* release: who sees that a model is held no more, and frees it, comes after all that was done with it */
static void held_add(const struct inference *inference, int32_t n) {
    _Atomic uint32_t *held = &inference->home->counters.models[inference->request.model].held;
    atomic_store_explicit(held, atomic_load_explicit(held, memory_order_relaxed) + (uint32_t)n, memory_order_release);
}

void inference_free(struct inference *inference) {
    struct inferences *home = inference->home;
    CHECK(inference->state != INFERENCE_RUNNING && inference->state != INFERENCE_ORDERED &&
          inference->state != INFERENCE_FREE);
    inference_blocks_give(inference);
    while (inference->region_count > 0)
        shared_region_put(inference->regions[--inference->region_count]);
    output_block_put(inference->request.block);
    if (inference->model)
        held_add(inference, -1);
    text_free(&inference->text);
    text_free(&inference->classes);
    text_free(&inference->packed);
    inference->state = INFERENCE_FREE;
    inference->free_next = home->free;
    home->free = (uint32_t)((size_t)((char *)inference - home->slots) / home->slot_bytes);
    gauge_add(&home->counters.in_flight, -1);
}

void inference_model(struct inference *inference, const struct served_model *models, uint32_t index) {
    inference->model = &models[index];
    inference->request.model = index;
    held_add(inference, 1);
}

void *inference_block(void *context, size_t bytes) {
    struct inference *inference = context;
    CHECK_LT(inference->block_count, INFERENCE_BLOCKS_MAX);
    void *block = slab_take(inference->home->slab, bytes);
    if (block)
        inference->blocks[inference->block_count++] = block;
    return block;
}

/* ---- shared memory ---- */

static int input_fetch(struct inference *inference, uint32_t index, struct sy_error *err) {
    const struct infer_shared *place = &inference->call.shared[index];
    int status = 0;
    struct shared_region *region = shared_view_find(&inference->home->shared, place, &status, err);
    if (!region)
        return status;
    void *data = inference_block(inference, place->bytes);
    status =
        data ? shared_region_read(region, place, data, err) : error_set(err, 503, "the memory for inputs is exhausted");
    shared_region_put(region);
    return status ? status : infer_call_data(&inference->call, inference->model, index, data, place->bytes, err);
}

/* Reads inputs, and finds outputs' regions, so that what is wrong with them is said before the run. */
static int shared_fetch(struct inference *inference, struct sy_error *err) {
    const struct infer_call *call = &inference->call;
    int status = 0;
    for (uint32_t i = 0; i < inference->model->signature.input_count && status == 0; i++)
        if (call->inputs_shared & 1u << i)
            status = input_fetch(inference, i, err);
    for (uint32_t i = 0; i < call->output_count && status == 0; i++)
        if (call->outputs[i].shared.region) {
            struct shared_region *region =
                shared_view_find(&inference->home->shared, &call->outputs[i].shared, &status, err);
            if (region)
                inference->regions[inference->region_count++] = region;
        }
    return status;
}

static int shared_store(struct inference *inference, struct sy_error *err) {
    const struct infer_call *call = &inference->call;
    const struct output_block *block = inference->request.block;
    uint32_t region = 0;
    for (uint32_t i = 0; i < call->output_count; i++) {
        struct tensor_view part;
        if (!call->outputs[i].shared.region)
            continue;
        if (infer_output_slice(&part, inference->model, call, &call->outputs[i], block->outputs, block->output_count,
                               inference->request.first_item, err) < 0)
            return 500;
        int status =
            shared_region_write(inference->regions[region++], &call->outputs[i].shared, part.data, part.bytes, err);
        if (status)
            return status;
    }
    return 0;
}

/* ---- the way to the scheduler and back ---- */

/* Sets the request's class; returns how long it has. */
static int64_t class_set(struct request *request, const struct infer_call *call, const struct served_model *model) {
    int64_t asked_ns = call->timeout_us * NS_PER_US, slo_ns = model->slo_ns > 0 ? model->slo_ns : SLO_DEFAULT_NS;
    request->delay = false;
    request->priority = PRIORITY_BEST_EFFORT;
    if (call->best_effort || (model->best_effort && asked_ns == 0))
        return asked_ns > 0 ? asked_ns : BEST_EFFORT_WAIT_NS;
    request->priority = queue_rules_priority(&model->queue, call->priority);
    request->delay = model->queue.rules[request->priority].delay;
    return queue_rules_timeout(&model->queue, request->priority, asked_ns, slo_ns);
}

unsigned inference_submit(struct inference *inference, int64_t limit_ns, struct sy_error *err) {
    const struct infer_call *call = &inference->call;
    const struct served_model *model = inference->model;
    struct request *request = &inference->request;
    int64_t slo_ns = class_set(request, call, model);
    int status = shared_fetch(inference, err);
    if (status)
        return (unsigned)status;
    request->items = call->items;
    request->shape_key = call->shape_key;
    request->work = call->work;
    request->deadline_ns = request->arrival_ns + slo_ns;
    inference->limited = limit_ns > 0 && limit_ns < request->deadline_ns;
    if (inference->limited)
        request->deadline_ns = limit_ns;
    request->failure[0] = '\0';
    memcpy(request->inputs, call->inputs, model->signature.input_count * sizeof(call->inputs[0]));
    int rc = port_submit(inference->home->port, request);
    if (rc < 0)
        return (unsigned)error_set(err, 503, "the scheduler takes no more %srequests at the moment",
                                   rc == -EBUSY ? "best-effort " : "");
    inference->state = INFERENCE_RUNNING;
    inference->home->running++;
    return 0;
}

void inference_cancel(struct inference *inference) {
    if (inference->state == INFERENCE_RUNNING && !inference->cancelled) {
        inference->cancelled = true;
        port_cancel(inference->home->port, &inference->request);
    }
}

void inferences_cancel(struct inferences *home) {
    for (uint32_t i = 0; i < home->fresh; i++)
        inference_cancel(slot(home, i));
}

struct inference *inferences_next(struct inferences *home) {
    struct request *request = port_next(home->port);
    if (!request)
        return NULL;
    struct inference *inference = container_of(request, struct inference, request);
    CHECK_EQ(inference->state, INFERENCE_RUNNING);
    home->running--;
    inference->state = INFERENCE_FINISHED;
    return inference;
}

static unsigned refusal_result(const struct inference *inference, bool *retry, struct sy_error *err) {
    const struct request *request = &inference->request;
    const char *name = inference->model->name;
    *retry = request->refusal == REFUSAL_QUEUE_FULL || request->refusal == REFUSAL_SHAPES ||
             request->refusal == REFUSAL_STRANDED || request->refusal == REFUSAL_LOST;
    switch (request->refusal) {
    case REFUSAL_DEADLINE:
        if (request->priority == PRIORITY_BEST_EFFORT)
            return (unsigned)error_set(err, inference->limited ? 504 : 503,
                                       "model '%s' found no gap for this best-effort request within %.6g ms", name,
                                       (double)(request->deadline_ns - request->arrival_ns) / (double)NS_PER_MS);
        return (unsigned)error_set(err, inference->limited ? 504 : 503,
                                   "model '%s' cannot finish this request within its deadline of %.6g ms", name,
                                   (double)(request->deadline_ns - request->arrival_ns) / (double)NS_PER_MS);
    case REFUSAL_QUEUE_FULL:
        return (unsigned)error_set(err, 503, "too many requests wait: the queue of model '%s' is full", name);
    case REFUSAL_SHAPES:
        return (unsigned)error_set(err, 503, "too many different input shapes of model '%s' wait at once", name);
    case REFUSAL_STRANDED:
        return (unsigned)error_set(err, 503, "no accelerator that runs model '%s' is in service", name);
    case REFUSAL_LOST:
        return (unsigned)error_set(err, 503, "the accelerator that had this request failed, and its deadline passed");
    case REFUSAL_CANCELLED:
    case REFUSAL_NONE:
        break;
    }
    return (unsigned)error_set(err, 503, "the request was cancelled");
}

unsigned inference_result(struct inference *inference, bool *retry, struct sy_error *err) {
    const struct request *request = &inference->request;
    *retry = false;
    if (request->status == REQUEST_REFUSED)
        return refusal_result(inference, retry, err);
    if (request->status == REQUEST_FAILED)
        return (unsigned)error_set(err, 500, "model '%s' failed: %s", inference->model->name, request->failure);
    int rc = inference->call.classified
                 ? classify_outputs(&inference->call, inference->model, request->block->outputs,
                                    request->block->output_count, request->first_item, &inference->classes, err)
                 : 0;
    if (rc < 0)
        return rc == -E2BIG ? 400 : 500;
    int status = inference->region_count > 0 ? shared_store(inference, err) : 0;
    return status ? (unsigned)status : 200;
}

void inference_answered(struct inference *inference, unsigned status) {
    inference->state = INFERENCE_SENDING;
    inference->status = status;
    inference->answered_ns = clock_now_ns();
}

static enum outcome outcome_of(const struct inference *inference, bool sent) {
    unsigned status = inference->status;
    return !sent || inference->state != INFERENCE_SENDING ? OUTCOME_CANCELLED
           : status == 200                                ? OUTCOME_OK
           : status == 503 || status == 504               ? OUTCOME_REFUSED
           : status < 500 || status == 501                ? OUTCOME_CLIENT_ERROR
                                                          : OUTCOME_FAILED;
}

void inference_count(const struct inference *inference, bool sent) {
    const struct request *request = &inference->request;
    if (!inference->model)
        return;
    struct model_infer_counters *counters = &inference->home->counters.models[request->model];
    enum outcome outcome = outcome_of(inference, sent);
    counter_add(&counters->outcomes[outcome], 1);
    if (outcome == OUTCOME_REFUSED || outcome == OUTCOME_FAILED)
        counter_add(&counters->fail_ns, (uint64_t)(inference->answered_ns - request->arrival_ns));
    if (outcome != OUTCOME_OK)
        return;
    counter_add(&counters->items, request->items);
    counter_add(&counters->run_ns, (uint64_t)(request->run_end_ns - request->run_start_ns));
    counter_add(&counters->reply_ns, (uint64_t)(inference->answered_ns - request->run_end_ns));
    atomic_store_explicit(&counters->last_ns, inference->answered_ns, memory_order_relaxed); /* statistics */
    fine_histogram_add(&counters->latency_ns, inference->answered_ns - request->arrival_ns);
    histogram_add(&counters->queue_ns, request->run_start_ns - request->arrival_ns);
    if (inference->answered_ns <= request->deadline_ns)
        counter_add(&counters->in_time, 1);
    /* Not until the answer has gone: that may be the connection's next event, and a client that reads slowly, or wants
     * its answers compressed, must not lengthen the margin that everybody's deadlines are cut by. */
    if (inference->packed.length == 0)
        port_replied(inference->home->port, inference->answered_ns - request->run_end_ns);
}

void inferences_publish(struct inferences *home) {
    atomic_store_explicit(&home->counters.inputs_bytes_taken, slab_bytes_taken(home->slab),
                          memory_order_relaxed); /* gauges */
    atomic_store_explicit(&home->counters.inputs_bytes_mapped, slab_bytes_mapped(home->slab), memory_order_relaxed);
}

void inferences_trim(struct inferences *home, int64_t now_ns) {
    if (slab_bytes_taken(home->slab) > 0) {
        home->busy_ns = now_ns;
    } else if (now_ns - home->busy_ns > IDLE_BEFORE_TRIM_S * NS_PER_S && slab_bytes_mapped(home->slab) > 0) {
        slab_trim(home->slab);
        inferences_publish(home);
    }
}
