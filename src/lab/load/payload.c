/* payload.c - makes the bytes of whole inference requests. */
#include "lab/load/payload.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/rng.h"

#define BODY_BYTES_MAX (1LL << 30)
#define INTEGERS       100 /* number of different integers; small, so that ids index into any embedding table */
#define STRING_BYTES   8

static int64_t elements_count(const struct target_input *input) {
    int64_t count = 1;
    for (uint32_t i = 0; i < input->dim_count; i++)
        if (__builtin_mul_overflow(count, input->dims[i], &count) || count > BODY_BYTES_MAX)
            return BODY_BYTES_MAX + 1;
    return count;
}

/* k/1024 as an IEEE half: exact, so JSON and binary carry the same value. */
static uint16_t half_make(uint32_t k) {
    if (!k)
        return 0;
    uint32_t exponent = 31 - (uint32_t)__builtin_clz(k);
    return (uint16_t)(((exponent + 5) << 10) | ((k << (10 - exponent)) & 0x3ff));
}

static void string_make(struct rng *rng, char *letters) {
    for (int i = 0; i < STRING_BYTES; i++)
        letters[i] = (char)('a' + rng_below(rng, 26));
}

/* One element, little-endian (as all machines this runs on are). */
static void element_write_binary(FILE *to, enum datatype type, struct rng *rng) {
    uint64_t integer = rng_below(rng, INTEGERS);
    uint32_t k = (uint32_t)rng_below(rng, 1024);
    float real = (float)k / 1024.0f;
    double real64 = real;
    uint16_t half = half_make(k);
    uint32_t bits;
    memcpy(&bits, &real, sizeof(bits));
    uint16_t brain = (uint16_t)(bits >> 16);
    uint8_t boolean = integer & 1;
    char string[4 + STRING_BYTES] = {STRING_BYTES};
    switch (type) {
    case DATATYPE_BOOL:
        fwrite(&boolean, 1, 1, to);
        break;
    case DATATYPE_FP16:
        fwrite(&half, sizeof(half), 1, to);
        break;
    case DATATYPE_BF16:
        fwrite(&brain, sizeof(brain), 1, to);
        break;
    case DATATYPE_FP32:
        fwrite(&real, sizeof(real), 1, to);
        break;
    case DATATYPE_FP64:
        fwrite(&real64, sizeof(real64), 1, to);
        break;
    case DATATYPE_BYTES:
        string_make(rng, string + 4);
        fwrite(string, sizeof(string), 1, to);
        break;
    default:
        fwrite(&integer, datatype_bytes(type), 1, to);
        break;
    }
}

static void element_write_json(FILE *to, enum datatype type, struct rng *rng) {
    uint64_t integer = rng_below(rng, INTEGERS);
    uint32_t k = (uint32_t)rng_below(rng, 1024);
    char letters[STRING_BYTES];
    switch (type) {
    case DATATYPE_BOOL:
        fputs(integer & 1 ? "true" : "false", to);
        break;
    case DATATYPE_FP16:
    case DATATYPE_BF16:
    case DATATYPE_FP32:
    case DATATYPE_FP64:
        fprintf(to, "%.7g", k / 1024.0);
        break;
    case DATATYPE_BYTES:
        string_make(rng, letters);
        fprintf(to, "\"%.*s\"", STRING_BYTES, letters);
        break;
    default:
        fprintf(to, "%u", (unsigned)integer);
        break;
    }
}

static void input_write(FILE *to, const struct target_input *input, bool json_tensors, struct rng *rng) {
    fputs("{\"name\":", to);
    json_t *json = json_string(input->name);
    char *dump = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    fputs(dump ? dump : "\"\"", to);
    free(dump);
    json_decref(json);
    fprintf(to, ",\"datatype\":\"%s\",\"shape\":[", datatype_name(input->type));
    for (uint32_t i = 0; i < input->dim_count; i++)
        fprintf(to, "%s%lld", i ? "," : "", (long long)input->dims[i]);
    int64_t count = elements_count(input);
    if (!json_tensors) {
        fprintf(to, "],\"parameters\":{\"binary_data_size\":%lld}}",
                (long long)count * (input->type == DATATYPE_BYTES ? 4 + STRING_BYTES : datatype_bytes(input->type)));
        return;
    }
    fputs("],\"data\":[", to);
    for (int64_t i = 0; i < count; i++) {
        if (i)
            fputc(',', to);
        element_write_json(to, input->type, rng);
    }
    fputs("]}", to);
}

/* The body; its first *json_bytes are the JSON. */
static int body_build(const struct target_model *model, const struct payload_options *options, struct rng *rng,
                      struct payload *body, size_t *json_bytes) {
    FILE *to = open_memstream(&body->bytes, &body->length);
    if (!to)
        return -ENOMEM;
    fputs("{\"inputs\":[", to);
    for (uint32_t i = 0; i < model->inputs_count; i++) {
        if (i)
            fputc(',', to);
        input_write(to, &model->inputs[i], options->json_tensors, rng);
    }
    fputc(']', to);
    if (options->timeout_us || options->binary_outputs)
        fputs(",\"parameters\":{", to);
    if (options->binary_outputs)
        fputs("\"binary_data_output\":true", to);
    if (options->timeout_us)
        fprintf(to, "%s\"timeout\":%lld", options->binary_outputs ? "," : "", (long long)options->timeout_us);
    fputs(options->timeout_us || options->binary_outputs ? "}}" : "}", to);
    *json_bytes = (size_t)ftell(to);
    for (uint32_t i = 0; i < model->inputs_count && !options->json_tensors; i++)
        for (int64_t left = elements_count(&model->inputs[i]); left; left--)
            element_write_binary(to, model->inputs[i].type, rng);
    bool failed = ferror(to);
    return fclose(to) || failed ? -ENOMEM : 0;
}

int payload_build(struct payload *payload, const struct server *server, const struct target_model *model,
                  const struct payload_options *options, uint64_t seed, struct sy_error *err) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < model->inputs_count; i++)
        bytes += elements_count(&model->inputs[i]) * 12;
    if (bytes > BODY_BYTES_MAX)
        return error_set(err, -EINVAL, "model '%s': a request would exceed %lld MB", model->name,
                         (long long)(BODY_BYTES_MAX >> 20));
    struct rng rng;
    rng_seed(&rng, seed);
    struct payload body = {0};
    size_t json_bytes = 0;
    *payload = (struct payload){0};
    int rc = body_build(model, options, &rng, &body, &json_bytes);
    FILE *to = rc ? NULL : open_memstream(&payload->bytes, &payload->length);
    if (to) {
        char name[800];
        path_encode(model->name, name, sizeof(name));
        fprintf(to, "POST %s/v2/models/%s/infer HTTP/1.1\r\nHost: %s\r\n%s", server->path, name, server->authority,
                server->headers);
        if (options->json_tensors)
            fputs("Content-Type: application/json\r\n", to);
        else
            fprintf(to, "Content-Type: application/octet-stream\r\nInference-Header-Content-Length: %zu\r\n",
                    json_bytes);
        fprintf(to, "Content-Length: %zu\r\n\r\n", body.length);
        fwrite(body.bytes, 1, body.length, to);
        bool failed = ferror(to);
        rc = fclose(to) || failed ? -ENOMEM : 0;
    } else if (!rc) {
        rc = -ENOMEM;
    }
    free(body.bytes);
    if (rc) {
        free(payload->bytes);
        *payload = (struct payload){0};
        return error_set(err, rc, "model '%s': out of memory for its requests", model->name);
    }
    return 0;
}
