/* test_goodput.c - the search ends at the same rate from wherever it starts, and at its bounds. */
#include <stdlib.h>

#include "sim/goodput.h"
#include "unit/cmocka_all.h"

/* One accelerator that does an item in 1 ms, constant gaps: 1000 a second and not one more. */
static double find(double guess_rps) {
    static const uint8_t types[1];
    struct profile *profile = malloc(profile_bytes(1));
    assert_non_null(profile);
    profile_set_line(profile, 1, NS_PER_MS, 0);
    struct sim_model model = {
        .profiles = {profile}, .batch_max = 1, .slo_ns = 20 * NS_PER_MS, .share = 1, .items_least = 1, .items_most = 1};
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

static void the_rate_is_found_from_below_and_from_above(void **state) {
    (void)state;
    static const double guesses[] = {70, 400, 999, 1050, 3000, 300000};
    for (size_t i = 0; i < sizeof(guesses) / sizeof(guesses[0]); i++) {
        double found = find(guesses[i]);
        if (found < 995 || found > 1040) /* 1 % may be bad, and 20 ms may be owed */
            fail_msg("from %.0f it finds %.1f", guesses[i], found);
    }
}

static void it_says_how_far_it_looked(void **state) {
    (void)state;
    assert_true(find(10) == 160); /* sixteen times the guess, and still good */
    assert_true(find(2e6) == 0);  /* a 1024th of it is still too much */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rate_is_found_from_below_and_from_above),
        cmocka_unit_test(it_says_how_far_it_looked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
