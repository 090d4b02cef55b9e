/* version_choice.c - chooses the versions that a policy wants. */
#include "model/config/version_choice.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(VERSIONS_SPECIFIC_MAX <= VERSIONS_MAX, "all that are named fit");

static int version_compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts versions, and leaves repeated ones out. */
static uint32_t versions_sort(uint32_t *versions, uint32_t count) {
    uint32_t kept = 0;
    qsort(versions, count, sizeof(*versions), version_compare);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || versions[kept - 1] != versions[i])
            versions[kept++] = versions[i];
    return kept;
}

uint32_t versions_choose(const struct version_policy *policy, uint32_t *versions, uint32_t count,
                         uint32_t chosen[VERSIONS_MAX]) {
    if (policy->choice == VERSIONS_SPECIFIC) {
        memcpy(chosen, policy->specific, policy->specific_count * sizeof(*chosen));
        return versions_sort(chosen, policy->specific_count);
    }
    uint32_t latest = policy->latest ? policy->latest : 1;
    count = versions_sort(versions, count);
    uint32_t first = policy->choice == VERSIONS_ALL || latest >= count ? 0 : count - latest;
    memcpy(chosen, versions + first, (count - first) * sizeof(*chosen));
    return count - first;
}
