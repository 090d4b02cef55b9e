/* executor.c - runs sealed batches on one accelerator. */
#include "backend/executor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "base/thread.h"
#include "profile/measure.h"
#include "transport/transport.h"

#define INPUT_ALIGN 64 /* of each input within the gather buffer */

struct executor {
    struct executor_config config;
    struct wiring *wiring;
    struct engine *engine;
    struct engine_model **models; /* [model_count]; NULL: not loaded */
    char *gather;                 /* inputs of a batch of several requests, one after the other */
    size_t gather_bytes;
    struct executor_counters counters;
    int64_t ended_ns;        /* the last batch */
    int64_t spin_until_ns;   /* before that it does not sleep */
    int64_t wake_ns;         /* a batch waits for its earliest start; TIME_NEVER: none does */
    struct doorbell loaded;  /* rung when loading is over */
    _Atomic int load_status; /* 1: loading, else 0 or -errno */
    struct sy_error load_error;
    bool *frontend_rung;
    pthread_t thread;
    _Atomic bool stop;
};

static void counter_add(_Atomic uint64_t *counter, uint64_t n) {
    /* statistics with one writer: no order, no read-modify-write */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

/* Makes room for a batch's inputs. Grows seldom: to the largest batch seen. */
static int gather_reserve(struct executor *x, size_t bytes, struct sy_error *err) {
    if (bytes <= x->gather_bytes)
        return 0;
    size_t rounded = (bytes + 4095) / 4096 * 4096;
    char *memory = aligned_alloc(4096, rounded);
    if (!memory)
        return error_set(err, -ENOMEM, "no memory for the inputs of a batch: %zu bytes", bytes);
    free(x->gather);
    x->gather = memory;
    x->gather_bytes = rounded;
    return 0;
}

/* Makes whole-batch inputs: in place for one request, else copied one after the other. */
static int gather_inputs(struct executor *x, const struct batch_plan *plan, struct tensor_view *inputs,
                         struct sy_error *err) {
    const struct signature *signature = &x->config.models[plan->served_model].signature;
    const struct request *first = transport_local.request(plan->handles[0]);
    size_t total = 0, offset = 0;

    memcpy(inputs, first->inputs, signature->input_count * sizeof(*inputs));
    if (plan->request_count == 1)
        return 0;
    for (uint32_t i = 0; i < signature->input_count; i++) {
        size_t item_bytes = first->inputs[i].bytes / first->items;
        total += (item_bytes * plan->items + INPUT_ALIGN - 1) / INPUT_ALIGN * INPUT_ALIGN;
    }
    int rc = gather_reserve(x, total, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < signature->input_count; i++) {
        size_t item_bytes = first->inputs[i].bytes / first->items, at = offset;
        for (uint32_t k = 0; k < plan->request_count; k++) {
            size_t bytes = item_bytes * transport_local.request(plan->handles[k])->items;
            if ((rc = transport_local.pull(plan->handles[k], i, x->gather + at, bytes, err)) < 0)
                return rc;
            at += bytes;
        }
        inputs[i].data = x->gather + offset;
        inputs[i].bytes = at - offset;
        inputs[i].dims[0] = plan->items;
        offset += (inputs[i].bytes + INPUT_ALIGN - 1) / INPUT_ALIGN * INPUT_ALIGN;
    }
    return 0;
}

/* Whether it is too late to start: every request's deadline has passed, so that running it helps nobody, or the
 * scheduler said so. */
static bool batch_expired(const struct batch_plan *plan, int64_t now) {
    if (now > plan->latest_ns)
        return true;
    for (uint32_t k = 0; k < plan->request_count; k++)
        if (transport_local.request(plan->handles[k])->deadline_ns > now)
            return false;
    return true;
}

static void answer(struct executor *x, uint64_t handle, const struct request *request) {
    struct wiring *w = x->wiring;
    struct ring *ring = &w->done[x->config.index * w->frontends + request->port];
    struct done_message *message = ring_reserve(ring);

    CHECK(message); /* a port has at most as many requests outstanding as the ring has slots */
    message->handle = handle;
    x->frontend_rung[request->port] = true;
    ring_push(ring);
}

struct run_result {
    enum request_status status;
    struct output_block *block;
    int64_t start_ns, end_ns;
    struct sy_error error;
};

/* Hands every request of the batch back to its frontend. */
static void answer_all(struct executor *x, const struct batch_plan *plan, const struct run_result *result) {
    struct wiring *w = x->wiring;
    uint32_t item = 0;

    if (result->block) /* before anyone else sees the block; published by the rings' release */
        atomic_store_explicit(&result->block->references, plan->request_count, memory_order_relaxed);
    for (uint32_t k = 0; k < plan->request_count; k++) {
        struct request *request = transport_local.request(plan->handles[k]);
        request->status = result->status;
        request->refusal = REFUSAL_DEADLINE;
        request->block = result->block;
        request->first_item = item;
        request->batch_items = plan->items;
        request->run_start_ns = result->start_ns;
        request->run_end_ns = result->end_ns;
        if (result->status == REQUEST_FAILED)
            snprintf(request->failure, sizeof(request->failure), "%.159s", result->error.text);
        item += request->items;
        answer(x, plan->handles[k], request);
    }
    for (uint32_t f = 0; f < w->frontends; f++)
        if (x->frontend_rung[f]) {
            x->frontend_rung[f] = false;
            ring_publish(&w->done[x->config.index * w->frontends + f]);
            doorbell_ring(&w->frontend_bells[f]);
        }
}

/* Tells the rank thread that the accelerator is free and the model thread what the run took. */
static void report(struct executor *x, uint32_t model_thread, const struct ran_message *ran) {
    struct wiring *w = x->wiring;
    struct ring *ring = &w->freed[x->config.index];

    if (!w->central) {
        struct freed_message *freed = ring_reserve(ring);
        CHECK(freed); /* at most two batches are under way */
        freed->accelerator = x->config.index;
        freed->ended_ns = x->ended_ns;
        ring_push(ring);
        ring_publish(ring);
        doorbell_ring(&w->rank_bell);
    }
    ring = &w->ran[x->config.index * w->model_threads + model_thread];
    struct ran_message *message = ring_reserve(ring);
    CHECK(message || !w->central); /* the ring of plans, of which this follows, is shorter */
    if (message) {                 /* a measurement lost because the model thread is far behind is no loss */
        *message = *ran;
        ring_push(ring);
        ring_publish(ring);
        doorbell_ring(&w->model_bells[model_thread]);
    }
}

static void run_batch(struct executor *x, uint32_t model_thread, const struct batch_plan *plan) {
    struct tensor_view inputs[TENSORS_MAX];
    struct engine_model *model = x->models[plan->served_model];
    struct run_result result = {.status = REQUEST_REFUSED, .start_ns = clock_now_ns()};
    struct ran_message ran = {
        .model = plan->model,
        .generation = plan->generation,
        .type = x->config.type,
        .items = plan->items,
        .accelerator = x->config.index,
        .tag = plan->tag,
        .dispatch_ns = plan->sealed_ns < x->ended_ns ? -1 : result.start_ns - plan->sealed_ns,
    };

    if (batch_expired(plan, result.start_ns)) {
        counter_add(&x->counters.expired_batches, 1);
    } else if (!model || gather_inputs(x, plan, inputs, &result.error) < 0) {
        result.status = REQUEST_FAILED;
        if (!model)
            error_set(&result.error, -ENOENT, "the model is not loaded on accelerator %u", x->config.index);
    } else {
        int64_t gathered = clock_now_ns();
        ran.gather_ns = gathered - result.start_ns;
        int rc = x->config.engine->run(model, inputs, plan->items, &result.block, &result.error);
        result.start_ns = gathered;
        result.status = rc < 0 ? REQUEST_FAILED : REQUEST_OK;
    }
    x->ended_ns = result.end_ns = clock_now_ns();
    x->spin_until_ns = x->ended_ns + (int64_t)(x->config.spin * (double)(x->ended_ns - result.start_ns));
    if (result.status == REQUEST_OK)
        ran.run_ns = result.end_ns - result.start_ns;
    else if (result.status == REQUEST_FAILED)
        counter_add(&x->counters.failed_batches, 1);
    counter_add(&x->counters.busy_ns, (uint64_t)(result.end_ns - result.start_ns));
    counter_add(&x->counters.batches, 1);
    counter_add(&x->counters.items, plan->items);
    counter_add(&x->counters.requests, plan->request_count);
    /* The accelerator is free before the answers are handed out: the next batch is chosen meanwhile. */
    report(x, model_thread, &ran);
    answer_all(x, plan, &result);
}

static bool poll_plans(struct executor *x) {
    struct wiring *w = x->wiring;
    bool any = false;

    x->wake_ns = TIME_NEVER;
    for (uint32_t t = 0; t < w->model_threads; t++) {
        struct ring *ring = &w->plans[t * w->executors + x->config.index];
        const struct batch_plan *plan = ring_peek(ring);
        if (!plan)
            continue;
        if (plan->earliest_ns > clock_now_ns()) {
            x->wake_ns = plan->earliest_ns;
            continue;
        }
        run_batch(x, t, plan);
        ring_pop(ring);
        ring_release(ring);
        any = true;
    }
    return any;
}

static bool anything_pending(struct executor *x) {
    for (uint32_t t = 0; t < x->wiring->model_threads; t++)
        if (ring_pending(&x->wiring->plans[t * x->wiring->executors + x->config.index]))
            return true;
    return atomic_load_explicit(&x->stop, memory_order_acquire); /* with executor_stop() */
}

/* A first run, and the first of a size, take up to twice as long (memory is mapped, weights are read): better now than
 * in front of clients, and than learnt as what the model takes. */
static void warm_model(struct executor *x, uint32_t index) {
    struct served_model *model = &x->config.models[index];
    const uint32_t batches[] = {1, profile_batch_best(x->config.profiles[index])};
    struct sy_error err;

    for (size_t i = 0; i < ARRAY_COUNT(batches); i++)
        if (measure_run(x->config.engine, x->models[index], &model->signature, model->reference_dims, batches[i],
                        &err) < 0)
            log_warn("trial run failed", "model=%s accelerator=%u batch=%u reason=\"%s\"", model->name, x->config.index,
                     batches[i], err.text);
}

static void load_model(struct executor *x, uint32_t index) {
    struct served_model *model = &x->config.models[index];
    struct sy_error err = {.text = ""};
    struct engine_model_source source = {
        .name = model->name,
        .path = model->path[0] ? model->path : NULL,
        .signature = &model->signature,
        .profile = x->config.profiles[index],
        .batch_max = model->batch_max,
    };

    /* acquire: the reason and the signature were written before the state */
    if (atomic_load_explicit(&model->state, memory_order_acquire) == MODEL_UNAVAILABLE)
        return;
    if (x->config.engine->load(x->engine, &source, &x->models[index], &err) < 0) {
        x->models[index] = NULL;
        snprintf(model->reason, sizeof(model->reason), "%s", err.text);
        /* release: with the loads of `state` before `reason` is read */
        atomic_store_explicit(&model->state, MODEL_UNAVAILABLE, memory_order_release);
        log_error("model cannot be loaded", "model=%s accelerator=%u reason=\"%s\"", model->name, x->config.index,
                  err.text);
    } else if (x->config.engine->signature && source.profile) { /* one that computes */
        warm_model(x, index);
    }
}

static int load_all(struct executor *x) {
    int rc = x->config.engine->open(&x->engine, &x->config.options, &x->load_error);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < x->config.model_count; i++)
        load_model(x, i);
    return 0;
}

static void unload_all(struct executor *x) {
    for (uint32_t i = 0; i < x->config.model_count; i++)
        if (x->models[i])
            x->config.engine->unload(x->models[i]);
    if (x->engine)
        x->config.engine->close(x->engine);
}

static void *executor_main(void *argument) {
    struct executor *x = argument;

    if (x->config.pin)
        thread_pin(&x->config.cores);
    thread_begin("executor", x->config.index, x->config.shared ? THREAD_SHARED : THREAD_COMPUTE);
    int rc = load_all(x);
    atomic_store_explicit(&x->load_status, rc, memory_order_release); /* with executor_wait_ready() */
    doorbell_ring(&x->loaded);
    while (!atomic_load_explicit(&x->stop, memory_order_acquire)) { /* with executor_stop() */
        if (poll_plans(x))
            continue;
        if (clock_now_ns() < x->spin_until_ns)
            continue;
        struct doorbell *bell = &x->wiring->executor_bells[x->config.index];
        doorbell_arm(bell);
        if (x->wake_ns == TIME_NEVER && anything_pending(x))
            doorbell_cancel(bell);
        else
            doorbell_sleep(bell, x->wake_ns);
    }
    unload_all(x);
    return NULL;
}

static void executor_free(struct executor *x) {
    doorbell_destroy(&x->loaded);
    free(x->models);
    free(x->gather);
    free(x->frontend_rung);
    free(x);
}

int executor_start(struct executor **executor, const struct executor_config *config, struct sy_error *err) {
    struct executor *x = aligned_alloc(CACHE_LINE, (sizeof(*x) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    int rc = -ENOMEM;

    if (!x)
        return error_set(err, rc, "no memory for accelerator %u", config->index);
    memset(x, 0, sizeof(*x));
    x->config = *config;
    x->wiring = config->wiring;
    atomic_init(&x->load_status, 1);
    doorbell_init(&x->loaded, false, false);
    x->models = calloc(config->model_count + 1, sizeof(*x->models));
    x->frontend_rung = calloc(x->wiring->frontends, sizeof(bool));
    if (!x->models || !x->frontend_rung) {
        error_set(err, rc, "no memory for accelerator %u", config->index);
        goto err_free;
    }
    rc = -pthread_create(&x->thread, NULL, executor_main, x);
    if (rc < 0) {
        error_set(err, rc, "cannot start the thread of accelerator %u: %s", config->index, strerror(-rc));
        goto err_free;
    }
    *executor = x;
    return 0;

err_free:
    executor_free(x);
    return rc;
}

int executor_wait_ready(struct executor *x, struct sy_error *err) {
    int status;

    for (;;) {
        doorbell_arm(&x->loaded);
        status = atomic_load_explicit(&x->load_status, memory_order_acquire); /* with executor_main() */
        if (status <= 0)
            break;
        doorbell_sleep(&x->loaded, TIME_NEVER);
    }
    doorbell_cancel(&x->loaded);
    if (status < 0)
        return error_set(err, status, "accelerator %u: %s", x->config.index, x->load_error.text);
    return 0;
}

void executor_stop(struct executor *x) {
    atomic_store_explicit(&x->stop, true, memory_order_release); /* with the loop's and anything_pending()'s loads */
    doorbell_ring(&x->wiring->executor_bells[x->config.index]);
    pthread_join(x->thread, NULL);
    executor_free(x);
}

const struct executor_counters *executor_counters(const struct executor *x) {
    return &x->counters;
}
