/* test_items.c - `deferred` where requests have up to a thousand items and accelerators are of several types: Kairos's
 * queries (HPDC '23) on its instances. It loses no more than the best other policy, and the largest requests are not
 * what it gives up.
 *
 * sanitizers: no, it compares numbers, and runs no code that random_clusters does not run */
#include <stdio.h>
#include <stdlib.h>

#include "lab/scenario/scenario.h"
#include "lab/sim/cluster.h"
#include "unit/test.h"

#define REQUESTS_MAX 200000
#define LARGE        600 /* items: one request in twenty has so many */
#define WARMUP_S     3

struct seen {
    uint16_t items[REQUESTS_MAX]; /* by number of the request */
    uint64_t large, large_lost;   /* large requests after the warm-up; those of them that were refused */
};

static void arrived(void *context, int64_t now_ns, uint64_t handle, uint32_t model, uint32_t items, uint8_t priority,
                    int64_t deadline_ns) {
    struct seen *seen = context;
    (void)model, (void)priority, (void)deadline_ns;
    uint64_t number = sim_request_number(handle);
    assert_true(number < REQUESTS_MAX);
    seen->items[number] = (uint16_t)items;
    seen->large += items >= LARGE && now_ns > WARMUP_S * NS_PER_S;
}

static void refused(void *context, int64_t now_ns, uint32_t model, uint64_t handle, enum refusal reason) {
    struct seen *seen = context;
    (void)model, (void)reason;
    seen->large_lost += seen->items[sim_request_number(handle)] >= LARGE && now_ns > WARMUP_S * NS_PER_S;
}

struct lost {
    double all, large; /* shares */
};

static struct lost lost_of(const char *model, const char *pool, const char *policy, double rate_rps, double seconds) {
    char text[1024];
    int length = snprintf(text, sizeof(text),
                          "cluster: {accelerators: [%s]}\n"
                          "models: {zoo: kairos, names: [%s]}\n"
                          "workload: {rate_rps: %g, query_size: kairos}\n"
                          "policy: %s\n"
                          "run: {seconds: %g, warmup_seconds: %d, seed: 9}\n",
                          pool, model, rate_rps, policy, seconds, WARMUP_S);
    struct scenario scenario;
    struct cluster cluster;
    struct sy_error err;
    if (scenario_read_text("test", text, (size_t)length, NULL, 0, &scenario, &err) ||
        cluster_make(&cluster, &scenario, &err))
        fail_msg("%s", err.text);
    struct seen *seen = calloc(1, sizeof(*seen));
    void *memory = malloc(sim_bytes(&cluster.config));
    assert_true(seen && memory);
    const struct sim_observer observer = {.context = seen, .arrived = arrived, .refused = refused};
    cluster.config.observer = &observer;
    struct sim_result result;
    sim_run(&cluster.config, memory, &result);
    struct lost lost = {result.worst_bad_rate, (double)seen->large_lost / (double)seen->large};
    free(memory);
    free(seen);
    cluster_free(&cluster);
    scenario_free(&scenario);
    return lost;
}

#define FAST_FIRST                                                                                                     \
    "{type: g4dn.xlarge, count: 3}, {type: c5n.2xlarge, count: 1}, {type: r5n.large, count: 2}, {type: t3.xlarge, "    \
    "count: 1}"
#define FAST_LAST                                                                                                      \
    "{type: t3.xlarge, count: 1}, {type: r5n.large, count: 2}, {type: c5n.2xlarge, count: 1}, {type: g4dn.xlarge, "    \
    "count: 3}"
#define FAST_ONLY "{type: g4dn.xlarge, count: 3}"

TEST(queries_of_many_items_are_served_as_well_as_by_any_policy) {
    static const struct {
        const char *model, *pool;
        double rate_rps, seconds; /* about the goodput of clockwork with ahead_ms 0, the best other policy */
    } cells[] = {
        {"dien", FAST_FIRST, 735, 30}, {"dien", FAST_LAST, 735, 30}, {"mtwnd", FAST_FIRST, 1050, 20},
        {"ncf", FAST_FIRST, 6500, 6},  {"wnd", FAST_ONLY, 1260, 20},
    };
    double own_sum = 0, other_sum = 0;
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        const char *model = cells[i].model, *pool = cells[i].pool;
        struct lost own = lost_of(model, pool, "{name: deferred}", cells[i].rate_rps, cells[i].seconds);
        struct lost other = lost_of(model, pool, "{name: clockwork, ahead_ms: 0}", cells[i].rate_rps, cells[i].seconds);
        printf("%s: %.4f lost, %.4f of the large ones; clockwork %.4f, %.4f\n", model, own.all, own.large, other.all,
               other.large);
        own_sum += own.all;
        other_sum += other.all;
        if (own.all > 1.2 * other.all || own.large > 1.35 * other.large)
            fail_msg("%s at %g/s: loses %.4f, and %.4f of the large requests; clockwork %.4f and %.4f", model,
                     cells[i].rate_rps, own.all, own.large, other.all, other.large);
    }
    if (own_sum > 1.05 * other_sum)
        fail_msg("loses %.4f in all cells, clockwork %.4f", own_sum, other_sum);
}
