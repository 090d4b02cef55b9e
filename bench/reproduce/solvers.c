/* solvers.c - partitions by our search and by a random one. */
#include "solvers.h"

#include <math.h>
#include <pthread.h>

#include "core/system/thread.h"
#include "core/util/time.h"
#include "memory.h"

#define CHUNK 2000 /* steps of our search between two looks at the clock: some 0.1 ms */
#define DRAWS 64   /* the same of the random one */

static double thread_seconds(void) {
    return (double)thread_cpu_ns(pthread_self()) / NS_PER_S;
}

/* What a sub-cluster has. */
struct load {
    double rate, memory, dynamic;
};

static void loads_fill(const struct partition_problem *problem, const uint32_t *subcluster, struct load *loads) {
    memset(loads, 0, problem->subclusters * sizeof(*loads));
    for (uint32_t i = 0; i < problem->models; i++) {
        const struct partition_model *model = &problem->model[i];
        struct load *load = &loads[subcluster[i]];
        load->rate += model->rate;
        load->memory += model->static_mb;
        load->dynamic = fmax(load->dynamic, model->dynamic_mb);
    }
}

static struct partition_score loads_score(const struct partition_problem *problem, const struct load *loads) {
    struct load sum = {0}, most = {0}, least = {.rate = INFINITY, .memory = INFINITY};
    bool keeps = true;
    for (uint32_t j = 0; j < problem->subclusters; j++) {
        const struct load *load = &loads[j];
        keeps &= load->rate <= problem->max_rate && load->memory + load->dynamic <= problem->max_memory_mb;
        sum.rate += load->rate;
        sum.memory += load->memory;
        most.rate = fmax(most.rate, load->rate);
        most.memory = fmax(most.memory, load->memory);
        least.rate = fmin(least.rate, load->rate);
        least.memory = fmin(least.memory, load->memory);
    }
    if (!keeps)
        return (struct partition_score){.found = false};
    double rate = sum.rate / problem->subclusters, memory = sum.memory / problem->subclusters,
           delta_rate = fmax(most.rate - rate, rate - least.rate) / rate,
           delta_memory = fmax(most.memory - memory, memory - least.memory) / memory;
    return (struct partition_score){
        .found = true,
        .objective = delta_rate + problem->memory_weight * delta_memory,
        .rate = (most.rate - least.rate) / rate,
        .memory = (most.memory - least.memory) / memory,
    };
}

struct partition_score partition_score(const struct partition_problem *problem, const uint32_t *subcluster) {
    struct load *loads = memory_take(problem->subclusters * sizeof(*loads));
    loads_fill(problem, subcluster, loads);
    struct partition_score score = loads_score(problem, loads);
    free(loads);
    return score;
}

void annealing_solve(const struct partition_problem *problem, double early_s, double limit_s,
                     struct partition_score *early, struct partition_score *late) {
    void *memory = memory_take(partition_bytes(problem));
    double begun = thread_seconds();
    struct partition *search = partition_begin(memory, problem, 1);
    bool more = true;
    while (more && thread_seconds() - begun < early_s)
        more = partition_search(search, CHUNK);
    *early = partition_score(problem, partition_best(search).subcluster);
    while (more && thread_seconds() - begun < limit_s)
        more = partition_search(search, CHUNK);
    *late = partition_score(problem, partition_best(search).subcluster);
    free(memory);
}

struct partition_score random_solve(const struct partition_problem *problem, double limit_s, uint64_t seed) {
    struct partition_score best = {.found = false};
    uint32_t *subcluster = memory_take(problem->models * sizeof(*subcluster));
    struct load *loads = memory_take(problem->subclusters * sizeof(*loads));
    struct rng rng;
    rng_seed(&rng, seed);
    double begun = thread_seconds();
    for (uint64_t draw = 1; draw % DRAWS || thread_seconds() - begun < limit_s; draw++) {
        for (uint32_t i = 0; i < problem->models; i++)
            subcluster[i] = (uint32_t)rng_below(&rng, problem->subclusters);
        loads_fill(problem, subcluster, loads);
        struct partition_score score = loads_score(problem, loads);
        if (score.found && (!best.found || score.objective < best.objective))
            best = score;
    }
    free(loads);
    free(subcluster);
    return best;
}
