/* test_impossible.c - a flood of requests that nothing could answer in time, beside models that are asked in earnest.
 *
 * Each run is compared with the same one without the flood; only what could be served counts.
 *
 * sanitizers: no, it runs 120 clusters for a minute each to compare numbers, and no code that others do not run */
#include "core/util/container.h"
#include "histories.h"
#include "sim/policy_cluster.h"

#define SECONDS 60 /* in 20 the mean batch of two seeds differs by up to 7 %, without any flood */
#define PIECES  3

/* Arrivals of two models: what is asked of them in earnest, and of the first the flood, whose deadline is at once. */
struct flood {
    struct cluster *cluster;
    struct trace trace;
    uint64_t first[3];
    double at_s[PIECES], rate_sum[PIECES], model_rps[2];
    int64_t slo_ns[PIECES];
    struct sim_observer observer;
    uint64_t asked[2]; /* in earnest, of those that count */
};

static void arrival_seen(void *context, int64_t now_ns, uint64_t handle, uint32_t model, uint32_t items,
                         uint8_t priority, int64_t deadline_ns) {
    struct flood *f = context;
    double at_s = (double)now_ns / (double)NS_PER_S;
    (void)handle, (void)items, (void)priority;
    f->asked[model] += deadline_ns > now_ns + NS_PER_MS && at_s >= f->cluster->config.warmup_s &&
                       at_s < f->cluster->config.warmup_s + SECONDS;
}

static struct flood *flood_new(const struct policy_ops *policy, double first_rps, double second_rps, double flood_rps) {
    struct flood *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->cluster = cluster_new(8);
    f->cluster->config.policy = policy;
    policy_options_preset(policy, &f->cluster->config.options);
    if (policy->way_fix) /* which way is best at nine tenths of the peak is a matter of chance */
        policy->way_fix(&f->cluster->config.options, 0);
    cluster_add(f->cluster, 1.053, 5.072, 25);
    cluster_add(f->cluster, 1.053, 5.072, 25);
    f->first[1] = 2;
    f->first[2] = PIECES;
    f->model_rps[0] = first_rps + flood_rps;
    f->model_rps[1] = second_rps;
    f->rate_sum[0] = flood_rps;
    f->rate_sum[1] = first_rps + flood_rps;
    f->rate_sum[2] = second_rps;
    f->slo_ns[0] = NS_PER_US;
    f->slo_ns[1] = f->slo_ns[2] = 25 * NS_PER_MS;
    f->trace = (struct trace){
        .models = 2,
        .first = f->first,
        .at_s = f->at_s,
        .rate_sum = f->rate_sum,
        .slo_ns = f->slo_ns,
        .length_s = 1000,
        .mean_rps = first_rps + second_rps + flood_rps,
        .model_rps = f->model_rps,
    };
    f->cluster->config.arrivals = SIM_TRACE;
    f->cluster->config.trace = &f->trace;
    f->observer = (struct sim_observer){.context = f, .arrived = arrival_seen};
    f->cluster->config.observer = &f->observer;
    f->cluster->steps[0].rate_rps = f->trace.mean_rps;
    return f;
}

static void flood_free(struct flood *f) {
    cluster_free(f->cluster);
    free(f);
}

/* What was answered in time of both models' earnest requests, of the least. */
static double least_good(const struct flood *f) {
    double least = 1;
    for (uint32_t m = 0; m < 2; m++) {
        double part = (double)f->cluster->result.models[m].good / (double)f->asked[m];
        least = part < least ? part : least;
    }
    return least;
}

/* What follows for the good ones: the part in time of the model that does worse, and how accelerators are used. */
struct effect {
    double good, batch, busy, median_ms;
};

static struct effect effect_of(const struct policy_ops *policy, double first_rps, double second_rps, double flood_rps) {
    struct flood *f = flood_new(policy, first_rps, second_rps, flood_rps);
    cluster_run(f->cluster, SECONDS);
    const struct sim_result *r = &f->cluster->result;
    struct effect e = {
        .good = least_good(f),
        .batch = (double)r->batch_items / (double)r->batches,
        .busy = r->busy,
        .median_ms = (double)sim_times_quantile_ns(&r->models[1].latency, 0.5) / NS_PER_MS,
    };
    flood_free(f);
    return e;
}

/* Up to a hundred impossible requests for one in earnest, at a quarter, three quarters and nine tenths of the peak of
 * two models (5300 requests/s). */
TEST(impossible_requests_steer_nothing) {
    static const double loads_rps[] = {650, 2000, 2400}, ratios[] = {0.01, 0.1, 0.3, 1, 3, 10, 100};
    static const struct policy_ops *const policies_run[] = {&policy_deferred, &policy_symphony, &policy_clockwork,
                                                            &policy_nexus, &policy_kairos};
    bool harmed = false;
    for (size_t p = 0; p < ARRAY_COUNT(policies_run); p++)
        for (size_t i = 0; i < ARRAY_COUNT(loads_rps); i++) {
            if (!histories_have(p * ARRAY_COUNT(loads_rps) + i))
                continue;
            double rps = policies_run[p] == &policy_kairos ? loads_rps[i] / 6 : loads_rps[i];
            struct effect alone = effect_of(policies_run[p], rps, rps, 0);
            for (size_t k = 0; k < ARRAY_COUNT(ratios); k++) {
                struct effect beside = effect_of(policies_run[p], rps, rps, ratios[k] * rps);
                bool same = beside.good > alone.good - 0.005 && beside.busy < alone.busy + 0.02 &&
                            beside.batch > 0.97 * alone.batch && beside.batch < 1.03 * alone.batch &&
                            beside.median_ms < 1.05 * alone.median_ms + 0.05;
                if (!same)
                    print_message("%s, 2 * %.0f/s, %g impossible ones each: good %.4f (alone %.4f), batches of %.2f "
                                  "(%.2f), busy %.3f (%.3f), the other's median %.2f ms (%.2f)\n",
                                  policies_run[p]->name, rps, ratios[k], beside.good, alone.good, beside.batch,
                                  alone.batch, beside.busy, alone.busy, beside.median_ms, alone.median_ms);
                harmed |= !same;
            }
        }
    assert_false(harmed);
}
