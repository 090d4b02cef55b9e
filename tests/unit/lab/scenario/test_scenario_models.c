/* test_scenario_models.c - models from the published tables and of the file's own, and their latencies by type. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/time.h"
#include "lab/scenario/scenario.h"
#include "unit/test.h"

static int read_text(const char *text, struct scenario *s, struct sy_error *err) {
    return scenario_read_text("s.yaml", text, strlen(text), NULL, 0, s, err);
}

static void read_well(const char *text, struct scenario *s) {
    struct sy_error err = {""};
    if (read_text(text, s, &err))
        fail_msg("%s", err.text);
}

/* l(batch) of a model on a type, in nanoseconds. */
static int64_t latency(const struct scenario *s, uint32_t model, uint32_t type, uint32_t batch) {
    struct profile *profile = malloc(profile_bytes(batch));
    scenario_profile(&s->models[model], type, batch, profile);
    int64_t ns = profile->latency_ns[batch];
    free(profile);
    return ns;
}

TEST(clockworks_models_have_tables_weights_and_load_times) {
    struct scenario s;
    read_well("cluster: {accelerators: 2, memory_gib: 16}\nmodels: {zoo: clockwork, copies: 2}\n", &s);
    assert_string_equal(s.types[0].name, "v100");
    assert_int_equal(s.memory_bytes, 17179869184);
    assert_int_equal(s.model_count, 12);
    assert_string_equal(s.models[8].name, "resnet50-1");
    assert_int_equal(s.models[8].slo_ns, 100 * NS_PER_MS);
    assert_int_equal(s.models[8].weights_bytes, 102300000);
    assert_int_equal(s.models[8].load_ns, 8330000);
    assert_int_equal(latency(&s, 8, 0, 1), 2610000);
    assert_int_equal(latency(&s, 8, 0, 8), 9130000);
    assert_int_equal(latency(&s, 8, 0, 12), 12400000);               /* half-way between 9.13 and 15.67 */
    assert_int_equal(latency(&s, 8, 0, 32), 15670000 + 16 * 817500); /* the last slope goes on */
    assert_int_equal(s.models[8].batch_max, 119); /* 15.67 + 103 * 0.8175 = 99.87; one more: 100.69 */
    scenario_free(&s);
    read_well("cluster: {accelerators: 2}\nmodels: {zoo: clockwork, names: [resnet18], weights_mb: 5, load_ms: 0.5}\n",
              &s);
    assert_int_equal(s.memory_bytes, 0);
    assert_int_equal(s.models[0].weights_bytes, 5000000);
    assert_int_equal(s.models[0].load_ns, 500000);
    scenario_free(&s);
}

TEST(without_a_load_time_weights_take_their_time_over_the_link) {
    struct scenario s;
    read_well("cluster: {accelerators: 2, link_gb_s: 5}\n"
              "models:\n"
              "  - {name: m, alpha_ms: 1, beta_ms: 5, slo_ms: 50, weights_mb: 100}\n"
              "  - {name: n, alpha_ms: 1, beta_ms: 5, slo_ms: 50, weights_mb: 100, load_ms: 0}\n"
              "  - {name: o, alpha_ms: 1, beta_ms: 5, slo_ms: 50}\n"
              "  - {zoo: clockwork, names: [resnet50]}\n",
              &s);
    assert_int_equal(s.models[0].load_ns, 20 * NS_PER_MS);
    assert_int_equal(s.models[1].load_ns, 0);
    assert_int_equal(s.models[2].load_ns, 0);
    assert_int_equal(s.models[3].load_ns, 8330000);
    scenario_free(&s);
    read_well("cluster: {accelerators: 2}\n"
              "models: [{name: m, alpha_ms: 1, beta_ms: 5, slo_ms: 50, weights_mb: 120}]\n",
              &s);
    assert_int_equal(s.models[0].load_ns, 10 * NS_PER_MS);
    scenario_free(&s);
}

/* A model of variants: what they share, the suffixes, which may be another by type, and all weights together. */
TEST(variants_share_what_comes_first) {
    static const char text[] =
        "cluster: {accelerators: [{type: a, count: 1}, {type: b, count: 1}]}\n"
        "models:\n"
        "  - {name: m, alpha_ms: 1, beta_ms: 5, slo_ms: 50, weights_mb: 90, variants: 3, suffix_weights_mb: 2,\n"
        "     suffix: {alpha_ms: 0.1, beta_ms: 1, types: {b: {latency_ms: {1: 2, 2: 3}}}}}\n"
        "  - {name: n, alpha_ms: 1, beta_ms: 5, slo_ms: 50}\n"
        "workload: {rate_rps: 8}\n";
    const char *whole = "models.0.shared=false";
    struct scenario s;
    struct sy_error err;
    read_well(text, &s);
    assert_int_equal(s.model_count, 2);
    assert_ptr_equal(scenario_with_variants(&s), &s.models[0]);
    assert_int_equal(s.models[0].variants, 3);
    assert_int_equal(s.models[0].weights_bytes, 96000000);
    assert_int_equal(latency(&s, 0, 0, 1), 7100000);
    assert_int_equal(latency(&s, 0, 0, 5), 13500000); /* 10 + 3 + 0.5 */
    assert_int_equal(latency(&s, 0, 1, 3), 14000000); /* 8 + 3 * 2 */
    assert_true(s.models[0].share == 0.75);
    scenario_free(&s);
    assert_int_equal(scenario_read_text("s.yaml", text, strlen(text), &whole, 1, &s, &err), 0);
    assert_int_equal(s.model_count, 4);
    assert_int_equal(s.models[2].weights_bytes, 92000000);
    assert_int_equal(latency(&s, 2, 0, 5), 11500000);
    assert_true(s.models[0].share == 0.25);
    scenario_free(&s);
    static const struct {
        const char *model, *mistake;
    } cases[] = {
        {"variants: 2", "'suffix' is missing"},
        {"variants: 0, suffix: {alpha_ms: 1, beta_ms: 1}", "variants: 0 is not in 1 to 1000"},
        {"suffix: {alpha_ms: 1, beta_ms: 1}", "models.0.suffix: goes with 'variants'"},
        {"shared: false", "models.0.shared: goes with 'variants'"},
        {"variants: 2, copies: 2, suffix: {alpha_ms: 1, beta_ms: 1}", "exclude each other"},
        {"variants: 2, suffix: {alpha_ms: 1}", "models.0.suffix: 'beta_ms' is missing"},
        {"variants: 2, suffix: {alpha_ms: 10, beta_ms: 40}", "cannot meet its SLO"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char wrong[256];
        snprintf(wrong, sizeof(wrong),
                 "cluster: {accelerators: 1}\nmodels: [{name: m, alpha_ms: 1, beta_ms: 5, slo_ms: 50, %s}]\n",
                 cases[i].model);
        assert_true(read_text(wrong, &s, &err) < 0);
        if (!strstr(err.text, cases[i].mistake))
            fail_msg("'%s' does not say '%s'", err.text, cases[i].mistake);
    }
}

TEST(kairos_has_a_profile_and_a_price_on_every_instance) {
    struct scenario s;
    read_well("cluster: {accelerators: [{type: g4dn.xlarge, count: 3}, {type: c5n.2xlarge, count: 1, price: 0.5},\n"
              "  {type: r5n.large, count: 1}, {type: t3.xlarge, count: 3}]}\n"
              "models: {zoo: kairos, names: [rm2, ncf]}\n",
              &s);
    assert_int_equal(s.accelerator_count, 8);
    assert_true(s.types[0].price == 0.526 && s.types[1].price == 0.5 && s.types[2].price == 0.149);
    assert_int_equal(s.models[0].slo_ns, 350 * NS_PER_MS);
    assert_int_equal(s.models[1].slo_ns, 5 * NS_PER_MS);
    assert_int_equal(latency(&s, 0, 0, 1000), 260784300);
    assert_int_equal(latency(&s, 0, 0, 15), (5398400 + 7954800) / 2);
    assert_int_equal(latency(&s, 0, 0, 1), 5398400 - 9 * 255640); /* the first slope goes back */
    assert_true(latency(&s, 0, 3, 1000) > 350 * NS_PER_MS);       /* too slow for the largest queries */
    assert_int_equal(s.models[0].batch_max, PROFILE_BATCH_MAX);   /* 1000 are in time on g4dn.xlarge */
    scenario_free(&s);
    read_well("cluster: {accelerators: 4}\nmodels: {zoo: kairos}\n", &s);
    assert_string_equal(s.types[0].name, "g4dn.xlarge");
    assert_int_equal(s.model_count, 5);
    assert_string_equal(s.models[4].name, "dien");
    scenario_free(&s);
}

/* Kairos's artifact lists what an instance of each kind reaches alone (allocator_profile.json), up to the queries that
 * it cannot answer in time, and how many those are. The profiles and the sizes of queries give the same. */
TEST(kairos_tables_and_sizes_give_its_throughput) {
    static const struct {
        const char *type;
        double within;
        struct {
            const char *model;
            double qps, share;
        } rows[5];
    } types[] = {
        {"g4dn.xlarge",
         0.03,
         {{"ncf", 861.33, 1}, {"rm2", 15.04, 1}, {"wnd", 246.18, 1}, {"mtwnd", 167.36, 1}, {"dien", 105.56, 1}}},
        {"c5n.2xlarge",
         0.05,
         {{"ncf", 690.13, .985},
          {"rm2", 10.73, .989},
          {"wnd", 126.04, .971},
          {"mtwnd", 100.18, .934},
          {"dien", 69.52, .873}}},
        {"r5n.large",
         0.05,
         {{"ncf", 499, .967},
          {"rm2", 10.39, .984},
          {"wnd", 106.1, .951},
          {"mtwnd", 89.4, .877},
          {"dien", 63.06, .857}}},
    };
    struct query_sizes sizes;
    struct query_size_spec spec = {.kind = QUERY_PUBLISHED, .published = query_size_published("kairos", "kairos")};
    assert_int_equal(query_sizes_fill(&spec, &sizes, NULL), 0);
    for (size_t t = 0; t < ARRAY_COUNT(types); t++) {
        struct scenario s;
        char text[128];
        snprintf(text, sizeof(text), "cluster: {accelerators: 1, type: %s}\nmodels: {zoo: kairos}\n", types[t].type);
        read_well(text, &s);
        for (uint32_t m = 0; m < s.model_count; m++) {
            struct profile *profile = malloc(profile_bytes(sizes.most));
            double share = 0, work_ns = 0;
            scenario_profile(&s.models[m], 0, sizes.most, profile);
            for (uint32_t k = 1; k <= sizes.most && profile->latency_ns[k] <= s.models[m].slo_ns; k++) {
                double probability = sizes.up_to[k] - sizes.up_to[k - 1];
                share += probability;
                work_ns += probability * (double)profile->latency_ns[k];
            }
            free(profile);
            assert_string_equal(s.models[m].name, types[t].rows[m].model);
            assert_true(fabs(share - types[t].rows[m].share) < 0.007);
            assert_true(fabs(share / work_ns * 1e9 / types[t].rows[m].qps - 1) < types[t].within);
        }
        scenario_free(&s);
    }
}

TEST(nexus_has_its_profiles_and_its_example) {
    struct scenario s;
    read_well("cluster: {accelerators: 4}\nmodels: {zoo: nexus, slo_ms: 200}\n", &s);
    assert_string_equal(s.types[0].name, "titan_x_pascal");
    assert_int_equal(s.model_count, 4);
    assert_string_equal(s.models[3].name, "darknet:yolo9000:1");
    assert_int_equal(latency(&s, 0, 0, 1), 6277400);
    assert_int_equal(latency(&s, 0, 0, 174), 611194000);
    assert_int_equal(latency(&s, 0, 0, 5), 20551200); /* measured faster than 4: tables never fall */
    scenario_free(&s);
    read_well("cluster: {accelerators: 4}\nmodels: {zoo: nexus-example}\n", &s);
    assert_int_equal(s.models[0].slo_ns, 200 * NS_PER_MS);
    assert_int_equal(s.models[2].slo_ns, 250 * NS_PER_MS);
    assert_int_equal(latency(&s, 0, 0, 8), 75 * NS_PER_MS);
    assert_int_equal(latency(&s, 2, 0, 4), 60 * NS_PER_MS);
    assert_string_equal(s.types[0].name, "example");
    scenario_free(&s);
}

TEST(own_models_take_lines_and_tables_by_type) {
    struct scenario s;
    read_well(
        "cluster: {accelerators: [{type: a, count: 1}, {type: b, count: 1}], noise: 0.05,\n"
        "  faults: {every_s: 10, for_s: 2, kind: stall}}\n"
        "models:\n"
        "- {name: m, latency_ms: {1: 2, 4: 5}, slo_ms: 20, weights_mb: 1.5, load_ms: 3, copies: 2, weight: 4, pinned: "
        "true,\n"
        "   types: {b: {alpha_ms: 1, beta_ms: 3}}}\n"
        "- {name: n, slo_ms: 20, batch_max: 64, types: {a: {latency_ms: [[2, 4], [3, 7]]}, b: {latency_ms: {8: 8}}}}\n"
        "- {name: o, slo_ms: 20, types: {a: {latency_ms: [[6, 0.6], [9, 1.8]]}, b: {latency_ms: [[6, 6], [9, "
        "6.3]]}}}\n",
        &s);
    assert_int_equal(s.model_count, 4);
    assert_int_equal(latency(&s, 1, 0, 1), 2 * NS_PER_MS);
    assert_int_equal(latency(&s, 1, 0, 3), 4 * NS_PER_MS);
    assert_int_equal(latency(&s, 1, 0, 10), 11 * NS_PER_MS);
    assert_int_equal(latency(&s, 1, 1, 10), 13 * NS_PER_MS);
    assert_int_equal(latency(&s, 2, 0, 1), 2 * NS_PER_MS); /* before the first row an item costs no less than there */
    assert_int_equal(latency(&s, 3, 0, 1), NS_PER_MS / 10);
    assert_int_equal(latency(&s, 3, 1, 1), 55 * NS_PER_MS / 10); /* nor does the line cost less here */
    assert_int_equal(latency(&s, 2, 0, 4), 10 * NS_PER_MS);
    assert_int_equal(latency(&s, 2, 1, 4), 4 * NS_PER_MS); /* of one point: in proportion */
    assert_int_equal(s.models[1].weights_bytes, 1500000);
    assert_int_equal(s.models[1].load_ns, 3 * NS_PER_MS);
    assert_true(s.models[1].weight == 4 && s.models[2].weight == 1);
    assert_true(s.models[1].pinned && !s.models[2].pinned);
    assert_int_equal(s.models[1].batch_max, 19);
    assert_int_equal(s.models[2].batch_max, 64); /* as given, whatever is in time */
    assert_true(s.noise == 0.05 && s.fault_every_s == 10 && s.fault_s == 2 && s.fault_stalls == 1);
    scenario_free(&s);
}

TEST(faults_of_backends_the_scheduler_and_the_network) {
    static const struct {
        const char *kind;
        double stalls;
        bool again, silent;
    } kinds[] = {
        {"die", 0, false, false}, {"stall", 1, false, false}, {"both", 0.5, false, false},
        {"kill", 0, true, false}, {"silent", 0, true, true},
    };
    struct scenario s;
    char text[512];
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        snprintf(text, sizeof(text),
                 "cluster: {accelerators: 8, faults: {every_s: 10, for_s: 2, kind: %s, backends: 3, noticed_ms: 50},\n"
                 "  scheduler_faults: {every_s: 7, for_s: 0.5}}\n"
                 "models: {zoo: a100}\nnetwork: {jitter_us: 300, margin_us: 400, loss: 0.01, resend_ms: 4}\n",
                 kinds[i].kind);
        read_well(text, &s);
        assert_true(s.fault_stalls == kinds[i].stalls && s.fault_again == kinds[i].again);
        assert_true(s.fault_silent == kinds[i].silent);
        assert_int_equal(s.fault_backends, 3);
        assert_int_equal(s.fault_noticed_ns, 50 * NS_PER_MS);
        assert_true(s.scheduler_every_s == 7 && s.scheduler_down_s == 0.5);
        assert_int_equal(s.link_jitter_ns, 300 * NS_PER_US);
        assert_int_equal(s.link_margin_ns, 400 * NS_PER_US);
        assert_true(s.link_loss == 0.01);
        assert_int_equal(s.link_resend_ns, 4 * NS_PER_MS);
        scenario_free(&s);
    }
    read_well("cluster: {accelerators: 8}\nmodels: {zoo: a100}\n", &s);
    assert_true(s.link_jitter_ns == 0 && s.link_loss == 0 && s.scheduler_every_s == 0 && !s.fault_again);
    scenario_free(&s);
}

#define CLUSTER "cluster: {accelerators: 8, type: t}\n"

TEST(requests_may_have_classes) {
    struct scenario s;
    read_well(CLUSTER "models:\n"
                      "  - {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 10, best_effort: 0.25, priorities: [1, 3]}\n"
                      "  - {name: n, alpha_ms: 1, beta_ms: 1, slo_ms: 10}\n",
              &s);
    assert_true(s.models[0].best_effort == 0.25);
    assert_int_equal(s.models[0].priority_count, 2);
    assert_true(s.models[0].priorities[0] == 0.25 && s.models[0].priorities[1] == 0.75);
    assert_true(s.models[1].best_effort == 0 && s.models[1].priority_count == 0);
    scenario_free(&s);
    read_well("cluster: {accelerators: 2, type: gtx1080ti}\nmodels: {zoo: gtx1080ti, best_effort: 1}\n", &s);
    assert_true(s.models[34].best_effort == 1);
    scenario_free(&s);
}

TEST(mistakes_are_named) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"cluster: {accelerators: 1}\nmodels: {zoo: nexus}\n",
         "s.yaml:2: models: 'slo_ms' is missing: the zoo 'nexus' has no SLOs"},
        {"cluster: {accelerators: 1}\nmodels: {zoo: kairos, select: gt2}\n",
         "s.yaml:2: models.select: the models of 'kairos' have tables, not lines, so there is no beta/alpha"},
        {"cluster: {accelerators: 1}\nmodels: {zoo: kairos, names: [ResNet50]}\n",
         "s.yaml:2: models.names.0: the zoo has no 'ResNet50' on 'g4dn.xlarge'"},
        {"cluster: {accelerators: [{type: v100, count: 1}, {type: a100, count: 1}]}\nmodels: {zoo: clockwork}\n",
         "s.yaml:2: models: the zoo has no profile of 'densenet169' on 'a100'"},
        {CLUSTER "models:\n- {name: m, latency_ms: {1: 2}, alpha_ms: 1, slo_ms: 9}\n",
         "s.yaml:3: models.0.latency_ms: a table excludes alpha_ms and beta_ms"},
        {CLUSTER "models:\n- {name: m, latency_ms: 5, slo_ms: 9}\n",
         "s.yaml:3: models.0.latency_ms: expected a table, {1: 2.6, 2: 4} or [[1, 2.6], [2, 4]]: batch sizes and "
         "milliseconds"},
        {CLUSTER "models:\n- {name: m, latency_ms: {}, slo_ms: 9}\n",
         "s.yaml:3: models.0.latency_ms: expected a table, {1: 2.6, 2: 4} or [[1, 2.6], [2, 4]]: batch sizes and "
         "milliseconds"},
        {CLUSTER "models:\n- name: m\n  slo_ms: 9\n  latency_ms:\n    2: 2\n    1: 3\n",
         "s.yaml:7: models.0.latency_ms.1: the batch sizes must rise"},
        {CLUSTER "models:\n- {name: m, latency_ms: {1x: 2}, slo_ms: 9}\n",
         "s.yaml:3: models.0.latency_ms.1x: expected a batch size from 1 to 1024 before the colon"},
        {CLUSTER "models:\n- {name: m, latency_ms: {1025: 2}, slo_ms: 9}\n",
         "s.yaml:3: models.0.latency_ms.1025: expected a batch size from 1 to 1024 before the colon"},
        {CLUSTER "models:\n- {name: m, latency_ms: [[1, 2, 3]], slo_ms: 9}\n",
         "s.yaml:3: models.0.latency_ms.0: expected [batch size, milliseconds]"},
        {CLUSTER "models:\n- {name: m, latency_ms: [[1, 0]], slo_ms: 9}\n",
         "s.yaml:3: models.0.latency_ms.0.1: 0 is not in 1e-06 to 3600000 (expected a number of milliseconds)"},
        {CLUSTER "models:\n- {name: m, latency_ms: {1: 10}, slo_ms: 9}\n",
         "s.yaml:3: models.0: 'm' cannot meet its SLO of 9 ms: one request alone takes 10 ms"},
        {"cluster: {accelerators: [{type: a, count: 1}, {type: b, count: 1}]}\n"
         "models:\n- {name: m, slo_ms: 9, types: {a: {latency_ms: {1: 1}}}}\n",
         "s.yaml:3: models.0.types: there is no latency on 'b'"},
        {CLUSTER "models:\n- {name: m, slo_ms: 9}\n", "s.yaml:3: models.0: 'alpha_ms' is missing"},
        {CLUSTER "models:\n- {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 9, weights_mb: -1}\n",
         "s.yaml:3: models.0.weights_mb: -1 is not in 0 to 10000000 (expected a number of megabytes)"},
        {CLUSTER "models:\n- {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 9, weight: 0}\n",
         "s.yaml:3: models.0.weight: 0 is not in 0.001 to 1000 (expected how much a model's share weighs beside the "
         "others')"},
        {CLUSTER "models:\n- {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 9, best_effort: 2}\n",
         "s.yaml:3: models.0.best_effort: 2 is not in 0 to 1 (expected a share of the requests, 0 to 1)"},
        {CLUSTER "models:\n- {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 9, priorities: 3}\n",
         "s.yaml:3: models.0.priorities: expected a list of the shares of 1 to 32 priorities, the highest first"},
        {CLUSTER "models:\n- {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 9, priorities: [0, 0]}\n",
         "s.yaml:3: models.0.priorities: the shares add up to nothing"},
        {"cluster: {accelerators: 8, faults: {every_s: 5}}\nmodels: {zoo: a100}\n",
         "s.yaml:1: cluster.faults: 'for_s' is missing"},
        {"cluster: {accelerators: 8, faults: {every_s: 5, for_s: 1, kind: nap}}\nmodels: {zoo: a100}\n",
         "s.yaml:1: cluster.faults.kind: expected die, stall, both, kill or silent"},
        {"cluster: {accelerators: 8, faults: {every_s: 5, for_s: 1, backends: 9}}\nmodels: {zoo: a100}\n",
         "s.yaml:1: cluster.faults: 9 backends for 8 accelerators"},
        {"cluster: {accelerators: 8, scheduler_faults: {for_s: 1}}\nmodels: {zoo: a100}\n",
         "s.yaml:1: cluster.scheduler_faults: 'every_s' is missing"},
        {"cluster: {accelerators: 8, scheduler_faults: {every_s: 1}}\nmodels: {zoo: a100}\n",
         "s.yaml:1: cluster.scheduler_faults: 'for_s' is missing"},
        {"cluster: {accelerators: 8, noise: 5}\nmodels: {zoo: a100}\n",
         "s.yaml:1: cluster.noise: 5 is not in 0 to 1 (expected a share of l(b))"},
        {"cluster: {accelerators: [{type: a, count: 1}], price: 1}\nmodels: {zoo: a100}\n",
         "s.yaml:1: cluster: 'price' goes with a number of accelerators, not with a list of types"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scenario s;
        struct sy_error err = {""};
        assert_int_equal(read_text(cases[i].text, &s, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].want);
    }
}
