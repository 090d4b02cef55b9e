/* parts.h - makes the parts of a group's models, in child processes: a model may crash the library that runs it. */
#pragma once

#include "model/prefix/groups.h"
#include "model/prefix/split.h"

struct parts_maker {
    const struct engine_ops *engine;
    struct cut_model *const *members; /* models of the group, in the group's order */
    const struct group *group;
    const char *prefix_path;         /* path of the prefix's file to write, in a folder that exists */
    const char *const *suffix_paths; /* paths of the suffixes' files to write, by member */
    uint32_t trial_s;                /* seconds after which a trial of a cut is ended; 0: never */
    /* Called in the child process once the parts are good. Of all that it does, only the files that it writes outlast
     * the child. A cut counts only if the call returns 0. Not NULL. */
    int (*finish)(void *context, const struct split *split, uint32_t cut, struct sy_error *err);
    void *context;
};

/* Tries the group's cuts, the deepest first, until the parts of a cut answer as the models do and `finish` returns 0.
 * *cut is then the number of that cut. On failure returns the last error. `deepest` says in either case why the deepest
 * cut was refused; "": it was not refused. The process must have one thread. */
int parts_make(const struct parts_maker *maker, uint32_t *cut, struct sy_error *deepest, struct sy_error *err);
