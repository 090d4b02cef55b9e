/* test_reply.c - framing of HTTP responses, cut at every place. */
#include "unit/test.h"

#include <string.h>

#include "core/util/container.h"
#include "core/util/rng.h"
#include "lab/load/reply.h"

struct body {
    char bytes[4096];
    size_t length;
};

static void body_append(void *context, const char *bytes, size_t length) {
    struct body *b = context;
    assert_true(b->length + length <= sizeof(b->bytes));
    memcpy(b->bytes + b->length, bytes, length);
    b->length += length;
}

struct example {
    const char *bytes;
    enum reply_state state;
    int status;
    const char *body;
    bool keep_alive, closes; /* closes: the peer hangs up after the bytes */
    size_t left_over;        /* bytes that belong to the next response */
};

static const struct example examples[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", REPLY_DONE, 200, "hello", true, false, 0},
    {"HTTP/1.1 200 OK\r\ncontent-length:5 \r\n\r\nhelloHTTP", REPLY_DONE, 200, "hello", true, false, 4},
    {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", REPLY_DONE, 200, "", true, false, 0},
    {"\r\nHTTP/1.1 200 OK\nContent-Length: 2\n\nab", REPLY_DONE, 200, "ab", true, false, 0},
    {"HTTP/1.1 503 No\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nab", REPLY_DONE, 503, "ab", false, false, 0},
    {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", REPLY_DONE, 200, "ab", false, false, 0},
    {"HTTP/1.0 200 OK\r\nConnection: foo, Keep-Alive\r\nContent-Length: 2\r\n\r\nab", REPLY_DONE, 200, "ab", true,
     false, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", REPLY_DONE,
     200, "Wiki0123456789", true, false, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\nT: 1\r\n\r\nHT", REPLY_DONE, 200, "x",
     true, false, 2},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 Bad\r\nContent-Length: 1\r\n\r\n!", REPLY_DONE, 400, "!", true, false,
     0},
    {"HTTP/1.1 204 None\r\n\r\n", REPLY_DONE, 204, "", true, false, 0},
    {"HTTP/1.1 200 OK\r\n\r\nuntil the end", REPLY_DONE, 200, "until the end", false, true, 0},
    /* cut short */
    {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", REPLY_COMING, 200, "hello", true, true, 0},
    {"HTTP/1.1 200 OK\r\nContent-Le", REPLY_COMING, 0, "", false, true, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n", REPLY_COMING, 200, "Wiki", true, true, 0},
    /* not HTTP/1 */
    {"SSH-2.0-OpenSSH\r\n", REPLY_BROKEN, 0, "", true, false, 0},
    {"HTTP/2 200\r\n\r\n", REPLY_BROKEN, 0, "", true, false, 0},
    {"HTTP/1.1 2x0 OK\r\n\r\n", REPLY_BROKEN, 0, "", true, false, 0},
    {"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", REPLY_BROKEN, 200, "", true, false, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", REPLY_BROKEN, 200, "", true, false, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", REPLY_BROKEN, 200, "", true, false, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", REPLY_BROKEN, 200, "", true, false, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", REPLY_BROKEN, 200, "", true, false, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", REPLY_BROKEN, 200, "", true, false,
     0},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", REPLY_BROKEN, 200, "", true, false, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", REPLY_BROKEN, 200, "", true, false, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n", REPLY_BROKEN, 200, "x", true, false, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", REPLY_BROKEN, 200, "", true, false, 0},
};

/* Feeds the example in pieces; piece i is as long as `piece` says. */
static void example_feed(const struct example *e, size_t (*piece)(void *), void *context) {
    struct body body = {.length = 0};
    struct reply r = {.sink = body_append, .sink_context = &body};
    size_t length = strlen(e->bytes), at = 0;
    reply_init(&r);
    while (at < length && r.state < REPLY_DONE) {
        size_t size = piece(context);
        size = size < length - at ? size : length - at;
        size_t taken = reply_feed(&r, e->bytes + at, size);
        assert_true(taken == size || r.state >= REPLY_DONE);
        at += taken;
    }
    if (e->closes)
        assert_int_equal(reply_end(&r), e->state == REPLY_DONE);
    assert_int_equal(r.state, e->state);
    assert_int_equal(body.length, strlen(e->body));
    assert_memory_equal(body.bytes, e->body, body.length);
    if (e->state == REPLY_BROKEN)
        return;
    assert_int_equal(length - at, e->left_over);
    assert_int_equal(r.status, e->status);
    assert_int_equal(r.keep_alive, e->keep_alive);
    if (e->status >= 400) { /* the start of a mistake's text is kept */
        assert_int_equal(r.text_length, strlen(e->body));
        assert_memory_equal(r.text, e->body, r.text_length);
    }
}

static size_t piece_fixed(void *context) {
    return *(size_t *)context;
}

static size_t piece_random(void *context) {
    return 1 + rng_below(context, 20);
}

TEST(examples_come_out_the_same_however_cut) {
    struct rng rng;
    rng_seed(&rng, 11);
    for (size_t i = 0; i < ARRAY_COUNT(examples); i++) {
        for (size_t size = 1; size <= 200; size++)
            example_feed(&examples[i], piece_fixed, &size);
        for (int n = 0; n < 200; n++)
            example_feed(&examples[i], piece_random, &rng);
    }
}

TEST(a_reply_can_be_used_again) {
    static const char bytes[] =
        "HTTP/1.1 503 No\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbadHTTP/1.1 200 OK\r\n"
        "Content-Length: 2\r\n\r\nok";
    struct reply r = {.sink = NULL};
    reply_init(&r);
    size_t taken = reply_feed(&r, bytes, sizeof(bytes) - 1);
    assert_int_equal(r.status, 503);
    reply_init(&r);
    taken += reply_feed(&r, bytes + taken, sizeof(bytes) - 1 - taken);
    assert_int_equal(r.state, REPLY_DONE);
    assert_int_equal(r.status, 200);
    assert_true(r.keep_alive);
    assert_int_equal(taken, sizeof(bytes) - 1);
}

TEST(long_lines_pass_and_endless_headers_do_not) {
    static const char head[] = "HTTP/1.1 200 OK\r\nX: ", tail[] = "\r\nContent-Length: 1\r\n\r\n!";
    char filler[1000];
    memset(filler, 'x', sizeof(filler));
    struct reply r = {.sink = NULL};
    reply_init(&r);
    reply_feed(&r, head, sizeof(head) - 1);
    for (int i = 0; i < 20; i++)
        reply_feed(&r, filler, sizeof(filler));
    reply_feed(&r, tail, sizeof(tail) - 1);
    assert_int_equal(r.state, REPLY_DONE);

    reply_init(&r);
    reply_feed(&r, head, sizeof(head) - 1);
    for (int i = 0; i < 70 && r.state == REPLY_COMING; i++)
        reply_feed(&r, filler, sizeof(filler));
    assert_int_equal(r.state, REPLY_BROKEN);
}

/* 10 MB in small chunks: their size lines must not count against the limit of the headers. */
TEST(many_chunks_pass) {
    static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk[] = "8\r\n01234567\r\n";
    struct reply r = {.sink = NULL};
    reply_init(&r);
    reply_feed(&r, head, sizeof(head) - 1);
    for (int i = 0; i < 100000; i++)
        reply_feed(&r, chunk, sizeof(chunk) - 1);
    assert_int_equal(r.state, REPLY_COMING);
    reply_feed(&r, "0\r\n\r\n", 5);
    assert_int_equal(r.state, REPLY_DONE);
}
