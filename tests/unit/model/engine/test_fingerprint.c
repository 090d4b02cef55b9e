/* test_fingerprint.c - known hashes, and models whose weights lie in other files. */
/* Starts threads. */
#include "unit/temp_folder.h"
#include "unit/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/util/container.h"
#include "model/engine/fingerprint.h"

/* MurmurHash3 x64 128, seed 0: values of the reference implementation. */
TEST(hashes_are_murmur3) {
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

TEST(weights_in_other_files_count) {
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

/* In pieces, as at once: sizes around those of pieces and blocks. */
TEST(a_files_hash_is_that_of_its_bytes) {
    char folder[64], path[256];
    enum { MOST = 3 * 64 * 1024 };
    static uint8_t data[MOST];
    for (size_t i = 0; i < MOST; i++)
        data[i] = (uint8_t)(i * 31 ^ i >> 8);
    static const size_t sizes[] = {0, 1, 15, 16, 17, 65535, 65536, 65537, 131072, 131072 + 16, MOST - 1, MOST};
    temp_folder(folder);
    snprintf(path, sizeof(path), "%s/f", folder);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct fingerprint whole = fingerprint_bytes(data, sizes[i]), pieces;
        file_write(folder, "f", data, sizes[i]);
        assert_int_equal(fingerprint_file(path, &pieces, NULL), 0);
        assert_memory_equal(&whole, &pieces, sizeof(whole));
    }
    folder_remove(folder);
}

static int file_count(void *context, const char *file, struct sy_error *err) {
    *(int *)context += strstr(file, "/weights.bin") != NULL;
    return 0;
}

/* Wherever the name lies, each is found, and once. */
TEST(names_across_pieces_are_found) {
    char folder[64], path[256];
    static const char entry[] = "\x0a\x08location\x12\x0bweights.bin";
    static char data[200 * 1024];
    temp_folder(folder);
    snprintf(path, sizeof(path), "%s/f", folder);
    for (size_t at = 61000; at < 66000; at += 7) {
        int found = 0;
        memset(data, 'x', sizeof(data));
        memcpy(data + at, entry, sizeof(entry) - 1);
        file_write(folder, "f", data, sizeof(data));
        assert_int_equal(model_files_each(path, file_count, &found, NULL), 0);
        if (found != 1)
            fail_msg("a name at %zu was found %d times", at, found);
    }
    folder_remove(folder);
}

struct rewriting {
    char path[256];
    _Atomic bool ends;
};

/* Cuts a file short, and makes it long, again and again. */
static void *file_rewrite(void *argument) {
    struct rewriting *r = argument;
    while (!atomic_load(&r->ends))
        if (truncate(r->path, 0) || truncate(r->path, 4 << 20))
            break;
    return NULL;
}

/* A mapping would end the process. */
TEST(a_file_may_be_cut_short_meanwhile) {
    char folder[64];
    struct rewriting r = {.ends = false};
    pthread_t thread;
    temp_folder(folder);
    snprintf(r.path, sizeof(r.path), "%s/f", folder);
    file_write(folder, "f", "", 0);
    assert_int_equal(pthread_create(&thread, NULL, file_rewrite, &r), 0);
    for (int i = 0, found = 0; i < 50; i++) {
        struct fingerprint fingerprint;
        assert_int_equal(fingerprint_file(r.path, &fingerprint, NULL), 0);
        assert_int_equal(model_files_each(r.path, file_count, &found, NULL), 0);
    }
    atomic_store(&r.ends, true);
    pthread_join(thread, NULL);
    folder_remove(folder);
}
