/* shared.c - the slowest division of a batch among suffixes, by (max, +) convolution. */
#include "core/data/shared.h"

#include <string.h>

/* The most time that the suffixes of some models take for b items of these models: ns[b]; ns[0] is 0. */
struct slowest {
    int64_t ns[PROFILE_BATCH_MAX + 2];
};

/* Makes `to` the slowest of the models of both, for up to `last` items. */
static void slowest_join(struct slowest *to, const struct slowest *with, uint32_t last) {
    for (uint32_t b = last; b > 0; b--) { /* downwards, so that smaller entries are still as they were */
        int64_t most = 0;
        for (uint32_t k = 0; k <= b; k++)
            if (to->ns[b - k] + with->ns[k] > most)
                most = to->ns[b - k] + with->ns[k];
        to->ns[b] = most;
    }
}

void shared_profile_set(struct profile *profile, uint32_t batch_max, const struct profile *prefix,
                        const struct shared_suffixes *suffixes, uint32_t count) {
    struct slowest all = {.ns = {0}};
    profile->batch_max = batch_max;
    for (uint32_t s = 0; s < count; s++) {
        struct slowest some = {.ns = {0}}; /* slowest of 1, 2, 4 ... models of this kind */
        memcpy(some.ns, suffixes[s].profile->latency_ns, (batch_max + 2) * sizeof(some.ns[0]));
        some.ns[0] = 0;
        for (uint32_t models = suffixes[s].models; models > 0; models /= 2) {
            if (models & 1)
                slowest_join(&all, &some, batch_max + 1);
            if (models > 1) {
                struct slowest half = some;
                slowest_join(&some, &half, batch_max + 1);
            }
        }
    }
    for (uint32_t b = 0; b <= batch_max + 1; b++)
        profile->latency_ns[b] = b ? prefix->latency_ns[b] + all.ns[b] : 0;
    profile_fit(profile);
}
