/* test_ensemble_description.c - ensembles' graphs to JSON and back, each member spoilt, and graphs that will not do. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "core/util/container.h"
#include "model/config/ensemble.h"
#include "model/config/model_config.h"
#include "model/repository/model_description.h"
#include "unit/test.h"

/* The step that comes last in the file runs first; then two side by side, of which one runs for each row. */
#define GRAPH                                                                                                          \
    "max_batch_size: 0\n input { name: 'x' data_type: TYPE_FP32 dims: [ -1, 4 ] }\n"                                   \
    "output { name: 'y' data_type: TYPE_FP32 dims: [ -1, 4 ] }\n output { name: 'z' data_type: TYPE_FP32 dims: 4 }\n"  \
    "ensemble_scheduling {\n"                                                                                          \
    "step { model_name: 'b' input_map { key: 'i' value: 'rows' } output_map { key: 'o' value: 'y' } }\n"               \
    "step { model_name: 'c' model_version: 3 input_map { key: 'i' value: 'x' } input_map { key: 'j' value: 'rows' }"   \
    " output_map { key: 'o' value: 'z' } }\n"                                                                          \
    "step { model_name: 'a' input_map { key: 'i' value: 'x' } output_map { key: 'o' value: 'rows' }"                   \
    " output_map { key: 'any' value: 'any' } }\n }"

struct world {
    struct served_model model, got;
    struct described_profile profiles[ACCELERATOR_TYPES_MAX];
    uint32_t profile_count;
    struct sy_error err;
};

static struct ensemble_step *step_of(struct ensemble *e, const char *model) {
    uint32_t v = 0;
    while (strcmp(e->steps[v].model, model) != 0)
        v++;
    return &e->steps[v];
}

static int world_make(void **state) {
    struct world *w = *state = calloc(1, sizeof(*w));
    struct model_config config = {0};
    assert_non_null(w);
    strcpy(w->model.name, "whole");
    w->model.version = 1;
    w->model.weight = 1;
    w->model.queue.priorities = 1;
    w->model.queue.priority_default = 1;
    assert_int_equal(
        model_config_read_text("/srv/models/whole/config.pbtxt", GRAPH, strlen(GRAPH), true, &config, &w->err), 0);
    struct ensemble *e = config.ensemble;
    struct ensemble_step *each = step_of(e, "b");
    each->each = ensemble_tensor_find(e, "rows");
    each->each_most = 20;
    each->beyond = ENSEMBLE_CUT;
    ensemble_when(e, step_of(e, "c"), ensemble_tensor_find(e, "any"));
    if (served_model_make_ensemble(&w->model, &config, &w->err))
        fail_msg("%s", w->err.text);
    model_config_release(&config);
    return 0;
}

static int world_free(void **state) {
    struct world *w = *state;
    model_description_release(&w->model, NULL, 0);
    model_description_release(&w->got, w->profiles, w->profile_count);
    free(w);
    return 0;
}

static char *described(struct world *w) {
    char *text = model_description_write(&w->model, NULL, 0, NULL, &w->err);
    if (!text)
        fail_msg("%s", w->err.text);
    return text;
}

static int read_back(struct world *w, const char *text) {
    model_description_release(&w->got, w->profiles, w->profile_count);
    memset(&w->got, 0, sizeof(w->got));
    return model_description_read(text, strlen(text), &w->got, w->profiles, &w->profile_count, &w->err);
}

TEST_WITH(the_graph_comes_back_as_it_was, world_make, world_free) {
    struct world *w = *state;
    char *text = described(w);
    if (read_back(w, text))
        fail_msg("%s", w->err.text);
    const struct ensemble *e = w->model.ensemble, *got = w->got.ensemble;
    assert_string_equal(got->path, "whole/config.pbtxt");
    assert_int_equal(got->step_count, 3);
    assert_int_equal(got->tensor_count, e->tensor_count);
    assert_int_equal(got->input_count, 1);
    for (uint32_t v = 0; v < 3; v++) {
        const struct ensemble_step *is = &got->steps[v], *was = &e->steps[v];
        assert_string_equal(is->model, was->model);
        assert_int_equal(is->version, was->version);
        assert_int_equal(is->written, was->written);
        assert_int_equal(is->line, was->line);
        assert_int_equal(is->column, was->column);
        assert_int_equal(is->after, was->after);
        assert_int_equal(is->each_most, was->each_most);
        assert_int_equal(is->beyond, was->beyond);
        assert_int_equal(is->each == ENSEMBLE_NONE, was->each == ENSEMBLE_NONE);
        if (is->each != ENSEMBLE_NONE)
            assert_string_equal(got->tensors[is->each].name, e->tensors[was->each].name);
        assert_int_equal(is->when == ENSEMBLE_NONE, was->when == ENSEMBLE_NONE);
        if (is->when != ENSEMBLE_NONE)
            assert_string_equal(got->tensors[is->when].name, e->tensors[was->when].name);
        assert_int_equal(is->input_count, was->input_count);
        assert_int_equal(is->output_count, was->output_count);
    }
    for (uint32_t t = 0; t < got->tensor_count; t++) {
        const struct ensemble_tensor *was = &e->tensors[ensemble_tensor_find(e, got->tensors[t].name)];
        assert_int_equal(got->tensors[t].step, was->step);
        assert_int_equal(got->tensors[t].place, was->place);
        assert_int_equal(got->tensors[t].output, was->output);
    }
    assert_int_equal(w->got.slo_ns, 0); /* nobody gave one: frontends choose it */
    assert_true(model_description_hash(&w->model) == model_description_hash(&w->got));
    char *again = model_description_write(&w->got, NULL, 0, NULL, &w->err);
    assert_string_equal(text, again);
    free(again);
    free(text);
}

TEST_WITH(lines_make_no_difference_and_steps_do, world_make, world_free) {
    struct world *w = *state;
    char *text = described(w), difference[256];
    assert_int_equal(read_back(w, text), 0);
    w->got.ensemble->steps[1].line = w->got.ensemble->steps[0].inputs[0].column = 77;
    assert_true(model_description_hash(&w->model) == model_description_hash(&w->got));
    step_of(w->got.ensemble, "b")->each_most = 21;
    assert_true(model_description_hash(&w->model) != model_description_hash(&w->got));
    model_description_difference(&w->model, &w->got, difference, sizeof(difference));
    assert_string_equal(difference, "ensemble.steps[0].limit is 20 here and 21 there");
    free(text);
}

/* ---- what is refused ---- */

static void refused(struct world *w, const json_t *root, const char *sentence) {
    char *text = json_dumps(root, JSON_COMPACT);
    w->err.text[0] = '\0';
    if (read_back(w, text) != -EINVAL)
        fail_msg("%s: %s is accepted", sentence, text);
    if (!strstr(w->err.text, sentence))
        fail_msg("'%s' does not say '%s'", w->err.text, sentence);
    assert_null(w->got.ensemble);
    free(text);
}

/* Takes away each member of an object, at any depth, and then gives each value another type. */
static void spoil(struct world *w, const json_t *root, json_t *value, const char *place) {
    const char *key;
    json_t *entry, *entries = json_copy(value);
    char inner[128];
    size_t i;
    json_object_foreach(entries, key, entry) {
        snprintf(inner, sizeof(inner), "%s.%s", place, key);
        json_object_del(value, key);
        refused(w, root, inner);
        json_object_set_new(value, key, json_pack("{s:i}", "odd", 1));
        refused(w, root, inner);
        json_object_set(value, key, entry);
        spoil(w, root, entry, inner);
    }
    json_array_foreach(value, i, entry) {
        snprintf(inner, sizeof(inner), "%s[%zu]", place, i);
        json_incref(entry);
        json_array_set_new(value, i, json_integer(5));
        refused(w, root, inner);
        json_array_set_new(value, i, entry);
        spoil(w, root, entry, inner);
    }
    json_decref(entries);
}

TEST_WITH(each_member_must_be_there_and_of_its_type, world_make, world_free) {
    struct world *w = *state;
    char *text = described(w);
    json_t *root = json_loads(text, 0, NULL);
    spoil(w, root, json_object_get(root, "ensemble"), "ensemble");
    assert_int_equal(read_back(w, text), 0);
    json_decref(root);
    free(text);
}

/* Replaces a text in the description, once. */
static void replaced(struct world *w, const char *text, const char *what, const char *by, const char *sentence) {
    const char *at = strstr(text, what);
    size_t bytes = strlen(text) + strlen(by) + 1;
    char *changed = malloc(bytes);
    assert_non_null(changed);
    if (!at)
        fail_msg("%s has no %s", text, what);
    snprintf(changed, bytes, "%.*s%s%s", (int)(at - text), text, by, at + strlen(what));
    w->err.text[0] = '\0';
    if (read_back(w, changed) != -EINVAL)
        fail_msg("%s is accepted", changed);
    if (!strstr(w->err.text, sentence))
        fail_msg("'%s' does not say '%s'", w->err.text, sentence);
    free(changed);
}

TEST_WITH(graphs_that_will_not_do_are_refused, world_make, world_free) {
    static const struct {
        const char *what, *by, *sentence;
    } cases[] = {
        {"\"ensemble\":{\"steps\"", "\"other\":{\"steps\"", "slo_ns: expected 1 or more"},
        {"\"profiles\":[]", "\"profiles\":[{\"type\":\"cpu\",\"latency_ns\":[1,2]}]", "profiles: expected none"},
        {"\"model\":\"b\"", "\"model\":\"b b\"", "ensemble.steps[0].model: expected"},
        {"\"version\":3", "\"version\":-1", "ensemble.steps[1].version: expected"},
        {"\"limit\":20", "\"limit\":0",
         "ensemble.steps[0].for_each: expected a tensor that the step takes, and a limit"},
        {"\"limit\":20", "\"limit\":1025", "ensemble.steps[0].limit: expected"},
        {"\"beyond\":\"cut\"", "\"beyond\":\"hack\"", "ensemble.steps[0].beyond: 'hack' is not known"},
        {"\"for_each\":\"rows\"", "\"for_each\":\"x\"", "ensemble.steps[0].for_each: expected a tensor"},
        {"\"for_each\":\"rows\"", "\"for_each\":\"none\"", "ensemble.steps[0].for_each: there is no tensor 'none'"},
        {"\"when\":\"any\"", "\"when\":\"none\"", "ensemble.steps[1].when: there is no tensor 'none'"},
        {"\"tensor\":\"x\"", "\"tensor\":\"z\"", "the steps wait for each other in a circle"},
        {"\"name\":\"j\"", "\"name\":\"i\"", "ensemble.steps[1].inputs[1].name: 'i' is given twice"},
        {"\"name\":\"j\"", "\"name\":\"\"", "ensemble.steps[1].inputs[1].name: expected a name"},
        {"\"tensor\":\"y\"", "\"tensor\":\"\"", "ensemble.steps[0].outputs[0].tensor: expected a name"},
        {"\"tensor\":\"y\"", "\"tensor\":\"x\"", "it gives 'x', which is an input of the ensemble"},
        {"\"tensor\":\"y\"", "\"tensor\":\"z\"", "it gives 'z', as step"},
        {"\"tensor\":\"y\"", "\"tensor\":\"w\"", "outputs: no step gives 'y'"},
        {"\"tensor\":\"rows\"", "\"tensor\":\"row\"", "it takes 'row', which no step gives"},
        {"\"tensor\":\"rows\"", "\"tensor\":\"y\"", "for_each"},
        {"\"name\":\"y\"", "\"name\":\"z\"", "outputs: 'z' is given twice"},
        {"\"name\":\"y\"", "\"name\":\"x\"", "outputs: no step gives 'x'"},
        {"\"steps\":[", "\"steps\":[],\"more\":[", "ensemble.steps: expected 1 to 64 entries"},
    };
    struct world *w = *state;
    char *text = described(w);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        replaced(w, text, cases[i].what, cases[i].by, cases[i].sentence);
    free(text);
}

/* Steps and tensors up to their limits, and one more. */
TEST_WITH(there_are_limits, world_make, world_free) {
    struct world *w = *state;
    char *text = described(w), name[16];
    json_t *root = json_loads(text, 0, NULL), *steps = json_object_get(json_object_get(root, "ensemble"), "steps");
    for (int i = 3; i < ENSEMBLE_STEPS_MAX; i++) { /* a chain behind "any" */
        json_t *step = json_deep_copy(json_array_get(steps, 0));
        json_object_set_new(step, "for_each", json_null());
        json_t *input = json_array_get(json_object_get(step, "inputs"), 0);
        json_t *output = json_array_get(json_object_get(step, "outputs"), 0);
        snprintf(name, sizeof(name), "t%d", i);
        json_object_set_new(output, "tensor", json_string(name));
        snprintf(name, sizeof(name), "t%d", i - 1);
        json_object_set_new(input, "tensor", json_string(i == 3 ? "any" : name));
        json_array_append_new(steps, step);
    }
    refused(w, root, "which no step takes and which is no output");
    json_t *last = json_array_get(json_object_get(json_array_get(steps, 1), "inputs"), 1);
    snprintf(name, sizeof(name), "t%d", ENSEMBLE_STEPS_MAX - 1);
    json_object_set_new(last, "tensor", json_string(name));
    char *most = json_dumps(root, JSON_COMPACT);
    if (read_back(w, most))
        fail_msg("%s", w->err.text);
    assert_int_equal(w->got.ensemble->step_count, ENSEMBLE_STEPS_MAX);
    json_array_append(steps, json_array_get(steps, 0));
    refused(w, root, "ensemble.steps: expected 1 to 64 entries");
    json_decref(root);
    free(most);
    free(text);
}
