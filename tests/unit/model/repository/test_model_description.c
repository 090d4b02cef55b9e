/* test_model_description.c - models to JSON and back, every field with an odd value, and every field spoilt. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "core/util/container.h"
#include "model/config/labels.h"
#include "model/config/model_config.h"
#include "model/config/preparations.h"
#include "model/repository/model_description.h"
#include "specs.h"
#include "unit/test.h"

#define PROFILE_LONG 1024

struct world {
    struct served_model model, got;
    struct described_profile profiles[ACCELERATOR_TYPES_MAX], read[ACCELERATOR_TYPES_MAX];
    uint32_t profile_count, read_count;
    struct sy_error err;
};

static void labels_put(struct served_model *model, uint32_t output, const char *text, size_t bytes) {
    char *copy = malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy, text, bytes);
    struct labels *labels;
    assert_int_equal(labels_take(copy, bytes, &labels, NULL), 0);
    assert_int_equal(served_model_labels_take(model, output, labels, NULL), 0);
}

static void specs_equal(const struct tensor_spec *a, const struct tensor_spec *b, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(a[i].name, b[i].name);
        assert_int_equal(a[i].type, b[i].type);
        assert_int_equal(a[i].dim_count, b[i].dim_count);
        assert_memory_equal(a[i].dims, b[i].dims, sizeof(a[i].dims));
        assert_int_equal(a[i].reshaped, b[i].reshaped);
        assert_int_equal(a[i].file_dim_count, b[i].file_dim_count);
        assert_memory_equal(a[i].file_dims, b[i].file_dims, sizeof(a[i].file_dims));
    }
}

static void signatures_equal(const struct signature *a, const struct signature *b) {
    assert_int_equal(a->input_count, b->input_count);
    assert_int_equal(a->output_count, b->output_count);
    assert_true(a->inputs_optional == b->inputs_optional);
    assert_int_equal(a->batched, b->batched);
    assert_int_equal(a->variable_shapes, b->variable_shapes);
    assert_int_equal(a->outputs_chosen, b->outputs_chosen);
    specs_equal(a->inputs, b->inputs, a->input_count);
    specs_equal(a->outputs, b->outputs, a->output_count);
}

static void profile_put(struct world *w, const char *type, uint32_t batch_max, const int64_t points_ns[3]) {
    struct described_profile *p = &w->profiles[w->profile_count++];
    strcpy(p->type, type);
    p->profile = malloc(profile_bytes(batch_max));
    assert_non_null(p->profile);
    assert_int_equal(profile_set_points(p->profile, batch_max, (uint32_t[]){1, 7, 1025}, points_ns, 3), 0);
}

/* Lines as a file may have them: of no bytes, of any bytes, of a CR before the end of the line. */
static const char odd_labels[] = "tabby cat\n\n\"\\ \xc3\xa9 \xff\x80\xc0\n\0zero\na\r\nb\r\r\nlast";

static int world_make(void **state) {
    struct world *w = calloc(1, sizeof(*w));
    struct served_model *m = &w->model;
    strcpy(m->name, "odd!~model");
    m->version = UINT32_MAX;
    strcpy(m->platform, "onnxruntime_onnx");
    strcpy(m->contents, "0123456789abcdef0123456789abcdef");
    specs_set(m, (struct signature){
                     .inputs = SPECS(
                         {.name = "x", .type = DATATYPE_FP32, .dim_count = 4, .dims = {-1, 3, -1, INT64_MAX}},
                         {.name = "\xc3\xa9 \"x\"", .type = DATATYPE_BYTES, .dim_count = 1, .dims = {-1}},
                         {.name = "maybe", .type = DATATYPE_BF16, .dim_count = 8, .dims = {-1, 1, 2, 3, 4, 5, 6, 7}}),
                     .outputs = SPECS({.name = "y", .type = DATATYPE_FP64, .dim_count = 2, .dims = {-1, -1}},
                                      {.name = "", .type = DATATYPE_BOOL, .dim_count = 1, .dims = {-1}}),
                     .input_count = 3,
                     .output_count = 2,
                     .inputs_optional = 1u << 2,
                     .batched = true,
                     .variable_shapes = true,
                 });
    m->batch_max = 7;
    m->slo_ns = 123456789012345;
    m->slo_chosen = m->best_effort = true;
    /* one by one: bytes between fields stay zero */
    m->queue.priorities = 3;
    m->queue.priority_default = 2;
    m->queue.wait_ns = 1;
    m->queue.wait_none = m->queue.preserve_ordering = true;
    m->queue.preferred[0] = 1;
    m->queue.preferred[1] = 9;
    m->queue.preferred[2] = INT32_MAX;
    m->queue.preferred_count = 3;
    for (uint32_t i = 0; i < PRIORITIES_MAX; i++) {
        struct queue_rule *rule = &m->queue.rules[i];
        rule->timeout_ns = 1 + i;
        rule->may_shorten = i & 1;
        rule->delay = i & 2;
        rule->queue_max = UINT32_MAX - i;
    }
    m->instances.kind = INSTANCES_ON_GPUS;
    m->instances.gpus = 70;
    m->instances.gpus_named = 0x8000000000000001;
    m->on[0].type = "cpu";
    m->on[1].type = "a long name";
    m->on[1].count = 65536;
    m->on[2].type = "t4";
    m->on[2].count = 3;
    m->on[1].gpu = m->on[2].gpu = m->on[2].emulated = true;
    m->mixes = "they \"mix\"";
    m->weights_bytes = INT64_MAX;
    m->batch_bytes = 1;
    m->weights_shared = true;
    m->weight = 0.1 + 0.2;
    m->label_files[0] = "labels.txt";
    m->formats[0] = IMAGE_NCHW;
    m->formats[2] = IMAGE_NHWC;
    m->item_elements = ((int64_t)1 << 40) + 1;
    memcpy(m->reference_dims[0], (int64_t[]){1, 3, 0, INT64_MAX}, 4 * sizeof(int64_t));
    memcpy(m->reference_dims[1], (int64_t[]){1}, sizeof(int64_t));
    memcpy(m->reference_dims[2], (int64_t[]){1, 1, 2, 3, 4, 5, 6, 7}, 8 * sizeof(int64_t));
    m->shape_secret = (struct siphash_key){{UINT64_MAX, 1}};
    labels_put(m, 0, odd_labels, sizeof(odd_labels) - 1);
    profile_put(w, "cpu", 7, (int64_t[]){1, 3, 1000000000000});
    profile_put(w, "t4", PROFILE_LONG, (int64_t[]){1234567, 2345678, 123456789012});
    *state = w;
    return 0;
}

static int world_free(void **state) {
    struct world *w = *state;
    model_description_release(&w->model, w->profiles, w->profile_count);
    model_description_release(&w->got, w->read, w->read_count);
    free(w);
    return 0;
}

static char *described(struct world *w, size_t *bytes) {
    char *text = model_description_write(&w->model, w->profiles, w->profile_count, bytes, &w->err);
    assert_non_null(text);
    return text;
}

static int read_back(struct world *w, const char *text, size_t bytes) {
    model_description_release(&w->got, w->read, w->read_count);
    memset(&w->got, 0, sizeof(w->got));
    return model_description_read(text, bytes, &w->got, w->read, &w->read_count, &w->err);
}

TEST_WITH(every_field_comes_back_as_it_was, world_make, world_free) {
    struct world *w = *state;
    size_t bytes;
    char *text = described(w, &bytes);
    if (read_back(w, text, bytes))
        fail_msg("%s", w->err.text);
    for (uint64_t i = 0; i < 8; i++) {
        size_t length = 0, got_length = 0;
        const char *label = labels_get(w->model.labels[0], i, &length);
        const char *got = labels_get(w->got.labels[0], i, &got_length);
        assert_int_equal(!label, !got);
        assert_int_equal(length, got_length);
        if (label)
            assert_memory_equal(label, got, length);
    }
    assert_null(w->got.labels[1]);
    signatures_equal(&w->got.signature, &w->model.signature);
    assert_memory_equal(w->got.reference_dims, w->model.reference_dims, 3 * sizeof(w->model.reference_dims[0]));
    assert_memory_equal(w->got.formats, w->model.formats, 3);
    assert_string_equal(w->got.label_files[0], "labels.txt");
    assert_null(w->got.label_files[1]);
    assert_string_equal(w->got.mixes, w->model.mixes);
    /* All else lies in the record itself. Bytes between fields are zero in both. */
    struct served_model rest;
    memcpy(&rest, &w->got, sizeof(rest));
    rest.memory = w->model.memory;
    memcpy(&rest.signature, &w->model.signature, sizeof(rest.signature));
    rest.reference_dims = w->model.reference_dims;
    rest.formats = w->model.formats;
    rest.label_files = w->model.label_files;
    rest.labels = w->model.labels;
    rest.mixes = w->model.mixes;
    for (uint32_t t = 0; t < 3; t++) {
        assert_string_equal(rest.on[t].type, w->model.on[t].type);
        rest.on[t].type = w->model.on[t].type;
    }
    assert_memory_equal(&w->model, &rest, sizeof(rest));
    assert_int_equal(w->read_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_string_equal(w->read[i].type, w->profiles[i].type);
        const struct profile *got = w->read[i].profile, *want = w->profiles[i].profile;
        assert_int_equal(got->batch_max, want->batch_max);
        assert_memory_equal(&got->alpha_ns, &want->alpha_ns, sizeof(got->alpha_ns));
        assert_memory_equal(&got->beta_ns, &want->beta_ns, sizeof(got->beta_ns));
        assert_memory_equal(got->latency_ns, want->latency_ns, (want->batch_max + 2) * sizeof(got->latency_ns[0]));
    }
    assert_true(model_description_hash(&w->model) == model_description_hash(&w->got));
    char *again = model_description_write(&w->got, w->read, 2, NULL, NULL);
    assert_string_equal(text, again);
    free(again);
    free(text);
}

/* A file prepares the first input, of a decoded image; a fourth one is decoded, and no more. */
static void prepare(struct world *w) {
    static const unsigned char file[] = "\0any \xff bytes";
    struct served_model *m = &w->model;
    struct prepared_file *contents = calloc(1, sizeof(*contents) + sizeof(file));
    assert_non_null(contents);
    contents->bytes = sizeof(file);
    memcpy(contents->data, file, sizeof(file));
    m->signature.inputs[m->signature.input_count++] =
        (struct tensor_spec){.name = "image", .type = DATATYPE_UINT8, .dim_count = 4, .dims = {-1, -1, 9, 3}};
    memcpy(m->reference_dims[3], (int64_t[]){1, 8, 9, 3}, 4 * sizeof(int64_t));
    m->prepared = 1u << 0 | 1u << 3;
    assert_int_equal(preparations_room(m, &w->err), 0);
    struct served_preparation *first = &m->preparations[0], *fourth = &m->preparations[3];
    first->bytes_max = fourth->pixels_max = 1;
    first->pixels_max = (uint32_t)PREPARE_PIXELS_MAX;
    fourth->bytes_max = (uint32_t)PREPARE_BYTES_MAX;
    strcpy(first->file, "p.onnx");
    first->image_at = 1;
    first->file_at = 2;
    first->image_line = 7;
    first->file_line = UINT32_MAX;
    fourth->image_line = 5;
    first->contents = contents;
    assert_int_equal(preparations_told(m, &w->err), 0);
}

TEST_WITH(prepared_inputs_come_back_as_they_were, world_make, world_free) {
    struct world *w = *state;
    size_t bytes;
    prepare(w);
    char *text = described(w, &bytes);
    if (read_back(w, text, bytes))
        fail_msg("%s", w->err.text);
    assert_int_equal(w->got.prepared, w->model.prepared);
    struct prepared_file *contents = w->model.preparations[0].contents, *got = w->got.preparations[0].contents;
    assert_non_null(got);
    assert_int_equal(got->bytes, contents->bytes);
    assert_memory_equal(got->data, contents->data, contents->bytes);
    w->got.preparations[0].contents = contents;
    assert_memory_equal(w->got.preparations, w->model.preparations, 4 * sizeof(w->got.preparations[0]));
    w->got.preparations[0].contents = got;
    signatures_equal(&w->got.offered, &w->model.offered);
    assert_int_equal(served_model_offered(&w->got)->inputs[3].type, DATATYPE_BYTES);
    assert_true(model_description_hash(&w->model) == model_description_hash(&w->got));
    free(text);
}

TEST_WITH(models_may_have_no_inputs, world_make, world_free) {
    struct world *w = *state;
    size_t bytes;
    w->model.signature.input_count = 0;
    char *text = described(w, &bytes);
    if (read_back(w, text, bytes))
        fail_msg("%s", w->err.text);
    assert_int_equal(w->got.signature.input_count, 0);
    free(text);
}

TEST_WITH(empty_labels_are_labels, world_make, world_free) {
    struct world *w = *state;
    size_t bytes, length;
    labels_put(&w->model, 1, "", 0);
    char *text = described(w, &bytes);
    assert_int_equal(read_back(w, text, bytes), 0);
    assert_non_null(w->got.labels[1]);
    assert_null(labels_get(w->got.labels[1], 0, &length));
    free(text);
}

TEST_WITH(what_a_newer_version_adds_is_ignored, world_make, world_free) {
    struct world *w = *state;
    size_t bytes;
    char *text = described(w, &bytes), *more = malloc(bytes + 64);
    assert_non_null(more);
    int length = snprintf(more, bytes + 64, "{\"new\":[{\"x\":\"\\u0000\"}],%s", text + 1);
    assert_int_equal(read_back(w, more, (size_t)length), 0);
    free(more);
    free(text);
}

/* The value at a place like "inputs/0/shape/1". */
static json_t *at_place(json_t *value, const char *place, json_t **parent, char key[64]) {
    for (*parent = NULL; *place; place += *place == '/') {
        size_t length = strcspn(place, "/");
        snprintf(key, 64, "%.*s", (int)length, place);
        place += length;
        *parent = value;
        value = json_is_array(value) ? json_array_get(value, (size_t)atoi(key)) : json_object_get(value, key);
    }
    return value;
}

static void named(const char *sentence, const char *place) {
    char name[128] = "model description: ";
    for (size_t at = strlen(name); *place; place++)
        if (*place == '/' && place[1] >= '0' && place[1] <= '9') {
            at += (size_t)sprintf(name + at, "[");
            while (place[1] >= '0' && place[1] <= '9')
                name[at++] = *++place;
            at += (size_t)sprintf(name + at, "]");
        } else {
            at += (size_t)sprintf(name + at, "%c", *place == '/' ? '.' : *place);
        }
    if (strncmp(sentence, name, strlen(name)) != 0)
        fail_msg("'%s' does not begin with '%s'", sentence, name);
}

static void refused(struct world *w, json_t *root, const char *place, const char *named_place) {
    char *text = json_dumps(root, JSON_COMPACT);
    w->err.text[0] = '\0';
    if (read_back(w, text, strlen(text)) != -EINVAL)
        fail_msg("%s: %s is accepted", place, text);
    named(w->err.text, named_place);
    assert_int_equal(w->read_count, 0);
    free(text);
}

TEST_WITH(shapes_of_the_file_come_back_as_they_were, world_make, world_free) {
    struct world *w = *state;
    struct signature *s = &w->model.signature;
    size_t bytes;
    s->inputs[1] = (struct tensor_spec){"x1", DATATYPE_FP32, 2, {-1, 1}, true, 1, {-1}};
    s->outputs[1] = (struct tensor_spec){"y1", DATATYPE_FP32, 3, {-1, 2, -1}, true, 4, {-1, 1, 2, -1}};
    memcpy(w->model.reference_dims[1], (int64_t[]){1, 1}, 2 * sizeof(int64_t));
    char *text = described(w, &bytes);
    if (read_back(w, text, bytes))
        fail_msg("%s", w->err.text);
    signatures_equal(&w->got.signature, s);
    json_t *root = json_loadb(text, bytes, JSON_ALLOW_NUL, NULL);
    json_t *input = json_array_get(json_object_get(root, "inputs"), 1);
    json_object_set_new(input, "file_shape", json_pack("[i]", 1));
    refused(w, root, "inputs/1/file_shape", "inputs/1/file_shape");
    json_object_set_new(input, "file_shape", json_integer(1));
    refused(w, root, "inputs/1/file_shape", "inputs/1/file_shape");
    json_decref(root);
    free(text);
}

/* Takes away each member of an object, at any depth, and then gives each value another type. */
static void spoil(struct world *w, json_t *root, json_t *value, const char *place) {
    const char *key;
    json_t *entry, *entries = json_copy(value); /* what is put back comes to the end of the object */
    char inner[128];
    size_t i;
    json_object_foreach(entries, key, entry) {
        snprintf(inner, sizeof(inner), "%s%s%s", place, *place ? "/" : "", key);
        json_object_del(value, key);
        refused(w, root, inner, inner);
        json_object_set_new(value, key, json_pack("{s:i}", "odd", 1));
        refused(w, root, inner, inner);
        json_object_set(value, key, entry);
        spoil(w, root, entry, inner);
    }
    json_array_foreach(value, i, entry) {
        snprintf(inner, sizeof(inner), "%s/%zu", place, i);
        json_incref(entry);
        json_array_set_new(value, i, json_null());
        refused(w, root, inner, inner);
        json_array_set_new(value, i, entry);
        spoil(w, root, entry, inner);
    }
    json_decref(entries);
}

TEST_WITH(each_field_must_be_there_and_of_its_type, world_make, world_free) {
    struct world *w = *state;
    free(w->profiles[--w->profile_count].profile); /* the long one */
    w->profiles[w->profile_count].profile = NULL;
    size_t bytes;
    char *text = described(w, &bytes);
    json_t *root = json_loadb(text, bytes, JSON_ALLOW_NUL, NULL);
    spoil(w, root, root, "");
    assert_int_equal(read_back(w, text, bytes), 0); /* `root` was put right each time */
    json_decref(root);
    free(text);
}

struct bound {
    const char *place, *value, *named;
};

static void bounds_hold(struct world *w, const struct bound *cases, size_t count);

TEST_WITH(each_value_has_bounds, world_make, world_free) {
    static const struct bound cases[] = {
        {"format", "2", ""},
        {"name", "\"\"", ""},
        {"name", "\"a b\"", ""},
        {"name", "\"a\\u0000\"", ""},
        {"name",
         "\""
         "0123456789012345678901234567890123456789012345678901234567890123"
         "0123456789012345678901234567890123456789012345678901234567890123\"",
         ""},
        {"version", "0", ""},
        {"version", "4294967296", ""},
        {"version", "1.0", ""},
        {"batched", "false", "batch_max"},
        {"variable_shapes", "false", "inputs/0/shape"},
        {"item_elements", "-1", ""},
        {"item_elements", "9223372036854775807", ""},
        {"batch_max", "0", ""},
        {"batch_max", "1025", ""},
        {"batch_max", "8", "profiles/0/latency_ns"},
        {"slo_ns", "0", ""},
        {"slo_ns", "9223372036854775807", ""},
        {"weight", "-0.1", ""},
        {"weight", "1000.1", ""},
        {"weights_bytes", "-1", ""},
        {"shape_secret", "\"0123456789abcdef0123456789abcde\"", ""},
        {"shape_secret", "\"0123456789abcdef0123456789abcdeg\"", ""},
        {"inputs", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", ""},
        {"inputs/1/datatype", "\"STRING\"", ""},
        {"inputs/1/shape", "[]", ""},
        {"inputs/1/shape", "[2]", ""},
        {"inputs/1/shape", "[-2]", "inputs/1/shape/0"},
        {"inputs/1/shape", "[-1,1,1,1,1,1,1,1,1]", ""},
        {"inputs/1/item", "[-1]", "inputs/1/item/0"},
        {"inputs/1/item", "[1,1]", ""},
        {"inputs/1/item", "[281474976710657]", ""},
        {"inputs/1/format", "\"NCHW\"", ""},
        {"outputs", "[]", ""},
        {"outputs/0/labels/0", "\"a\\nb\"", ""},
        {"outputs/0/labels/0", "\"\\u0100\"", ""},
        {"outputs/0/labels/0", "\"\\u20ac\"", ""},
        {"queue/priorities", "33", ""},
        {"queue/priority_default", "4", ""},
        {"queue/priority_default", "0", ""},
        {"queue/wait_ns", "-1", ""},
        {"queue/preferred", "[2,2]", ""},
        {"queue/preferred", "[0]", "queue/preferred/0"},
        {"queue/preferred", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", ""},
        {"queue/rules", "[]", ""},
        {"queue/rules/31/timeout_ns", "-1", ""},
        {"queue/rules/0/queue_max", "4294967296", ""},
        {"instances/kind", "\"tpus\"", ""},
        {"instances/gpus_named", "\"1\"", ""},
        {"on", "[1,2,3,4,5,6,7,8,9]", ""},
        {"on/0/type", "\"\"", ""},
        {"on/1/count", "65537", ""},
        {"profiles", "[1,2,3,4,5,6,7,8,9]", ""},
        {"profiles/1/type", "\"cpu\"", ""},
        {"profiles/1/type", "\"\"", ""},
        {"profiles/0/latency_ns", "[1,2,3]", ""},
        {"profiles/0/latency_ns", "[1,2,3,4,5,6,8,7]", ""},
        {"profiles/0/latency_ns", "[0,2,3,4,5,6,7,8]", "profiles/0/latency_ns/0"},
    };
    bounds_hold(*state, cases, ARRAY_COUNT(cases));
}

/* As a scheduler puts it into a description. */
TEST_WITH(a_request_may_have_fewer_items_than_a_batch, world_make, world_free) {
    static const struct {
        uint32_t items_max, wanted; /* 0: it is refused */
    } cases[] = {{1, 1}, {3, 3}, {1024, 7}, {0, 0}, {1025, 0}};
    struct world *w = *state;
    size_t bytes;
    char *text = described(w, &bytes), *changed = malloc(bytes + 40);
    uint64_t hash = model_description_hash(&w->model);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int head = sprintf(changed, "{" MODEL_DESCRIPTION_ITEMS_MAX, cases[i].items_max);
        strcpy(changed + head, text + 1);
        assert_int_equal(read_back(w, changed, strlen(changed)), cases[i].wanted ? 0 : -EINVAL);
        if (!cases[i].wanted)
            continue;
        assert_int_equal(served_model_items_max(&w->got), cases[i].wanted);
        assert_int_equal(model_description_hash(&w->got), hash);
    }
    free(changed);
    free(text);
}

TEST_WITH(each_value_of_a_preparation_has_bounds, world_make, world_free) {
    struct world *w = *state;
    static const struct bound cases[] = {
        {"inputs/0/prepare", "null", ""},
        {"inputs/0/prepare/max_bytes", "1073741825", ""},
        {"inputs/0/prepare/max_bytes", "0", "inputs/0/prepare/max_pixels"},
        {"inputs/0/prepare/max_pixels", "268435457", ""},
        {"inputs/0/prepare/max_pixels", "0", ""},
        {"inputs/0/prepare/model", "\"\"", "inputs/0/prepare/contents"},
        {"inputs/0/prepare/model_step", "257", ""},
        {"inputs/0/prepare/contents", "\"\"", ""},
        {"inputs/0/prepare/contents", "\"*\"", ""},
        {"inputs/3/prepare/max_bytes", "0", "inputs/3/prepare/max_pixels"},
        {"inputs/3/prepare/model", "\"q.onnx\"", "inputs/3/prepare/contents"},
    };
    prepare(w);
    bounds_hold(w, cases, ARRAY_COUNT(cases));
    w->model.signature.inputs[3].type = DATATYPE_FP32; /* which no decoded image is */
    size_t bytes;
    char *text = described(w, &bytes);
    assert_int_equal(read_back(w, text, bytes), -EINVAL);
    assert_string_equal(w->err.text,
                        "odd!~model/symphony.yaml:5: prepare.0: decode_image makes UINT8 [height,width,3], but the "
                        "model's input 'image' is FP32 [-1,9,3] behind the batch dimension");
    free(text);
}

TEST_WITH(a_file_that_is_too_large_is_refused, world_make, world_free) {
    struct world *w = *state;
    size_t bytes;
    prepare(w);
    struct served_preparation *p = &w->model.preparations[0];
    p->contents = realloc(p->contents, sizeof(*p->contents) + PREPARE_CARRIED_MAX + 1);
    assert_non_null(p->contents);
    memset(p->contents->data, 'x', PREPARE_CARRIED_MAX + 1);
    p->contents->bytes = PREPARE_CARRIED_MAX;
    char *text = described(w, &bytes);
    if (read_back(w, text, bytes))
        fail_msg("%s", w->err.text);
    free(text);
    p->contents->bytes++;
    text = described(w, &bytes);
    assert_int_equal(read_back(w, text, bytes), -EINVAL);
    named(w->err.text, "inputs/0/prepare/contents");
    free(text);
}

static void bounds_hold(struct world *w, const struct bound *cases, size_t count) {
    size_t bytes;
    char *text = described(w, &bytes);
    for (size_t i = 0; i < count; i++) {
        json_t *parent, *root = json_loadb(text, bytes, JSON_ALLOW_NUL, NULL);
        json_t *value = json_loads(cases[i].value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        char key[64] = "";
        assert_non_null(value);
        assert_non_null(at_place(root, cases[i].place, &parent, key));
        if (json_is_array(parent))
            json_array_set_new(parent, (size_t)atoi(key), value);
        else
            json_object_set_new(parent, key, value);
        refused(w, root, cases[i].place, *cases[i].named ? cases[i].named : cases[i].place);
        json_decref(root);
    }
    free(text);
}

TEST_WITH(what_is_no_description_is_refused, world_make, world_free) {
    struct world *w = *state;
    static const char *const texts[] = {"", "[]", "null", "{", "{\"format\":1,\"format\":1}", "{\"format\":1} x"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        assert_int_equal(read_back(w, texts[i], strlen(texts[i])), -EINVAL);
    char *large = malloc(MODEL_DESCRIPTION_BYTES_MAX + 1);
    assert_non_null(large);
    memset(large, ' ', MODEL_DESCRIPTION_BYTES_MAX + 1);
    assert_int_equal(read_back(w, large, MODEL_DESCRIPTION_BYTES_MAX + 1), -EINVAL);
    free(large);
}

TEST_WITH(what_cannot_be_written_is_said, world_make, world_free) {
    struct world *w = *state;
    strcpy(w->model.signature.inputs[0].name, "\xff");
    assert_null(model_description_write(&w->model, w->profiles, w->profile_count, NULL, &w->err));
    assert_non_null(strstr(w->err.text, "odd!~model"));
    strcpy(w->model.signature.inputs[0].name, "x");
    char *text = malloc(MODEL_DESCRIPTION_BYTES_MAX);
    assert_non_null(text);
    memset(text, 'a', MODEL_DESCRIPTION_BYTES_MAX);
    struct labels *labels;
    assert_int_equal(labels_take(text, MODEL_DESCRIPTION_BYTES_MAX, &labels, NULL), 0);
    assert_int_equal(served_model_labels_take(&w->model, 1, labels, NULL), 0);
    assert_null(model_description_write(&w->model, w->profiles, w->profile_count, NULL, &w->err));
}

/* Makes a model like the world's, with tensors, but no labels or files of its own. */
static void copy_make(const struct world *w, struct served_model *copy) {
    served_model_release(copy);
    memcpy(copy, &w->model, sizeof(*copy));
    copy->memory = NULL;
    specs_set(copy, w->model.signature);
    memcpy(copy->reference_dims, w->model.reference_dims, TENSORS_MAX * sizeof(copy->reference_dims[0]));
    memcpy(copy->formats, w->model.formats, TENSORS_MAX);
    memcpy(copy->label_files, w->model.label_files, TENSORS_MAX * sizeof(copy->label_files[0]));
    memcpy(copy->labels, w->model.labels, TENSORS_MAX * sizeof(copy->labels[0]));
    if (!copy->prepared)
        return;
    copy->preparations = mem_pool_take(&copy->memory, 4 * sizeof(copy->preparations[0]));
    memcpy(copy->preparations, w->model.preparations, 4 * sizeof(copy->preparations[0]));
}

TEST_WITH(what_is_of_a_machine_makes_no_difference, world_make, world_free) {
    struct world *w = *state;
    struct served_model *other = calloc(1, sizeof(*other));
    assert_non_null(other);
    copy_make(w, other);
    char text[256];
    other->batch_max = 1;
    other->slo_ns++; /* chosen */
    other->weights_bytes = other->batch_bytes = 5;
    other->weights_shared = false;
    other->shape_secret.words[1]++;
    memset(&other->instances, 0, sizeof(other->instances));
    memset(other->on, 0, sizeof(other->on));
    other->path = "/elsewhere";
    other->folder = "/elsewhere";
    other->state = MODEL_UNAVAILABLE;
    assert_true(model_description_hash(other) == model_description_hash(&w->model));
    model_description_difference(other, &w->model, text, sizeof(text));
    assert_string_equal(text, "");
    served_models_free(other, 1);
}

TEST_WITH(what_differs_is_named_with_both_values, world_make, world_free) {
    struct world *w = *state;
    struct served_model *other = calloc(1, sizeof(*other));
    assert_non_null(other);
    copy_make(w, other);
    char text[256];
#define DIFFERS(change, want)                                                                                          \
    do {                                                                                                               \
        copy_make(w, other);                                                                                           \
        change;                                                                                                        \
        assert_true(model_description_hash(other) != model_description_hash(&w->model));                               \
        model_description_difference(&w->model, other, text, sizeof(text));                                            \
        assert_string_equal(text, want);                                                                               \
    } while (0)
    DIFFERS(other->contents[0] = 'f', "contents is \"0123456789abcdef0123456789abcdef\" here and "
                                      "\"f123456789abcdef0123456789abcdef\" there");
    DIFFERS(other->signature.inputs[0].dims[1] = 4, "inputs[0].shape[1] is 3 here and 4 there");
    DIFFERS(other->signature.inputs[0].dim_count--,
            "inputs[0].shape is [-1,3,-1,9223372036854775807] here and [-1,3,-1] "
            "there");
    DIFFERS(other->signature.inputs[1].type = DATATYPE_INT8, "inputs[1].datatype is \"BYTES\" here and \"INT8\" there");
    DIFFERS(other->slo_chosen = false, "slo_chosen is true here and false there");
    DIFFERS(other->weight = 1, "weight is 0.30000000000000004 here and 1.0 there");
    DIFFERS(other->queue.rules[1].delay = true, "queue.rules[1].delay is false here and true there");
    DIFFERS(other->formats[1] = IMAGE_NHWC, "inputs[1].format is \"none\" here and \"nhwc\" there");
    specs_set(&w->got, w->model.signature);
    labels_put(&w->got, 0, "tabby cat\ndog\n", 14);
    DIFFERS(other->labels[0] = w->got.labels[0],
            "outputs[0].labels is 7 entries here and [\"tabby cat\",\"dog\"] there");
    DIFFERS(other->labels[0] = NULL, "outputs[0].labels is 7 entries here and null there");
    prepare(w);
    DIFFERS(other->preparations[3].pixels_max = 2, "inputs[3].prepare.max_pixels is 1 here and 2 there");
    DIFFERS(other->prepared = 1,
            "inputs[3].prepare is {\"max_bytes\":1073741824,\"max_pixels\":1,\"model\":\"\"} here and "
            "not there there");
    struct prepared_file *changed = malloc(sizeof(*changed) + 1);
    assert_non_null(changed);
    changed->bytes = 1;
    changed->data[0] = 'x';
    DIFFERS(other->preparations[0].contents = changed,
            "inputs[0].prepare.contents is \"a10da211a525dc59042960d542f9aaf9\" here and "
            "\"6d16e801ba1afee7d7ed6d966bae788c\" there");
    free(changed);
    served_models_free(other, 1);
}

/* What an operator sees of such a model: 1000 labels, tables up to 1024 on two types. */
TEST_WITH(a_description_is_small, world_make, world_free) {
    struct world *w = *state;
    struct served_model *m = &w->model;
    char *text, *labels = malloc(32 * 1000);
    size_t bytes = 0;
    assert_non_null(labels);
    model_description_release(m, w->profiles, w->profile_count);
    w->profile_count = 0;
    memset(m, 0, sizeof(*m));
    for (int i = 0; i < 1000; i++)
        bytes += (size_t)snprintf(labels + bytes, 32, "class of object %05d\n", i);
    strcpy(m->name, "resnet50");
    strcpy(m->platform, "onnxruntime_onnx");
    m->version = m->slo_ns = 1;
    m->batch_max = PROFILE_LONG;
    m->weight = 1;
    specs_set(m,
              (struct signature){
                  .inputs = SPECS({.name = "data", .type = DATATYPE_FP32, .dim_count = 4, .dims = {-1, 3, 224, 224}}),
                  .outputs = SPECS({.name = "class", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 1000}}),
                  .input_count = 1,
                  .output_count = 1,
                  .batched = true});
    m->item_elements = 3 * 224 * 224;
    labels_put(m, 0, labels, bytes);
    free(labels);
    profile_put(w, "cpu", PROFILE_LONG, (int64_t[]){12345678, 81234567, 9912345678});
    profile_put(w, "cuda", PROFILE_LONG, (int64_t[]){1234567, 2345678, 123456789});
    text = described(w, &bytes);
    print_message("%zu bytes\n", bytes);
    assert_true(bytes < 48 * 1024);
    if (read_back(w, text, bytes))
        fail_msg("%s", w->err.text);
    free(text);
}
