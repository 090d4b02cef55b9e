/* test_request_id.c - which text becomes a request's id. */
#include "unit/test.h"

#include <string.h>

#include "core/util/container.h"
#include "front/request/request_id.h"

#define LONG16 "0123456789abcdef"

TEST(a_text_that_a_header_can_have_is_an_id) {
    static const struct {
        const char *text, *id;
    } rows[] = {
        {"abc-1/2:3", "abc-1/2:3"},
        {"", ""},
        {"two words", ""},
        {"a\r\nb: c", ""},
        {"gr\xc3\xbc\xc3\x9f", ""},
        {"\x7f", ""},
        {"\\u00fc", ""},
        {LONG16 LONG16 LONG16 LONG16 "more", LONG16 LONG16 LONG16 LONG16},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
        struct request_id id = {.length = 0};
        request_id_set(&id, rows[i].text, strlen(rows[i].text));
        assert_int_equal(id.length, strlen(rows[i].id));
        assert_memory_equal(id.text, rows[i].id, id.length);
    }
}

TEST(the_first_id_stays) {
    struct request_id id = {.length = 0};
    request_id_set(&id, "first", 5);
    request_id_set(&id, "second", 6);
    request_id_make(&id, 7);
    assert_int_equal(id.length, 5);
    assert_memory_equal(id.text, "first", 5);
}

TEST(a_trace_has_an_id) {
    static const char trace[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    struct request_id id = {.length = 0};
    request_id_from_trace(&id, "00-4bf92f3577b34da6a3ce929d0e0e4736", 35);
    assert_int_equal(id.length, 0);
    request_id_from_trace(&id, trace, strlen(trace));
    assert_int_equal(id.length, 32);
    assert_memory_equal(id.text, "4bf92f3577b34da6a3ce929d0e0e4736", 32);
    assert_int_equal(id.trace.flags, TRACE_GIVEN | TRACE_SAMPLED);
    assert_memory_equal(id.trace.trace, "\x4b\xf9\x2f\x35\x77\xb3\x4d\xa6\xa3\xce\x92\x9d\x0e\x0e\x47\x36", 16);
    assert_memory_equal(id.trace.parent, "\x00\xf0\x67\xaa\x0b\xa9\x02\xb7", 8);
}

/* By the rules of W3C Trace Context, 3.2.2. */
TEST(a_context_is_read) {
    static const struct {
        const char *header;
        uint8_t flags;
    } cases[] = {
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", TRACE_GIVEN},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", TRACE_GIVEN | TRACE_SAMPLED},
        {"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", TRACE_GIVEN | TRACE_SAMPLED},
        {"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", TRACE_GIVEN | TRACE_SAMPLED},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", 0},
        {"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more", 0},
        {"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 0},
        {"00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 0},
        {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", 0},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", 0},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g", 0},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0", 0},
        {"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 0},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct request_id id = {.length = 0};
        request_id_from_trace(&id, cases[i].header, strlen(cases[i].header));
        assert_int_equal(id.trace.flags, cases[i].flags);
        assert_int_equal(id.length, cases[i].flags ? 32 : 0);
    }
}

TEST(made_ids_differ) {
    struct request_id before = {.length = 0};
    for (uint64_t n = 0; n < 1000; n++) {
        struct request_id id = {.length = 0};
        request_id_make(&id, n);
        assert_int_equal(id.length, 16);
        assert_memory_not_equal(id.text, before.text, 16);
        before = id;
    }
}
