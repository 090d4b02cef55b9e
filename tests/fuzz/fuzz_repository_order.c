/* fuzz_repository_order.c - orders to load and unload, in JSON and as messages, and the configurations in them. */
/* runs: 125000 */
#include <stdlib.h>
#include <string.h>

#include "front/request/repository_order.h"
#include "model/config/model_config_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    /* the first byte says what it is; the rest lies in memory of its own, so that reading beyond it is noticed */
    char *body = malloc(size);
    memcpy(body, data + 1, size - 1);
    struct repository_order order = {.kind = data[0] & 1 ? ORDER_LOAD : ORDER_UNLOAD,
                                     .form = data[0] & 2 ? ORDER_PROTOBUF : ORDER_JSON,
                                     .body = body,
                                     .body_bytes = size - 1};
    struct model_override override;
    struct sy_error err;
    struct text text;
    order_read(&order, &override, &err);
    text_init(&text, NULL, 0);
    if (override.config)
        model_config_of_json(override.config, override.config_bytes, &text, &err);
    else
        model_config_of_json(body, size - 1, &text, &err);
    text_free(&text);
    model_override_free(&override);
    free(body);
    return 0;
}
