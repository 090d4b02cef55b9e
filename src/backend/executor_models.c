/* executor_models.c - the models of an executor: those there from the start, which its thread loads, and those that
 * come and go, which another thread loads and frees beside it. */
#include "backend/executor_state.h"
#include "base/clock.h"
#include "base/log.h"
#include "profile/measure.h"

#define WARM_NS_MAX (2 * NS_PER_S) /* for one model; batch sizes that are left then are not run */

/* A first run, and the first of a size, take up to twice as long (memory is mapped, weights are read): better now than
 * in front of clients, and than learnt as what the model takes. So every size that was profiled is run once, up to the
 * greatest that the scheduler makes of several requests. True if a run worked. */
static bool warm(const struct executor *x, uint32_t served_model, struct engine_model *loaded) {
    struct served_model *model = &x->config.models[served_model];
    uint32_t last = profile_batch_cheapest(x->config.profiles[served_model]);
    int64_t until_ns = clock_now_ns() + WARM_NS_MAX;
    struct sy_error err;
    bool any = false;

    for (uint32_t b = 1; b <= last && clock_now_ns() < until_ns; b = measure_batch_next(b, last)) {
        if (measure_run(x->config.engine, loaded, &model->signature, model->reference_dims, b, &err) < 0) {
            log_warn("trial run failed", "model=%s accelerator=%u batch=%u reason=\"%s\"", model->name,
                     x->config.first_accelerator, b, err.text);
            break;
        }
        any = true;
    }
    return any;
}

int executor_load(struct executor *x, uint32_t served_model, struct executor_model *loaded, struct sy_error *err) {
    struct served_model *model = &x->config.models[served_model];
    struct engine_model_source source = {
        .name = model->name,
        .path = model->path[0] ? model->path : NULL,
        .signature = &model->signature,
        .profile = x->config.profiles[served_model],
        .batch_max = model->batch_max,
    };
    int rc = x->config.engine->load(x->engine, &source, &loaded->model, err);

    if (rc < 0)
        return rc;
    loaded->warmed = x->config.engine->signature && source.profile && /* one that computes */
                     warm(x, served_model, loaded->model);
    return 0;
}

void executor_unload(const struct executor *x, struct executor_model *loaded) {
    if (loaded->model)
        x->config.engine->unload(loaded->model);
    *loaded = (struct executor_model){.model = NULL};
}

static void load_from_start(struct executor *x, uint32_t index) {
    struct served_model *model = &x->config.models[index];
    struct sy_error err = {.text = ""};

    /* acquire: the reason and the signature were written before the state */
    if (atomic_load_explicit(&model->state, memory_order_acquire) != MODEL_READY ||
        executor_load(x, index, &x->models[index], &err) == 0)
        return;
    snprintf(model->reason, sizeof(model->reason), "%s", err.text);
    /* release: with the loads of `state` before `reason` is read */
    atomic_store_explicit(&model->state, MODEL_UNAVAILABLE, memory_order_release);
    log_error("model cannot be loaded", "model=%s accelerator=%u reason=\"%s\"", model->name,
              x->config.first_accelerator, err.text);
}

int executor_load_all(struct executor *x) {
    int rc = x->config.engine->open(&x->engine, &x->config.options, &x->load_error);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < x->config.model_count; i++)
        load_from_start(x, i);
    return 0;
}

void executor_unload_all(struct executor *x) {
    for (uint32_t i = 0; i < x->config.model_count; i++)
        executor_unload(x, &x->models[i]);
    if (x->engine)
        x->config.engine->close(x->engine);
}
