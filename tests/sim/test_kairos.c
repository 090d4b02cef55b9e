/* test_kairos.c - the policy `kairos` in whole pools: its order among the schemes that it was compared with, and twice
 * what the same money buys of the base type alone (HPDC '23, section 8).
 *
 * sanitizers: no, it compares numbers, and runs no code that random_clusters does not run */
#include <stdio.h>
#include <stdlib.h>

#include "lab/scenario/scenario.h"
#include "lab/sim/cluster.h"
#include "unit/test.h"

/* RM2 at a rate on `pool`, a list of {type, count}; the share of bad queries. */
static double bad_rate(const char *pool, const char *policy, double rate_rps) {
    char text[1024];
    int length = snprintf(text, sizeof(text),
                          "cluster: {accelerators: [%s]}\n"
                          "models: {zoo: kairos, names: [rm2]}\n"
                          "workload: {rate_rps: %g, query_size: kairos}\n"
                          "policy: {name: kairos, late: serve, start: nothing%s}\n"
                          "run: {seconds: 100, warmup_seconds: 5, seed: 1}\n",
                          pool, rate_rps, policy);
    struct scenario scenario;
    struct cluster cluster;
    struct sy_error err;
    if (scenario_read_text("test", text, (size_t)length, NULL, 0, &scenario, &err) ||
        cluster_make(&cluster, &scenario, &err))
        fail_msg("%s", err.text);
    void *memory = malloc(sim_bytes(&cluster.config));
    assert_non_null(memory);
    struct sim_result result;
    sim_run(&cluster.config, memory, &result);
    assert_int_equal(result.unanswered, 0);
    assert_true(result.offered > 90 * rate_rps);
    free(memory);
    cluster_free(&cluster);
    scenario_free(&scenario);
    return result.worst_bad_rate;
}

#define MIXED "{type: g4dn.xlarge, count: 1}, {type: r5n.large, count: 13}" /* 2.46 dollars an hour */
#define ALIKE "{type: g4dn.xlarge, count: 4}"                               /* 2.10; 2.5 would pay for 4.75 */

TEST(the_schemes_are_in_the_paper_s_order) {
    static const struct {
        const char *policy;
        double holds_rps, fails_rps;
    } schemes[] = {
        {"", 122, 142},
        {", scheme: drs, threshold: 900", 104, 122},
        {", scheme: clkwrk", 90, 115},
        {", scheme: ribbon", 45, 60},
    };
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        double holds = bad_rate(MIXED, schemes[i].policy, schemes[i].holds_rps);
        double fails = bad_rate(MIXED, schemes[i].policy, schemes[i].fails_rps);
        if (holds > 0.01 || fails <= 0.01)
            fail_msg("'%s': bad %.4f at %g/s, %.4f at %g/s", schemes[i].policy, holds, schemes[i].holds_rps, fails,
                     schemes[i].fails_rps);
    }
}

/* Figure 8: up to twice the base type's throughput, its unused budget counted in its favour. */
TEST(a_mixed_pool_is_worth_twice_the_base_type) {
    double alike_rps = 50;
    assert_true(bad_rate(ALIKE, "", alike_rps) <= 0.01);
    assert_true(bad_rate(ALIKE, "", alike_rps * 1.1) > 0.01);
    assert_true(bad_rate(MIXED, "", 2 * alike_rps * 2.5 / 2.104) <= 0.01);
}

/* Figure 16 (b). */
TEST(errors_of_prediction_cost_little) {
    assert_true(bad_rate(MIXED, ", noise: 0.05", 118) <= 0.01);
    assert_true(bad_rate(MIXED, ", noise: 0.3", 118) > 0.01);
}
