/* test_scenario.c - scenario files, good and bad, the ones that come with the program, and the models they serve. */
#include "unit/test.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/time.h"
#include "lab/scenario/scenario.h"
#include "lab/sim/cluster.h"
#include "server/models/scenario_served.h"

#define CLUSTER "cluster: {accelerators: 8, type: t}\n"
#define MODELS  "models: [{name: m, alpha_ms: 1, beta_ms: 5, slo_ms: 25}]\n"

static int read_text(const char *text, const char *set, struct scenario *s, struct sy_error *err) {
    return scenario_read_text("dir/s.yaml", text, strlen(text), &set, set ? 1 : 0, s, err);
}

TEST(defaults_hold) {
    struct scenario s;
    struct sy_error err = {""};
    assert_int_equal(read_text(CLUSTER MODELS, NULL, &s, &err), 0);
    assert_int_equal(s.accelerator_count, 8);
    assert_int_equal(s.type_count, 1);
    assert_string_equal(s.types[0].name, "t");
    assert_int_equal(s.model_count, 1);
    assert_string_equal(s.models[0].name, "m");
    assert_true(s.models[0].latency[0].alpha_ns == 1e6 && s.models[0].latency[0].beta_ns == 5e6);
    assert_int_equal(s.models[0].slo_ns, 25 * NS_PER_MS);
    assert_true(s.models[0].share == 1);
    assert_int_equal(s.step_count, 0);
    assert_int_equal(s.arrivals, ARRIVALS_POISSON);
    assert_string_equal(s.policy->name, "deferred");
    assert_false(s.policy_options.value[0] != 0);
    assert_int_equal(s.ctrl_ns, 0);
    assert_false(s.autoscale.enabled);
    assert_int_equal(s.duration_ns, 30 * NS_PER_S);
    assert_int_equal(s.warmup_ns, 3 * NS_PER_S);
    assert_int_equal(s.seed, 1);
    scenario_free(&s);
}

TEST(every_key_is_read) {
    static const char text[] = "cluster:\n"
                               "  accelerators: [{type: a, count: 3}, {type: b, count: 5}]\n"
                               "models:\n"
                               "  - {name: r, alpha_ms: 1.5, beta_ms: 4, slo_ms: 30, copies: 2,\n"
                               "     types: {b: {alpha_ms: 0.5, beta_ms: 2}}}\n"
                               "  - {name: q, alpha_ms: 0, beta_ms: 1, slo_ms: 10}\n"
                               "workload:\n"
                               "  rate_rps: {steps: [[0, 100], [2.5, 400]]}\n"
                               "  arrivals: {gamma: 0.1}\n"
                               "  popularity: {shares: {r: 3, q: 1}}\n"
                               "policy: {name: deferred, consolidate: true}\n"
                               "network: {ctrl_us: 100, data_us_per_request: 0.5, reply_margin_us: 2000}\n"
                               "run: {seconds: 5, warmup_seconds: 0, seed: 42}\n";
    struct scenario s;
    struct sy_error err = {""};
    assert_int_equal(read_text(text, NULL, &s, &err), 0);
    assert_int_equal(s.type_count, 2);
    assert_int_equal(s.accelerator_count, 8);
    assert_int_equal(s.types[1].count, 5);
    assert_int_equal(s.model_count, 3);
    assert_string_equal(s.models[0].name, "r-1");
    assert_string_equal(s.models[1].name, "r-2");
    assert_string_equal(s.models[2].name, "q");
    assert_true(s.models[1].latency[0].alpha_ns == 1.5e6 && s.models[1].latency[0].beta_ns == 4e6);
    assert_true(s.models[1].latency[1].alpha_ns == 0.5e6 && s.models[1].latency[1].beta_ns == 2e6);
    assert_true(s.models[0].share == 0.375 && s.models[1].share == 0.375 && s.models[2].share == 0.25);
    assert_int_equal(s.step_count, 2);
    assert_int_equal(s.steps[1].start_ns, 2500 * NS_PER_MS);
    assert_true(s.steps[1].rate_rps == 400);
    assert_int_equal(s.arrivals, ARRIVALS_GAMMA);
    assert_true(s.gamma_shape == 0.1);
    assert_true(s.policy_options.value[0] != 0);
    assert_int_equal(s.ctrl_ns, 100000);
    assert_int_equal(s.data_ns, 500);
    assert_int_equal(s.reply_margin_ns, 2000000);
    assert_int_equal(s.duration_ns, 5 * NS_PER_S);
    assert_int_equal(s.warmup_ns, 0);
    assert_int_equal(s.seed, 42);
    scenario_free(&s);
    assert_int_equal(read_text(CLUSTER MODELS "workload: {rate_rps: 7, arrivals: {trace: t.csv}}\n"
                                              "autoscale: {min: 4, max: 128, start_delay_s: 30, headroom: 0.2}\n",
                               NULL, &s, &err),
                     0);
    assert_int_equal(s.arrivals, ARRIVALS_TRACE);
    assert_string_equal(s.trace.path, "dir/t.csv");
    assert_true(s.step_count == 1 && s.steps[0].start_ns == 0 && s.steps[0].rate_rps == 7);
    assert_true(s.autoscale.enabled && s.autoscale.headroom == 0.2);
    assert_int_equal(s.autoscale.min, 4);
    assert_int_equal(s.autoscale.max, 128);
    assert_int_equal(s.autoscale.start_delay_ns, 30 * NS_PER_S);
    assert_int_equal(s.autoscale.every_ns, 10 * NS_PER_S);
    scenario_free(&s);
}

TEST(zoos_are_selected) {
    static const struct {
        const char *cluster, *models;
        uint32_t count;
        const char *first, *last, *type;
    } cases[] = {
        {"{accelerators: 4}", "{zoo: gtx1080ti}", 35, "NASNetMobile", "BERT", "gtx1080ti"},
        {"{accelerators: 4}", "{zoo: a100, select: gt2}", 29, "DenseNet121", "NASNetLarge", "a100"},
        {"{accelerators: 4}", "{zoo: a100, select: lt2}", 8, "EfficientNetV2M", "BERT", "a100"},
        {"{accelerators: 4}", "{zoo: gtx1080ti, names: [BERT, ResNet50], copies: 2}", 4, "BERT-1", "ResNet50-2",
         "gtx1080ti"},
        {"{accelerators: 4, type: mine}", "[{zoo: a100, names: [BERT]}, {name: x, alpha_ms: 1, beta_ms: 1, slo_ms: 5}]",
         2, "BERT", "x", "mine"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scenario s;
        struct sy_error err = {""};
        char text[256];
        snprintf(text, sizeof(text), "cluster: %s\nmodels: %s\n", cases[i].cluster, cases[i].models);
        assert_int_equal(read_text(text, NULL, &s, &err), 0);
        assert_int_equal(s.model_count, cases[i].count);
        assert_string_equal(s.models[0].name, cases[i].first);
        assert_string_equal(s.models[s.model_count - 1].name, cases[i].last);
        assert_string_equal(s.types[0].name, cases[i].type);
        scenario_free(&s);
    }
}

TEST(a_types_own_zoo_profile_is_taken) {
    struct scenario s;
    struct sy_error err = {""};
    assert_int_equal(read_text("cluster: {accelerators: [{type: gtx1080ti, count: 1}, {type: a100, count: 1}]}\n"
                               "models: {zoo: gtx1080ti, names: [ResNet50]}\n",
                               NULL, &s, &err),
                     0);
    assert_true(fabs(s.models[0].latency[0].alpha_ns - 2.050e6) < 1 &&
                fabs(s.models[0].latency[1].alpha_ns - 0.268e6) < 1);
    assert_int_equal(s.models[0].slo_ns, 27 * NS_PER_MS);
    scenario_free(&s);
}

TEST(popularity_is_shared_out) {
    static const char models[] = "models: [{name: m, alpha_ms: 1, beta_ms: 5, slo_ms: 25, copies: 4}]\n";
    static const struct {
        const char *popularity;
        double shares[4];
    } cases[] = {
        {"equal", {0.25, 0.25, 0.25, 0.25}},
        {"{zipf: 1}", {12 / 25., 6 / 25., 4 / 25., 3 / 25.}},
        {"{shares: {m: 1}}", {0.25, 0.25, 0.25, 0.25}},
        {"{shares: {m-2: 1, m-3: 3}}", {0, 0.25, 0.75, 0}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scenario s;
        struct sy_error err = {""};
        char text[256];
        snprintf(text, sizeof(text), CLUSTER "%sworkload: {popularity: %s}\n", models, cases[i].popularity);
        assert_int_equal(read_text(text, NULL, &s, &err), 0);
        for (int m = 0; m < 4; m++)
            assert_true(fabs(s.models[m].share - cases[i].shares[m]) < 1e-9);
        scenario_free(&s);
    }
}

TEST(mistakes_name_file_line_and_key) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", ":1: 'cluster' is missing"},
        {CLUSTER, ":1: 'models' is missing"},
        {CLUSTER MODELS "model: x\n",
         ":3: model: unknown key (expected cluster, models, pipelines, workload, policy, network, autoscale, run)"},
        {"cluster: 8\n" MODELS,
         ":1: cluster: expected a mapping with the keys accelerators, type, price, memory_gib, link_gb_s, noise, "
         "faults, scheduler_faults, subclusters, epoch_s, max_rate_rps"},
        {"cluster: {type: t}\n" MODELS, ":1: cluster: 'accelerators' is missing"},
        {"cluster: {accelerators: 0}\n" MODELS,
         ":1: cluster.accelerators: 0 is not in 1 to 1000000 (expected a number of accelerators or a list of {type, "
         "count})"},
        {"cluster: {accelerators: [{type: a}]}\n" MODELS, ":1: cluster.accelerators.0: 'count' is missing"},
        {"cluster: {accelerators: [{type: a, count: 1}, {type: a, count: 1}]}\n" MODELS,
         ":1: cluster.accelerators.1: the type 'a' is listed twice"},
        {"cluster: {accelerators: [{type: a, count: 9}, {type: b, count: 3}], subclusters: 4}\n" MODELS,
         ":1: cluster.subclusters: 4 for 3 accelerators of type b"},
        {CLUSTER "models: []\n", ":2: models: no models"},
        {CLUSTER "models: zoo\n", ":2: models: expected {zoo: ...} or a list of models"},
        {CLUSTER "models: {zoo: h100}\n", ":2: models.zoo: there is no zoo 'h100' (expected gtx1080ti, a100, "
                                          "clockwork, kairos, nexus or nexus-example)"},
        {CLUSTER "models: {zoo: a100, select: some}\n", ":2: models.select: 'some' is not one of all, gt2, lt2"},
        {CLUSTER "models: {zoo: a100, names: [LeNet]}\n", ":2: models.names.0: the zoo has no 'LeNet' on 'a100'"},
        {CLUSTER "models: {zoo: a100, names: [BERT], select: all}\n",
         ":2: models.names: 'names' and 'select' exclude each other"},
        {"cluster: {accelerators: [{type: gtx1080ti, count: 1}, {type: a100, count: 1}]}\n"
         "models: {zoo: a100, names: [EfficientNetB7]}\n",
         ":2: models.names.0: the zoo has no profile of 'EfficientNetB7' on 'gtx1080ti'"},
        {CLUSTER "models:\n- {name: m, alpha_ms: 1, beta_ms: 5}\n", ":3: models.0: 'slo_ms' is missing"},
        {CLUSTER "models:\n- {name: m, beta_ms: 5, slo_ms: 9}\n", ":3: models.0: 'alpha_ms' is missing"},
        {CLUSTER "models:\n- {name: m, alpha_ms: 0, beta_ms: 0, slo_ms: 9}\n",
         ":3: models.0: alpha_ms and beta_ms are both 0"},
        {CLUSTER "models:\n- {name: m, alpha_ms: 5, beta_ms: 5, slo_ms: 9}\n",
         ":3: models.0: 'm' cannot meet its SLO of 9 ms: one request alone takes 10 ms"},
        {CLUSTER "models:\n- {name: m/n, alpha_ms: 5, beta_ms: 5, slo_ms: 90}\n",
         ":3: models.0: 'm/n' will not do as a model's name (expected 1 to 127 printable ASCII characters without "
         "blanks, quotes and slashes)"},
        {CLUSTER "models:\n- {name: m, alpha_ms: 5, beta_ms: 5, slo_ms: 90, types: {z: {}}}\n",
         ":3: models.0.types.z: the cluster has no accelerators of this type"},
        {CLUSTER "models: [{zoo: a100, names: [BERT]}, {zoo: a100}]\n", ":2: models: two models are named 'BERT'"},
        {CLUSTER MODELS "workload: {rate_rps: fast}\n",
         ":3: workload.rate_rps: 'fast' is not a number (expected a number of requests per second)"},
        {CLUSTER MODELS "workload: {rate_rps: {steps: [[1, 5]]}}\n",
         ":3: workload.rate_rps.steps.0: the first step must be at second 0"},
        {CLUSTER MODELS "workload: {rate_rps: {steps: [[0, 5], [0, 6]]}}\n",
         ":3: workload.rate_rps.steps.1: the steps' seconds must rise"},
        {CLUSTER MODELS "workload: {rate_rps: {steps: [5]}}\n",
         ":3: workload.rate_rps.steps.0: expected [second, requests per second]"},
        {CLUSTER MODELS "workload: {arrivals: often}\n",
         ":3: workload.arrivals: expected poisson, uniform, {gamma: SHAPE} or {trace: FILE}"},
        {CLUSTER MODELS "workload: {arrivals: {gamma: 0}}\n",
         ":3: workload.arrivals.gamma: 0 is not in 0.001 to 1000 (expected the shape of a gamma distribution)"},
        {CLUSTER MODELS "workload: {popularity: {shares: {x: 1}}}\n",
         ":3: workload.popularity.shares.x: there is no such model"},
        {CLUSTER MODELS "workload: {popularity: {shares: {m: 0}}}\n",
         ":3: workload.popularity.shares: the shares add up to nothing"},
        {CLUSTER MODELS "workload: {popularity: zipf}\n",
         ":3: workload.popularity: expected equal, {zipf: EXPONENT} or {shares: {MODEL: x, ...}}"},
        {CLUSTER MODELS "network: {ctrl_us: -1}\n",
         ":3: network.ctrl_us: -1 is not in 0 to 60000000 (expected a number of microseconds)"},
        {"cluster: {accelerators: [{type: x, count: 1, price: 1}, {type: y, count: 1}]}\n"
         "models: [{name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 30}]\n"
         "autoscale: {max: 9}\n",
         ":3: autoscale: works with one accelerator type, or with one model and a policy that chooses pools (kairos "
         "with a "
         "budget); the cluster has 2 types"},
        {"cluster: {accelerators: [{type: x, count: 1, price: 1}, {type: y, count: 1}]}\n"
         "models: [{name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 30}]\n"
         "autoscale: {every_s: 1}\n"
         "policy: {name: kairos, budget: 3}\n",
         ":3: autoscale: the price of 'y' is not known"},
        {CLUSTER MODELS "autoscale: {min: 9, max: 10}\n",
         ":3: autoscale: it begins with the cluster's 8 accelerators, which are not in 9 to 10"},
        {CLUSTER MODELS "autoscale: {min: 1}\n", ":3: autoscale: 'max' is missing"},
        {CLUSTER MODELS "run: {seconds: 0}\n",
         ":3: run.seconds: 0 is not in 0.001 to 10000000 (expected a number of seconds)"},
        {CLUSTER MODELS "run: {seed: 1.5}\n", ":3: run.seed: '1.5' is not a whole number (expected a whole number)"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scenario s;
        struct sy_error err = {""};
        assert_int_equal(read_text(cases[i].text, NULL, &s, &err), -EINVAL);
        assert_memory_equal(err.text, "dir/s.yaml", 10);
        assert_string_equal(err.text + 10, cases[i].want);
        assert_null(s.models);
    }
    struct scenario s;
    struct sy_error err = {""};
    assert_int_equal(read_text(CLUSTER MODELS "policy: {name: magic}\n", NULL, &s, &err), -EINVAL);
    assert_non_null(strstr(err.text, "dir/s.yaml:3: policy.name: there is no policy 'magic' (expected deferred"));
}

TEST(overrides_change_the_file) {
    struct scenario s;
    struct sy_error err = {""};
    assert_int_equal(read_text(CLUSTER MODELS, "workload.rate_rps={steps: [[0, 5], [1, 6]]}", &s, &err), 0);
    assert_int_equal(s.step_count, 2);
    scenario_free(&s);
    assert_int_equal(read_text(CLUSTER MODELS, "models.0.slo_ms=50", &s, &err), 0);
    assert_int_equal(s.models[0].slo_ns, 50 * NS_PER_MS);
    scenario_free(&s);
    assert_int_equal(read_text(CLUSTER MODELS, "workload.arrivals={trace: t.csv}", &s, &err), 0);
    assert_string_equal(s.trace.path, "t.csv"); /* a command line's paths are relative to where it is given */
    scenario_free(&s);
    assert_int_equal(read_text(CLUSTER MODELS, "run.second=5", &s, &err), -EINVAL);
    assert_string_equal(err.text, "--set: run.second: unknown key (expected seconds, warmup_seconds, seed)");
}

TEST(batches_fit_the_slo) {
    static const struct {
        const char *model;
        uint32_t batch_max;
    } cases[] = {
        {"alpha_ms: 1, beta_ms: 5, slo_ms: 25", 20},         {"alpha_ms: 1, beta_ms: 5, slo_ms: 25.5", 20},
        {"alpha_ms: 1, beta_ms: 5, slo_ms: 6", 1},           {"alpha_ms: 0, beta_ms: 5, slo_ms: 25", 1024},
        {"alpha_ms: 1.053, beta_ms: 5.072, slo_ms: 25", 18},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scenario s;
        struct sy_error err = {""};
        char text[256];
        snprintf(text, sizeof(text), CLUSTER "models: [{name: m, %s}]\n", cases[i].model);
        assert_int_equal(read_text(text, NULL, &s, &err), 0);
        assert_int_equal(s.models[0].batch_max, cases[i].batch_max);
        scenario_free(&s);
    }
}

TEST(scenarios_can_be_served) {
    struct scenario s;
    struct sy_error err = {""};
    struct served_model *models;
    struct profile **profiles;
    uint32_t count;
    assert_int_equal(
        read_text("cluster: {accelerators: [{type: a, count: 1}, {type: b, count: 1}]}\n"
                  "models:\n- {name: m, alpha_ms: 1, beta_ms: 5, slo_ms: 25}\n"
                  "- {name: n, alpha_ms: 2, beta_ms: 5, slo_ms: 25, types: {b: {alpha_ms: 1, beta_ms: 1}}}",
                  NULL, &s, &err),
        0);
    assert_int_equal(scenario_served_models(&s, &models, &profiles, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_string_equal(models[1].name, "n");
    assert_string_equal(models[1].platform, "emulated");
    assert_int_equal(models[1].state, MODEL_READY);
    assert_int_equal(models[1].slo_ns, 25 * NS_PER_MS);
    assert_int_equal(models[1].batch_max, 24);
    assert_true(models[1].signature.batched && !models[1].signature.variable_shapes);
    assert_string_equal(models[1].signature.inputs[0].name, "INPUT");
    assert_int_equal(models[1].signature.outputs[0].type, DATATYPE_FP32);
    assert_int_equal(models[1].signature.inputs[0].dims[0], -1);
    assert_int_equal(models[1].signature.inputs[0].dims[1], 1);
    assert_int_equal(models[0].batch_max, 20);
    assert_int_equal(profiles[0]->batch_max, 20);
    assert_int_equal(profiles[2]->latency_ns[3], 11 * NS_PER_MS);
    assert_int_equal(profiles[3]->latency_ns[25], 26 * NS_PER_MS);
    scenario_models_free(&s, models, profiles, count);
    scenario_free(&s);
}

static void folder_is_valid(const char *folder, int least) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml") != 0)
            continue;
        char path[512];
        struct scenario s;
        struct sy_error err = {""};
        snprintf(path, sizeof(path), "%.200s/%.200s", folder, entry->d_name);
        struct cluster c;
        if (scenario_read(path, NULL, 0, &s, &err) || cluster_make(&c, &s, &err))
            fail_msg("%s", err.text);
        cluster_free(&c);
        scenario_free(&s);
        count++;
    }
    closedir(dir);
    assert_true(count >= least);
}

TEST(the_examples_are_valid) {
    folder_is_valid(TESTS_DIR "/../scenarios", 3);
    folder_is_valid(TESTS_DIR "/../scenarios/pipelines", 4);
}
