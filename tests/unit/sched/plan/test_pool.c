/* test_pool.c - upper bounds, choices and searches of pools, worked by hand. */
#include <string.h>

#include "sched/plan/pool.h"
#include "unit/test.h"

#define MS 1000000LL

#define assert_near(x, y)                                                                                              \
    do {                                                                                                               \
        double x_ = (x), y_ = (y);                                                                                     \
        if (!(x_ > y_ * (1 - 1e-9) - 1e-9 && x_ < y_ * (1 + 1e-9) + 1e-9))                                             \
            fail_msg("%s is %.12g, not %.12g", #x, x_, y_);                                                            \
    } while (0)

/* Queries of 1, 2 and 3 items: 50, 30 and 20 %. The base type takes 10, 20 and 35 ms, two others 5, 10, 60 ms and 20,
 * 100, 200 ms; the SLO is 50 ms. */
static const double up_to[] = {0, 0.5, 0.8, 1};
static const int64_t strong_ns[] = {0, 10 * MS, 20 * MS, 35 * MS}, wide_ns[] = {0, 5 * MS, 10 * MS, 60 * MS},
                     narrow_ns[] = {0, 20 * MS, 100 * MS, 200 * MS};

static struct pool_input three_types(void) {
    return (struct pool_input){
        .types = 3,
        .type = {{narrow_ns, 1, 0}, {strong_ns, 5, 0}, {wide_ns, 3, 0}},
        .items_max = 3,
        .up_to = up_to,
        .slo_ns = 50 * MS,
        .budget = 10,
    };
}

TEST(the_base_type_serves_everything) {
    struct pool_input input = three_types();
    assert_int_equal(pool_base(&input), 1);
    input.slo_ns = 200 * MS;                /* all do: 55, 56 and 56.1 queries a second for a dollar an hour */
    input.type[0].price = 1000.0 / 80 / 55; /* mean latencies of 80, 18 and 17.5 ms */
    input.type[1].price = 1000.0 / 18 / 56;
    input.type[2].price = 1000.0 / 17.5 / 56.1;
    assert_int_equal(pool_base(&input), 2);
    input.slo_ns = 30 * MS;
    assert_int_equal(pool_base(&input), POOL_BASE_NONE);
}

TEST(rates_follow_the_sizes) {
    struct pool_input input = three_types();
    struct pool_rates rates;
    pool_rates_derive(&input, 1, &rates);
    assert_near(rates.base_qps, 1000.0 / 18); /* 5 + 6 + 7 ms */
    assert_int_equal(rates.size[0], 1);
    assert_int_equal(rates.size[1], 3);
    assert_int_equal(rates.size[2], 2);
    assert_near(rates.small[0], 0.5);
    assert_near(rates.small[2], 0.8);
    assert_near(rates.base_large_qps[0], 0.5 * 1000 / 13); /* of 2 and 3 items: 6 + 7 ms of half the queries */
    assert_near(rates.base_large_qps[2], 1000.0 / 35);
    assert_near(rates.small_qps[2][2], 0.8 * 1000 / 5.5);
    assert_near(rates.small_qps[2][0], 200);
    assert_near(rates.small_qps[0][2], 0.8 * 1000 / 40); /* though it would be late with 2 items */
}

/* One base and one auxiliary instance (equations 9 and 11), then several, then two auxiliary types (15). */
TEST(the_bound_is_equation_15) {
    struct pool_rates rates = {.types = 2, .base = 0, .base_qps = 100, .size = {9, 5}, .small = {1, 0.8}};
    rates.base_large_qps[1] = 40;
    rates.small_qps[1][1] = 300; /* the base type is the bottleneck: 40 <= 300 * 0.2 / 0.8 */
    assert_near(pool_bound(&rates, (const uint16_t[POOL_TYPES_MAX]){1, 1}), 40 / 0.2);
    rates.small_qps[1][1] = 100; /* 25 of 40 are taken: the rest of the base serves anything */
    assert_near(pool_bound(&rates, (const uint16_t[POOL_TYPES_MAX]){1, 1}), 100 / 0.8 + 15.0 / 40 * 100);
    assert_near(pool_bound(&rates, (const uint16_t[POOL_TYPES_MAX]){3, 4}), 400 / 0.8 + 20.0 / 120 * 300);
    assert_near(pool_bound(&rates, (const uint16_t[POOL_TYPES_MAX]){1, 4}), 40 / 0.2);
    assert_near(pool_bound(&rates, (const uint16_t[POOL_TYPES_MAX]){2, 0}), 200);
    assert_near(pool_bound(&rates, (const uint16_t[POOL_TYPES_MAX]){0, 4}), 0); /* nobody for the large ones */

    rates.types = 3; /* the third type goes further: its s and f count for both */
    rates.size[2] = 7;
    rates.small[2] = 0.9;
    rates.base_large_qps[2] = 30;
    rates.small_qps[1][2] = 80;
    rates.small_qps[2][2] = 50;
    assert_near(pool_bound(&rates, (const uint16_t[POOL_TYPES_MAX]){1, 1, 2}), 180 / 0.9 + 10.0 / 30 * 100);
    assert_near(pool_bound(&rates, (const uint16_t[POOL_TYPES_MAX]){1, 2, 4}), 30 / 0.1);
    assert_near(pool_bound(&rates, (const uint16_t[POOL_TYPES_MAX]){1, 1, 0}), 100 / 0.8 + 15.0 / 40 * 100);
}

/* RM2 on three g4dn.xlarge, one c5n.2xlarge and three r5n.large, from the parameters that the authors published. */
TEST(the_bound_of_a_published_configuration) {
    struct pool_rates rates = {.types = 3, .base = 0, .base_qps = 15.04, .size = {1000, 909, 869}};
    rates.small[0] = 1;
    rates.small[1] = 0.989;
    rates.small[2] = 0.984;
    rates.base_large_qps[1] = 15.04 * (1 - 0.989) / (1 - 0.959);
    rates.small_qps[1][1] = 10.73;
    rates.small_qps[2][1] = 10.27;
    double small = 10.73 + 3 * 10.27, large = 3 * rates.base_large_qps[1], needed = small * 0.011 / 0.989;
    assert_near(pool_bound(&rates, (const uint16_t[POOL_TYPES_MAX]){3, 1, 3}),
                small / 0.989 + (large - needed) / large * 45.12);
}

TEST(all_configurations_under_the_budget_are_ranked) {
    struct pool_input input = three_types();
    struct pool_rates rates;
    pool_rates_derive(&input, 1, &rates);
    /* 10 dollars: 2 of the base type alone; 1 of it with 5 to spend on others at 1 and 3: none or one of the dear with
     * 0 to 5 or 0 to 2 of the cheap. Without a base instance nothing is served. */
    assert_int_equal(pool_count(&input, &rates), 1 + 6 + 3);
    struct pool_config configs[10];
    pool_rank(&input, &rates, configs);
    for (int i = 0; i < 10; i++) {
        assert_near(configs[i].bound, pool_bound(&rates, configs[i].count));
        assert_true(configs[i].price <= 10 && configs[i].count[1] > 0);
        assert_near(configs[i].price,
                    configs[i].count[0] * 1.0 + configs[i].count[1] * 5.0 + configs[i].count[2] * 3.0);
        for (int k = 0; k < i; k++) {
            assert_true(configs[k].bound >= configs[i].bound);
            assert_true(memcmp(configs[k].count, configs[i].count, sizeof(configs[i].count)) != 0);
        }
    }
    input.type[0].count_max = 2;
    assert_int_equal(pool_count(&input, &rates), 1 + 3 + 3);
    input.type[0].latency_ns = NULL;
    pool_rates_derive(&input, 1, &rates);
    assert_int_equal(pool_count(&input, &rates), 1 + 1 + 1);
    input.budget = 4;
    assert_int_equal(pool_count(&input, &rates), 0);
    input.budget = 0.3; /* 0.1 three times is a little more than 0.3 */
    input.type[1].price = 0.1;
    assert_int_equal(pool_count(&input, &rates), 3);
    double qps;
    assert_int_equal(pool_homogeneous(&input, &rates, &qps), 3);
    assert_near(qps, 3000.0 / 18);
}

static struct pool_config config_of(uint16_t a, uint16_t b, double bound) {
    return (struct pool_config){.count = {a, b}, .bound = bound};
}

TEST(the_similar_are_preferred) {
    struct pool_rates rates = {.types = 2, .base = 0};
    const struct pool_config alike[] = {config_of(3, 1, 9), config_of(3, 2, 8), config_of(3, 9, 7), config_of(1, 1, 6)};
    assert_int_equal(pool_choose(&rates, alike, 4), 0); /* the first three have as many base instances */
    assert_int_equal(pool_choose(&rates, alike, 1), 0);
    const struct pool_config mixed[] = {config_of(1, 9, 9), config_of(3, 3, 8), config_of(3, 4, 7), config_of(2, 5, 6)};
    /* Squared distances: (1,9) 40+29+17 = 86, (3,3) 40+1+5 = 46, (3,4) 29+1+2 = 32, (2,5) 17+5+2 = 24. */
    assert_int_equal(pool_choose(&rates, mixed, 4), 3);
    struct pool_config many[12];
    for (uint16_t i = 0; i < 12; i++)
        many[i] = config_of(1 + i % 2, i, 100 - i); /* of the first ten, the middle; of twelve it would be another */
    assert_int_equal(pool_choose(&rates, many, 12), 4);
}

/* What is picked is what is chosen of all configurations in their order. */
TEST(the_choice_needs_no_list) {
    struct pool_input input = three_types();
    struct pool_rates rates;
    struct pool_config picked, configs[2000];
    pool_rates_derive(&input, 1, &rates);
    for (input.budget = 5; input.budget < 40; input.budget += 2.5) {
        size_t count = pool_count(&input, &rates);
        assert_true(count > 0 && count <= sizeof(configs) / sizeof(configs[0]));
        pool_rank(&input, &rates, configs);
        assert_true(pool_pick(&input, &rates, &picked));
        assert_memory_equal(picked.count, configs[pool_choose(&rates, configs, count)].count, sizeof(picked.count));
    }
    input.budget = 4; /* pays for no base instance */
    assert_false(pool_pick(&input, &rates, &picked));
    input.budget = 1000; /* too many configurations */
    assert_false(pool_pick(&input, &rates, &picked));
}

/* ---- Kairos+ ---- */

struct evaluations {
    const double *qps; /* by the order of calls */
    uint32_t calls;
    uint16_t seen[8][2];
};

static double evaluate(void *context, const struct pool_config *config) {
    struct evaluations *e = context;
    memcpy(e->seen[e->calls], config->count, sizeof(e->seen[0]));
    return e->qps[e->calls++];
}

TEST(the_search_leaves_out_what_cannot_be_better) {
    struct pool_config configs[] = {config_of(2, 5, 100), config_of(2, 4, 90), config_of(3, 1, 85),
                                    config_of(1, 9, 80),  config_of(3, 0, 70), config_of(1, 2, 65)};
    const double qps[] = {60, 78, 75};
    struct evaluations e = {.qps = qps};
    size_t best;
    /* (2,5) gives 60: (2,4) and (1,2) are parts of it. (3,1) gives 78: (3,0) can do no more than 70. (1,9) is left. */
    assert_int_equal(pool_search(configs, 6, 2, evaluate, &e, &best), 3);
    assert_int_equal(best, 2);
    assert_int_equal(configs[0].status, POOL_EVALUATED);
    assert_int_equal(configs[1].status, POOL_PART_PRUNED);
    assert_int_equal(configs[2].status, POOL_EVALUATED);
    assert_int_equal(configs[3].status, POOL_EVALUATED);
    assert_int_equal(configs[4].status, POOL_BOUND_PRUNED);
    assert_int_equal(configs[5].status, POOL_PART_PRUNED);
    assert_near(configs[2].evaluated, 78);
    assert_int_equal(e.seen[2][1], 9);
}

TEST(the_search_ends_when_it_is_told_to) {
    struct pool_config configs[] = {config_of(1, 5, 100), config_of(2, 4, 90), config_of(3, 1, 85)};
    const double qps[] = {50, -1};
    struct evaluations e = {.qps = qps};
    size_t best;
    assert_int_equal(pool_search(configs, 3, 2, evaluate, &e, &best), 1);
    assert_int_equal(best, 0);
    assert_int_equal(configs[2].status, POOL_OPEN);
    e = (struct evaluations){.qps = qps + 1};
    assert_int_equal(pool_search(configs, 3, 2, evaluate, &e, &best), 0);
    assert_int_equal(best, 3);
}

/* ---- oracle ---- */

TEST(the_oracle_works_from_both_ends) {
    struct pool_input input = three_types();
    struct pool_rates rates;
    pool_rates_derive(&input, 1, &rates);
    /* Ten queries: five of 1, three of 2, two of 3. The base alone: 50 + 60 + 70 ms. */
    assert_near(pool_oracle(&input, &rates, (const uint16_t[POOL_TYPES_MAX]){0, 1, 0}, 10), 10 / 0.180);
    /* With one `wide`: the base takes 3, 3 (70 ms); wide 1, 1, 1, 1, 1, 2, 2, 2 (55 ms). */
    assert_near(pool_oracle(&input, &rates, (const uint16_t[POOL_TYPES_MAX]){0, 1, 1}, 10), 10 / 0.070);
    /* With one `narrow`: 1 at 0, 20, 40, 60, and 80 ms (until 100); the base 3, 3, 2 until 90, 2 until 110, 2 until
     * 130. */
    assert_near(pool_oracle(&input, &rates, (const uint16_t[POOL_TYPES_MAX]){1, 1, 0}, 10), 10 / 0.130);
    assert_near(pool_oracle(&input, &rates, (const uint16_t[POOL_TYPES_MAX]){0, 0, 4}, 10), 0);
    assert_near(pool_oracle(&input, &rates, (const uint16_t[POOL_TYPES_MAX]){0}, 10), 0);
}

TEST(the_oracle_has_as_many_instances_as_it_is_told) {
    struct pool_input input = three_types();
    struct pool_rates rates;
    pool_rates_derive(&input, 1, &rates);
    /* One query each: over when the largest are. */
    assert_near(pool_oracle(&input, &rates, (const uint16_t[POOL_TYPES_MAX]){0, 10000, 0}, 10000), 10000 / 0.035);
}

TEST(a_budget_that_buys_no_base_type_ends_the_walk) {
    struct pool_input input = three_types();
    struct pool_rates rates;
    pool_rates_derive(&input, 1, &rates);
    input.budget = 60000; /* two types that serve nothing alone, 60,000 and 20,000 of each: billions */
    input.type[1].price = 60001;
    assert_int_equal(pool_count(&input, &rates), POOL_CONFIGS_MAX + 1);
}
