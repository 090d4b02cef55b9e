/* pages.h - page accounting of one accelerator's memory for weights, and which model to unload next.
 *
 * Memory is counted in pages, of 16 MiB on GPUs (Clockwork, OSDI 2020, section 5.2): the number of free pages alone
 * says what fits. Models are listed in the order of their last use. A model that is being loaded or has batches to run
 * is held: it is not unloaded. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PAGE_BYTES (16ULL << 20)
#define PAGES_NONE UINT32_MAX

struct pages_entry {
    uint32_t older, newer; /* neighbours in the list by last use, of models that have pages and are not held */
    uint32_t pages;        /* pages that the model has; 0: it is not in this memory */
    uint32_t holds;        /* calls of pages_hold() without their pages_release() */
};

struct pages {
    struct pages_entry *entries; /* [models] */
    uint32_t total, free;
    uint32_t oldest, newest;
};

/* The pages that a model's weights take: at least one, so that every model can be told to be there. */
static inline uint32_t pages_of(uint64_t weights_bytes, uint64_t page_bytes) {
    uint64_t pages = weights_bytes / page_bytes + (weights_bytes % page_bytes != 0);
    return pages == 0 ? 1 : pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
}

/* The whole pages of a memory. */
static inline uint32_t pages_in(uint64_t memory_bytes, uint64_t page_bytes) {
    uint64_t pages = memory_bytes / page_bytes;
    return pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
}

/* Starts empty. The caller owns `entries`, [models]. */
void pages_init(struct pages *pages, struct pages_entry *entries, uint32_t models, uint32_t total);
/* Gives `count` pages (at least 1) to a model that has none, and holds the model. False: fewer pages are free. */
bool pages_take(struct pages *pages, uint32_t model, uint32_t count);
/* Takes back the pages of a model that is not held. */
void pages_give(struct pages *pages, uint32_t model);
/* A model that has pages is in use from pages_hold() to pages_release(); such pairs may be nested. The model's last use
 * is its last release. */
void pages_hold(struct pages *pages, uint32_t model);
void pages_release(struct pages *pages, uint32_t model);
/* The model, among those not held, whose last use is longest ago; PAGES_NONE: there is none. */
static inline uint32_t pages_oldest(const struct pages *pages) {
    return pages->oldest;
}
