/* load_classes.h - which models and types of accelerators have their load in common. Pure; called by the rank core.
 *
 * A model that runs on some types only cannot use accelerators of other types, however idle they are: only the load of
 * the accelerators that the model may use counts for it. So models and types are divided into classes, each with a load
 * of its own. The first class has the types that are loaded most by models which run on no other types, and has these
 * models. The next classes are found in the same way among the types and models that are left. A class's models cannot
 * use more than the accelerators of the class and of earlier classes, and should not count on the earlier ones, which
 * are loaded more. If all models run on all types, there is one class. */
#pragma once

#include <stdint.h>

#include "core/data/messages.h"

struct load_classes {
    uint32_t types;                           /* accelerator types that there are */
    uint32_t count;                           /* classes, at least one; set by load_classes_divide() */
    uint32_t types_of[ACCELERATOR_TYPES_MAX]; /* [count] types of each class, a bit for each type */
    double load[1 << ACCELERATOR_TYPES_MAX];  /* accelerators that models of exactly this set of types keep busy */
};

/* Sets all loads to 0. */
void load_classes_begin(struct load_classes *classes, uint32_t types);
/* Counts a model's load, in accelerators. `runs_on`: a bit for each type on which the model runs; 0: all types. */
void load_classes_add(struct load_classes *classes, uint32_t runs_on, double load);
/* Divides types and models into classes; `up` [types]: accelerators in service. Spoils the counted loads: call
 * load_classes_begin() before counting again. */
void load_classes_divide(struct load_classes *classes, const uint32_t *up);
/* The class of a model that runs on the types `runs_on`; 0: all types. */
uint32_t load_classes_find(const struct load_classes *classes, uint32_t runs_on);
