/* test_scenario_workload.c - the sizes of requests that a scenario asks for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "sim/scenario.h"
#include "unit/cmocka_all.h"

static int workload_read(const char *workload, struct scenario *s, struct sy_error *err) {
    char text[512];
    snprintf(text, sizeof(text), "cluster: {accelerators: 8}\nmodels: {zoo: a100}\nworkload: {%s}\n", workload);
    return scenario_read_text("dir/s.yaml", text, strlen(text), NULL, 0, s, err);
}

static void query_sizes_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        struct query_size_spec want;
    } cases[] = {
        {"", {.kind = QUERY_CONSTANT, .a = 1}},
        {"query_size: 12", {.kind = QUERY_CONSTANT, .a = 12}},
        {"query_size: kairos", {.kind = QUERY_PUBLISHED, .a = 1, .published = "kairos"}},
        {"query_size: {deeprecsys: experiments}", {.kind = QUERY_PUBLISHED, .a = 1, .published = "experiments"}},
        {"query_size: {uniform: [2, 9]}", {.kind = QUERY_UNIFORM, .a = 2, .b = 9}},
        {"query_size: {gaussian: [250.5, 40]}", {.kind = QUERY_GAUSSIAN, .a = 250.5, .b = 40}},
        {"query_size: {table: sizes.csv}", {.kind = QUERY_TABLE, .a = 1, .table_path = "dir/sizes.csv"}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scenario s;
        struct sy_error err = {""};
        if (workload_read(cases[i].text, &s, &err))
            fail_msg("%s", err.text);
        const struct query_size_spec *got = &s.query_size, *want = &cases[i].want;
        assert_int_equal(got->kind, want->kind);
        assert_true(got->a == want->a && got->b == want->b);
        assert_string_equal(got->table_path, want->table_path);
        assert_true(!got->published == !want->published);
        if (want->published)
            assert_string_equal(got->published, want->published);
        scenario_free(&s);
    }
}

static void mistakes_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"query_size: 0", "query_size: expected a number of items from 1 to 1024, kairos, {deeprecsys: NAME}, "
                          "{uniform: [a, b]}, {gaussian: [mean, deviation]} or {table: FILE}"},
        {"query_size: {gauss: [1, 2]}", "query_size: expected a number of items"},
        {"query_size: {deeprecsys: kairos}",
         "query_size.deeprecsys: expected experiments, run_deeprecsys or run_deeprecinfra"},
        {"query_size: {uniform: 5}", "query_size.uniform: expected [least, most]"},
        {"query_size: {uniform: [5, 4]}", "query_size.uniform: expected two whole numbers, the least and the most"},
        {"query_size: {uniform: [1, 2.5]}", "query_size.uniform: expected two whole numbers, the least and the most"},
        {"query_size: {gaussian: [0.5, 1]}",
         "query_size.gaussian: expected a mean from 1 and a standard deviation over 0"},
        {"query_size: {gaussian: [9]}", "query_size.gaussian: expected [mean, standard deviation]"},
        {"query_size: {gaussian: [9, x]}", "query_size.gaussian.1: 'x' is not a number"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scenario s;
        struct sy_error err = {""};
        char want[256];
        assert_int_equal(workload_read(cases[i].text, &s, &err), -EINVAL);
        snprintf(want, sizeof(want), "dir/s.yaml:3: workload.%s", cases[i].want);
        if (strncmp(err.text, want, strlen(want)) != 0)
            fail_msg("'%s' is not '%s'", err.text, want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_sizes_are_read),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
