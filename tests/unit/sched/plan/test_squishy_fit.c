/* test_squishy_fit.c - plans for a given number of GPUs, and GPUs that keep their sessions. */
#include <stdlib.h>

#include "core/util/time.h"
#include "sched/plan/squishy_fit.h"
#include "unit/test.h"

static struct profile *line(double alpha_ms, double beta_ms) {
    struct profile *profile = malloc(profile_bytes(64));
    assert_non_null(profile);
    profile_set_line(profile, 64, alpha_ms * NS_PER_MS, beta_ms * NS_PER_MS);
    return profile;
}

static struct squishy_session session(const struct profile *profile, int64_t slo_ms, double rate) {
    return (struct squishy_session){.profile = profile, .batch_max = 64, .slo_ns = slo_ms * NS_PER_MS, .rate = rate};
}

static void *fit_begin(struct squishy_fit *fit, uint32_t gpus, uint32_t sessions) {
    void *memory = malloc(squishy_fit_bytes(gpus, sessions));
    assert_non_null(memory);
    squishy_fit_init(fit, memory, gpus, sessions, 0);
    return memory;
}

TEST(spare_gpus_are_room_to_grow) {
    struct profile *p = line(1, 10);
    struct squishy_session s = session(p, 40, 1000); /* B = 10: 500 items/s a GPU */
    struct squishy_fit fit;
    void *memory = fit_begin(&fit, 8, 1);
    double scale = squishy_fit_update(&fit, &s); /* 8 GPUs take 4000 */
    assert_true(scale > 3.92 && scale <= 4.0001);
    assert_int_equal(squishy_gpus_used(&fit.plan), 8);
    s.rate = 8000;
    scale = squishy_fit_update(&fit, &s);
    assert_true(scale > 0.49 && scale <= 0.50001);
    assert_int_equal(squishy_gpus_used(&fit.plan), 8);
    free(memory);
    free(p);
}

TEST(rates_need_gpus_whatever_there_are) {
    struct profile *p = line(1, 10);
    struct squishy_session s = session(p, 40, 1000); /* B = 10: 500 items/s a GPU */
    struct squishy_fit fit;
    void *memory = fit_begin(&fit, 8, 1);
    assert_true(squishy_fit_needed(&fit, &s, squishy_fit_update(&fit, &s)) == 2);
    assert_int_equal(squishy_gpus_used(&fit.plan), 8); /* the plan in force is not touched */
    s.rate = 8000;
    double needed = squishy_fit_needed(&fit, &s, squishy_fit_update(&fit, &s));
    assert_true(needed > 15.9 && needed < 16.4); /* to SCALE_WITHIN */
    s.slo_ns = 20 * NS_PER_MS;                   /* 2 * 11 ms > 20 ms */
    assert_true(squishy_fit_needed(&fit, &s, squishy_fit_update(&fit, &s)) == 0);
    free(memory);
    free(p);
}

TEST(a_session_that_never_fits_leaves_the_others_their_places) {
    struct profile *p = line(1, 10);
    struct squishy_session s[] = {session(p, 20, 10), session(p, 40, 100)}; /* 2 * 11 ms > 20 ms */
    struct squishy_fit fit;
    void *memory = fit_begin(&fit, 2, 2);
    assert_true(squishy_fit_update(&fit, s) <= 0);
    assert_true(squishy_missing(&fit.plan, s, 0) > 0);
    assert_true(squishy_missing(&fit.plan, s, 1) <= 0);
    free(memory);
    free(p);
}

/* Quadratic in the GPUs, this takes minutes. */
TEST(a_hundred_thousand_gpus_are_planned_for) {
    struct profile *p = line(1, 10);
    struct squishy_session s[] = {session(p, 40, 1000), session(p, 60, 10)};
    struct squishy_fit fit;
    void *memory = fit_begin(&fit, 100000, 2);
    for (int i = 0; i < 3; i++) {
        s[1].rate += i * 100;
        assert_true(squishy_fit_update(&fit, s) > 10000);
        assert_true(squishy_gpus_used(&fit.plan) > 98000);
    }
    free(memory);
    free(p);
}

TEST(the_same_rates_move_nothing) {
    struct profile *p = line(1, 10), *q = line(2, 20);
    struct squishy_session s[] = {session(p, 40, 700), session(q, 90, 300), session(q, 120, 50), session(p, 60, 20)};
    struct squishy_fit fit;
    void *memory = fit_begin(&fit, 10, 4), *old_memory = malloc(squishy_bytes(10, 4));
    struct squishy old;
    squishy_init(&old, old_memory, 10, 4, 0);
    assert_true(squishy_fit_update(&fit, s) > 1);
    squishy_copy(&old, &fit.plan);
    assert_true(squishy_fit_update(&fit, s) > 1);
    assert_int_equal(squishy_moves(&fit.plan, &old), 0);
    squishy_clear(&old);
    assert_true(squishy_moves(&fit.plan, &old) >= 10); /* all GPUs, against none */
    free(old_memory);
    free(memory);
    free(q);
    free(p);
}

/* Ways to place fresh plans, which are all for the same rates: by locality nobody moves; at random many do, and
 * so they do by turns, as if the plan before had ended at another GPU. GPUs that are out of service stay empty. */
TEST(fresh_plans_are_placed_as_told) {
    struct profile *p = line(1, 10);
    struct squishy_session s[] = {session(p, 40, 490), session(p, 40, 480), session(p, 40, 470), session(p, 40, 460)};
    static const enum squishy_placing placings[] = {SQUISHY_LOCAL, SQUISHY_RANDOM, SQUISHY_TURNS};
    void *old_memory = malloc(squishy_bytes(9, 4));
    struct squishy old;
    squishy_init(&old, old_memory, 9, 4, 0);
    for (int i = 0; i < 3; i++) {
        struct squishy_fit fit;
        uint32_t moves = 0;
        void *memory = fit_begin(&fit, 9, 4);
        fit.placing = placings[i];
        squishy_usable_set(&fit.plan, 2, false);
        for (int plans = 0; plans < 20; plans++) {
            squishy_copy(&old, &fit.plan);
            fit.turn++;
            assert_true(squishy_fit_update(&fit, s) > 1);
            moves += plans ? squishy_moves(&fit.plan, &old) : 0;
            for (uint32_t m = 0; m < 4; m++)
                assert_true(squishy_missing(&fit.plan, s, m) <= 0 && !squishy_on(&fit.plan, 2, m));
        }
        if (placings[i] == SQUISHY_LOCAL)
            assert_int_equal(moves, 0);
        else
            assert_true(moves > 40); /* of 19 plans with at least 4 places */
        free(memory);
    }
    free(old_memory);
    free(p);
}

/* The example of Jonnavithula et al. (Nexus on Blox), tables 1 and 2: GPUs 1 and 2 have model A, GPU 3 has B; next A
 * needs two and C one. Only C is loaded. */
TEST(models_stay_where_they_are) {
    struct profile *p = line(1, 10);
    struct squishy_session s[] = {session(p, 40, 1000), session(p, 40, 500), session(p, 40, 0)};
    void *memory = malloc(squishy_bytes(3, 3)), *next_memory = malloc(squishy_bytes(3, 3));
    struct squishy plan, next;
    uint32_t label[6];
    squishy_init(&plan, memory, 3, 3, 0);
    squishy_init(&next, next_memory, 3, 3, 0);
    assert_true(squishy_update(&plan, s, 1));
    assert_int_equal(plan.gpus[2].saturated, 1);
    struct squishy_session t[] = {session(p, 40, 1000), session(p, 40, 0), session(p, 40, 500)};
    assert_true(squishy_update(&next, (struct squishy_session[]){t[2], t[1], t[0]}, 1)); /* another order */
    next.places[0] = next.places[2];
    next.places[2] = (struct squishy_place){.saturated = 1, .gpu = SQUISHY_NONE, .next = SQUISHY_NONE};
    for (uint32_t g = 0; g < 3; g++)
        next.gpus[g].saturated = 2 - next.gpus[g].saturated; /* C on GPU 0, A on 1 and 2 */
    assert_int_equal(squishy_moves(&next, &plan), 2);
    squishy_relabel(&next, &plan, label);
    assert_int_equal(next.gpus[0].saturated, 0);
    assert_int_equal(next.gpus[1].saturated, 0);
    assert_int_equal(next.gpus[2].saturated, 2);
    assert_int_equal(squishy_moves(&next, &plan), 1);
    free(memory);
    free(next_memory);
    free(p);
}
