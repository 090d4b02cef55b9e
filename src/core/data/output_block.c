/* output_block.c - a batch without outputs, and the sentence that says why. */
#include "core/data/output_block.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static void failure_release(struct output_block *block) {
    free(block);
}

struct output_block *output_block_failed(const char *sentence) {
    size_t bytes = strlen(sentence) + 1;
    struct output_block *block = malloc(offsetof(struct output_block, outputs) + bytes);
    if (!block)
        return NULL;
    char *copy = memcpy((char *)block + offsetof(struct output_block, outputs), sentence, bytes);
    atomic_init(&block->references, 1);
    block->output_count = 0;
    block->failure = copy;
    block->release = failure_release;
    return block;
}
