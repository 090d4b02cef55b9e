/* load_classes.h - which models and types of accelerators have their load in common. Pure; called by the rank core.
 *
 * A model that runs on some types only cannot use accelerators of others, however idle they are: only the load of the
 * accelerators that it may use counts for it. So models and types are divided into classes, each with a load of its
 * own. The first class is the types that are loaded most by models which run on no other types, and these models. The
 * next classes are found in the same way among the types and models that are left. So a class's models cannot use more
 * than its own accelerators, and models of later classes should not count on the accelerators of earlier ones, which
 * are loaded more. If all models run on all types there is one class. */
#pragma once

#include <stdint.h>

#include "core/data/messages.h"

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
/* Divides types and models into classes; `up` [types]: accelerators in service. Spoils the counted load: begin anew
 * before counting again. */
void load_classes_divide(struct load_classes *classes, const uint32_t *up);
/* The class of a model that runs on these types; 0: on all. */
uint32_t load_classes_find(const struct load_classes *classes, uint32_t runs_on);
