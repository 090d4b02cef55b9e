/* groups.h - which of many models share a prefix. */
#pragma once

#include "model/prefix/cut.h"

#define GROUPS_MODELS_MAX 256

/* The rules unless a user gives others: tensors that may cross a cut, and share of nodes or weights. */
#define GROUP_TENSORS 4
#define GROUP_SHARE   0.1

struct group_rules {
    uint32_t tensors_max; /* most tensors that may cross a cut */
    double share;         /* least share of each member's nodes, or of its weights, that a prefix must have */
};

struct group {
    uint32_t members[GROUPS_MODELS_MAX]; /* [count] numbers of models, ascending */
    uint32_t count;
    struct cut cuts[CUTS_MAX]; /* [cut_count] cuts that keep to the rules, the deepest first */
    uint32_t cut_count;
};

/* Finds the groups. The search begins with each model as a group of its own. Then it joins, again and again, the two
 * groups whose joining saves the most nodes, as long as any nodes are saved; a group saves its prefix's nodes for each
 * member but one. `groups` has room for `count` groups; the *group_count groups of two and more members come first. 0
 * or -ENOMEM. The pairs are compared one by one: count^2 searches for cuts. */
int groups_find(const struct cut_model *const *models, uint32_t count, const struct group_rules *rules,
                struct group *groups, uint32_t *group_count, struct sy_error *err);

/* Says why a model shares a prefix with no other: a sentence without a full stop. `names` are the models' names. */
void group_reason(const struct cut_model *const *models, const char *const *names, uint32_t count,
                  const struct group_rules *rules, uint32_t model, char *text, size_t size);
