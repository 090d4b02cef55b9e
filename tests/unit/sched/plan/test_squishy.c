/* test_squishy.c - squishy bin packing: the paper's example, the limits of a plan, and the least number of GPUs by
 * brute force. */
#include <stdlib.h>

#include "core/util/rng.h"
#include "core/util/time.h"
#include "sched/plan/squishy.h"
#include "unit/test.h"

#define SESSIONS_MAX 8

struct world {
    struct squishy_session sessions[SESSIONS_MAX];
    uint32_t count;
    struct squishy plan;
    void *memory;
};

static struct profile *points(uint32_t batch_max, const uint32_t *batch, const int64_t *ms, uint32_t count) {
    struct profile *profile = malloc(profile_bytes(batch_max));
    int64_t ns[8];
    assert_non_null(profile);
    for (uint32_t i = 0; i < count; i++)
        ns[i] = ms[i] * NS_PER_MS;
    assert_int_equal(profile_set_points(profile, batch_max, batch, ns, count), 0);
    return profile;
}

static void session_add(struct world *w, struct profile *profile, double slo_ms, double rate) {
    w->sessions[w->count++] = (struct squishy_session){
        .profile = profile, .batch_max = profile->batch_max, .slo_ns = (int64_t)(slo_ms * NS_PER_MS), .rate = rate};
}

static void line_add(struct world *w, double alpha_ms, double beta_ms, double slo_ms, double rate) {
    struct profile *profile = malloc(profile_bytes(64));
    assert_non_null(profile);
    profile_set_line(profile, 64, alpha_ms * NS_PER_MS, beta_ms * NS_PER_MS);
    session_add(w, profile, slo_ms, rate);
}

static void plan_begin(struct world *w, uint32_t gpus, uint64_t memory_bytes) {
    w->memory = malloc(squishy_bytes(gpus, w->count));
    assert_non_null(w->memory);
    squishy_init(&w->plan, w->memory, gpus, w->count, memory_bytes);
}

static void world_end(struct world *w) {
    for (uint32_t s = 0; s < w->count; s++)
        free((void *)w->sessions[s].profile);
    free(w->memory);
}

/* Nexus, table 2; A: 200 ms, B and C: 250 ms. */
static void table_2(struct world *w, double rate_a, double rate_b, double rate_c) {
    const uint32_t batch[] = {4, 8, 16};
    const int64_t a[] = {50, 75, 100}, b[] = {50, 90, 125}, c[] = {60, 95, 125};
    session_add(w, points(16, batch, a, 3), 200, rate_a);
    session_add(w, points(16, batch, b, 3), 250, rate_b);
    session_add(w, points(16, batch, c, 3), 250, rate_c);
}

/* The same, planned on so many GPUs. */
static void table_2_planned(struct world *w, double rate_a, double rate_b, double rate_c, uint32_t gpus) {
    table_2(w, rate_a, rate_b, rate_c);
    plan_begin(w, gpus, 0);
    assert_true(squishy_update(&w->plan, w->sessions, 1));
}

/* What every plan must hold, worked out anew: constraints (a) to (g) of section 6.1. */
static void plan_holds(const struct world *w, double scale) {
    double served[SESSIONS_MAX] = {0};
    for (uint32_t g = 0; g < w->plan.gpus_max; g++) {
        const struct squishy_gpu *gpu = &w->plan.gpus[g];
        int64_t run_ns = 0;
        uint64_t bytes = 0;
        for (uint32_t s = 0; s < w->count; s++) {
            if (!squishy_on(&w->plan, g, s))
                continue;
            assert_true(gpu->usable);
            uint32_t b = squishy_batch(&w->plan, g, s);
            assert_in_range(b, 1, w->sessions[s].batch_max);
            int64_t latency_ns = w->sessions[s].profile->latency_ns[b];
            run_ns += latency_ns;
            bytes += w->sessions[s].weights_bytes;
            assert_true(gpu->duty_ns + latency_ns <= w->sessions[s].slo_ns);
            assert_true(squishy_rate(&w->plan, w->sessions, g, s) * (double)gpu->duty_ns / 1e9 <= b + 1e-3);
            served[s] += squishy_rate(&w->plan, w->sessions, g, s);
        }
        assert_true(run_ns <= gpu->duty_ns);
        assert_true(!w->plan.memory_bytes || bytes <= w->plan.memory_bytes);
    }
    for (uint32_t s = 0; s < w->count; s++) {
        double due = w->sessions[s].rate * scale, missing = squishy_missing(&w->plan, w->sessions, s);
        assert_true(served[s] + missing > due - 1e-3 - 1e-3 * due && served[s] + missing < due + 1e-3 + 1e-3 * due);
    }
}

TEST(large_sessions_fill_whole_gpus) {
    struct world w = {.count = 0};
    table_2(&w, 480, 256, 128); /* section 4.1: 160, 128 and 128 requests/s a GPU, in batches of 16 */
    assert_int_equal(squishy_gpus_most(w.sessions, w.count), 4 + 3 + 2);
    plan_begin(&w, 9, 0);
    assert_true(squishy_update(&w.plan, w.sessions, 1));
    assert_int_equal(squishy_gpus_used(&w.plan), 6);
    for (uint32_t s = 0; s < 3; s++) {
        assert_int_equal(w.plan.places[s].batch_full, 16);
        assert_int_equal(w.plan.places[s].saturated, 3 - s);
    }
    plan_holds(&w, 1);
    world_end(&w);
}

TEST(a_and_b_share_a_gpu_and_c_does_not_fit) {
    struct world w = {.count = 0};
    table_2(&w, 64, 32, 32); /* section 4.1, figure 2 */
    plan_begin(&w, 3, 0);
    assert_true(squishy_update(&w.plan, w.sessions, 1));
    assert_int_equal(squishy_gpus_used(&w.plan), 2);
    uint32_t g = w.plan.places[0].gpu;
    assert_int_equal(w.plan.places[1].gpu, g);
    assert_int_not_equal(w.plan.places[2].gpu, g);
    assert_int_equal(w.plan.gpus[g].duty_ns, 125 * NS_PER_MS);
    assert_int_equal(w.plan.places[0].batch, 8);
    assert_int_equal(w.plan.places[1].batch, 4);
    assert_true(w.plan.gpus[g].occupancy > 0.999999); /* 75 + 50 of 125 ms */
    plan_holds(&w, 1);
    world_end(&w);
}

TEST(few_requests_run_one_by_one_in_time) {
    struct world w = {.count = 0};
    line_add(&w, 1, 9, 50, 2); /* one comes every 500 ms: none waits for another */
    plan_begin(&w, 1, 0);
    assert_true(squishy_update(&w.plan, w.sessions, 1));
    assert_int_equal(w.plan.places[0].batch, 1);
    assert_int_equal(w.plan.gpus[0].duty_ns, 40 * NS_PER_MS);
    plan_holds(&w, 1);
    world_end(&w);
}

TEST(a_residue_just_under_a_gpu_has_one) {
    struct world w = {.count = 0};
    /* B = 10, l(10) = 20 ms: 500 items/s. At 490: 10 take 20.4 ms to gather and run until 40.4 > 40; 9 run for 19 ms,
     * longer than the 18.4 ms that they gather. */
    line_add(&w, 1, 10, 40, 490);
    plan_begin(&w, 1, 0);
    assert_true(squishy_update(&w.plan, w.sessions, 1));
    assert_int_equal(w.plan.places[0].gpu, 0);
    assert_int_equal(w.plan.places[0].batch, 10);
    assert_int_equal(w.plan.gpus[0].duty_ns, 20 * NS_PER_MS);
    plan_holds(&w, 1);
    world_end(&w);
}

TEST(a_table_with_a_dear_large_batch_is_cut_at_its_best) {
    struct world w = {.count = 0};
    const uint32_t batch[] = {1, 4, 8};
    const int64_t ms[] = {10, 16, 48}; /* 250 items/s at 4, 167 at 8 */
    session_add(&w, points(8, batch, ms, 3), 100, 600);
    plan_begin(&w, 3, 0);
    assert_int_equal(squishy_batch_full(&w.sessions[0]), 4);
    assert_true(squishy_update(&w.plan, w.sessions, 1));
    assert_int_equal(w.plan.places[0].saturated, 2);
    assert_int_equal(squishy_gpus_used(&w.plan), 3);
    plan_holds(&w, 1);
    world_end(&w);
}

TEST(what_cannot_meet_its_slo_is_missing) {
    struct world w = {.count = 0};
    line_add(&w, 1, 20, 40, 10); /* 2 * 21 ms */
    line_add(&w, 1, 20, 60, 10);
    plan_begin(&w, 4, 0);
    assert_int_equal(squishy_batch_full(&w.sessions[0]), 0);
    assert_false(squishy_update(&w.plan, w.sessions, 1));
    assert_true(squishy_missing(&w.plan, w.sessions, 0) > 9.99);
    assert_true(squishy_missing(&w.plan, w.sessions, 1) <= 0);
    assert_int_equal(squishy_gpus_used(&w.plan), 1);
    world_end(&w);
}

TEST(weights_limit_what_shares_a_gpu) {
    struct world w = {.count = 0};
    for (int s = 0; s < 3; s++) {
        line_add(&w, 1, 5, 100, 10);
        w.sessions[s].weights_bytes = 40;
    }
    plan_begin(&w, 3, 100);
    assert_true(squishy_update(&w.plan, w.sessions, 1));
    assert_int_equal(squishy_gpus_used(&w.plan), 2);
    plan_holds(&w, 1);
    w.sessions[2].weights_bytes = 101;
    squishy_clear(&w.plan);
    assert_false(squishy_update(&w.plan, w.sessions, 1));
    assert_true(squishy_missing(&w.plan, w.sessions, 2) > 9.99);
    world_end(&w);
}

TEST(too_few_gpus_leave_the_rest_missing) {
    struct world w = {.count = 0};
    table_2(&w, 480, 32, 0);
    plan_begin(&w, 2, 0);
    assert_false(squishy_update(&w.plan, w.sessions, 1));
    assert_true(squishy_missing(&w.plan, w.sessions, 0) > 159.9 && squishy_missing(&w.plan, w.sessions, 0) < 160.1);
    assert_true(squishy_missing(&w.plan, w.sessions, 1) > 31.9);
    plan_holds(&w, 1);
    world_end(&w);
}

/* ---- from epoch to epoch ---- */

TEST(placements_stay_while_they_fit) {
    struct world w = {.count = 0};
    table_2_planned(&w, 64, 32, 32, 4);
    uint32_t a = w.plan.places[0].gpu, c = w.plan.places[2].gpu;
    w.sessions[0].rate = 50;
    w.sessions[1].rate = 20;
    w.sessions[2].rate = 40;
    assert_true(squishy_update(&w.plan, w.sessions, 1));
    assert_int_equal(w.plan.places[0].gpu, a);
    assert_int_equal(w.plan.places[1].gpu, a);
    assert_int_equal(w.plan.places[2].gpu, c);
    plan_holds(&w, 1);
    world_end(&w);
}

TEST(an_overloaded_gpu_loses_its_cheapest_session) {
    struct world w = {.count = 0};
    table_2_planned(&w, 64, 32, 32, 4);
    uint32_t a = w.plan.places[0].gpu;
    w.sessions[0].rate = 80; /* A's batch of 9 leaves no room for B's */
    assert_true(squishy_update(&w.plan, w.sessions, 1));
    assert_int_equal(w.plan.places[0].gpu, a);
    assert_int_equal(w.plan.places[1].gpu, w.plan.places[2].gpu); /* best fit: beside C */
    assert_int_equal(squishy_gpus_used(&w.plan), 2);
    plan_holds(&w, 1);
    world_end(&w);
}

TEST(less_load_frees_a_gpu) {
    struct world w = {.count = 0};
    table_2_planned(&w, 64, 32, 32, 4);
    uint32_t a = w.plan.places[0].gpu, c = w.plan.places[2].gpu;
    w.sessions[0].rate = 10;
    w.sessions[1].rate = 10;
    w.sessions[2].rate = 10;
    assert_true(squishy_update(&w.plan, w.sessions, 1));
    assert_int_equal(squishy_gpus_used(&w.plan), 1);
    assert_true(w.plan.gpus[a].occupancy <= 0 || w.plan.gpus[c].occupancy <= 0);
    plan_holds(&w, 1);
    world_end(&w);
}

TEST(saturated_gpus_come_and_go) {
    struct world w = {.count = 0};
    table_2_planned(&w, 400, 0, 0, 6);
    assert_int_equal(w.plan.places[0].saturated, 2);
    assert_int_equal(squishy_gpus_used(&w.plan), 3);
    w.sessions[0].rate = 500; /* the residue's GPU is the third */
    uint32_t residue = w.plan.places[0].gpu;
    assert_true(squishy_update(&w.plan, w.sessions, 1));
    assert_int_equal(w.plan.places[0].saturated, 3);
    assert_int_equal(w.plan.gpus[residue].saturated, 0);
    plan_holds(&w, 1);
    w.sessions[0].rate = 100;
    assert_true(squishy_update(&w.plan, w.sessions, 1));
    assert_int_equal(w.plan.places[0].saturated, 0);
    assert_int_equal(squishy_gpus_used(&w.plan), 1);
    plan_holds(&w, 1);
    world_end(&w);
}

TEST(an_accelerator_out_of_service_is_left) {
    struct world w = {.count = 0};
    table_2_planned(&w, 64 + 160, 32, 32, 4);
    for (uint32_t g = 0; g < 3; g++) {
        squishy_usable_set(&w.plan, g, false);
        assert_true(squishy_update(&w.plan, w.sessions, 1));
        plan_holds(&w, 1);
        squishy_usable_set(&w.plan, g, true);
    }
    world_end(&w);
}

/* ---- against brute force ---- */

/* Whether residues share a GPU in any duty cycle at all: only cycles at which some batch is full need to be tried,
 * the longest of those with the same batches, and the ends that the SLOs set. */
static bool group_fits_in(const struct world *w, uint32_t members, double duty_s) {
    double run_s = 0;
    if (duty_s <= 0)
        return false;
    for (uint32_t s = 0; s < w->count; s++) {
        if (!(members >> s & 1))
            continue;
        double items = w->plan.places[s].residue * duty_s;
        uint32_t b = (uint32_t)(items + 1 - 1e-6);
        b = b ? b : 1;
        if (b > 64)
            return false;
        double latency_s = (double)w->sessions[s].profile->latency_ns[b] / 1e9;
        run_s += latency_s;
        if (duty_s + latency_s > (double)w->sessions[s].slo_ns / 1e9 + 1e-9)
            return false;
    }
    return run_s <= duty_s + 1e-9;
}

static bool group_fits(const struct world *w, uint32_t members) {
    for (uint32_t s = 0; s < w->count; s++) {
        if (!(members >> s & 1))
            continue;
        for (uint32_t b = 1; b <= 64; b++) {
            double slo_s = (double)w->sessions[s].slo_ns / 1e9;
            if (group_fits_in(w, members, b / w->plan.places[s].residue) ||
                group_fits_in(w, members, slo_s - (double)w->sessions[s].profile->latency_ns[b] / 1e9))
                return true;
        }
    }
    return false;
}

/* The least number of groups that `left` divides into; fits[]: by members. */
static uint32_t groups_least(const bool *fits, uint32_t left, uint32_t *known) {
    if (!left)
        return 0;
    if (known[left])
        return known[left];
    uint32_t least = UINT32_MAX, lowest = left & -left;
    for (uint32_t group = left; group; group = (group - 1) & left)
        if ((group & lowest) && fits[group]) {
            uint32_t with = 1 + groups_least(fits, left & ~group, known);
            least = with < least ? with : least;
        }
    return known[left] = least;
}

static uint32_t gpus_least(const struct world *w) {
    static bool fits[1 << SESSIONS_MAX];
    static uint32_t known[1 << SESSIONS_MAX];
    uint32_t all = 0, saturated = 0;
    for (uint32_t s = 0; s < w->count; s++) {
        all |= (uint32_t)(w->plan.places[s].residue > 0) << s;
        saturated += w->plan.places[s].saturated_due;
    }
    for (uint32_t members = 1; members <= all; members++) {
        known[members] = 0;
        fits[members] = (members & ~all) == 0 && group_fits(w, members);
    }
    return saturated + groups_least(fits, all, known);
}

TEST(the_number_of_gpus_is_near_the_least) {
    struct rng rng;
    rng_seed(&rng, 7);
    uint32_t greedy = 0, least = 0, equal = 0, cases = 300;
    for (uint32_t i = 0; i < cases; i++) {
        struct world w = {.count = 0};
        uint32_t sessions = 2 + (uint32_t)rng_below(&rng, 5);
        for (uint32_t s = 0; s < sessions; s++) {
            double alpha_ms = 0.5 + 2 * rng_uniform(&rng), beta_ms = 10 * rng_uniform(&rng);
            line_add(&w, alpha_ms, beta_ms, (alpha_ms + beta_ms) * (3 + 8 * rng_uniform(&rng)),
                     1 + 150 * rng_uniform(&rng));
        }
        plan_begin(&w, squishy_gpus_most(w.sessions, w.count), 0);
        assert_true(squishy_update(&w.plan, w.sessions, 1));
        plan_holds(&w, 1);
        uint32_t found = squishy_gpus_used(&w.plan), best = gpus_least(&w);
        assert_in_range(found, best, best + 1);
        greedy += found;
        least += best;
        equal += found == best;
        world_end(&w);
    }
    /* 254 of 300 are the least; 667 GPUs in all, at least 621 */
    assert_in_range(equal, cases * 4 / 5, cases);
    assert_in_range(greedy, least, least * 108 / 100);
}

TEST(plans_hold_whatever_the_rates_do) {
    struct rng rng;
    rng_seed(&rng, 11);
    for (uint32_t i = 0; i < 50; i++) {
        struct world w = {.count = 0};
        for (uint32_t s = 0; s < SESSIONS_MAX; s++) {
            double alpha_ms = 0.5 + 2 * rng_uniform(&rng), beta_ms = 10 * rng_uniform(&rng);
            line_add(&w, alpha_ms, beta_ms, (alpha_ms + beta_ms) * (1.5 + 8 * rng_uniform(&rng)), 0);
            w.sessions[s].weights_bytes = rng_below(&rng, 50);
        }
        plan_begin(&w, 12, 100);
        for (uint32_t epoch = 0; epoch < 40; epoch++) {
            for (uint32_t s = 0; s < w.count; s++)
                if (rng_uniform(&rng) < 0.5)
                    w.sessions[s].rate = rng_uniform(&rng) < 0.2 ? 0 : 300 * rng_uniform(&rng);
            squishy_usable_set(&w.plan, (uint32_t)rng_below(&rng, 12), rng_uniform(&rng) < 0.7);
            bool all = squishy_update(&w.plan, w.sessions, 1);
            double missing = 0;
            for (uint32_t s = 0; s < w.count; s++)
                missing += squishy_missing(&w.plan, w.sessions, s);
            assert_int_equal(all, missing <= 0);
            plan_holds(&w, 1);
        }
        world_end(&w);
    }
}

/* ---- many GPUs, which are not all looked at ---- */

/* Figure 7 as printed: whether a residue and those of a GPU fit into the smallest of their duty cycles. */
static bool merges(const struct squishy *plan, const struct squishy_session *sessions, uint32_t more, uint32_t gpu) {
    int64_t duty_ns = plan->places[more].alone_duty_ns, run_ns = 0;
    bool fits = true;
    for (uint32_t s = plan->gpus[gpu].first; s != SQUISHY_NONE; s = plan->places[s].next)
        duty_ns = plan->places[s].alone_duty_ns < duty_ns ? plan->places[s].alone_duty_ns : duty_ns;
    for (uint32_t s = more; s != SQUISHY_NONE; s = s == more ? plan->gpus[gpu].first : plan->places[s].next) {
        uint32_t b = (uint32_t)(plan->places[s].residue * (double)duty_ns / 1e9 + 1 - 1e-6);
        b = b ? b : 1;
        fits &= b <= 64 && duty_ns + sessions[s].profile->latency_ns[b] <= sessions[s].slo_ns;
        run_ns += b <= 64 ? sessions[s].profile->latency_ns[b] : 0;
    }
    return fits && run_ns <= duty_ns;
}

TEST(who_is_alone_on_a_gpu_fits_on_no_other) {
    enum { SESSIONS = 300, LINES = 20, GPUS = 400 };
    static struct squishy_session sessions[SESSIONS];
    struct profile *profiles[LINES];
    struct squishy plan;
    void *memory = malloc(squishy_bytes(GPUS, SESSIONS));
    struct rng rng;
    rng_seed(&rng, 3);
    for (uint32_t i = 0; i < LINES; i++) {
        profiles[i] = malloc(profile_bytes(64));
        profile_set_line(profiles[i], 64, (0.5 + 2 * rng_uniform(&rng)) * NS_PER_MS,
                         10 * rng_uniform(&rng) * NS_PER_MS);
    }
    squishy_init(&plan, memory, GPUS, SESSIONS, 0);
    for (uint32_t s = 0; s < SESSIONS; s++)
        sessions[s] = (struct squishy_session){
            .profile = profiles[s % LINES],
            .batch_max = 64,
            .slo_ns = (int64_t)((double)profiles[s % LINES]->latency_ns[1] * (3 + 8 * rng_uniform(&rng)))};
    for (uint32_t epoch = 0; epoch < 5; epoch++) {
        for (uint32_t s = 0; s < SESSIONS; s++)
            sessions[s].rate = rng_uniform(&rng) < 0.3 ? sessions[s].rate : 150 * rng_uniform(&rng);
        assert_true(squishy_update(&plan, sessions, 1));
        uint32_t alone = 0;
        for (uint32_t g = 0; g < GPUS; g++) {
            uint32_t s = plan.gpus[g].first;
            if (s == SQUISHY_NONE || plan.places[s].next != SQUISHY_NONE)
                continue;
            alone++;
            for (uint32_t to = 0; to < GPUS; to++)
                assert_false(to != g && plan.gpus[to].first != SQUISHY_NONE && merges(&plan, sessions, s, to));
        }
        assert_true(alone > 0);
    }
    for (uint32_t i = 0; i < LINES; i++)
        free(profiles[i]);
    free(memory);
}
