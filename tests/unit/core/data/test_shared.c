/* test_shared.c - tables of models that share a prefix, against all ways to divide a batch. */
#include "core/data/shared.h"

#include <stdlib.h>

#include "core/util/rng.h"
#include "unit/test.h"

#define BATCH_MAX 7

static struct profile *profile_take(void) {
    struct profile *profile = malloc(profile_bytes(BATCH_MAX));
    assert_non_null(profile);
    return profile;
}

/* Any table that does not fall. */
static struct profile *drawn(struct rng *rng) {
    struct profile *profile = profile_take();
    uint32_t batches[BATCH_MAX + 1];
    int64_t latencies[BATCH_MAX + 1], last = 0;
    for (uint32_t b = 0; b <= BATCH_MAX; b++) {
        batches[b] = b + 1;
        latencies[b] = last += 1 + (int64_t)rng_below(rng, 1000);
    }
    assert_int_equal(profile_set_points(profile, BATCH_MAX, batches, latencies, BATCH_MAX + 1), 0);
    return profile;
}

/* The most that suffixes take for `items` items, the models before `model` having theirs. */
static int64_t most(struct profile *const *models, uint32_t count, uint32_t items) {
    if (!count)
        return items ? INT64_MIN / 2 : 0;
    int64_t best = INT64_MIN / 2;
    for (uint32_t k = 0; k <= items; k++) {
        int64_t ns = (k ? models[0]->latency_ns[k] : 0) + most(models + 1, count - 1, items - k);
        if (ns > best)
            best = ns;
    }
    return best;
}

TEST(the_slowest_division_is_planned_for) {
    struct rng rng;
    rng_seed(&rng, 11);
    for (uint32_t round = 0; round < 200; round++) {
        struct profile *prefix = drawn(&rng), *kinds[2] = {drawn(&rng), drawn(&rng)}, *table = profile_take();
        struct shared_suffixes suffixes[2] = {{kinds[0], 1 + (uint32_t)rng_below(&rng, 4)},
                                              {kinds[1], 1 + (uint32_t)rng_below(&rng, 3)}};
        struct profile *models[7];
        uint32_t count = 0;
        for (uint32_t k = 0; k < 2; k++)
            for (uint32_t i = 0; i < suffixes[k].models; i++)
                models[count++] = kinds[k];
        shared_profile_set(table, BATCH_MAX, prefix, suffixes, 2);
        assert_int_equal(table->batch_max, BATCH_MAX);
        assert_int_equal(table->latency_ns[0], 0);
        for (uint32_t b = 1; b <= BATCH_MAX + 1; b++)
            assert_int_equal(table->latency_ns[b], prefix->latency_ns[b] + most(models, count, b));
        free(prefix);
        free(kinds[0]);
        free(kinds[1]);
        free(table);
    }
}

/* With lines, each item has a suffix of its own as far as there are models. */
TEST(lines_add_up) {
    struct profile *prefix = profile_take(), *suffix = profile_take(), *table = profile_take();
    profile_set_line(prefix, BATCH_MAX, 1000, 5000);
    profile_set_line(suffix, BATCH_MAX, 10, 100);
    struct shared_suffixes suffixes = {suffix, 3};
    shared_profile_set(table, BATCH_MAX, prefix, &suffixes, 1);
    static const int64_t wanted[] = {0, 6110, 7220, 8330, 9340, 10350};
    for (uint32_t b = 1; b <= 5; b++)
        assert_int_equal(table->latency_ns[b], wanted[b]);
    free(prefix);
    free(suffix);
    free(table);
}
