/* fuzz_pbtxt.c - config.pbtxt from anywhere: the reader, the check against ModelConfig, and the fit to a model. */
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "repository/model_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct signature model = {
    .inputs = {{"x", DATATYPE_FP32, 3, {-1, 3, -1}}, {"mask", DATATYPE_INT64, 1, {-1}}},
    .outputs = {{"y", DATATYPE_FP32, 2, {-1, 10}}},
    .input_count = 2,
    .output_count = 1,
    .batched = true,
    .variable_shapes = true,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct model_config config;
    struct sy_error err;
    if (model_config_read_text("fuzz", (const char *)data, size, true, &config, &err) != 0)
        return 0;
    uint8_t priority = queue_rules_priority(&config.queue, size);
    CHECK_LT(priority, PRIORITIES_MAX);
    CHECK(queue_rules_timeout(&config.queue, priority, 1, 1) > 0 && config.queue.wait_ns >= 0);
    struct signature signature = model;
    if (model_config_apply(&config, &signature, &err) != 0)
        return 0;
    CHECK_EQ(signature.input_count, model.input_count);
    for (uint32_t i = 0; i < signature.input_count; i++)
        for (uint32_t d = 0; d < signature.inputs[i].rank; d++)
            CHECK(signature.inputs[i].dims[d] == -1 || signature.inputs[i].dims[d] > 0);
    return 0;
}
