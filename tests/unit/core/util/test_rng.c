/* test_rng.c - moments of the distributions, and that a seed means the same numbers for ever. */
#include <math.h>

#include "core/util/rng.h"
#include "unit/test.h"

#define N 400000

static void moments(double (*draw)(struct rng *, double), double parameter, double *mean, double *variance) {
    struct rng rng;
    double sum = 0, squares = 0;
    rng_seed(&rng, 5);
    for (int i = 0; i < N; i++) {
        double x = draw(&rng, parameter);
        sum += x;
        squares += x * x;
    }
    *mean = sum / N;
    *variance = squares / N - *mean * *mean;
}

static double draw_exponential(struct rng *rng, double unused) {
    (void)unused;
    return rng_exponential(rng);
}

TEST(test_moments) {
    double mean, variance;
    moments(draw_exponential, 0, &mean, &variance);
    assert_true(fabs(mean - 1) < 0.01 && fabs(variance - 1) < 0.03);
    const double shapes[] = {0.1, 0.5, 1.0, 3.0};
    for (unsigned i = 0; i < 4; i++) { /* mean 1, variance 1/k */
        moments(rng_gamma, shapes[i], &mean, &variance);
        assert_true(fabs(mean - 1) < 0.03);
        assert_true(fabs(variance * shapes[i] - 1) < 0.05);
    }
}

TEST(test_same_seed_same_numbers) {
    struct rng rng;
    rng_seed(&rng, 1);
    /* xoshiro256** seeded by splitmix64(1); worked once with an independent program */
    assert_int_equal(rng_next(&rng), 0xb3f2af6d0fc710c5ULL);
    assert_int_equal(rng_next(&rng), 0x853b559647364ceaULL);
}

TEST(test_below) {
    struct rng rng;
    int seen[6] = {0};
    rng_seed(&rng, 2);
    for (int i = 0; i < 60000; i++)
        seen[rng_below(&rng, 6)]++;
    for (int i = 0; i < 6; i++)
        assert_in_range(seen[i], 9500, 10500);
}

TEST(test_weight_find) {
    const double sums[] = {0, 1, 1, 4};
    const struct {
        double target;
        uint64_t place;
    } cases[] = {{0, 1}, {0.99, 1}, {1, 3}, {3.9, 3}, {4, 3}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(weight_find(sums, 0, 3, cases[i].target), cases[i].place);
    assert_int_equal(weight_find(sums, 2, 3, 0.5), 2);
}
