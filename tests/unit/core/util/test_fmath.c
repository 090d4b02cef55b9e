/* test_fmath.c - exp and log against the C library's. */
#include <math.h>

#include "core/util/fmath.h"
#include "core/util/rng.h"
#include "unit/test.h"

TEST(test_against_libm) {
    struct rng rng;
    rng_seed(&rng, 11);
    for (int i = 0; i < 100000; i++) {
        double x = (rng_uniform(&rng) - 0.5) * 1400;
        assert_true(fabs(fmath_exp(x) - exp(x)) <= 1e-12 * exp(x));
        double y = fmath_exp((rng_uniform(&rng) - 0.5) * 600);
        assert_true(fabs(fmath_log(y) - log(y)) <= 1e-12 * (1 + fabs(log(y))));
    }
    assert_true(fmath_exp(0) == 1.0);
    assert_true(fmath_log(1) == 0.0);
}

TEST(test_limits) {
    assert_true(fmath_exp(-1e9) == 0.0);
    assert_true(fmath_exp(1e9) > 1e307 && isfinite(fmath_exp(1e9)));
    assert_true(fmath_log(0) == -745.0);
    assert_true(fmath_log(-1) == -745.0);
}
