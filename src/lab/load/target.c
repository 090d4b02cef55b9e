/* target.c - reads the models of the server under load. */
#include "lab/load/target.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/time.h"

#define ASK_TIMEOUT_NS (10 * NS_PER_S)
#define IMAGE_SIDE     320

void path_encode(const char *name, char *text, size_t size) {
    static const char hex[] = "0123456789ABCDEF";
    size_t at = 0;
    for (; *name && at + 4 < size; name++) {
        unsigned char c = (unsigned char)*name;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~", c)) {
            text[at++] = (char)c;
        } else {
            text[at++] = '%';
            text[at++] = hex[c >> 4];
            text[at++] = hex[c & 15];
        }
    }
    text[at] = 0;
}

/* Reads "D,D,..." into dims; returns their number, or -EINVAL. Dimensions are 1 or more, the first may be -1 when
 * `open`. */
static int dims_parse(const char *text, bool open, int64_t *dims, struct sy_error *err) {
    uint32_t count = 0;
    for (const char *at = text; *at;) {
        char *end;
        errno = 0;
        long long dim = strtoll(at, &end, 10);
        bool valid = end != at && !errno && (*end == ',' || !*end) && dim < (1LL << 40) &&
                     (dim > 0 || (dim == -1 && open && count == 0));
        if (!valid || count == TENSOR_DIMS_MAX)
            return error_set(err, -EINVAL, "'%s' is not a list of at most %d dimensions", text, TENSOR_DIMS_MAX);
        dims[count++] = dim;
        at = end + (*end == ',');
    }
    return (int)count;
}

static bool is_channels(int64_t dim) {
    return dim == 1 || dim == 3 || dim == 4;
}

/* The size assumed for an open dimension where the user says nothing. */
static int64_t dim_guess(const int64_t *shape, uint32_t dim_count, uint32_t i) {
    bool image = dim_count == 4 && ((is_channels(shape[1]) && i >= 2) || (is_channels(shape[3]) && (i == 1 || i == 2)));
    return image ? IMAGE_SIDE : 1;
}

int target_input_fill(struct target_input *input, const char *datatype, const int64_t *shape, uint32_t dim_count,
                      int64_t items, const char *hint_dims, struct sy_error *err) {
    enum datatype type = datatype_parse(datatype, strlen(datatype));
    if (type == DATATYPE_INVALID)
        return error_set(err, -EINVAL, "data type '%s' is not known", datatype);
    if (dim_count > TENSOR_DIMS_MAX)
        return error_set(err, -EINVAL, "%u dimensions are more than %d", dim_count, TENSOR_DIMS_MAX);
    input->type = type;
    input->dim_count = dim_count;
    input->batched = dim_count > 0 && shape[0] < 0;
    int64_t given[TENSOR_DIMS_MAX];
    int given_count = hint_dims ? dims_parse(hint_dims, false, given, err) : 0;
    if (given_count < 0)
        return given_count;
    uint32_t skip = input->batched ? 1 : 0;
    if (hint_dims && (uint32_t)given_count != dim_count - skip)
        return error_set(err, -EINVAL, "'%s' gives %d dimensions, the model has %u%s", hint_dims, given_count,
                         dim_count - skip, skip ? " behind that of the items" : "");
    for (uint32_t i = 0; i < dim_count; i++) {
        if (i < skip)
            input->dims[i] = items;
        else if (shape[i] >= 0 && hint_dims && given[i - skip] != shape[i])
            return error_set(err, -EINVAL, "'%s' gives %lld where the model has %lld", hint_dims,
                             (long long)given[i - skip], (long long)shape[i]);
        else
            input->dims[i] = shape[i] >= 0 ? shape[i] : hint_dims ? given[i - skip] : dim_guess(shape, dim_count, i);
    }
    return 0;
}

/* The part of a hint behind "[MODEL/]INPUT:" if it is about this input (`input` NULL: about any input of the model;
 * then the input's name is where *name points, *name_length long), else NULL. A slash may belong to an input's name
 * too. */
static const char *hint_match(const struct target_hint *hint, const char *model, const char *input, const char **name,
                              size_t *name_length) {
    const char *text = hint->text, *colon = strrchr(text, ':');
    if (!colon)
        return NULL;
    const char *rest = colon + 1;
    if (hint->declared) { /* one more field, the type */
        while (colon > text && colon[-1] != ':')
            colon--;
        if (colon == text)
            return NULL;
        rest = colon--;
    }
    size_t model_length = strlen(model);
    if (strncmp(text, model, model_length) == 0 && text[model_length] == '/')
        text += model_length + 1;
    size_t length = (size_t)(colon - text);
    if (input && (strlen(input) != length || memcmp(text, input, length) != 0))
        return NULL;
    if (name) {
        *name = text;
        *name_length = length;
    }
    return rest;
}

/* A declared hint may be for another model: "other/x:FP32:4" against model "m". */
static bool hint_is_for_other(const struct target_hint *hint, const struct target *target, const char *model) {
    for (uint32_t i = 0; i < target->models_count; i++) {
        const char *name = target->models[i].name;
        size_t length = strlen(name);
        if (strcmp(name, model) != 0 && strncmp(hint->text, name, length) == 0 && hint->text[length] == '/')
            return true;
    }
    return false;
}

static int inputs_declare(struct target *target, struct target_model *model, int64_t items, struct target_hint *hints,
                          uint32_t hints_count, struct sy_error *err) {
    for (uint32_t h = 0; h < hints_count; h++) {
        const char *name, *rest;
        size_t name_length;
        if (!hints[h].declared || hint_is_for_other(&hints[h], target, model->name) ||
            !(rest = hint_match(&hints[h], model->name, NULL, &name, &name_length)))
            continue;
        char datatype[16];
        snprintf(datatype, sizeof(datatype), "%.*s", (int)strcspn(rest, ":"), rest);
        int64_t shape[TENSOR_DIMS_MAX];
        int dim_count = dims_parse(rest + strcspn(rest, ":") + 1, true, shape, err);
        if (dim_count < 0)
            return dim_count;
        struct target_input *grown = realloc(model->inputs, (model->inputs_count + 1) * sizeof(*grown));
        if (!grown)
            return error_set(err, -ENOMEM, "out of memory");
        model->inputs = grown;
        struct target_input *input = &model->inputs[model->inputs_count++];
        *input = (struct target_input){.name = strndup(name, name_length)};
        if (!input->name)
            return error_set(err, -ENOMEM, "out of memory");
        hints[h].used = true;
        struct sy_error why;
        int rc = target_input_fill(input, datatype, shape, (uint32_t)dim_count, items, NULL, &why);
        if (rc)
            return error_set(err, rc, "input '%s': %.300s", input->name, why.text);
    }
    return 0;
}

static int input_read(struct target *target, struct target_model *model, struct target_input *input, const json_t *json,
                      const json_t *item_shapes, int64_t items, struct target_hint *hints, uint32_t hints_count,
                      struct sy_error *err) {
    const char *name = json_string_value(json_object_get(json, "name"));
    const char *datatype = json_string_value(json_object_get(json, "datatype"));
    const json_t *dims = json_object_get(json, "shape");
    if (!name || !datatype || !json_is_array(dims) || json_array_size(dims) > TENSOR_DIMS_MAX)
        return error_set(err, -EPROTO, "model '%s': an input has no name, datatype or usable shape", model->name);
    input->name = strdup(name);
    if (!input->name)
        return error_set(err, -ENOMEM, "out of memory");
    int64_t shape[TENSOR_DIMS_MAX];
    for (size_t i = 0; i < json_array_size(dims); i++)
        shape[i] = json_integer_value(json_array_get(dims, i));
    const char *hint_dims = NULL;
    for (uint32_t h = 0; h < hints_count && !hint_dims; h++) {
        if (hints[h].declared || hint_is_for_other(&hints[h], target, model->name))
            continue;
        hint_dims = hint_match(&hints[h], model->name, name, NULL, NULL);
        hints[h].used |= hint_dims != NULL;
    }
    size_t dim_count = json_array_size(dims);
    if (!hint_dims) { /* open dimensions are those with which the server was measured, if it tells them */
        const json_t *measured = json_object_get(item_shapes, name);
        size_t behind = json_array_size(measured);
        for (size_t i = 0; behind <= dim_count && i < behind; i++)
            if (shape[dim_count - behind + i] < 0)
                shape[dim_count - behind + i] = json_integer_value(json_array_get(measured, i));
    }
    struct sy_error why;
    int rc = target_input_fill(input, datatype, shape, (uint32_t)dim_count, items, hint_dims, &why);
    return rc ? error_set(err, rc, "model '%s', input '%s': %.300s", model->name, name, why.text) : 0;
}

static int metadata_read(struct target *target, struct target_model *model, const char *body, int64_t items,
                         struct target_hint *hints, uint32_t hints_count, struct sy_error *err) {
    json_error_t why;
    json_t *json = json_loads(body, 0, &why);
    const json_t *inputs = json_object_get(json, "inputs");
    int rc = 0;
    if (!json)
        rc = error_set(err, -EPROTO, "model '%s': its metadata is not JSON: %s", model->name, why.text);
    const json_t *parameters = json_object_get(json, "parameters");
    double slo_ms = json_number_value(json_object_get(parameters, "slo_ms"));
    if (slo_ms > 0 && slo_ms < 1e9)
        model->slo_ns = (int64_t)(slo_ms * 1e6);
    if (!rc && !model->inputs) {
        model->inputs = calloc(json_array_size(inputs) + 1, sizeof(*model->inputs));
        if (!model->inputs)
            rc = error_set(err, -ENOMEM, "no memory for the inputs of model '%s'", model->name);
        for (size_t i = 0; !rc && i < json_array_size(inputs); i++) {
            model->inputs_count++;
            rc = input_read(target, model, &model->inputs[i], json_array_get(inputs, i),
                            json_object_get(parameters, "item_shapes"), items, hints, hints_count, err);
        }
    }
    json_decref(json);
    return rc;
}

static int model_read(struct target *target, struct target_model *model, const struct server *server, int64_t items,
                      struct target_hint *hints, uint32_t hints_count, struct sy_error *err) {
    int rc = inputs_declare(target, model, items, hints, hints_count, err);
    if (rc)
        return rc;
    char name[800], path[900];
    path_encode(model->name, name, sizeof(name));
    snprintf(path, sizeof(path), "/v2/models/%s", name);
    struct answer answer;
    rc = fetch(server, "GET", path, ASK_TIMEOUT_NS, &answer, err);
    if (!rc && answer.status == 200)
        rc = metadata_read(target, model, answer.body, items, hints, hints_count, err);
    else if (!rc && !model->inputs_count)
        rc = error_set(err, -ENOENT, "model '%s': the server answers %d to GET %s: %.200s (--input declares inputs)",
                       model->name, answer.status, path, answer.body);
    if (model->inputs_count) /* declared, so the server need not tell */
        rc = rc == -EPROTO ? 0 : rc;
    free(answer.body);
    if (!rc && !model->inputs_count)
        rc = error_set(err, -EINVAL, "model '%s': the server tells of no inputs (--input declares them)", model->name);
    bool batched = false;
    for (uint32_t i = 0; !rc && i < model->inputs_count; i++)
        batched |= model->inputs[i].batched;
    if (!rc && items > 1 && !batched)
        rc = error_set(err, -EINVAL, "model '%s' has no batch dimension, so --items must be 1", model->name);
    return rc;
}

static int model_add(struct target *target, const char *name, size_t length, struct sy_error *err) {
    for (uint32_t i = 0; i < target->models_count; i++)
        if (strlen(target->models[i].name) == length && memcmp(target->models[i].name, name, length) == 0)
            return 0; /* the index lists every version */
    struct target_model *grown = realloc(target->models, (target->models_count + 1) * sizeof(*grown));
    char *copy = strndup(name, length);
    if (grown)
        target->models = grown;
    if (!grown || !copy) {
        free(copy);
        return error_set(err, -ENOMEM, "out of memory");
    }
    target->models[target->models_count++] = (struct target_model){.name = copy};
    return 0;
}

/* Reads the names of all models that are ready by the server's index, in its order. */
static int index_read(struct target *target, const struct server *server, struct sy_error *err) {
    struct answer answer;
    int rc = fetch(server, "POST", "/v2/repository/index", ASK_TIMEOUT_NS, &answer, err);
    if (rc)
        return rc;
    if (answer.status != 200)
        rc = error_set(err, -ENOENT, "the server answers %d to POST /v2/repository/index: %.200s (%s)", answer.status,
                       answer.body, answer.status == 401 ? "--token" : "--models names the models to ask");
    json_t *json = rc ? NULL : json_loads(answer.body, 0, NULL);
    free(answer.body);
    for (size_t i = 0; !rc && i < json_array_size(json); i++) {
        const json_t *entry = json_array_get(json, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *state = json_string_value(json_object_get(entry, "state"));
        if (name && (!state || !*state || strcmp(state, "READY") == 0))
            rc = model_add(target, name, strlen(name), err);
    }
    json_decref(json);
    if (!rc && !target->models_count)
        rc = error_set(err, -ENOENT, "the server lists no ready model; name them with --models");
    return rc;
}

int target_read(struct target *target, const struct server *server, const char *names, int64_t items,
                struct target_hint *hints, uint32_t hints_count, struct sy_error *err) {
    *target = (struct target){0};
    int rc = names ? 0 : index_read(target, server, err);
    for (const char *at = names; !rc && at && *at;) {
        size_t length = strcspn(at, ",");
        if (!length)
            return error_set(err, -EINVAL, "--models: '%s' holds an empty name", names);
        rc = model_add(target, at, length, err);
        at += length + (at[length] == ',');
    }
    for (uint32_t i = 0; !rc && i < target->models_count; i++)
        rc = model_read(target, &target->models[i], server, items, hints, hints_count, err);
    for (uint32_t h = 0; !rc && h < hints_count; h++)
        if (!hints[h].used)
            rc = error_set(err, -EINVAL, "'%s' is about no input of these models, or lacks a ':'", hints[h].text);
    return rc;
}

void target_free(struct target *target) {
    for (uint32_t i = 0; i < target->models_count; i++) {
        for (uint32_t j = 0; j < target->models[i].inputs_count; j++)
            free(target->models[i].inputs[j].name);
        free(target->models[i].inputs);
        free(target->models[i].name);
    }
    free(target->models);
    *target = (struct target){0};
}
