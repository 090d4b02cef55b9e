/* test_balance.c - models move where that makes loads more even by enough, and to sub-clusters that run them. */
#include "sched/plan/balance.h"

#include <stdlib.h>

#include "core/util/container.h"
#include "core/util/rng.h"
#include "histories.h"
#include "unit/test.h"

#define MODELS_MAX      600
#define SUBCLUSTERS_MAX 8

static struct balance_model models[MODELS_MAX];
static struct balance_subcluster subclusters[SUBCLUSTERS_MAX];
static struct balance_move moves[MODELS_MAX];
static double memory_mb; /* of an accelerator; 0: enough for all */

static void subclusters_set(uint32_t count, uint32_t accelerators) {
    for (uint32_t j = 0; j < count; j++)
        subclusters[j] = (struct balance_subcluster){.accelerators = {accelerators}};
}

/* One look; the models are where it says then. Returns how many have moved. */
static uint32_t look(uint32_t model_count, uint32_t subcluster_count, uint32_t types, uint32_t most, double max_rate) {
    struct balance_config config = {subcluster_count, types, model_count, most, max_rate, memory_mb};
    void *memory = aligned_alloc(64, (balance_bytes(&config) + 63) / 64 * 64);
    struct balance *balance = balance_init(memory, &config);
    uint32_t count = balance_look(balance, models, subclusters, moves);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(moves[i].subcluster < subcluster_count);
        assert_int_not_equal(moves[i].subcluster, models[moves[i].model].subcluster);
        models[moves[i].model].subcluster = moves[i].subcluster;
    }
    free(memory);
    return count;
}

/* The load of the fullest sub-cluster, by accelerator. */
static double fullest(uint32_t model_count, uint32_t subcluster_count) {
    double most = 0;
    for (uint32_t j = 0; j < subcluster_count; j++) {
        double load = 0;
        for (uint32_t m = 0; m < model_count; m++)
            load += models[m].subcluster == j ? models[m].load : 0;
        load /= subclusters[j].accelerators[0];
        most = load > most ? load : most;
    }
    return most;
}

TEST(test_which_models_move) {
    static const struct {
        const char *what;
        double load[4];
        uint32_t subcluster[4], capacity[3], subclusters;
        double fullest; /* afterwards */
        uint32_t moves;
    } cases[] = {
        {"all on one side", {1, 2, 3, 0}, {0, 0, 0, 0}, {4, 4}, 2, 3 / 4.0, 1},
        {"the one that fits best", {5, 3, 0, 1}, {0, 0, 0, 1}, {8, 8}, 2, 5 / 8.0, 1},
        {"nothing to gain by swapping sides", {4, 0, 0, 0}, {0, 1, 1, 1}, {4, 4}, 2, 1, 0},
        {"even", {1, 1, 1, 1}, {0, 0, 1, 1}, {4, 4}, 2, 0.5, 0},
        {"too little to gain", {10.5, 10, 0.5, 10}, {0, 0, 0, 1}, {40, 20}, 2, 21 / 40.0, 0},
        {"larger sub-clusters hold more", {2, 2, 2, 0}, {0, 0, 0, 1}, {6, 1}, 2, 1, 0},
        {"to the emptiest of three", {2, 2, 1, 0.5}, {0, 0, 1, 2}, {4, 4, 4}, 3, 0.5, 2},
        {"two change places", {3, 3, 1, 1}, {0, 0, 1, 1}, {4, 4}, 2, 1, 2},
        {"one that no sub-cluster can hold, and the others", {9, 1, 1, 2}, {0, 1, 1, 2}, {4, 4, 4}, 3, 9 / 4.0, 0},
        {"others make room for it", {9, 1, 1, 0}, {0, 0, 0, 0}, {4, 4, 4}, 3, 9 / 4.0, 2},
        {"idle", {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 1}, 2, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        for (uint32_t j = 0; j < cases[i].subclusters; j++)
            subclusters[j] = (struct balance_subcluster){.accelerators = {cases[i].capacity[j]}};
        for (uint32_t m = 0; m < 4; m++)
            models[m] = (struct balance_model){1e6, cases[i].load[m], 0, {1}, cases[i].subcluster[m]};
        uint32_t moved = look(4, cases[i].subclusters, 1, 4, 0);
        if (moved != cases[i].moves || fullest(4, cases[i].subclusters) > cases[i].fullest + 1e-9)
            fail_msg("%s: %u moves, %g", cases[i].what, moved, fullest(4, cases[i].subclusters));
    }
}

static void models_draw(struct rng *rng, uint32_t count, uint32_t subcluster_count) {
    for (uint32_t m = 0; m < count; m++) {
        double load = 64.0 / count * rng_exponential(rng);
        models[m] = (struct balance_model){100 * load, load, 0, {50}, m % subcluster_count};
    }
}

/* In a few looks, each with no more moves than it may make. */
TEST(test_looks_lead_to_even_subclusters) {
    struct rng rng;
    rng_seed(&rng, 1);
    for (uint32_t i = 0; i < histories_count(20); i++) {
        uint32_t count = 30 + (uint32_t)rng_below(&rng, 100), all = 0, looks = 0;
        subclusters_set(4, 20);
        models_draw(&rng, count, 1);
        for (uint32_t moved; (moved = look(count, 4, 1, 8, 0)); all += moved, looks++)
            assert_true(moved <= 8);
        double mean = 0;
        for (uint32_t m = 0; m < count; m++)
            mean += models[m].load / 80;
        assert_true(fullest(count, 4) < mean * 1.1 + 0.03);
        assert_true(all < count); /* few more than have to */
    }
}

/* Rates that are equal, as Poisson arrivals show them. */
TEST(test_chance_moves_nobody) {
    struct rng rng;
    rng_seed(&rng, 2);
    subclusters_set(4, 4);
    for (uint32_t i = 0; i < histories_count(300); i++) {
        for (uint32_t m = 0; m < 16; m++) {
            double seen = 0, wanted = 120; /* in 4 s */
            for (double at = rng_exponential(&rng); at < wanted; at += rng_exponential(&rng))
                seen++;
            models[m] = (struct balance_model){seen / 4, seen / wanted * 0.7, 0, {100}, m % 4};
        }
        assert_int_equal(look(16, 4, 1, 8, 0), 0);
    }
}

TEST(test_nobody_goes_where_he_cannot_run) {
    struct rng rng;
    rng_seed(&rng, 3);
    for (uint32_t i = 0; i < histories_count(100); i++) {
        models_draw(&rng, 40, 4);
        for (uint32_t j = 0; j < 4; j++)
            subclusters[j] =
                (struct balance_subcluster){.accelerators = {(uint32_t)rng_below(&rng, 10), j % 2 ? 3 : 0}};
        for (uint32_t m = 0; m < 40; m++) {
            uint32_t types = 1 + (uint32_t)rng_below(&rng, 3);
            models[m].most[0] = types & 1 ? 50 : 0;
            models[m].most[1] = types & 2 ? 100 : 0;
            if (rng_below(&rng, 10) == 0)
                models[m].subcluster = BALANCE_NOWHERE;
        }
        look(40, 4, 2, 8, 0);
        for (uint32_t m = 0; m < 40; m++) {
            assert_true(models[m].subcluster < 4);
            const struct balance_subcluster *at = &subclusters[models[m].subcluster];
            bool runs = false, any = false;
            for (uint32_t t = 0; t < 2; t++)
                runs |= models[m].most[t] > 0 && at->accelerators[t] > 0;
            for (uint32_t j = 0; j < 4; j++)
                for (uint32_t t = 0; t < 2; t++)
                    any |= models[m].most[t] > 0 && subclusters[j].accelerators[t] > 0;
            assert_true(runs || !any);
        }
    }
}

/* Two sub-clusters that are evenly loaded, one of them by a model of many small requests. */
TEST(test_a_limit_of_rates_moves_models) {
    subclusters_set(2, 4);
    for (uint32_t m = 0; m < 4; m++)
        models[m] = (struct balance_model){m < 2 ? 6000 : 100, 1, 0, {10000}, m / 2};
    assert_int_equal(look(4, 2, 1, 4, 0), 0);
    assert_int_equal(look(4, 2, 1, 4, 10000), 2);
    assert_int_not_equal(models[0].subcluster, models[1].subcluster);
    assert_int_not_equal(models[2].subcluster, models[3].subcluster);
}

/* Sub-clusters that are evenly loaded, of which one has all large models: sizes are evened where they do not fit into
 * an accelerator, and nothing moves where they do. */
TEST(test_sizes_are_balanced_where_memory_is_short) {
    subclusters_set(2, 4);
    for (int fits = 0; fits < 2; fits++) {
        double size[2] = {0, 0}, load[2] = {0, 0};
        for (uint32_t m = 0; m < 16; m++)
            models[m] = (struct balance_model){1e6, 0.25, m < 8 ? 900 : 100, {100}, m / 8};
        memory_mb = fits ? 8000 : 2000;
        while (look(16, 2, 1, 8, 0))
            ;
        memory_mb = 0;
        for (uint32_t m = 0; m < 16; m++) {
            size[models[m].subcluster] += models[m].weights_mb;
            load[models[m].subcluster] += models[m].load;
        }
        assert_float_equal(size[0], fits ? 7200 : 4000, 1);
        assert_float_equal(load[0], load[1], 1e-9);
    }
}

/* Half of the accelerators are twice as fast: their sub-cluster holds twice the load of the others'. */
TEST(test_faster_subclusters_hold_more) {
    double load[2] = {0, 0};
    subclusters[0] = (struct balance_subcluster){.accelerators = {8, 0}};
    subclusters[1] = (struct balance_subcluster){.accelerators = {0, 8}};
    for (uint32_t m = 0; m < 60; m++)
        models[m] = (struct balance_model){1e6, 0.2, 0, {100, 200}, BALANCE_NOWHERE};
    look(60, 2, 2, 8, 0);
    for (uint32_t m = 0; m < 60; m++)
        load[models[m].subcluster] += models[m].load;
    assert_float_equal(load[1] / load[0], 2, 0.1);
}

/* The light ones stay, together, and count. */
TEST(test_many_models) {
    struct rng rng;
    rng_seed(&rng, 4);
    subclusters_set(8, 12);
    models_draw(&rng, MODELS_MAX, 2);
    while (look(MODELS_MAX, 8, 1, 64, 0))
        ;
    assert_true(fullest(MODELS_MAX, 8) < 64.0 / 96 * 1.15);
}
