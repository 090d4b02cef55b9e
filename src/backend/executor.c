/* executor.c - the thread of an executor: loads models, polls for sealed batches, sleeps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/executor_state.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "base/thread.h"
#include "profile/measure.h"

#define NEWS_AGAIN_NS (50 * NS_PER_US)

/* Runs the oldest plan of each ring. */
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
        if (executor_member(x, plan->accelerator)->dead) {
            batch_lose(x, t, plan);
            executor_publish_reports(x);
            executor_publish_answers(x);
        } else {
            batch_run(x, t, plan);
        }
        ring_pop_run(ring, batch_plan_slots(plan->request_count));
        ring_release(ring);
        any = true;
    }
    return any;
}

static bool anything_pending(struct executor *x) {
    for (uint32_t t = 0; t < x->wiring->model_threads; t++)
        if (ring_pending(&x->wiring->plans[t * x->wiring->executors + x->config.index]))
            return true;
    return ring_pending(&x->wiring->commands[x->config.index]) ||
           atomic_load_explicit(&x->stop, memory_order_acquire); /* with executor_stop() */
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
            log_warn("trial run failed", "model=%s accelerator=%u batch=%u reason=\"%s\"", model->name,
                     x->config.first_accelerator, batches[i], err.text);
        else
            x->warmed[index] = true;
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
        log_error("model cannot be loaded", "model=%s accelerator=%u reason=\"%s\"", model->name,
                  x->config.first_accelerator, err.text);
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
        bool any = membership_poll(x);
        any |= x->emulation ? emulation_poll(x) : poll_plans(x);
        if (any)
            continue;
        if (x->news && x->wake_ns > clock_now_ns() + NEWS_AGAIN_NS) /* a ring was full, and has no bell of ours */
            x->wake_ns = clock_now_ns() + NEWS_AGAIN_NS;
        if (clock_now_ns() < x->spin_until_ns)
            continue;
        struct doorbell *bell = &x->wiring->executor_bells[x->config.index];
        doorbell_arm(bell);
        if ((x->emulation || x->wake_ns == TIME_NEVER) && anything_pending(x))
            doorbell_cancel(bell);
        else
            doorbell_sleep(bell, x->wake_ns);
    }
    unload_all(x);
    return NULL;
}

static void executor_free(struct executor *x) {
    doorbell_destroy(&x->loaded);
    emulation_free(x->emulation);
    free(x->models);
    free(x->warmed);
    free(x->gather);
    free(x->counters);
    free(x->members);
    free(x->frontend_rung);
    free(x->model_rung);
    free(x);
}

int executor_start(struct executor **executor, const struct executor_config *config, struct sy_error *err) {
    struct executor *x = aligned_alloc(CACHE_LINE, (sizeof(*x) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    int rc = -ENOMEM;

    if (!x)
        return error_set(err, rc, "no memory for accelerator %u", config->first_accelerator);
    memset(x, 0, sizeof(*x));
    x->config = *config;
    x->wiring = config->wiring;
    atomic_init(&x->load_status, 1);
    doorbell_init(&x->loaded, false, false);
    x->models = calloc(config->model_count + 1, sizeof(*x->models));
    x->warmed = calloc(config->model_count + 1, sizeof(*x->warmed));
    x->counters = calloc(config->accelerators, sizeof(*x->counters));
    x->members = calloc(config->accelerators, sizeof(*x->members));
    x->frontend_rung = calloc(x->wiring->frontends, sizeof(bool));
    x->model_rung = calloc(x->wiring->model_threads, sizeof(bool));
    if (config->engine->emulate)
        x->emulation = emulation_new(config);
    if (!x->models || !x->warmed || !x->counters || !x->members || !x->frontend_rung || !x->model_rung ||
        !x->emulation != !config->engine->emulate) {
        error_set(err, rc, "no memory for accelerator %u", config->first_accelerator);
        goto err_free;
    }
    rc = -pthread_create(&x->thread, NULL, executor_main, x);
    if (rc < 0) {
        error_set(err, rc, "cannot start the thread of accelerator %u: %s", config->first_accelerator, strerror(-rc));
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
        return error_set(err, status, "accelerator %u: %s", x->config.first_accelerator, x->load_error.text);
    return 0;
}

void executor_stop(struct executor *x) {
    atomic_store_explicit(&x->stop, true, memory_order_release); /* with the loop's and anything_pending()'s loads */
    doorbell_ring(&x->wiring->executor_bells[x->config.index]);
    pthread_join(x->thread, NULL);
    executor_free(x);
}

const struct executor_counters *executor_counters(const struct executor *x, uint32_t accelerator) {
    return &x->counters[accelerator - x->config.first_accelerator];
}
