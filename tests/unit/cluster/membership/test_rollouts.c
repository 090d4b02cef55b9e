/* test_rollouts.c - decisions on versions, their order, and their text. */
#include "cluster/membership/rollouts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/test.h"

#define TWICE                                                                                                          \
    "{\"term\":1,\"number\":1,\"rollouts\":[{\"model\":\"m\",\"version\":1,\"share\":1,\"before\":0},"                 \
    "{\"model\":\"m\",\"version\":2,\"share\":1,\"before\":0}]}"

static struct rollouts table;
static struct sy_error why;

static int order(enum rollout_wish wish, uint32_t version, uint32_t share, uint32_t carries) {
    const struct rollout_order one = {.wish = wish, .model = "m", .version = version, .share = share};
    return rollouts_order(&table, &one, carries, 3, &why);
}

static void stated(uint32_t version, uint32_t share, uint32_t before) {
    const struct rollout *r = rollouts_find(&table, "m");
    assert_non_null(r);
    assert_int_equal(r->version, version);
    assert_int_equal(r->share, share);
    assert_int_equal(r->before, before);
}

static int begin(void **state) {
    (void)state;
    table = (struct rollouts){.term = 0};
    return 0;
}

TEST_WITH(a_share_grows_and_all_go_back, begin, NULL) {
    assert_int_equal(order(ROLLOUT_TO, 2, 1000, 1), 0);
    stated(2, 1000, 1);
    assert_int_equal(order(ROLLOUT_TO, 2, 5000, 1), 0);
    stated(2, 5000, 1);
    assert_int_equal(order(ROLLOUT_TO, 2, ROLLOUT_SHARE_ALL, 1), 0);
    stated(2, ROLLOUT_SHARE_ALL, 1);
    assert_int_equal(order(ROLLOUT_TO, 3, 1000, 1), 0);
    stated(3, 1000, 2);
    assert_int_equal(order(ROLLOUT_TO, 4, 1000, 1), 0); /* most of the requests still go to 2 */
    stated(4, 1000, 2);
    assert_int_equal(order(ROLLOUT_BACK, 0, 0, 1), 0);
    stated(2, ROLLOUT_SHARE_ALL, 0);
    assert_int_equal(order(ROLLOUT_BACK, 0, 0, 1), -EINVAL);
    assert_non_null(strstr(why.text, "no version before it"));
    assert_int_equal(table.term, 3);
    assert_int_equal(table.number, 6);
}

TEST_WITH(a_version_is_held_and_let_go, begin, NULL) {
    assert_int_equal(order(ROLLOUT_NEWEST, 0, 0, 1), -EINVAL);
    assert_int_equal(order(ROLLOUT_BACK, 0, 0, 1), -EINVAL);
    assert_int_equal(order(ROLLOUT_TO, 1, ROLLOUT_SHARE_ALL, 1), 0);
    stated(1, ROLLOUT_SHARE_ALL, 0);
    assert_int_equal(order(ROLLOUT_NEWEST, 0, 0, 1), 0);
    assert_null(rollouts_find(&table, "m"));
    assert_int_equal(table.number, 2);
    while (table.count < ROLLOUTS_MAX)
        table.of[table.count++] = (struct rollout){.model = "other", .version = 1, .share = 1};
    assert_int_equal(order(ROLLOUT_TO, 1, 1, 1), -ENOSPC);
}

TEST_WITH(the_later_decision_counts, begin, NULL) {
    const struct {
        uint64_t term, number, other_term, other_number;
        bool later;
    } cases[] = {{1, 1, 0, 0, true}, {1, 1, 1, 1, false}, {1, 2, 1, 1, true}, {2, 1, 1, 9, true}, {1, 9, 2, 1, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        static struct rollouts a, b;
        a.term = cases[i].term;
        a.number = cases[i].number;
        b.term = cases[i].other_term;
        b.number = cases[i].other_number;
        assert_int_equal(rollouts_later(&a, &b), cases[i].later);
    }
}

TEST_WITH(a_table_as_text, begin, NULL) {
    static struct rollouts read;
    table = (struct rollouts){
        .term = 7, .number = 2, .count = 1, .of = {{.model = "m \"1\"", .version = 2, .share = 1000, .before = 1}}};
    char *text = rollouts_write(&table);
    assert_string_equal(text, "{\"term\":7,\"number\":2,\"rollouts\":"
                              "[{\"model\":\"m \\\"1\\\"\",\"version\":2,\"share\":1000,\"before\":1}]}");
    assert_int_equal(rollouts_read(text, strlen(text), &read, &why), 0);
    assert_memory_equal(&read, &table, sizeof(table));
    free(text);
    static const char *const wrong[] = {
        "",
        "[]",
        "{\"term\":1,\"number\":1}",
        "{\"term\":-1,\"number\":1,\"rollouts\":[]}",
        "{\"term\":1,\"number\":1,\"rollouts\":[{\"model\":\"m\",\"version\":0,\"share\":1,\"before\":0}]}",
        "{\"term\":1,\"number\":1,\"rollouts\":[{\"model\":\"m\",\"version\":1,\"share\":10001,\"before\":0}]}",
        "{\"term\":1,\"number\":1,\"rollouts\":[{\"model\":\"\",\"version\":1,\"share\":1,\"before\":0}]}",
        TWICE,
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(rollouts_read(wrong[i], strlen(wrong[i]), &read, &why), -EPROTO);
}

TEST_WITH(an_order_as_text, begin, NULL) {
    const struct rollout_order one = {.wish = ROLLOUT_TO, .model = "m", .version = 4294967295, .share = 1};
    struct rollout_order read = {.model = ""};
    char *text = rollout_order_write(&one);
    assert_int_equal(rollout_order_read(text, strlen(text), &read, &why), 0);
    assert_int_equal(read.wish, ROLLOUT_TO);
    assert_string_equal(read.model, "m");
    assert_int_equal(read.version, one.version);
    assert_int_equal(read.share, 1);
    free(text);
    static const char *const wrong[] = {"", "{\"wish\":\"up\",\"model\":\"m\"}", "{\"wish\":\"back\"}",
                                        "{\"wish\":\"to\",\"model\":\"m\",\"version\":1,\"share\":0}"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(rollout_order_read(wrong[i], strlen(wrong[i]), &read, &why), -EPROTO);
}
