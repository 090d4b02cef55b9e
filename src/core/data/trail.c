/* trail.c - notes trails, and reads them while others are noted. */
#include "core/data/trail.h"

const char *trail_state_name(uint8_t state) {
    static const char *const names[TRAIL_STATES] = {"refused", "failed", "late", "in_time"};
    return names[state];
}

int trails_init(struct trails *trails, uint32_t keep, uint32_t every) {
    int rc = 0;
    *trails = (struct trails){.every = keep ? every : 0};
    for (int s = 0; s < TRAIL_RINGS && rc == 0; s++)
        rc = tape_init(&trails->of[s].tape, keep, TRAIL_WORDS);
    return rc;
}

void trails_free(struct trails *trails) {
    for (int s = 0; s < TRAIL_RINGS; s++)
        tape_free(&trails->of[s].tape);
}

void trails_note(struct trails *trails, unsigned to, const struct trail *trail) {
    tape_note(&trails->of[to].tape, &trails->of[to].noted, trail, TRAIL_WORDS);
}

uint64_t trails_read_on(const struct trails *trails, unsigned from, uint64_t *next, struct trail *into, uint64_t most) {
    return tape_read_on(&trails->of[from].tape, &trails->of[from].noted, TRAIL_WORDS, next, into, most);
}

uint64_t trails_read(const struct trails *trails, unsigned from, struct trail *into, uint64_t most) {
    return tape_read(&trails->of[from].tape, &trails->of[from].noted, TRAIL_WORDS, into, most);
}

uint64_t trails_noted(const struct trails *trails, unsigned ring) {
    return counter_get(&trails->of[ring].noted);
}
