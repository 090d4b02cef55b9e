/* test_partition.c - partitions against all assignments of small cases, and against what an answer says of itself. */
#include "unit/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/util/container.h"
#include "sched/plan/partition_bound.h"
#include "sched/plan/partition_names.h"

#define MODELS_MAX   900
#define SMALL_MODELS 7
#define SMALL_CASES  300

static struct partition_model models[MODELS_MAX];
static double scratch[2 * MODELS_MAX + 1];

/* What an assignment is, from the definitions alone. */
struct checked {
    bool kept; /* (5), (6) and (11), and nobody is where he must not be */
    double objective, moved_cost;
};

static struct checked check(const struct partition_problem *p, const uint32_t *subcluster) {
    double loads = 0, sizes = 0, delta_rate = 0, delta_memory = 0, capacity = 0, squares = 0;
    struct checked c = {.kept = true};
    for (uint32_t i = 0; i < p->models; i++) {
        assert_true(subcluster[i] < p->subclusters);
        loads += p->model[i].load;
        c.kept &= !(p->model[i].barred >> subcluster[i] & 1);
        sizes += p->model[i].static_mb;
        if (p->model[i].current != PARTITION_NONE && p->model[i].current != subcluster[i])
            c.moved_cost += p->model[i].move_cost;
    }
    for (uint32_t j = 0; j < p->subclusters; j++)
        capacity += p->capacity ? p->capacity[j] : 1;
    for (uint32_t j = 0; j < p->subclusters; j++) {
        double rate = 0, load = 0, size = 0, dynamic = 0, part = (p->capacity ? p->capacity[j] : 1) / capacity;
        for (uint32_t i = 0; i < p->models; i++)
            if (subcluster[i] == j) {
                rate += p->model[i].rate;
                load += p->model[i].load;
                size += p->model[i].static_mb;
                dynamic = fmax(dynamic, p->model[i].dynamic_mb);
            }
        c.kept &= rate <= p->max_rate * (1 + 1e-8) && size + dynamic <= p->max_memory_mb * (1 + 1e-8);
        double deviation = loads > 0 ? fabs(load / (loads * part) - 1) : 0;
        delta_rate = fmax(delta_rate, deviation);
        squares += deviation * deviation * part;
        delta_memory = sizes > 0 ? fmax(delta_memory, fabs(size / (sizes * part) - 1)) : 0;
    }
    c.kept &= c.moved_cost <= p->max_move_cost * (1 + 1e-8);
    c.objective = delta_rate + p->memory_weight * delta_memory + p->spread_weight * sqrt(squares) +
                  p->moves_weight * c.moved_cost;
    return c;
}

/* The least objective of all assignments that keep the limits; INFINITY: none does. */
static double least_of_all(const struct partition_problem *p) {
    uint32_t subcluster[SMALL_MODELS] = {0};
    double least = INFINITY;
    for (;;) {
        struct checked c = check(p, subcluster);
        if (c.kept && c.objective < least)
            least = c.objective;
        uint32_t i = 0;
        while (i < p->models && ++subcluster[i] == p->subclusters)
            subcluster[i++] = 0;
        if (i == p->models)
            return least;
    }
}

static void models_draw(struct rng *rng, uint32_t count, uint32_t subclusters, bool placed) {
    for (uint32_t i = 0; i < count; i++) {
        models[i] = (struct partition_model){
            .rate = rng_below(rng, 8) ? 100 * rng_exponential(rng) : 0,
            .static_mb = (double)rng_below(rng, 500),
            .dynamic_mb = (double)rng_below(rng, 300),
            .move_cost = (double)rng_below(rng, 4),
            .current = placed && rng_below(rng, 5) ? (uint32_t)rng_below(rng, subclusters) : PARTITION_NONE,
        };
        models[i].load = models[i].rate;
    }
}

/* What the paper has not. */
static void more_draw(struct partition_problem *p, struct rng *rng) {
    static double capacity[3];
    for (uint32_t i = 0; i < p->models; i++) {
        models[i].load = models[i].rate * rng_uniform(rng);
        models[i].barred = rng_below(rng, 3) ? 0 : rng_below(rng, (1u << p->subclusters) - 1);
    }
    for (uint32_t j = 0; j < p->subclusters; j++)
        capacity[j] = 0.5 + rng_uniform(rng);
    p->capacity = rng_below(rng, 2) ? capacity : NULL;
    p->spread_weight = (double)rng_below(rng, 2);
    p->moves_weight = 0.01 * (double)rng_below(rng, 3);
}

static struct partition_problem small_draw(struct rng *rng) {
    uint32_t count = 1 + (uint32_t)rng_below(rng, SMALL_MODELS), subclusters = 1 + (uint32_t)rng_below(rng, 3);
    struct partition_problem p = {
        .subclusters = subclusters,
        .models = count,
        .model = models,
        .max_rate = rng_below(rng, 2) ? INFINITY : 100 * count / subclusters * (0.7 + rng_uniform(rng)),
        .max_memory_mb = rng_below(rng, 2) ? INFINITY : 150 + 250 * count / subclusters * (0.7 + rng_uniform(rng)),
        .memory_weight = (double)rng_below(rng, 3) / 2,
        .max_move_cost = rng_below(rng, 2) ? INFINITY : (double)rng_below(rng, 8),
    };
    models_draw(rng, count, subclusters, rng_below(rng, 2));
    if (rng_below(rng, 2))
        more_draw(&p, rng);
    return p;
}

static struct partition_answer search(const struct partition_problem *p, void *memory, uint64_t seed, uint32_t most) {
    struct partition *partition = partition_begin(memory, p, seed);
    for (uint32_t done = 0; done < most && partition_search(partition, 1000); done += 1000)
        ;
    return partition_best(partition);
}

static void says_what_it_is(const struct partition_problem *p, const struct partition_answer *a) {
    struct checked c = check(p, a->subcluster);
    assert_float_equal(c.objective, a->objective, 1e-9 * (1 + c.objective));
    assert_float_equal(c.moved_cost, a->moved_cost, 1e-9);
    assert_int_equal(c.kept, a->over_rate <= 0 && a->over_memory_mb <= 0 && a->over_moves <= 0 && !a->barred);
}

TEST(small_ones_are_the_best_there_are) {
    unsigned kept = 0, proven = 0;
    struct rng rng;
    rng_seed(&rng, 1);
    for (unsigned i = 0; i < SMALL_CASES; i++) {
        struct partition_problem p = small_draw(&rng);
        void *memory = malloc(partition_bytes(&p));
        struct partition_answer a = search(&p, memory, i, 300000);
        double least = least_of_all(&p);
        struct partition_bound bound = partition_bound(&p, scratch);
        says_what_it_is(&p, &a);
        assert_int_equal(check(&p, a.subcluster).kept, least < INFINITY);
        if (least < INFINITY) {
            assert_float_equal(a.objective, least, 1e-9);
            assert_int_equal(bound.limit, PARTITION_NO_LIMIT);
        }
        kept += least < INFINITY;
        proven += bound.limit != PARTITION_NO_LIMIT;
        free(memory);
    }
    assert_true(kept > SMALL_CASES / 3 && proven > SMALL_CASES / 20); /* there were cases of both kinds */
}

TEST(large_ones_are_even) {
    struct partition_problem p = {.subclusters = 20,
                                  .models = 800,
                                  .model = models,
                                  .max_rate = INFINITY,
                                  .max_memory_mb = INFINITY,
                                  .memory_weight = 1,
                                  .max_move_cost = INFINITY};
    void *memory = malloc(partition_bytes(&p));
    struct rng rng;
    rng_seed(&rng, 2);
    models_draw(&rng, p.models, p.subclusters, false);
    struct partition_answer a = search(&p, memory, 1, 500000);
    says_what_it_is(&p, &a);
    assert_true(a.objective < 7e-4);
    free(memory);
}

/* Who is moved is paid for, and more may be had for more. */
TEST(few_are_moved) {
    struct partition_problem p = {.subclusters = 12,
                                  .models = 300,
                                  .model = models,
                                  .max_rate = INFINITY,
                                  .max_memory_mb = INFINITY,
                                  .memory_weight = 1};
    void *memory = malloc(partition_bytes(&p));
    struct rng rng;
    double before = INFINITY;
    rng_seed(&rng, 3);
    models_draw(&rng, p.models, p.subclusters, true);
    for (p.max_move_cost = 0; p.max_move_cost <= 40; p.max_move_cost += 40) {
        struct partition_answer a = search(&p, memory, 1, 300000);
        says_what_it_is(&p, &a);
        assert_true(a.moved_cost <= p.max_move_cost);
        assert_true(a.objective < before);
        before = a.objective;
    }
    free(memory);
}

TEST(a_seed_repeats) {
    struct partition_problem p = {.subclusters = 5,
                                  .models = 60,
                                  .model = models,
                                  .max_rate = INFINITY,
                                  .max_memory_mb = INFINITY,
                                  .memory_weight = 1,
                                  .max_move_cost = 20};
    void *memory[2] = {malloc(partition_bytes(&p)), malloc(partition_bytes(&p))};
    struct rng rng;
    rng_seed(&rng, 4);
    models_draw(&rng, p.models, p.subclusters, true);
    struct partition_answer a = search(&p, memory[0], 7, 100000), b = search(&p, memory[1], 7, 100000);
    assert_memory_equal(a.subcluster, b.subcluster, p.models * sizeof(*a.subcluster));
    free(memory[0]);
    free(memory[1]);
}

/* ---- limits that cannot be kept ---- */

TEST(what_cannot_be) {
    const struct partition_model three[] = {{.rate = 60, .static_mb = 60, .dynamic_mb = 30, .current = PARTITION_NONE},
                                            {.rate = 60, .static_mb = 60, .dynamic_mb = 10, .current = PARTITION_NONE},
                                            {.rate = 50, .static_mb = 50, .dynamic_mb = 40, .current = PARTITION_NONE}};
    const struct {
        double max_rate, max_memory_mb;
        struct partition_bound expected;
    } rows[] = {
        {110, 150, {.limit = PARTITION_NO_LIMIT}},
        {109, 150, {PARTITION_RATE, PARTITION_SHARED, 110, 109, 0, 3, 2}},
        {59, INFINITY, {PARTITION_RATE, PARTITION_MODEL, 60, 59, 0, 0, 0}},
        {INFINITY, 119, {PARTITION_MEMORY, PARTITION_SHARED, 120, 119, 0, 3, 2}},
        {INFINITY, 120, {.limit = PARTITION_NO_LIMIT}}, /* not so, but not seen */
    };
    struct partition_problem p = {.subclusters = 2, .models = 3, .model = three};
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
        p.max_rate = rows[i].max_rate;
        p.max_memory_mb = rows[i].max_memory_mb;
        struct partition_bound b = partition_bound(&p, scratch);
        assert_int_equal(b.limit, rows[i].expected.limit);
        if (b.limit == PARTITION_NO_LIMIT)
            continue;
        assert_int_equal(b.proof, rows[i].expected.proof);
        assert_float_equal(b.need, rows[i].expected.need, 1e-9);
        assert_float_equal(b.have, rows[i].expected.have, 1e-9);
        assert_int_equal(b.together, rows[i].expected.together);
    }
}

/* ---- numbers ---- */

TEST(numbers_that_move_the_least) {
    struct partition_problem p = {.subclusters = 5, .models = 40, .model = models, .max_move_cost = INFINITY};
    uint32_t subcluster[40];
    void *memory = malloc(partition_names_bytes(&p));
    struct rng rng;
    rng_seed(&rng, 5);
    models_draw(&rng, p.models, p.subclusters, true);
    for (uint32_t i = 0; i < p.models; i++) { /* the same under other numbers, but for some */
        uint32_t at = models[i].current == PARTITION_NONE ? 0 : models[i].current;
        subcluster[i] = i % 8 ? (at + 2) % 5 : (uint32_t)rng_below(&rng, 5);
    }
    partition_names_choose(&p, memory, subcluster);
    for (uint32_t i = 0; i < p.models; i++)
        if (i % 8 && models[i].current != PARTITION_NONE)
            assert_int_equal(subcluster[i], models[i].current);
    free(memory);
}
