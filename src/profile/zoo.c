/* zoo.c - the published latency profiles of well-known models. */
#include "profile/zoo.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "profile/profile.h"

const struct zoo_entry zoo_entries[] = {
#include "model_zoo.inc" /* made by cmake/zoo.cmake */
    {NULL, NULL, 0, 0, 0},
};

bool zoo_has_type(const char *type) {
    for (const struct zoo_entry *entry = zoo_entries; entry->model; entry++)
        if (strcasecmp(entry->type, type) == 0)
            return true;
    return false;
}

bool zoo_entry_in(const struct zoo_entry *entry, const char *type, enum zoo_set set) {
    if (strcasecmp(entry->type, type) != 0)
        return false;
    double ratio = entry->beta_ms / entry->alpha_ms;
    return set == ZOO_ALL || (set == ZOO_GT2 ? ratio > 2 : ratio < 2);
}

const struct zoo_entry *zoo_find(const char *model, const char *type) {
    for (const struct zoo_entry *entry = zoo_entries; entry->model; entry++)
        if (strcmp(entry->model, model) == 0 && strcasecmp(entry->type, type) == 0)
            return entry;
    return NULL;
}

uint32_t zoo_batch_max(double alpha_ms, double beta_ms, double slo_ms) {
    double most = (slo_ms - beta_ms) / alpha_ms;
    if (most < 1)
        return 1;
    return most < PROFILE_BATCH_MAX ? (uint32_t)most : PROFILE_BATCH_MAX;
}
