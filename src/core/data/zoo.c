/* zoo.c - the published latency profiles of well-known models. */
#include "core/data/zoo.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "core/data/profile.h"
#include "core/util/container.h"

#define MS(ms) ((int64_t)((ms)*1e6 + 0.5))

/* made by cmake/zoo.cmake */
const struct zoo_entry zoo_entries[] = {
#include "model_zoo.inc"
    {.model = NULL},
};

static const struct price {
    const char *type;
    double dollars;
} prices[] = {
#include "zoo_prices.inc"
};

static const struct zoo zoos[] = {
    {"gtx1080ti", "symphony", "gtx1080ti"}, {"a100", "symphony", "a100"},
    {"clockwork", "clockwork", "v100"},     {"kairos", "kairos", "g4dn.xlarge"},
    {"nexus", "nexus", "titan_x_pascal"},   {"nexus-example", "nexus-example", "example"},
};

const struct zoo *zoo_named(const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(zoos); i++)
        if (strcasecmp(zoos[i].name, name) == 0)
            return &zoos[i];
    return NULL;
}

const char *zoo_type_source(const char *type) {
    for (const struct zoo_entry *entry = zoo_entries; entry->model; entry++)
        if (strcasecmp(entry->type, type) == 0)
            return entry->source;
    return NULL;
}

bool zoo_has_type(const char *type) {
    return zoo_type_source(type);
}

bool zoo_entry_in(const struct zoo_entry *entry, const char *type, enum zoo_set set) {
    if (strcasecmp(entry->type, type) != 0)
        return false;
    if (set == ZOO_ALL)
        return true;
    return set == ZOO_GT2 ? entry->beta_ms > 2 * entry->alpha_ms : entry->beta_ms < 2 * entry->alpha_ms;
}

const struct zoo_entry *zoo_find(const char *model, const char *type) {
    for (const struct zoo_entry *entry = zoo_entries; entry->model; entry++)
        if (strcmp(entry->model, model) == 0 && strcasecmp(entry->type, type) == 0)
            return entry;
    return NULL;
}

double zoo_price(const char *type) {
    for (size_t i = 0; i < ARRAY_COUNT(prices); i++)
        if (strcasecmp(prices[i].type, type) == 0)
            return prices[i].dollars;
    return 0;
}

uint32_t zoo_batch_max(double alpha_ms, double beta_ms, double slo_ms) {
    double most = (slo_ms - beta_ms) / alpha_ms;
    if (most < 1)
        return 1;
    return most < PROFILE_BATCH_MAX ? (uint32_t)most : PROFILE_BATCH_MAX;
}
