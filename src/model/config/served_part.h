/* served_part.h - what an accelerator loads of models that begin with the same layers, where these are shared: the
 * prefix, once for all of them, and of each model its suffix.
 *
 *     request to A --\                          /--> A's suffix, a place of its own --> A's outputs
 *                     > queue -> prefix, a place --> B's suffix                     --> B's outputs
 *     request to B --/
 *
 * The prefix has a place among the served models, which clients do not see. It has the queue, the profile and the
 * batches of all; the models have none. A request's card says whose suffix it takes (core/data/card.h). Constant once
 * it is made. */
#pragma once

#include "core/data/tensor.h"

#define PART_SUFFIXES_MAX 256 /* of a prefix: the card has a byte for it */
#define PART_OWN          UINT32_MAX

struct served_part {
    char path[4096];                            /* the part's file */
    struct signature signature;                 /* of that file; `batched` as the whole model is */
    int64_t dims[TENSORS_MAX][TENSOR_DIMS_MAX]; /* its inputs of the profiled item */
    uint32_t takes[TENSORS_MAX]; /* by its inputs. Prefix: which of the whole's inputs it is. Suffix: which of the
                                    prefix's outputs; PART_OWN: none */
    uint32_t own[TENSORS_MAX];   /* then: which of the whole's inputs it is */
};
