/* bit_tree.c - bitmaps over bitmaps. */
#include "sched/core/bit_tree.h"

#include <string.h>

#include "core/util/assert.h"

/* How many words a level has; the last level has one. */
static uint32_t words_at(uint32_t capacity, uint32_t level) {
    uint32_t words = capacity;
    for (uint32_t i = 0; i <= level; i++)
        words = (words + 63) / 64;
    return words ? words : 1;
}

void bit_tree_take(struct arena *arena, struct bit_tree *tree, uint32_t capacity) {
    struct bit_tree own = {.capacity = capacity};
    for (uint32_t level = 0; level < BIT_TREE_LEVELS; level++)
        own.words[level] = arena_take(arena, words_at(capacity, level) * sizeof(uint64_t));
    if (!arena->base)
        return;
    CHECK_EQ(words_at(capacity, BIT_TREE_LEVELS - 1), 1);
    for (uint32_t level = 0; level < BIT_TREE_LEVELS; level++)
        memset(own.words[level], 0, words_at(capacity, level) * sizeof(uint64_t));
    *tree = own;
}

void bit_tree_add(struct bit_tree *tree, uint32_t item) {
    CHECK_LT(item, tree->capacity);
    tree->count += !bit_tree_has(tree, item);
    for (uint32_t level = 0; level < BIT_TREE_LEVELS; level++, item /= 64)
        tree->words[level][item / 64] |= 1ULL << item % 64;
}

void bit_tree_remove(struct bit_tree *tree, uint32_t item) {
    CHECK_LT(item, tree->capacity);
    tree->count -= bit_tree_has(tree, item);
    for (uint32_t level = 0; level < BIT_TREE_LEVELS; level++, item /= 64)
        if (tree->words[level][item / 64] &= ~(1ULL << item % 64))
            return; /* the word still has items, so the levels above stay as they are */
}
