/* infer_write.c - writes the JSON of an answer, and the binary outputs behind it. */
#include "front/v2/infer_write.h"

#include <errno.h>

#include "front/v2/json_put.h"
#include "front/v2/tensor_json.h"

static int output_put(struct text *text, const struct served_model *model, const struct tensor_view *part,
                      const struct infer_output *wanted, struct sy_error *err) {
    const struct tensor_spec *spec = &model->signature.outputs[wanted->index];
    enum datatype type = infer_output_type(model, wanted);
    text_put(text, "{\"name\":");
    json_put_string(text, spec->name);
    text_put(text, ",\"datatype\":\"");
    text_put(text, datatype_name(type));
    text_put(text, "\",\"shape\":[");
    for (uint32_t d = 0; d < part->dim_count; d++) {
        if (d > 0)
            text_put_char(text, ',');
        json_put_unsigned(text, (uint64_t)part->dims[d]);
    }
    if (wanted->shared.region) { /* without parameters: Triton's C++ client takes any for those of a binary output */
        text_put(text, "]}");
        return 0;
    }
    if (wanted->binary) {
        text_put(text, "],\"parameters\":{\"binary_data_size\":");
        json_put_unsigned(text, part->bytes);
        text_put(text, "}}");
        return 0;
    }
    text_put(text, "],\"data\":");
    int rc = tensor_json_write(text, type, part->data, part->bytes, dims_product(part->dims, 0, part->dim_count));
    if (rc == -EINVAL)
        return error_set(err, rc, "output '%s' does not have the bytes of its shape", spec->name);
    if (rc == -EDOM)
        return error_set(err, rc,
                         "output '%s' holds bytes that are not UTF-8, which JSON cannot carry; ask for "
                         "it with binary_data",
                         spec->name);
    text_put_char(text, '}');
    return 0;
}

static void head_put(struct text *text, const struct served_model *model, const struct infer_call *call) {
    text_put_char(text, '{');
    if (call->id) {
        text_put(text, "\"id\":\"");
        text_append(text, call->id, call->id_length);
        text_put(text, "\",");
    }
    text_put(text, "\"model_name\":");
    json_put_string(text, model->name);
    text_put(text, ",\"model_version\":\"");
    json_put_unsigned(text, model->version);
    text_put(text, "\",\"outputs\":[");
}

int infer_write(struct infer_answer *answer, struct text *text, const struct served_model *model,
                const struct infer_call *call, const struct tensor_view *outputs, uint32_t output_count,
                uint32_t first_item, struct sy_error *err) {
    size_t binary_bytes = 0;
    uint32_t binary_count = 0;
    *answer = (struct infer_answer){0};
    head_put(text, model, call);
    for (uint32_t i = 0; i < call->output_count; i++) {
        const struct infer_output *wanted = &call->outputs[i];
        struct tensor_view part;
        int rc = infer_output_slice(&part, model, call, wanted, outputs, output_count, first_item, err);
        if (rc)
            return rc;
        if (i > 0)
            text_put_char(text, ',');
        rc = output_put(text, model, &part, wanted, err);
        if (rc)
            return rc;
        if (!wanted->binary || wanted->shared.region)
            continue;
        if (call->output_count <= INFER_ANSWER_OUTPUTS)
            answer->pieces[1 + binary_count] = (struct iovec){part.data, part.bytes};
        binary_count++;
        binary_bytes += part.bytes;
    }
    text_put(text, "]}");
    answer->json_bytes = binary_count > 0 ? text->length : 0;
    answer->bytes = text->length + binary_bytes;
    bool copied = binary_bytes <= INFER_ANSWER_COPY_MAX || call->output_count > INFER_ANSWER_OUTPUTS;
    answer->piece_count = copied ? 1 : 1 + (int)binary_count;
    for (uint32_t i = 0; i < call->output_count && copied && binary_count > 0; i++) {
        const struct infer_output *wanted = &call->outputs[i];
        struct tensor_view part;
        if (!wanted->binary || wanted->shared.region)
            continue;
        if (infer_output_slice(&part, model, call, wanted, outputs, output_count, first_item, err) == 0) /* as above */
            text_append(text, part.data, part.bytes);
    }
    answer->pieces[0] = (struct iovec){text->data, text->length};
    return text->failed ? error_set(err, -ENOMEM, "out of memory for the answer") : 0;
}
