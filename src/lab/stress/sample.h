/* sample.h - the requests of a sample that are under way: a hash set of handles. One handle in SAMPLE_EVERY belongs to
 * the sample. The handle's hash decides, so that every part of the run can tell. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SAMPLE_EVERY 64 /* handles for one of the sample, a power of two */

struct sample {
    uint64_t *slots; /* [mask + 1] handles, with open addressing; 0: empty */
    uint32_t mask, count;
};

/* Makes a set for the sample of up to `requests` requests at once. 0 or -ENOMEM; free it in either case. */
int sample_init(struct sample *sample, uint32_t requests);
void sample_free(struct sample *sample);
/* Adds a handle, which must not be in the set, nor be 0. */
void sample_add(struct sample *sample, uint64_t handle);
/* Removes a handle. False if it is not in the set. */
bool sample_remove(struct sample *sample, uint64_t handle);

static inline uint64_t sample_hash(uint64_t handle) {
    handle *= 0x9e3779b97f4a7c15ULL; /* 2^64 over the golden ratio */
    return handle ^ handle >> 32;
}

static inline bool sample_has(uint64_t handle) {
    return sample_hash(handle) % SAMPLE_EVERY == 0;
}
