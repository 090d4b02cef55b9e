/* fingerprint.c - MurmurHash3 over files. */
#include "model/engine/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/files.h"
#include "core/util/protobuf.h"

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

/* The state of a hash after some whole blocks. */
struct hashing {
    uint64_t low, high;
};

#define BLOCK_BYTES 16

/* Hashes whole blocks; `bytes` is a multiple of BLOCK_BYTES. */
static void blocks_hash(struct hashing *h, const void *data, size_t bytes) {
    const uint8_t *at = data;
    uint64_t low = h->low, high = h->high, block[2];
    for (size_t left = bytes; left > 0; left -= sizeof(block), at += sizeof(block)) {
        memcpy(block, at, sizeof(block));
        low = (rotate(low ^ mix_low(block[0]), 27) + high) * 5 + 0x52dce729;
        high = (rotate(high ^ mix_high(block[1]), 31) + low) * 5 + 0x38495ab5;
    }
    h->low = low;
    h->high = high;
}

/* Adds the last bytes, which are less than a block, and ends the hash. bytes_all: number of all bytes. */
static struct fingerprint hash_end(const struct hashing *h, const void *rest, size_t bytes_all) {
    uint64_t low = h->low, high = h->high, block[2] = {0};
    memcpy(block, rest, bytes_all % BLOCK_BYTES);
    low ^= mix_low(block[0]) ^ bytes_all;
    high ^= mix_high(block[1]) ^ bytes_all;
    low += high;
    high += low;
    low = mix_final(low);
    high = mix_final(high);
    low += high;
    return (struct fingerprint){{low, high + low}};
}

struct fingerprint fingerprint_bytes(const void *data, size_t bytes) {
    struct hashing h = {0};
    size_t whole = bytes / BLOCK_BYTES * BLOCK_BYTES;
    blocks_hash(&h, data, whole);
    return hash_end(&h, (const uint8_t *)data + whole, bytes);
}

void fingerprint_format(const struct fingerprint *fingerprint, char text[FINGERPRINT_TEXT]) {
    snprintf(text, FINGERPRINT_TEXT, "%016llx%016llx", (unsigned long long)fingerprint->words[0],
             (unsigned long long)fingerprint->words[1]);
}

/* Bytes of a piece in which files are read. */
#define PIECE_BYTES (64 * 1024)

static int file_open(const char *path, struct sy_error *err) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* the open does not wait for the writer of a FIFO */
    if (fd < 0)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return error_set(err, -EINVAL, "%s: not a file", path);
    }
    return fd;
}

/* Reads `bytes` bytes, or up to the file's end. Returns how many, or -errno with a sentence. */
static ssize_t piece_read(int fd, const char *path, void *piece, size_t bytes, struct sy_error *err) {
    ssize_t got = files_read(fd, piece, bytes);
    return got < 0 ? error_set(err, (int)got, "%s: %s", path, strerror((int)-got)) : got;
}

int fingerprint_file(const char *path, struct fingerprint *fingerprint, struct sy_error *err) {
    uint8_t piece[PIECE_BYTES];
    struct hashing h = {0};
    size_t all = 0, whole;
    ssize_t got;
    int fd = file_open(path, err);
    if (fd < 0)
        return fd;
    do {
        got = piece_read(fd, path, piece, sizeof(piece), err);
        whole = got > 0 ? (size_t)got / BLOCK_BYTES * BLOCK_BYTES : 0;
        blocks_hash(&h, piece, whole);
        all += got > 0 ? (size_t)got : 0;
    } while (got == sizeof(piece));
    close(fd);
    if (got >= 0)
        *fingerprint = hash_end(&h, piece + whole, all);
    return got < 0 ? (int)got : 0;
}

/* The key of an entry of TensorProto.external_data: "location" (field 1), which its value (field 2) follows, as
 * protobuf writes them. The search looks for these bytes and does not parse the file, so it may find too much. */
static const char location[] = "\x0a\x08location\x12";
#define LOCATION_BYTES (sizeof(location) - 1)
#define ENTRY_BYTES    (LOCATION_BYTES + 10 + PATH_MAX) /* most bytes of an entry, with the value and its length */

/* A search for names of files of weights in a model's file. */
struct names {
    const char *path;
    int (*each)(void *context, const char *file, struct sy_error *err);
    void *context;
    char last[PATH_MAX];
};

/* Takes the name that begins at `at`, behind a key. */
static int name_take(struct names *n, const char *at, const char *end, struct sy_error *err) {
    char name[PATH_MAX], weights[PATH_MAX];
    struct protobuf_in value = {(const uint8_t *)at, (const uint8_t *)end};
    uint64_t length;
    int rc = 0;
    if (!protobuf_varint(&value, &length) || length == 0 || length >= sizeof(name) ||
        length > (size_t)(value.end - value.at))
        return 0;
    snprintf(name, sizeof(name), "%.*s", (int)length, (const char *)value.at);
    if (strcmp(name, n->last) != 0) { /* one file usually holds every tensor */
        const char *slash = strrchr(n->path, '/');
        int folder = slash ? (int)(slash + 1 - n->path) : 0; /* names of files are relative to it */
        if (snprintf(weights, sizeof(weights), "%.*s%s", folder, n->path, name) < (int)sizeof(weights))
            rc = n->each(n->context, weights, err);
    }
    strcpy(n->last, name);
    return rc;
}

int model_files_each(const char *path, int (*each)(void *context, const char *file, struct sy_error *err),
                     void *context, struct sy_error *err) {
    struct names names = {.path = path, .each = each, .context = context};
    char piece[PIECE_BYTES];
    size_t have = 0;
    ssize_t got = 0;
    int rc, fd = file_open(path, err);
    if (fd < 0)
        return fd;
    rc = each(context, path, err);
    do {
        if (!rc)
            got = piece_read(fd, path, piece + have, sizeof(piece) - have, err);
        if (rc || got < 0)
            break;
        have += (size_t)got;
        bool last = have < sizeof(piece);
        /* a key that begins in a piece's last bytes is found with the next piece, which has what follows */
        const char *end = piece + have, *until = last ? end : end - ENTRY_BYTES, *at = piece;
        while (!rc && (at = memmem(at, (size_t)(end - at), location, LOCATION_BYTES)) && at < until) {
            at += LOCATION_BYTES;
            rc = name_take(&names, at, end, err);
        }
        have = last ? 0 : ENTRY_BYTES;
        memmove(piece, end - have, have);
    } while (!rc && have > 0);
    close(fd);
    return rc ? rc : got < 0 ? (int)got : 0;
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
