/* test_simulate_trace.c - a simulation's timeline: whole JSON, a box for every batch, a mark for every dropped request,
 * and names. */
#include "lab/report/simulate_trace.h"

#include <errno.h>

#include <jansson.h>

#include "lab/report/simulation.h"
#include "unit/test.h"
#include "unit/text_file.h"

/* Runs a scenario with a trace; the events of the file. */
static json_t *trace_of(const char *text, struct simulation *s) {
    atomic_int stop = 0;
    struct simulation_progress progress = {.stop = &stop};
    struct simulate_trace trace;
    struct sy_error err;
    char path[sizeof(TEXT_FILE)];
    text_file(path, "", 0);
    if (simulation_make_text(s, "s.yaml", text, NULL, 0, &err) ||
        simulate_trace_open(&trace, path, &s->scenario, &s->cluster.config, &err) ||
        simulation_run(s, &progress, &trace.observer, &err) || simulate_trace_close(&trace, path, &err))
        fail_msg("%s", err.text);
    json_error_t why;
    json_t *file = json_load_file(path, 0, &why);
    unlink(path);
    if (!file)
        fail_msg("line %d: %s", why.line, why.text);
    json_t *events = json_incref(json_object_get(file, "traceEvents"));
    json_decref(file);
    assert_true(json_is_array(events));
    return events;
}

static const char *text_of(const json_t *event, const char *key) {
    return json_string_value(json_object_get(event, key));
}

/* How many events have a member of that value; the first of them, too. */
static uint32_t count(const json_t *events, const char *key, const char *value, const json_t **first) {
    uint32_t found = 0;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        const char *is = text_of(event, key);
        if (is && strcmp(is, value) == 0 && found++ == 0 && first)
            *first = event;
    }
    return found;
}

TEST(every_batch_is_a_box) {
    struct simulation *s = calloc(1, sizeof(*s));
    json_t *events = trace_of("cluster: {accelerators: [{type: fast \"one\", count: 1}, {type: idle, count: 1}]}\n"
                              "models: [{name: m, types: {fast \"one\": {alpha_ms: 1, beta_ms: 2},\n"
                              "  idle: {alpha_ms: 50, beta_ms: 0}}, slo_ms: 40}]\n"
                              "workload: {rate_rps: 10, arrivals: uniform}\n"
                              "run: {seconds: 1, warmup_seconds: 0}\n",
                              s);
    const json_t *box = NULL, *name = NULL;
    assert_int_equal(count(events, "cat", "batch", &box), s->result.batches);
    assert_string_equal(text_of(box, "ph"), "X");
    assert_string_equal(text_of(box, "name"), "m (1)");
    assert_true(json_number_value(json_object_get(box, "dur")) == 3000); /* microseconds */
    assert_int_equal(json_integer_value(json_object_get(box, "pid")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(box, "args"), "size")), 1);
    assert_int_equal(count(events, "name", "process_name", &name), 3); /* two types and the dropped */
    assert_string_equal(text_of(json_object_get(name, "args"), "name"), "fast \"one\"");
    assert_int_equal(count(events, "name", "thread_name", NULL), 1); /* the other one ran nothing */
    assert_int_equal(count(events, "cat", "drop", NULL), 0);
    json_decref(events);
    simulation_free(s);
    free(s);
}

TEST(every_dropped_request_is_a_mark) {
    struct simulation *s = calloc(1, sizeof(*s));
    json_t *events = trace_of("cluster: {accelerators: 1}\n"
                              "models: [{name: m, alpha_ms: 10, beta_ms: 0, slo_ms: 40}]\n"
                              "workload: {rate_rps: 300}\n"
                              "run: {seconds: 1, warmup_seconds: 0}\n",
                              s);
    const json_t *mark = NULL;
    assert_true(s->result.dropped > 100);
    assert_int_equal(count(events, "cat", "drop", &mark), s->result.dropped);
    assert_string_equal(text_of(json_object_get(mark, "args"), "reason"), "deadline");
    assert_int_equal(json_integer_value(json_object_get(mark, "pid")), 1000);
    json_decref(events);
    simulation_free(s);
    free(s);
}

TEST(loads_have_a_row_of_their_own) {
    struct simulation *s = calloc(1, sizeof(*s));
    json_t *events = trace_of("cluster: {accelerators: 1, memory_gib: 1}\n"
                              "models: [{name: m, alpha_ms: 1, beta_ms: 2, slo_ms: 40, weights_mb: 900, load_ms: 8,\n"
                              "  copies: 2}]\n"
                              "workload: {rate_rps: 20}\n"
                              "policy: {name: clockwork}\n"
                              "run: {seconds: 2, warmup_seconds: 0}\n",
                              s);
    const json_t *box = NULL;
    assert_true(s->result.loads >= 2);
    assert_true(count(events, "name", "load m-1", &box) >= 1);
    assert_true(count(events, "name", "unload m-1", NULL) + count(events, "name", "unload m-2", NULL) >= 1);
    assert_true(json_number_value(json_object_get(box, "dur")) == 8000);
    assert_int_equal(json_integer_value(json_object_get(box, "tid")), 1); /* behind the accelerator's own, 0 */
    json_decref(events);
    simulation_free(s);
    free(s);
}

TEST(a_file_that_cannot_be_written_is_named) {
    struct simulation *s = calloc(1, sizeof(*s));
    struct simulate_trace trace;
    struct sy_error err;
    const char *text = "cluster: {accelerators: 1}\nmodels: [{name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 9}]\n";
    assert_int_equal(simulation_make_text(s, "s.yaml", text, NULL, 0, &err), 0);
    assert_int_equal(simulate_trace_open(&trace, "/nowhere/t.json", &s->scenario, &s->cluster.config, &err), -ENOENT);
    assert_string_equal(err.text, "--trace: cannot write '/nowhere/t.json': No such file or directory");
    simulation_free(s);
    free(s);
}
