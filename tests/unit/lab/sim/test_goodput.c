/* test_goodput.c - the search ends at the same rate from wherever it starts, over gaps, and at its bounds. */
#include <stdlib.h>

#include "lab/sim/goodput.h"
#include "sched/core/request_pool.h"
#include "unit/test.h"

/* One accelerator that does an item in that time, constant gaps: with 1 ms 1000 a second and not one more. */
static double find(int64_t item_ns, double guess_rps) {
    static const uint8_t types[1];
    struct profile *profile = malloc(profile_bytes(1));
    assert_non_null(profile);
    profile_set_line(profile, 1, (double)item_ns, 0);
    struct sim_model model = {
        .profiles = {profile}, .batch_max = 1, .slo_ns = 20 * item_ns, .share = 1, .items_least = 1, .items_most = 1};
    struct sim_config config = {.models = &model,
                                .model_count = 1,
                                .accelerator_type = types,
                                .accelerators = 1,
                                .types = 1,
                                .arrivals = SIM_UNIFORM,
                                .seconds = 1,
                                .warmup_s = 0.2,
                                .seed = 1,
                                .policy = &policy_deferred};
    void *memory = malloc(goodput_bytes(&config, guess_rps));
    assert_non_null(memory);
    double found = goodput_find(&config, guess_rps, 0.002, memory);
    free(memory);
    free(profile);
    return found;
}

TEST(the_rate_is_found_from_below_and_from_above) {
    static const double guesses[] = {70, 400, 999, 1050, 3000, 30000};
    for (size_t i = 0; i < sizeof(guesses) / sizeof(guesses[0]); i++) {
        double found = find(NS_PER_MS, guesses[i]);
        if (found < 995 || found > 1040) /* 1 % may be bad, and 20 ms may be owed */
            fail_msg("from %.0f it finds %.1f", guesses[i], found);
    }
}

TEST(it_says_how_far_it_looked) {
    assert_true(find(NS_PER_MS, 10) == 160);     /* sixteen times the guess, and still good */
    assert_true(find(10 * NS_PER_MS, 2e5) == 0); /* a 1024th of it is still too much */
}

/* Room for requests is what the longest SLO brings, if that is shorter than the run; a rate beyond all measure asks for
 * more than there is, instead of wrapping round. */
TEST(the_memory_follows_the_shorter_of_run_and_slo) {
    static const uint8_t types[1];
    struct profile *profile = malloc(profile_bytes(1));
    assert_non_null(profile);
    profile_set_line(profile, 1, NS_PER_MS, 0);
    struct sim_rate_step step = {0, 1e5};
    struct sim_model model = {.profiles = {profile},
                              .batch_max = 1,
                              .slo_ns = 3600 * NS_PER_S,
                              .share = 1,
                              .items_least = 1,
                              .items_most = 1};
    struct sim_config config = {.models = &model,
                                .model_count = 1,
                                .accelerator_type = types,
                                .accelerators = 1,
                                .types = 1,
                                .steps = &step,
                                .step_count = 1,
                                .seconds = 1,
                                .policy = &policy_symphony};
    size_t request = sizeof(struct request_node), an_hour = sim_bytes(&config);
    assert_in_range(an_hour, 200000 * request, 400000 * request);
    config.seconds = 2;
    assert_in_range(sim_bytes(&config) - an_hour, 200000 * request, 200001 * request);
    model.slo_ns = NS_PER_S;
    assert_int_equal(sim_bytes(&config), an_hour);
    step.rate_rps = 0x1p31; /* 2^32 requests, and some */
    assert_true(sim_bytes(&config) >= UINT32_MAX * request);
    free(profile);
}

/* Rates that hold: intervals (from, to], ended by a 0. */
struct curve {
    double holds[8];
    int runs, runs_most;
};

static int curve_holds(void *context, double rate_rps) {
    struct curve *curve = context;
    if (curve->runs_most && curve->runs == curve->runs_most)
        return -1;
    curve->runs++;
    for (int i = 0; curve->holds[i + 1] > 0; i += 2)
        if (rate_rps > curve->holds[i] && rate_rps <= curve->holds[i + 1])
            return 1;
    return 0;
}

static double curve_search(struct curve curve, double guess_rps) {
    double found = goodput_search(curve_holds, &curve, guess_rps, 0.01, 1e6);
    assert_in_range(curve.runs, 1, 80);
    return found;
}

static void check_within(double found, double wanted) {
    if (found > wanted || found < wanted / 1.0101)
        fail_msg("%g found instead of %g", found, wanted);
}

TEST(gaps_below_the_boundary_do_not_mislead) {
    static const double guesses[] = {300, 700, 900, 990, 1003, 1015, 1100, 1250, 1600, 5000};
    for (size_t i = 0; i < sizeof(guesses) / sizeof(guesses[0]); i++) {
        check_within(curve_search((struct curve){.holds = {0, 1000}}, guesses[i]), 1000);
        check_within(curve_search((struct curve){.holds = {0, 1000, 1010, 1200}}, guesses[i]), 1200); /* a fluke */
        check_within(curve_search((struct curve){.holds = {0, 700, 720, 980, 985, 1200}}, guesses[i]), 1200); /* two */
        if (guesses[i] > 600) /* small rates wait too long */
            check_within(curve_search((struct curve){.holds = {600, 1200}}, guesses[i]), 1200);
    }
}

TEST(a_search_can_be_ended) {
    assert_true(curve_search((struct curve){.holds = {0, 1000}, .runs_most = 1}, 500) == 500);
    assert_true(curve_search((struct curve){.holds = {0, 1000}, .runs_most = 1}, 5000) == 0);
}

TEST(the_guess_is_what_the_accelerators_could_do) {
    struct profile *profile = malloc(profile_bytes(4));
    assert_non_null(profile);
    profile_set_line(profile, 4, NS_PER_MS, 4 * NS_PER_MS); /* 4 in 8 ms: 2 ms each */
    struct sim_model models[2] = {{.share = 1}, {.share = 3}};
    for (int m = 0; m < 2; m++) {
        models[m].profiles[0] = profile;
        models[m].batch_max = 4;
        models[m].slo_ns = m == 0 ? 8 * NS_PER_MS : 6 * NS_PER_MS; /* the second: 2 in 6 ms, 3 ms each */
        models[m].items_least = models[m].items_most = 1;
    }
    struct sim_config config = {.models = models, .model_count = 2, .accelerators = 11, .types = 1};
    double mean_ms = (1 * 2 + 3 * 3) / 4.0, guess = goodput_guess(&config);
    assert_true(guess > 0.8 * 11 * 1000 / mean_ms * 0.9999 && guess < 0.8 * 11 * 1000 / mean_ms * 1.0001);
    free(profile);
}
