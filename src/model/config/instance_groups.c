/* instance_groups.c - reads instance_group of config.pbtxt. */
#include "model/config/instance_groups.h"

#include <stdbool.h>
#include <string.h>

static bool is_kind(const struct pbtxt_node *kind, const char *word) {
    return kind && strcmp(kind->text, word) == 0;
}

int instance_groups_read(const char *origin, const struct pbtxt_node *group, struct instance_groups *groups,
                         struct sy_error *err) {
    *groups = (struct instance_groups){.gpus = 0};
    for (bool first = true; group; group = pbtxt_next(group), first = false) {
        const struct pbtxt_node *word = pbtxt_find(group, "kind"), *count = pbtxt_find(group, "count");
        const struct pbtxt_node *gpus = pbtxt_find(group, "gpus");
        int64_t number;
        if (is_kind(word, "KIND_CPU") && gpus)
            return pbtxt_error(origin, gpus, err, "gpus: an instance_group of kind KIND_CPU has none");
        int rc = count ? pbtxt_get_int(origin, count, 0, INT32_MAX, &number, err) : 0;
        if (rc)
            return rc;
        for (const struct pbtxt_node *gpu = gpus; gpu; gpu = pbtxt_next(gpu)) {
            rc = pbtxt_get_int(origin, gpu, 0, INT32_MAX, &number, err);
            if (rc)
                return rc;
            groups->gpus = number >= groups->gpus ? (uint32_t)number + 1 : groups->gpus;
            groups->gpus_named |= number < INSTANCES_GPUS_NAMED ? (uint64_t)1 << number : 0;
        }
        enum instance_kind kind = is_kind(word, "KIND_CPU")           ? INSTANCES_ON_CPUS
                                  : is_kind(word, "KIND_MODEL")       ? INSTANCES_ANYWHERE
                                  : gpus || is_kind(word, "KIND_GPU") ? INSTANCES_ON_GPUS
                                                                      : INSTANCES_ANYWHERE;
        groups->kind = first || kind == groups->kind ? kind : INSTANCES_ANYWHERE;
    }
    return 0;
}
