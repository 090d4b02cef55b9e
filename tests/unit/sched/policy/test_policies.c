/* test_policies.c - policies by name, and their options from text. */
#include <stdio.h>
#include <string.h>

#include "sched/core/policy.h"
#include "unit/test.h"

TEST(a_policy_is_found_by_its_name) {
    struct sy_error err;
    assert_ptr_equal(policy_find("deferred", &err), &policy_deferred);
    for (int i = 0; policies[i]; i++)
        assert_ptr_equal(policy_find(policies[i]->name, &err), policies[i]);
    assert_null(policy_find("defer", &err));
    assert_non_null(strstr(err.text, "there is no policy 'defer' (expected deferred"));
}

TEST(policies_can_be_added) {
    static const struct policy_ops added[] = {{.name = "one more"}, {.name = "eager"}};
    struct sy_error err;
    assert_int_equal(policies_add(&added[0], &err), 0);
    assert_int_equal(policies_add(&added[0], &err), 0);
    assert_ptr_equal(policy_find("one more", &err), &added[0]);
    assert_true(policies_add(&added[1], &err) < 0);
    assert_string_equal(err.text, "there is a policy 'eager' already");
    static struct policy_ops many[POLICIES_MAX];
    static char names[POLICIES_MAX][8];
    int refused = 0;
    for (int i = 0; i < POLICIES_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "p%d", i);
        many[i].name = names[i];
        refused += policies_add(&many[i], &err) < 0;
    }
    assert_true(refused > 0 && policies[POLICIES_MAX] == NULL);
    assert_string_equal(err.text, "there are 32 policies already");
}

TEST(every_table_of_options_fits_and_allows_its_presets) {
    for (int i = 0; policies[i]; i++)
        for (uint32_t k = 0; policies[i]->options && policies[i]->options[k].key; k++) {
            const struct policy_option *option = &policies[i]->options[k];
            assert_true(k < POLICY_OPTIONS_MAX);
            assert_non_null(option->help);
            if (!option->flag && !option->words)
                assert_true(option->least <= option->preset && option->preset <= option->most);
        }
}

TEST(options_are_read_from_text) {
    static const char *const words[] = {"early", "lazy", NULL};
    static const struct policy_option table[] = {
        {.key = "flag", .help = "", .flag = true},
        {.key = "drop", .help = "", .words = words, .preset = 1},
        {.key = "delay_us", .help = "", .preset = 5, .least = 0, .most = 100},
        {.key = "count", .help = "", .preset = 1, .least = 1, .most = 8, .whole = true},
        {0},
    };
    static const struct policy_ops policy = {.name = "test", .options = table};
    struct policy_options options;
    struct sy_error err;
    policy_options_preset(&policy, &options);
    assert_true(options.value[0] == 0 && options.value[1] == 1 && options.value[2] == 5);
    assert_int_equal(policy_option_read(&policy, "flag", "true", &options, &err), 0);
    assert_int_equal(policy_option_read(&policy, "drop", "early", &options, &err), 0);
    assert_int_equal(policy_option_read(&policy, "delay_us", "2.5", &options, &err), 0);
    assert_int_equal(policy_option_read(&policy, "count", "3", &options, &err), 0);
    assert_true(options.value[0] == 1 && options.value[1] == 0 && options.value[2] == 2.5 && options.value[3] == 3);

    static const struct {
        const char *key, *value, *says;
    } mistakes[] = {
        {"flag", "1", "expected true or false"},
        {"drop", "late", "expected one of early, lazy"},
        {"delay_us", "101", "expected a number in 0 to 100"},
        {"delay_us", "nan", "expected a number in 0 to 100"},
        {"delay_us", "5x", "expected a number in 0 to 100"},
        {"delay_us", "", "expected a number in 0 to 100"},
        {"count", "1.5", "expected a whole number in 1 to 8"},
        {"count", "9", "expected a whole number in 1 to 8"},
        {"delay", "5", "policy test has no such option (it has flag, drop, delay_us, count)"},
    };
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        assert_true(policy_option_read(&policy, mistakes[i].key, mistakes[i].value, &options, &err) < 0);
        assert_string_equal(err.text, mistakes[i].says);
    }
    assert_true(options.value[0] == 1 && options.value[1] == 0 && options.value[2] == 2.5);
}

TEST(a_policy_with_options_is_read_from_one_text) {
    const struct policy_ops *policy;
    struct policy_options options;
    struct sy_error err;
    assert_int_equal(policy_read("deferred", &policy, &options, &err), 0);
    assert_true(policy == &policy_deferred && options.value[0] == 0);
    assert_int_equal(policy_read("deferred:consolidate=true", &policy, &options, &err), 0);
    assert_true(options.value[0] == 1);
    assert_true(policy_read("deferred:consolidate", &policy, &options, &err) < 0);
    assert_string_equal(err.text, "'consolidate': expected KEY=VALUE");
    assert_true(policy_read("deferred:consolidate=2", &policy, &options, &err) < 0);
    assert_string_equal(err.text, "consolidate: expected true or false");
    assert_true(policy_read("referred", &policy, &options, &err) < 0);
}
