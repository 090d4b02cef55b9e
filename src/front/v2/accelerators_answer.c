/* accelerators_answer.c - reads accelerators' numbers and orders, and writes their states. */
#include "front/v2/accelerators_answer.h"

#include <jansson.h>
#include <string.h>

#include "core/util/container.h"
#include "front/v2/json_put.h"
#include "front/v2/request_json.h"

/* The sentence for an order that the server does not take. */
#define ORDERS_FIXED                                                                                                   \
    "accelerators are drained and joined by clients with --accelerator-control or --model-control-mode explicit only"

static const struct {
    const char *name;
    enum accelerator_order order;
} orders[] = {{"drain", ACCELERATOR_DRAIN}, {"join", ACCELERATOR_JOIN}};

static void accelerator_put(struct text *text, const struct accelerator_source *source, uint32_t accelerator) {
    static const char *const states[] = {
        [ACCELERATOR_SERVING] = "serving", [ACCELERATOR_LEAVING] = "leaving", [ACCELERATOR_GONE] = "gone"};
    const char *type;
    enum accelerator_state state = source->read(source->context, accelerator, &type);

    text_put(text, "{\"accelerator\":");
    json_put_unsigned(text, accelerator);
    text_put(text, ",\"type\":");
    json_put_string(text, type);
    text_put(text, ",\"state\":");
    json_put_string(text, states[state]);
    text_put_char(text, '}');
}

void accelerators_answer(struct v2_answer *answer, const struct accelerator_source *source) {
    text_put_char(&answer->text, '[');
    for (uint32_t a = 0; a < source->count; a++) {
        if (a > 0)
            text_put_char(&answer->text, ',');
        accelerator_put(&answer->text, source, a);
    }
    text_put_char(&answer->text, ']');
}

/* The number in the path; `count`: no accelerator has it. */
static uint32_t number_read(const struct v2_route *route, uint32_t count) {
    uint64_t number = 0;
    for (size_t i = 0; i < route->version_length && number < count; i++)
        number = number * 10 + (uint64_t)(route->version[i] - '0');
    return number < count ? (uint32_t)number : count;
}

/* 0, or a status with a sentence. */
static int order_read(const json_t *request, enum accelerator_order *order, struct sy_error *err) {
    const json_t *action = json_object_get(request, "action");
    const char *name = json_string_value(action);
    for (unsigned i = 0; name && i < ARRAY_COUNT(orders); i++)
        if (strcmp(name, orders[i].name) == 0) {
            *order = orders[i].order;
            return 0;
        }
    if (!name)
        return error_set(err, 400, "expected \"action\": \"drain\" or \"join\"");
    return error_set(err, 400, "unknown action '%.32s': expected drain or join", name);
}

static int order_do(struct v2_answer *answer, const struct accelerator_source *source, uint32_t accelerator,
                    const json_t *request, struct sy_error *err) {
    enum accelerator_order order = ACCELERATOR_JOIN;
    int status = order_read(request, &order, err);
    if (status == 0 && !source->order)
        return error_set(err, 501, ORDERS_FIXED);
    if (status == 0)
        status = source->order(source->context, accelerator, order, err);
    answer->retry = status == 503;
    return status;
}

int accelerator_answer(struct v2_answer *answer, const struct v2_route *route, const struct accelerator_source *source,
                       const char *body, size_t bytes, struct sy_error *err) {
    uint32_t accelerator = number_read(route, source->count);
    if (accelerator == source->count)
        return error_set(err, 404, "there is no accelerator %.*s: the server has %u, from 0 on",
                         route->version_length < 20 ? (int)route->version_length : 20, route->version, source->count);
    json_t *request = route->posted ? request_json(body, bytes, err) : NULL;
    int status = request ? order_do(answer, source, accelerator, request, err) : route->posted ? 400 : 0;
    json_decref(request);
    if (!status)
        accelerator_put(&answer->text, source, accelerator);
    return status;
}
