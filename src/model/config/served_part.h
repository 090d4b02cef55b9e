/* served_part.h - the parts that an accelerator loads of models that share their first layers: the prefix, once for all
 * of them, and the suffix of each model.
 *
 *     request to A --\                          /--> A's suffix, a place of its own --> A's outputs
 *                     > queue -> prefix, a place --> B's suffix                     --> B's outputs
 *     request to B --/
 *
 * The prefix has a place among the served models, which clients do not see. That place has the queue, the profile and
 * the batches of all these models; their own places have none. A request's card names the suffix that the request takes
 * (core/data/card.h). A part is constant once it is made. */
#pragma once

#include "core/data/tensor.h"
#include "core/util/mem_pool.h"

#define PART_SUFFIXES_MAX 256        /* suffixes of a prefix: the card has one byte for the number */
#define PART_OWN          UINT32_MAX /* takes[]: an input of the whole model, not an output of the prefix */

struct served_part {
    char path[4096];                  /* path of the part's file */
    struct signature signature;       /* signature of the part's file; `batched` as in the whole model */
    int64_t (*dims)[TENSOR_DIMS_MAX]; /* dims of the part's inputs, of the profiled item */
    struct mem_pool *memory;          /* pool with specs and dims, which ends with the part */
    uint32_t takes[TENSORS_MAX]; /* by the part's inputs: in a prefix, the whole model's input that it is; in a suffix,
                                    the prefix's output that it is; PART_OWN: none */
    uint32_t own[TENSORS_MAX]; /* by the part's inputs: the whole model's input that it is, where `takes` is PART_OWN */
};
