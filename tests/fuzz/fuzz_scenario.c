/* fuzz_scenario.c - scenario files from anywhere. The bytes after the first zero byte are a --set. */
/* runs: 12500 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/assert.h"
#include "lab/scenario/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct scenario scenario;
    struct sy_error err;
    const uint8_t *zero = memchr(data, 0, size);
    size_t bytes = zero ? (size_t)(zero - data) : size;
    char *set = zero ? strndup((const char *)zero + 1, size - bytes - 1) : NULL;
    const char *sets[] = {set};
    if (scenario_read_text("fuzz", (const char *)data, bytes, sets, set ? 1 : 0, &scenario, &err) == 0) {
        CHECK(scenario.model_count > 0 && scenario.accelerator_count > 0);
        for (uint32_t i = 0; i < scenario.model_count && i < 100; i++)
            CHECK(scenario.models[i].share >= 0 && scenario.models[i].share <= 1 + 1e-9);
        scenario_free(&scenario);
    }
    free(set);
    return 0;
}
