/* test_random_clusters.c - thousands of small random clusters, each held to the checker's invariants.
 *
 * usage: random_clusters [RUNS [FIRST_SEED [POLICY]]], or SYMPHONY_RUNS and SYMPHONY_SEED in the environment. A failing
 * run prints its seed; `random_clusters 1 SEED POLICY` repeats it. */
#include <signal.h>
#include <unistd.h>

#include "sim/random_cluster.h"

#define RUNS 2000 /* of the default policy; of each other one an eighth */

static uint64_t setting(const char *argument, const char *variable, uint64_t otherwise) {
    const char *text = argument ? argument : getenv(variable);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

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
            fprintf(stderr, "%s: seed %" PRIu64 ": %s\nrepeat: %s 1 %" PRIu64 " %s\n", policy->name, seed + i, wrong,
                    program, seed + i, policy->name);
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
    uint64_t runs = setting(argc > 1 ? argv[1] : NULL, "SYMPHONY_RUNS", RUNS);
    uint64_t seed = setting(argc > 2 ? argv[2] : NULL, "SYMPHONY_SEED", 1);
    signal(SIGABRT, on_abort);
    if (argc > 3) {
        struct sy_error err;
        const struct policy_ops *policy = policy_find(argv[3], &err);
        return policy && policy_run(policy, runs, seed, argv[0]) ? 0 : 1;
    }
    for (size_t i = 0; policies[i]; i++)
        if (!policy_run(policies[i], i == 0 ? runs : (runs + 7) / 8, seed, argv[0]))
            return 1;
    return 0;
}
