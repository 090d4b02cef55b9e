/* balance.c - which models move to which sub-cluster: what the search is told, and whether its answer is worth it. */
#include "sched/plan/balance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/arena.h"
#include "core/util/fmath.h"
#include "core/util/time.h"
#include "sched/plan/partition.h"

#define STEPS        40000 /* steps of a search: some 4 ms */
#define SEARCHED     512   /* heaviest models, which may move in a look; the others are too small to matter */
#define WORTH        0.05  /* share of a sub-cluster's accelerators that a look's moves must gain, beyond chance */
#define WORTH_MOVE   0.002 /* share that each move must gain */
#define CHANCE       6.0   /* standard deviations of a load by capacity: both terms of the objective have some */
#define RATE_SILENCE (20 * NS_PER_MS) /* time without a report after which a model is silent */

struct ranked {
    double weight;
    uint32_t model;
};

struct balance {
    struct balance_config config;
    uint64_t looks;
    struct ranked *ranked;         /* [models] */
    struct partition_model *model; /* [searched + subclusters] */
    uint32_t *of;                  /* [searched] number of the model that each partition_model stands for */
    void *search;
    double capacity[BALANCE_SUBCLUSTERS_MAX]; /* capacity of each sub-cluster, in accelerators of the mean speed */
    double load[BALANCE_SUBCLUSTERS_MAX];
};

static void balance_layout(struct balance *b, struct arena *arena, const struct balance_config *c) {
    struct partition_problem most = {.subclusters = c->subclusters, .models = c->models + c->subclusters};
    b->ranked = arena_take(arena, c->models * sizeof(*b->ranked));
    b->model = arena_take(arena, most.models * sizeof(*b->model));
    b->of = arena_take(arena, c->models * sizeof(*b->of));
    b->search = arena_take(arena, partition_bytes(&most));
}

size_t balance_bytes(const struct balance_config *config) {
    struct balance scratch;
    struct arena arena = {NULL, 0};
    arena_take(&arena, sizeof(struct balance));
    balance_layout(&scratch, &arena, config);
    return arena.used;
}

struct balance *balance_init(void *memory, const struct balance_config *config) {
    struct arena arena = {memory, 0};
    struct balance *b = arena_take(&arena, sizeof(*b));
    *b = (struct balance){.config = *config};
    balance_layout(b, &arena, config);
    return b;
}

double balance_decayed(double reported, int64_t silent_ns) {
    if (silent_ns < RATE_SILENCE)
        return reported;
    return reported * fmath_exp(-(double)silent_ns / (BALANCE_RATE_S * (double)NS_PER_S));
}

/* ---- sub-clusters ---- */

/* How fast a type is: its throughput divided by that of all accelerators, mean of its models, weighted by load. */
static double speed_of(const struct balance *b, const struct balance_model *models, const double *accelerators,
                       uint32_t type) {
    double sum = 0, weights = 0;
    for (uint32_t m = 0; m < b->config.models; m++) {
        double all = 0, count = 0, weight = models[m].load + 1e-9;
        for (uint32_t t = 0; t < b->config.types; t++)
            if (models[m].most[t] > 0) {
                all += models[m].most[t] * accelerators[t];
                count += accelerators[t];
            }
        if (models[m].most[type] <= 0 || all <= 0)
            continue;
        sum += weight * models[m].most[type] * count / all;
        weights += weight;
    }
    return weights > 0 ? sum / weights : 1;
}

static void capacities_set(struct balance *b, const struct balance_model *models,
                           const struct balance_subcluster *subclusters) {
    double accelerators[ACCELERATOR_TYPES_MAX] = {0};
    memset(b->capacity, 0, sizeof(b->capacity));
    for (uint32_t j = 0; j < b->config.subclusters; j++)
        for (uint32_t t = 0; t < b->config.types; t++)
            accelerators[t] += subclusters[j].accelerators[t];
    for (uint32_t t = 0; t < b->config.types; t++) {
        double speed = b->config.types > 1 ? speed_of(b, models, accelerators, t) : 1;
        for (uint32_t j = 0; j < b->config.subclusters; j++)
            b->capacity[j] += speed * subclusters[j].accelerators[t];
    }
}

/* A bit for each sub-cluster that has no accelerator for the model; 0 if none has. */
static uint64_t barred(const struct balance *b, const struct balance_model *m,
                       const struct balance_subcluster *subclusters) {
    uint64_t bits = 0, all = 0;
    for (uint32_t j = 0; j < b->config.subclusters; j++) {
        bool runs = false;
        for (uint32_t t = 0; t < b->config.types; t++)
            runs |= m->most[t] > 0 && subclusters[j].accelerators[t] > 0;
        bits |= (uint64_t)!runs << j;
        all |= 1ULL << j;
    }
    return bits == all ? 0 : bits;
}

/* ---- what the search is told ---- */

static int heavier_first(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->model < y->model ? -1 : x->model > y->model;
}

static bool must_move(const struct balance *b, const struct balance_model *m,
                      const struct balance_subcluster *subclusters) {
    return m->subcluster == BALANCE_NOWHERE || barred(b, m, subclusters) >> m->subcluster & 1;
}

/* Chooses the models that are looked at one by one: those that must move, and the heaviest of the others. The rest of
 * each sub-cluster counts as one model that must stay there. Returns how many are looked at one by one. */
static uint32_t problem_fill(struct balance *b, const struct balance_model *models,
                             const struct balance_subcluster *subclusters) {
    uint32_t count = 0, subclusters_count = b->config.subclusters;
    for (uint32_t m = 0; m < b->config.models; m++)
        b->ranked[m] = (struct ranked){must_move(b, &models[m], subclusters) ? INFINITY : models[m].load, m};
    qsort(b->ranked, b->config.models, sizeof(*b->ranked), heavier_first);
    while (count < b->config.models && (count < SEARCHED || isinf(b->ranked[count].weight)))
        count++;
    for (uint32_t j = 0; j < subclusters_count; j++)
        b->model[count + j] = (struct partition_model){.current = j, .barred = ~(1ULL << j)};
    for (uint32_t k = 0; k < b->config.models; k++) {
        const struct balance_model *m = &models[b->ranked[k].model];
        struct partition_model *to = &b->model[k < count ? k : count + m->subcluster];
        if (k < count) {
            *to =
                (struct partition_model){.current = m->subcluster, .barred = barred(b, m, subclusters), .move_cost = 1};
            to->move_cost = must_move(b, m, subclusters) ? 0 : 1;
            b->of[k] = b->ranked[k].model;
        }
        to->rate += m->rate;
        to->load += m->load;
        to->static_mb += m->weights_mb;
    }
    return count;
}

/* How far chance alone puts the sub-clusters' loads by capacity off, since rates are known only from the arrivals of
 * some seconds: the root of the mean square, weighted by capacity. */
static double chance(const struct balance *b, const struct balance_model *models) {
    double squares = 0, capacity = 0;
    for (uint32_t j = 0; j < b->config.subclusters; j++)
        capacity += b->capacity[j];
    for (uint32_t m = 0; m < b->config.models; m++)
        if (models[m].subcluster != BALANCE_NOWHERE && models[m].rate > 0 && b->capacity[models[m].subcluster] > 0)
            squares += models[m].load * models[m].load /
                       (models[m].rate * 2 * BALANCE_RATE_S) /* as weighted, rates are of two time constants */
                       / b->capacity[models[m].subcluster];
    return capacity > 0 ? sqrt(squares / capacity) : 0;
}

/* ---- the look ---- */

uint32_t balance_look(struct balance *b, const struct balance_model *models,
                      const struct balance_subcluster *subclusters, struct balance_move *moves) {
    capacities_set(b, models, subclusters);
    uint32_t count = problem_fill(b, models, subclusters), moved = 0;
    double load = 0, weights_mb = 0, capacity = 0;
    for (uint32_t m = 0; m < b->config.models; m++) {
        load += models[m].load;
        weights_mb += models[m].weights_mb;
    }
    for (uint32_t j = 0; j < b->config.subclusters; j++)
        capacity += b->capacity[j];
    double mean = capacity > 0 ? load / capacity : 0;
    struct partition_problem problem = {
        .subclusters = b->config.subclusters,
        .models = count < b->config.models ? count + b->config.subclusters : count,
        .model = b->model,
        .max_rate = b->config.max_rate > 0 ? b->config.max_rate : INFINITY,
        .max_memory_mb = INFINITY,
        .memory_weight = b->config.memory_mb > 0 && weights_mb > b->config.memory_mb ? 1 : 0,
        .max_move_cost = b->config.moves_most,
        .capacity = b->capacity,
        .spread_weight = 1,
        .moves_weight = mean > 0 ? WORTH_MOVE / mean : 1,
    };
    struct partition *search = partition_begin(b->search, &problem, b->looks++);
    struct partition_answer before = partition_best(search);
    partition_search(search, STEPS);
    struct partition_answer after = partition_best(search);
    /* What must be done needs no gain. */
    bool forced = after.barred != before.barred || after.over_rate < before.over_rate;
    bool worth =
        mean > 0 && (forced || before.objective - after.objective > (WORTH + CHANCE * chance(b, models)) / mean);
    for (uint32_t k = 0; k < count; k++) {
        bool must = must_move(b, &models[b->of[k]], subclusters);
        if (after.subcluster[k] != models[b->of[k]].subcluster && (worth || must))
            moves[moved++] = (struct balance_move){b->of[k], after.subcluster[k]};
    }
    return moved;
}
