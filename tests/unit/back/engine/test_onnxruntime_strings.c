/* test_onnxruntime_strings.c - strings into ONNX Runtime and out of it: lengths, zero bytes, rows, nothing at all. */
#include "unit/test.h"

#include <stdio.h>
#include <string.h>

#ifndef SYMPHONY_HAVE_ONNXRUNTIME

int main(void) {
    puts("built without ONNX Runtime: nothing to test");
    return 0;
}

#else

#include "back/engine/onnxruntime_strings.h"
#include "core/data/strings.h"

#define PACKED_MAX 4096

static const OrtApi *api;

static const struct string words[] = {
    {"one", 3}, {"", 0}, {"zero\0inside", 11}, {"\xc3\xa4\xf0\x9f\x98\x80", 6}, {"\xff\xfe", 2}, {"last", 4}};

/* The words in our form; how many bytes they take. */
static size_t pack(char *data, size_t count) {
    char *at = data;
    for (size_t i = 0; i < count; i++) {
        at = strings_lead(at, words[i].length);
        memcpy(at, words[i].data, words[i].length);
        at += words[i].length;
    }
    return (size_t)(at - data);
}

static void round_trip(const int64_t *dims, uint32_t dim_count) {
    char data[PACKED_MAX];
    size_t count = (size_t)dims_product(dims, 0, dim_count), rows = dim_count > 0 ? (size_t)dims[0] : 0;
    struct tensor_view given = {.data = data, .bytes = pack(data, count), .dim_count = dim_count},
                       taken = {.dim_count = dim_count};
    struct sy_error err = {""};
    OrtValue *value = NULL;
    memcpy(given.dims, dims, dim_count * sizeof(*dims));
    memcpy(taken.dims, dims, dim_count * sizeof(*dims));
    assert_int_equal(onnxruntime_strings_make(api, &given, &value, &err), 0);
    for (size_t i = 0, length; i < count; i++) {
        char word[32];
        assert_null(api->GetStringTensorElementLength(value, i, &length));
        assert_int_equal(length, words[i].length);
        assert_null(api->GetStringTensorElement(value, length, i, word));
        assert_memory_equal(word, words[i].data, length);
    }
    assert_int_equal(onnxruntime_strings_take(api, &value, &taken, &err), 0);
    assert_int_equal(taken.bytes, given.bytes);
    assert_memory_equal(taken.data, data, given.bytes);
    assert_int_equal(taken.row_at != NULL, rows > 0);
    for (size_t row = 0; row < rows; row++)
        assert_int_equal(taken.row_at[row], pack((char[PACKED_MAX]){0}, row * (count / rows)));
    if (rows > 0)
        assert_int_equal(taken.row_at[rows], given.bytes);
    api->ReleaseValue(value);
}

TEST(strings_go_in_and_come_out) {
    round_trip((const int64_t[]){6}, 1);
    round_trip((const int64_t[]){2, 3}, 2);
    round_trip((const int64_t[]){3, 1, 2}, 3);
    round_trip((const int64_t[]){1}, 1);
    round_trip((const int64_t[]){0}, 0); /* no dimension: one element */
}

TEST(nothing_goes_in_and_comes_out) {
    round_trip((const int64_t[]){0}, 1);
    round_trip((const int64_t[]){0, 3}, 2);
    round_trip((const int64_t[]){2, 0}, 2);
}

TEST(what_holds_no_strings_stays_as_it_was) {
    const int64_t dims[] = {2};
    struct tensor_view view = {.dim_count = 1, .dims = {2}};
    struct sy_error err = {""};
    OrtAllocator *allocator;
    OrtValue *numbers, *before;
    assert_null(api->GetAllocatorWithDefaultOptions(&allocator));
    assert_null(api->CreateTensorAsOrtValue(allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &numbers));
    before = numbers;
    assert_true(onnxruntime_strings_take(api, &numbers, &view, &err) < 0);
    assert_true(err.text[0] != '\0');
    assert_ptr_equal(numbers, before);
    api->ReleaseValue(numbers);
}

int main(void) {
    api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
    return tests_run(NULL, NULL);
}

#endif
