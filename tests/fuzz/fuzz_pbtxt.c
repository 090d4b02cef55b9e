/* fuzz_pbtxt.c - config.pbtxt from anywhere: the reader, the check against ModelConfig, the fit to a model, and the
 * samples that it warms up with. */
/* runs: 30000 */
#include <stdint.h>

#include "core/util/assert.h"
#include "model/config/ensemble.h"
#include "model/config/model_config.h"
#include "model/config/symphony_yaml.h"
#include "model/profile/warmup.h"
#include "specs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct signature model = {
    .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 3, .dims = {-1, 3, -1}},
                    {.name = "mask", .type = DATATYPE_INT64, .dim_count = 1, .dims = {-1}}),
    .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 10}}),
    .input_count = 2,
    .output_count = 1,
    .batched = true,
    .variable_shapes = true,
};

#define SAMPLE_BYTES (1 << 16)
#define BATCH_MAX    8

static int sample_see(void *context, const struct warmup_sample *sample, struct sy_error *err) {
    (void)context, (void)err;
    CHECK(sample->runs >= 1 && sample->runs <= WARMUP_RUNS_MAX && sample->items >= 1 && sample->items <= BATCH_MAX);
    for (uint32_t i = 0; i < model.input_count; i++) {
        const struct tensor_view *view = &sample->inputs[i];
        CHECK(view->data && view->dims[0] == sample->items && view->dim_count == model.inputs[i].dim_count);
        int64_t elements = dims_product(view->dims, 0, view->dim_count);
        CHECK_EQ((uint64_t)elements * datatype_bytes(model.inputs[i].type), view->bytes);
        CHECK_LE(view->bytes, SAMPLE_BYTES);
    }
    return 0;
}

static void samples_see(const char *text, size_t size) {
    struct pbtxt_node *root;
    struct sy_error err;
    CHECK_EQ(pbtxt_read("fuzz", text, size, &root, &err), 0);
    warmup_each_of("fuzz", root, "/nonexistent", &model, BATCH_MAX, SAMPLE_BYTES, sample_see, NULL, &err);
    pbtxt_free(root);
}

/* The order of its steps, and that whatever it names by number is there. */
static void ensemble_see(const struct model_config *config) {
    static const struct symphony_yaml none;
    struct ensemble *e = config->ensemble;
    static struct signature_room whole;
    struct sy_error err;
    if (!e)
        return;
    ensemble_settings(e, &none, &err);
    ensemble_signature(config, signature_room_open(&whole), &err);
    CHECK(e->step_count >= 1 && e->step_count <= ENSEMBLE_STEPS_MAX && e->tensor_count <= ENSEMBLE_TENSORS_MAX);
    for (uint32_t s = 0; s < e->step_count; s++) {
        const struct ensemble_step *step = &e->steps[s];
        CHECK(step->input_count >= 1 && step->output_count >= 1 && !(step->after >> s));
        for (uint32_t i = 0; i < step->input_count; i++)
            CHECK_LT(step->inputs[i].tensor, e->tensor_count);
        for (uint32_t i = 0; i < step->output_count; i++) {
            const struct ensemble_tensor *tensor = &e->tensors[step->outputs[i].tensor];
            CHECK(tensor->step == s && tensor->place == i);
        }
    }
    for (uint32_t t = 0; t < e->tensor_count; t++)
        CHECK(e->tensors[t].step < e->step_count || e->tensors[t].place < config->input_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct model_config config;
    struct sy_error err;
    if (model_config_read_text("fuzz", (const char *)data, size, true, &config, &err) != 0)
        return 0;
    ensemble_see(&config);
    model_config_release(&config);
    samples_see((const char *)data, size);
    uint8_t priority = queue_rules_priority(&config.queue, size);
    CHECK_LT(priority, PRIORITIES_MAX);
    CHECK(queue_rules_timeout(&config.queue, priority, 1, 1) > 0 && config.queue.wait_ns >= 0);
    static struct signature_room room;
    struct signature signature = *signature_room_fill(&room, &model);
    if (model_config_apply(&config, &signature, &err) != 0)
        return 0;
    CHECK_EQ(signature.input_count, model.input_count);
    for (uint32_t i = 0; i < signature.input_count; i++)
        for (uint32_t d = 0; d < signature.inputs[i].dim_count; d++)
            CHECK(signature.inputs[i].dims[d] == -1 || signature.inputs[i].dims[d] > 0);
    return 0;
}
