/* model_config.c - reads config.pbtxt and checks it against the model. */
#include "model/config/model_config.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/data/profile.h"
#include "core/system/files.h"
#include "core/system/log.h"
#include "core/util/conf.h"
#include "core/util/container.h"
#include "model/config/ensemble.h"
#include "model_config.pb-c.h"

#define PLACE_MAX 256 /* bytes of a field's dotted place */
#define LIST_MAX  300 /* bytes of a list of fields in a warning */

/* ---- the check against the schema ---- */

struct check {
    const char *origin;
    void (*unknown)(void *context, const struct pbtxt_node *node, const char *place);
    void *context;
    struct sy_error *err;
};

static bool word_among(const struct pbtxt_node *node, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(node->text, words[i]) == 0)
            return true;
    return false;
}

static int wrong_kind(const struct check *c, const struct pbtxt_node *node, const char *expected) {
    static const char *const found[] = {"a message", "a string", "a number", "a word"};
    return pbtxt_error(c->origin, node, c->err, "%.60s: expected %s, found %s%s%.60s", node->name, expected,
                       found[node->kind], node->text ? " " : "", node->text ? node->text : "");
}

static int enum_check(const struct check *c, const struct pbtxt_node *node, const ProtobufCEnumDescriptor *descriptor) {
    char words[LIST_MAX] = "";
    size_t at = 0;
    if (node->kind == PBTXT_WORD && protobuf_c_enum_descriptor_get_value_by_name(descriptor, node->text))
        return 0;
    for (unsigned i = 0; i < descriptor->n_values && at < sizeof(words); i++)
        at += (size_t)snprintf(words + at, sizeof(words) - at, "%s%s", at ? ", " : "", descriptor->values[i].name);
    return wrong_kind(c, node, words);
}

static int scalar_check(const struct check *c, const struct pbtxt_node *node, const ProtobufCFieldDescriptor *field) {
    static const char *const bools[] = {"true", "false", "True", "False", "t", "f", "0", "1"};
    static const char *const floats[] = {"inf", "infinity", "nan"};
    bool number = node->kind == PBTXT_NUMBER, word = node->kind == PBTXT_WORD;
    int64_t least = INT32_MIN, most = INT32_MAX, value;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return node->kind == PBTXT_STRING ? 0 : wrong_kind(c, node, "a string in quotes");
    case PROTOBUF_C_TYPE_BOOL:
        return (word || number) && word_among(node, bools, ARRAY_COUNT(bools)) ? 0
                                                                               : wrong_kind(c, node, "true or false");
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return number || (word && word_among(node, floats, ARRAY_COUNT(floats))) ? 0 : wrong_kind(c, node, "a number");
    case PROTOBUF_C_TYPE_ENUM:
        return enum_check(c, node, field->descriptor);
    case PROTOBUF_C_TYPE_INT64:
        least = INT64_MIN;
        most = INT64_MAX;
        break;
    case PROTOBUF_C_TYPE_UINT32:
        least = 0;
        most = UINT32_MAX;
        break;
    case PROTOBUF_C_TYPE_UINT64:
        least = 0;
        most = INT64_MAX;
        break;
    default:
        break;
    }
    return pbtxt_get_int(c->origin, node, least, most, &value, c->err);
}

/* Refuses a second value of a field that may have only one, and a second member of a oneof. */
static int once_check(const struct check *c, const struct pbtxt_node *message, const ProtobufCMessageDescriptor *type,
                      const struct pbtxt_node *node, const ProtobufCFieldDescriptor *field) {
    if (field->label != PROTOBUF_C_LABEL_REPEATED && pbtxt_find(message, node->name) != node)
        return pbtxt_error(c->origin, node, c->err, "%s is given twice", node->name);
    bool one = field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
    for (const struct pbtxt_node *other = message->first; one && other != node; other = other->next) {
        const ProtobufCFieldDescriptor *its = protobuf_c_message_descriptor_get_field_by_name(type, other->name);
        if (its && its->flags & PROTOBUF_C_FIELD_FLAG_ONEOF && its->quantifier_offset == field->quantifier_offset)
            return pbtxt_error(c->origin, node, c->err, "%s and %s exclude each other", node->name, other->name);
    }
    return 0;
}

static int message_check(const struct check *c, const struct pbtxt_node *message,
                         const ProtobufCMessageDescriptor *type, const char *place) {
    for (const struct pbtxt_node *node = message->first; node; node = node->next) {
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(type, node->name);
        char inner[PLACE_MAX];
        snprintf(inner, sizeof(inner), "%.180s%s%.60s", place, *place ? "." : "", node->name);
        if (!field) {
            if (c->unknown)
                c->unknown(c->context, node, inner);
            continue;
        }
        int rc = once_check(c, message, type, node, field);
        if (rc)
            return rc;
        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            rc = scalar_check(c, node, field);
        else if (node->kind != PBTXT_MESSAGE)
            rc = wrong_kind(c, node, "a message in { }");
        else
            rc = message_check(c, node, field->descriptor, inner);
        if (rc)
            return rc;
    }
    return 0;
}

int model_config_check(const char *origin, const struct pbtxt_node *root,
                       void (*unknown)(void *context, const struct pbtxt_node *node, const char *place), void *context,
                       struct sy_error *err) {
    struct check c = {.origin = origin, .unknown = unknown, .context = context, .err = err};
    return message_check(&c, root, &inference__model_config__descriptor, "");
}

/* ---- reading what is honoured ---- */

/* A list of fields for one warning; each is in it once. */
struct field_list {
    char text[LIST_MAX];
    size_t length;
};

static void field_list_add(struct field_list *list, const char *place) {
    const char *found = strstr(list->text, place);
    size_t length = strlen(place);
    while (found && !((found == list->text || found[-1] == ' ') && (!found[length] || found[length] == ',')))
        found = strstr(found + 1, place);
    if (!found && list->length + length + 3 < sizeof(list->text))
        list->length += (size_t)sprintf(list->text + list->length, "%s%s", list->length ? ", " : "", place);
}

static void unknown_add(void *context, const struct pbtxt_node *node, const char *place) {
    (void)node;
    field_list_add(context, place);
}

static bool honoured(const char *name, const char *const *names) {
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names;
}

/* A field whose message has some fields that are honoured. */
struct partly_honoured {
    const char *field;
    const char *const *honoured;
};

/* Collects the fields without effect of a tree that has been checked. */
static void without_effect_collect(const struct pbtxt_node *root, struct field_list *list) {
    static const char *const of_ensemble[] = {
        "name",           "platform", "backend", "max_batch_size", "input", "output", "ensemble_scheduling",
        "version_policy", NULL};
    static const char *const top[] = {
        "name",   "platform",         "backend",        "max_batch_size", "default_model_filename", "input",
        "output", "dynamic_batching", "version_policy", "model_warmup",   "instance_group",         "model_operations",
        NULL};
    static const char *const input[] = {"name",     "data_type",          "dims",    "format",
                                        "optional", "allow_ragged_batch", "reshape", NULL};
    static const char *const output[] = {"name", "data_type", "dims", "label_filename", "reshape", NULL};
    static const char *const batching[] = {
        "max_queue_delay_microseconds", "preferred_batch_size", "preserve_ordering",     "priority_levels",
        "default_priority_level",       "default_queue_policy", "priority_queue_policy", NULL};
    static const char *const instances[] = {"name", "kind", "count", "gpus", NULL};
    static const struct partly_honoured parts[] = {
        {"input", input}, {"output", output}, {"dynamic_batching", batching}, {"instance_group", instances}};
    const struct pbtxt_node *scheduling = pbtxt_find(root, "ensemble_scheduling");
    const char *const *named = scheduling ? of_ensemble : top;
    char place[PLACE_MAX];
    if (scheduling) {
        if (pbtxt_find(scheduling, "max_inflight_requests"))
            field_list_add(list, "ensemble_scheduling.max_inflight_requests");
        for (const struct pbtxt_node *step = pbtxt_find(scheduling, "step"); step; step = pbtxt_next(step))
            if (pbtxt_find(step, "model_namespace"))
                field_list_add(list, "ensemble_scheduling.step.model_namespace");
    }
    for (const struct pbtxt_node *node = root->first; node; node = node->next) {
        const struct partly_honoured *part = parts;
        const ProtobufCFieldDescriptor *known =
            protobuf_c_message_descriptor_get_field_by_name(&inference__model_config__descriptor, node->name);
        while (part < parts + ARRAY_COUNT(parts) && strcmp(part->field, node->name) != 0)
            part++;
        const struct pbtxt_node *size = pbtxt_find(node, "batch_size");
        if (strcmp(node->name, "model_warmup") == 0 && (!size || strcmp(size->text, "0") == 0)) /* as with Triton */
            field_list_add(list, "model_warmup of batch_size 0");
        if (!honoured(node->name, named) && known) {
            field_list_add(list, node->name);
            continue;
        }
        for (const struct pbtxt_node *field = part < parts + ARRAY_COUNT(parts) ? node->first : NULL; field;
             field = field->next) {
            snprintf(place, sizeof(place), "%.60s.%.60s", node->name, field->name);
            bool has_effect = honoured(field->name, part->honoured) &&
                              !(scheduling && strcmp(field->name, "reshape") == 0); /* an ensemble has no file */
            if (!has_effect && protobuf_c_message_descriptor_get_field_by_name(known->descriptor, field->name))
                field_list_add(list, place);
        }
    }
}

static int text_get(const char *origin, const struct pbtxt_node *node, char *to, size_t bytes, struct sy_error *err) {
    if (memchr(node->text, '\0', node->length))
        return pbtxt_error(origin, node, err, "%s: a zero byte in a text", node->name);
    if (node->length >= bytes)
        return pbtxt_error(origin, node, err, "%s: longer than %zu bytes", node->name, bytes - 1);
    memcpy(to, node->text, node->length + 1);
    return 0;
}

enum datatype model_config_datatype(const char *word) {
    if (strcmp(word, "TYPE_STRING") == 0)
        return DATATYPE_BYTES;
    return datatype_parse(word + strlen("TYPE_"), strlen(word) - strlen("TYPE_"));
}

/* Reads the dimensions `field` of a tensor, which has a name already. */
static int dims_read(const char *origin, const struct pbtxt_node *node, const char *field,
                     const struct model_config_tensor *tensor, const char *what, int64_t *dims, uint32_t *dim_count,
                     struct sy_error *err) {
    int rc = 0;
    for (const struct pbtxt_node *dim = pbtxt_find(node, field); dim && !rc; dim = pbtxt_next(dim)) {
        if (*dim_count == TENSOR_DIMS_MAX)
            return pbtxt_error(origin, dim, err, "%s '%s': more than %d dimensions", what, tensor->name,
                               TENSOR_DIMS_MAX);
        int64_t *value = &dims[(*dim_count)++];
        rc = pbtxt_get_int(origin, dim, -1, INT32_MAX, value, err);
        if (!rc && *value == 0)
            rc = pbtxt_error(origin, dim, err, "%s '%s': a dimension is -1 (any size) or positive, not 0", what,
                             tensor->name);
    }
    return rc;
}

/* The number of elements of the dims from *at up to the next -1. *at becomes the place behind that -1. Returns -1: too
 * many elements. */
static int64_t fixed_elements(const int64_t *dims, uint32_t dim_count, uint32_t *at) {
    uint32_t from = *at, to = from;
    while (to < dim_count && dims[to] != -1)
        to++;
    *at = to + 1;
    return dims_product(dims, from, to);
}

/* Checks a reshape by Triton's rule: each -1 of `reshape` stands for a -1 of `dims`, and between two of them both have
 * as many elements. */
static int reshape_check(const char *origin, const struct pbtxt_node *reshape, const struct model_config_tensor *tensor,
                         struct sy_error *err) {
    char dims[128], wanted[128];
    uint32_t d = 0, r = 0;
    bool same = true;
    while (same && d <= tensor->dim_count && r <= tensor->reshape_dim_count)
        same = fixed_elements(tensor->dims, tensor->dim_count, &d) ==
               fixed_elements(tensor->reshape, tensor->reshape_dim_count, &r);
    if (same && d > tensor->dim_count && r > tensor->reshape_dim_count)
        return 0;
    dims_format(tensor->dims, 0, tensor->dim_count, dims, sizeof(dims));
    dims_format(tensor->reshape, 0, tensor->reshape_dim_count, wanted, sizeof(wanted));
    return pbtxt_error(
        origin, reshape, err,
        "'%.100s': reshape is %s, which has other numbers of elements, or of dimensions of any size, than "
        "dims, %s",
        tensor->name, wanted, dims);
}

static int tensor_read(const char *origin, const struct pbtxt_node *node, struct model_config_tensor *tensor,
                       struct sy_error *err) {
    *tensor = (struct model_config_tensor){
        .line = node->line, .column = node->column, .optional = pbtxt_flag(pbtxt_find(node, "optional"))};
    const struct pbtxt_node *name = pbtxt_find(node, "name"), *type = pbtxt_find(node, "data_type"),
                            *labels = pbtxt_find(node, "label_filename"), *format = pbtxt_find(node, "format"),
                            *reshape = pbtxt_find(node, "reshape");
    if (!name || !name->length)
        return pbtxt_error(origin, node, err, "%s: name is missing", node->name);
    int rc = text_get(origin, name, tensor->name, sizeof(tensor->name), err);
    if (rc)
        return rc;
    if (type)
        tensor->type = model_config_datatype(type->text);
    if (format)
        tensor->format = strcmp(format->text, "FORMAT_NHWC") == 0   ? IMAGE_NHWC
                         : strcmp(format->text, "FORMAT_NCHW") == 0 ? IMAGE_NCHW
                                                                    : IMAGE_NONE;
    if (labels)
        rc = text_get(origin, labels, tensor->label_file, sizeof(tensor->label_file), err);
    if (!rc && tensor->label_file[0] && !file_name_inside(tensor->label_file, strlen(tensor->label_file)))
        rc = pbtxt_error(origin, labels, err, "label_filename: '%.60s' is not within the model's folder", labels->text);
    if (!rc)
        rc = dims_read(origin, node, "dims", tensor, node->name, tensor->dims, &tensor->dim_count, err);
    tensor->has_dims = tensor->dim_count > 0;
    if (rc || !reshape)
        return rc;
    tensor->has_reshape = true;
    if (!tensor->has_dims)
        return pbtxt_error(origin, reshape, err, "%s '%s': reshape without dims", node->name, tensor->name);
    rc = dims_read(origin, reshape, "shape", tensor, node->name, tensor->reshape, &tensor->reshape_dim_count, err);
    return rc ? rc : reshape_check(origin, reshape, tensor, err);
}

static int tensors_read(const char *origin, const struct pbtxt_node *root, const char *field,
                        struct model_config_tensor *tensors, uint32_t *count, struct sy_error *err) {
    for (const struct pbtxt_node *node = pbtxt_find(root, field); node; node = pbtxt_next(node)) {
        if (*count == TENSORS_MAX)
            return pbtxt_error(origin, node, err, "more than %d %ss", TENSORS_MAX, field);
        int rc = tensor_read(origin, node, &tensors[*count], err);
        if (rc)
            return rc;
        for (uint32_t i = 0; i < *count; i++)
            if (strcmp(tensors[i].name, tensors[*count].name) == 0)
                return pbtxt_error(origin, node, err, "%s '%s' is given twice", field, tensors[i].name);
        ++*count;
    }
    return 0;
}

/* Allows only what this server's engine runs; an empty value means any, as with Triton. */
static int engine_check(const char *origin, const struct pbtxt_node *root, const char *field, const char *wanted,
                        struct sy_error *err) {
    const struct pbtxt_node *node = pbtxt_find(root, field);
    if (!node || !node->length || strcmp(node->text, wanted) == 0)
        return 0;
    return pbtxt_error(origin, node, err, "%s is '%.60s', but this server runs '%s' only", field, node->text, wanted);
}

/* Whether the file says, one way or the other, that the model is an ensemble. */
static bool is_ensemble(const struct pbtxt_node *root) {
    const struct pbtxt_node *platform = pbtxt_find(root, "platform");
    return pbtxt_find(root, "ensemble_scheduling") || (platform && strcmp(platform->text, "ensemble") == 0);
}

static int platform_check(const char *origin, const struct pbtxt_node *root, struct sy_error *err) {
    if (is_ensemble(root)) {
        const struct pbtxt_node *platform = pbtxt_find(root, "platform"), *backend = pbtxt_find(root, "backend");
        if (platform && platform->length && strcmp(platform->text, "ensemble") != 0)
            return pbtxt_error(origin, platform, err,
                               "platform is '%.60s', but with ensemble_scheduling it is 'ensemble'", platform->text);
        if (backend && backend->length)
            return pbtxt_error(origin, backend, err, "backend is '%.60s', but an ensemble has none", backend->text);
        if (!pbtxt_find(root, "ensemble_scheduling"))
            return pbtxt_error(origin, platform, err, "platform: an ensemble needs ensemble_scheduling");
        return 0;
    }
    int rc = engine_check(origin, root, "platform", "onnxruntime_onnx", err);
    return rc ? rc : engine_check(origin, root, "backend", "onnxruntime", err);
}

/* Refuses fields that would change answers and have no effect here. */
static int unserved_check(const char *origin, const struct pbtxt_node *root, struct sy_error *err) {
    static const char *const fields[] = {"batch_input", "batch_output"};
    static const char *const of_sequences[] = {"control_input", "state"};
    const struct pbtxt_node *node, *sequences = pbtxt_find(root, "sequence_batching"),
                                   *answers = pbtxt_find(root, "model_transaction_policy");
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++)
        if ((node = pbtxt_find(root, fields[i])))
            return pbtxt_error(origin, node, err, "%s: this server makes no such tensors of a batch", fields[i]);
    for (const struct pbtxt_node *input = pbtxt_find(root, "input"); input; input = pbtxt_next(input))
        if (pbtxt_flag(node = pbtxt_find(input, "allow_ragged_batch")))
            return pbtxt_error(origin, node, err,
                               "allow_ragged_batch: this server batches only inputs of the same shape");
    node = answers ? pbtxt_find(answers, "decoupled") : NULL;
    if (pbtxt_flag(node))
        return pbtxt_error(origin, node, err, "decoupled: this server gives each request one answer");
    for (size_t i = 0; sequences && i < ARRAY_COUNT(of_sequences); i++)
        if ((node = pbtxt_find(sequences, of_sequences[i])))
            return pbtxt_error(origin, node, err, "sequence_batching: %s: this server keeps no state of sequences",
                               of_sequences[i]);
    return 0;
}

static int versions_read(const char *origin, const struct pbtxt_node *policy, struct version_policy *versions,
                         struct sy_error *err) {
    const struct pbtxt_node *latest = pbtxt_find(policy, "latest"), *specific = pbtxt_find(policy, "specific");
    const struct pbtxt_node *count = latest ? pbtxt_find(latest, "num_versions") : NULL;
    int64_t number = 1;
    versions->choice = specific ? VERSIONS_SPECIFIC : pbtxt_find(policy, "all") ? VERSIONS_ALL : VERSIONS_LATEST;
    int rc = count ? pbtxt_get_int(origin, count, 1, UINT32_MAX, &number, err) : 0;
    versions->latest = (uint32_t)number;
    for (const struct pbtxt_node *node = specific ? pbtxt_find(specific, "versions") : NULL; node && !rc;
         node = pbtxt_next(node)) {
        if (versions->specific_count == VERSIONS_SPECIFIC_MAX)
            return pbtxt_error(origin, node, err, "versions: more than %d", VERSIONS_SPECIFIC_MAX);
        rc = pbtxt_get_int(origin, node, 1, UINT32_MAX, &number, err);
        versions->specific[versions->specific_count++] = (uint32_t)number;
    }
    if (!rc && specific && versions->specific_count == 0)
        rc = pbtxt_error(origin, specific, err, "specific: versions is missing");
    return rc;
}

static int op_libraries_read(const char *origin, const struct pbtxt_node *operations, struct model_config *config,
                             struct sy_error *err) {
    const struct pbtxt_node *node = operations ? pbtxt_find(operations, "op_library_filename") : NULL;
    int rc = 0;
    if (node) {
        config->op_libraries_line = node->line;
        config->op_libraries_column = node->column;
    }
    for (uint32_t i = 0; node && !rc; node = pbtxt_next(node), i++) {
        if (i == OP_LIBRARIES_MAX)
            return pbtxt_error(origin, node, err, "op_library_filename: more than %d", OP_LIBRARIES_MAX);
        if (!node->length)
            return pbtxt_error(origin, node, err, "op_library_filename: the name is empty");
        rc = text_get(origin, node, config->op_libraries.paths[i], OP_LIBRARY_PATH_MAX, err);
    }
    return rc;
}

static int honoured_read(const char *origin, const struct pbtxt_node *root, struct model_config *config,
                         struct sy_error *err) {
    const struct pbtxt_node *node;
    int rc = platform_check(origin, root, err);
    if (!rc)
        rc = unserved_check(origin, root, err);
    if (!rc && (node = pbtxt_find(root, "name")))
        rc = text_get(origin, node, config->name, sizeof(config->name), err);
    if (!rc && (node = pbtxt_find(root, "default_model_filename"))) {
        rc = text_get(origin, node, config->model_file, sizeof(config->model_file), err);
        if (!rc && strchr(config->model_file, '/'))
            rc = pbtxt_error(origin, node, err, "default_model_filename: '%.60s' is not a plain file name", node->text);
    }
    if (!rc && (node = pbtxt_find(root, "max_batch_size"))) {
        rc = pbtxt_get_int(origin, node, 0, INT32_MAX, &config->max_batch_size, err);
        config->max_batch_size_line = node->line;
        config->max_batch_size_column = node->column;
    }
    if (!rc && (node = pbtxt_find(root, "dynamic_batching")))
        rc = queue_rules_read(origin, node, config->max_batch_size, &config->queue, err);
    if (!rc && (node = pbtxt_find(root, "version_policy")))
        rc = versions_read(origin, node, &config->versions, err);
    if (!rc)
        rc = instance_groups_read(origin, pbtxt_find(root, "instance_group"), &config->instances, err);
    if (!rc && !is_ensemble(root))
        rc = op_libraries_read(origin, pbtxt_find(root, "model_operations"), config, err);
    if (!rc)
        rc = tensors_read(origin, root, "input", config->inputs, &config->input_count, err);
    if (!rc)
        rc = tensors_read(origin, root, "output", config->outputs, &config->output_count, err);
    if (!rc && is_ensemble(root)) /* the last: what fails before leaves nothing to free */
        rc = ensemble_read(origin, root, config, &config->ensemble, err);
    return rc;
}

void model_config_release(struct model_config *config) {
    ensemble_free(config->ensemble);
    config->ensemble = NULL;
}

int model_config_read_text(const char *origin, const char *text, size_t bytes, bool quiet, struct model_config *config,
                           struct sy_error *err) {
    struct pbtxt_node *root;
    memset(config, 0, sizeof(*config));
    snprintf(config->path, sizeof(config->path), "%s", origin);
    int rc = pbtxt_read(origin, text, bytes, &root, err);
    if (rc)
        return rc;
    struct field_list unknown = {0}, without_effect = {0};
    rc = model_config_check(origin, root, unknown_add, &unknown, err);
    if (!rc)
        without_effect_collect(root, &without_effect);
    if (!rc)
        rc = honoured_read(origin, root, config, err);
    if (!rc && !quiet && unknown.length)
        log_warn("config fields unknown, ignored", "file=\"%s\" fields=\"%s\"", origin, unknown.text);
    if (!rc && !quiet && config->max_batch_size > PROFILE_BATCH_MAX)
        log_warn("max_batch_size is beyond the greatest batch", "file=\"%s\" max_batch_size=%lld greatest=%d", origin,
                 (long long)config->max_batch_size, PROFILE_BATCH_MAX);
    if (!rc && !quiet && without_effect.length)
        log_warn("config fields have no effect yet", "file=\"%s\" fields=\"%s\"", origin, without_effect.text);
    pbtxt_free(root);
    return rc;
}

int model_config_read_folder(const char *folder, bool quiet, struct model_config *config, bool *found,
                             struct sy_error *err) {
    char path[PATH_MAX], *text;
    struct stat st;
    size_t bytes;
    if (snprintf(path, sizeof(path), "%s/" MODEL_CONFIG_FILE, folder) >= (int)sizeof(path))
        return error_set(err, -ENAMETOOLONG, "%.400s: %s", folder, strerror(ENAMETOOLONG));
    *found = lstat(path, &st) == 0; /* a dangling link counts as a mistake, not as a missing file */
    int rc = *found ? conf_slurp(path, &text, &bytes, err) : 0;
    if (rc || !*found)
        return rc;
    rc = model_config_read_text(path, text, bytes, quiet, config, err);
    free(text);
    return rc;
}

/* ---- against the model ---- */

static int dims_apply(const struct model_config *config, const struct model_config_tensor *tensor, const char *what,
                      bool batched, struct tensor_spec *spec, struct sy_error *err) {
    /* Triton has no tensors without dimensions: one element is what the model's single number is for clients. */
    bool number = !tensor->has_reshape && spec->dim_count == 0 && tensor->dim_count == 1 && tensor->dims[0] == 1;
    const int64_t *dims = tensor->has_reshape ? tensor->reshape : tensor->dims;
    uint32_t dim_count = tensor->has_reshape ? tensor->reshape_dim_count : number ? 0 : tensor->dim_count;
    /* Without a max_batch_size the dims may include the batch dimension or not; their number tells. */
    bool without_batch =
        config->max_batch_size > 0 || (!config->max_batch_size_line && batched && dim_count + 1 == spec->dim_count);
    uint32_t skip = without_batch ? 1 : 0;
    bool same = dim_count + skip == spec->dim_count;
    for (uint32_t i = 0; same && i < dim_count; i++) /* a dimension that the model leaves open takes any size */
        same = spec->dims[i + skip] == -1 || spec->dims[i + skip] == dims[i];
    if (!same) {
        char wanted[128], found[128];
        dims_format(dims, 0, dim_count, wanted, sizeof(wanted));
        dims_format(spec->dims, skip, spec->dim_count, found, sizeof(found));
        return pbtxt_error(config->path, tensor, err, "%s '%s': %s %s, but the model's are %s%s", what, tensor->name,
                           tensor->has_reshape ? "the dims of reshape are" : "dims are", wanted, found,
                           skip ? " behind the batch dimension" : "");
    }
    if (tensor->dim_count + skip > TENSOR_DIMS_MAX)
        return pbtxt_error(config->path, tensor, err, "%s '%s': more than %d dimensions with the batch's", what,
                           tensor->name, TENSOR_DIMS_MAX);
    memcpy(spec->dims + skip, dims, dim_count * sizeof(spec->dims[0]));
    if (!tensor->has_reshape && !number)
        return 0;
    spec->reshaped = true;
    spec->file_dim_count = spec->dim_count;
    memcpy(spec->file_dims, spec->dims, spec->dim_count * sizeof(spec->dims[0]));
    spec->dim_count = tensor->dim_count + skip;
    memcpy(spec->dims + skip, tensor->dims, tensor->dim_count * sizeof(spec->dims[0]));
    return 0;
}

/* The number of the spec that the configuration means; -EINVAL: the model has no spec of that name. */
static int spec_find(const struct model_config *config, const struct model_config_tensor *tensor, const char *what,
                     const struct tensor_spec *specs, uint32_t count, struct sy_error *err) {
    int at = tensor_spec_find(specs, count, tensor->name, strlen(tensor->name));
    return at >= 0 ? at
                   : pbtxt_error(config->path, tensor, err,
                                 "the model has no %s '%.100s' (it has %u, the first is '%.100s')", what, tensor->name,
                                 count, count ? specs[0].name : "");
}

static int tensors_apply(const struct model_config *config, const struct model_config_tensor *tensors, uint32_t count,
                         const char *what, bool batched, struct tensor_spec *specs, uint32_t spec_count,
                         struct sy_error *err) {
    for (uint32_t i = 0; i < count; i++) {
        const struct model_config_tensor *tensor = &tensors[i];
        int at = spec_find(config, tensor, what, specs, spec_count, err);
        if (at < 0)
            return at;
        struct tensor_spec *spec = &specs[at];
        if (tensor->type != DATATYPE_INVALID && tensor->type != spec->type)
            return pbtxt_error(config->path, tensor, err, "%s '%.100s': data_type is %s, but the model's is %s", what,
                               tensor->name, datatype_name(tensor->type), datatype_name(spec->type));
        int rc = tensor->has_dims ? dims_apply(config, tensor, what, batched, spec, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

/* Of the inputs that the model has values for, only those that the configuration names stay. They are optional if the
 * configuration says so. */
static int optional_apply(const struct model_config *config, struct signature *s, struct sy_error *err) {
    tensor_set optional = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->input_count; i++) {
        const struct model_config_tensor *tensor = NULL;
        for (uint32_t k = 0; k < config->input_count && !tensor; k++)
            if (strcmp(config->inputs[k].name, s->inputs[i].name) == 0)
                tensor = &config->inputs[k];
        bool may_miss = s->inputs_optional & tensor_bit(i);
        if (tensor && tensor->optional && !may_miss)
            return pbtxt_error(config->path, tensor, err,
                               "input '%.100s' is optional, but the model has no value of its own for it",
                               tensor->name);
        if (may_miss && !tensor)
            continue;
        optional |= tensor && tensor->optional ? tensor_bit(count) : 0;
        s->inputs[count++] = s->inputs[i];
    }
    s->input_count = count;
    s->inputs_optional = optional;
    return 0;
}

/* Narrows the outputs: as with Triton, only those that the configuration names are offered, in its order. */
static int outputs_choose(const struct model_config *config, struct signature *s, struct sy_error *err) {
    struct tensor_spec of_file[TENSORS_MAX];
    memcpy(of_file, s->outputs, s->output_count * sizeof(of_file[0]));
    for (uint32_t i = 0; i < config->output_count; i++) {
        int at = spec_find(config, &config->outputs[i], "output", of_file, s->output_count, err);
        if (at < 0)
            return at;
        s->outputs[i] = of_file[at];
        s->outputs_chosen |= at != (int)i;
    }
    s->outputs_chosen |= config->output_count < s->output_count;
    s->output_count = config->output_count;
    return 0;
}

/* Whether the model's remaining inputs and outputs have a batch dimension. A model without inputs has none: nobody
 * could say how many items its requests have. */
static bool has_batch(const struct signature *s) {
    bool some = false, all = true;
    for (uint32_t i = 0; i < s->input_count; i++) {
        bool optional = s->inputs_optional & tensor_bit(i);
        some |= !optional;
        all &= optional || (s->inputs[i].dim_count > 0 && s->inputs[i].dims[0] == -1);
    }
    for (uint32_t i = 0; i < s->output_count; i++)
        all &= s->outputs[i].dim_count > 0 && s->outputs[i].dims[0] == -1;
    return some && all;
}

int model_config_apply(const struct model_config *config, struct signature *signature, struct sy_error *err) {
    int rc = optional_apply(config, signature, err);
    if (!rc && config->output_count)
        rc = outputs_choose(config, signature, err);
    if (rc)
        return rc;
    signature->batched = has_batch(signature);
    if (config->max_batch_size > 0 && !signature->batched)
        return place_error(config->path, config->max_batch_size_line, config->max_batch_size_column, err,
                           "max_batch_size is %lld, but the model's inputs and outputs have no common batch dimension; "
                           "without one it must be 0",
                           (long long)config->max_batch_size);
    rc = tensors_apply(config, config->inputs, config->input_count, "input", signature->batched, signature->inputs,
                       signature->input_count, err);
    if (!rc)
        rc = tensors_apply(config, config->outputs, config->output_count, "output", signature->batched,
                           signature->outputs, signature->output_count, err);
    if (rc)
        return rc;
    if (config->input_count && config->input_count < signature->input_count)
        return pbtxt_error(config->path, &config->inputs[0], err, "%u inputs are given, but the model has %u",
                           config->input_count, signature->input_count);
    bool refused_batches = config->max_batch_size_line && !config->max_batch_size;
    /* Dimensions have been narrowed: are there batches still, and shapes that vary? */
    signature->batched = signature->batched && !refused_batches;
    for (uint32_t i = 0; i < signature->input_count; i++)
        signature->batched =
            signature->batched && signature->inputs[i].dim_count > 0 && signature->inputs[i].dims[0] == -1;
    for (uint32_t i = 0; i < signature->output_count; i++)
        signature->batched = signature->batched && signature->outputs[i].dims[0] == -1;
    signature->variable_shapes = signature->inputs_optional != 0;
    for (uint32_t i = 0; i < signature->input_count; i++)
        for (uint32_t d = signature->batched ? 1 : 0; d < signature->inputs[i].dim_count; d++)
            signature->variable_shapes = signature->variable_shapes || signature->inputs[i].dims[d] == -1;
    if (config->max_batch_size > 0 && !signature->batched)
        return place_error(config->path, config->max_batch_size_line, config->max_batch_size_column, err,
                           "max_batch_size is %lld, but an optional input has no batch dimension",
                           (long long)config->max_batch_size);
    return 0;
}
