/* shared_make.h - makes a group of models whose graphs allow it: cuts the models, tries the parts, and profiles the
 * parts. */
#pragma once

#include "model/prefix/groups.h"
#include "model/prefix/shared_groups.h"

/* What a group is made from. The models outlive the making. */
struct shared_making {
    const struct profile_options *how;
    const struct group *group;                            /* cuts of the group, and number of its members */
    const struct served_model *models[GROUPS_MODELS_MAX]; /* members of the group */
    struct cut_model *cuts[GROUPS_MODELS_MAX];            /* graphs of the members */
    struct part_owner owners[GROUPS_MODELS_MAX];          /* files of the members */
    /* Tries the cuts with all files in the folder `made`, and writes a note of the outcome there, also of a refusal.
     * The function is shared_parts_try(), or one that has another process do the same. -errno with a sentence: there is
     * no outcome. */
    int (*trial)(struct shared_making *making, struct sy_error *err);
    void *context;
    char made[SIDECAR_PATH_MAX]; /* folder for `trial` */
};

/* Sets the model, the graph and the file of a member. */
void shared_making_add(struct shared_making *making, uint32_t member, const struct served_model *model,
                       struct cut_model *cuts);
/* Tries the cuts, the deepest first, each in a child process. The process must have one thread. Of `making` it needs
 * how->engine, group, cuts, owners and made. */
int shared_parts_try(struct shared_making *making, struct sy_error *err);

/* Makes the group from parts that are there already or that `trial` makes. NULL with *rc and a sentence: the models are
 * served whole; with *rc -EINTR or -ENOMEM nothing is known. */
struct shared_group *shared_group_make(struct shared_making *making, int *rc, struct sy_error *err);
