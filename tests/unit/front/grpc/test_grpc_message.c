/* test_grpc_message.c - messages taken apart in pieces of every size. */
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/protobuf.h"
#include "front/grpc/grpc_message.h"

struct memory {
    void *blocks[4 + TENSORS_MAX];
    int count, most;
    size_t bytes;
    size_t bytes_max; /* more is refused */
};

static void *memory_take(void *context, size_t bytes) {
    struct memory *memory = context;
    void *block = NULL;
    if (memory->bytes + bytes > memory->bytes_max)
        return NULL;
    assert_int_equal(posix_memalign(&block, 64, bytes ? bytes : 1), 0);
    memory->bytes += bytes;
    memory->blocks[memory->count++] = block;
    memory->most = memory->count > memory->most ? memory->count : memory->most;
    assert_in_range(memory->count, 1, 4 + TENSORS_MAX);
    return block;
}

static void memory_give(void *context, void *block) {
    struct memory *memory = context;
    for (int i = 0; i < memory->count; i++)
        if (memory->blocks[i] == block) {
            memory->blocks[i] = memory->blocks[--memory->count];
            free(block);
            return;
        }
    fail_msg("a block given twice");
}

static void memory_free(struct memory *memory) {
    while (memory->count > 0)
        free(memory->blocks[--memory->count]);
}

/* A message with its prefix. */
static struct text begin(void) {
    struct text text = {0};
    text_append(&text, "\0\0\0\0\0", GRPC_PREFIX_BYTES);
    return text;
}

static void end(struct text *text) {
    uint32_t length = __builtin_bswap32((uint32_t)(text->length - GRPC_PREFIX_BYTES));
    memcpy(text->data + 1, &length, sizeof(length));
}

static void raw_put(struct text *text, size_t bytes, char first) {
    char *data = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)(first + (char)i);
    protobuf_put_bytes(text, GRPC_RAW_INPUTS_NUMBER, data, bytes);
    free(data);
}

static void raw_check(const struct grpc_raw *raw, size_t bytes, char first) {
    assert_int_equal(raw->bytes, bytes);
    assert_int_equal((uintptr_t)raw->data % 64, 0);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(raw->data[i], (char)(first + (char)i));
}

/* Feeds it in pieces of `step`; every piece is a block of its own, so that a step beyond is seen. */
static int feed(struct grpc_message *m, const struct text *text, size_t step) {
    for (size_t at = 0, taken; at < text->length; at += taken) {
        size_t n = text->length - at < step ? text->length - at : step;
        char *piece = malloc(n);
        struct sy_error err = {""};
        memcpy(piece, text->data + at, n);
        int status = grpc_message_feed(m, piece, n, &taken, &err);
        free(piece);
        if (status) {
            assert_string_not_equal(err.text, "");
            return status;
        }
        if (m->state == GRPC_COMPLETE)
            return at + taken == text->length ? 0 : -1;
        assert_int_equal(taken, n);
    }
    return -2; /* incomplete */
}

static const size_t steps[] = {1, 2, 3, 7, 64, 4096, 65536, SIZE_MAX};

TEST(raw_inputs_lie_apart) {
    struct text text = begin();
    protobuf_put_bytes(&text, 1, "model", 5);
    raw_put(&text, 24, 'a');
    raw_put(&text, 0, 0);
    raw_put(&text, 1000, 'b');
    protobuf_put_tag(&text, 9, PROTOBUF_VARINT);
    protobuf_put_varint(&text, 1u << 30);
    protobuf_put_bytes(&text, 3, "id", 2); /* behind a raw input: the head moves */
    end(&text);
    for (size_t s = 0; s < ARRAY_COUNT(steps); s++) {
        struct memory memory = {.bytes_max = SIZE_MAX};
        struct grpc_message m;
        grpc_message_begin(&m, true, 1 << 20, (struct block_memory){memory_take, memory_give, &memory});
        assert_int_equal(feed(&m, &text, steps[s]), 0);
        assert_int_equal(m.raw_count, 3);
        raw_check(&m.raws[0], 24, 'a');
        raw_check(&m.raws[1], 0, 0);
        raw_check(&m.raws[2], 1000, 'b');
        assert_int_equal(m.head_bytes, 7 + 2 + 2 + 3 + 6 + 4);
        assert_memory_equal(m.head + 2, "model", 5);
        assert_memory_equal(m.head + m.head_bytes - 2, "id", 2);
        memory_free(&memory);
    }
    text_free(&text);
}

/* With as many raw inputs as most models have; more may take further blocks. */
TEST(a_small_message_has_one_block) {
    struct text text = begin();
    struct memory memory = {.bytes_max = SIZE_MAX};
    struct grpc_message m;
    protobuf_put_bytes(&text, 1, "model", 5);
    for (int i = 0; i < GRPC_FEW_RAWS; i++)
        raw_put(&text, 65, (char)i);
    end(&text);
    grpc_message_begin(&m, true, 1 << 20, (struct block_memory){memory_take, memory_give, &memory});
    assert_int_equal(feed(&m, &text, 100), 0);
    assert_int_equal(memory.most, 1);
    for (int i = 0; i < GRPC_FEW_RAWS; i++)
        raw_check(&m.raws[i], 65, (char)i);
    memory_free(&memory);
    text_free(&text);
}

TEST(a_message_may_have_many_raw_inputs) {
    struct text text = begin();
    struct memory memory = {.bytes_max = SIZE_MAX};
    struct grpc_message m;
    protobuf_put_bytes(&text, 1, "model", 5);
    for (int i = 0; i < TENSORS_MAX; i++)
        raw_put(&text, 65, (char)i);
    end(&text);
    grpc_message_begin(&m, true, 1 << 20, (struct block_memory){memory_take, memory_give, &memory});
    assert_int_equal(feed(&m, &text, 100), 0);
    assert_int_equal(m.raw_count, TENSORS_MAX);
    for (int i = 0; i < TENSORS_MAX; i++)
        raw_check(&m.raws[i], 65, (char)i);
    memory_free(&memory);
    text_free(&text);
}

TEST(large_parts_take_memory_as_they_come) {
    struct text text = begin();
    char *words = calloc(1, 300000);
    protobuf_put_bytes(&text, 2, words, 300000);
    raw_put(&text, 3000000, 'r');
    raw_put(&text, 70000, 's');
    end(&text);
    for (size_t s = 4; s < ARRAY_COUNT(steps); s++) {
        struct memory memory = {.bytes_max = SIZE_MAX};
        struct grpc_message m;
        size_t taken;
        grpc_message_begin(&m, true, 4 << 20, (struct block_memory){memory_take, memory_give, &memory});
        assert_int_equal(grpc_message_feed(&m, text.data, GRPC_PREFIX_BYTES, &taken, NULL), 0);
        assert_in_range(memory.bytes, 1, 128 * 1024); /* 3 MB are announced */
        memory_free(&memory);
        memory = (struct memory){.bytes_max = SIZE_MAX};
        grpc_message_begin(&m, true, 4 << 20, (struct block_memory){memory_take, memory_give, &memory});
        assert_int_equal(feed(&m, &text, steps[s]), 0);
        raw_check(&m.raws[0], 3000000, 'r');
        raw_check(&m.raws[1], 70000, 's');
        assert_int_equal(m.head_bytes, 300004 + 5 + 4);
        memory_free(&memory);
    }
    free(words);
    text_free(&text);
}

TEST(other_messages_are_all_head) {
    struct text text = begin();
    text_put(&text, "\x3a\x05 no protobuf");
    for (int compressed = 0; compressed < 2; compressed++) {
        struct memory memory = {.bytes_max = SIZE_MAX};
        struct grpc_message m;
        end(&text);
        text.data[0] = (char)compressed;
        grpc_message_begin(&m, compressed == 1, 1 << 20, (struct block_memory){memory_take, memory_give, &memory});
        assert_int_equal(feed(&m, &text, 3), 0);
        assert_int_equal(m.compressed, compressed);
        assert_int_equal(m.head_bytes, 14);
        assert_int_equal(m.raw_count, 0);
        memory_free(&memory);
    }
    text_free(&text);
}

TEST(mistakes) {
    static const struct {
        const char *bytes;
        size_t length;
        size_t bytes_max, memory_max;
        int status;
    } cases[] = {
        {"\2\0\0\0\1x", 6, 100, 1000, 400},         /* flags */
        {"\0\0\0\0\x65", 5, 100, 10000, 413},       /* too long */
        {"\0\xff\xff\xff\xff", 5, 100, 10000, 413}, /* 4 GiB */
        {"\0\0\0\0\x10", 5, 100, 8, 503},           /* no memory */
        {"\0\0\0\0\0", 5, 100, 10000, 0},           /* empty: a message without fields */
        {"\0\0\0\0\2\x0a\x05", 7, 100, 10000, 400}, /* a field longer than the message */
        {"\0\0\0\0\1\x0a", 6, 100, 10000, 400},     /* no length */
        {"\0\0\0\0\1\x08", 6, 100, 10000, 400},     /* no value */
        {"\0\0\0\0\3\x0d\0\0", 8, 100, 10000, 400}, /* a short 32-bit value */
        {"\0\0\0\0\2\x0b\x0c", 7, 100, 10000, 400}, /* a group */
        {"\0\0\0\0\2\x02\x00", 7, 100, 10000, 400}, /* field 0 */
        {"\0\0\0\0\2\x80\x80", 7, 100, 10000, 400}, /* a tag without an end */
        {"\0\0\0\0\x0c\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 17, 100, 10000, 400}, /* 11 bytes of a number */
        {"\0\0\0\0\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 16, 100, 10000, 0},
        {"\0\0\0\0\5\x3a", 6, 100, 10000, -2}, /* there is more to come */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        for (size_t s = 0; s < ARRAY_COUNT(steps); s++) {
            struct memory memory = {.bytes_max = cases[i].memory_max};
            struct text text = {.data = (char *)cases[i].bytes, .length = cases[i].length};
            struct grpc_message m;
            grpc_message_begin(&m, true, cases[i].bytes_max, (struct block_memory){memory_take, memory_give, &memory});
            int status = feed(&m, &text, steps[s]);
            if (status != cases[i].status)
                fail_msg("case %zu in steps of %zu: %d, not %d", i, steps[s], status, cases[i].status);
            memory_free(&memory);
        }
}

TEST(too_many_raw_inputs) {
    struct text text = begin();
    struct memory memory = {.bytes_max = SIZE_MAX};
    struct grpc_message m;
    for (int i = 0; i <= TENSORS_MAX; i++)
        raw_put(&text, 1, 0);
    end(&text);
    grpc_message_begin(&m, true, 1000, (struct block_memory){memory_take, memory_give, &memory});
    assert_int_equal(feed(&m, &text, 10), 400);
    memory_free(&memory);
    text_free(&text);
}
