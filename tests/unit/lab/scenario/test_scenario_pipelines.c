/* test_scenario_pipelines.c - the section `pipelines` of a scenario: what it gives, and its mistakes. */
#include <string.h>

#include "core/util/time.h"
#include "lab/scenario/scenario.h"
#include "unit/test.h"

#define MODELS                                                                                                         \
    "cluster: {accelerators: 8}\n"                                                                                     \
    "models: [{name: x, alpha_ms: 1, beta_ms: 9}, {name: y, alpha_ms: 1, beta_ms: 4},\n"                               \
    "  {name: z, alpha_ms: 1, beta_ms: 1, slo_ms: 50}]\n"
#define PIPELINE "pipelines:\n  - {name: p, slo_ms: 100, "
#define CHAIN    "stages: [{name: b, model: y, after: a, fan_out: 2}, {name: a, model: x}]"

static int read_text(const char *text, struct scenario *s, struct sy_error *err) {
    return scenario_read_text("s.yaml", text, strlen(text), NULL, 0, s, err);
}

TEST(every_key_is_read) {
    struct scenario s;
    struct sy_error err = {""};
    assert_int_equal(read_text(MODELS PIPELINE CHAIN
                               ", deadlines: fixed, split: {a: 60, b: 40}}\n"
                               "  - {name: q, slo_ms: 90, split: even, stages: [{model: x},\n"
                               "      {name: b, model: y, after: x, fan_out: {chance: 0.5}},\n"
                               "      {name: c, model: y, after: [x], fan_out: {uniform: [1, 3]}},\n"
                               "      {model: z, after: [b, c], fan_out: {query: 1}}]}\n"
                               "workload: {popularity: {shares: {p: 1, q: 2, z: 1}}}\n",
                               &s, &err),
                     0);
    assert_int_equal(s.pipeline_count, 2);
    const struct scenario_pipeline *p = &s.pipelines[0], *q = &s.pipelines[1];
    assert_string_equal(p->name, "p");
    assert_string_equal(p->stage_names[0], "a"); /* the file has it last */
    assert_int_equal(p->graph.stage_count, 2);
    assert_int_equal(p->graph.slo_ns, 100 * NS_PER_MS);
    assert_int_equal(p->graph.deadlines, PIPELINE_FIXED);
    assert_int_equal(p->graph.stages[0].model, 0);
    assert_int_equal(p->graph.stages[1].after, 1);
    assert_int_equal(p->graph.stages[0].part_ns, 60 * NS_PER_MS);
    assert_int_equal(p->graph.stages[0].least_ns, 10 * NS_PER_MS);
    assert_int_equal(p->graph.stages[1].fan_out.kind, FAN_OUT_POISSON);
    assert_int_equal(q->graph.deadlines, PIPELINE_FLOATING);
    assert_int_equal(q->graph.stages[3].after, 6);
    assert_int_equal(q->graph.stages[2].part_ns, 30 * NS_PER_MS);
    assert_int_equal(q->graph.stages[2].fan_out.kind, FAN_OUT_UNIFORM);
    assert_int_equal(q->graph.stages[3].fan_out.kind, FAN_OUT_QUERY);
    assert_true(p->share == 0.25 && q->share == 0.5 && s.models[2].share == 0.25 && s.models[0].share == 0);
    assert_int_equal(s.models[0].slo_ns, 30 * NS_PER_MS); /* the least part */
    assert_int_equal(s.models[0].batch_max, 91);          /* of the longest SLO */
    assert_int_equal(s.models[2].slo_ns, 50 * NS_PER_MS); /* its own */
    scenario_free(&s);
}

TEST(the_slo_is_split_as_nexus_does_if_told) {
    struct scenario s;
    struct sy_error err = {""};
    assert_int_equal(read_text(MODELS PIPELINE CHAIN ", split: nexus}\n", &s, &err), 0);
    const struct pipeline *p = &s.pipelines[0].graph;
    assert_int_equal(p->stages[0].part_ns + p->stages[1].part_ns, 100 * NS_PER_MS);
    assert_true(p->stages[0].part_ns > 40 * NS_PER_MS && p->stages[0].part_ns < 60 * NS_PER_MS);
    assert_int_equal(p->stages[0].batch_most, 0);
    assert_true(s.pipelines[0].share == 0.5 && s.models[2].share == 0.5); /* stages have no traffic of their own */
    scenario_free(&s);
}

/* At a low rate nothing gathers: each stage has what one item takes, and half of the rest. At a high one that takes no
 * time, and the parts are Nexus's. */
TEST(the_slo_is_split_for_the_rate_unless_told_otherwise) {
    struct scenario slow, fast, nexus;
    struct sy_error err = {""};
    assert_int_equal(read_text(MODELS PIPELINE CHAIN "}\nworkload: {rate_rps: 0.1}\n", &slow, &err), 0);
    assert_int_equal(read_text(MODELS PIPELINE CHAIN "}\nworkload: {rate_rps: 10000000}\n", &fast, &err), 0);
    assert_int_equal(read_text(MODELS PIPELINE CHAIN ", split: nexus}\n", &nexus, &err), 0);
    int64_t rest_ns = 100 * NS_PER_MS;
    for (int v = 0; v < 2; v++)
        rest_ns -= slow.pipelines[0].graph.stages[v].least_ns;
    for (int v = 0; v < 2; v++) {
        const struct pipeline_stage *stage = &slow.pipelines[0].graph.stages[v];
        assert_in_range(stage->part_ns, stage->least_ns + rest_ns / 2 - 2, stage->least_ns + rest_ns / 2);
        assert_true(stage->batch_most > 1); /* bursts may be batched all the same */
        assert_int_equal(slow.models[stage->model].slo_ns, stage->part_ns);
        assert_in_range(fast.pipelines[0].graph.stages[v].part_ns,
                        nexus.pipelines[0].graph.stages[v].part_ns - NS_PER_MS,
                        nexus.pipelines[0].graph.stages[v].part_ns + NS_PER_MS);
    }
    scenario_free(&slow);
    scenario_free(&fast);
    scenario_free(&nexus);
}

TEST(mistakes_say_where) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {MODELS "pipelines: 3\n", "s.yaml:4: pipelines: expected a list of 1 to 1000 pipelines"},
        {MODELS PIPELINE "stages: []}\n", "s.yaml:5: pipelines.0.stages: expected a list of 1 to 64 stages"},
        {MODELS PIPELINE "stages: [{model: w}]}\n", "s.yaml:5: pipelines.0.stages.0.model: there is no such model"},
        {MODELS PIPELINE "stages: [{model: x, after: w}]}\n",
         "s.yaml:5: pipelines.0.stages.0.after: there is no such stage"},
        {MODELS PIPELINE "stages: [{model: z}, {model: x, after: y}, {model: y, after: x}]}\n",
         "s.yaml:5: pipelines.0.stages.1.after: the stages follow each other in a circle"},
        {MODELS PIPELINE "stages: [{model: x}, {model: x}]}\n",
         "s.yaml:5: pipelines.0.stages.1: two stages are named 'x'"},
        {MODELS PIPELINE "stages: [{model: x, fan_out: {chance: 2}}]}\n",
         "s.yaml:5: pipelines.0.stages.0.fan_out.chance:"},
        {MODELS PIPELINE "stages: [{model: x, fan_out: [1]}]}\n",
         "s.yaml:5: pipelines.0.stages.0.fan_out: expected a mean, {fixed: N}"},
        {MODELS PIPELINE CHAIN ", split: {a: 10}}\n", "s.yaml:5: pipelines.0.split: stage 'b' has no part"},
        {MODELS PIPELINE CHAIN ", split: {a: 50, b: 51}}\n",
         "s.yaml:5: pipelines.0.split: the parts on one path add up to 101 ms, more than the SLO of 100 ms"},
        {MODELS PIPELINE CHAIN ", split: {a: 9, b: 51}}\n",
         "s.yaml:5: pipelines.0.split: stage 'a' gets 9 ms of the SLO, but one item alone takes 10 ms"},
        {MODELS PIPELINE CHAIN ", split: fair}\n", "s.yaml:5: pipelines.0.split: expected gathering, nexus, even or"},
        {MODELS PIPELINE CHAIN ", deadlines: soon}\n", "s.yaml:5: pipelines.0.deadlines: expected floating or fixed"},
        {MODELS "pipelines:\n  - {name: p, slo_ms: 14, " CHAIN "}\n",
         "s.yaml:5: pipelines.0: an SLO of 14 ms is too short: one item at a time takes 15 ms"},
        {"cluster: {accelerators: [{type: fast, count: 1}, {type: slow, count: 4}]}\n"
         "models: [{name: x, alpha_ms: 1, beta_ms: 9, types: {slow: {alpha_ms: 4, beta_ms: 36}}}]\n"
         "pipelines:\n  - {name: p, slo_ms: 30, stages: [{name: a, model: x}], split: nexus}\n",
         "s.yaml:4: pipelines.0: an SLO of 30 ms is too short: one item at a time takes 40 ms"},
        {MODELS "pipelines:\n  - {name: z, slo_ms: 100, " CHAIN "}\n",
         "s.yaml:5: pipelines.0: a model or pipeline is named 'z' already"},
        {MODELS PIPELINE "stages: [{model: x}]}\n",
         "s.yaml:2: models: 'y' has no slo_ms, and is a stage of no pipeline"},
        {MODELS PIPELINE CHAIN "}\nworkload: {popularity: {shares: {x: 1}}}\n",
         "s.yaml:6: workload.popularity.shares.x: the model has no slo_ms, so it can have no traffic of its own"},
        {MODELS PIPELINE CHAIN "}\nworkload: {arrivals: {trace: t.csv}}\n",
         "s.yaml:6: workload.arrivals: recorded arrivals are of models, and there are pipelines"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scenario s;
        struct sy_error err = {""};
        assert_true(read_text(cases[i].text, &s, &err) < 0);
        if (strncmp(err.text, cases[i].want, strlen(cases[i].want)) != 0)
            fail_msg("case %zu: %s\nwanted: %s", i, err.text, cases[i].want);
    }
}
