/* bit_tree.h - a set of small integers whose least one is found fast: a bitmap of the items, a bitmap of the words of
 * the first bitmap that are not empty, and so on. Adding, removing and finding the least item take a few instructions,
 * whatever the size.
 *
 * Items are 0..capacity-1. Memory is the caller's. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/arena.h"

#define BIT_TREE_LEVELS 4 /* bitmaps; 64 bits have one bit in the bitmap above: up to 16 million items */

struct bit_tree {
    uint64_t *words[BIT_TREE_LEVELS]; /* bitmaps by level; level 0: the items, above: which words below are not 0 */
    uint32_t capacity, count;         /* most items, items in the set */
};

/* Takes the tree's memory from an arena and makes the tree empty. An arena without memory only counts the bytes; then
 * the tree is not touched. */
void bit_tree_take(struct arena *arena, struct bit_tree *tree, uint32_t capacity);
/* Adds the item, if it is not there. */
void bit_tree_add(struct bit_tree *tree, uint32_t item);
/* Removes the item, if it is there. */
void bit_tree_remove(struct bit_tree *tree, uint32_t item);

static inline bool bit_tree_has(const struct bit_tree *tree, uint32_t item) {
    return tree->words[0][item / 64] >> item % 64 & 1;
}

static inline bool bit_tree_empty(const struct bit_tree *tree) {
    return tree->count == 0;
}

/* The least item; the set must not be empty. */
static inline uint32_t bit_tree_first(const struct bit_tree *tree) {
    uint32_t at = 0;
    for (uint32_t level = BIT_TREE_LEVELS; level-- > 0;)
        at = at * 64 + (uint32_t)__builtin_ctzll(tree->words[level][at]);
    return at;
}
