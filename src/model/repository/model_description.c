/* model_description.c - models to JSON and back. Tables of fields serve for both ways, and for hash and difference. */
#include "model/repository/model_description.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/siphash.h"
#include "core/util/time.h"
#include "core/util/utf8.h"
#include "model/config/labels.h"
#include "model/config/model_config.h"
#include "model/config/model_name.h"
#include "model/config/preparations.h"
#include "model/engine/fingerprint.h"
#include "model/repository/description_fields.h"
#include "model/repository/ensemble_description.h"

#define TIME_MOST_NS      (365 * 24 * 3600 * NS_PER_S) /* longest time in a description: a year */
#define ELEMENTS_MOST     ((int64_t)1 << 48) /* most elements of an item; products with sizes do not overflow */
#define ACCELERATORS_MOST 65536              /* most accelerators of a type */
#define TEXT_BYTES        256                /* bytes of a text, terminator included */
#define DUMP_FLAGS        (JSON_COMPACT | JSON_REAL_PRECISION(17)) /* 17 digits: every double comes back as it was */

/* ---- fields ---- */

#define MODEL(member, name_, kind_, scope_, ...) FIELD(struct served_model, member, name_, kind_, scope_, __VA_ARGS__)
static const struct field model_fields[] = {
    MODEL(name, "name", FIELD_TEXT, OF_REQUESTS),
    MODEL(version, "version", FIELD_U32, OF_REQUESTS, FROM_TO(1, UINT32_MAX)),
    MODEL(platform, "platform", FIELD_TEXT, OF_REQUESTS),
    MODEL(contents, "contents", FIELD_TEXT, OF_REQUESTS),
    MODEL(signature.batched, "batched", FIELD_FLAG, OF_REQUESTS),
    MODEL(signature.variable_shapes, "variable_shapes", FIELD_FLAG, OF_REQUESTS),
    MODEL(item_elements, "item_elements", FIELD_I64, OF_REQUESTS, FROM_TO(0, TENSORS_MAX *ELEMENTS_MOST)),
    MODEL(batch_max, "batch_max", FIELD_U32, OF_MACHINE, FROM_TO(1, PROFILE_BATCH_MAX)),
    MODEL(slo_ns, "slo_ns", FIELD_I64, OF_REQUESTS, FROM_TO(0, TIME_MOST_NS)), /* 0: an ensemble without an SLO */
    MODEL(slo_chosen, "slo_chosen", FIELD_FLAG, OF_REQUESTS),
    MODEL(best_effort, "best_effort", FIELD_FLAG, OF_REQUESTS),
    MODEL(weight, "weight", FIELD_REAL, OF_REQUESTS, FROM_TO(0, (int64_t)MODEL_WEIGHT_MOST)),
    MODEL(pinned, "pinned", FIELD_FLAG, OF_REQUESTS),
    MODEL(weights_bytes, "weights_bytes", FIELD_I64, OF_MACHINE, FROM_TO(0, INT64_MAX)),
    MODEL(load_ns, "load_ns", FIELD_I64, OF_MACHINE, FROM_TO(0, TIME_MOST_NS)),
    MODEL(batch_bytes, "batch_bytes", FIELD_I64, OF_MACHINE, FROM_TO(0, INT64_MAX)),
    MODEL(weights_shared, "weights_shared", FIELD_FLAG, OF_MACHINE),
    MODEL(shape_secret, "shape_secret", FIELD_HEX, OF_MACHINE),
};

#define SPEC(member, name, kind) FIELD(struct tensor_spec, member, name, kind, OF_REQUESTS)
static const struct field spec_fields[] = {
    SPEC(name, "name", FIELD_TEXT),
    SPEC(type, "datatype", FIELD_DATATYPE),
};

static const char *const format_words[] = {[IMAGE_NONE] = "none", [IMAGE_NHWC] = "nhwc", [IMAGE_NCHW] = "nchw"};
static const struct field format_field = {.name = "format",
                                          .kind = FIELD_WORD,
                                          .bytes = sizeof(uint8_t),
                                          .most = ARRAY_COUNT(format_words) - 1,
                                          .words = format_words};
static const struct field optional_field = {.name = "optional", .kind = FIELD_FLAG, .bytes = sizeof(bool)};
/* texts of any length in a model, of this length at most in a description */
static const struct field label_file_field = {.name = "label_file", .kind = FIELD_TEXT, .bytes = TEXT_BYTES};
static const struct field mixes_field = {.name = "mixes", .kind = FIELD_TEXT, .scope = OF_MACHINE, .bytes = TEXT_BYTES};
static const struct field type_field = {.name = "type", .kind = FIELD_TEXT, .bytes = TYPE_NAME_MAX};

#define PREPARE(member, name, kind, scope, ...) FIELD(struct served_preparation, member, name, kind, scope, __VA_ARGS__)
static const struct field prepare_fields[] = {
    PREPARE(bytes_max, "max_bytes", FIELD_U32, OF_REQUESTS, FROM_TO(0, PREPARE_BYTES_MAX)),
    PREPARE(pixels_max, "max_pixels", FIELD_U32, OF_REQUESTS, FROM_TO(0, PREPARE_PIXELS_MAX)),
    PREPARE(file, "model", FIELD_TEXT, OF_REQUESTS),
    PREPARE(image_at, "image_step", FIELD_U32, OF_MACHINE, FROM_TO(0, PREPARE_STEPS_MAX)),
    PREPARE(image_line, "image_line", FIELD_U32, OF_MACHINE, FROM_TO(0, UINT32_MAX)),
    PREPARE(file_at, "model_step", FIELD_U32, OF_MACHINE, FROM_TO(0, PREPARE_STEPS_MAX)),
    PREPARE(file_line, "model_line", FIELD_U32, OF_MACHINE, FROM_TO(0, UINT32_MAX)),
};

#define QUEUE(member, kind, ...) FIELD(struct queue_rules, member, #member, kind, OF_REQUESTS, __VA_ARGS__)
static const struct field queue_fields[] = {
    QUEUE(priorities, FIELD_U32, FROM_TO(0, PRIORITIES_MAX)),
    QUEUE(priority_default, FIELD_U32, FROM_TO(0, UINT32_MAX)),
    QUEUE(wait_ns, FIELD_I64, FROM_TO(0, TIME_MOST_NS)),
    QUEUE(wait_none, FIELD_FLAG),
    QUEUE(preserve_ordering, FIELD_FLAG),
};

#define RULE(member, kind, ...) FIELD(struct queue_rule, member, #member, kind, OF_REQUESTS, __VA_ARGS__)
static const struct field rule_fields[] = {
    RULE(timeout_ns, FIELD_I64, FROM_TO(0, TIME_MOST_NS)),
    RULE(may_shorten, FIELD_FLAG),
    RULE(delay, FIELD_FLAG),
    RULE(queue_max, FIELD_U32, FROM_TO(0, UINT32_MAX)),
};

static const char *const kind_words[] = {
    [INSTANCES_ANYWHERE] = "anywhere", [INSTANCES_ON_CPUS] = "cpus", [INSTANCES_ON_GPUS] = "gpus"};
#define INSTANCES(member, kind, ...) FIELD(struct instance_groups, member, #member, kind, OF_MACHINE, __VA_ARGS__)
static const struct field instances_fields[] = {
    INSTANCES(kind, FIELD_WORD, .most = ARRAY_COUNT(kind_words) - 1, .words = kind_words),
    INSTANCES(gpus, FIELD_U32, FROM_TO(0, UINT32_MAX)),
    INSTANCES(gpus_named, FIELD_HEX),
};

#define ON(member, kind, ...) FIELD(struct served_on, member, #member, kind, OF_MACHINE, __VA_ARGS__)
static const struct field on_fields[] = {
    ON(count, FIELD_U32, FROM_TO(0, ACCELERATORS_MOST)),
    ON(gpu, FIELD_FLAG),
    ON(emulated, FIELD_FLAG),
};

/* ---- writing ---- */

/* A label may be any bytes, JSON's strings are UTF-8: each character stands for a byte, by its number. */
static json_t *label_pack(const char *line, size_t length) {
    char *text = malloc(2 * length + 1);
    size_t used = 0;
    if (!text)
        return NULL;
    for (size_t i = 0; i < length; i++)
        used += utf8_write((unsigned char)line[i], text + used);
    json_t *label = json_stringn(text, used);
    free(text);
    return label;
}

static json_t *labels_pack(struct field_writer *w, const struct labels *labels) {
    size_t length;
    const char *line;
    if (!labels)
        return json_null();
    json_t *list = json_array();
    for (uint64_t i = 0; (line = labels_get(labels, i, &length)); i++)
        field_append(w, list, label_pack(line, length));
    return list;
}

/* Writes a file's contents; or only its fingerprint, where models are only to be told apart. */
static json_t *contents_pack(const struct field_writer *w, const struct prepared_file *file) {
    char text[FINGERPRINT_TEXT];
    if (w->whole) {
        gnutls_datum_t plain = {(unsigned char *)(uintptr_t)file->data, file->bytes}, coded = {NULL, 0};
        if (gnutls_base64_encode2(&plain, &coded) != 0)
            return NULL;
        json_t *base64 = json_stringn((const char *)coded.data, coded.size);
        gnutls_free(coded.data);
        return base64;
    }
    struct fingerprint fingerprint = fingerprint_bytes(file->data, file->bytes);
    fingerprint_format(&fingerprint, text);
    return json_string(text);
}

/* Writes a text; NULL: "". */
static void text_put(struct field_writer *w, json_t *object, const struct field *field, const char *text) {
    fields_put(w, object, field, 1, text ? text : "");
}

static void spec_pack(struct field_writer *w, json_t *object, const struct tensor_spec *spec) {
    FIELDS_PUT(w, object, spec_fields, spec);
    field_put(w, object, "shape", field_integers_pack(w, spec->dims, spec->dim_count));
    if (spec->reshaped)
        field_put(w, object, "file_shape", field_integers_pack(w, spec->file_dims, spec->file_dim_count));
}

static json_t *inputs_pack(struct field_writer *w, const struct served_model *model) {
    const struct signature *s = &model->signature;
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->input_count; i++) {
        json_t *input = json_object();
        spec_pack(w, input, &s->inputs[i]);
        field_put(w, input, "item", field_integers_pack(w, model->reference_dims[i], s->inputs[i].dim_count));
        fields_put(w, input, &optional_field, 1, &(bool){s->inputs_optional >> i & 1});
        fields_put(w, input, &format_field, 1, &model->formats[i]);
        if (model->prepared & tensor_bit(i)) {
            const struct served_preparation *preparation = &model->preparations[i];
            json_t *prepare = json_object();
            FIELDS_PUT(w, prepare, prepare_fields, preparation);
            if (preparation->contents)
                field_put(w, prepare, "contents", contents_pack(w, preparation->contents));
            field_put(w, input, "prepare", prepare);
        }
        field_append(w, list, input);
    }
    return list;
}

static json_t *outputs_pack(struct field_writer *w, const struct served_model *model) {
    const struct signature *s = &model->signature;
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->output_count; i++) {
        json_t *output = json_object();
        spec_pack(w, output, &s->outputs[i]);
        text_put(w, output, &label_file_field, model->label_files[i]);
        field_put(w, output, "labels", labels_pack(w, model->labels[i]));
        field_append(w, list, output);
    }
    return list;
}

/* Writes the rules; the last one stands for all further priorities. */
static json_t *queue_pack(struct field_writer *w, const struct queue_rules *queue) {
    json_t *object = json_object(), *rules = json_array(), *preferred = json_array();
    uint32_t count = PRIORITIES_MAX;
    while (count > 1 && queue_rule_equals(&queue->rules[count - 1], &queue->rules[count - 2]))
        count--;
    for (uint32_t i = 0; i < count; i++) {
        json_t *rule = json_object();
        FIELDS_PUT(w, rule, rule_fields, &queue->rules[i]);
        field_append(w, rules, rule);
    }
    for (uint32_t i = 0; i < queue->preferred_count; i++)
        field_append(w, preferred, json_integer(queue->preferred[i]));
    FIELDS_PUT(w, object, queue_fields, queue);
    field_put(w, object, "preferred", preferred);
    field_put(w, object, "rules", rules);
    return object;
}

static json_t *on_pack(struct field_writer *w, const struct served_on *on) {
    json_t *list = json_array();
    for (uint32_t t = 0; t < ACCELERATOR_TYPES_MAX && on[t].type; t++) {
        json_t *object = json_object();
        text_put(w, object, &type_field, on[t].type);
        FIELDS_PUT(w, object, on_fields, &on[t]);
        field_append(w, list, object);
    }
    return list;
}

static json_t *profiles_pack(struct field_writer *w, const struct described_profile *profiles, uint32_t count) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const struct profile *profile = profiles[i].profile;
        json_t *object = json_object();
        fields_put(w, object, &type_field, 1, profiles[i].type);
        field_put(w, object, "latency_ns", field_integers_pack(w, profile->latency_ns + 1, profile->batch_max + 1));
        field_append(w, list, object);
    }
    return list;
}

/* Writes the whole of a model, or only what its requests depend on. NULL: a failure. */
static json_t *model_pack(const struct served_model *model, bool whole) {
    struct field_writer w = {.whole = whole};
    json_t *object = json_object();
    FIELDS_PUT(&w, object, model_fields, model);
    if (!whole && model->slo_chosen)
        json_object_del(object, "slo_ns"); /* the SLO follows from what was measured */
    field_put(&w, object, "inputs", inputs_pack(&w, model));
    field_put(&w, object, "outputs", outputs_pack(&w, model));
    field_put(&w, object, "queue", queue_pack(&w, &model->queue));
    if (model->ensemble)
        field_put(&w, object, "ensemble", ensemble_description_pack(&w, model->ensemble));
    if (whole) {
        json_t *instances = json_object();
        FIELDS_PUT(&w, instances, instances_fields, &model->instances);
        field_put(&w, object, "format", json_integer(MODEL_DESCRIPTION_FORMAT));
        field_put(&w, object, "instances", instances);
        text_put(&w, object, &mixes_field, model->mixes);
        field_put(&w, object, "on", on_pack(&w, model->on));
    }
    if (w.failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

char *model_description_write(const struct served_model *model, const struct described_profile *profiles,
                              uint32_t count, size_t *bytes, struct sy_error *err) {
    struct field_writer w = {.whole = true};
    json_t *object = model_pack(model, true);
    if (object)
        field_put(&w, object, "profiles", profiles_pack(&w, profiles, count));
    char *text = object && !w.failed ? json_dumps(object, DUMP_FLAGS) : NULL;
    size_t length = text ? strlen(text) : 0;
    json_decref(object);
    if (!text)
        error_set(err, -EINVAL, "model '%s' cannot be described: out of memory, or a name is not UTF-8", model->name);
    if (length > MODEL_DESCRIPTION_BYTES_MAX) {
        error_set(err, -EFBIG, "the description of model '%s' has %zu bytes; at most %d are allowed", model->name,
                  length, MODEL_DESCRIPTION_BYTES_MAX);
        free(text);
        text = NULL;
    }
    if (bytes)
        *bytes = length;
    return text;
}

/* ---- reading ---- */

/* Reads a text into the model's pool; "": *text is NULL. */
static int text_read(struct field_reader *r, const json_t *object, const struct field *field,
                     struct served_model *model, const char **text) {
    char found[TEXT_BYTES];
    int rc = field_read(r, object, field, found);
    *text = NULL;
    if (!rc && *found && !(*text = mem_pool_text(&model->memory, found)))
        rc = error_set(r->err, -ENOMEM, "no memory for a model's description");
    return rc;
}

static int dims_read(struct field_reader *r, const json_t *object, const char *name, int64_t least, int64_t *dims,
                     uint32_t *dim_count) {
    json_t *list;
    int rc = field_list(r, object, name, 0, TENSOR_DIMS_MAX, &list, dim_count);
    return rc ? rc : field_integers_read(r, list, name, *dim_count, least, INT64_MAX, dims);
}

static int spec_read(struct field_reader *r, const json_t *object, bool batched, struct tensor_spec *spec) {
    int rc = FIELDS_READ(r, object, spec_fields, spec);
    if (!rc)
        rc = dims_read(r, object, "shape", -1, spec->dims, &spec->dim_count);
    if (!rc && batched && (spec->dim_count == 0 || spec->dims[0] != -1))
        rc = field_wrong(r, "shape", "expected -1 as the batch dimension");
    if (rc || !json_object_get(object, "file_shape"))
        return rc;
    spec->reshaped = true;
    rc = dims_read(r, object, "file_shape", -1, spec->file_dims, &spec->file_dim_count);
    if (!rc && batched && (spec->file_dim_count == 0 || spec->file_dims[0] != -1))
        rc = field_wrong(r, "file_shape", "expected -1 as the batch dimension");
    return rc;
}

/* Whether requests may differ in an input of the model. */
static bool input_varies(const struct signature *s, uint32_t i) {
    bool varies = s->inputs_optional >> i & 1;
    for (uint32_t d = s->batched ? 1 : 0; d < s->inputs[i].dim_count; d++)
        varies |= s->inputs[i].dims[d] < 0;
    return varies;
}

static int input_read(struct field_reader *r, const json_t *object, struct served_model *model, uint32_t i) {
    struct signature *s = &model->signature;
    bool optional;
    uint32_t dim_count;
    int rc = spec_read(r, object, s->batched, &s->inputs[i]);
    if (!rc)
        rc = dims_read(r, object, "item", 0, model->reference_dims[i], &dim_count);
    if (!rc && dim_count != s->inputs[i].dim_count)
        rc = field_wrong(r, "item", "expected as many dimensions as in shape");
    if (!rc) {
        int64_t elements = dims_product(model->reference_dims[i], 0, dim_count);
        rc = elements < 0 || elements > ELEMENTS_MOST ? field_wrong(r, "item", "too large") : 0;
    }
    if (!rc)
        rc = field_read(r, object, &optional_field, &optional);
    if (!rc)
        rc = field_read(r, object, &format_field, &model->formats[i]);
    if (rc)
        return rc;
    s->inputs_optional |= optional ? tensor_bit(i) : 0;
    return s->variable_shapes || !input_varies(s, i)
               ? 0
               : field_wrong(r, optional ? "optional" : "shape", "it varies, but variable_shapes is false");
}

static int contents_read(struct field_reader *r, const json_t *object, struct served_preparation *p) {
    json_t *value = json_object_get(object, "contents");
    gnutls_datum_t text = {(unsigned char *)json_string_value(value), (unsigned)json_string_length(value)};
    gnutls_datum_t decoded = {NULL, 0};
    if (!value && !p->file[0])
        return 0;
    if (!p->file[0] || !json_is_string(value) || gnutls_base64_decode2(&text, &decoded) < 0)
        return field_wrong(r, "contents", p->file[0] ? "expected a file in base64" : "expected none without model");
    int rc = decoded.size < 1 || decoded.size > PREPARE_CARRIED_MAX
                 ? field_wrong(r, "contents", "expected 1 to %u bytes", PREPARE_CARRIED_MAX)
                 : 0;
    if (!rc && !(p->contents = malloc(sizeof(*p->contents) + decoded.size)))
        rc = error_set(r->err, -ENOMEM, "no memory for a file that prepares");
    if (!rc) {
        p->contents->bytes = decoded.size;
        memcpy(p->contents->data, decoded.data, decoded.size);
    }
    gnutls_free(decoded.data);
    return rc;
}

/* Reads how input `i` is prepared, from the object with the input's fields. Does nothing if the input is not
 * prepared. */
static int prepare_read(struct field_reader *r, const json_t *object, struct served_model *model, uint32_t i) {
    json_t *prepare;
    if (!json_object_get(object, "prepare"))
        return 0;
    int rc = model->preparations ? 0 : preparations_room(model, r->err);
    if (rc)
        return rc;
    struct served_preparation *p = &model->preparations[i];
    rc = field_entry(r, object, "prepare", JSON_OBJECT, "an object", &prepare);
    if (!rc && (model->signature.inputs_optional >> i & 1))
        rc = field_wrong(r, "prepare", "expected none, since the input is optional");
    snprintf(r->place, sizeof(r->place), "inputs[%u].prepare.", i);
    if (!rc)
        rc = FIELDS_READ(r, prepare, prepare_fields, p);
    if (!rc && !p->bytes_max != !p->pixels_max)
        rc = field_wrong(r, "max_pixels", "expected 1 or more with max_bytes, and 0 without");
    if (!rc && !p->bytes_max && !p->file[0])
        rc = field_wrong(r, "model", "expected a file, since no image is decoded");
    if (!rc)
        rc = contents_read(r, prepare, p);
    model->prepared |= tensor_bit(i);
    return rc;
}

static int inputs_read(struct field_reader *r, const json_t *list, struct served_model *model) {
    json_t *object;
    int rc = 0;
    for (uint32_t i = 0; !rc && i < model->signature.input_count; i++) {
        rc = field_object_at(r, list, "inputs", i, &object);
        if (!rc)
            rc = input_read(r, object, model, i);
        if (!rc)
            rc = prepare_read(r, object, model, i);
    }
    r->place[0] = '\0';
    return rc;
}

/* Appends a label as the line of a file. A CR is put at its end, since labels_get() takes away one CR there, but no
 * more. */
static int label_append(struct field_reader *r, const json_t *label, uint32_t index, char *text, size_t *used) {
    const char *at = json_string_value(label), *end = at ? at + json_string_length(label) : NULL;
    char name[32];
    snprintf(name, sizeof(name), "labels[%u]", index);
    if (!at)
        return field_wrong(r, name, "expected a string");
    for (; at < end; at++) {
        unsigned char c = (unsigned char)*at;
        if (c >= 0x80) {
            if (c > 0xc3)
                return field_wrong(r, name, "expected characters up to U+00FF, each for a byte");
            c = (unsigned char)(c << 6 | ((unsigned char)*++at & 0x3f));
        }
        if (c == '\n')
            return field_wrong(r, name, "expected one line");
        text[(*used)++] = (char)c;
    }
    text[(*used)++] = '\r';
    text[(*used)++] = '\n';
    return 0;
}

static int labels_unpack(struct field_reader *r, const json_t *object, struct labels **labels) {
    json_t *list = json_object_get(object, "labels"), *label;
    size_t bytes = 1, used = 0, i;
    int rc = 0;
    *labels = NULL;
    if (json_is_null(list))
        return 0;
    if (!json_is_array(list))
        return field_wrong(r, "labels", list ? "expected a list or null" : "missing");
    json_array_foreach(list, i, label) bytes += json_string_length(label) + 2;
    char *text = malloc(bytes);
    if (!text)
        return error_set(r->err, -ENOMEM, "no memory for labels");
    json_array_foreach(list, i, label) {
        rc = label_append(r, label, (uint32_t)i, text, &used);
        if (rc)
            break;
    }
    if (rc) {
        free(text);
        return rc;
    }
    return labels_take(text, used, labels, r->err);
}

static int outputs_read(struct field_reader *r, const json_t *list, struct served_model *model) {
    struct signature *s = &model->signature;
    struct labels *labels;
    json_t *object;
    int rc = 0;
    for (uint32_t i = 0; !rc && i < s->output_count; i++) {
        rc = field_object_at(r, list, "outputs", i, &object);
        if (!rc)
            rc = spec_read(r, object, s->batched, &s->outputs[i]);
        if (!rc)
            rc = text_read(r, object, &label_file_field, model, &model->label_files[i]);
        if (!rc)
            rc = labels_unpack(r, object, &labels);
        if (!rc)
            rc = served_model_labels_take(model, i, labels, r->err);
    }
    return rc;
}

/* Reads what there is of inputs and outputs; the model's other fields are there. */
static int tensors_read(struct field_reader *r, const json_t *root, struct served_model *model) {
    struct signature_room *room = calloc(1, sizeof(*room));
    json_t *inputs, *outputs;
    if (!room)
        return error_set(r->err, -ENOMEM, "no memory for a model's description");
    room->signature = model->signature;
    signature_room_open(room); /* with as many empty specs as there will be */
    int rc = field_list(r, root, "inputs", 0, TENSORS_MAX, &inputs, &room->signature.input_count);
    if (!rc)
        rc = field_list(r, root, "outputs", 1, TENSORS_MAX, &outputs, &room->signature.output_count);
    if (!rc)
        rc = served_model_tensors_set(model, &room->signature, r->err);
    free(room);
    if (!rc)
        rc = inputs_read(r, inputs, model);
    r->place[0] = '\0';
    if (!rc)
        rc = outputs_read(r, outputs, model);
    return rc;
}

static int preferred_read(struct field_reader *r, const json_t *object, struct queue_rules *queue) {
    json_t *list;
    int64_t sizes[PREFERRED_MAX];
    int rc = field_list(r, object, "preferred", 0, PREFERRED_MAX, &list, &queue->preferred_count);
    if (!rc)
        rc = field_integers_read(r, list, "preferred", queue->preferred_count, 1, INT32_MAX, sizes);
    for (uint32_t i = 0; !rc && i < queue->preferred_count; i++) {
        queue->preferred[i] = (uint32_t)sizes[i];
        if (i > 0 && sizes[i] <= sizes[i - 1])
            rc = field_wrong(r, "preferred", "expected sizes that rise");
    }
    return rc;
}

static int queue_read(struct field_reader *r, const json_t *root, struct queue_rules *queue) {
    json_t *object, *list, *rule;
    uint32_t count = 0;
    r->place[0] = '\0';
    int rc = field_entry(r, root, "queue", JSON_OBJECT, "an object", &object);
    if (rc)
        return rc;
    strcpy(r->place, "queue.");
    rc = FIELDS_READ(r, object, queue_fields, queue);
    if (!rc && queue->priorities && (queue->priority_default < 1 || queue->priority_default > queue->priorities))
        rc = field_wrong(r, "priority_default", "there is no priority %u", queue->priority_default);
    if (!rc)
        rc = preferred_read(r, object, queue);
    if (!rc)
        rc = field_list(r, object, "rules", 1, PRIORITIES_MAX, &list, &count);
    for (uint32_t i = 0; !rc && i < count; i++) {
        rc = field_object_at(r, list, "queue.rules", i, &rule);
        if (!rc)
            rc = FIELDS_READ(r, rule, rule_fields, &queue->rules[i]);
    }
    for (uint32_t i = count; !rc && i < PRIORITIES_MAX; i++)
        queue->rules[i] = queue->rules[count - 1];
    return rc;
}

static int instances_read(struct field_reader *r, const json_t *root, struct instance_groups *instances) {
    json_t *object;
    r->place[0] = '\0';
    int rc = field_entry(r, root, "instances", JSON_OBJECT, "an object", &object);
    strcpy(r->place, "instances.");
    return rc ? rc : FIELDS_READ(r, object, instances_fields, instances);
}

static int on_read(struct field_reader *r, const json_t *root, struct served_model *model) {
    struct served_on *on = model->on;
    json_t *list, *object;
    uint32_t count = 0;
    r->place[0] = '\0';
    int rc = field_list(r, root, "on", 0, ACCELERATOR_TYPES_MAX, &list, &count);
    for (uint32_t t = 0; !rc && t < count; t++) {
        rc = field_object_at(r, list, "on", t, &object);
        if (!rc)
            rc = FIELDS_READ(r, object, on_fields, &on[t]);
        if (!rc)
            rc = text_read(r, object, &type_field, model, &on[t].type);
        if (!rc && !on[t].type)
            rc = field_wrong(r, "type", "expected a name");
    }
    return rc;
}

static int profile_read(struct field_reader *r, const json_t *object, uint32_t batch_max,
                        struct described_profile *described) {
    json_t *list;
    uint32_t count;
    int rc = field_read(r, object, &type_field, described->type);
    if (!rc && !described->type[0])
        rc = field_wrong(r, "type", "expected a name");
    if (!rc) /* a longer one is of a model whose batch_max another type has made less */
        rc = field_list(r, object, "latency_ns", batch_max + 1, PROFILE_BATCH_MAX + 1, &list, &count);
    if (rc)
        return rc;
    struct profile *profile = described->profile = malloc(profile_bytes(count - 1));
    if (!profile)
        return error_set(r->err, -ENOMEM, "no memory for a profile");
    profile->batch_max = count - 1;
    profile->latency_ns[0] = 0;
    rc = field_integers_read(r, list, "latency_ns", count, 1, TIME_MOST_NS, profile->latency_ns + 1);
    for (uint32_t b = 1; !rc && b <= count; b++)
        if (profile->latency_ns[b] < profile->latency_ns[b - 1])
            rc = field_wrong(r, "latency_ns", "a batch of %u takes less than a smaller one", b);
    if (!rc)
        profile_fit(profile);
    return rc;
}

static int profiles_read(struct field_reader *r, const json_t *root, uint32_t batch_max,
                         struct described_profile *profiles, uint32_t *count) {
    json_t *list, *object;
    uint32_t entries = 0;
    r->place[0] = '\0';
    int rc = field_list(r, root, "profiles", 0, ACCELERATOR_TYPES_MAX, &list, &entries);
    for (uint32_t i = 0; !rc && i < entries; i++) {
        profiles[i] = (struct described_profile){.profile = NULL};
        *count = i + 1; /* from here on the profile is freed after an error */
        rc = field_object_at(r, list, "profiles", i, &object);
        if (!rc)
            rc = profile_read(r, object, batch_max, &profiles[i]);
        for (uint32_t k = 0; !rc && k < i; k++)
            if (strcmp(profiles[k].type, profiles[i].type) == 0)
                rc = field_wrong(r, "type", "there are two profiles on '%s'", profiles[i].type);
    }
    return rc;
}

static int model_read(struct field_reader *r, const json_t *root, struct served_model *model) {
    int64_t format, items_max = 0, slo_cluster_ns = 0, share = 0;
    int rc = json_is_object(root) ? 0 : field_wrong(r, "all of it", "expected an object");
    if (!rc && !json_object_get(root, "format"))
        rc = field_wrong(r, "format", "missing");
    if (!rc)
        rc = field_integer(r, "format", json_object_get(root, "format"), MODEL_DESCRIPTION_FORMAT,
                           MODEL_DESCRIPTION_FORMAT, &format);
    if (!rc)
        rc = FIELDS_READ(r, root, model_fields, model);
    if (!rc && !model_name_is_valid(model->name))
        rc = field_wrong(r, "name", "expected " MODEL_NAME_EXPECTED);
    if (!rc && !json_object_get(root, "ensemble") && model->slo_ns < 1)
        rc = field_wrong(r, "slo_ns", "expected 1 or more");
    if (!rc && !model->signature.batched && model->batch_max != 1)
        rc = field_wrong(r, "batch_max", "expected 1, since batched is false");
    if (!rc && json_object_get(root, "items_max"))
        rc = field_integer(r, "items_max", json_object_get(root, "items_max"), 1, PROFILE_BATCH_MAX, &items_max);
    if (!rc && json_object_get(root, "slo_cluster_ns"))
        rc = field_integer(r, "slo_cluster_ns", json_object_get(root, "slo_cluster_ns"), 1, TIME_MOST_NS,
                           &slo_cluster_ns);
    if (!rc && json_object_get(root, "share"))
        rc = field_integer(r, "share", json_object_get(root, "share"), 1, 10000, &share);
    if (!rc)
        rc = tensors_read(r, root, model);
    atomic_init(&model->slo_cluster_ns, slo_cluster_ns);
    atomic_init(&model->share, (uint32_t)share);
    atomic_init(&model->items_max, (uint32_t)items_max);
    atomic_init(&model->begins, json_is_true(json_object_get(root, "begins")));
    if (!rc)
        rc = queue_read(r, root, &model->queue);
    if (!rc)
        rc = instances_read(r, root, &model->instances);
    if (!rc)
        rc = on_read(r, root, model);
    r->place[0] = '\0';
    if (!rc)
        rc = text_read(r, root, &mixes_field, model, &model->mixes);
    if (!rc && model->prepared)
        rc = preparations_told(model, r->err);
    r->place[0] = '\0';
    if (rc || !json_object_get(root, "ensemble"))
        return rc;
    json_t *graph;
    rc = field_entry(r, root, "ensemble", JSON_OBJECT, "an object", &graph);
    return rc ? rc : ensemble_description_read(r, graph, model);
}

int model_description_read(const char *text, size_t bytes, struct served_model *model,
                           struct described_profile *profiles, uint32_t *count, struct sy_error *err) {
    struct field_reader r = {.err = err};
    json_error_t where;
    atomic_init(&model->state, MODEL_LOADING);
    *count = 0;
    if (bytes > MODEL_DESCRIPTION_BYTES_MAX)
        return error_set(err, -EINVAL, "model description: %zu bytes; at most %d are allowed", bytes,
                         MODEL_DESCRIPTION_BYTES_MAX);
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!root)
        return error_set(err, -EINVAL, "model description: the JSON is wrong: %s at byte %d", where.text,
                         where.position);
    int rc = model_read(&r, root, model);
    if (!rc)
        rc = profiles_read(&r, root, model->batch_max, profiles, count);
    r.place[0] = '\0';
    if (!rc && model->ensemble && *count)
        rc = field_wrong(&r, "profiles", "expected none, since it is an ensemble");
    if (rc) {
        model_description_release(model, profiles, *count);
        *count = 0;
    }
    json_decref(root);
    return rc;
}

void model_description_release(struct served_model *model, struct described_profile *profiles, uint32_t count) {
    served_model_release(model);
    for (uint32_t i = 0; profiles && i < count; i++) {
        free(profiles[i].profile);
        profiles[i].profile = NULL;
    }
}

/* ---- hash and difference ---- */

uint64_t model_description_hash(const struct served_model *model) {
    static const struct siphash_key key; /* no secret: it is to be the same for everybody */
    json_t *object = model_pack(model, false);
    char *text = object ? json_dumps(object, DUMP_FLAGS) : NULL;
    size_t length = text ? strlen(text) : 0;
    uint32_t count = (uint32_t)(length / sizeof(uint64_t) + 1);
    uint64_t *words = calloc(count, sizeof(*words)), hash = 0;
    if (text && words) {
        memcpy(words, text, length); /* a zero at least follows: no text holds one, so no two become the same words */
        hash = siphash_words(&key, words, count);
    }
    free(words);
    free(text);
    json_decref(object);
    return hash;
}

/* Finds the first place at which two values differ; `place` becomes its name. */
static void descend(const json_t **a, const json_t **b, char *place, size_t bytes) {
    const char *key;
    json_t *entry;
    size_t i, length = strlen(place);
    if (json_is_object(*a) && json_is_object(*b))
        json_object_foreach((json_t *)*a, key, entry) {
            const json_t *other = json_object_get(*b, key);
            if (json_equal(entry, other))
                continue;
            snprintf(place + length, bytes - length, "%s%s", length ? "." : "", key);
            *a = entry;
            *b = other;
            descend(a, b, place, bytes);
            return;
        }
    if (json_is_array(*a) && json_is_array(*b) && json_array_size(*a) == json_array_size(*b))
        json_array_foreach(*a, i, entry) {
            const json_t *other = json_array_get(*b, i);
            if (json_equal(entry, other))
                continue;
            snprintf(place + length, bytes - length, "[%zu]", i);
            *a = entry;
            *b = other;
            descend(a, b, place, bytes);
            return;
        }
}

/* Writes a value as JSON, cut off if it is long; of a long list only the length. */
static void value_show(const json_t *value, char *text, size_t bytes) {
    char *json = value ? json_dumps(value, DUMP_FLAGS | JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    if (json && strlen(json) >= bytes && json_is_array(value))
        snprintf(text, bytes, "%zu entries", json_array_size(value));
    else
        snprintf(text, bytes, "%s", json ? json : "not there");
    free(json);
}

void model_description_difference(const struct served_model *a, const struct served_model *b, char *text,
                                  size_t bytes) {
    json_t *of_a = model_pack(a, false), *of_b = model_pack(b, false);
    text[0] = '\0';
    if (!of_a || !of_b) {
        snprintf(text, bytes, "out of memory to tell where they differ");
    } else if (!json_equal(of_a, of_b)) {
        const json_t *here = of_a, *there = of_b;
        char place[FIELD_PLACE_BYTES] = "", one[72], other[72];
        descend(&here, &there, place, sizeof(place));
        value_show(here, one, sizeof(one));
        value_show(there, other, sizeof(other));
        snprintf(text, bytes, "%s is %s here and %s there", place, one, other);
    }
    json_decref(of_a);
    json_decref(of_b);
}
