/* test_nexus.c - the policy `nexus` in whole clusters: it reaches what an independent simulator of it does, drops early
 * rather than late to advantage, and its plans follow the rates, and do not sway where these do not change.
 *
 * sanitizers: no, it compares numbers, and runs no code that random_clusters does not run */
#include <stdlib.h>

#include "lab/sim/sim.h"
#include "sched/plan/autoscale.h"
#include "unit/test.h"

#define MODELS_MAX       5
#define ACCELERATORS_MAX 40

struct cluster {
    struct sim_config config;
    struct sim_model models[MODELS_MAX];
    struct profile *profiles[MODELS_MAX];
    uint8_t types[ACCELERATORS_MAX];
    struct sim_rate_step step;
};

static void cluster_begin(struct cluster *c, const char *policy, uint32_t accelerators, double rate_rps) {
    *c = (struct cluster){.step = {0, rate_rps}};
    c->config = (struct sim_config){
        .models = c->models,
        .accelerator_type = c->types,
        .accelerators = accelerators,
        .types = 1,
        .steps = &c->step,
        .step_count = 1,
        .seconds = 20,
        .warmup_s = 3,
        .seed = 1,
        .rates_known = true,
    };
    assert_int_equal(policy_read(policy, &c->config.policy, &c->config.options, NULL), 0);
}

static struct sim_model *model_add(struct cluster *c, double alpha_ms, double beta_ms, double slo_ms) {
    uint32_t m = c->config.model_count++, batch_max = (uint32_t)((slo_ms - beta_ms) / alpha_ms);
    c->profiles[m] = malloc(profile_bytes(batch_max));
    assert_non_null(c->profiles[m]);
    profile_set_line(c->profiles[m], batch_max, alpha_ms * NS_PER_MS, beta_ms * NS_PER_MS);
    c->models[m] = (struct sim_model){
        .batch_max = batch_max,
        .slo_ns = (int64_t)(slo_ms * NS_PER_MS),
        .profiles = {c->profiles[m]},
        .share = 1,
        .items_least = 1,
        .items_most = 1,
    };
    return &c->models[m];
}

/* Runs; the bad rate of the model that fares worst. */
static double worst_bad_rate(struct cluster *c) {
    struct sim_result result;
    void *memory = malloc(sim_bytes(&c->config));
    assert_non_null(memory);
    sim_run(&c->config, memory, &result);
    free(memory);
    for (uint32_t m = 0; m < c->config.model_count; m++)
        free(c->profiles[m]);
    return result.worst_bad_rate;
}

/* Table 4 of Symphony (arXiv 2308.07470) on 8 accelerators; the reference is an independent simulator. */
TEST(goodput_is_that_of_an_independent_simulator) {
    static const struct {
        const char *policy;
        double alpha_ms, beta_ms, slo_ms, reference_rps;
    } cells[] = {
        {"nexus:batch=planned,frontends=1", 1.053, 5.072, 25, 4182},
        {"nexus:batch=planned,frontends=8", 1.053, 5.072, 25, 4074},
        {"nexus:batch=planned,frontends=1", 5.090, 18.368, 70, 621},
        {"nexus:batch=planned,frontends=8", 5.090, 18.368, 70, 479},
    };
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        double bad[2];
        for (int over = 0; over < 2; over++) {
            struct cluster c;
            cluster_begin(&c, cells[i].policy, 8, cells[i].reference_rps * (over ? 1.03 : 0.98));
            model_add(&c, cells[i].alpha_ms, cells[i].beta_ms, cells[i].slo_ms);
            bad[over] = worst_bad_rate(&c);
        }
        if (bad[0] > 0.01 || bad[1] <= 0.01)
            fail_msg("cell %zu: %.4f bad at 0.98 of the reference, %.4f at 1.03", i, bad[0], bad[1]);
    }
}

/* Figures 5 and 9 of Nexus: alpha 1, beta 25 ms, SLO 100 ms, Poisson arrivals. */
TEST(early_drop_keeps_batches_large) {
    double bad[2];
    static const char *const policies_compared[] = {"nexus:drop=early", "nexus:drop=lazy"};
    for (int lazy = 0; lazy < 2; lazy++) {
        struct cluster c;
        cluster_begin(&c, policies_compared[lazy], 1, 450);
        model_add(&c, 1, 25, 100);
        bad[lazy] = worst_bad_rate(&c);
    }
    assert_true(bad[0] < 0.05);
    assert_true(bad[1] > 0.3);
}

/* Four models on 8 accelerators; at 6 s one asks for five times as much. */
static double surge_bad_rate(const char *policy, bool known) {
    struct cluster c;
    cluster_begin(&c, policy, 8, 2000);
    c.config.rates_known = known;
    for (int m = 0; m < 4; m++)
        model_add(&c, 1.053, 5.072, 40);
    c.models[0].surge_at_s = 6;
    c.models[0].surge_factor = 5;
    return worst_bad_rate(&c);
}

TEST(plans_follow_the_rates) {
    double adapted = surge_bad_rate("nexus:epoch_min_s=2", true);
    double fixed = surge_bad_rate("nexus:epoch_s=1000,epoch_min_s=1000", true);
    double unknown = surge_bad_rate("nexus:epoch_min_s=2", false);
    if (adapted > 0.08 || fixed < 0.25 || unknown > 0.08)
        fail_msg("bad: %.4f with new plans, %.4f without, %.4f where rates are not known", adapted, fixed, unknown);
}

/* Items a second count, not requests: of four items each, a model's requests need four times the accelerators that the
 * other model's need. One plan is to last. */
TEST(the_first_plan_counts_items) {
    struct cluster c;
    cluster_begin(&c, "nexus:epoch_s=1000,epoch_min_s=1000", 10, 2000);
    for (int m = 0; m < 2; m++)
        model_add(&c, 1.053, 5.072, 40);
    c.models[0].items_least = c.models[0].items_most = 4;
    double bad = worst_bad_rate(&c);
    if (bad > 0.01)
        fail_msg("%.4f bad", bad);
}

/* Five models for 26 to 28 accelerators, by what the noise of a plan's rates makes of the packing: an hour after the
 * first ten minutes. */
TEST(advice_does_not_sway) {
    struct cluster c;
    struct sim_result result;
    struct autoscale_config autoscale = autoscale_usual(40);
    cluster_begin(&c, "nexus", 40, 1170);
    c.config.autoscale = &autoscale;
    c.config.accelerators_first[0] = 20;
    c.config.seconds = 4200;
    c.config.warmup_s = 0;
    for (int m = 0; m < 5; m++)
        model_add(&c, 10.53, 50.72, 250);
    void *memory = malloc(sim_bytes(&c.config));
    assert_non_null(memory);
    sim_run(&c.config, memory, &result);
    uint32_t changes = 0;
    for (uint32_t i = 0; i < result.advice_count; i++)
        changes += result.advice[i].at_s > 600;
    assert_true(changes <= 2 && result.worst_bad_rate < 0.01);
    assert_true(result.accelerators_mean > 25 && result.accelerators_mean < 29);
    free(memory);
    for (uint32_t m = 0; m < c.config.model_count; m++)
        free(c.profiles[m]);
}
