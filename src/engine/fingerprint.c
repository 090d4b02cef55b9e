/* fingerprint.c - MurmurHash3 over files. */
#include "engine/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/protobuf.h"

static inline uint64_t rotate(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

static inline uint64_t mix_final(uint64_t x) {
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ x >> 33;
}

#define C1 0x87c37b91114253d5ULL
#define C2 0x4cf5ad432745937fULL

static inline uint64_t mix_low(uint64_t k) {
    return rotate(k * C1, 31) * C2;
}

static inline uint64_t mix_high(uint64_t k) {
    return rotate(k * C2, 33) * C1;
}

struct fingerprint fingerprint_bytes(const void *data, size_t bytes) {
    const uint8_t *at = data;
    uint64_t low = 0, high = 0, block[2];
    for (size_t left = bytes; left >= sizeof(block); left -= sizeof(block), at += sizeof(block)) {
        memcpy(block, at, sizeof(block));
        low = (rotate(low ^ mix_low(block[0]), 27) + high) * 5 + 0x52dce729;
        high = (rotate(high ^ mix_high(block[1]), 31) + low) * 5 + 0x38495ab5;
    }
    memset(block, 0, sizeof(block));
    memcpy(block, at, bytes % sizeof(block));
    low ^= mix_low(block[0]) ^ bytes;
    high ^= mix_high(block[1]) ^ bytes;
    low += high;
    high += low;
    low = mix_final(low);
    high = mix_final(high);
    low += high;
    return (struct fingerprint){{low, high + low}};
}

void fingerprint_format(const struct fingerprint *fingerprint, char text[FINGERPRINT_TEXT]) {
    snprintf(text, FINGERPRINT_TEXT, "%016llx%016llx", (unsigned long long)fingerprint->words[0],
             (unsigned long long)fingerprint->words[1]);
}

/* Maps a whole file; an empty one gives an empty mapping. */
static int file_map(const char *path, const void **data, size_t *bytes, struct sy_error *err) {
    struct stat st;
    int rc = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    *data = "";
    *bytes = 0;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        rc = error_set(err, -EINVAL, "%s: not a file", path);
    } else if (st.st_size > 0) {
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
            rc = error_set(err, -errno, "%s: %s", path, strerror(errno));
        else
            *data = map;
        *bytes = rc ? 0 : (size_t)st.st_size;
    }
    close(fd);
    return rc;
}

static void file_unmap(const void *data, size_t bytes) {
    if (bytes)
        munmap((void *)data, bytes);
}

int fingerprint_file(const char *path, struct fingerprint *fingerprint, struct sy_error *err) {
    const void *data;
    size_t bytes;
    int rc = file_map(path, &data, &bytes, err);
    if (rc)
        return rc;
    *fingerprint = fingerprint_bytes(data, bytes);
    file_unmap(data, bytes);
    return 0;
}

/* The path of a file as a model names it, relative to its folder. */
static bool weights_path(const char *model_path, const char *name, char path[PATH_MAX]) {
    const char *slash = strrchr(model_path, '/');
    return snprintf(path, PATH_MAX, "%.*s%s", slash ? (int)(slash + 1 - model_path) : 0, model_path, name) < PATH_MAX;
}

int model_files_each(const char *path, int (*each)(void *context, const char *file, struct sy_error *err),
                     void *context, struct sy_error *err) {
    const void *data;
    size_t bytes;
    int rc = file_map(path, &data, &bytes, err);
    if (rc)
        return rc;
    rc = each(context, path, err);
    /* TensorProto.external_data: key "location" (field 1), then its value (field 2), as protobuf writes them. Looking
     * for the bytes instead of parsing the file may find too much. */
    static const char key[] = "\x0a\x08location\x12";
    char last[PATH_MAX] = "";
    const char *at = data, *end = at + bytes;
    while (!rc && (at = memmem(at, (size_t)(end - at), key, sizeof(key) - 1))) {
        char name[PATH_MAX], weights[PATH_MAX];
        at += sizeof(key) - 1;
        struct protobuf_in value = {(const uint8_t *)at, (const uint8_t *)end};
        uint64_t length;
        if (!protobuf_varint(&value, &length) || length == 0 || length >= sizeof(name) ||
            length > (size_t)(value.end - value.at))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)length, (const char *)value.at);
        if (strcmp(name, last) != 0 && weights_path(path, name, weights)) /* one file usually holds every tensor */
            rc = each(context, weights, err);
        strcpy(last, name);
    }
    file_unmap(data, bytes);
    return rc;
}

/* A file that cannot be read counts as empty; loading the model reports it. */
static int fingerprint_add(void *context, const char *file, struct sy_error *err) {
    struct fingerprint *sum = context, parts[2] = {*sum};
    (void)err;
    fingerprint_file(file, &parts[1], NULL);
    *sum = fingerprint_bytes(parts, sizeof(parts));
    return 0;
}

int fingerprint_model(const char *path, struct fingerprint *fingerprint, struct sy_error *err) {
    *fingerprint = (struct fingerprint){{0}};
    return model_files_each(path, fingerprint_add, fingerprint, err);
}

int fingerprint_model_holds(const char *path, const char *text) {
    struct fingerprint now;
    char now_text[FINGERPRINT_TEXT];
    int rc = fingerprint_model(path, &now, NULL);
    if (rc)
        return rc;
    fingerprint_format(&now, now_text);
    return strcmp(now_text, text) == 0;
}
