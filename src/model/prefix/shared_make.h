/* shared_make.h - makes a group of models whose graphs allow it: cuts them, tries the parts, and profiles them. */
#pragma once

#include "model/prefix/groups.h"
#include "model/prefix/shared_groups.h"

/* What a group is made of. The models outlive the making. */
struct shared_making {
    const struct profile_options *how;
    const struct group *group;                            /* its cuts, and how many members it has */
    const struct served_model *models[GROUPS_MODELS_MAX]; /* the members, */
    struct cut_model *cuts[GROUPS_MODELS_MAX];            /* their graphs, */
    struct part_owner owners[GROUPS_MODELS_MAX];          /* and their files */
    /* Tries the cuts with all files in the folder `made`, and writes a note of the outcome there, a refusal, too:
     * shared_parts_try(), or what has another process do it. -errno with a sentence: there is no outcome. */
    int (*trial)(struct shared_making *making, struct sy_error *err);
    void *context;
    char made[SIDECAR_PATH_MAX]; /* for `trial` */
};

/* Sets a member. */
void shared_making_add(struct shared_making *making, uint32_t member, const struct served_model *model,
                       struct cut_model *cuts);
/* Tries the cuts, the deepest first, each in a child process. The process must have one thread. Needs how->engine,
 * group, cuts, owners and made. */
int shared_parts_try(struct shared_making *making, struct sy_error *err);

/* Makes the group, of parts that are there already or that `trial` makes. NULL with *rc and a sentence: its models are
 * served whole; -EINTR, -ENOMEM: nothing is known. */
struct shared_group *shared_group_make(struct shared_making *making, int *rc, struct sy_error *err);
