/* curl_line.c - writes a command line that sends a request to a served model. */
#include "control/curl_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define JSON_ELEMENTS_MAX 64 /* more are too long to paste */

static int64_t item_elements(const struct served_model *model) {
    int64_t elements = 0;
    for (uint32_t i = 0; i < model->signature.input_count; i++)
        elements += dims_product(model->reference_dims[i], 0, model->signature.inputs[i].rank);
    return elements;
}

/* Appends text. If it does not fit it is cut off, and `used` becomes `bytes`. */
__attribute__((format(printf, 4, 5))) static void append(char *line, size_t bytes, size_t *used, const char *fmt, ...) {
    va_list ap;

    if (*used >= bytes)
        return;
    va_start(ap, fmt);
    int n = vsnprintf(line + *used, bytes - *used, fmt, ap);
    va_end(ap);
    *used = n < 0 || *used + (size_t)n >= bytes ? bytes : *used + (size_t)n;
}

/* A value that is valid for the type. */
static const char *example(enum datatype type) {
    return type == DATATYPE_BOOL ? "false" : type == DATATYPE_BYTES ? "\"0\"" : "0";
}

static void append_json(const struct served_model *model, const char *url, char *line, size_t bytes, size_t *used) {
    append(line, bytes, used, "curl -s %s -d '{\"inputs\":[", url);
    for (uint32_t i = 0; i < model->signature.input_count; i++) {
        const struct tensor_spec *input = &model->signature.inputs[i];
        int64_t elements = dims_product(model->reference_dims[i], 0, input->rank);
        if (model->signature.inputs_optional & 1u << i)
            continue; /* optional inputs come after the others */
        append(line, bytes, used, "%s{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":[", i ? "," : "", input->name,
               datatype_name(input->type));
        for (uint32_t d = 0; d < input->rank; d++)
            append(line, bytes, used, "%s%lld", d ? "," : "", (long long)model->reference_dims[i][d]);
        append(line, bytes, used, "],\"data\":[");
        for (int64_t e = 0; e < elements; e++)
            append(line, bytes, used, "%s%s", e ? "," : "", example(input->type));
        append(line, bytes, used, "]}");
    }
    append(line, bytes, used, "]}'");
}

/* Appends the JSON, then the tensor's bytes. */
static void append_binary(const struct served_model *model, const char *url, char *line, size_t bytes, size_t *used) {
    const struct tensor_spec *input = &model->signature.inputs[0];
    char json[1024];
    size_t length = 0;
    int64_t data = item_elements(model) * (int64_t)datatype_bytes_min(input->type);

    append(json, sizeof(json), &length, "{\"inputs\":[{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":[", input->name,
           datatype_name(input->type));
    for (uint32_t d = 0; d < input->rank; d++)
        append(json, sizeof(json), &length, "%s%lld", d ? "," : "", (long long)model->reference_dims[0][d]);
    append(json, sizeof(json), &length, "],\"parameters\":{\"binary_data_size\":%lld}}]}", (long long)data);
    append(line, bytes, used,
           "(printf %%s '%s'; head -c %lld /dev/zero) | curl -s %s -H 'Inference-Header-Content-Length: %zu' "
           "--data-binary @-",
           json, (long long)data, url, length);
}

bool curl_line(const struct model_index *models, const char *server, char *line, size_t bytes) {
    const struct served_model *best = NULL;
    size_t used = 0;

    for (uint32_t i = 0; i < models->count; i++) {
        const struct served_model *model = &models->models[models->listed[i]];
        if (served_model_state(model) == MODEL_READY && !model->ensemble && !model->prepared &&
            (!best || item_elements(model) < item_elements(best)))
            best = model;
    }
    if (!best || (item_elements(best) > JSON_ELEMENTS_MAX && best->signature.input_count != 1))
        return false;
    char url[256];
    snprintf(url, sizeof(url), "%s/v2/models/%s/infer", server, best->name);
    if (item_elements(best) <= JSON_ELEMENTS_MAX)
        append_json(best, url, line, bytes, &used);
    else
        append_binary(best, url, line, bytes, &used);
    return used < bytes;
}
