/* plan_memory.c - memory for plans, from a list of free structs. */
#include "cluster/roles/plan_memory.h"

#include <stdlib.h>

#define ROOM_LEAST 32 /* least handles for which a struct has room, so that it fits most later plans */

void *plan_memory_take(struct list_node *free_ones, size_t bytes, uint32_t handles) {
    struct plan_memory *memory = list_empty(free_ones) ? NULL : list_entry(free_ones->next, struct plan_memory, node);
    if (memory)
        list_remove(&memory->node);
    if (memory && memory->room >= handles)
        return memory;
    free(memory);
    uint32_t room = handles < ROOM_LEAST ? ROOM_LEAST : handles;
    memory = malloc(bytes + room * sizeof(uint64_t));
    if (memory)
        *memory = (struct plan_memory){.room = room};
    return memory;
}

void plan_memory_give(struct list_node *free_ones, struct plan_memory *memory) {
    list_remove(&memory->node);
    list_insert_before(free_ones->next, &memory->node); /* the first is in the cache, and is taken next */
}

void plan_memory_free(struct list_node *list) {
    list_for_each_safe (node, list) {
        free(list_entry(node, struct plan_memory, node));
    }
}
