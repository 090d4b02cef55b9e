/* test_pool_input.c - a scenario as a pool to be planned: prices, budgets, sizes of queries, and what is refused. */
#include "lab/planfile/pool_input.h"

#include <errno.h>
#include <string.h>

#include "unit/test.h"

#define CLUSTER "cluster: {accelerators: [{type: a, count: 3, price: 0.5}, {type: b, count: 2, price: 0.25}]}\n"
#define MODEL   "models: [{name: m, slo_ms: 20, types: {a: {alpha_ms: 1, beta_ms: 4}, b: {alpha_ms: 2, beta_ms: 4}}}]\n"

struct fixture {
    struct scenario scenario;
    struct cluster cluster;
    struct pool_input input;
    struct sy_error err;
};

/* Reads a scenario and makes the input; 0 or what pool_input_make() gives. */
static int make(struct fixture *f, const char *text, double budget) {
    if (scenario_read_text("s.yaml", text, strlen(text), NULL, 0, &f->scenario, &f->err) ||
        cluster_make(&f->cluster, &f->scenario, &f->err))
        fail_msg("%s", f->err.text);
    return pool_input_make(&f->scenario, &f->cluster, "s.yaml", budget, &f->input, &f->err);
}

static void end(struct fixture *f) {
    cluster_free(&f->cluster);
    scenario_free(&f->scenario);
}

TEST(a_scenario_is_a_pool) {
    struct fixture f;
    assert_int_equal(make(&f, CLUSTER MODEL "network: {reply_margin_us: 500}\n", 0), 0);
    assert_int_equal(f.input.types, 2);
    assert_true(f.input.budget == 2); /* 3 * 0.5 + 2 * 0.25 */
    assert_int_equal(f.input.slo_ns, 19500000);
    assert_int_equal(f.input.items_max, 1);
    assert_true(f.input.up_to[0] == 0 && f.input.up_to[1] == 1);
    assert_true(f.input.type[0].price == 0.5 && f.input.type[1].price == 0.25);
    assert_int_equal(f.input.type[1].latency_ns[3], 10000000);
    end(&f);
    assert_int_equal(make(&f, CLUSTER MODEL, 7), 0);
    assert_true(f.input.budget == 7);
    end(&f);
}

TEST(sizes_of_queries_count) {
    struct fixture f;
    assert_int_equal(make(&f, CLUSTER MODEL "workload: {query_size: {uniform: [3, 6]}}\n", 0), 0);
    assert_int_equal(f.input.items_max, 6);
    assert_true(f.input.up_to[2] == 0 && f.input.up_to[6] == 1);
    assert_true(f.input.up_to[4] > 0.49 && f.input.up_to[4] < 0.51);
    end(&f);
}

TEST(mistakes_are_named) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {CLUSTER "models: [{name: m, alpha_ms: 1, beta_ms: 4, slo_ms: 20, copies: 2}]\n",
         "s.yaml: models: a pool is planned for one model, not for 2"},
        {"cluster: {accelerators: [{type: a, count: 3, price: 0.5}, {type: b, count: 2}]}\n" MODEL,
         "s.yaml: cluster.accelerators: the price of 'b' is not known"},
        {CLUSTER MODEL "workload: {query_size: {uniform: [3, 17]}}\n",
         "s.yaml: no type serves queries of 17 items within the SLO of 20 ms; the largest it can is 16"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture f;
        assert_int_equal(make(&f, cases[i].text, 0), -EINVAL);
        assert_string_equal(f.err.text, cases[i].want);
        end(&f);
    }
}
