/* infer_counters.c - one struct of counters for each model. */
#include "front/request/infer_counters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int infer_counters_init(struct infer_counters *counters, uint32_t model_count) {
    memset(counters, 0, sizeof(*counters));
    counters->model_count = model_count;
    counters->models = calloc(model_count ? model_count : 1, sizeof(*counters->models));
    counters->steps = calloc(model_count ? model_count : 1, sizeof(*counters->steps));
    return counters->models && counters->steps ? 0 : -ENOMEM;
}

struct step_counters *infer_counters_steps(struct infer_counters *counters, uint32_t model) {
    struct step_counters *steps =
        atomic_load_explicit(&counters->steps[model], memory_order_relaxed); /* relaxed: written by this thread */
    if (steps)
        return steps;
    steps = calloc(1, sizeof(*steps));
    atomic_store_explicit(&counters->steps[model], steps,
                          memory_order_release); /* release: readers see the zeros, too */
    return steps;
}

void infer_counters_destroy(struct infer_counters *counters) {
    for (uint32_t i = 0; counters->steps && i < counters->model_count; i++)
        free(counters->steps[i]);
    free(counters->steps);
    free(counters->models);
    counters->models = NULL;
    counters->steps = NULL;
}
