/* test_tournament.c - the tournament against a plain search, over random changes, for any number of items. */
#include "core/util/rng.h"
#include "lab/sim/tournament.h"
#include "unit/test.h"

#define ITEMS_MAX 40

static uint32_t least(const int64_t *key, uint32_t items) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < items; i++)
        if (key[i] < key[best])
            best = i;
    return best;
}

static void random_changes(uint32_t items) {
    static _Alignas(64) char memory[2 * 64 * sizeof(struct tournament_entry)];
    struct arena counted = {NULL, 0}, arena = {memory, 0};
    struct tournament t;
    int64_t key[ITEMS_MAX];
    struct rng rng;

    tournament_take(&counted, &t, items);
    assert_true(counted.used <= sizeof(memory));
    tournament_take(&arena, &t, items);
    assert_true(tournament_top(&t).key == TOURNAMENT_ABSENT);
    for (uint32_t i = 0; i < items; i++)
        key[i] = TOURNAMENT_ABSENT;
    rng_seed(&rng, items);
    for (int step = 0; step < 2000; step++) {
        uint32_t item = (uint32_t)rng_below(&rng, items);
        key[item] = rng_below(&rng, 4) ? (int64_t)rng_below(&rng, 50) : TOURNAMENT_ABSENT;
        tournament_set(&t, item, key[item]);
        uint32_t best = least(key, items);
        assert_true(tournament_top(&t).key == key[best]);
        if (key[best] != TOURNAMENT_ABSENT)
            assert_int_equal(tournament_top(&t).item, best);
    }
}

TEST(the_least_is_found_whatever_changes) {
    for (uint32_t items = 1; items <= ITEMS_MAX; items++)
        random_changes(items);
}
