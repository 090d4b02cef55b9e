/* sample.c - a hash set with linear probing; a removal closes its gap, so that no marks of removed handles are left. */
#include "lab/stress/sample.h"

#include <errno.h>
#include <stdlib.h>

#include "core/util/assert.h"

#define ROOM 8 /* factor: slots for each handle that the sample has in the mean */

int sample_init(struct sample *sample, uint32_t requests) {
    uint32_t slots = 1024;

    while (slots < requests / SAMPLE_EVERY * ROOM)
        slots *= 2;
    sample->slots = calloc(slots, sizeof(*sample->slots));
    sample->mask = slots - 1;
    sample->count = 0;
    return sample->slots ? 0 : -ENOMEM;
}

void sample_free(struct sample *sample) {
    free(sample->slots);
    sample->slots = NULL;
}

static uint32_t home_of(const struct sample *sample, uint64_t handle) {
    return (uint32_t)(sample_hash(handle) / SAMPLE_EVERY) & sample->mask;
}

void sample_add(struct sample *sample, uint64_t handle) {
    uint32_t at = home_of(sample, handle);

    CHECK_LT(sample->count, sample->mask);
    while (sample->slots[at])
        at = (at + 1) & sample->mask;
    sample->slots[at] = handle;
    sample->count++;
}

bool sample_remove(struct sample *sample, uint64_t handle) {
    uint32_t at = home_of(sample, handle);

    while (sample->slots[at] != handle) {
        if (!sample->slots[at])
            return false;
        at = (at + 1) & sample->mask;
    }
    sample->count--;
    for (uint32_t next = (at + 1) & sample->mask; sample->slots[next]; next = (next + 1) & sample->mask) {
        uint32_t home = home_of(sample, sample->slots[next]);
        if (((next - home) & sample->mask) < ((next - at) & sample->mask))
            continue; /* it may not stand before its home */
        sample->slots[at] = sample->slots[next];
        at = next;
    }
    sample->slots[at] = 0;
    return true;
}
