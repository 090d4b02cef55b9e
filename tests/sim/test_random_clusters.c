/* test_random_clusters.c - thousands of small random clusters, each held to the checker's invariants.
 *
 * usage: sim_random_clusters [POLICY]; which and how many: histories.h. A failure prints what repeats it. */
#include <signal.h>
#include <unistd.h>

#include "histories.h"
#include "sim/random_cluster.h"

#define RUNS 2000 /* of the default policy; of each other one an eighth */

/* Whether all runs of a policy keep the invariants. */
static bool policy_run(const struct policy_ops *policy, uint64_t runs, uint64_t seed, const char *program) {
    struct sim_result totals = {0};
    for (uint64_t i = 0; i < runs; i++) {
        struct scenario scenario;
        char text[256];
        scenario_draw(&scenario, policy, seed + i);
        running_length = snprintf(running, sizeof(running), "%s: seed %" PRIu64 " aborts\n", policy->name, seed + i);
        const char *wrong = scenario_run(&scenario, text, sizeof(text), &totals);
        scenario_free(&scenario);
        if (wrong) {
            fprintf(stderr, "%s: seed %" PRIu64 ": %s\nrepeat: SYMPHONY_RUNS=1 SYMPHONY_SEED=%" PRIu64 " %s %s\n",
                    policy->name, seed + i, wrong, seed + i, program, policy->name);
            return false;
        }
    }
    printf("%s: %" PRIu64 " clusters, %" PRIu64 " requests: %" PRIu64 " good, %" PRIu64 " dropped, %" PRIu64
           " late, %" PRIu64 " cancelled, %" PRIu64 " batches\n",
           policy->name, runs, totals.requests, totals.good, totals.dropped, totals.late, totals.cancelled,
           totals.batches);
    return true;
}

int main(int argc, char **argv) {
    uint64_t runs = histories_count(RUNS), seed = histories_first();
    signal(SIGABRT, on_abort);
    if (argc > 1) {
        struct sy_error err;
        const struct policy_ops *policy = policy_find(argv[1], &err);
        return policy && policy_run(policy, runs, seed, argv[0]) ? 0 : 1;
    }
    for (size_t i = 0; policies[i]; i++)
        if (!policy_run(policies[i], i == 0 ? runs : (runs + 7) / 8, seed, argv[0]))
            return 1;
    return 0;
}
