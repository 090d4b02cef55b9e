/* test_ensembles.c - ensembles made ready: their models found, an SLO chosen, and divided among the steps. */
#include "server/models/ensembles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/time.h"
#include "front/request/ensemble_plan.h"
#include "model/config/labels.h"
#include "model/config/model_config.h"
#include "model/profile/prepare.h"
#include "sched/plan/split.h"
#include "specs.h"
#include "unit/test.h"

#define MS NS_PER_MS

/* a, then b and c side by side, then d. */
#define DIAMOND                                                                                                        \
    "input { name: 'x' data_type: TYPE_FP32 dims: 4 }\n output { name: 'y' data_type: TYPE_FP32 dims: 4 }\n"           \
    "ensemble_scheduling {\n"                                                                                          \
    "step { model_name: 'a' input_map { key: 'i' value: 'x' } output_map { key: 'o' value: 't' } }\n"                  \
    "step { model_name: 'b' input_map { key: 'i' value: 't' } output_map { key: 'o' value: 'u' } }\n"                  \
    "step { model_name: 'c' input_map { key: 'i' value: 't' } output_map { key: 'o' value: 'v' } }\n"                  \
    "step { model_name: 'd' input_map { key: 'i' value: 'u' } input_map { key: 'j' value: 'v' }"                       \
    " output_map { key: 'o' value: 'y' } }\n }"

/* `whole`, between two more runs of a. */
#define AROUND                                                                                                         \
    "input { name: 'p' data_type: TYPE_FP32 dims: 4 }\n output { name: 'q' data_type: TYPE_FP32 dims: 4 }\n"           \
    "ensemble_scheduling {\n"                                                                                          \
    "step { model_name: 'a' input_map { key: 'i' value: 'p' } output_map { key: 'o' value: 't' } }\n"                  \
    "step { model_name: 'whole' input_map { key: 'x' value: 't' } output_map { key: 'y' value: 'r' } }\n"              \
    "step { model_name: 'a' input_map { key: 'i' value: 'r' } output_map { key: 'o' value: 'q' } }\n }"

enum { A, B, C, D, WHOLE, OTHER, COUNT };

struct fixture {
    struct served_model models[COUNT];
    const struct profile *profiles[COUNT];
    struct server_accelerators accelerators;
    struct ensemble_world world;
    struct step_counters counts;
    struct sy_error err;
};

static void tensor_add(struct tensor_spec *specs, uint32_t *count, const char *name) {
    struct tensor_spec *spec = &specs[(*count)++];
    *spec = (struct tensor_spec){.type = DATATYPE_FP32, .dim_count = 1, .dims = {4}};
    strcpy(spec->name, name);
}

static void steps_set(struct fixture *f, uint32_t m, const char *text) {
    struct model_config config = {0};
    assert_int_equal(model_config_read_text("c", text, strlen(text), true, &config, &f->err), 0);
    assert_int_equal(served_model_make_ensemble(&f->models[m], &config, &f->err), 0);
    model_config_release(&config);
}

static int fixture_make(void **state) {
    static const double alpha_ms[] = {1, 2, 0.1, 0.5}, beta_ms[] = {4, 1, 3, 0.5};
    struct fixture *f = *state = calloc(1, sizeof(*f));
    if (!f)
        return -1;
    for (uint32_t m = A; m <= D; m++) {
        struct served_model *model = &f->models[m];
        struct profile *profile = malloc(profile_bytes(16));
        assert_non_null(profile);
        profile_set_line(profile, 16, alpha_ms[m] * MS, beta_ms[m] * MS);
        f->profiles[m] = profile;
        strcpy(model->name, (const char[]){(char)('a' + m), '\0'});
        model->version = 1;
        model->batch_max = 16;
        model->state = MODEL_READY;
        specs_set(model, (struct signature){.input_count = 0});
        tensor_add(model->signature.inputs, &model->signature.input_count, "i");
        if (m == D)
            tensor_add(model->signature.inputs, &model->signature.input_count, "j");
        tensor_add(model->signature.outputs, &model->signature.output_count, "o");
    }
    f->accelerators.profiles = f->profiles;
    f->world =
        (struct ensemble_world){.models = f->models, .count = COUNT, .accelerators = &f->accelerators, .type_count = 1};

    strcpy(f->models[OTHER].name, "other");
    strcpy(f->models[WHOLE].name, "whole");
    steps_set(f, WHOLE, DIAMOND);
    return 0;
}

static int fixture_free(void **state) {
    struct fixture *f = *state;
    ensemble_release(&f->models[WHOLE]);
    ensemble_release(&f->models[OTHER]);
    for (uint32_t m = A; m <= D; m++)
        free((void *)f->profiles[m]);
    for (uint32_t m = 0; m < COUNT; m++)
        served_model_release(&f->models[m]);
    free(f);
    return 0;
}

static int64_t part_ns(const struct fixture *f, uint32_t stage) {
    return f->models[WHOLE].plan->part_ns[stage];
}

static int look_at(struct fixture *f, int64_t now_ns) {
    return ensemble_look(&f->models[WHOLE], &f->world, &f->counts, now_ns, &f->err);
}

static int look(struct fixture *f) {
    return look_at(f, clock_now_ns());
}

/* So many have been at each step, with an item each. */
static void counts_set(struct fixture *f, uint64_t count) {
    for (uint32_t v = A; v <= D; v++)
        f->counts.whole[v] = f->counts.items[v] = count;
}

/* Whether the parts are those of an ensemble with so many items a second; 0: of which that is not known. */
static bool is_divided_for(const struct fixture *f, double rate) {
    const struct pipeline *graph = &f->models[WHOLE].plan->graph;
    struct split_stage stages[D + 1];
    struct split_part parts[D + 1];
    int64_t least_ns[D + 1];
    void *memory = malloc(split_bytes(D + 1));
    assert_non_null(memory);
    for (uint32_t v = A; v <= D; v++) {
        stages[v] = (struct split_stage){.profile = f->profiles[v],
                                         .batch_max = profile_batch_best(f->profiles[v]),
                                         .rate = rate > 0 ? rate : 1,
                                         .gathers = rate > 0,
                                         .turns = 1,
                                         .after = graph->stages[v].after};
        least_ns[v] = f->profiles[v]->latency_ns[1];
    }
    assert_true(split_best(stages, D + 1, graph->slo_ns, memory, parts));
    split_share(stages, D + 1, graph->slo_ns, least_ns, parts);
    free(memory);
    bool same = true;
    for (uint32_t v = A; v <= D; v++)
        same &= part_ns(f, v) == parts[v].budget_ns;
    return same;
}

static int64_t longest_ns(const struct fixture *f) {
    int64_t b_ns = part_ns(f, B), c_ns = part_ns(f, C);
    return part_ns(f, A) + (b_ns > c_ns ? b_ns : c_ns) + part_ns(f, D);
}

TEST_WITH(the_parts_fill_the_slo, fixture_make, fixture_free) {
    struct fixture *f = *state;
    f->models[WHOLE].slo_ns = 60 * MS;
    assert_int_equal(ensemble_prepare(&f->models[WHOLE], &f->world, &f->err), 0);
    assert_in_range(longest_ns(f), 60 * MS - 10, 60 * MS);
    for (uint32_t v = A; v <= D; v++) {
        uint32_t most = f->models[WHOLE].plan->batch_most[v]; /* the largest that runs in the part */
        assert_true(part_ns(f, v) >= f->profiles[v]->latency_ns[1]);
        assert_in_range(most, 1, 16);
        assert_true(f->profiles[v]->latency_ns[most] <= part_ns(f, v));
        assert_true(most == 16 || f->profiles[v]->latency_ns[most + 1] > part_ns(f, v));
    }
    assert_int_equal(f->models[WHOLE].plan->graph.stage_count, 4);
    assert_int_equal(f->models[WHOLE].plan->graph.stages[D].after, 1 << B | 1 << C);
}

/* With far more time than the largest batches take, no step has less room in it than another. */
TEST_WITH(a_generous_slo_is_generous_to_every_step, fixture_make, fixture_free) {
    struct fixture *f = *state;
    f->models[WHOLE].slo_ns = 60 * NS_PER_S;
    assert_int_equal(ensemble_prepare(&f->models[WHOLE], &f->world, &f->err), 0);
    assert_in_range(longest_ns(f), 60 * NS_PER_S - 10, 60 * NS_PER_S);
    for (uint32_t v = A; v <= D; v++)
        assert_true(part_ns(f, v) > 100 * f->profiles[v]->latency_ns[16]);
}

/* Not even lone requests are within it: it is divided all the same. */
TEST_WITH(too_short_an_slo_is_divided_by_what_steps_take, fixture_make, fixture_free) {
    struct fixture *f = *state;
    f->models[WHOLE].slo_ns = 3 * MS;
    assert_int_equal(ensemble_prepare(&f->models[WHOLE], &f->world, &f->err), 0);
    assert_in_range(longest_ns(f), 3 * MS - 10, 3 * MS);
    for (uint32_t v = A; v <= D; v++) {
        assert_true(part_ns(f, v) > 0);
        assert_true(part_ns(f, v) < f->profiles[v]->latency_ns[1]);
    }
}

TEST_WITH(an_slo_is_chosen_from_those_of_the_longest_path, fixture_make, fixture_free) {
    struct fixture *f = *state;
    int64_t slo_ns[D + 1];
    assert_int_equal(ensemble_prepare(&f->models[WHOLE], &f->world, &f->err), 0);
    for (uint32_t v = A; v <= D; v++)
        slo_ns[v] = profile_default_slo_ns(f->profiles[v]);
    assert_true(slo_ns[B] != slo_ns[C]);
    assert_int_equal(f->models[WHOLE].slo_ns, slo_ns[A] + (slo_ns[B] > slo_ns[C] ? slo_ns[B] : slo_ns[C]) + slo_ns[D]);
    assert_true(f->models[WHOLE].slo_chosen);
}

TEST_WITH(what_a_step_lacks_is_named, fixture_make, fixture_free) {
    struct fixture *f = *state;
    assert_int_equal(ensemble_prepare(&f->models[WHOLE], &f->world, &f->err), 0);
    assert_int_equal(look(f), 0);

    f->models[C].state = MODEL_UNAVAILABLE;
    strcpy(f->models[C].reason, "it broke");
    assert_int_equal(look(f), -EINVAL);
    assert_string_equal(f->err.text, "c:6:1: step 3 (c): the model cannot be served: it broke");
    f->models[C].state = MODEL_READY;

    strcpy(f->models[C].name, "other");
    assert_int_equal(look(f), -EINVAL);
    assert_string_equal(f->err.text, "c:6:1: step 3 (c): there is no such model");
    strcpy(f->models[C].name, "c");

    f->models[C].signature.outputs[0].type = DATATYPE_INT64; /* another version of it */
    assert_int_equal(look(f), -EINVAL);
    assert_non_null(strstr(f->err.text, "step 4 (d)"));
    assert_non_null(strstr(f->err.text, "INT64"));
}

/* A step that is asked for much more than the others gets more of the SLO; before the next epoch only if a model
 * changes. */
TEST_WITH(the_slo_is_divided_anew_for_what_steps_come_to, fixture_make, fixture_free) {
    struct fixture *f = *state;
    struct profile *other = malloc(profile_bytes(16));
    assert_non_null(other);
    f->models[WHOLE].slo_ns = 20 * MS;
    assert_int_equal(ensemble_prepare(&f->models[WHOLE], &f->world, &f->err), 0);
    int64_t before_ns = part_ns(f, D);
    for (uint32_t v = A; v <= D; v++) {
        f->counts.whole[v] = 1000;
        f->counts.items[v] = v == D ? 100000 : 1000;
    }
    assert_int_equal(look(f), 0);
    assert_int_equal(part_ns(f, D), before_ns);

    memcpy(other, f->profiles[B], profile_bytes(16)); /* the same model once more */
    free((void *)f->profiles[B]);
    f->profiles[B] = other;
    assert_int_equal(look(f), 0);
    assert_true(part_ns(f, D) > before_ns);
    assert_in_range(longest_ns(f), 20 * MS - 10, 20 * MS);
    assert_int_equal(f->models[WHOLE].plan->divisions, 2);
}

TEST_WITH(the_slo_is_divided_for_the_measured_rate, fixture_make, fixture_free) {
    struct fixture *f = *state;
    f->models[WHOLE].slo_ns = 60 * MS;
    assert_int_equal(ensemble_prepare(&f->models[WHOLE], &f->world, &f->err), 0);
    assert_true(is_divided_for(f, 0) && !is_divided_for(f, 20));
    int64_t now_ns = clock_now_ns() + 31 * NS_PER_S;
    counts_set(f, 99); /* too few to tell */
    assert_int_equal(look_at(f, now_ns), 0);
    assert_true(is_divided_for(f, 0));

    counts_set(f, 99 + 600);
    f->counts.whole[B] = f->counts.items[B] = 5000; /* only the first step's count */
    assert_int_equal(look_at(f, now_ns += 30 * NS_PER_S), 0);
    assert_true(is_divided_for(f, 20));

    counts_set(f, 99 + 6000);
    assert_int_equal(look_at(f, now_ns + 29 * NS_PER_S), 0); /* not yet */
    assert_true(is_divided_for(f, 20));
    assert_int_equal(look_at(f, now_ns += 30 * NS_PER_S), 0);
    assert_true(is_divided_for(f, 180));

    counts_set(f, 99 + 6000 + 99); /* too few: the rate stays */
    assert_int_equal(look_at(f, now_ns += 30 * NS_PER_S), 0);
    assert_true(is_divided_for(f, 180));
    counts_set(f, 99 + 6000 + 99 + 100); /* from the last look on */
    assert_int_equal(look_at(f, now_ns += 10 * NS_PER_S), 0);
    assert_int_equal(look_at(f, now_ns += 30 * NS_PER_S), 0);
    assert_true(is_divided_for(f, 100.0 / 40));
}

/* Where other frontends answer, too, nobody knows how many come. */
TEST_WITH(no_rate_is_measured_beside_other_frontends, fixture_make, fixture_free) {
    struct fixture *f = *state;
    f->models[WHOLE].slo_ns = 60 * MS;
    f->world.elsewhere = true;
    assert_int_equal(ensemble_prepare(&f->models[WHOLE], &f->world, &f->err), 0);
    for (uint32_t i = 1; i <= 3; i++) {
        counts_set(f, 1000 * i);
        assert_int_equal(look_at(f, clock_now_ns() + 31 * i * NS_PER_S), 0);
    }
    assert_int_equal(f->models[WHOLE].plan->divisions, 4);
    assert_true(is_divided_for(f, 0));
}

/* Of a model's versions a step has the highest that is ready, or the one that it names. */
TEST_WITH(a_step_has_the_highest_version_that_is_ready, fixture_make, fixture_free) {
    struct fixture *f = *state;
    strcpy(f->models[B].name, "a"); /* a second version of it, that cannot be served */
    f->models[B].version = 2;
    f->models[B].state = MODEL_UNAVAILABLE;
    assert_int_equal(look(f), -EINVAL);
    assert_non_null(strstr(f->err.text, "step 2 (b): there is no such model"));
    strcpy(f->models[C].name, "b");
    assert_int_equal(look(f), -EINVAL); /* step 1 was found */
    assert_non_null(strstr(f->err.text, "step 3 (c)"));
}

/* The labels, models and predecessors of the steps that run. */
static void assert_runs(const struct fixture *f, uint32_t m, const char *wanted) {
    const struct ensemble *e = f->models[m].plan->ensemble;
    char text[300] = "";
    size_t at = 0;
    for (uint32_t v = 0; v < e->step_count; v++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s:%s:%x", v ? " " : "", e->steps[v].label,
                               e->steps[v].model, (unsigned)e->steps[v].after);
    assert_string_equal(text, wanted);
}

TEST_WITH(an_ensemble_s_steps_take_the_place_of_its_own, fixture_make, fixture_free) {
    struct fixture *f = *state;
    steps_set(f, OTHER, AROUND);
    f->models[OTHER].slo_ns = 80 * MS;
    assert_int_equal(ensemble_prepare(&f->models[OTHER], &f->world, &f->err), 0); /* before `whole` */
    assert_runs(f, OTHER, "1:a:0 2.1:a:1 2.2:b:2 2.3:c:2 2.4:d:c 3:a:10");
    const struct ensemble_plan *plan = f->models[OTHER].plan;
    assert_int_equal(plan->graph.stage_count, 6);
    int64_t sum_ns = plan->part_ns[0] + plan->part_ns[1] + plan->part_ns[4] + plan->part_ns[5] +
                     (plan->part_ns[2] > plan->part_ns[3] ? plan->part_ns[2] : plan->part_ns[3]);
    assert_in_range(sum_ns, 80 * MS - 10, 80 * MS);
    const struct ensemble *e = plan->ensemble;
    assert_int_equal(e->tensors[e->steps[5].outputs[0].tensor].output, 0);
    assert_int_equal(e->steps[1].inputs[0].tensor, e->steps[0].outputs[0].tensor);
    assert_int_equal(e->tensors[e->steps[4].outputs[0].tensor].output, ENSEMBLE_NONE); /* it is `whole`'s */
    assert_int_equal(f->models[OTHER].ensemble->step_count, 3);
}

/* Requests that run the earlier steps keep them; they are freed once none does, and frontends have moved on. */
TEST_WITH(another_plan_takes_the_place_of_one_that_runs, fixture_make, fixture_free) {
    struct fixture *f = *state;
    steps_set(f, OTHER, AROUND);
    assert_int_equal(ensemble_prepare(&f->models[OTHER], &f->world, &f->err), 0);
    int64_t slo_ns = f->models[OTHER].slo_ns, now_ns = clock_now_ns();
    struct ensemble_plan *first = f->models[OTHER].plan;
    assert_int_equal(ensemble_look(&f->models[OTHER], &f->world, &f->counts, now_ns, &f->err), 0);
    assert_ptr_equal(f->models[OTHER].plan, first);

    first->runs = 1;
    steps_set(f, WHOLE,
              "input { name: 'x' data_type: TYPE_FP32 dims: 4 } output { name: 'y' data_type: TYPE_FP32 dims: 4 }"
              "ensemble_scheduling { step { model_name: 'b' input_map { key: 'i' value: 'x' }"
              " output_map { key: 'o' value: 'y' } } }");
    counts_set(f, 7);
    assert_int_equal(ensemble_look(&f->models[OTHER], &f->world, &f->counts, now_ns, &f->err), 0);
    assert_runs(f, OTHER, "1:a:0 2.1:b:1 3:a:2");
    struct ensemble_plan *second = f->models[OTHER].plan;
    assert_true(second->number != first->number);
    assert_int_equal(f->models[OTHER].slo_ns, slo_ns);
    assert_string_equal(first->ensemble->steps[4].label, "2.4");

    f->world.published = 2;
    assert_int_equal(ensemble_look(&f->models[OTHER], &f->world, &f->counts, now_ns, &f->err), 0);
    assert_string_equal(first->ensemble->steps[4].label, "2.4"); /* a request has it */
    first->runs = 0;
    assert_int_equal(ensemble_look(&f->models[OTHER], &f->world, &f->counts, now_ns, &f->err), 0);
    assert_ptr_equal(f->models[OTHER].plan, second);
}

TEST_WITH(labels_are_those_of_the_nearest_ensemble, fixture_make, fixture_free) {
    struct fixture *f = *state;
    struct labels *labels[2];
    size_t length;
    steps_set(f, OTHER,
              "input { name: 'p' data_type: TYPE_FP32 dims: 4 } output { name: 'q' data_type: TYPE_FP32 dims: 4 }"
              "ensemble_scheduling { step { model_name: 'whole' input_map { key: 'x' value: 'p' }"
              " output_map { key: 'y' value: 'q' } } }");
    assert_int_equal(ensemble_prepare(&f->models[OTHER], &f->world, &f->err), 0);
    assert_null(f->models[OTHER].plan->labels[0]); /* the model's */
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(labels_take(strdup(i ? "two" : "one"), 3, &labels[i], &f->err), 0);
        f->models[WHOLE].labels[0] = labels[i]; /* as if it had been replaced */
        assert_int_equal(ensemble_look(&f->models[OTHER], &f->world, &f->counts, clock_now_ns(), &f->err), 0);
        labels_free(labels[i]);
        assert_ptr_equal(f->models[OTHER].plan->labels[0], labels[i]);
        assert_memory_equal(labels_get(f->models[OTHER].plan->labels[0], 0, &length), i ? "two" : "one", 3);
    }
    f->models[WHOLE].labels[0] = NULL;
}

TEST_WITH(ensembles_in_a_circle_are_named, fixture_make, fixture_free) {
    struct fixture *f = *state;
    steps_set(f, OTHER, AROUND);
    steps_set(f, WHOLE,
              "input { name: 'x' data_type: TYPE_FP32 dims: 4 } output { name: 'y' data_type: TYPE_FP32 dims: 4 }"
              "ensemble_scheduling { step { model_name: 'other' input_map { key: 'p' value: 'x' }"
              " output_map { key: 'q' value: 'y' } } }");
    assert_int_equal(ensemble_prepare(&f->models[OTHER], &f->world, &f->err), -EINVAL);
    assert_string_equal(f->err.text, "c:5:1: step 2 (whole): c:1:121: step 1 (other): the ensembles are steps of each "
                                     "other in a circle: other, whose step is whole, whose step is other");
}
