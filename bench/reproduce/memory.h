/* memory.h - memory for a program that ends if there is none. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Zeroed memory. */
static inline void *memory_take(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory) {
        fprintf(stderr, "reproduce: out of memory\n");
        exit(1);
    }
    return memory;
}

static inline char *memory_copy(const char *text) {
    return strcpy(memory_take(strlen(text) + 1), text);
}
