/* test_scenario_workload.c - the sizes of requests that a scenario asks for. */
#include <errno.h>
#include <string.h>

#include "core/util/container.h"
#include "lab/scenario/scenario.h"
#include "unit/test.h"

static int workload_read(const char *workload, struct scenario *s, struct sy_error *err) {
    char text[512];
    snprintf(text, sizeof(text), "cluster: {accelerators: 8}\nmodels: {zoo: a100}\nworkload: {%s}\n", workload);
    return scenario_read_text("dir/s.yaml", text, strlen(text), NULL, 0, s, err);
}

TEST(query_sizes_are_read) {
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

TEST(traces_are_described) {
    struct scenario s;
    struct sy_error err = {""};
    assert_int_equal(workload_read("arrivals: {trace: t.csv}", &s, &err), 0);
    assert_int_equal(s.arrivals, ARRIVALS_TRACE);
    assert_string_equal(s.trace.path, "dir/t.csv");
    assert_true(s.trace.format == TRACE_DETECT && s.trace.scale == 1 && s.trace.job_s == 60 && s.trace.start_s == 0);
    assert_false(s.trace.by_rows);
    scenario_free(&s);
    assert_int_equal(
        workload_read("arrivals: {trace: /t.csv, format: blox, scale: 2.5, start_s: 60, job_s: 300}", &s, &err), 0);
    assert_string_equal(s.trace.path, "/t.csv");
    assert_true(s.trace.format == TRACE_BLOX && s.trace.scale == 2.5 && s.trace.start_s == 60 && s.trace.job_s == 300);
    scenario_free(&s);
    assert_int_equal(workload_read("rate_rps: 9, arrivals: {trace: t, format: azure, functions: rows}", &s, &err), 0);
    assert_true(s.trace.by_rows && s.trace.format == TRACE_AZURE && s.step_count == 1);
    scenario_free(&s);
}

TEST(mistakes_are_named) {
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
        {"arrivals: {trace: []}", "arrivals.trace: found a list (expected the path of a trace)"},
        {"arrivals: {trace: t, format: csv}", "arrivals.format: expected azure, timestamps or blox"},
        {"arrivals: {trace: t, functions: all}", "arrivals.functions: expected round_robin or rows"},
        {"arrivals: {trace: t, scale: 0}", "arrivals.scale: 0 is not in"},
        {"arrivals: {trace: t, speed: 2}",
         "arrivals.speed: unknown key (expected trace, format, scale, start_s, job_s, functions)"},
        {"rate_rps: 5, arrivals: {trace: t, scale: 2}",
         "arrivals.scale: excludes rate_rps, to which the trace's mean is scaled"},
        {"rate_rps: {steps: [[0, 1], [1, 2]]}, arrivals: {trace: t}",
         "arrivals: a trace takes one rate_rps, or none, not steps"},
        {"surges: 5", "surges: expected a list of {model: NAME, at_s: S, factor: X}"},
        {"surges: [{model: nobody, factor: 2}]", "surges.0: there is no model 'nobody'"},
        {"surges: [{model: BERT, at_s: 2}]", "surges.0: 'factor' is missing"},
        {"surges: [{model: BERT, factor: 2}, {model: BERT, factor: 3}]",
         "surges.1: the model 'BERT' has a surge already"},
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
