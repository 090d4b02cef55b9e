/* test_ensemble_flatten.c - ensembles whose steps are ensembles: one graph, with the same tensors and conditions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config/ensemble.h"
#include "model/config/model_config.h"
#include "unit/test.h"

#define TENSORS(x, y) "input { name: '" x "' dims: 4 } output { name: '" y "' dims: 4 } ensemble_scheduling {"
#define STEP(m, maps) " step { model_name: '" m "'" maps " }"
#define IN(k, v)      " input_map { key: '" k "' value: '" v "' }"
#define OUT(k, v)     " output_map { key: '" k "' value: '" v "' }"
/* a -> m -> t -> n -> b; the names are those of the outer one's tensors, too. */
#define INNER TENSORS("a", "b") STEP("m", IN("i", "a") OUT("o", "t")) STEP("n", IN("i", "t") OUT("o", "b")) "}"
#define OUTER                                                                                                          \
    TENSORS("x", "y")                                                                                                  \
    STEP("p", IN("i", "x") OUT("o", "t"))                                                                              \
    STEP("inner", IN("a", "t") OUT("b", "u")) STEP("q", IN("i", "u") IN("j", "t") OUT("o", "y")) "}"

struct world {
    struct model_config outer, inner;
    struct ensemble *flat;
    struct sy_error err;
};

static int world_make(void **state) {
    *state = calloc(1, sizeof(struct world));
    return *state ? 0 : -1;
}

static int world_free(void **state) {
    struct world *w = *state;
    model_config_release(&w->outer);
    model_config_release(&w->inner);
    ensemble_free(w->flat);
    free(w);
    return 0;
}

static struct ensemble *read_graph(struct model_config *config, const char *text) {
    struct sy_error err = {""};
    model_config_release(config);
    if (model_config_read_text("c", text, strlen(text), true, config, &err))
        fail_msg("%s: %s", text, err.text);
    assert_non_null(config->ensemble);
    return config->ensemble;
}

/* Puts the inner graph in the place of the steps with its name. */
static int flatten(struct world *w) {
    const struct ensemble *inner[ENSEMBLE_STEPS_MAX] = {NULL};
    for (uint32_t s = 0; s < w->outer.ensemble->step_count; s++)
        if (strcmp(w->outer.ensemble->steps[s].model, "inner") == 0)
            inner[s] = w->inner.ensemble;
    ensemble_free(w->flat);
    w->flat = NULL;
    w->err.text[0] = '\0';
    return ensemble_flatten(w->outer.ensemble, inner, &w->flat, &w->err);
}

/* Each step as LABEL MODEL(INPUT<STEP ...)?STEP; STEP: who gives it, and whose condition it is; "x": the client. */
static const char *graph_format(const struct ensemble *e) {
    static char text[1024];
    char *at = text;
    for (uint32_t s = 0; s < e->step_count; s++) {
        const struct ensemble_step *step = &e->steps[s];
        at += sprintf(at, "%s%s %s(", s ? " " : "", step->label, step->model);
        for (uint32_t i = 0; i < step->input_count; i++) {
            uint32_t giver = e->tensors[step->inputs[i].tensor].step;
            at += sprintf(at, "%s%s<%s", i ? " " : "", step->inputs[i].name,
                          giver == ENSEMBLE_NONE ? "x" : e->steps[giver].model);
            if (giver != ENSEMBLE_NONE)
                assert_true(step->after >> giver & 1);
        }
        at += sprintf(at, ")");
        if (step->when != ENSEMBLE_NONE) {
            uint32_t giver = e->tensors[step->when].step;
            at += sprintf(at, "?%s", giver == ENSEMBLE_NONE ? "x" : e->steps[giver].model);
        }
    }
    return text;
}

TEST_WITH(steps_of_ensembles_take_their_place, world_make, world_free) {
    struct world *w = *state;
    read_graph(&w->outer, OUTER);
    read_graph(&w->inner, INNER);
    assert_int_equal(flatten(w), 0);
    assert_string_equal(graph_format(w->flat), "1 p(i<x) 2.1 m(i<p) 2.2 n(i<m) 3 q(i<n j<p)");
    const struct ensemble *e = w->outer.ensemble;
    assert_int_equal(w->flat->input_count, 1);
    assert_int_equal(w->flat->tensor_count, e->tensor_count + 1); /* what stays within the inner one */
    uint32_t y = ensemble_tensor_find(w->flat, "y");
    assert_int_equal(w->flat->tensors[y].output, 0);
    assert_int_equal(w->flat->tensors[y].step, 3);
    for (uint32_t t = 0; t < w->flat->tensor_count; t++)
        assert_int_equal(w->flat->tensors[t].output, t == y ? 0 : ENSEMBLE_NONE);
}

TEST_WITH(an_ensemble_may_stand_there_twice, world_make, world_free) {
    struct world *w = *state;
    read_graph(&w->outer, TENSORS("x", "y") STEP("inner", IN("a", "x") OUT("b", "t"))
                              STEP("inner", IN("a", "t") OUT("b", "y")) "}");
    read_graph(&w->inner, INNER);
    assert_int_equal(flatten(w), 0);
    assert_string_equal(graph_format(w->flat), "1.1 m(i<x) 1.2 n(i<m) 2.1 m(i<n) 2.2 n(i<m)");
    assert_true(ensemble_same(w->flat, w->flat));
    assert_false(ensemble_same(w->flat, w->outer.ensemble));
}

/* What takes the ensemble's inputs waits for the condition; what comes behind it does not run without it. */
TEST_WITH(a_condition_holds_for_what_begins, world_make, world_free) {
    struct world *w = *state;
    struct ensemble *e = read_graph(&w->outer, OUTER), *inner = read_graph(&w->inner, INNER);
    ensemble_when(e, &e->steps[1], ensemble_tensor_find(e, "t"));
    assert_int_equal(flatten(w), 0);
    assert_string_equal(graph_format(w->flat), "1 p(i<x) 2.1 m(i<p)?p 2.2 n(i<m)?p 3 q(i<n j<p)");
    ensemble_when(inner, &inner->steps[1], ensemble_tensor_find(inner, "t"));
    assert_int_equal(flatten(w), 0); /* of the second step only, which runs behind the first */
    assert_string_equal(graph_format(w->flat), "1 p(i<x) 2.1 m(i<p)?p 2.2 n(i<m)?m 3 q(i<n j<p)");
    ensemble_when(inner, &inner->steps[0], ensemble_tensor_find(inner, "a"));
    assert_int_equal(flatten(w), -EINVAL);
    assert_non_null(strstr(w->err.text, "step 2 (inner): when: step 1 (m) of that ensemble has one of its own"));
}

TEST_WITH(what_does_not_fit_is_refused, world_make, world_free) {
    struct world *w = *state;
    char many[8192] = TENSORS("a", "b");
    size_t at = strlen(many);
    for (int i = 0; i < ENSEMBLE_STEPS_MAX; i++)
        at += (size_t)snprintf(many + at, sizeof(many) - at, STEP("m", IN("i", "%s%d") OUT("o", "%s%d")), i ? "t" : "a",
                               i, i + 1 < ENSEMBLE_STEPS_MAX ? "t" : "b", i + 1);
    strcpy(many + at, "}");
    for (char *name = many; (name = strstr(name, "'a0'"));)
        memcpy(name, "'a' ", 4);
    for (char *name = many; (name = strstr(name, "'b64'"));)
        memcpy(name, "'b'  ", 5);
    read_graph(&w->outer, OUTER);
    read_graph(&w->inner, many);
    assert_int_equal(flatten(w), -EINVAL);
    assert_string_equal(w->err.text, "c: with the steps of its ensembles it has 66; at most 64 may be");
    assert_null(w->flat);
    read_graph(&w->inner, "input [ { name: 'a' dims: 4 }, { name: 'c' dims: 4 optional: true } ]"
                          "output [ { name: 'b' dims: 4 }, { name: 'd' dims: 4 } ] ensemble_scheduling {" STEP(
                              "m", IN("i", "a") OUT("o", "b")) STEP("n", IN("i", "c") OUT("o", "d")) "}");
    assert_int_equal(flatten(w), -EINVAL); /* step n has nothing to run on */
    assert_non_null(strstr(w->err.text, "step 2 (inner): input_map gives nothing that step 2 (n) of that ensemble "
                                        "takes"));
}
