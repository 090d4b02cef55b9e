/* blocks.h - memory that a fuzz target gives what it tests, and takes all back. */
#pragma once

#include <stdlib.h>

#include "core/data/tensor.h"
#include "core/util/assert.h"

#define BLOCKS_MAX (4 + 2 * TENSORS_MAX)

struct memory {
    char *blocks[BLOCKS_MAX];
    size_t bytes[BLOCKS_MAX];
    int count;
};

static inline void *memory_take(void *context, size_t bytes) {
    struct memory *memory = context;
    CHECK_LT(memory->count, BLOCKS_MAX);
    memory->bytes[memory->count] = bytes;
    void *block = aligned_alloc(64, (bytes + 64) / 64 * 64);
    CHECK(block);
    return memory->blocks[memory->count++] = block;
}

static inline void memory_free(struct memory *memory) {
    while (memory->count > 0)
        free(memory->blocks[--memory->count]);
}

/* Gives one back before its time. */
static inline void memory_give(void *context, void *block) {
    struct memory *memory = context;
    for (int i = 0; i < memory->count; i++)
        if (memory->blocks[i] == block) {
            free(block);
            memory->count--;
            memory->blocks[i] = memory->blocks[memory->count];
            memory->bytes[i] = memory->bytes[memory->count];
            return;
        }
    CHECK(!"a block that was taken");
}
