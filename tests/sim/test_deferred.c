/* test_deferred.c - what `deferred` promises of whole clusters: goodput, a flat top, isolation, flash crowds, no
 * waiting for nothing; and that a run is a function of its seed.
 *
 * sanitizers: no, its runs are long to compare numbers, and random_clusters and policies run the same code */
#include <string.h>

#include "histories.h"
#include "sched/core/model_view.h"
#include "sim/policy_cluster.h"

/* A cell of Symphony's evaluation (arXiv 2308.07470, table 4 and figure 6), and the goodput that an independent
 * simulator of this policy reaches in it. */
struct cell {
    const char *name;
    uint32_t accelerators;
    double alpha_ms, beta_ms, slo_ms;
    const char *type; /* or a part of the zoo */
    enum zoo_set set;
    double reference_rps;
};

static const struct cell cells[] = {
    {"ResNet50", 8, 1.053, 5.072, 25, NULL, ZOO_ALL, 5439},
    {"InceptionResNetV2", 8, 5.090, 18.368, 70, NULL, ZOO_ALL, 975},
    {"1080Ti all", 64, 0, 0, 0, "gtx1080ti", ZOO_ALL, 7645},
    {"1080Ti gt2", 64, 0, 0, 0, "gtx1080ti", ZOO_GT2, 20119},
    {"1080Ti lt2", 64, 0, 0, 0, "gtx1080ti", ZOO_LT2, 3969},
    {"A100 all", 64, 0, 0, 0, "a100", ZOO_ALL, 18455},
    {"A100 gt2", 64, 0, 0, 0, "a100", ZOO_GT2, 58456},
    {"A100 lt2", 64, 0, 0, 0, "a100", ZOO_LT2, 6505},
};

static struct cluster *cluster_of(const struct cell *cell) {
    struct cluster *cluster = cluster_new(cell->accelerators);
    if (!cell->type)
        cluster_add(cluster, cell->alpha_ms, cell->beta_ms, cell->slo_ms);
    else
        cluster_add_zoo(cluster, cell->type, cell->set);
    return cluster;
}

static const struct sim_result *run(struct cluster *cluster, double rate_rps, double seconds) {
    if (cluster->config.step_count == 1)
        cluster->steps[0].rate_rps = rate_rps;
    return cluster_run(cluster, seconds);
}

static double bad_rate(uint64_t offered, uint64_t good) {
    return offered ? (double)(offered - good) / (double)offered : 0;
}

TEST(goodput_is_within_3_percent_of_the_reference) {
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        if (!histories_have(i))
            continue;
        struct cluster *cluster = cluster_of(&cells[i]);
        const struct sim_result *result = run(cluster, 0.97 * cells[i].reference_rps, 30);
        if (result->worst_bad_rate > 0.01)
            fail_msg("%s: some model loses %.4f at 0.97 of the reference", cells[i].name, result->worst_bad_rate);
        cluster_free(cluster);
    }
}

TEST(goodput_is_flat_above_the_peak) {
    for (size_t i = 0; i < 4; i++) {
        if (!histories_have(i))
            continue;
        struct cluster *cluster = cluster_of(&cells[i]);
        double peak = (double)run(cluster, cells[i].reference_rps, 10)->good;
        for (double over = 1.25; over < 4.1; over *= 1.8) {
            double good = (double)run(cluster, over * cells[i].reference_rps, 10)->good;
            if (good < 0.99 * peak)
                fail_msg("%s: %.3f of the peak's goodput at %.2f times its rate", cells[i].name, good / peak, over);
        }
        cluster_free(cluster);
    }
}

TEST(one_models_flood_does_not_drown_the_others) {
    static const double factors[] = {25, 40, 100};
    for (size_t i = 0; i < 3; i++) {
        struct cluster *cluster = cluster_new(32); /* twenty models like ResNet50 */
        for (int m = 0; m < 20; m++)
            cluster_add(cluster, 1.053, 5.072, 25 + 75.0 * m / 19);
        cluster->models[7].surge_at_s = 6;
        cluster->models[7].surge_factor = factors[i];
        cluster->config.warmup_s = 10; /* 4 s after it began */
        const struct sim_result *result = run(cluster, 12500, 5);
        uint64_t offered = result->offered - result->models[7].offered, good = result->good - result->models[7].good;
        if (bad_rate(offered, good) > 0.02)
            fail_msg("a flood of %.0f times costs the others %.4f", factors[i], bad_rate(offered, good));
        assert_true(result->good > 0.8 * 24900 * 5); /* and the flood gets what is left */
        cluster_free(cluster);
    }
}

/* Twenty models like ResNet50 with an SLO of 50 ms on 32 accelerators; their goodput is 24800 requests/s. */
static struct cluster *twenty_new(void) {
    struct cluster *cluster = cluster_new(32);
    for (int m = 0; m < 20; m++)
        cluster_add(cluster, 1.053, 5.072, 50);
    return cluster;
}

/* Requests of half a minute may wait, but a flood of them may not take the others' time; nor may a way of waiting that
 * has lost nothing yet, because its first batch is still to start. */
TEST(a_flood_of_patient_requests_does_not_drown_the_others) {
    static const struct {
        double rps, at_s;
        uint64_t seed;
    } cases[] = {{160, 40, 1}, {240, 30, 71}};
    for (size_t i = 0; i < 2; i++) {
        struct cluster *cluster = cluster_new(8);
        for (int m = 0; m < 20; m++)
            cluster_add(cluster, 20, 100, 30000);
        cluster->models[7].surge_at_s = cases[i].at_s;
        cluster->models[7].surge_factor = 100;
        cluster->config.warmup_s = 60;
        cluster->config.seed = cases[i].seed;
        const struct sim_result *result = run(cluster, cases[i].rps, 100);
        uint64_t offered = result->offered - result->models[7].offered, good = result->good - result->models[7].good;
        if (bad_rate(offered, good) > 0.02)
            fail_msg("the flood costs the others %.4f", bad_rate(offered, good));
        cluster_free(cluster);
    }
}

TEST(of_two_floods_the_heavier_keeps_more) {
    struct cluster *cluster = twenty_new();
    struct sim_model *heavy = &cluster->models[7], *light = &cluster->models[11];
    heavy->surge_at_s = light->surge_at_s = 6;
    heavy->surge_factor = light->surge_factor = 40;
    heavy->weight = 3;
    cluster->config.warmup_s = 10;
    const struct sim_result *result = run(cluster, 12500, 5);
    const struct sim_model_result *h = &result->models[7], *l = &result->models[11];
    if ((double)h->good < 2.5 * (double)l->good || (double)h->good > 3.5 * (double)l->good)
        fail_msg("%lu good of the heavier, %lu of the lighter", h->good, l->good);
    uint64_t offered = result->offered - h->offered - l->offered, good = result->good - h->good - l->good;
    if (bad_rate(offered, good) > 0.02)
        fail_msg("two floods cost the others %.4f", bad_rate(offered, good));
    cluster_free(cluster);
}

TEST(a_heavier_model_is_served_when_all_are_too_many) {
    struct cluster *cluster = twenty_new();
    cluster->models[7].weight = 4;
    const struct sim_result *result = run(cluster, 2 * 24800, 5);
    const struct sim_model_result *heavy = &result->models[7];
    if (bad_rate(heavy->offered, heavy->good) > 0.02)
        fail_msg("the heavier loses %.4f", bad_rate(heavy->offered, heavy->good));
    assert_true(result->good > 0.9 * 24800 * 5);
    cluster_free(cluster);
}

/* Bad in the 2 s after the rate steps from a part of the reference to 0.95 of it. */
static double flash(const struct cell *cell, double from, uint64_t seed) {
    struct cluster *cluster = cluster_of(cell);
    cluster->steps[0].rate_rps = from * cell->reference_rps;
    cluster->steps[1] = (struct sim_rate_step){5, 0.95 * cell->reference_rps};
    cluster->config.step_count = 2;
    cluster->config.warmup_s = 5;
    cluster->config.seed = seed;
    const struct sim_result *result = run(cluster, 0, 2);
    double bad = bad_rate(result->offered, result->good);
    cluster_free(cluster);
    return bad;
}

TEST(a_flash_crowd_costs_little) {
    static const double from[] = {0.1, 0.3, 0.5};
    for (size_t i = 0; i < 8; i++)
        for (size_t k = 0; k < 3; k++) {
            /* One model on 8 accelerators has few requests in 2 s: several runs */
            uint64_t seeds = cells[i].type ? 1 : 20;
            double bad = 0;
            if (!histories_have(i * 3 + k))
                continue;
            for (uint64_t seed = 1; seed <= seeds; seed++)
                bad += flash(&cells[i], from[k], seed) / (double)seeds;
            if (bad > (cells[i].type ? 0.002 : 0.03))
                fail_msg("%s: a step from %.1f to 0.95 of the peak costs %.4f", cells[i].name, from[k], bad);
        }
}

/* Starts whatever is queued as soon as an accelerator is free, the earliest latest start first. */
static void eager_update(struct model_view *m, void *own) {
    (void)own;
    m->batch_best = 1;
    m->target_items = 1;
}

static struct batch_times eager_times(const struct model_view *m, const void *own, uint32_t type,
                                      const struct batch_view *batch) {
    (void)m, (void)own, (void)type, (void)batch;
    return batch_times_from(0, batch->invalid_after_ns);
}

static const struct policy_ops eager = {.name = "eager", .model_update = eager_update, .batch_times = eager_times};

static int64_t median_queueing_ns(struct cluster *cluster, const struct policy_ops *policy, double rate_rps) {
    cluster->config.policy = policy;
    const struct sim_result *result = run(cluster, rate_rps, 4);
    struct sim_times *all = calloc(1, sizeof(*all));
    assert_non_null(all);
    for (uint32_t m = 0; m < cluster->config.model_count; m++)
        sim_times_merge(all, &result->models[m].queueing);
    int64_t median_ns = sim_times_quantile_ns(all, 0.5);
    free(all);
    return median_ns;
}

TEST(nobody_waits_for_company_that_is_not_needed) {
    for (size_t i = 0; i < 8; i++)
        for (double load = 0.1; load < 0.75; load += 0.2) {
            if (!histories_have(i + (uint64_t)(load * 10)))
                continue;
            struct cluster *cluster = cluster_of(&cells[i]);
            double rate_rps = load * cells[i].reference_rps;
            int64_t eager_ns = median_queueing_ns(cluster, &eager, rate_rps);
            double eager_busy = cluster->result.busy;
            int64_t ns = median_queueing_ns(cluster, &policy_deferred, rate_rps);
            if (ns > eager_ns + 200 * NS_PER_US)
                fail_msg("%s at %.1f of the peak: the median request queues %.3f ms, under an eager policy %.3f",
                         cells[i].name, load, (double)ns / NS_PER_MS, (double)eager_ns / NS_PER_MS);
            if (cluster->result.busy > 1.01 * eager_busy)
                fail_msg("%s at %.1f of the peak: accelerators are busy %.3f of the time, under an eager policy %.3f",
                         cells[i].name, load, cluster->result.busy, eager_busy);
            cluster_free(cluster);
        }
}

/* Ten models like ResNet50, SLO 100 ms, 24 accelerators: Symphony's figure 10. */
TEST(consolidating_leaves_the_idle_share_flat) {
    double peak = 20000;
    struct cluster *cluster = cluster_new(24);
    for (int m = 0; m < 10; m++)
        cluster_add(cluster, 1.053, 5.072, 100);
    cluster->config.options.value[0] = 1; /* consolidate */
    /* The peak is where a bisection with this configuration ends; near enough is good enough here. */
    while (run(cluster, peak * 1.02, 5)->worst_bad_rate <= 0.01)
        peak *= 1.02;
    for (double load = 0.2; load < 0.95; load += 0.2) {
        double idle = 1 - run(cluster, load * peak, 5)->busy;
        if (idle < 1 - load - 0.05 || idle > 1 - load + 0.05)
            fail_msg("at %.1f of the peak %.3f is idle", load, idle);
    }
    cluster_free(cluster);
}

/* ResNet50 on 8 accelerators at its peak, alone and beside 56 of another type that it does not run on, idle or at their
 * own peak: what it gets is the same. */
TEST(accelerators_that_a_model_may_not_have_do_not_count_for_it) {
    static const double others_rps[] = {0, 500, 40000};
    double alone_rps = 0;
    for (size_t i = 0; i < ARRAY_COUNT(others_rps); i++) {
        struct cluster *cluster = cluster_new(others_rps[i] > 0 ? 64 : 8);
        cluster_add(cluster, 1.053, 5.072, 25)->share = 5800;
        if (others_rps[i] > 0) {
            struct sim_model *other = cluster_add(cluster, 1.053, 5.072, 25);
            other->share = others_rps[i];
            other->profiles[1] = other->profiles[0];
            other->profiles[0] = NULL;
            cluster->config.types = 2;
            memset(cluster->types + 8, 1, 56);
        }
        run(cluster, 5800 + others_rps[i], 5);
        double good_rps = (double)cluster->result.models[0].good / 5;
        if (i == 0)
            alone_rps = good_rps;
        else if (good_rps < 0.98 * alone_rps || cluster->result.models[1].good < 0.99 * 5 * others_rps[i])
            fail_msg("beside %.0f/s of others %.0f/s are good, alone %.0f/s", others_rps[i], good_rps, alone_rps);
        if (i > 0)
            free((void *)cluster->models[1].profiles[1]);
        cluster_free(cluster);
    }
}

TEST(a_run_is_a_function_of_its_seed) {
    struct cluster *a = cluster_of(&cells[2]), *b = cluster_of(&cells[2]);
    a->config.arrivals = b->config.arrivals = SIM_GAMMA;
    a->config.gamma_shape = b->config.gamma_shape = 0.3;
    run(a, 6000, 3);
    run(b, 6000, 3);
    for (uint32_t m = 0; m < a->config.model_count; m++) {
        uint32_t **x = &a->result.models[m].batch_sizes, **y = &b->result.models[m].batch_sizes;
        assert_memory_equal(*x, *y, (a->config.models[m].batch_max + 1) * sizeof(**x));
        *x = *y = NULL;
    }
    assert_memory_equal(a->result.models, b->result.models, a->config.model_count * sizeof(struct sim_model_result));
    b->config.seed = 2;
    run(b, 6000, 3);
    assert_memory_not_equal(a->result.models, b->result.models,
                            a->config.model_count * sizeof(struct sim_model_result));
    cluster_free(a);
    cluster_free(b);
}
