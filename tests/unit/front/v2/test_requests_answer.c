/* test_requests_answer.c - queries for trails, and trails as JSON. */
#include "unit/test.h"

#include <jansson.h>
#include <string.h>

#include "core/util/container.h"
#include "front/v2/requests_answer.h"

static int read_query(struct requests_query *query, const char *text) {
    struct sy_error err;
    return requests_query_read(query, text, strlen(text), &err);
}

TEST(queries_are_read) {
    struct requests_query query;
    assert_int_equal(read_query(&query, ""), 0);
    assert_int_equal(query.states, (1u << TRAIL_STATES) - 1);
    assert_int_equal(query.limit, REQUESTS_LIMIT);
    assert_int_equal(read_query(&query, "model=a%2Fb+c&state=late&id=x%31&limit=7"), 0);
    assert_string_equal(query.model, "a/b c");
    assert_int_equal(query.states, 1u << TRAIL_LATE);
    assert_int_equal(query.limit, 7);
    assert_int_equal(query.id_length, 2);
    assert_memory_equal(query.id, "x1", 2);
    assert_int_equal(read_query(&query, "model=&state=&id=&limit="), 0); /* as a form sends what was left empty */
    assert_int_equal(read_query(&query, "state=slow"), 0);
    assert_true(query.slow);
    static const char *const wrong[] = {"state=lost", "limit=0",  "limit=99999999999",
                                        "limit=1x",   "models=m", "limit=-1"};
    for (unsigned i = 0; i < ARRAY_COUNT(wrong); i++)
        assert_int_equal(read_query(&query, wrong[i]), 400);
}

TEST(queries_choose) {
    const struct trail trail = {.state = TRAIL_LATE, .id = "abc", .id_length = 3};
    static const struct {
        const char *query, *model;
        bool wants;
    } rows[] = {
        {"", "m", true},         {"", NULL, true},          {"model=m", "m", true},
        {"model=m", "n", false}, {"model=m", NULL, false},  {"id=abc", "m", true},
        {"id=ab", "m", false},   {"state=late", "m", true}, {"state=failed", "m", false},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
        struct requests_query query;
        assert_int_equal(read_query(&query, rows[i].query), 0);
        assert_int_equal(requests_query_wants(&query, &trail, rows[i].model), rows[i].wants);
    }
}

TEST(a_trail_is_json) {
    const struct trail trail = {.state = TRAIL_LATE,
                                .status = 200,
                                .id = "a\"b",
                                .id_length = 3,
                                .allowed_us = 30000,
                                .start_us = 35000,
                                .run_us = 5000,
                                .took_us = 40100,
                                .batch_items = 8,
                                .past = {.ready_us = 21000, .sealed_us = 2000, .predicted_us = 5000, .accelerator = 1}};
    struct text text = {0};
    requests_trail_put(
        &text, &trail,
        &(struct trail_names){.model = "m\n", .version = 2, .before = "m3", .wall_ns = 1234 * NS_PER_MS});
    json_t *json = json_loads(text_end(&text), 0, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "id")), "a\"b");
    assert_string_equal(json_string_value(json_object_get(json, "model")), "m\n");
    assert_string_equal(json_string_value(json_object_get(json, "at")), "1970-01-01T00:00:01.234Z");
    assert_string_equal(json_string_value(json_object_get(json, "reason")), "waited_for_accelerator");
    assert_string_equal(json_string_value(json_object_get(json, "why")),
                        "waited 14 ms for company, then accelerator 1 was busy with m3 for 21 ms");
    assert_float_equal(json_number_value(json_object_get(json, "sealed_ms")), 33, 1e-9);
    json_decref(json);
    text_free(&text);
}
