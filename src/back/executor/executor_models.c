/* executor_models.c - the models of an executor: its own thread loads those of the start; the repository's thread loads
 * and frees those that come and go while the executor runs. */
#include <errno.h>
#include <stdlib.h>

#include "back/executor/executor_state.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/assert.h"
#include "model/engine/fingerprint.h"
#include "model/profile/measure.h"
#include "model/profile/values.h"
#include "model/profile/warmup.h"

#define TAKES_AGAIN_NS NS_PER_MS      /* time between looks at models that go */
#define TRY_NS_MAX     (2 * NS_PER_S) /* time for the trial runs of a model; sizes not run by then are left out */

/* A model's first run, and the first of a batch size, take up to twice as long (memory is mapped, weights are read).
 * Clients should not wait for that, and it should not be learnt as the model's latency. So every profiled size is run
 * once, up to the largest batch that the scheduler makes of several requests; where requests wait for the model
 * (`awaited`), only one item. True if a run worked. */
static bool sizes_try(const struct executor *x, struct place_id place, const struct executor_model *loaded,
                      bool awaited) {
    struct served_model *model = &x->config.models[place.n];
    int64_t(*dims)[TENSOR_DIMS_MAX];
    const struct signature *signature = served_model_loaded(model, &dims);
    const struct queue_rules *queue = &model->queue;
    uint32_t last = awaited ? 1 : profile_batch_cheapest(x->config.profiles[place.n]), next;
    int64_t until_ns = clock_now_ns() + TRY_NS_MAX;
    struct sy_error err;
    bool any = false;

    for (uint32_t i = 0; !awaited && i < queue->preferred_count && queue->preferred[i] <= model->batch_max; i++)
        last = queue->preferred[i] > last ? queue->preferred[i] : last;
    for (uint32_t b = 1; b <= last && clock_now_ns() < until_ns; b = next) {
        next = measure_batch_next(b, last, queue->preferred, queue->preferred_count);
        if (measure_run(x->config.engine, loaded->model, signature, dims, b, loaded->values, &err) < 0) {
            log_warn("trial run failed", "model=%s accelerator=%u batch=%u reason=\"%s\"", model->name,
                     x->config.first_accelerator, b, err.text);
            break;
        }
        any = true;
    }
    return any;
}

struct sampling {
    const struct executor *x;
    struct engine_model *model;
    const _Atomic bool *stop;
};

/* All runs of a sample of model_warmup. */
static int sample_run(void *context, const struct warmup_sample *sample, struct sy_error *err) {
    const struct sampling *w = context;
    int64_t start_ns = clock_now_ns();
    int rc = 0;

    for (uint32_t i = 0; i < sample->runs && rc == 0; i++) {
        if (atomic_load_explicit(w->stop, memory_order_relaxed)) /* a lone flag */
            return error_set(err, -EINTR, "the server is shutting down");
        rc = warmup_run(w->x->config.engine, w->model, sample, err);
    }
    if (rc == 0)
        log_debug("warm-up sample run", "file=\"%s\" sample=\"%s\" accelerator=%u items=%u runs=%u ms=%.3f",
                  sample->origin, sample->name, w->x->config.first_accelerator, sample->items, sample->runs,
                  (double)(clock_now_ns() - start_ns) / NS_PER_MS);
    return rc;
}

static void unload(const struct executor *x, struct executor_model *loaded) {
    if (loaded->model)
        x->config.engine->unload(loaded->model);
    if (loaded->values)
        values_free(loaded->values);
    free(loaded->values);
    *loaded = (struct executor_model){.model = NULL};
}

static int load(struct executor *x, struct place_id place, struct executor_model *loaded, const _Atomic bool *stop,
                bool awaited, struct sy_error *err) {
    struct served_model *model = &x->config.models[place.n];
    int64_t(*dims)[TENSOR_DIMS_MAX];
    const char *path = model->part ? model->part->path : model->path;
    struct engine_model_source source = {
        .name = model->name,
        .path = path,
        .signature = served_model_loaded(model, &dims),
        .profile = x->config.profiles[place.n],
        .batch_max = model->batch_max,
        .libraries = model->op_libraries,
    };
    if (!source.profile) /* it does not run on this type of accelerators: it takes no memory there */
        return 0;
    loaded->key = (uint32_t)served_model_key(model);
    int rc = x->config.engine->load(x->engine, &source, &loaded->model, err);
    if (rc < 0)
        return rc;
    if (!x->config.engine->signature) /* the engine does not compute */
        return 0;
    if (!model->part) { /* a part has other inputs */
        loaded->values = calloc(1, sizeof(*loaded->values));
        rc = loaded->values ? values_read(model, loaded->values, err) : error_set(err, -ENOMEM, "out of memory");
    }
    if (rc < 0) {
        unload(x, loaded);
        return rc;
    }
    loaded->tried = sizes_try(x, place, loaded, awaited);
    if (!loaded->tried && !model->part && *model->contents &&
        fingerprint_model_holds(model->path, model->contents) == 0) /* so its signature may have changed, too */
        rc = error_set(err, -ESTALE, "%.300s has changed since it was measured", model->path);
    if (rc == 0)
        rc = warmup_each(model, sample_run, &(struct sampling){x, loaded->model, stop ? stop : &x->stop}, err);
    if (rc < 0)
        unload(x, loaded);
    return rc;
}

int executor_load(struct executor *x, struct place_id place, const _Atomic bool *stop, struct sy_error *err) {
    if (x->loader) /* it is loaded when it is asked for */
        return 0;
    CHECK(!x->beside[place.n].model);
    return load(x, place, &x->beside[place.n], stop, false, err);
}

int executor_load_beside(struct executor *x, struct place_id place, const _Atomic bool *stop, struct sy_error *err) {
    return load(x, place, &x->beside[place.n], stop, true, err);
}

void executor_unload_beside(struct executor *x, struct place_id place) {
    unload(x, &x->beside[place.n]);
}

void executor_unload(struct executor *x, struct place_id place) {
    if (!x->loader)
        unload(x, &x->beside[place.n]);
}

/* Obeys, and answers. False: the ring of answers is full. */
static bool obey(struct executor *x, const struct accelerator_command *command) {
    uint32_t m = command->place.n;
    struct executor_model *resident = &x->models[m], *beside = &x->beside[m], was = *resident;
    struct ring *ring = &x->wiring->answers[x->config.index];
    struct model_answer *answer = ring_reserve(ring);

    if (!answer)
        return false;
    if (!x->loader && command->resident != (resident->model != NULL) &&
        command->version == x->config.models[m].version) {
        *resident = *beside;
        *beside = was;
    }
    *answer = (struct model_answer){
        .place = command->place, .version = command->version, .resident = resident->model != NULL};
    ring_push(ring);
    ring_publish(ring);
    wiring_places_ring(x->wiring);
    return true;
}

void executor_model_obey(struct executor *x, const struct accelerator_command *command) {
    if (x->config.memory_bytes && !command->resident)
        x->takes[x->take_count++] = *command;
    else
        CHECK(
            obey(x, command)); /* the ring has as many slots as that of the commands, whose sender reads the answers */
}

void executor_takes_look(struct executor *x) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < x->take_count; i++) {
        const struct accelerator_command command = x->takes[i];
        bool holds = x->loader ? loader_holds(x, command.place) : emulation_holds(x, command.place);
        if (holds || !obey(x, &command))
            x->takes[kept++] = command;
    }
    x->take_count = kept;
    if (kept > 0 && x->wake_ns > clock_now_ns() + TAKES_AGAIN_NS)
        x->wake_ns = clock_now_ns() + TAKES_AGAIN_NS;
}

int executor_load_all(struct executor *x) {
    int rc = x->config.engine->open(&x->engine, &x->config.options, &x->load_error);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < x->config.model_count && !x->loader; i++) {
        struct served_model *model = &x->config.models[i];
        struct sy_error err = {.text = ""};
        int ready = MODEL_READY;

        /* acquire: the reason and the signature were written before the state */
        if (served_model_state(model) != MODEL_READY ||
            load(x, (struct place_id){i}, &x->models[i], NULL, false, &err) == 0)
            continue;
        log_error("model cannot be loaded", "model=%s accelerator=%u reason=\"%s\"", model->name,
                  x->config.first_accelerator, err.text);
        /* relaxed: the first executor to fail writes the reason, and nobody reads it before the next store */
        if (!atomic_compare_exchange_strong_explicit(&model->state, &ready, MODEL_LOADING, memory_order_relaxed,
                                                     memory_order_relaxed))
            continue;
        snprintf(model->reason, sizeof(model->reason), "%s", err.text);
        /* release: with the loads of `state` before `reason` is read */
        atomic_store_explicit(&model->state, MODEL_UNAVAILABLE, memory_order_release);
    }
    return 0;
}

void executor_unload_all(struct executor *x) {
    loader_stop(x);
    for (uint32_t i = 0; i < x->config.model_count; i++) {
        unload(x, &x->models[i]);
        unload(x, &x->beside[i]);
    }
    if (!x->engine)
        return;
    gather_release(x);
    x->config.engine->close(x->engine);
}
