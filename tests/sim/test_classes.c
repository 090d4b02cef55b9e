/* test_classes.c - what best effort and priorities promise of whole clusters, each run held to the checker.
 *
 * sanitizers: no, it compares numbers, and runs no code that random_clusters does not run */
#include "lab/sim/checker.h"
#include "sim/policy_cluster.h"

#define ACCELERATORS 64
#define REQUESTS_MAX 4000000
#define SECONDS      8

static struct sim_model *model_add(struct cluster *cluster, double alpha_ms, double beta_ms, double slo_ms,
                                   double rate_rps) {
    struct sim_model *model = cluster_add(cluster, alpha_ms, beta_ms, slo_ms);
    model->share = rate_rps;
    cluster->steps[0].rate_rps += rate_rps;
    return model;
}

/* The zoo at a rate, and beside it the same models with nothing but best effort. */
static struct cluster *zoo_new(double rate_rps, double best_effort_rps) {
    struct cluster *cluster = cluster_new(ACCELERATORS);
    cluster_add_zoo(cluster, "gtx1080ti", ZOO_ALL);
    uint32_t zoo = cluster->config.model_count;
    cluster_add_zoo(cluster, "gtx1080ti", ZOO_ALL);
    for (uint32_t m = 0; m < 2 * zoo; m++) {
        cluster->models[m].share = m < zoo ? rate_rps : best_effort_rps;
        cluster->models[m].best_effort = m >= zoo;
    }
    cluster->steps[0].rate_rps = rate_rps + best_effort_rps;
    return cluster;
}

static const struct sim_result *run(struct cluster *cluster) {
    struct checker *checker = malloc(checker_bytes(&cluster->config, REQUESTS_MAX));
    struct sim_observer observer;
    assert_non_null(checker);
    checker_init(checker, &cluster->config, REQUESTS_MAX, &observer);
    cluster->config.observer = &observer;
    cluster_run(cluster, SECONDS);
    const char *wrong = checker_verdict(checker, &cluster->result);
    if (wrong)
        fail_msg("%s", wrong);
    free(checker);
    return &cluster->result;
}

static double latency_ms(const struct sim_result *result, uint32_t models, double q) {
    struct sim_times *all = calloc(1, sizeof(*all));
    assert_non_null(all);
    for (uint32_t m = 0; m < models; m++)
        sim_times_merge(all, &result->models[m].latency);
    double ms = (double)sim_times_quantile_ns(all, q) / NS_PER_MS;
    free(all);
    return ms;
}

/* Best effort that was answered in time, of all models, a second. */
static double best_effort_rps(const struct cluster *cluster) {
    uint64_t good = 0;
    for (uint32_t m = 0; m < cluster->config.model_count; m++)
        if (cluster->result.models[m].best_effort)
            good += cluster->result.models[m].best_effort->count[SIM_GOOD];
    return (double)good / SECONDS;
}

/* A quarter of the peak leaves more than half of the accelerators' time, half of it an eighth: requests with an SLO
 * take what is there. Best effort gets what they leave, however much of it comes, and they notice nothing. */
TEST(best_effort_takes_the_gaps_and_nothing_else) {
    static const struct { double rate_rps, busy_least; } cases[] = {{1900, 0.93}, {3800, 0.91}};
    for (size_t i = 0; i < 2; i++) {
        struct cluster *alone = zoo_new(cases[i].rate_rps, 0);
        const struct sim_result *before = run(alone);
        uint32_t zoo = alone->config.model_count / 2;
        for (double flood = 4000; flood < 50000; flood *= 5) {
            struct cluster *both = zoo_new(cases[i].rate_rps, flood);
            const struct sim_result *after = run(both);
            assert_true(after->worst_bad_rate <= before->worst_bad_rate + 0.001);
            assert_true(latency_ms(after, zoo, 0.5) < 1.03 * latency_ms(before, zoo, 0.5));
            assert_true(latency_ms(after, zoo, 0.99) < 1.05 * latency_ms(before, zoo, 0.99));
            if (after->busy < cases[i].busy_least)
                fail_msg("beside %.0f requests/s accelerators are busy to %.3f", cases[i].rate_rps, after->busy);
            cluster_free(both);
        }
        cluster_free(alone);
    }
}

/* With nobody else there it has all: two thirds of what batches as long as their SLO would do, as theirs are shorter.
 */
TEST(best_effort_alone_has_the_accelerators) {
    struct cluster *cluster = zoo_new(0.001, 20000);
    run(cluster);
    assert_true(cluster->result.busy > 0.99);
    assert_true(best_effort_rps(cluster) > 5000);
    cluster_free(cluster);
}

/* What never finds a gap is refused: at once, if a thousand wait already, or when its time is over. */
TEST(best_effort_that_finds_no_gap_is_told) {
    struct cluster *alone = cluster_new(8), *both = cluster_new(8);
    model_add(alone, 1.053, 5.072, 25, 9000);
    model_add(both, 1.053, 5.072, 25, 9000);
    model_add(both, 1.053, 5.072, 25, 500)->best_effort = 1;
    uint64_t good = run(alone)->models[0].good;
    assert_true((double)run(both)->models[0].good > 0.99 * (double)good);
    assert_true(best_effort_rps(both) < 5);
    assert_true(both->result.models[1].best_effort->count[SIM_DROPPED] > 1000);
    cluster_free(alone);
    cluster_free(both);
}

/* One and a half times the peak, a fifth of it of the highest priority and a fifth of the next. */
TEST(higher_priorities_are_refused_last) {
    struct cluster *equal = cluster_new(8), *classes = cluster_new(8);
    model_add(equal, 1.053, 5.072, 25, 8000);
    struct sim_model *model = model_add(classes, 1.053, 5.072, 25, 8000);
    model->priority_count = 3;
    model->priorities[0] = model->priorities[1] = 0.2;
    model->priorities[2] = 0.6;
    uint64_t good = run(equal)->good;
    const struct sim_class_result *by = run(classes)->models[0].priorities;
    double bad[3];
    for (uint32_t i = 0; i < 3; i++)
        bad[i] = (double)by[i].count[SIM_DROPPED] / (double)(by[i].count[SIM_DROPPED] + by[i].count[SIM_GOOD]);
    assert_true(bad[0] < 0.005 && bad[1] < 0.02 && bad[2] > 0.3);
    assert_true((double)classes->result.good > 0.96 * (double)good);
    cluster_free(equal);
    cluster_free(classes);
}
