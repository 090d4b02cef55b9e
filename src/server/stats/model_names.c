/* model_names.c - a sorted table of keys. */
#include "server/stats/model_names.h"

#include <stdlib.h>

struct model_name {
    uint32_t key;
    const char *name;
};

static int by_key(const void *a, const void *b) {
    uint32_t x = ((const struct model_name *)a)->key, y = ((const struct model_name *)b)->key;
    return (x > y) - (x < y);
}

void model_names_make(struct model_names *names, const struct model_list *list) {
    const struct model_index *listed = atomic_load_explicit(&list->now.now, memory_order_relaxed); /* under the lock */
    uint32_t gone = 0;
    for (uint32_t i = 0; i < list->count; i++)
        gone += list->gone[i].key != 0;
    names->rows = calloc(listed->count + gone + 1, sizeof(*names->rows));
    names->count = 0;
    for (uint32_t i = 0; names->rows && i < listed->count; i++) {
        const struct served_model *model = &listed->models[listed->listed[i]];
        names->rows[names->count++] = (struct model_name){(uint32_t)served_model_key(model), model->name};
    }
    for (uint32_t i = 0; names->rows && i < list->count; i++)
        if (list->gone[i].key)
            names->rows[names->count++] = (struct model_name){(uint32_t)list->gone[i].key, list->gone[i].name};
    if (names->count > 0)
        qsort(names->rows, names->count, sizeof(*names->rows), by_key);
}

void model_names_free(struct model_names *names) {
    free(names->rows);
}

const char *model_names_find(const struct model_names *names, uint32_t key) {
    const struct model_name wanted = {.key = key};
    const struct model_name *found =
        names->count ? bsearch(&wanted, names->rows, names->count, sizeof(*names->rows), by_key) : NULL;
    return found ? found->name : "?";
}
