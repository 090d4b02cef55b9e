/* test_cluster.c - a scenario made into what the simulator takes. */
#include "lab/sim/cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lab/scenario/scenario.h"
#include "unit/test.h"
#include "unit/text_file.h"

static void cluster_of(const char *text, struct cluster *cluster) {
    struct scenario scenario;
    struct sy_error err = {""};
    if (scenario_read_text("s.yaml", text, strlen(text), NULL, 0, &scenario, &err) ||
        cluster_make(cluster, &scenario, &err))
        fail_msg("%s", err.text);
    scenario_free(&scenario);
}

TEST(test_everything_arrives) {
    struct cluster c;
    cluster_of("cluster: {accelerators: [{type: fast, count: 2}, {type: slow, count: 3}]}\n"
               "models:\n"
               "  - {name: a, alpha_ms: 1, beta_ms: 4, slo_ms: 20, types: {slow: {alpha_ms: 2, beta_ms: 8}}}\n"
               "  - {name: b, alpha_ms: 3, beta_ms: 0, slo_ms: 9, weight: 2}\n"
               "workload: {rate_rps: {steps: [[0, 100], [2.5, 300]]}, arrivals: {gamma: 0.5}, "
               "popularity: {shares: {a: 1, b: 3}}}\n"
               "policy: {name: deferred, consolidate: true}\n"
               "network: {ctrl_us: 100, data_us_per_request: 50, reply_margin_us: 2000}\n"
               "run: {seconds: 4, warmup_seconds: 0.5, seed: 7}\n",
               &c);
    const struct sim_config *g = &c.config;
    assert_int_equal(g->accelerators, 5);
    assert_int_equal(g->types, 2);
    const uint8_t types[] = {0, 0, 1, 1, 1};
    assert_memory_equal(g->accelerator_type, types, sizeof(types));
    assert_int_equal(g->model_count, 2);
    assert_string_equal(g->models[0].name, "a");
    assert_int_equal(g->models[0].batch_max, 16); /* 16 * 1 + 4 = 20 on the faster type */
    assert_int_equal(g->models[0].profiles[0]->latency_ns[16], 20 * NS_PER_MS);
    assert_int_equal(g->models[0].profiles[1]->latency_ns[3], 14 * NS_PER_MS);
    assert_int_equal(g->models[0].slo_ns, 20 * NS_PER_MS);
    assert_int_equal(g->models[1].batch_max, 3);
    assert_int_equal(g->models[1].profiles[1]->latency_ns[3], 9 * NS_PER_MS);
    assert_int_equal(g->models[1].items_least, 1);
    assert_int_equal(g->models[1].items_most, 1);
    assert_true(g->models[0].weight == 1 && g->models[1].weight == 2);
    assert_true(g->models[0].share == 0.25 && g->models[1].share == 0.75);
    assert_int_equal(g->arrivals, SIM_GAMMA);
    assert_true(g->gamma_shape == 0.5);
    assert_int_equal(g->step_count, 2);
    assert_true(g->steps[0].at_s == 0 && g->steps[0].rate_rps == 100);
    assert_true(g->steps[1].at_s == 2.5 && g->steps[1].rate_rps == 300);
    assert_int_equal(g->ctrl_ns, 100 * NS_PER_US);
    assert_int_equal(g->data_ns, 50 * NS_PER_US);
    assert_int_equal(g->reply_margin_ns, 2 * NS_PER_MS);
    assert_true(g->seconds == 4 && g->warmup_s == 0.5);
    assert_int_equal(g->seed, 7);
    assert_ptr_equal(g->policy, &policy_deferred);
    assert_true(g->options.value[0] == 1);
    cluster_free(&c);
    assert_null(c.models);
}

TEST(test_copies_share_their_tables) {
    struct cluster c;
    cluster_of("cluster: {accelerators: 1}\n"
               "models:\n"
               "  - {name: a, alpha_ms: 1, beta_ms: 4, slo_ms: 20, copies: 3}\n"
               "  - {name: b, alpha_ms: 1, beta_ms: 4, slo_ms: 30}\n",
               &c);
    assert_int_equal(c.config.model_count, 4);
    assert_int_equal(c.profile_count, 2);
    assert_ptr_equal(c.models[0].profiles[0], c.models[2].profiles[0]);
    assert_int_equal(c.models[3].batch_max, 26);
    assert_int_equal(c.models[3].profiles[0]->batch_max, 26);
    assert_int_equal(c.config.step_count, 0); /* no rate given */
    cluster_free(&c);
}

TEST(test_memory_and_mishaps_arrive) {
    struct cluster c;
    cluster_of("cluster: {accelerators: 2, memory_gib: 0.5, noise: 0.1, faults: {every_s: 3, for_s: 1}}\n"
               "models: {zoo: clockwork, names: [resnet50], copies: 2}\n"
               "policy: {name: clockwork}\n",
               &c);
    assert_int_equal(c.config.memory_bytes, 1 << 29);
    assert_true(c.config.noise == 0.1 && c.config.fault_every_s == 3 && c.config.fault_s == 1);
    assert_int_equal(c.models[1].weights_bytes, 102300000);
    assert_int_equal(c.models[1].load_ns, 8330000);
    assert_int_equal(c.models[1].profiles[0]->latency_ns[8], 9130000);
    assert_int_equal(c.profile_count, 1);
    cluster_free(&c);
    cluster_of("cluster: {accelerators: 2, memory_gib: 0.5}\nmodels: {zoo: clockwork}\npolicy: {name: deferred}\n", &c);
    assert_int_equal(c.config.memory_bytes, 1 << 29);
    cluster_free(&c);
    cluster_of("cluster: {accelerators: 2, memory_gib: 0.5}\nmodels: {zoo: clockwork}\npolicy: {name: kairos}\n", &c);
    assert_int_equal(c.config.memory_bytes, 0); /* it loads nothing */
    cluster_free(&c);
}

TEST(test_sizes_of_requests_arrive) {
    struct cluster c;
    struct scenario s;
    struct sy_error err = {""};
    static const char missing[] = "cluster: {accelerators: 1}\nmodels: {zoo: kairos}\n"
                                  "workload: {query_size: {table: /nonexistent/sizes}}\n";
    cluster_of("cluster: {accelerators: 1}\nmodels: {zoo: kairos}\nworkload: {query_size: 12}\n", &c);
    assert_true(query_sizes_mean(c.config.query_sizes) == 12);
    cluster_free(&c);
    cluster_of("cluster: {accelerators: 1}\nmodels: {zoo: kairos}\n", &c);
    assert_null(c.config.query_sizes);
    cluster_free(&c);
    assert_int_equal(scenario_read_text("s.yaml", missing, strlen(missing), NULL, 0, &s, &err), 0);
    assert_int_equal(cluster_make(&c, &s, &err), -ENOENT);
    assert_string_equal(err.text, "/nonexistent/sizes: No such file or directory");
    scenario_free(&s);
}

TEST(test_it_runs) {
    struct cluster c;
    cluster_of("cluster: {accelerators: 2}\n"
               "models: [{name: a, alpha_ms: 1, beta_ms: 4, slo_ms: 50}]\n"
               "workload: {rate_rps: 100, arrivals: uniform}\n"
               "run: {seconds: 2, warmup_seconds: 1}\n",
               &c);
    void *memory = malloc(sim_bytes(&c.config));
    struct sim_result result;
    sim_run(&c.config, memory, &result);
    assert_in_range(result.offered, 199, 201);
    assert_int_equal(result.good, result.offered);
    free(memory);
    cluster_free(&c);
}

/* One sub-cluster is what there was without the key; and models move as their surges ask. */
TEST(test_subclusters) {
    static const struct {
        const char *cluster;
        bool moves;
    } cases[] = {{"cluster: {accelerators: 4}", false},
                 {"cluster: {accelerators: 4, subclusters: 1}", false},
                 {"cluster: {accelerators: 4, subclusters: 2, epoch_s: 0}", false},
                 {"cluster: {accelerators: 4, subclusters: 2, epoch_s: 2}", true}};
    struct sim_result results[4];
    for (int i = 0; i < 4; i++) {
        struct cluster c;
        char text[512];
        snprintf(text, sizeof(text),
                 "%s\nmodels: [{name: a, alpha_ms: 1, beta_ms: 4, slo_ms: 50, copies: 4}]\n"
                 "workload: {rate_rps: 800, surges: [{model: a-1, at_s: 5, factor: 4}]}\n"
                 "network: {message_us: 30}\nrun: {seconds: 12, warmup_seconds: 1}\n",
                 cases[i].cluster);
        cluster_of(text, &c);
        void *memory = malloc(sim_bytes(&c.config));
        sim_run(&c.config, memory, &results[i]);
        assert_int_equal(results[i].moves > 0, cases[i].moves);
        assert_int_equal(results[i].unanswered, 0);
        assert_in_range(results[i].move_wait_max_ns, cases[i].moves ? 1 : 0, 4 * 30 * NS_PER_US);
        assert_int_equal(results[i].offered, results[0].offered);
        free(memory);
        cluster_free(&c);
    }
    assert_int_equal(results[0].good, results[1].good);
    assert_int_equal(results[0].batches, results[1].batches);
}

TEST(test_what_is_not_simulated_is_said) {
    struct scenario scenario = {.autoscale.enabled = true, .fault_every_s = 1, .policy = &policy_deferred};
    struct cluster c;
    struct sy_error err;
    assert_true(cluster_make(&c, &scenario, &err) < 0);
    assert_non_null(strstr(err.text, "autoscale is not simulated together with cluster.faults"));
    assert_null(c.models);
    scenario.fault_every_s = 0;
    scenario.subclusters = 2;
    scenario.autoscale.min = 1;
    assert_true(cluster_make(&c, &scenario, &err) < 0);
    assert_non_null(strstr(err.text, "autoscale.min: 2 sub-clusters need at least as many accelerators"));
    scenario.subclusters = 1;
    scenario.scheduler_every_s = 1;
    assert_true(cluster_make(&c, &scenario, &err) < 0);
    assert_string_equal(err.text, "cluster.scheduler_faults: not with autoscale");
    scenario.scheduler_every_s = 0;
    scenario.link_loss = 0.1;
    assert_true(cluster_make(&c, &scenario, &err) < 0);
    assert_string_equal(err.text, "network.jitter_us, loss and margin_us: not with autoscale");
    scenario.autoscale.enabled = false;
    scenario.pipeline_count = 1;
    assert_true(cluster_make(&c, &scenario, &err) < 0);
    assert_string_equal(err.text, "network.jitter_us, loss and margin_us: not with pipelines");
    scenario.link_loss = 0;
    scenario.fault_again = true;
    assert_true(cluster_make(&c, &scenario, &err) < 0);
    assert_string_equal(err.text, "cluster.faults of the kinds kill and silent: not with pipelines");
    scenario.pipeline_count = 0;
    scenario.fault_again = false;
    scenario.scheduler_every_s = 1;
    scenario.subclusters = 2;
    assert_true(cluster_make(&c, &scenario, &err) < 0);
    assert_string_equal(err.text, "cluster.scheduler_faults: not with cluster.subclusters");
    scenario.scheduler_every_s = 0;
    scenario.policy = &policy_nexus;
    assert_true(cluster_make(&c, &scenario, &err) < 0);
    assert_non_null(strstr(err.text, "cluster.subclusters: not with the central policy nexus"));
}

/* Accelerators come to two sub-clusters by turns and leave them, and models move to where they are. */
TEST(test_accelerators_of_sub_clusters_follow_the_load) {
    struct cluster c;
    cluster_of("cluster: {accelerators: 4, subclusters: 2, epoch_s: 2}\n"
               "models:\n"
               "  - {name: a, copies: 6, alpha_ms: 4, beta_ms: 8, slo_ms: 200}\n"
               "workload: {rate_rps: {steps: [[0, 250], [60, 1500], [120, 250]]}}\n"
               "autoscale: {min: 2, max: 20, start_delay_s: 5, every_s: 1}\n"
               "policy: {name: deferred, consolidate: true}\n"
               "run: {seconds: 180, warmup_seconds: 0}\n",
               &c);
    void *memory = malloc(sim_bytes(&c.config));
    struct sim_result r;
    sim_run(&c.config, memory, &r);
    assert_int_equal(r.stuck + r.unanswered, 0);
    assert_in_range(r.accelerators_max, 8, 14);
    assert_true(r.accelerators_mean < 7);
    assert_in_range(r.advice[r.advice_count - 1].accelerators, 2, 4); /* by what was lost before: seeds differ */
    assert_int_equal(r.accelerators_used, r.accelerators_max);        /* of both sub-clusters */
    assert_true(r.dropped + r.late < r.offered / 10); /* nearly all in the 7 s until new ones have started */
    free(memory);
    cluster_free(&c);
}

/* The policy chooses the pool by the queries that come: what the budget pays for is started, then the rest leaves. */
TEST(test_the_pool_follows_the_choice) {
    struct cluster c;
    cluster_of("cluster: {accelerators: [{type: strong, count: 2, price: 10}, {type: weak, count: 1, price: 2}]}\n"
               "models:\n"
               "  - {name: a, alpha_ms: 1, beta_ms: 0, types: {weak: {alpha_ms: 3, beta_ms: 0}}, slo_ms: 100}\n"
               "workload: {rate_rps: 50, query_size: {uniform: [10, 60]}}\n"
               "policy: {name: kairos, budget: 19}\n"
               "autoscale: {start_delay_s: 5, every_s: 1}\n"
               "run: {seconds: 40, warmup_seconds: 0}\n",
               &c);
    assert_int_equal(c.config.accelerators, 2 + 9); /* the strong ones of the start; weak ones for the whole budget */
    void *memory = malloc(sim_bytes(&c.config));
    struct sim_result r;
    sim_run(&c.config, memory, &r);
    assert_int_equal(r.stuck + r.unanswered, 0);
    assert_true(r.advice_count >= 1 && r.advice[0].at_s >= 19 && r.advice[0].at_s <= 23); /* after 1000 queries */
    assert_int_equal(r.advice[0].of_type[0], 1);
    assert_true(r.advice[0].of_type[1] >= 2);
    assert_int_equal(r.advice[0].accelerators, r.advice[0].of_type[0] + r.advice[0].of_type[1]);
    assert_int_equal(r.accelerators_max, 2 + r.advice[0].of_type[1]); /* for a while both */
    assert_int_equal(r.departures, 1);
    assert_true(r.accelerators_mean_of[0] > 1.5 && r.accelerators_mean_of[0] < 1.9);
    free(memory);
    cluster_free(&c);
}

/* One accelerator does 500 a second, alpha being all there is: at 1750 a second 3.5 are needed, and 4 are 12 % idle. */
TEST(test_accelerators_follow_the_load) {
    struct cluster c;
    cluster_of("cluster: {accelerators: 2}\n"
               "models: [{name: a, alpha_ms: 2, beta_ms: 0, slo_ms: 100}]\n"
               "workload: {rate_rps: {steps: [[0, 250], [20, 1750], [60, 250]]}, arrivals: uniform}\n"
               "autoscale: {min: 1, max: 9, start_delay_s: 5, every_s: 1, headroom: 0.1}\n"
               "run: {seconds: 100, warmup_seconds: 0}\n",
               &c);
    assert_int_equal(c.config.accelerators, 9);
    assert_int_equal(c.config.accelerators_first[0], 2);
    void *memory = malloc(sim_bytes(&c.config));
    struct sim_result r;
    sim_run(&c.config, memory, &r);
    assert_int_equal(r.stuck + r.unanswered, 0);
    assert_in_range(r.advice_count, 3, 20);
    /* As long as a start takes nothing is released; then one is enough, till 20 s. */
    assert_true(r.advice[0].at_s >= 5 && r.advice[0].at_s <= 7 && r.advice[0].accelerators == 1);
    assert_true(r.advice[1].at_s == 21 && r.advice[1].accelerators >= 2);
    uint32_t at_25 = 0, at_60 = 0; /* the measured rate follows within seconds */
    for (uint32_t i = 0; i < r.advice_count; i++) {
        at_25 = r.advice[i].at_s < 25 ? r.advice[i].accelerators : at_25;
        at_60 = r.advice[i].at_s < 60 ? r.advice[i].accelerators : at_60;
    }
    assert_int_equal(at_25, 4);
    assert_int_equal(at_60, 4);
    assert_int_equal(r.advice[r.advice_count - 1].accelerators, 1);
    assert_in_range(r.accelerators_max, 4, 9);
    assert_true(r.accelerators_mean > 1.8 && r.accelerators_mean < 3.2);
    /* What is bad is so until the accelerators asked for at 21 s are there, at 26 s: 1250 of 1750 each second. */
    double bad = (double)(r.offered - r.good);
    assert_true(bad > 5 * 1250 && bad < 8 * 1250);
    assert_true(r.busy > 0.5 && r.busy < 0.95);
    free(memory);
    cluster_free(&c);
}

TEST(test_a_trace_is_replayed) {
    static const char arrivals[] = "0.5,a\n1.5,b\n1.75,b\n2.5,a\n2.75,b\n9,a\n";
    char path[64], text[512];
    text_file(path, arrivals, strlen(arrivals));
    for (int scaled = 0; scaled < 2; scaled++) {
        struct cluster c;
        struct sim_result result;
        snprintf(
            text, sizeof(text),
            "cluster: {accelerators: 2}\n"
            "models: [{name: a, alpha_ms: 1, beta_ms: 4, slo_ms: 50}, {name: b, alpha_ms: 1, beta_ms: 4, slo_ms: 50}]\n"
            "workload: {%sarrivals: {trace: %s}}\nrun: {seconds: 3, warmup_seconds: 1}\n",
            scaled ? "rate_rps: 2.5, " : "", path);
        cluster_of(text, &c);
        assert_true(c.models[0].share == 0.4 && c.models[1].share == 0.6);
        assert_int_equal(c.config.step_count, 1);
        assert_true(c.config.steps[0].rate_rps == (scaled ? 2.5 : 1.25)); /* five in four seconds */
        void *memory = malloc(sim_bytes(&c.config));
        sim_run(&c.config, memory, &result);
        assert_int_equal(result.requests, 5); /* twice as fast, the last comes at 4.5 */
        assert_int_equal(result.offered, scaled ? 2 : 4);
        assert_int_equal(result.good, result.offered);
        free(memory);
        cluster_free(&c);
    }
    unlink(path);
}
