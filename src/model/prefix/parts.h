/* parts.h - makes the parts of a group's models, in child processes: a model may crash the library that runs it. */
#pragma once

#include "model/prefix/groups.h"
#include "model/prefix/split.h"

struct parts_maker {
    const struct engine_ops *engine;
    struct cut_model *const *members; /* of the group, in its order */
    const struct group *group;
    const char *prefix_path; /* the files to write; their folders are there */
    const char *const *suffix_paths;
    uint32_t trial_s; /* a trial of a cut is ended after so long; 0: never */
    /* Called in the child once the parts are good. Of all that it does only the files that it writes outlast the child.
     * A cut counts only if it returns 0. Not NULL. */
    int (*finish)(void *context, const struct split *split, uint32_t cut, struct sy_error *err);
    void *context;
};

/* Tries the group's cuts, the deepest first, until parts answer as the models do and `finish` returns 0; *cut is its
 * number then. On failure the last error. `deepest` says in either case why the deepest cut was refused; "": it was
 * not. The process must have one thread. */
int parts_make(const struct parts_maker *maker, uint32_t *cut, struct sy_error *deepest, struct sy_error *err);
