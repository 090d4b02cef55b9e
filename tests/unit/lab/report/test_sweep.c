/* test_sweep.c - ranges, lists and their product. */
#include "lab/report/sweep.h"

#include <string.h>

#include "core/util/container.h"
#include "unit/test.h"

/* The values, joined by '|'; of a mistake, its sentence. */
static const char *values_of(const char *text) {
    static char joined[512];
    struct sweep sweep;
    struct sy_error err = {""};
    int rc = sweep_parse(text, &sweep, &err);
    joined[0] = '\0';
    for (uint32_t i = 0; i < sweep.count; i++) {
        strcat(joined, i ? "|" : "");
        strcat(joined, sweep.values[i]);
    }
    sweep_free(&sweep);
    return rc ? strcpy(joined, err.text) : joined;
}

struct said {
    const char *text, *want;
};

static void check(const struct said *cases, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_string_equal(values_of(cases[i].text), cases[i].want);
}

TEST(test_ranges) {
    static const struct said cases[] = {
        {"k=1000:2000:500", "1000|1500|2000"},
        {"k=0:1:0.4", "0|0.4|0.8"},
        {"k=0:0.3:0.1", "0|0.1|0.2|0.3"},
        {"k=4:1:-1.5", "4|2.5|1"},
        {"k=-0.2:0.2:0.1", "-0.2|-0.1|0|0.1|0.2"},
        {"k=5:5:1", "5"},
        {"k=10000000001:10000000003:1", "10000000001|10000000002|10000000003"},
        {"k=0:1e12:5e11", "0|500000000000|1000000000000"},
    };
    check(cases, ARRAY_COUNT(cases));
}

TEST(test_lists) {
    static const struct said cases[] = {
        {"k=a", "a"},
        {"policy.name=deferred, eager", "deferred|eager"},
        {"k=poisson,{gamma: 0.1},{steps: [[0, 1], [2, 3]]},'a,b'",
         "poisson|{gamma: 0.1}|{steps: [[0, 1], [2, 3]]}|'a,b'"},
        {"k=1:2", "1:2"}, /* not a range: the scenario's reader will say so */
        {"k=a=b", "a=b"},
    };
    check(cases, ARRAY_COUNT(cases));
}

TEST(test_mistakes) {
    static const struct said cases[] = {
        {"k", "'k': expected KEY=FROM:TO:STEP or KEY=VALUE,VALUE,..."},
        {"=1", "'=1': expected KEY=FROM:TO:STEP or KEY=VALUE,VALUE,..."},
        {"k=", "'k=': expected KEY=FROM:TO:STEP or KEY=VALUE,VALUE,..."},
        {"k=a,,b", "k: a value is empty"},
        {"k=a,", "k: a value is empty"},
        {"k=1:2:0", "k: a step of 0 does not lead from 1 to 2"},
        {"k=1:2:-1", "k: a step of -1 does not lead from 1 to 2"},
        {"k=0:1e9:1", "k: more than 100000 values"},
        {"k=1:1:0", "k: a step of 0 does not lead from 1 to 1"},
    };
    check(cases, ARRAY_COUNT(cases));
}

TEST(test_the_product_turns_its_last_key_fastest) {
    struct sweep sweeps[2];
    assert_int_equal(sweep_parse("a=1,2,3", &sweeps[0], NULL), 0);
    assert_int_equal(sweep_parse("b=x,y", &sweeps[1], NULL), 0);
    assert_int_equal(sweep_points(sweeps, 2), 6);
    static const char *const wanted[][2] = {{"1", "x"}, {"1", "y"}, {"2", "x"}, {"2", "y"}, {"3", "x"}, {"3", "y"}};
    for (uint32_t p = 0; p < 6; p++)
        for (uint32_t k = 0; k < 2; k++)
            assert_string_equal(sweep_value(sweeps, 2, k, p), wanted[p][k]);
    assert_int_equal(sweep_points(sweeps, 0), 1);
    sweep_free(&sweeps[0]);
    sweep_free(&sweeps[1]);
}

TEST(test_a_product_has_a_bound) {
    struct sweep sweeps[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(sweep_parse("a=1:100:1", &sweeps[i], NULL), 0);
    assert_int_equal(sweep_points(sweeps, 2), 10000);
    assert_int_equal(sweep_points(sweeps, 3), 0);
    for (int i = 0; i < 3; i++)
        sweep_free(&sweeps[i]);
}
