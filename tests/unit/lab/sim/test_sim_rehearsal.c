/* test_sim_rehearsal.c - a run whose policy has several ways: when they change, which accelerators are rehearsed with,
 * and what the result says of it. */
#include <math.h>

#include "sched/plan/autoscale.h"
#include "sim/policy_cluster.h"

enum way { PRICED, NONE, LONGEST };

/* As in sim/test_rehearsal.c: at this load four accelerators lose some requests unless batches wait as long as they
 * can. */
static struct cluster *cluster_patient(void) {
    struct cluster *cluster = cluster_new(4);
    cluster_add(cluster, 0.570, 14.348, 60);
    cluster_add(cluster, 0.570, 14.348, 60);
    cluster->steps[0].rate_rps = 3850;
    policy_options_preset(&policy_deferred, &cluster->config.options);
    return cluster;
}

static double shares(const struct sim_result *result) {
    return result->way_share[PRICED] + result->way_share[NONE] + result->way_share[LONGEST];
}

/* Looks are on the second, so a way is kept for whole seconds; but the time in which requests count begins between two
 * of them. */
TEST(ways_change_on_the_second) {
    struct cluster *cluster = cluster_patient();
    cluster->config.warmup_s = 0.25;
    for (cluster->config.seed = 1; cluster->config.seed <= 2; cluster->config.seed++) {
        const struct sim_result *result = cluster_run(cluster, 20);
        assert_true(fabs(shares(result) - 1) < 1e-9);
        assert_true(result->way_share[LONGEST] > 0.3);
        double longest_s = result->way_share[LONGEST] * 20, priced_s = result->way_share[PRICED] * 20;
        assert_true(fabs(longest_s + 0.75 - round(longest_s + 0.75)) < 1e-6); /* until a quarter after a second */
        assert_true(fabs(priced_s + 0.25 - round(priced_s + 0.25)) < 1e-6);   /* from a quarter after a second on */
    }
    cluster_free(cluster);
}

TEST(one_way_has_all_the_time) {
    struct cluster *cluster = cluster_patient();
    policy_deferred.way_fix(&cluster->config.options, LONGEST);
    assert_true(cluster_run(cluster, 5)->way_share[0] == 1);
    cluster_free(cluster);
}

/* A run that is given up has no ways after that. */
TEST(time_that_was_not_run_is_nobodys) {
    struct cluster *cluster = cluster_patient();
    cluster->steps[0].rate_rps = 8000;
    cluster->config.give_up_bad = 0.01;
    const struct sim_result *result = cluster_run(cluster, 100);
    assert_true(result->gave_up);
    assert_true(shares(result) < 0.9);
    cluster_free(cluster);
}

/* Of eight accelerators four are there. With all of them a twin would lose nothing by any way. */
TEST(accelerators_that_are_not_there_are_not_rehearsed_with) {
    const struct autoscale_config fixed = {.min = 4, .max = 4, .every_ns = NS_PER_S, .start_delay_ns = NS_PER_S};
    struct cluster *cluster = cluster_patient();
    cluster->config.accelerators = 8;
    cluster->config.accelerators_first[0] = 4;
    cluster->config.autoscale = &fixed;
    assert_true(cluster_run(cluster, 20)->way_share[LONGEST] > 0.3);
    cluster_free(cluster);
}
