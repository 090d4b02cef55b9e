/* test_queue_rules.c - dynamic_batching of config.pbtxt: every field, every mistake, and what follows for requests. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "model/config/model_config.h"
#include "unit/test.h"

static int read_text(const char *fields, struct queue_rules *rules, struct sy_error *err) {
    char text[1024];
    struct model_config *config = malloc(sizeof(*config));
    assert_non_null(config);
    snprintf(text, sizeof(text), "dynamic_batching {\n%s\n}", fields);
    int rc = model_config_read_text("c", text, strlen(text), true, config, err);
    *rules = config->queue;
    free(config);
    return rc;
}

static struct queue_rules read_well(const char *fields) {
    struct queue_rules rules;
    struct sy_error err = {""};
    if (read_text(fields, &rules, &err))
        fail_msg("%s", err.text);
    return rules;
}

TEST(nothing_said_is_nothing_asked) {
    struct queue_rules rules = read_well("");
    static const struct queue_rules none;
    assert_memory_equal(&rules, &none, sizeof(none));
    assert_int_equal(queue_rules_priority(&rules, 0), 0);
    assert_int_equal(queue_rules_priority(&rules, 7), 0);
    assert_int_equal(queue_rules_timeout(&rules, 0, 0, 25), 25);
    assert_int_equal(queue_rules_timeout(&rules, 0, 40, 25), 40);
    assert_int_equal(queue_rules_delays(&rules), 0);
    assert_false(queue_rules_limited(&rules));
}

TEST(limits_of_time_and_size_are_read) {
    struct queue_rules rules = read_well("preferred_batch_size: [ 8, 4, 8 ] max_queue_delay_microseconds: 300 "
                                         "preserve_ordering: true default_queue_policy { max_queue_size: 16 }");
    assert_int_equal(rules.preferred_count, 2);
    assert_int_equal(rules.preferred[0], 4); /* each once, ascending */
    assert_int_equal(rules.preferred[1], 8);
    assert_int_equal(rules.wait_ns, 300 * NS_PER_US);
    assert_false(rules.wait_none);
    assert_true(rules.preserve_ordering);
    for (uint32_t i = 0; i < PRIORITIES_MAX; i++)
        assert_int_equal(rules.rules[i].queue_max, 16);
    assert_true(queue_rules_limited(&rules));
    rules = read_well("max_queue_delay_microseconds: 0");
    assert_true(rules.wait_none);
    rules = read_well("max_queue_delay_microseconds: 9000000000000000000"); /* as good as a day */
    assert_int_equal(rules.wait_ns, 24 * 3600 * NS_PER_S);
}

TEST(requests_have_the_priority_that_they_ask_for) {
    struct queue_rules rules = read_well("priority_levels: 3 default_priority_level: 2");
    static const uint64_t asked[] = {0, 1, 2, 3, 4, UINT64_MAX}, got[] = {1, 0, 1, 2, 1, 1};
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++)
        assert_int_equal(queue_rules_priority(&rules, asked[i]), got[i]);
}

TEST(a_timeout_may_be_shortened_where_that_is_allowed) {
    struct queue_rules rules = read_well("default_queue_policy { default_timeout_microseconds: 2000 }");
    assert_int_equal(queue_rules_timeout(&rules, 0, 0, 25), 2 * NS_PER_MS);
    assert_int_equal(queue_rules_timeout(&rules, 0, 1000, 25), 2 * NS_PER_MS);
    rules = read_well("default_queue_policy { default_timeout_microseconds: 2000 allow_timeout_override: true }");
    assert_int_equal(queue_rules_timeout(&rules, 0, 1000, 25), 1000);
    assert_int_equal(queue_rules_timeout(&rules, 0, NS_PER_S, 25), 2 * NS_PER_MS);
}

TEST(a_priority_may_have_rules_of_its_own) {
    struct queue_rules rules = read_well(
        "priority_levels: 3 default_priority_level: 3\n"
        "default_queue_policy { default_timeout_microseconds: 2000 timeout_action: DELAY max_queue_size: 7 }\n"
        "priority_queue_policy { key: 1 value { default_timeout_microseconds: 500 timeout_action: REJECT "
        "max_queue_size: 2 } }\n"
        "priority_queue_policy { key: 2 value { } }");
    assert_int_equal(queue_rules_timeout(&rules, 0, 0, 25), 500 * NS_PER_US);
    assert_int_equal(queue_rules_timeout(&rules, 1, 0, 25), 25);
    assert_int_equal(queue_rules_timeout(&rules, 2, 0, 25), 2 * NS_PER_MS);
    assert_int_equal(queue_rules_delays(&rules) & 7, 4);
    assert_int_equal(rules.rules[0].queue_max, 2);
    assert_int_equal(rules.rules[1].queue_max, 0); /* the whole policy is its own */
    assert_int_equal(rules.rules[2].queue_max, 7);
}

TEST(mistakes_have_their_place) {
    static const struct {
        const char *fields, *want;
    } cases[] = {
        {"preferred_batch_size: 0", "c:2:1: preferred_batch_size: 0 is not in 1 to 2147483647"},
        {"preferred_batch_size: [4,\n x]", "c:3:2: preferred_batch_size: expected a whole number, found 'x'"},
        {"preferred_batch_size: [ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1, 17 ]",
         "c:2:83: preferred_batch_size: more than 16 sizes"},
        {"preferred_batch_size: 4\n} max_batch_size: 3 parameters {",
         "c:2:1: preferred_batch_size: 4 is more than max_batch_size, 3"},
        {"max_queue_delay_microseconds: -1",
         "c:2:1: max_queue_delay_microseconds: -1 is not in 0 to 9223372036854775807"},
        {"preserve_ordering: 2", "c:2:1: preserve_ordering: expected true or false, found a number 2"},
        {"priority_levels: 33 default_priority_level: 1", "c:2:1: priority_levels: 33 is not in 0 to 32"},
        {"priority_levels: 3", "c:2:1: default_priority_level: with 3 priority_levels it must be given, 1 to 3"},
        {"priority_levels: 3\ndefault_priority_level: 4",
         "c:3:1: default_priority_level: with 3 priority_levels it must be given, 1 to 3"},
        {"default_queue_policy { timeout_action: WAIT }",
         "c:2:24: timeout_action: expected REJECT, DELAY, found a word WAIT"},
        {"default_queue_policy { default_timeout_microseconds: 'x' }",
         "c:2:24: default_timeout_microseconds: expected a whole number, found 'x'"},
        {"default_queue_policy { max_queue_size: 4294967296 }",
         "c:2:24: max_queue_size: 4294967296 is not in 0 to 4294967295"},
        {"default_queue_policy { allow_timeout_override: yes }",
         "c:2:24: allow_timeout_override: expected true or false, found a word yes"},
        {"default_queue_policy { }\ndefault_queue_policy { }", "c:3:1: default_queue_policy is given twice"},
        {"priority_queue_policy { key: 1 value { } }",
         "c:2:1: priority_queue_policy: there is no priority level 1 (there are 0)"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct queue_rules rules;
        struct sy_error err = {""};
        assert_int_equal(read_text(cases[i].fields, &rules, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].want);
    }
}
