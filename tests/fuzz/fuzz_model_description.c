/* fuzz_model_description.c - descriptions of models from anywhere. What is accepted is written as it was read, is one
 * with itself, and can be described to a client. */
/* runs: 25000 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/assert.h"
#include "front/v2/describe.h"
#include "model/repository/model_description.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void client_told(struct served_model *model) {
    struct model_index index;
    struct description d;
    CHECK_EQ(model_index_init(&index, model, 1), 0);
    CHECK_EQ(describe_begin(&d, &index, model), 0);
    describe_model(&d, &index, model, true);
    describe_config(&d, model);
    describe_end(&d);
    model_index_destroy(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct served_model model, again;
    struct described_profile profiles[ACCELERATOR_TYPES_MAX], profiles_again[ACCELERATOR_TYPES_MAX];
    uint32_t count, count_again;
    size_t bytes;
    struct sy_error err;
    char difference[256];
    memset(&model, 0, sizeof(model));
    memset(&again, 0, sizeof(again));
    if (model_description_read((const char *)data, size, &model, profiles, &count, &err))
        return 0;
    atomic_store(&model.state, MODEL_READY);
    client_told(&model);
    char *text = model_description_write(&model, profiles, count, &bytes, &err);
    if (text) { /* one that is full of small numbers may become longer than is allowed */
        CHECK_EQ(model_description_read(text, bytes, &again, profiles_again, &count_again, &err), 0);
        char *text_again = model_description_write(&again, profiles_again, count_again, NULL, &err);
        CHECK(text_again && strcmp(text, text_again) == 0);
        CHECK(model_description_hash(&model) == model_description_hash(&again));
        model_description_difference(&model, &again, difference, sizeof(difference));
        CHECK_EQ(strlen(difference), 0);
        model_description_release(&again, profiles_again, count_again);
        free(text_again);
    }
    free(text);
    model_description_release(&model, profiles, count);
    return 0;
}
