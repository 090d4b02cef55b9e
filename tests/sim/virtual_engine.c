/* virtual_engine.c - an engine whose batches take what their profiles say, in virtual time, and whose answers say which
 * requests they are to. It stands for the emulated one, and looks at what it is given: an accelerator has one batch at
 * a time, inputs stay as they are while it runs, and where memory is limited all that is loaded fits, is loaded once,
 * and stays while it runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/config/served_model.h"
#include "model/engine/engine.h"
#include "sim/virtual_cluster.h"

#define NOISE_ONE_OF 20                /* runs that take up to twice as long */
#define FAILED_NS    (100 * NS_PER_US) /* a run that fails */

#define PREPARED_NS          (1 * NS_PER_MS)  /* an item's preparation takes up to so long, */
#define PREPARED_LATE_ONE_OF 50               /* and one in so many longer, */
#define PREPARED_LATE_NS     (60 * NS_PER_MS) /* by up to so much */

#define HANG_ONE_OF  5 /* runs, where they hang */
#define HANG_LOOK_NS (1 * NS_PER_MS)

#define LOAD_FAILS_ONE_OF 30 /* loads, where memory is limited, while there are faults */
#define LOAD_NS           (10 * NS_PER_MS)

struct engine {
    bool runs;
    bool stops;     /* a run is to end */
    uint32_t pages; /* of the models that are loaded */
    uint64_t models;
};

struct engine_model {
    struct engine *engine;
    uint32_t number; /* the model's */
    bool loaded;
    const struct signature *signature;
    uint32_t batch_max;
    int64_t latency_ns[];
};

struct virtual_block {
    struct output_block block;
    uint32_t elements[];
};

static uint64_t runs, loads;

uint64_t engine_runs(void) {
    return runs;
}

uint64_t engine_loads(void) {
    return loads;
}

void engine_begin(void) {
    runs = loads = 0;
}

/* The first two elements of an item say which it is, the others follow from them. */
static uint32_t element_of(uint32_t request, uint32_t item, uint32_t i) {
    uint32_t mixed = (request * 31 + item) * 2654435761U + i * 2246822519U;
    return i == 0 ? request : i == 1 ? item : mixed ^ mixed >> 15;
}

uint32_t engine_element(uint64_t request, uint32_t item, uint32_t i) {
    return element_of((uint32_t)request, item, i);
}

uint32_t engine_answer(uint32_t element, uint32_t times) {
    return element + times * 0x5a5aa5a5U;
}

/* Whether an item's elements are what its first two say, before any run or behind some of those that it takes; or all
 * zero: its request has ended (batch_gather()). */
static bool item_whole(const uint32_t *item, size_t width) {
    bool whole = false, zero = true;
    for (size_t i = 0; i < width; i++)
        zero &= item[i] == 0;
    for (uint32_t times = 0; times < CLUSTER_RUNS_MAX && !whole && !zero; times++) {
        uint32_t request = item[0] - engine_answer(0, times), number = item[1] - engine_answer(0, times);
        whole = true;
        for (size_t i = 2; i < width && whole; i++)
            whole = item[i] == engine_answer(element_of(request, number, (uint32_t)i), times);
    }
    return whole || zero;
}

static const char *engine_version(void) {
    return "1";
}

static int engine_open(struct engine **engine, const struct engine_options *options, struct sy_error *err) {
    (void)options, (void)err;
    *engine = calloc(1, sizeof(**engine));
    return *engine ? 0 : -ENOMEM;
}

static void engine_close(struct engine *engine) {
    free(engine);
}

static int engine_load(struct engine *engine, const struct engine_model_source *source, struct engine_model **model,
                       struct sy_error *err) {
    size_t bytes = (source->batch_max + 1) * sizeof(int64_t);
    const struct virtual_role *role = virtual_self()->context;
    const struct served_model *served = container_of(source->signature, struct served_model, signature);
    uint32_t number = (uint32_t)atoi(cluster.changes ? served->contents : source->name + 1); /* m5 */
    if (role->memory_mib > 0) {
        if (engine->models >> number & 1)
            cluster_wrong("%s loads a model that it has", role->name);
        engine->pages += cluster_model_mib(number);
        if (engine->pages > role->memory_mib)
            cluster_wrong("%s has %u MiB loaded, of %u", role->name, engine->pages, role->memory_mib);
        int64_t load_ns = LOAD_NS + virtual_between(0, LOAD_NS);
        load_ns = role->loads_slow > 0 ? (int64_t)((double)load_ns * role->loads_slow) : load_ns;
        virtual_trace("loads model %u for %.3f ms", number, (double)load_ns / NS_PER_MS);
        virtual_sleep(NULL, virtual_world.now_ns + load_ns);
        if (!cluster.well && !cluster.gentle && (role->loads_fail || virtual_below(LOAD_FAILS_ONE_OF) == 0)) {
            engine->pages -= cluster_model_mib(number);
            return error_set(err, -EIO, "the disk fails");
        }
    }
    struct engine_model *m = calloc(1, sizeof(*m) + bytes);
    if (!m)
        return error_set(err, -ENOMEM, "no memory");
    m->engine = engine;
    m->number = number;
    m->loaded = true;
    engine->models |= 1ULL << number;
    loads++;
    m->signature = source->signature;
    m->batch_max = source->batch_max;
    memcpy(m->latency_ns, source->profile->latency_ns, bytes);
    *model = m;
    return 0;
}

/* Freed models are kept: a run of one is to be found, not to crash. */
static void engine_unload(struct engine_model *model) {
    const struct virtual_role *role = virtual_self()->context;
    model->loaded = false;
    model->engine->models &= ~(1ULL << model->number);
    model->engine->pages -= role->memory_mib > 0 ? cluster_model_mib(model->number) : 0;
    if (!role->memory_mib)
        free(model);
}

static void block_release(struct output_block *block) {
    free(container_of(block, struct virtual_block, block));
}

static int engine_run(struct engine_model *model, const struct tensor_view *inputs, uint32_t items,
                      struct output_block **outputs, struct sy_error *err) {
    size_t width = (size_t)inputs[0].dims[1], count = items * width;
    const uint32_t *elements = inputs[0].data;
    struct virtual_block *b = malloc(sizeof(*b) + count * sizeof(*b->elements));
    if (!b)
        return error_set(err, -ENOMEM, "no memory");
    if (model->engine->runs)
        cluster_wrong("an accelerator of %s runs two batches at once", virtual_self()->name);
    if (!model->loaded)
        cluster_wrong("%s runs a model without its weights", virtual_self()->name);
    if (items == 0 || items > model->batch_max || inputs[0].bytes != count * sizeof(*elements))
        cluster_wrong("a batch of %u items, %zu bytes", items, (size_t)inputs[0].bytes);
    model->engine->runs = true;
    runs++;
    for (uint32_t i = 0; i < items; i++)
        if (!item_whole(elements + i * width, width))
            cluster_wrong("%s is given inputs of request %u that are not what its client sent", virtual_self()->name,
                          elements[i * width]);
    for (size_t i = 0; i < count; i++)
        b->elements[i] = engine_answer(elements[i], 1);
    const struct virtual_role *role = virtual_self()->context;
    int64_t run_ns = role->fails ? FAILED_NS : model->latency_ns[items] * (int64_t)width / cluster.width;
    run_ns += virtual_below(NOISE_ONE_OF) == 0 ? virtual_between(0, run_ns) : 0;
    run_ns = role->slow > 0 ? (int64_t)((double)run_ns * role->slow) : run_ns;
    bool fails = role->fails, hangs = role->hangs && virtual_below(HANG_ONE_OF) == 0;
    virtual_trace("runs %u items of model %u for %.3f ms%s", items, model->number, (double)run_ns / NS_PER_MS,
                  hangs   ? ", and hangs"
                  : fails ? ", and fails"
                          : "");
    virtual_sleep(NULL, virtual_world.now_ns + run_ns);
    while (hangs && role->hangs && !model->engine->stops)
        virtual_sleep(NULL, virtual_world.now_ns + HANG_LOOK_NS);
    fails |= hangs && model->engine->stops;
    model->engine->runs = false;
    if (!model->loaded)
        cluster_wrong("%s unloads a model that runs", virtual_self()->name);
    for (size_t i = 0; i < count; i++)
        if (b->elements[i] != engine_answer(elements[i], 1)) {
            cluster_wrong("inputs of a batch changed while %s ran it", virtual_self()->name);
            break;
        }
    if (fails) {
        free(b);
        return error_set(err, -EIO, "the device fails");
    }
    b->block = (struct output_block){.output_count = 1, .release = block_release};
    atomic_init(&b->block.references, 1);
    b->block.outputs[0] = (struct tensor_view){.data = (void *)b->elements,
                                               .bytes = count * sizeof(*elements),
                                               .dim_count = 2,
                                               .dims = {items, (int64_t)width}};
    *outputs = &b->block;
    return 0;
}

static void engine_stop(struct engine_model *model) {
    model->engine->stops = true;
}

static void engine_go_on(struct engine_model *model) {
    model->engine->stops = false;
}

const struct engine_ops engine_virtual = {
    .name = "emulated",
    .version = engine_version,
    .open = engine_open,
    .close = engine_close,
    .load = engine_load,
    .unload = engine_unload,
    .run = engine_run,
    .stop = engine_stop,
    .go_on = engine_go_on,
};

const struct engine_ops engine_virtual_lasting = {
    .name = "emulated",
    .version = engine_version,
    .open = engine_open,
    .close = engine_close,
    .load = engine_load,
    .unload = engine_unload,
    .run = engine_run,
};

/* ---- preparing ---- */

struct transform_stop {
    bool wanted;
};

static int transform_open_bytes(const void *contents, size_t bytes, struct transform **transform,
                                struct sy_error *err) {
    (void)contents, (void)bytes;
    struct transform *t = *transform = calloc(1, sizeof(*t));
    if (!t)
        return error_set(err, -ENOMEM, "no memory");
    t->ops = &transform_virtual;
    t->input = (struct tensor_spec){.name = "RAW", .type = DATATYPE_FP32, .dim_count = 1, .dims = {cluster.width}};
    t->output = (struct tensor_spec){.name = "MADE", .type = DATATYPE_FP32, .dim_count = 1, .dims = {cluster.width}};
    return 0;
}

static void transform_close(struct transform *transform) {
    free(transform);
}

static int transform_run(struct transform *transform, struct transform_stop *stop, const struct tensor_view *input,
                         const struct tensor_view *output, struct sy_error *err) {
    int64_t run_ns = virtual_between(PREPARED_NS / 2, PREPARED_NS);
    (void)transform;
    run_ns += virtual_below(PREPARED_LATE_ONE_OF) == 0 ? virtual_between(0, PREPARED_LATE_NS) : 0;
    virtual_sleep(NULL, virtual_world.now_ns + run_ns);
    if (stop && stop->wanted)
        return error_set(err, -EINTR, "it was stopped");
    if (input->bytes != cluster.width * sizeof(uint32_t) || output->bytes != input->bytes)
        cluster_wrong("%zu bytes are prepared, to %zu", (size_t)input->bytes, (size_t)output->bytes);
    for (uint32_t i = 0; i < cluster.width; i++)
        ((uint32_t *)(uintptr_t)output->data)[i] = engine_answer(((const uint32_t *)input->data)[i], 1);
    return 0;
}

static struct transform_stop *transform_stop_new(void) {
    return calloc(1, sizeof(struct transform_stop));
}

static void transform_stop_free(struct transform_stop *stop) {
    free(stop);
}

static void transform_stop_set(struct transform_stop *stop, bool wanted) {
    stop->wanted = wanted;
}

const struct transform_ops transform_virtual = {
    .open_bytes = transform_open_bytes,
    .close = transform_close,
    .run = transform_run,
    .stop_new = transform_stop_new,
    .stop_free = transform_stop_free,
    .stop = transform_stop_set,
};
