/* rng.h - seeded random numbers (xoshiro256**, Blackman and Vigna) and the distributions of arrivals. The same seed
 * gives the same numbers on every machine: the logarithm used is our own (fmath.h), not the C library's. */
#pragma once

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

/* The last steps of splitmix64, each of which has an inverse: makes of different numbers, also of numbers in a row,
 * different ones that have nothing in common. */
static inline uint64_t rng_mix(uint64_t number) {
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
    number = (number ^ number >> 27) * 0x94d049bb133111eb;
    return number ^ number >> 31;
}
#define RNG_STEP 0x9e3779b97f4a7c15 /* the step between the numbers that splitmix64 mixes */

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
/* Uniform in [0, 1). */
double rng_uniform(struct rng *rng);
/* Uniform integer in [0, n), n > 0. */
uint64_t rng_below(struct rng *rng, uint64_t n);
/* What a draw in proportion to weights chooses, by `sums`, the weights' running sums: the first place of first..last
 * whose sum is over `target`, or `last`. */
uint64_t weight_find(const double *sums, uint64_t first, uint64_t last, double target);
/* Exponential with mean 1. */
double rng_exponential(struct rng *rng);
/* Gamma with the given shape and mean 1 (Marsaglia and Tsang 2000). */
double rng_gamma(struct rng *rng, double shape);
/* A time with noise: ns * (1 + noise * x), x exponential with mean 1, at most 5. Draws nothing if `noise` is 0. */
int64_t rng_noisy(struct rng *rng, int64_t ns, double noise);
