/* test_rehearsal.c - when ways are rehearsed, which of them is taken, and what a whole run gains by it.
 *
 * sanitizers: no, it simulates minutes to compare losses; unit/lab/sim/sim_rehearsal runs the same code */
#include "lab/sim/rehearsal.h"

#include <stdlib.h>

#include "core/util/rng.h"
#include "sim/policy_cluster.h"

enum way { PRICED, NONE, LONGEST };

/* Two models with few accelerators each, for which waiting long is best at 3800 requests/s: with the price of company
 * half a percent is lost there, with the longest wait nothing. */
static struct cluster *cluster_patient(double rps) {
    struct cluster *cluster = cluster_new(4);
    cluster_add(cluster, 0.570, 14.348, 60);
    cluster_add(cluster, 0.570, 14.348, 60);
    cluster->steps[0].rate_rps = rps;
    cluster->config.seconds = 1000;
    return cluster;
}

static struct rehearsal *rehearsal_new(const struct cluster *cluster) {
    void *memory = malloc(rehearsal_bytes(&cluster->config));
    assert_non_null(memory);
    return rehearsal_init(memory, &cluster->config);
}

/* Poisson arrivals of both models from *now_ns on for some seconds, with a look each second. Every 25th request has
 * `own_ms` to its deadline. The last look's answer. */
static uint32_t rehearse_beside(struct rehearsal *r, int64_t *now_ns, double rps, int seconds, uint64_t bad,
                                int64_t own_ms) {
    struct rng rng;
    uint32_t way = 0, told = 0;
    rng_seed(&rng, (uint64_t)*now_ns + 1);
    for (int i = 0; i < seconds; i++) {
        int64_t end_ns = *now_ns + NS_PER_S, at_ns = *now_ns;
        while (rps > 0 && (at_ns += (int64_t)(rng_exponential(&rng) / rps * NS_PER_S)) < end_ns) {
            struct request_message message = {.kind = REQUEST_ARRIVED,
                                              .arrival_ns = at_ns,
                                              .deadline_ns = at_ns + (++told % 25 ? 60 : own_ms) * NS_PER_MS,
                                              .items = 1,
                                              .place = {(uint32_t)rng_below(&rng, 2)}};
            rehearsal_request(r, at_ns, &message);
        }
        *now_ns = end_ns;
        way = rehearsal_look(r, end_ns, (uint64_t)rps, bad);
    }
    return way;
}

static uint32_t rehearse(struct rehearsal *r, int64_t *now_ns, double rps, int seconds, uint64_t bad) {
    return rehearse_beside(r, now_ns, rps, seconds, bad, 60);
}

TEST(without_losses_nothing_is_rehearsed) {
    struct cluster *cluster = cluster_patient(3800);
    struct rehearsal *r = rehearsal_new(cluster);
    int64_t now_ns = 5 * NS_PER_S;
    assert_int_equal(rehearse(r, &now_ns, 3800, 5, 3), PRICED); /* under 0.1 % */
    assert_false(rehearsal_runs(r));
    assert_false(rehearsal_begins(3800, 3));
    assert_true(rehearsal_begins(3800, 4));
    free(r);
    cluster_free(cluster);
}

TEST(the_way_that_loses_least_is_taken_and_left_when_the_load_falls) {
    struct cluster *cluster = cluster_patient(3950);
    struct rehearsal *r = rehearsal_new(cluster);
    int64_t now_ns = 7 * NS_PER_S;
    assert_int_equal(rehearse(r, &now_ns, 3950, 3, 100), PRICED); /* the cores learn the rates */
    assert_true(rehearsal_runs(r));
    assert_int_equal(rehearse(r, &now_ns, 3950, 10, 0), LONGEST); /* though that loses nothing now */
    assert_int_equal(rehearse(r, &now_ns, 3950, 30, 0), LONGEST);
    assert_int_equal(rehearse(r, &now_ns, 1000, 20, 0), LONGEST); /* the other was worse, and bursts may return */
    assert_true(rehearsal_runs(r));
    assert_int_equal(rehearse(r, &now_ns, 1000, 50, 0), PRICED);
    assert_false(rehearsal_runs(r));
    free(r);
    cluster_free(cluster);
}

/* Twins take the time that the tables say. Where runs take longer, the way with the best twin may really lose much. */
TEST(a_way_that_loses_more_than_its_twin_is_left) {
    struct cluster *cluster = cluster_patient(3950);
    struct rehearsal *r = rehearsal_new(cluster);
    int64_t now_ns = 7 * NS_PER_S;
    rehearse(r, &now_ns, 3950, 4, 100);
    uint32_t way = PRICED, longest = 0;
    for (int second = 0; second < 60; second++) {
        way = rehearse(r, &now_ns, 3950, 1, way == LONGEST ? 1000 : 100);
        longest += way == LONGEST;
    }
    assert_in_range(longest, 1, 5); /* it is tried again now and then */
    free(r);
    cluster_free(cluster);
}

/* No twin shows it where none loses anything. */
TEST(what_no_twin_loses_ends_it) {
    struct cluster *cluster = cluster_patient(3950);
    struct rehearsal *r = rehearsal_new(cluster);
    int64_t now_ns = 7 * NS_PER_S;
    rehearse(r, &now_ns, 3950, 13, 100);
    assert_int_equal(rehearse(r, &now_ns, 3950, 10, 1), LONGEST); /* under 0.1 % */
    assert_int_equal(rehearse(r, &now_ns, 1000, 5, 0), LONGEST);
    assert_int_equal(rehearse(r, &now_ns, 1000, 1, 10), PRICED);
    assert_false(rehearsal_runs(r));
    free(r);
    cluster_free(cluster);
}

/* Where bursts of 15 s come after 12 quiet seconds, and only the way that waits longest loses nothing by it. */
TEST(rare_bursts_do_not_end_it) {
    struct cluster *cluster = cluster_patient(3950);
    struct rehearsal *r = rehearsal_new(cluster);
    int64_t now_ns = 7 * NS_PER_S;
    rehearse(r, &now_ns, 3950, 10, 100);
    for (int burst = 0; burst < 5; burst++) { /* more quiet seconds than end it in a row */
        assert_int_equal(rehearse(r, &now_ns, 3000, 12, 0), LONGEST);
        assert_int_equal(rehearse(r, &now_ns, 3950, 15, 0), LONGEST);
    }
    free(r);
    cluster_free(cluster);
}

/* With two of four accelerators half of the load is too much, by any way, until they are back. */
TEST(accelerators_that_leave_are_missing_on_all_twins) {
    struct cluster *cluster = cluster_patient(2500);
    struct rehearsal *r = rehearsal_new(cluster);
    int64_t now_ns = 0;
    rehearsal_accelerator(r, now_ns, 3, false); /* before it begins, and while it runs */
    rehearse(r, &now_ns, 2500, 5, 100);
    rehearsal_accelerator(r, now_ns, 1, false);
    rehearse(r, &now_ns, 2500, 30, 100);
    assert_true(rehearsal_runs(r));
    rehearsal_accelerator(r, now_ns, 1, true);
    rehearsal_accelerator(r, now_ns, 3, true);
    assert_int_equal(rehearse(r, &now_ns, 1000, 80, 0), PRICED);
    assert_false(rehearsal_runs(r)); /* nothing more is lost */
    free(r);
    cluster_free(cluster);
}

TEST(impossible_requests_begin_nothing) {
    struct cluster *cluster = cluster_patient(1000);
    struct rehearsal *r = rehearsal_new(cluster);
    for (int64_t second = 1; second <= 5; second++) {
        for (int64_t i = 0; i < 100; i++) {
            int64_t at_ns = (second - 1) * NS_PER_S + i * NS_PER_MS;
            struct request_message message = {
                .kind = REQUEST_ARRIVED, .arrival_ns = at_ns, .deadline_ns = at_ns + 14 * NS_PER_MS, .items = 1};
            rehearsal_request(r, at_ns, &message); /* a lone one takes 14.9 ms */
        }
        assert_int_equal(rehearsal_look(r, second * NS_PER_S, 1100, 100), PRICED);
        assert_false(rehearsal_runs(r));
    }
    assert_int_equal(rehearsal_look(r, 6 * NS_PER_S, 1100, 100), PRICED);
    assert_true(rehearsal_runs(r)); /* these were not */
    free(r);
    cluster_free(cluster);
}

/* The longest wait leaves accelerators idle most, which helps requests whose clients give them hardly more time than a
 * lone one takes. Nobody else is to wait for these, and nobody is hurried because others have much time. */
TEST(clients_in_a_hurry_change_no_way) {
    for (int64_t own_ms = 16; own_ms <= 10000; own_ms += 9984) {
        struct cluster *cluster = cluster_patient(2500);
        struct rehearsal *r = rehearsal_new(cluster);
        int64_t now_ns = 0;
        for (int second = 0; second < 8; second++)
            assert_int_equal(rehearse_beside(r, &now_ns, 2500, 1, 100, own_ms), PRICED);
        assert_true(rehearsal_runs(r));
        assert_int_equal(rehearse_beside(r, &now_ns, 3950, 10, 100, own_ms), LONGEST); /* for the others */
        free(r);
        cluster_free(cluster);
    }
}

/* A policy whose options leave one way has none to rehearse. */
TEST(one_way_needs_no_rehearsal) {
    struct cluster *cluster = cluster_patient(1000);
    assert_true(rehearsal_wanted(&cluster->config));
    policy_deferred.way_fix(&cluster->config.options, NONE);
    assert_false(rehearsal_wanted(&cluster->config));
    policy_options_preset(&policy_symphony, &cluster->config.options);
    cluster->config.policy = &policy_symphony;
    assert_false(rehearsal_wanted(&cluster->config));
    cluster_free(cluster);
}

static double bad_with(struct cluster *cluster, const char *waiting) {
    struct sy_error err;
    policy_options_preset(&policy_deferred, &cluster->config.options);
    assert_int_equal(policy_option_read(&policy_deferred, "waiting", waiting, &cluster->config.options, &err), 0);
    return cluster_run(cluster, 15)->worst_bad_rate;
}

/* The cores go by what the looks say, in a run with sub-clusters and messages that take time as in a plain one; and a
 * run is a function of its seed. */
TEST(a_run_is_nearly_as_good_as_by_its_best_way) {
    for (uint32_t kind = 0; kind < 2; kind++) {
        struct cluster *cluster = cluster_patient(3850);
        cluster->config.message_ns = kind ? 20 * NS_PER_US : 0;
        double priced = bad_with(cluster, "priced");
        if (kind == 0)
            assert_true(bad_with(cluster, "longest") < 0.3 * priced);
        double rehearsed = bad_with(cluster, "rehearsed");
        const double *share = cluster->result.way_share;
        assert_true(rehearsed < 0.5 * priced);
        assert_true(share[LONGEST] > 0.5 && share[PRICED] > 0);
        assert_true(share[PRICED] + share[NONE] + share[LONGEST] > 0.999 &&
                    share[PRICED] + share[NONE] + share[LONGEST] < 1.001);
        double share_before = share[LONGEST];
        if (kind == 1)
            assert_true(bad_with(cluster, "rehearsed") == rehearsed && share[LONGEST] == share_before);
        cluster_free(cluster);
    }
}
