/* inference.c - slots of infer requests, and their hand-over. */
#include "front/request/inference.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/output_block.h"
#include "core/system/clock.h"
#include "core/util/assert.h"
#include "core/util/container.h"
#include "front/request/classify.h"
#include "front/request/ensemble_run.h"
#include "front/request/preparation.h"
#include "front/request/preparer.h"
#include "front/request/refusal.h"
#include "front/request/request_trail.h"
#include "sched/threads/wiring.h"

#define NO_FREE        UINT32_MAX
#define SLO_DEFAULT_NS NS_PER_S /* SLO of a model for which nobody chose one */
/* A deadline that nobody asked for refuses no request: one that misses it is answered late, within LATE_MOST_NS or
 * LATE_SLOS times the SLO, whichever is longer, after its inputs are there. A long run needs more (late_most_ns()). */
#define LATE_MOST_NS       NS_PER_S
#define LATE_SLOS          4
#define IDLE_BEFORE_TRIM_S 10
#define ROOM_MIN           ((size_t)4 * 1024)    /* least room for a body */
#define ROOM_BELIEVED      ((size_t)1024 * 1024) /* most room that an announced length gets at once */

static struct inference *slot(const struct inferences *home, uint32_t index) {
    return (struct inference *)(home->slots + index * home->slot_bytes);
}

int inferences_init(struct inferences *home, const struct inferences_config *config) {
    *home = (struct inferences){.port = config->port,
                                .slot_bytes = (config->slot_bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE,
                                .slot_count = config->slot_count,
                                .shared = {.memory = config->shared},
                                .preparer = config->preparer,
                                .free = NO_FREE,
                                .read = NO_FREE,
                                .busy_ns = clock_now_ns()};
    list_init(&home->preparations);
    /* the pages of calloc() take no memory until a request uses them */
    home->slots = calloc(home->slot_count, home->slot_bytes);
    home->slab = config->port && port_is_visible(config->port)
                     ? slab_create_visible(config->inputs_bytes_max, false, port_is_pinned(config->port))
                     : slab_create(config->inputs_bytes_max);
    if (!home->slots || !home->slab)
        return -ENOMEM;
    size_t bytes;
    uintptr_t base = slab_range(home->slab, &bytes);
    if (home->port)
        port_region(home->port, base, bytes, slab_fd(home->slab));
    home->times = calloc(config->model_count + 1, sizeof(struct inference_times *));
    home->tracing = config->tracing;
    home->untraced = calloc(config->model_count + 1, sizeof(*home->untraced));
    home->id_next = (uint64_t)clock_now_ns() ^ (uint64_t)(uintptr_t)home->slots << 16;
    int rc = infer_counters_init(&home->counters, config->model_count);
    if (trails_init(&home->trails, config->trails_keep, config->trails_every) < 0)
        rc = -ENOMEM;
    return home->times && home->untraced ? rc : -ENOMEM;
}

/* Whether a run that was given up may still read what the request holds. */
static bool is_read(const struct inference *inference) {
    return inference->request.kind->is_read(inference);
}

void inferences_destroy(struct inferences *home) {
    bool read = false;
    for (uint32_t i = home->read; i != NO_FREE && !read; i = slot(home, i)->free_next)
        read = is_read(slot(home, i));
    if (read) { /* by a hanging run: the memory stays until the process ends */
        home->slab = NULL;
        home->slots = NULL;
    }
    shared_view_end(&home->shared);
    slab_destroy(home->slab);
    for (uint32_t i = 0; home->times && i < home->counters.model_count; i++)
        free(home->times[i]);
    free(home->times);
    free(home->untraced);
    infer_counters_destroy(&home->counters);
    trails_free(&home->trails);
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
    taken->run = NULL;
    taken->holder = NULL;
    taken->request.kind = &request_plain;
    taken->request.preparing = taken->request.step = false;
    taken->state = INFERENCE_UPLOAD;
    taken->local = taken->cancelled = taken->limited = taken->bulk = taken->slow = taken->trail = false;
    taken->id.length = 0;
    taken->id.trace.flags = 0;
    taken->slab = home->slab;
    taken->blocks = taken->few_blocks;
    taken->block_count = taken->region_count = 0;
    taken->request.block = NULL;
    taken->request.readers = 0;
    taken->request.arrival_ns = taken->request.complete_ns = now_ns;
    taken->request.due_ns = taken->request.prepared_ns = taken->request.run_start_ns = 0;
    taken->request.status = REQUEST_FAILED;
    text_init(&taken->text, taken->text_memory, sizeof(taken->text_memory));
    text_init(&taken->classes, NULL, 0);
    text_init(&taken->packed, NULL, 0);
    gauge_add(&home->counters.in_flight, 1);
    return taken;
}

static void regions_give(struct inference *inference) {
    while (inference->region_count > 0) {
        struct shared_region *region = inference->call.outputs[--inference->region_count].held;
        if (region)
            shared_region_put(region);
    }
}

void inference_blocks_give(struct inference *inference) {
    regions_give(inference); /* the call may lie in one of the blocks */
    if (is_read(inference))  /* inferences_look() does it later, with the slot */
        return;
    if (inference->request.kind->inputs_give)
        inference->request.kind->inputs_give(inference);
    while (inference->block_count > 0)
        slab_give(inference->blocks[--inference->block_count]);
    if (inference->blocks != inference->few_blocks)
        slab_give(inference->blocks);
    inference->blocks = inference->few_blocks;
}

void inference_block_give(void *context, void *block) {
    struct inference *inference = context;
    for (uint32_t i = 0; i < inference->block_count; i++)
        if (inference->blocks[i] == block) {
            inference->blocks[i] = inference->blocks[--inference->block_count];
            slab_give(block);
            return;
        }
    CHECK(!"a block of this inference");
}

/* release: all that was done with the model comes before a thread sees that nobody holds it, and frees it */
void inferences_hold(struct inferences *home, uint32_t model, int32_t n) {
    _Atomic uint32_t *held = &home->counters.models[model].held;
    atomic_store_explicit(held, atomic_load_explicit(held, memory_order_relaxed) + (uint32_t)n, memory_order_release);
}

static void list_push(struct inferences *home, uint32_t *list, struct inference *inference) {
    inference->free_next = *list;
    *list = (uint32_t)((size_t)((char *)inference - home->slots) / home->slot_bytes);
}

/* Gives back a slot whose inputs nobody reads any more. */
static void slot_give(struct inferences *home, struct inference *inference) {
    if (inference->request.kind->end)
        inference->request.kind->end(inference);
    inference_blocks_give(inference);
    if (inference->model)
        inferences_hold(home, inference->request.model, -1);
    inference->state = INFERENCE_FREE;
    list_push(home, &home->free, inference);
}

void inference_free(struct inference *inference) {
    struct inferences *home = inference->home;
    CHECK(inference->state != INFERENCE_RUNNING && inference->state != INFERENCE_ORDERED &&
          inference->state != INFERENCE_BULK && inference->state != INFERENCE_FREE);
    regions_give(inference);
    output_block_put(inference->request.block);
    text_free(&inference->text);
    text_free(&inference->classes);
    text_free(&inference->packed);
    gauge_add(&home->counters.in_flight, -1);
    if (inference->holder)
        --*inference->holder;
    if (is_read(inference)) {
        inference->state = INFERENCE_READ;
        list_push(home, &home->read, inference);
    } else {
        slot_give(home, inference);
    }
}

void inferences_look(struct inferences *home) {
    uint32_t next = home->read;
    home->read = NO_FREE;
    while (next != NO_FREE) {
        struct inference *inference = slot(home, next);
        next = inference->free_next;
        if (is_read(inference))
            list_push(home, &home->read, inference);
        else
            slot_give(home, inference);
    }
}

void inference_model(struct inference *inference, const struct served_model *models, uint32_t index) {
    inference->model = &models[index];
    inference->request.model = index;
    inference->request.ahead =
        atomic_load_explicit(&inference->home->counters.models[index].held, memory_order_relaxed); /* its own word */
    inferences_hold(inference->home, index, 1);
}

/* Room for all blocks that a request may have. False: no memory. */
static bool blocks_grow(struct inference *inference) {
    void **blocks = slab_take(inference->slab, INFERENCE_BLOCKS_MAX * sizeof(*blocks));
    if (!blocks)
        return false;
    memcpy(blocks, inference->few_blocks, sizeof(inference->few_blocks));
    inference->blocks = blocks;
    return true;
}

void *inference_block(void *context, size_t bytes) {
    struct inference *inference = context;
    CHECK_LT(inference->block_count, INFERENCE_BLOCKS_MAX);
    if (inference->block_count == INFERENCE_BLOCKS_FEW && inference->blocks == inference->few_blocks &&
        !blocks_grow(inference))
        return NULL;
    void *block = slab_take(inference->slab, bytes);
    if (block)
        inference->blocks[inference->block_count++] = block;
    return block;
}

size_t inference_room(const struct inference *inference, size_t arrived, size_t expected) {
    size_t room = 2 * arrived < ROOM_MIN ? ROOM_MIN : 2 * arrived;
    if (expected != SIZE_MAX && slab_plenty(inference->home->slab) && room < ROOM_BELIEVED)
        room = ROOM_BELIEVED;
    return room < expected ? room : expected;
}

/* ---- shared memory ---- */

static int input_fetch(struct inference *inference, uint32_t index, struct sy_error *err) {
    const struct infer_shared *place = &inference->call.shared[index];
    int status = 0;
    struct shared_region *region = shared_view_find(&inference->home->shared, place, inference->local, &status, err);
    if (!region)
        return status;
    void *data = inference_block(inference, place->bytes);
    status =
        data ? shared_region_read(region, place, data, err) : error_set(err, 503, "the memory for inputs is exhausted");
    shared_region_put(region);
    return status ? status : infer_call_data(&inference->call, inference->model, index, data, place->bytes, err);
}

/* Reads inputs, and finds outputs' regions: mistakes in them are answered before the run. */
static int shared_fetch(struct inference *inference, struct sy_error *err) {
    const struct infer_call *call = &inference->call;
    int status = 0;
    for (uint32_t i = 0; i < inference->model->signature.input_count && status == 0; i++)
        if (call->inputs_shared & tensor_bit(i))
            status = input_fetch(inference, i, err);
    for (uint32_t i = 0; i < call->output_count && status == 0; i++) {
        struct infer_output *output = &call->outputs[i];
        if (!output->shared.region)
            continue;
        output->held = shared_view_find(&inference->home->shared, &output->shared, inference->local, &status, err);
        inference->region_count = i + 1;
    }
    return status;
}

static int shared_store(struct inference *inference, struct sy_error *err) {
    const struct infer_call *call = &inference->call;
    const struct output_block *block = inference->request.block;
    for (uint32_t i = 0; i < call->output_count; i++) {
        struct tensor_view part;
        if (!call->outputs[i].shared.region)
            continue;
        if (infer_output_slice(&part, inference->model, call, &call->outputs[i], block->outputs, block->output_count,
                               inference->request.first_item, err) < 0)
            return 500;
        int status = shared_region_write(call->outputs[i].held, &call->outputs[i].shared, part.data, part.bytes, err);
        if (status)
            return status;
    }
    return 0;
}

/* ---- kinds of requests that are inferences of one model ---- */

static int inputs_submit(struct inference *inference, struct preparation *preparation, struct sy_error *err) {
    struct request *request = &inference->request;
    request->shape_key = inference->call.shape_key;
    request->work = inference->call.work;
    request->inputs = inference->call.inputs;
    request->input_count = inference->model->signature.input_count;
    return inferences_submit(inference->home, request, preparation, 0, err);
}

static int plain_submit(struct inference *inference, struct sy_error *err) {
    return inputs_submit(inference, NULL, err);
}

static int prepared_submit(struct inference *inference, struct sy_error *err) {
    int status = preparation_make(inference->home, inference->model, &inference->call, &inference->preparation, err);
    return status ? status : inputs_submit(inference, inference->preparation, err);
}

static void plain_cancel(struct inference *inference) {
    port_cancel(inference->home->port, &inference->request);
}

static void prepared_cancel(struct inference *inference) {
    preparation_drop(inference->preparation);
    plain_cancel(inference);
}

static struct inference *plain_returned(struct request *request) {
    return container_of(request, struct inference, request);
}

static struct inference *prepared_returned(struct request *request) {
    struct inference *inference = plain_returned(request);
    preparation_waited(inference->preparation);
    return inference;
}

/* The list of models, which only the frontend's thread may read; NULL for others. */
static const struct model_index *models_of(const struct inference *inference) {
    return inference->state == INFERENCE_BULK ? NULL : inference->home->models;
}

static unsigned plain_failed(const struct inference *inference, bool *retry, struct sy_error *err) {
    const struct request *request = &inference->request;
    if (request->status == REQUEST_REFUSED)
        return refusal_result(inference->model, request, inference->limited, models_of(inference), clock_now_ns(),
                              retry, err);
    if (request->status == REQUEST_FAILED)
        return (unsigned)error_set(err, 500, "model '%s' failed: %s", inference->model->name, request_failure(request));
    return 0;
}

static unsigned prepared_failed(const struct inference *inference, bool *retry, struct sy_error *err) {
    unsigned status = preparation_failed(inference->preparation, err);
    return status ? status : plain_failed(inference, retry, err);
}

static struct labels *model_labels(const struct inference *inference, uint32_t output) {
    return inference->model->labels[output];
}

static bool inputs_are_read(const struct inference *inference) {
    return request_is_read(&inference->request);
}

static void prepared_inputs_give(struct inference *inference) {
    preparation_free(inference->preparation);
    inference->preparation = NULL;
}

const struct request_kind request_plain = {
    .submit = plain_submit,
    .cancel = plain_cancel,
    .returned = plain_returned,
    .failed = plain_failed,
    .labels = model_labels,
    .is_read = inputs_are_read,
    .shares_outputs = true,
};

static const struct request_kind request_prepared = {
    .submit = prepared_submit,
    .cancel = prepared_cancel,
    .returned = prepared_returned,
    .failed = prepared_failed,
    .labels = model_labels,
    .is_read = inputs_are_read,
    .inputs_give = prepared_inputs_give,
    .shares_outputs = true,
};

/* ---- the way to the scheduler and back ---- */

/* The time for which a request may wait and run once its inputs are there, if the server has chosen its SLO. Such an
 * SLO is ten times a lone run of one profiled item, or more. A request of many or large items has that time for each
 * item, up to the wait of best effort, so that its own run always fits. The wait for a full batch, which the model's
 * configuration asks for, is added. */
static int64_t late_most_ns(const struct infer_call *call, const struct served_model *model, int64_t slo_ns) {
    double run_ns = (double)slo_ns * call->items * (call->work > 1 ? (double)call->work : 1);
    int64_t most_ns = LATE_SLOS * slo_ns > LATE_MOST_NS ? LATE_SLOS * slo_ns : LATE_MOST_NS;
    int64_t long_ns = run_ns < (double)BEST_EFFORT_WAIT_NS ? (int64_t)run_ns : BEST_EFFORT_WAIT_NS;
    most_ns = most_ns > long_ns ? most_ns : long_ns;
    return most_ns + model->queue.wait_ns;
}

/* Sets the request's class; returns how long it may take. *late_ns: how long it may take after its inputs are there if
 * it is late; 0 if somebody asked for the deadline. */
static int64_t class_set(struct request *request, const struct infer_call *call, const struct served_model *model,
                         int64_t *late_ns) {
    int64_t asked_ns = call->timeout_us * NS_PER_US, own_ns = served_model_slo_ns(model);
    int64_t slo_ns = own_ns > 0 ? own_ns : SLO_DEFAULT_NS;
    *late_ns = 0;
    request->delay = false;
    request->priority = PRIORITY_BEST_EFFORT;
    if (call->best_effort || (model->best_effort && asked_ns == 0))
        return asked_ns > 0 ? asked_ns : BEST_EFFORT_WAIT_NS;
    request->priority = queue_rules_priority(&model->queue, call->priority);
    const struct queue_rule *rule = &model->queue.rules[request->priority];
    request->delay = rule->delay;
    if ((model->slo_chosen || own_ns <= 0) && asked_ns == 0 && rule->timeout_ns == 0 && !rule->delay)
        *late_ns = late_most_ns(call, model, slo_ns);
    return queue_rules_timeout(&model->queue, request->priority, asked_ns, slo_ns);
}

/* Sets the request's deadlines. limit_ns is the client's own, which counts if it is earlier. */
static void deadline_set(struct inference *inference, int64_t limit_ns) {
    struct request *request = &inference->request;
    int64_t late_ns, slo_ns = class_set(request, &inference->call, inference->model, &late_ns);
    request->deadline_ns = request->arrival_ns + slo_ns;
    request->late_until_ns = late_ns > 0 ? clock_now_ns() + late_ns : 0; /* a body may have taken longer than that */
    int64_t last_ns = late_ns > 0 ? request->late_until_ns : request->deadline_ns;
    inference->limited = limit_ns > 0 && limit_ns < last_ns;
    if (inference->limited && limit_ns <= request->deadline_ns) {
        request->deadline_ns = limit_ns;
        request->late_until_ns = 0;
    } else if (inference->limited) {
        request->late_until_ns = limit_ns;
    }
    request->due_ns = request->deadline_ns;
}

unsigned inference_late(struct inference *inference, const char *words, size_t bytes, int64_t limit_ns, bool behind,
                        int64_t now_ns, struct sy_error *err) {
    static const char *const others[] = {"timeout", "priority", "best_effort"};
    static const struct infer_call plain;
    struct request *request = &inference->request;
    int64_t waited_ns = now_ns - request->arrival_ns, late_ns;
    if (2 * waited_ns <= served_model_slo_ns(inference->model)) /* nearly all, so they pay for no more */
        return 0;
    int64_t allowed_ns = class_set(request, &plain, inference->model, &late_ns);
    bool limited = limit_ns > 0 && limit_ns - request->arrival_ns < allowed_ns, retry;
    allowed_ns = limited ? limit_ns - request->arrival_ns : allowed_ns;
    if (waited_ns <= (behind ? allowed_ns / 2 : allowed_ns) || late_ns > 0 || request->delay ||
        request->priority == PRIORITY_BEST_EFFORT)
        return 0;
    for (unsigned i = 0; i < ARRAY_COUNT(others); i++)
        if (memmem(words, bytes, others[i], strlen(others[i])))
            return 0;
    request->deadline_ns = request->due_ns = request->arrival_ns + allowed_ns;
    request->late_until_ns = 0;
    request->status = REQUEST_REFUSED;
    request->refusal = REFUSAL_DEADLINE;
    request->cause = CAUSE_UNREAD;
    if (waited_ns <= allowed_ns)
        return (unsigned)error_set(err, 503,
                                   "this frontend is behind: half of this request's time, %.6g ms, was over before it "
                                   "was read",
                                   (double)allowed_ns / 2 / (double)NS_PER_MS);
    return refusal_result(inference->model, request, limited, NULL, now_ns, &retry, err);
}

int inferences_submit(struct inferences *home, struct request *request, struct preparation *preparation,
                      int64_t deadline_most_ns, struct sy_error *err) {
    int rc = preparation ? preparation_submit(home, request, preparation, deadline_most_ns)
                         : port_submit(home->port, request);
    if (rc == -EFAULT)
        return error_set(err, 500, "an input lies where no accelerator can read it");
    if (rc == -ENOBUFS)
        return error_set(err, 503, "the inputs of %d requests are being prepared, as many as may", PREPARATIONS_MAX);
    if (rc < 0)
        return error_set(err, 503, "this frontend has as many %srequests outstanding as it may: %u",
                         rc == -EBUSY ? "best-effort " : "", port_most(home->port, rc == -EBUSY));
    return 0;
}

unsigned inference_submit(struct inference *inference, int64_t limit_ns, struct sy_error *err) {
    const struct served_model *model = inference->model;
    struct request *request = &inference->request;
    if (limit_ns > 0 &&
        limit_ns <= clock_now_ns()) /* nobody waits for the answer, so the scheduler should not even see the request */
        return (unsigned)error_set(err, 504, "the client's deadline passed before the request was there");
    deadline_set(inference, limit_ns);
    inference->trail |= inference->call.trail;
    request_id_set(&inference->id, inference->call.id, inference->call.id_length);
    request->items = inference->call.items;
    request->kind = model->ensemble ? &request_ensemble : model->prepared ? &request_prepared : &request_plain;
    int status = shared_fetch(inference, err);
    if (!status)
        status = request->kind->submit(inference, err);
    if (status)
        return (unsigned)status;
    inference->state = INFERENCE_RUNNING;
    inference->home->running++;
    return 0;
}

void inference_cancel(struct inference *inference) {
    if (inference->state != INFERENCE_RUNNING || inference->cancelled)
        return;
    inference->cancelled = true;
    inference->request.kind->cancel(inference);
}

void inferences_cancel(struct inferences *home) {
    for (uint32_t i = 0; i < home->fresh; i++)
        inference_cancel(slot(home, i));
}

bool inferences_away(const struct inferences *home) {
    bool away = home->running > 0 || home->preparing > 0;
    for (uint32_t i = 0; i < home->fresh && !away; i++)
        away = slot(home, i)->state == INFERENCE_BULK;
    return away;
}

struct inference *inferences_next(struct inferences *home) {
    struct inference *inference = ensemble_runs_next(home);
    for (struct request *request; !inference && (request = port_next(home->port));)
        inference = request->kind->returned(request);
    if (!inference)
        return NULL;
    CHECK_EQ(inference->state, INFERENCE_RUNNING);
    home->running--;
    inference->state = INFERENCE_FINISHED;
    return inference;
}

unsigned inference_result(struct inference *inference, bool *retry, struct sy_error *err) {
    const struct request *request = &inference->request;
    *retry = false;
    unsigned failed = request->kind->failed(inference, retry, err);
    if (failed)
        return failed;
    if (inference->call.classified) {
        struct labels *labels[TENSORS_MAX];
        for (uint32_t i = 0; i < inference->model->signature.output_count; i++)
            labels[i] = request->kind->labels(inference, i);
        int rc = classify_outputs(&inference->call, inference->model, labels, request->block->outputs,
                                  request->block->output_count, request->first_item, &inference->classes, err);
        if (rc < 0)
            return rc == -E2BIG ? 400 : 500;
    }
    int status = inference->region_count > 0 ? shared_store(inference, err) : 0;
    return status ? (unsigned)status : 200;
}

void inference_answered(struct inference *inference, unsigned status) {
    inference->state = INFERENCE_SENDING;
    inference->status = status;
    inference->answered_ns = clock_now_ns();
}

void inference_detach(struct inference *inference) {
    struct output_block *block = inference->request.block;
    struct infer_answer *answer = &inference->answer;
    size_t batch = 0, own = 0;
    if (!block || !inference->request.kind->shares_outputs || inference->packed.length > 0)
        return;
    for (uint32_t i = 0; i < block->output_count; i++)
        batch += block->outputs[i].bytes;
    for (int p = 1; p < answer->piece_count; p++)
        own += answer->pieces[p].iov_len;
    if (batch <= 2 * own || !text_reserve(&inference->packed, own))
        return;
    for (int p = 1; p < answer->piece_count; p++) { /* the first is the text */
        char *copy = inference->packed.data + inference->packed.length;
        text_append(&inference->packed, answer->pieces[p].iov_base, answer->pieces[p].iov_len);
        answer->pieces[p].iov_base = copy;
    }
    output_block_put(block);
    inference->request.block = NULL;
}

static enum outcome outcome_by(unsigned status) {
    return status == 200                    ? OUTCOME_OK
           : status == 503 || status == 504 ? OUTCOME_REFUSED
           : status < 500 || status == 501  ? OUTCOME_CLIENT_ERROR
                                            : OUTCOME_FAILED;
}

static enum outcome outcome_of(const struct inference *inference, bool sent) {
    return !sent || inference->state != INFERENCE_SENDING ? OUTCOME_CANCELLED : outcome_by(inference->status);
}

void inferences_count(struct inferences *home, const struct request *request, enum outcome outcome, int64_t end_ns) {
    struct model_infer_counters *counters = &home->counters.models[request->model];
    counter_add(&counters->outcomes[outcome], 1);
    if (outcome == OUTCOME_REFUSED)
        counter_add(&counters->refused[request->status == REQUEST_REFUSED ? request->refusal : REFUSAL_NONE], 1);
    if (outcome == OUTCOME_REFUSED || outcome == OUTCOME_FAILED)
        counter_add(&counters->fail_ns, (uint64_t)(end_ns - request->arrival_ns));
    if (outcome != OUTCOME_OK)
        return;
    counter_add(&counters->items, request->items);
    counter_add(&counters->run_ns, (uint64_t)(request->run_end_ns - request->run_start_ns));
    counter_add(&counters->reply_ns, (uint64_t)(end_ns - request->run_end_ns));
    atomic_store_explicit(&counters->last_ns, end_ns, memory_order_relaxed); /* statistics */
    fine_histogram_add(&counters->latency_ns, end_ns - request->arrival_ns);
    histogram_add(&counters->queue_ns, request->run_start_ns - request->arrival_ns);
    if (end_ns <= request->due_ns)
        counter_add(&counters->in_time, 1);
}

void inference_id_complete(struct inference *inference, const struct request_id *of_headers) {
    request_id_set(&inference->id, of_headers->text, of_headers->length);
    if (of_headers->trace.flags)
        inference->id.trace = of_headers->trace;
    request_id_make(&inference->id, inference->home->id_next++);
}

static enum trail_state state_of(const struct request *request, enum outcome outcome, int64_t end_ns) {
    return outcome == OUTCOME_REFUSED  ? TRAIL_REFUSED
           : outcome == OUTCOME_FAILED ? TRAIL_FAILED
           : end_ns > request->due_ns  ? TRAIL_LATE
                                       : TRAIL_IN_TIME;
}

struct trail inference_trail(const struct inference *inference, unsigned status, int64_t now_ns) {
    enum trail_state state = state_of(&inference->request, outcome_by(status), now_ns);
    struct trail trail = request_trail(&inference->request, state, now_ns);
    trail.model = inference->request.model;
    trail.status = (uint16_t)status;
    return trail;
}

/* Notes the trail of an inference whose answer has gone out, if it is to be kept or traced. */
static void trail_note(const struct inference *inference, enum outcome outcome, int64_t sent_ns) {
    struct inferences *home = inference->home;
    uint32_t model = inference->request.model;
    bool good = outcome == OUTCOME_OK && sent_ns <= inference->request.due_ns;
    if (!trails_kept(&home->trails) ||
        (outcome != OUTCOME_OK && outcome != OUTCOME_REFUSED && outcome != OUTCOME_FAILED))
        return;
    bool kept = !good || inference->id.trace.flags & TRACE_SAMPLED || trails_sample(&home->trails);
    bool traced = home->tracing && tracing_takes(home->tracing, model, &home->untraced[model]);
    if (!kept && !traced)
        return;
    struct trail trail = inference_trail(inference, inference->status, sent_ns);
    trail.model_key = (uint32_t)served_model_key(inference->model);
    trail.id_length = inference->id.length < TRAIL_ID_BYTES ? inference->id.length : TRAIL_ID_BYTES;
    memcpy(trail.id, inference->id.text, trail.id_length);
    if (inference->id.trace.flags)
        trail.trace = inference->id.trace;
    if (kept)
        trails_note(&home->trails, trail.state, &trail);
    if (traced)
        trails_note(&home->trails, TRAIL_TRACED, &trail);
}

void inference_count(const struct inference *inference, int64_t sent_ns) {
    const struct request *request = &inference->request;
    if (!inference->model)
        return;
    enum outcome outcome = outcome_of(inference, sent_ns > 0);
    inferences_count(inference->home, request, outcome, sent_ns);
    trail_note(inference, outcome, sent_ns);
    if (outcome != OUTCOME_OK)
        return;
    /* A client that reads slowly, or wants compressed or large answers, must not lengthen the margin that is taken off
     * everybody's deadlines. */
    if (inference->packed.length == 0 && !inference->bulk && !inference->slow)
        port_replied(inference->home->port, sent_ns - request->run_end_ns);
}

size_t inference_answer_work(const struct inference *i, bool as_json, bool compressed) {
    const struct output_block *block = i->request.block;
    size_t json = 0, copied = 0, all = 0;
    if (i->request.status != REQUEST_OK)
        return 0;
    for (uint32_t o = 0; o < i->call.output_count; o++) {
        const struct infer_output *wanted = &i->call.outputs[o];
        size_t bytes = wanted->index < block->output_count ? block->outputs[wanted->index].bytes : 0;
        bytes = bytes / (i->request.batch_items ? i->request.batch_items : 1) * i->request.items;
        all += bytes;
        copied += wanted->shared.region || i->call.output_count > INFER_ANSWER_OUTPUTS ? bytes : 0;
        json += wanted->classified || (as_json && !wanted->binary && !wanted->shared.region) ? bytes : 0;
    }
    bool long_work = json > BULK_JSON_BYTES || copied > BULK_COPY_BYTES || (compressed && all > BULK_DEFLATE_BYTES);
    return long_work ? all : 0;
}

void inference_to_bulk(struct inference *inference, struct bulk *bulk, struct bulk_job *job) {
    inference->state = INFERENCE_BULK;
    inference->bulk = true;
    inference->slab = bulk_slab(bulk);
    bulk_submit(bulk, job);
}

void inference_from_bulk(struct inference *inference, enum inference_state state) {
    inference->state = state;
    inference->slab = inference->home->slab;
}

void inferences_publish(struct inferences *home) {
    atomic_store_explicit(&home->counters.inputs_bytes_taken, slab_bytes_taken(home->slab),
                          memory_order_relaxed); /* gauges */
    atomic_store_explicit(&home->counters.inputs_bytes_mapped, slab_bytes_mapped(home->slab), memory_order_relaxed);
}

void inferences_trim(struct inferences *home, int64_t now_ns) {
    if (home->read != NO_FREE)
        inferences_look(home);
    shared_view_look(&home->shared);
    if (slab_bytes_taken(home->slab) > 0) {
        home->busy_ns = now_ns;
    } else if (now_ns - home->busy_ns > IDLE_BEFORE_TRIM_S * NS_PER_S && slab_bytes_mapped(home->slab) > 0) {
        slab_trim(home->slab);
        inferences_publish(home);
    }
}
