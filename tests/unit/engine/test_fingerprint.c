/* test_fingerprint.c - known hashes, and models whose weights lie in other files. */
#include "unit/cmocka_all.h"
#include "unit/temp_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/container.h"
#include "engine/fingerprint.h"

/* MurmurHash3 x64 128, seed 0: values of the reference implementation. */
static void hashes_are_murmur3(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "00000000000000000000000000000000"},
        {"hello", "cbd8a7b341bd9b025b1e906a48ae1d19"},
        {"hello, world", "342fac623a5ebc8e4cdcbc079642414d"},
        {"The quick brown fox jumps over the lazy dog.", "cd99481f9ee902c9695da1a38987b6e7"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[FINGERPRINT_TEXT];
        struct fingerprint fingerprint = fingerprint_bytes(cases[i].text, strlen(cases[i].text));
        fingerprint_format(&fingerprint, text);
        assert_string_equal(text, cases[i].want);
    }
}

static void file_write(const char *folder, const char *name, const void *data, size_t bytes) {
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *to = fopen(path, "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(data, 1, bytes, to), bytes);
    fclose(to);
}

static void text_of(const char *path, char text[FINGERPRINT_TEXT]) {
    struct fingerprint fingerprint;
    assert_int_equal(fingerprint_model(path, &fingerprint, NULL), 0);
    fingerprint_format(&fingerprint, text);
}

static void weights_in_other_files_count(void **state) {
    (void)state;
    char folder[64], path[256], before[FINGERPRINT_TEXT], after[FINGERPRINT_TEXT];
    temp_folder(folder);
    /* as protobuf writes a TensorProto.external_data entry */
    static const char model[] = "\x08\x09...\x6a\x17\x0a\x08location\x12\x0bweights.bin...";
    file_write(folder, "model.onnx", model, sizeof(model));
    file_write(folder, "weights.bin", "1234", 4);
    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    text_of(path, before);
    text_of(path, after);
    assert_string_equal(before, after);
    assert_int_equal(fingerprint_model_holds(path, before), 1);
    file_write(folder, "weights.bin", "1235", 4);
    assert_int_equal(fingerprint_model_holds(path, before), 0);
    text_of(path, after);
    assert_string_not_equal(before, after);
    char weights[256];
    snprintf(weights, sizeof(weights), "%s/weights.bin", folder);
    unlink(weights);
    text_of(path, after); /* missing: for the engine to complain about */
    assert_string_not_equal(before, after);
    /* a name that would reach behind the end of the file */
    file_write(folder, "model.onnx", model, sizeof(model) - 10);
    text_of(path, after);
    /* a name of 128 bytes or more has a length of two bytes */
    char longer[256] = "\x08\x09...\x6a\xb4\x01\x0a\x08location\x12\xa7\x01", name[168];
    size_t length = strlen(longer);
    memset(name, 'w', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    memcpy(longer + length, name, sizeof(name) - 1);
    file_write(folder, "model.onnx", longer, length + sizeof(name) - 1);
    file_write(folder, name, "1234", 4);
    text_of(path, before);
    file_write(folder, name, "1235", 4);
    assert_int_equal(fingerprint_model_holds(path, before), 0);
    snprintf(weights, sizeof(weights), "%s/%s", folder, name);
    unlink(weights);
    unlink(path);
    struct fingerprint fingerprint;
    struct sy_error err = {""};
    assert_int_equal(fingerprint_model(path, &fingerprint, &err), -ENOENT);
    assert_int_equal(fingerprint_model_holds(path, before), -ENOENT);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(fingerprint_model(folder, &fingerprint, &err), -EINVAL);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_murmur3),
        cmocka_unit_test(weights_in_other_files_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
