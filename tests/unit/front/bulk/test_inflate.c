/* test_inflate.c - bodies that zlib made, whole, spoilt, and larger than may be. */
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "core/system/yield.h"
#include "front/bulk/inflate.h"

struct memory {
    void *blocks[2];
    int count, left; /* `left`: how many more are given */
};

static void *memory_take(void *context, size_t bytes) {
    struct memory *memory = context;
    if (memory->left-- == 0)
        return NULL;
    assert_in_range(memory->count, 0, 1);
    return memory->blocks[memory->count++] = malloc(bytes);
}

static void memory_give(void *context, void *block) {
    struct memory *memory = context;
    assert_ptr_equal(block, memory->blocks[0]);
    free(block);
    memory->blocks[0] = memory->blocks[--memory->count];
}

static size_t deflated(const char *data, size_t bytes, bool gzip, unsigned char *out, size_t room) {
    z_stream z = {.next_in = (Bytef *)data, .avail_in = (unsigned)bytes, .next_out = out, .avail_out = (unsigned)room};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, gzip ? 31 : 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static int inflated(enum body_encoding encoding, const unsigned char *data, size_t bytes, size_t bytes_max, int blocks,
                    const char *want, size_t want_bytes) {
    static struct inflater inflater; /* again and again */
    struct memory memory = {.left = blocks};
    struct sy_error err = {""};
    char *out;
    size_t out_bytes;
    int status = inflate_body(&inflater, encoding, data, bytes, bytes_max, 5,
                              (struct block_memory){memory_take, memory_give, &memory}, &out, &out_bytes, &err);
    if (status == 0) {
        assert_int_equal(out_bytes, want_bytes);
        assert_memory_equal(out + 5, want, want_bytes);
    } else {
        assert_string_not_equal(err.text, "");
    }
    while (memory.count > 0)
        free(memory.blocks[--memory.count]);
    return status;
}

TEST(words) {
    assert_int_equal(body_encoding_of("identity", 8), BODY_IDENTITY);
    assert_int_equal(body_encoding_of("gzip", 4), BODY_GZIP);
    assert_int_equal(body_encoding_of("deflate", 7), BODY_DEFLATE);
    assert_int_equal(body_encoding_of("X-Gzip", 6), BODY_GZIP);
    assert_int_equal(body_encoding_of("x-gzi", 5), BODY_UNKNOWN);
    assert_int_equal(body_encoding_of("br", 2), BODY_UNKNOWN);
    assert_int_equal(body_encoding_of("", 0), BODY_UNKNOWN);
}

TEST(bodies) {
    enum { BYTES = 100000 };
    static char data[BYTES];
    static unsigned char packed[BYTES];
    for (int i = 0; i < BYTES; i++)
        data[i] = (char)(i / 1000);
    for (int gzip = 0; gzip < 2; gzip++) {
        enum body_encoding encoding = gzip ? BODY_GZIP : BODY_DEFLATE;
        size_t n = deflated(data, BYTES, gzip, packed, sizeof(packed));
        assert_int_equal(inflated(encoding, packed, n, BYTES, 100, data, BYTES), 0);
        assert_int_equal(inflated(encoding, packed, n, BYTES - 1, 100, NULL, 0), 413);
        assert_int_equal(inflated(encoding, packed, n, BYTES, 1, NULL, 0), 503);
        assert_int_equal(inflated(encoding, packed, n, BYTES, 0, NULL, 0), 503);
        assert_int_equal(inflated(encoding, packed, n - 1, BYTES + 1, 100, NULL, 0), 400);
        assert_int_equal(inflated(encoding, packed, n + 1, BYTES + 1, 100, NULL, 0), 400);
        assert_int_equal(inflated(encoding, packed, 0, BYTES, 100, NULL, 0), 400);
        assert_int_equal(inflated(gzip ? BODY_DEFLATE : BODY_GZIP, packed, n, BYTES, 100, NULL, 0), 400);
        n = deflated(data, 0, gzip, packed, sizeof(packed));
        assert_int_equal(inflated(encoding, packed, n, BYTES, 100, data, 0), 0);
    }
}

/* What cat makes of gzip's files is one, too; of zlib's streams there is one. */
TEST(several_members) {
    enum { BYTES = 20000 };
    static char data[BYTES];
    static unsigned char packed[BYTES];
    for (int i = 0; i < BYTES; i++)
        data[i] = (char)(i * 7 >> 4);
    for (int gzip = 0; gzip < 2; gzip++) {
        size_t n = deflated(data, 5000, gzip, packed, sizeof(packed));
        n += deflated(data, 0, gzip, packed + n, sizeof(packed) - n);
        n += deflated(data + 5000, BYTES - 5000, gzip, packed + n, sizeof(packed) - n);
        assert_int_equal(inflated(gzip ? BODY_GZIP : BODY_DEFLATE, packed, n, BYTES, 100, data, BYTES), gzip ? 0 : 400);
        assert_int_equal(inflated(gzip ? BODY_GZIP : BODY_DEFLATE, packed, n - 1, BYTES + 1, 100, NULL, 0), 400);
        assert_int_equal(inflated(BODY_GZIP, packed, n, BYTES - 1, 100, NULL, 0), gzip ? 413 : 400);
    }
}

static int yields;

static void yielded(void) {
    yields++;
}

/* Little that becomes much is inflated in slices. */
TEST(others_have_their_turn_meanwhile) {
    enum { BYTES = 8 << 20 };
    static char data[BYTES];
    static unsigned char packed[BYTES / 100];
    memset(data, '1', sizeof(data));
    size_t bytes = deflated(data, sizeof(data), true, packed, sizeof(packed));
    yield_here = yielded;
    yields = 0;
    assert_int_equal(inflated(BODY_GZIP, packed, bytes, BYTES, 100, data, BYTES), 0);
    yield_here = NULL;
    assert_true(yields >= BYTES / (256 << 10));
}
