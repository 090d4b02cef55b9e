/* test_deflate.c - what clients accept, and answers that come out as they went in. */
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "core/system/yield.h"
#include "core/util/container.h"
#include "front/bulk/deflate.h"

TEST(the_greatest_weight_wins) {
    static const struct {
        const char *list;
        enum body_encoding want;
    } cases[] = {
        {"", BODY_IDENTITY},
        {"gzip", BODY_GZIP},
        {"GZip", BODY_GZIP},
        {"deflate", BODY_DEFLATE},
        {"deflate, gzip", BODY_GZIP},
        {"identity,deflate,gzip", BODY_GZIP},
        {"identity, deflate", BODY_DEFLATE},
        {"br, zstd", BODY_IDENTITY},
        {"*", BODY_IDENTITY},
        {"gzip;q=0", BODY_IDENTITY},
        {"gzip;q=0.0, deflate;q=0.001", BODY_DEFLATE},
        {"gzip;q=0.5, deflate;q=0.8", BODY_DEFLATE},
        {"gzip ; q=0.5 , identity", BODY_IDENTITY},
        {"gzip;q=0.5,identity;q=0.5", BODY_GZIP},
        {"gzip;q=1.000;x", BODY_GZIP},
        {"gzip;Q=0.1, deflate;q=.2", BODY_DEFLATE},
        {"x-gzi, gzip2, gzi", BODY_IDENTITY},
        {"x-gzip", BODY_GZIP},
        {",, ,", BODY_IDENTITY},
        {"gzip;q=", BODY_IDENTITY},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        size_t length = strlen(cases[i].list);
        char *copy = malloc(length ? length : 1); /* a step beyond is seen */
        memcpy(copy, cases[i].list, length);
        if (accepted_encoding(copy, length) != cases[i].want)
            fail_msg("'%s' is not %d", cases[i].list, cases[i].want);
        free(copy);
    }
}

/* An answer of three pieces, the second of them empty. */
static void answer_of(struct infer_answer *answer, char *data, size_t bytes) {
    *answer = (struct infer_answer){.bytes = bytes, .piece_count = 3};
    answer->pieces[0] = (struct iovec){data, bytes / 3};
    answer->pieces[1] = (struct iovec){data, 0};
    answer->pieces[2] = (struct iovec){data + bytes / 3, bytes - bytes / 3};
}

TEST(answers_come_back_as_they_were) {
    enum { BYTES = 100000 };
    static char data[BYTES], out[BYTES];
    struct deflater deflater;
    deflater_init(&deflater, 1);
    for (uint32_t i = 0; i < BYTES; i++)
        data[i] = (char)(i * i >> 8);
    for (int round = 0; round < 12; round++) {
        enum body_encoding encoding = round % 2 ? BODY_GZIP : BODY_DEFLATE;
        size_t lead = round % 3 ? 5 : 0;
        struct infer_answer answer;
        struct text packed = {0};
        answer_of(&answer, data, BYTES);
        assert_true(answer_deflate(&deflater, encoding, lead, &answer, &packed));
        assert_int_equal(answer.piece_count, 1);
        assert_ptr_equal(answer.pieces[0].iov_base, packed.data);
        assert_int_equal(answer.pieces[0].iov_len, answer.bytes);
        assert_true(answer.bytes < BYTES);
        assert_memory_equal(packed.data, data, lead);
        z_stream z = {.next_in = (Bytef *)packed.data + lead,
                      .avail_in = (unsigned)(answer.bytes - lead),
                      .next_out = (Bytef *)out,
                      .avail_out = BYTES};
        assert_int_equal(inflateInit2(&z, 15 + (encoding == BODY_GZIP ? 16 : 0)), Z_OK);
        assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
        assert_int_equal(z.total_out, BYTES - lead);
        assert_memory_equal(out, data + lead, BYTES - lead);
        inflateEnd(&z);
        text_free(&packed);
    }
    deflater_destroy(&deflater);
}

TEST(what_does_not_pay_stays) {
    static char data[10000];
    struct deflater deflater, off;
    struct infer_answer answer;
    struct text packed = {0};
    deflater_init(&deflater, 1);
    deflater_init(&off, 0);
    uint32_t noise = 1;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)((noise = noise * 1664525 + 1013904223) >> 24);
    answer_of(&answer, data, sizeof(data)); /* no shorter compressed */
    assert_false(answer_deflate(&deflater, BODY_GZIP, 0, &answer, &packed));
    memset(data, 0, sizeof(data));
    assert_false(answer_deflate(&deflater, BODY_IDENTITY, 0, &answer, &packed));
    assert_false(answer_deflate(&off, BODY_GZIP, 0, &answer, &packed));
    assert_int_equal(answer.piece_count, 3);
    assert_int_equal(packed.length, 0);
    answer_of(&answer, data, DEFLATE_BYTES_MIN - 1);
    assert_false(answer_deflate(&deflater, BODY_GZIP, 0, &answer, &packed));
    answer_of(&answer, data, DEFLATE_BYTES_MIN);
    assert_true(answer_deflate(&deflater, BODY_GZIP, 0, &answer, &packed));
    text_free(&packed);
    deflater_destroy(&deflater);
    deflater_destroy(&off);
}

static int yields;

static void yielded(void) {
    yields++;
}

TEST(others_have_their_turn_meanwhile) {
    enum { BYTES = 1 << 20 };
    static char data[BYTES];
    struct deflater deflater;
    struct infer_answer answer;
    struct text packed = {0};
    deflater_init(&deflater, 1);
    answer_of(&answer, data, sizeof(data));
    yield_here = yielded;
    yields = 0;
    assert_true(answer_deflate(&deflater, BODY_GZIP, 0, &answer, &packed));
    yield_here = NULL;
    assert_true(yields >= BYTES / (32 << 10));
    text_free(&packed);
    deflater_destroy(&deflater);
}
