/* emulated.c - an engine that computes nothing: a run takes what the profile says, and the outputs are zeros. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "back/engine/block_pool.h"
#include "core/system/clock.h"
#include "model/engine/engine.h"

/* With busy polling, how long before the end of a run sleeping ends and spinning begins. A sleep with a timer slack of
 * 1 ns ends 5 to 60 us late on an idle machine; the spin avoids that. */
#define SPIN_NS (50 * NS_PER_US)

struct engine {
    bool busy_poll;
};

struct engine_model { /* lives until the last of its blocks is back */
    struct engine *engine;
    const struct signature *signature;
    uint32_t batch_max;
    struct block_pool *pool;
    void *zeros; /* memory of all outputs of all blocks; never written, so all of it is the kernel's zero page */
    size_t zeros_bytes;
    int64_t latency_ns[]; /* [batch_max + 1] copy of the profile's, whose corrections must not change the emulation */
};

static int emulated_open(struct engine **engine, const struct engine_options *options, struct sy_error *err) {
    *engine = malloc(sizeof(**engine));
    if (!*engine)
        return error_set(err, -ENOMEM, "no memory for an emulated accelerator");
    (*engine)->busy_poll = options->busy_poll;
    prctl(PR_SET_TIMERSLACK, 1UL); /* of this thread; the default of 50 us would be added to each run */
    return 0;
}

static void emulated_close(struct engine *engine) {
    free(engine);
}

/* The dims of output `i` for a batch, other variable dimensions being 1; returns its bytes. Strings are empty. */
static size_t output_dims(const struct signature *signature, uint32_t i, uint32_t items, int64_t *dims) {
    const struct tensor_spec *spec = &signature->outputs[i];
    for (uint32_t d = 0; d < spec->dim_count; d++)
        dims[d] = d == 0 && signature->batched ? items : spec->dims[d] < 0 ? 1 : spec->dims[d];
    return (size_t)dims_product(dims, 0, spec->dim_count) * datatype_bytes_min(spec->type);
}

static void emulated_finish(void *context) {
    struct engine_model *model = context;
    munmap(model->zeros, model->zeros_bytes);
    free(model);
}

static int emulated_load(struct engine *engine, const struct engine_model_source *source, struct engine_model **model,
                         struct sy_error *err) {
    if (!source->profile || source->profile->batch_max < source->batch_max)
        return error_set(err, -EINVAL, "model '%s': the emulated engine needs a profile up to a batch of %u",
                         source->name, source->batch_max);
    size_t latency_bytes = (source->batch_max + 1) * sizeof(int64_t);
    struct engine_model *m = calloc(1, sizeof(*m) + latency_bytes);
    if (!m)
        return error_set(err, -ENOMEM, "model '%s': no memory", source->name);
    m->engine = engine;
    m->signature = source->signature;
    m->batch_max = source->batch_max;
    memcpy(m->latency_ns, source->profile->latency_ns, latency_bytes);
    m->zeros_bytes = 1;
    for (uint32_t i = 0; i < source->signature->output_count; i++) {
        int64_t dims[TENSOR_DIMS_MAX];
        size_t bytes = output_dims(source->signature, i, source->batch_max, dims);
        m->zeros_bytes = bytes > m->zeros_bytes ? bytes : m->zeros_bytes;
    }
    m->zeros = mmap(NULL, m->zeros_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->zeros == MAP_FAILED)
        goto err_model;
    m->pool = block_pool_new(source->signature->output_count, NULL, emulated_finish, m);
    if (!m->pool)
        goto err_zeros;
    *model = m;
    return 0;

err_zeros:
    munmap(m->zeros, m->zeros_bytes);
err_model:
    free(m);
    return error_set(err, -ENOMEM, "model '%s': no memory for its outputs", source->name);
}

static void emulated_unload(struct engine_model *model) {
    block_pool_leave(model->pool);
}

static int emulated_emulate(struct engine_model *model, uint32_t items, struct output_block **outputs, int64_t *run_ns,
                            struct sy_error *err) {
    if (items == 0 || items > model->batch_max)
        return error_set(err, -EINVAL, "a batch of %u does not fit the model's %u", items, model->batch_max);
    struct pooled_block *pooled = block_pool_get(model->pool);
    if (!pooled)
        return error_set(err, -ENOMEM, "no memory for the outputs");
    struct output_block *block = &pooled->block;
    block->output_count = model->signature->output_count;
    for (uint32_t i = 0; i < block->output_count; i++) {
        struct tensor_view *view = &block->outputs[i];
        view->data = model->zeros;
        view->dim_count = model->signature->outputs[i].dim_count;
        view->bytes = output_dims(model->signature, i, items, view->dims);
    }
    *outputs = block;
    *run_ns = model->latency_ns[items];
    return 0;
}

static int emulated_run(struct engine_model *model, const struct tensor_view *inputs, uint32_t items,
                        struct output_block **outputs, struct sy_error *err) {
    int64_t start_ns = clock_now_ns(), run_ns;
    (void)inputs;
    int rc = emulated_emulate(model, items, outputs, &run_ns, err);
    if (rc)
        return rc;
    struct timespec until = clock_sleep_end(start_ns + run_ns - (model->engine->busy_poll ? SPIN_NS : 0));
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
    while (clock_now_ns() < start_ns + run_ns) {
    }
    return 0;
}

const struct engine_ops engine_emulated = {
    .name = "emulated",
    .open = emulated_open,
    .close = emulated_close,
    .load = emulated_load,
    .unload = emulated_unload,
    .run = emulated_run,
    .emulate = emulated_emulate,
};
