/* plan_memory.h - memory for the plans that a link keeps until they have ended: structs for a plan and its handles,
 * which are used again.
 *
 * Such a struct begins with a struct plan_memory and ends with a struct batch_plan, whose handles follow it. The link's
 * thread calls these functions. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/util/list.h"

struct plan_memory {
    struct list_node node; /* place in a list of the owner, or in the list of free structs */
    uint32_t room;         /* handles for which there is room */
};

/* A struct of `bytes` with room for so many handles, of the list of free ones or a new one; but for `room` it is not
 * initialised, and it is in no list. NULL: no memory. */
void *plan_memory_take(struct list_node *free_ones, size_t bytes, uint32_t handles);
/* Moves a struct to the list of free ones. It stays as it is until the next plan_memory_take(). */
void plan_memory_give(struct list_node *free_ones, struct plan_memory *memory);
/* Frees all structs of a list. */
void plan_memory_free(struct list_node *list);
