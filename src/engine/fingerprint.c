/* fingerprint.c - MurmurHash3 over files. */
#include "engine/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Adds the file `name` (as a model writes it, relative to its folder) to a fingerprint. One that cannot be read adds
 * its name alone: loading the model is what complains about it. */
static void weights_add(const char *model_path, const char *name, struct fingerprint *fingerprint) {
    char path[PATH_MAX];
    const char *slash = strrchr(model_path, '/');
    struct fingerprint parts[3] = {*fingerprint, fingerprint_bytes(name, strlen(name))};
    int length = snprintf(path, sizeof(path), "%.*s%s", slash ? (int)(slash + 1 - model_path) : 0, model_path, name);
    if (length < (int)sizeof(path))
        fingerprint_file(path, &parts[2], NULL);
    *fingerprint = fingerprint_bytes(parts, sizeof(parts));
}

int fingerprint_model(const char *path, struct fingerprint *fingerprint, struct sy_error *err) {
    const void *data;
    size_t bytes;
    int rc = file_map(path, &data, &bytes, err);
    if (rc)
        return rc;
    *fingerprint = fingerprint_bytes(data, bytes);
    /* TensorProto.external_data: key "location" (field 1), then its value (field 2), as protobuf writes them. Looking
     * for the bytes instead of parsing the file can only find too much, never too little. */
    static const char key[] = "\x0a\x08location\x12";
    char last[256] = "";
    const char *at = data, *end = at + bytes;
    while ((at = memmem(at, (size_t)(end - at), key, sizeof(key) - 1))) {
        at += sizeof(key) - 1;
        size_t length = at < end ? (unsigned char)*at : 0;
        if (length == 0 || length > 127 || at + 1 + length > end)
            continue;
        char name[128];
        snprintf(name, sizeof(name), "%.*s", (int)length, at + 1);
        if (strcmp(name, last) != 0) /* one file usually holds every tensor */
            weights_add(path, name, fingerprint);
        strcpy(last, name);
    }
    file_unmap(data, bytes);
    return 0;
}
