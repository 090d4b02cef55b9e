/* load_classes.h - which models and types of accelerators have their load in common. Pure; called by the rank core.
 *
 * A model that runs on some types only has nothing of accelerators of others, however idle these are: the load that
 * counts for it is that of the accelerators it may have. So models and types are divided into classes, each with a load
 * of its own. The first class are the types that are loaded most by models which run on no others, and these models;
 * then the same of what is left, where models have only the types that are left. So a class's models cannot get more
 * than its accelerators, and those of later classes had better not count on the accelerators of earlier ones. If all
 * models run on all types there is one class. */
#pragma once

#include <stdint.h>

#include "link/messages.h"

struct load_classes {
    uint32_t types;                           /* how many there are */
    uint32_t count;                           /* classes, one at least; set by load_classes_divide() */
    uint32_t types_of[ACCELERATOR_TYPES_MAX]; /* [count] the types of each, a bit for each type */
    double load[1 << ACCELERATOR_TYPES_MAX];  /* accelerators kept busy by models that run on exactly these types */
};

/* Begins anew: no load. */
void load_classes_begin(struct load_classes *classes, uint32_t types);
/* Counts a model's load, in accelerators. `runs_on`: a bit for each type on which it runs; 0: on all. */
void load_classes_add(struct load_classes *classes, uint32_t runs_on, double load);
/* Divides them; `up` [types]: accelerators in service. The load counted is used up. */
void load_classes_divide(struct load_classes *classes, const uint32_t *up);
/* The class of a model that runs on these types; 0: on all. */
uint32_t load_classes_find(const struct load_classes *classes, uint32_t runs_on);
