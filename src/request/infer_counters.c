/* infer_counters.c - a row of counters a model. */
#include "request/infer_counters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int infer_counters_init(struct infer_counters *counters, uint32_t model_count) {
    memset(counters, 0, sizeof(*counters));
    counters->model_count = model_count;
    counters->models = calloc(model_count ? model_count : 1, sizeof(*counters->models));
    return counters->models ? 0 : -ENOMEM;
}

void infer_counters_destroy(struct infer_counters *counters) {
    free(counters->models);
    counters->models = NULL;
}
