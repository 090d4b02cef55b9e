/* split.h - cuts models in two, and checks whether the parts answer as the whole does, bit by bit. */
#pragma once

#include "model/engine/engine.h"
#include "model/prefix/cut.h"

#define SPLIT_NONE UINT32_MAX

/* A member of the group that is split. */
struct split_member {
    struct cut_model *model;
    const char *suffix_path;             /* path of the suffix's file to write */
    struct signature_room whole, suffix; /* set by split_make(): signatures of the whole model and of its suffix */
    uint32_t prefix_takes[TENSORS_MAX];  /* by the prefix's inputs: the whole's input that it is */
    uint32_t suffix_takes[TENSORS_MAX];  /* by the suffix's inputs: the prefix's output that it is; SPLIT_NONE: none */
    uint32_t suffix_own[TENSORS_MAX]; /* by the suffix's inputs: the whole's input, where suffix_takes is SPLIT_NONE */
    int64_t whole_ns, parts_ns;       /* set by split_make(): latency of a lone request, median of runs in turns */
};

struct split {
    const struct engine_ops *engine;
    const char *prefix_path;             /* path of the prefix's file to write */
    struct signature_room prefix;        /* set by split_make(): signature of the prefix */
    uint32_t prefix_inputs[TENSORS_MAX]; /* set by split_make(), by the prefix's inputs: the input of the models' graphs
                                            that it is */
    struct split_member *members;
    uint32_t count;
};

/* Writes the prefix, cut out of the first member, and each member's suffix. Loads the parts, and runs them and the
 * whole models on the same random inputs of 1, 2 and 3 items. The parts are good if all outputs of all members are
 * equal bit by bit. Else -EINVAL, or the error of loading or writing, and a sentence; files may have been written then.
 * Loads one member at a time, and times it for 0.2 s, or longer if it is slow. The library that loads the parts may
 * crash on a broken model, so call it in a child process. */
int split_make(struct split *split, const struct cut *cut, struct sy_error *err);
