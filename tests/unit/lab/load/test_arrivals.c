/* test_arrivals.c - rates, gaps and shares of the arrival process. */
#include "unit/test.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/time.h"
#include "lab/load/arrivals.h"

#define START_NS 5000000000LL

/* Draws `draws` arrivals of one model at 1000/s; the mean and the standard deviation of the gaps, in ms. */
static void gaps_measure(const char *kind, int draws, double *mean_ms, double *deviation_ms) {
    struct arrivals_spec spec;
    assert_int_equal(arrivals_parse(kind, &spec, NULL), 0);
    struct arrivals a;
    double weight = 1.0, sum = 0, squares = 0;
    assert_int_equal(arrivals_init(&a, &spec, 1000.0, &weight, 1, 42, START_NS), 0);
    int64_t last_ns = arrivals_next(&a).due_ns;
    for (int i = 0; i < draws; i++) {
        int64_t due_ns = arrivals_next(&a).due_ns;
        assert_true(due_ns >= last_ns);
        double gap_ms = (double)(due_ns - last_ns) / NS_PER_MS;
        sum += gap_ms;
        squares += gap_ms * gap_ms;
        last_ns = due_ns;
    }
    arrivals_free(&a);
    *mean_ms = sum / draws;
    *deviation_ms = sqrt(squares / draws - *mean_ms * *mean_ms);
}

TEST(gaps_have_the_right_mean_and_spread) {
    static const struct {
        const char *kind;
        double deviation_ms; /* of gamma with shape k: 1/sqrt(k) */
    } cases[] = {{"poisson", 1.0}, {"uniform", 0.0}, {"gamma:0.25", 2.0}, {"gamma:4", 0.5}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        double mean_ms, deviation_ms;
        gaps_measure(cases[i].kind, 200000, &mean_ms, &deviation_ms);
        assert_true(fabs(mean_ms - 1.0) < 0.02);
        assert_true(fabs(deviation_ms - cases[i].deviation_ms) < 0.03);
    }
}

TEST(models_share_the_rate_in_time_order) {
    struct arrivals_spec spec = {.kind = ARRIVALS_POISSON};
    double weights[4], counts[4] = {0};
    popularity_weights(1.0, weights, 4); /* 12 : 6 : 4 : 3 */
    assert_true(fabs(weights[0] - 12.0 / 25.0) < 1e-9);
    assert_true(fabs(weights[3] - 3.0 / 25.0) < 1e-9);
    struct arrivals a;
    assert_int_equal(arrivals_init(&a, &spec, 2000.0, weights, 4, 7, START_NS), 0);
    struct arrival last = {.due_ns = START_NS};
    for (int i = 0; i < 100000; i++) {
        struct arrival next = arrivals_next(&a);
        assert_true(next.due_ns >= last.due_ns);
        counts[next.model] += 1;
        last = next;
    }
    assert_true(fabs((double)(last.due_ns - START_NS) / 50e9 - 1.0) < 0.02);
    for (int i = 0; i < 4; i++)
        assert_true(fabs(counts[i] / 100000 - weights[i]) < 0.01);
    arrivals_free(&a);
}

TEST(constant_gaps_of_models_do_not_coincide) {
    struct arrivals_spec spec = {.kind = ARRIVALS_UNIFORM};
    double weights[2] = {0.5, 0.5};
    struct arrivals a;
    assert_int_equal(arrivals_init(&a, &spec, 200.0, weights, 2, 3, 0), 0);
    int64_t due_ns[2];
    for (int i = 0; i < 2; i++) {
        struct arrival next = arrivals_next(&a);
        due_ns[next.model] = next.due_ns;
    }
    assert_true(due_ns[0] != due_ns[1]);
    for (int i = 0; i < 1000; i++) {
        struct arrival next = arrivals_next(&a);
        int64_t gap_ns = next.due_ns - due_ns[next.model];
        assert_true(gap_ns >= 10 * NS_PER_MS - 1 && gap_ns <= 10 * NS_PER_MS + 1);
        due_ns[next.model] = next.due_ns;
    }
    arrivals_free(&a);
}

TEST(a_seed_repeats_itself) {
    struct arrivals_spec spec = {.kind = ARRIVALS_GAMMA, .shape = 0.5};
    double weights[3] = {0.2, 0.3, 0.5};
    struct arrivals a, b, other;
    bool differs = false;
    assert_int_equal(arrivals_init(&a, &spec, 100.0, weights, 3, 1, 0), 0);
    assert_int_equal(arrivals_init(&b, &spec, 100.0, weights, 3, 1, 0), 0);
    assert_int_equal(arrivals_init(&other, &spec, 100.0, weights, 3, 2, 0), 0);
    for (int i = 0; i < 1000; i++) {
        struct arrival x = arrivals_next(&a), y = arrivals_next(&b), z = arrivals_next(&other);
        assert_true(x.due_ns == y.due_ns && x.model == y.model);
        differs |= x.due_ns != z.due_ns;
    }
    assert_true(differs);
    arrivals_free(&a);
    arrivals_free(&b);
    arrivals_free(&other);
}

TEST(texts_are_checked) {
    static const char *const bad[] = {"",          "Poisson",   "gamma",      "gamma:", "gamma:0",
                                      "gamma:nan", "gamma:1,5", "gamma:1001", "zipf:1"};
    struct arrivals_spec spec;
    struct sy_error err;
    double exponent;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(arrivals_parse(bad[i], &spec, &err), -EINVAL);
        assert_non_null(strstr(err.text, "is not poisson, uniform or gamma:K"));
    }
    assert_int_equal(arrivals_parse("gamma:0.1", &spec, &err), 0);
    assert_true(spec.kind == ARRIVALS_GAMMA && spec.shape == 0.1);
    assert_int_equal(popularity_parse("zipf:0.9", &exponent, &err), 0);
    assert_true(exponent == 0.9);
    assert_int_equal(popularity_parse("equal", &exponent, &err), 0);
    assert_true(exponent == 0.0);
    assert_int_equal(popularity_parse("zipf", &exponent, &err), -EINVAL);
    assert_int_equal(popularity_parse("zipf:-1", &exponent, &err), -EINVAL);
}
