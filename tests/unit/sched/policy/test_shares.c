/* test_shares.c - who is admitted when a sub-cluster is asked for too much, against numbers worked by hand. */
#include "sched/policy/shares.h"

#include "unit/assert_near.h"
#include "unit/test.h"

#define MODELS 3

/* rate items a second of 1 ms each, b* 1; as busy over 0.1 s as over 2 s */
static struct model_rates load(double rate) {
    return (struct model_rates){
        .rate = rate, .rate_fast = rate, .arrivals_fast = rate / 10, .weight = 1, .batch_best = 1, .alpha_ns = 1e6};
}

static void derive(const struct model_rates *rates, double accelerators, double *admit_share) {
    struct cluster_view view = {.models = MODELS, .rates = rates, .accelerators = accelerators, .busy = 1};
    shares_derive(&view, false, admit_share);
}

TEST(the_load_of_a_rate_is_what_its_batches_take) {
    struct model_rates r = load(1000);
    r.beta_ns = 5e6;
    assert_near(rate_load(&r, 1000, 10), 1.5, 1e-9);
    assert_near(rate_load(&r, 2000, 1), 12, 1e-9);
}

TEST(a_share_of_the_arrivals_is_admitted_evenly) {
    double credit = 0;
    int admitted = 0, run = 0, longest = 0;
    for (int i = 0; i < 1000; i++) {
        bool yes = share_admits(&credit, 0.25);
        admitted += yes;
        run = yes ? 0 : run + 1;
        longest = run > longest ? run : longest;
    }
    assert_int_equal(admitted, 250);
    assert_int_equal(longest, 3);
    assert_true(share_admits(&credit, 1));
    assert_false(share_admits(&credit, 0));
}

TEST(a_flood_is_cut_to_its_share_and_the_others_are_not) {
    double share[MODELS];
    /* demands of 0.5, 1 and 10 accelerators on 4; 0.92*4 - 1.5 = 2.18 are left for it */
    struct model_rates rates[] = {load(500), load(1000), load(10000)};
    derive(rates, 4, share);
    assert_near(share[0], 1, 1e-9);
    assert_near(share[1], 1, 1e-9);
    assert_near(share[2], 0.218, 1e-9);
    rates[2] = load(2700); /* 4.2 on 4: over the cluster, but not by a tenth */
    derive(rates, 4, share);
    assert_near(share[2], 1, 1e-9);
    rates[2].bad_rate = 0.1; /* unless it hurts */
    rates[0].bad_rate = rates[1].bad_rate = 0.1;
    rates[2] = load(4000); /* (more than twice the mean) */
    rates[2].bad_rate = 0.1;
    derive(rates, 5.2, share);
    assert_near(share[2], (0.92 * 5.2 - 1.5) / 4, 1e-9);
}

TEST(nobody_is_cut_when_everybody_floods) {
    double share[MODELS];
    struct model_rates rates[] = {load(9000), load(9000), load(30000)};
    derive(rates, 4, share); /* no model is under the level of 1.23 */
    for (int i = 0; i < MODELS; i++)
        assert_near(share[i], 1, 1e-9);
    struct model_rates even[] = {load(2000), load(2100), load(1900)};
    derive(even, 4, share); /* overloaded, but nobody has over twice the mean */
    for (int i = 0; i < MODELS; i++)
        assert_near(share[i], 1, 1e-9);
}

TEST(weights_divide_what_the_others_leave) {
    double share[MODELS];
    struct model_rates rates[] = {load(500), load(10000), load(10000)};
    rates[1].weight = 3;
    derive(rates, 4, share); /* 0.92*4 - 0.5 = 3.18 for the two: 2.385 and 0.795 */
    assert_near(share[0], 1, 1e-9);
    assert_near(share[1], 0.2385, 1e-9);
    assert_near(share[2], 0.0795, 1e-9);
    rates[0].weight = 0.1; /* what it asks for is more than a tenth of a share: 3.68 as 0.1 : 3 : 1 */
    derive(rates, 4, share);
    assert_near(share[0], 0.1 * 3.68 / 4.1 / 0.5, 1e-9);
    assert_near(share[1], 0.3 * 3.68 / 4.1, 1e-9);
    assert_near(share[2], 0.1 * 3.68 / 4.1, 1e-9);
}

TEST(a_heavier_model_keeps_what_it_asks_for_when_all_are_too_many) {
    double share[MODELS];
    struct model_rates rates[] = {load(2000), load(2000), load(2000)};
    rates[1].weight = 10;
    derive(rates, 4, share); /* 2 of 3.68, which leaves 0.84 for each of the others */
    assert_near(share[0], 0.42, 1e-9);
    assert_near(share[1], 1, 1e-9);
    assert_near(share[2], 0.42, 1e-9);
    for (int i = 0; i < MODELS; i++)
        rates[i].weight = 10; /* weights of one kind promise nothing: nobody has over twice the mean */
    derive(rates, 4, share);
    for (int i = 0; i < MODELS; i++)
        assert_near(share[i], 1, 1e-9);
    struct model_rates flood[] = {load(500), load(1000), load(10000)};
    for (int i = 0; i < MODELS; i++)
        flood[i].weight = 10;
    derive(flood, 4, share);
    assert_near(share[2], 0.218, 1e-9); /* as if it were 1 */
}

TEST(a_sudden_flood_counts_before_the_slow_rate_knows) {
    double share[MODELS];
    struct model_rates rates[] = {load(500), load(1000), load(1000)};
    rates[2].rate_fast = 20000;
    rates[2].arrivals_fast = 2000;
    derive(rates, 4, share);
    double demand = 20 * (1 - 4 / 63.2535);
    assert_near(share[2], (0.92 * 4 - 1.5) / demand, 1e-5);
}

TEST(idle_accelerators_are_not_overloaded_whatever_the_rates_say) {
    double share[MODELS];
    struct model_rates rates[] = {load(500), load(1000), load(10000)};
    struct cluster_view view = {.models = MODELS, .rates = rates, .accelerators = 4, .busy = 0.49};
    shares_derive(&view, false, share);
    assert_near(share[2], 1, 1e-9);
    shares_derive(&view, true, share); /* they will be busy */
    assert_near(share[2], 0.218, 1e-9);
}

/* Where models are loaded first, rates say little of the batches: then the requests must be bad, too. */
TEST(with_limited_memory_only_who_suffers_is_overloaded) {
    double share[MODELS];
    struct model_rates rates[] = {load(500), load(1000), load(10000)};
    struct cluster_view view = {.models = MODELS, .rates = rates, .accelerators = 4, .busy = 0.95, .limited = true};
    shares_derive(&view, true, share);
    assert_near(share[2], 1, 1e-9);
    for (uint32_t i = 0; i < MODELS; i++)
        rates[i].bad_rate = 0.04;
    shares_derive(&view, false, share);
    assert_near(share[2], 0.218, 1e-9);
    view.busy = 0.85;
    shares_derive(&view, true, share);
    assert_near(share[2], 1, 1e-9);
}
