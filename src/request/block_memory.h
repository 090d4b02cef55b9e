/* block_memory.h - where readers get memory for what they read, block by block. */
#pragma once

#include <stddef.h>

/* Where blocks come from (NULL: there are none), and go before their time when they are outgrown. */
struct block_memory {
    void *(*take)(void *context, size_t bytes);
    void (*give)(void *context, void *block);
    void *context;
};
