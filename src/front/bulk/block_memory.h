/* block_memory.h - memory for readers, block by block. */
#pragma once

#include <stddef.h>

/* take() gives a block, or NULL without memory. give() takes back one that has become too small, before the request is
 * over. */
struct block_memory {
    void *(*take)(void *context, size_t bytes);
    void (*give)(void *context, void *block);
    void *context;
};
