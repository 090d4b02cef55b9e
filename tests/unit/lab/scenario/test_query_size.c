/* test_query_size.c - sizes of requests follow their definitions: by hand, against the C library's error function, and
 * against the published programs' own steps taken here once more. */
#include "lab/scenario/query_size.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "unit/test.h"
#include "unit/text_file.h"

static struct query_sizes sizes_of(struct query_size_spec spec) {
    struct query_sizes sizes;
    struct sy_error err = {""};
    if (query_sizes_fill(&spec, &sizes, &err))
        fail_msg("%s", err.text);
    assert_true(sizes.up_to[sizes.least - 1] == 0 && sizes.up_to[sizes.most] == 1);
    return sizes;
}

static struct query_sizes published(const char *system, const char *name) {
    struct query_size_spec spec = {.kind = QUERY_PUBLISHED, .published = query_size_published(system, name)};
    assert_non_null(spec.published);
    return sizes_of(spec);
}

static double probability(const struct query_sizes *sizes, uint32_t size) {
    return sizes->up_to[size] - sizes->up_to[size - 1];
}

static double below(double z) {
    return 0.5 * erfc(-z / sqrt(2));
}

TEST(constants_and_uniforms) {
    struct rng rng;
    rng_seed(&rng, 1);
    struct query_sizes sizes = sizes_of((struct query_size_spec){.kind = QUERY_CONSTANT, .a = 7});
    assert_true(sizes.least == 7 && sizes.most == 7 && query_sizes_mean(&sizes) == 7);
    assert_int_equal(query_sizes_draw(&sizes, &rng), 7);
    sizes = sizes_of((struct query_size_spec){.kind = QUERY_UNIFORM, .a = 3, .b = 6});
    uint32_t seen[8] = {0};
    for (int i = 0; i < 40000; i++) {
        uint32_t size = query_sizes_draw(&sizes, &rng);
        assert_in_range(size, 3, 6);
        seen[size]++;
    }
    for (int k = 3; k <= 6; k++)
        assert_in_range(seen[k], 9600, 10400);
    assert_true(fabs(query_sizes_mean(&sizes) - 4.5) < 1e-9);
}

TEST(gaussians_are_rounded_and_clipped) {
    struct query_sizes sizes = sizes_of((struct query_size_spec){.kind = QUERY_GAUSSIAN, .a = 250, .b = 40});
    double mean = 0, square = 0;
    for (uint32_t k = 1; k <= sizes.most; k++) {
        assert_true(fabs(probability(&sizes, k) - (below((k + .5 - 250) / 40) - below((k - .5 - 250) / 40))) < 1e-9);
        mean += k * probability(&sizes, k);
        square += (double)k * k * probability(&sizes, k);
    }
    assert_true(fabs(mean - 250) < 1e-6);
    assert_true(fabs(square - mean * mean - (1600 + 1. / 12)) < 1e-3); /* rounding adds a twelfth */
    sizes = sizes_of((struct query_size_spec){.kind = QUERY_GAUSSIAN, .a = 1, .b = 2});
    assert_true(fabs(probability(&sizes, 1) - below(0.25)) < 1e-9); /* all that rounds to 1 or less */
    sizes = sizes_of((struct query_size_spec){.kind = QUERY_GAUSSIAN, .a = 1024, .b = 100});
    assert_true(fabs(probability(&sizes, 1024) - (1 - below(-0.005))) < 1e-9);
    sizes = sizes_of((struct query_size_spec){.kind = QUERY_GAUSSIAN, .a = 40, .b = 0.001});
    assert_true(probability(&sizes, 40) == 1);
}

TEST(deeprecsys_sizes_are_its_scripts) {
    static const struct {
        const char *name;
        bool log;
        double a, b;
    } cases[] = {
        {"experiments", true, 5.1, 0.2}, {"run_deeprecsys", false, 165, 16}, {"run_deeprecinfra", false, 256, 32}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct query_sizes sizes = published("deeprecsys", cases[i].name);
        for (uint32_t k = 2; k < 1024; k++) { /* cut to whole numbers */
            double from = cases[i].log ? log(k) : k, to = cases[i].log ? log(k + 1.) : k + 1.;
            double want = below((to - cases[i].a) / cases[i].b) - below((from - cases[i].a) / cases[i].b);
            assert_true(fabs(probability(&sizes, k) - want) < 1e-9);
        }
    }
    struct query_sizes sizes = published("deeprecsys", "experiments");
    assert_true(fabs(query_sizes_mean(&sizes) - (exp(5.1 + 0.02) - 0.5)) < 0.01); /* a lognormal's mean, cut */
    assert_null(query_size_published("deeprecsys", "kairos"));
}

static double normal_draw(struct rng *rng) {
    return sqrt(2 * rng_exponential(rng)) * cos(2 * M_PI * rng_uniform(rng));
}

/* The steps of Kairos's random_samp(). */
static uint32_t kairos_draw(struct rng *rng) {
    double sample = exp(5.1 + 0.2 * normal_draw(rng));
    uint64_t r = 1 + rng_below(rng, 99);
    if (r <= 8)
        return 1 + (uint32_t)rng_below(rng, 99);
    if (r <= 30)
        return 200 + (uint32_t)rng_below(rng, 400);
    if (r <= 35)
        return 600 + (uint32_t)rng_below(rng, 400);
    return sample > 200 || sample < 100 ? 190 + (uint32_t)rng_below(rng, 10) : (uint32_t)sample;
}

TEST(kairos_sizes_are_its_programs) {
    enum { DRAWS = 400000 };
    static const uint32_t points[] = {20, 50, 99, 120, 150, 170, 189, 195, 199, 250, 400, 599, 700, 999};
    struct query_sizes sizes = published("kairos", "kairos");
    struct rng rng;
    rng_seed(&rng, 5);
    double counts[ARRAY_COUNT(points)] = {0}, drawn[ARRAY_COUNT(points)] = {0}, sum = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint32_t theirs = kairos_draw(&rng), ours = query_sizes_draw(&sizes, &rng);
        sum += theirs;
        for (size_t p = 0; p < ARRAY_COUNT(points); p++) {
            counts[p] += theirs <= points[p];
            drawn[p] += ours <= points[p];
        }
    }
    for (size_t p = 0; p < ARRAY_COUNT(points); p++) { /* five standard errors of a half */
        assert_true(fabs(counts[p] / DRAWS - sizes.up_to[points[p]]) < 0.004);
        assert_true(fabs(drawn[p] / DRAWS - sizes.up_to[points[p]]) < 0.004);
    }
    assert_true(fabs(sum / DRAWS - query_sizes_mean(&sizes)) < 1.5);
    assert_true(sizes.least == 1 && sizes.most == 999);
    assert_true(fabs(sizes.up_to[99] - 8 / 99.) < 1e-9 && fabs(sizes.up_to[199] - 72 / 99.) < 1e-9);
    assert_true(fabs(1 - sizes.up_to[599] - 5 / 99.) < 1e-9);
}

static int table_of(const char *text, struct query_sizes *sizes, struct sy_error *err) {
    struct query_size_spec spec = {.kind = QUERY_TABLE};
    text_file(spec.table_path, text, strlen(text));
    int rc = query_sizes_fill(&spec, sizes, err);
    unlink(spec.table_path);
    return rc;
}

TEST(tables_are_read) {
    struct query_sizes sizes;
    struct sy_error err = {""};
    assert_int_equal(table_of("# seen\n4\n4\n10\n2\n", &sizes, &err), 0);
    assert_true(sizes.least == 2 && sizes.most == 10 && query_sizes_mean(&sizes) == 5);
    assert_int_equal(table_of("1,1\n1024 , 3\n5,0\n", &sizes, &err), 0);
    assert_true(probability(&sizes, 1024) == 0.75 && probability(&sizes, 5) == 0);
    struct rng rng;
    rng_seed(&rng, 2);
    for (int i = 0; i < 1000; i++) {
        uint32_t size = query_sizes_draw(&sizes, &rng);
        assert_true(size == 1 || size == 1024);
    }
    static const struct {
        const char *text, *want;
    } mistakes[] = {
        {"4\n0\n", ":2: expected 'size' or 'size,weight': a whole number from 1 to 1024, and a number from 0"},
        {"1025\n", ":1: expected"},
        {"2.5\n", ":1: expected"},
        {"size,weight\n", ":1: expected"},
        {"2,-1\n", ":1: expected"},
        {"2,nan\n", ":1: expected"},
        {"2,1,1\n", ":1: expected"},
        {"2,\n", ":1: expected"},
        {"", ": the weights of the sizes add up to nothing"},
        {"3,0\n", ": the weights of the sizes add up to nothing"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(mistakes); i++) {
        assert_int_equal(table_of(mistakes[i].text, &sizes, &err), -EINVAL);
        if (!strstr(err.text, mistakes[i].want))
            fail_msg("%s: %s", mistakes[i].text, err.text);
    }
}
