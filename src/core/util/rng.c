/* rng.c - seeded random numbers. */
#include "core/util/rng.h"

#include "core/util/fmath.h"

#define NOISE_MOST 5.0

static uint64_t rotate(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

void rng_seed(struct rng *rng, uint64_t seed) {
    for (int i = 0; i < 4; i++) /* splitmix64, as the generator's authors advise */
        rng->s[i] = rng_mix(seed += RNG_STEP);
}

uint64_t rng_next(struct rng *rng) {
    uint64_t *s = rng->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double rng_uniform(struct rng *rng) {
    return (double)(rng_next(rng) >> 11) * 0x1.0p-53;
}

uint64_t rng_below(struct rng *rng, uint64_t n) {
    return (uint64_t)(((unsigned __int128)rng_next(rng) * n) >> 64);
}

uint64_t weight_find(const double *sums, uint64_t first, uint64_t last, double target) {
    while (first < last) {
        uint64_t middle = (first + last) / 2;
        if (target < sums[middle])
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}

double rng_exponential(struct rng *rng) {
    return -fmath_log(1.0 - rng_uniform(rng));
}

/* A standard normal number by the polar method. The method's second number is dropped, so that the state is only four
 * words. */
static double rng_normal(struct rng *rng) {
    for (;;) {
        double u = 2.0 * rng_uniform(rng) - 1.0, v = 2.0 * rng_uniform(rng) - 1.0, s = u * u + v * v;
        if (s > 0.0 && s < 1.0)
            return u * __builtin_sqrt(-2.0 * fmath_log(s) / s);
    }
}

double rng_gamma(struct rng *rng, double shape) {
    double boost = 1.0, k = shape;
    if (k < 1.0) { /* gamma(k) = gamma(k+1) * U^(1/k) */
        boost = fmath_exp(fmath_log(1.0 - rng_uniform(rng)) / k);
        k += 1.0;
    }
    double d = k - 1.0 / 3.0, c = 1.0 / __builtin_sqrt(9.0 * d);
    for (;;) {
        double x = rng_normal(rng), v = 1.0 + c * x;
        if (v <= 0.0)
            continue;
        v = v * v * v;
        double u = 1.0 - rng_uniform(rng);
        if (fmath_log(u) < 0.5 * x * x + d - d * v + d * fmath_log(v))
            return d * v * boost / shape;
    }
}

int64_t rng_noisy(struct rng *rng, int64_t ns, double noise) {
    if (noise <= 0)
        return ns;
    double x = rng_exponential(rng);
    return ns + (int64_t)((double)ns * noise * (x < NOISE_MOST ? x : NOISE_MOST));
}
