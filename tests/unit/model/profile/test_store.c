/* test_store.c - profiles as files: there and back, mistakes named, tables made of them. */
#include "unit/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "core/util/container.h"
#include "core/util/time.h"
#include "model/profile/store.h"

static struct profile_record sample(void) {
    struct profile_record r = {
        .fingerprint = "0123456789abcdef0123456789abcdef",
        .engine = "onnxruntime 1.31.1",
        .accelerator = "cpu somebody's \"best\"",
        .file = {.signature = {.input_count = 2, .output_count = 1, .batched = true, .variable_shapes = true},
                 .inputs = {{.name = "x", .type = DATATYPE_FP32, .dim_count = 4, .dims = {-1, 3, -1, -1}},
                            {.name = "n", .type = DATATYPE_INT64, .dim_count = 1, .dims = {-1}}},
                 .outputs = {{.name = "y", .type = DATATYPE_BOOL, .dim_count = 2, .dims = {-1, 7}}}},
        .item_dims = {{1, 3, 320, 480}, {1}},
        .batch_asked = 64,
        .batched = true,
        .batch_max = 32,
        .note = "larger batches would take over 1.0 s",
        .point_count = 3,
        .batch = {1, 2, 4},
        .latency_ns = {1000001, 1500000, 2999999999},
        .weights_bytes = 5ULL << 30,
        .batch_bytes = 77,
        .load_ns = 21 * NS_PER_MS,
        .cache = "prepacked",
    };
    return r;
}

TEST(a_record_survives_its_file) {
    char path[] = "/tmp/symphony-test-XXXXXX";
    close(mkstemp(path));
    struct profile_record record = sample(), back;
    memset(&back, 0xff, sizeof(back));
    assert_int_equal(profile_store_save(path, &record, NULL), 0);
    assert_int_equal(profile_store_load(path, &back, NULL), 0);
    unlink(path);
    assert_string_equal(back.fingerprint, record.fingerprint);
    assert_string_equal(back.engine, record.engine);
    assert_string_equal(back.accelerator, record.accelerator);
    assert_string_equal(back.note, record.note);
    assert_string_equal(back.cache, record.cache);
    assert_memory_equal(&back.file, &record.file, sizeof(record.file));
    assert_memory_equal(back.item_dims, record.item_dims, sizeof(record.item_dims));
    assert_memory_equal(back.batch, record.batch, sizeof(record.batch));
    assert_memory_equal(back.latency_ns, record.latency_ns, sizeof(record.latency_ns));
    assert_int_equal(back.batched, true);
    assert_int_equal(back.batch_max, 32);
    assert_int_equal(back.batch_asked, 64);
    assert_int_equal(back.point_count, 3);
    assert_int_equal(back.weights_bytes, record.weights_bytes);
    assert_int_equal(back.batch_bytes, 77);
    assert_int_equal(back.load_ns, record.load_ns);
}

/* The signature is the file's, the item has the shape that clients see. */
TEST(items_may_have_more_dimensions_than_the_file) {
    struct profile_record record = sample(), back;
    const int64_t item[TENSOR_DIMS_MAX] = {1, 1, 7};
    memcpy(record.item_dims[1], item, sizeof(item));
    json_t *json = profile_record_pack(&record);
    assert_int_equal(profile_record_unpack(json, "f", &back, NULL), 0);
    json_decref(json);
    assert_int_equal(back.file.inputs[1].dim_count, 1);
    assert_memory_equal(back.item_dims, record.item_dims, sizeof(back.item_dims));
}

TEST(a_model_without_inputs_has_a_signature) {
    struct profile_record record = sample(), back;
    record.file.signature.input_count = 0;
    json_t *json = profile_record_pack(&record);
    assert_int_equal(profile_record_unpack(json, "f", &back, NULL), 0);
    json_decref(json);
    assert_true(profile_record_has_signature(&back));
    assert_int_equal(back.file.signature.input_count, 0);
}

TEST(a_profile_by_hand_needs_points_alone) {
    struct profile_record record;
    json_t *json = json_loads("{\"symphony_profile\": 1, \"points\": [{\"batch\": 1, \"latency_ms\": 2},"
                              " {\"batch\": 16, \"latency_ms\": 7.5}]}",
                              0, NULL);
    assert_int_equal(profile_record_unpack(json, "by hand", &record, NULL), 0);
    json_decref(json);
    assert_int_equal(record.batch_max, 16);
    assert_int_equal(record.latency_ns[1], 7500000);
    assert_false(profile_record_has_signature(&record));
}

TEST(mistakes_are_named) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"{}", "f: not a profile: Object item not found: symphony_profile"},
        {"[]", "f: not a profile: Expected object, got array"},
        {"{\"symphony_profile\": 2, \"points\": []}", "f: symphony_profile: version 2 is not known"},
        {"{\"symphony_profile\": 1, \"points\": []}", "f: points: 1 to 40 are needed"},
        {"{\"symphony_profile\": 1, \"points\": 7}", "f: points: 1 to 40 are needed"},
        {"{\"symphony_profile\": 1, \"points\": [{\"batch\": 1}]}",
         "f: points[0].latency_ms: must be over 0 and under an hour"},
        {"{\"symphony_profile\": 1, \"points\": [{\"batch\": 2, \"latency_ms\": 1}, {\"batch\": 2, \"latency_ms\": "
         "1}]}",
         "f: points[1].batch: must rise, from 1 to at most 1024"},
        {"{\"symphony_profile\": 1, \"points\": [{\"batch\": 1, \"latency_ms\": 1}], \"batch_max\": 5000}",
         "f: batch_max: 5000 is not in 1 to 1024"},
        {"{\"symphony_profile\": 1, \"points\": [{\"batch\": 1, \"latency_ms\": 1}], \"inputs\": [{\"name\": \"x\"}]}",
         "f: inputs[0]: not a tensor's name, datatype and shape"},
        {"{\"symphony_profile\": 1, \"points\": [{\"batch\": 1, \"latency_ms\": 1}], \"outputs\": [{\"name\": \"y\", "
         "\"datatype\": \"FP99\", \"shape\": [1]}]}",
         "f: outputs[0]: not a tensor's name, datatype and shape"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct profile_record record;
        struct sy_error err = {""};
        json_t *json = json_loads(cases[i].text, 0, NULL);
        assert_non_null(json);
        assert_int_equal(profile_record_unpack(json, "f", &record, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].want);
        json_decref(json);
    }
}

TEST(damaged_files_are_refused) {
    char path[] = "/tmp/symphony-test-XXXXXX";
    close(mkstemp(path));
    struct profile_record record = sample();
    struct sy_error err = {""};
    assert_int_equal(profile_store_save(path, &record, NULL), 0);
    assert_int_equal(truncate(path, 300), 0);
    assert_int_equal(profile_store_load(path, &record, &err), -EINVAL);
    assert_int_equal(strncmp(err.text, path, strlen(path)), 0);
    unlink(path);
    assert_int_equal(profile_store_load(path, &record, &err), -ENOENT);
}

TEST(tables_reach_beyond_the_points) {
    struct profile_record record = sample();
    record.latency_ns[0] = 3 * NS_PER_MS;
    record.latency_ns[1] = 4 * NS_PER_MS;
    record.latency_ns[2] = 4 * NS_PER_MS; /* flat at the end, by luck: larger batches are not free */
    struct profile *profile = profile_from_record(&record, 15);
    assert_non_null(profile);
    assert_int_equal(profile->batch_max, 15);
    assert_int_equal(profile->latency_ns[1], 3 * NS_PER_MS);
    assert_int_equal(profile->latency_ns[3], 4 * NS_PER_MS);
    assert_int_equal(profile->latency_ns[16], 16 * NS_PER_MS); /* 4 ms for 4 */
    free(profile);
    profile = profile_from_record(&record, 1); /* fewer than measured: no batch dimension after all */
    assert_int_equal(profile->batch_max, 1);
    assert_int_equal(profile->latency_ns[2], 4 * NS_PER_MS);
    free(profile);
}
