/* test_simulate_report.c - what `symphony simulate` prints of a simulation: its table, its JSON, what it costs. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "lab/report/simulate_report.h"
#include "unit/test.h"

#define TWO_TYPES                                                                                                      \
    "cluster: {accelerators: [{type: a, count: 3, price: 0.5}, {type: b, count: 1, price: 2}]}\n"                      \
    "models: [{name: m, alpha_ms: 1, beta_ms: 2, slo_ms: 20}]\n"                                                       \
    "workload: {rate_rps: 100, arrivals: uniform}\n"                                                                   \
    "run: {seconds: 1, warmup_seconds: 0}\n"

/* A simulation of a scenario that is changed by `set`, if that is not NULL, and run. */
static struct simulation *simulation_new(const char *text, const char *set) {
    struct simulation *s = calloc(1, sizeof(*s));
    atomic_int stop = 0;
    struct simulation_progress progress = {.stop = &stop};
    struct sy_error err;
    assert_non_null(s);
    if (simulation_make_text(s, "s.yaml", text, &set, set ? 1 : 0, &err) || simulation_run(s, &progress, NULL, &err))
        fail_msg("%s", err.text);
    return s;
}

static void simulation_end(struct simulation *s) {
    simulation_free(s);
    free(s);
}

static json_t *json_of(const struct simulation *s, const struct simulate_point *point) {
    struct text text;
    text_init(&text, NULL, 0);
    assert_int_equal(simulate_json(s, point, &text), 0);
    json_t *json = json_loads(text_end(&text), 0, NULL);
    assert_non_null(json);
    text_free(&text);
    return json;
}

/* Whether a simulation's table has a piece of text. */
static bool table_has(const struct simulation *s, const char *piece) {
    struct text text;
    text_init(&text, NULL, 0);
    simulate_table(s, "s.yaml", &text);
    bool has = strstr(text_end(&text), piece);
    text_free(&text);
    return has;
}

#define VARIANTS                                                                                                       \
    "cluster: {accelerators: 2, type: t}\n"                                                                            \
    "models: [{name: m, alpha_ms: 1, beta_ms: 5, slo_ms: 60, variants: 12, suffix: {alpha_ms: 0.1, beta_ms: 0.4}}]\n"  \
    "workload: {rate_rps: 1000}\n"                                                                                     \
    "run: {seconds: 20, warmup_seconds: 0}\n"

/* Batches run the prefix once and each suffix that is asked for, and no more than that. */
TEST(batches_of_variants_run_what_they_share_once) {
    struct simulation *s = simulation_new(VARIANTS, NULL);
    struct simulate_point alone = {.count = 0};
    const struct sim_model_result *m = &s->result.models[0];
    double prefix_ns = 0, suffixes = 0;
    assert_int_equal(s->result.offered, s->result.good);
    for (uint32_t b = 1; b <= s->cluster.models[0].batch_max; b++) {
        double none = 1; /* that none of b items is a variant's */
        for (uint32_t i = 0; i < b; i++)
            none *= 11.0 / 12;
        prefix_ns += m->batch_sizes[b] * (5e6 + 1e6 * b);
        suffixes += m->batch_sizes[b] * 12 * (1 - none);
    }
    assert_true(m->batches > 500 && m->batch_items > 19000);
    assert_true((double)m->prefix_ns == prefix_ns);
    assert_true((double)m->suffix_ns == 0.4e6 * (double)m->suffix_runs + 0.1e6 * (double)m->batch_items);
    assert_true((double)m->suffix_runs > 0.97 * suffixes && (double)m->suffix_runs < 1.03 * suffixes);
    json_t *json = json_of(s, &alone);
    json_t *variants = json_object_get(json_array_get(json_object_get(json, "models"), 0), "variants");
    assert_int_equal(json_integer_value(json_object_get(variants, "count")), 12);
    double each = json_real_value(json_object_get(variants, "suffixes_per_batch"));
    assert_true(each > 4 && each < 12);
    json_decref(json);
    simulation_end(s);
}

/* Without sharing they are models of their own, which together take more: with it, all of them are in time. */
TEST(variants_may_be_whole) {
    struct simulation *s = simulation_new(VARIANTS, "models.0.shared=false");
    assert_int_equal(s->scenario.model_count, 12);
    assert_string_equal(s->scenario.models[11].name, "m-12");
    assert_int_equal(s->cluster.models[5].profiles[0]->latency_ns[1], 6500000);
    assert_int_equal(s->cluster.models[5].profiles[0]->latency_ns[10], 16400000);
    assert_true(s->result.good < s->result.offered * 95 / 100); /* the accelerators do not suffice */
    simulation_end(s);
}

TEST(accelerators_with_prices_cost_something) {
    struct simulate_point alone = {.count = 0};
    struct simulation *s = simulation_new(TWO_TYPES, NULL);
    json_t *json = json_of(s, &alone), *cost = json_object_get(json, "cost_dollars");
    assert_true(s->result.good == s->result.offered && s->result.good >= 99 && s->result.good <= 101);
    assert_true(json_real_value(json_object_get(cost, "per_hour")) == 3.5);
    double each = json_real_value(json_object_get(cost, "per_million_good"));
    assert_true(each > 3.5 / 3600 * 1e6 / 101.5 && each < 3.5 / 3600 * 1e6 / 98.5);
    assert_true(table_has(s, "\ncost: 3.5 dollars an hour, 9."));
    json_decref(json);
    simulation_end(s);
}

TEST(queries_count_whole_and_by_stage) {
    struct simulate_point alone = {.count = 0};
    struct simulation *s =
        simulation_new("cluster: {accelerators: 4}\n"
                       "models: [{name: m, alpha_ms: 1, beta_ms: 2, slo_ms: 20}, {name: n, alpha_ms: 1, "
                       "beta_ms: 1}]\n"
                       "pipelines:\n  - {name: p, slo_ms: 50, stages: [{model: m},\n"
                       "      {name: s, model: n, after: m, fan_out: {fixed: 3}}]}\n"
                       "workload: {rate_rps: 100, arrivals: uniform, popularity: {shares: {p: 1, m: 1}}}\n"
                       "run: {seconds: 2, warmup_seconds: 0}\n",
                       NULL);
    json_t *json = json_of(s, &alone), *pipeline = json_array_get(json_object_get(json, "pipelines"), 0);
    json_t *stage = json_array_get(json_object_get(pipeline, "stages"), 1);
    json_int_t queries = json_integer_value(json_object_get(pipeline, "requests"));
    assert_in_range(queries, 99, 101);
    assert_int_equal(json_integer_value(json_object_get(stage, "requests")), 3 * queries);
    assert_string_equal(json_string_value(json_object_get(stage, "model")), "n");
    assert_true(json_real_value(json_object_get(pipeline, "bad_rate")) == 0);
    assert_true(s->result.offered == s->result.good && s->result.offered >= 199 && s->result.offered <= 201);
    assert_int_equal(s->result.models[0].offered + (uint64_t)queries, s->result.offered);
    assert_true(table_has(s, "\np              50 ") && table_has(s, "\n  s "));
    json_decref(json);
    simulation_end(s);
}

TEST(without_all_prices_nothing_is_said) {
    struct simulate_point alone = {.count = 0};
    struct simulation *s = simulation_new(TWO_TYPES, "cluster.accelerators.1.price=0");
    json_t *json = json_of(s, &alone);
    assert_null(json_object_get(json, "cost_dollars"));
    assert_false(table_has(s, "cost:"));
    json_decref(json);
    simulation_end(s);
}

TEST(without_good_requests_there_is_no_cost_of_one) {
    struct simulate_point alone = {.count = 0};
    struct simulation *s = simulation_new(TWO_TYPES, "network.reply_margin_us=19000");
    json_t *json = json_of(s, &alone), *cost = json_object_get(json, "cost_dollars");
    assert_int_equal(s->result.good, 0);
    assert_true(json_is_null(json_object_get(cost, "per_million_good")));
    assert_false(table_has(s, "cost:"));
    json_decref(json);
    simulation_end(s);
}

TEST(with_autoscaling_those_in_service_cost) {
    struct simulate_point alone = {.count = 0};
    struct simulation *s = simulation_new("cluster: {accelerators: 8, price: 3}\n"
                                          "models: [{name: m, alpha_ms: 1, beta_ms: 2, slo_ms: 20}]\n"
                                          "workload: {rate_rps: 100}\n"
                                          "autoscale: {min: 1, max: 8, start_delay_s: 1, every_s: 1}\n"
                                          "run: {seconds: 20, warmup_seconds: 0}\n",
                                          NULL);
    json_t *json = json_of(s, &alone);
    double mean = json_real_value(json_object_get(json, "accelerators_mean"));
    double cost = json_real_value(json_object_get(json_object_get(json, "cost_dollars"), "per_hour"));
    assert_true(mean > 1 && mean < 6);
    assert_true(cost > 2.999 * mean && cost < 3.001 * mean);
    json_decref(json);
    simulation_end(s);
}

TEST(a_sweeps_values_are_numbers_or_text) {
    static const struct {
        const char *value, *json;
    } cases[] = {
        {"7000", "7000"},
        {"-3", "-3"},
        {"0.5", "0.5"},
        {"1e3", "1000.0"},
        {"deferred", "\"deferred\""},
        {"{gamma: 0.1}", "\"{gamma: 0.1}\""},
        {"nan", "\"nan\""},
        {"", "\"\""},
    };
    struct simulation *s = simulation_new(TWO_TYPES, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *values[] = {(char *)cases[i].value};
        struct sweep sweep = {.key = "key", .values = values, .count = 1};
        json_t *json = json_of(s, &(struct simulate_point){.sweeps = &sweep, .count = 1});
        json_t *found = json_object_get(json_object_get(json, "sweep"), "key");
        json_t *want = json_loads(cases[i].json, JSON_DECODE_ANY, NULL);
        if (!json_equal(found, want))
            fail_msg("'%s' is not %s", cases[i].value, cases[i].json);
        json_decref(want);
        json_decref(json);
    }
    simulation_end(s);
}
