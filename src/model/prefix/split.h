/* split.h - cuts models in two, and sees whether the parts answer as the whole does, bit by bit. */
#pragma once

#include "model/engine/engine.h"
#include "model/prefix/cut.h"

#define SPLIT_NONE UINT32_MAX

/* A member of the group that is split. */
struct split_member {
    struct cut_model *model;
    const char *suffix_path;            /* the file to write */
    struct signature whole, suffix;     /* found */
    uint32_t prefix_takes[TENSORS_MAX]; /* which of the whole's inputs each input of the prefix is */
    uint32_t suffix_takes[TENSORS_MAX]; /* which output of the prefix each input of the suffix is; SPLIT_NONE: none */
    uint32_t suffix_own[TENSORS_MAX];   /* then: which of the whole's inputs it is */
    int64_t whole_ns, parts_ns;         /* what a lone request takes: medians of runs in turns. Found */
};

struct split {
    const struct engine_ops *engine;
    const char *prefix_path;             /* the file to write */
    struct signature prefix;             /* found */
    uint32_t prefix_inputs[TENSORS_MAX]; /* which of the models' graphs' inputs each input of the prefix is. Found */
    struct split_member *members;
    uint32_t count;
};

/* Writes the prefix, cut out of the first member, and each member's suffix; loads them, and runs them and the whole
 * models on the same random inputs of 1, 2 and 3 items. The parts are good if all outputs of all members are equal bit
 * by bit. Else -EINVAL, or what loading or writing gave, and a sentence; files may have been written then. Loads one
 * member at a time, and times it for 0.2 s, or longer if it is slow. The library that loads them may crash on a broken
 * model, so call it in a child process. */
int split_make(struct split *split, const struct cut *cut, struct sy_error *err);
