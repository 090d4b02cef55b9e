/* groups.h - which of many models share a prefix. */
#pragma once

#include "model/prefix/cut.h"

#define GROUPS_MODELS_MAX 256

/* The rules, unless a user gives others. */
#define GROUP_TENSORS 4
#define GROUP_SHARE   0.1

struct group_rules {
    uint32_t tensors_max; /* that may cross a cut */
    double share;         /* of each member's nodes, or of its weights, that a prefix must have */
};

struct group {
    uint32_t members[GROUPS_MODELS_MAX]; /* ascending */
    uint32_t count;
    struct cut cuts[CUTS_MAX]; /* the deepest first; all keep to the rules */
    uint32_t cut_count;
};

/* Begins with each model as a group of its own. Then it joins, again and again, the two groups by whose joining the
 * most nodes are saved, as long as any are; a group saves its prefix's nodes for each member but one. `groups` has room
 * for `count` models; those of two and more members come first, *group_count of them. -ENOMEM. The pairs are compared
 * one by one: count^2 cuts. */
int groups_find(const struct cut_model *const *models, uint32_t count, const struct group_rules *rules,
                struct group *groups, uint32_t *group_count, struct sy_error *err);

/* Why a model shares a prefix with no other: a sentence without a full stop. `names` are the models'. */
void group_reason(const struct cut_model *const *models, const char *const *names, uint32_t count,
                  const struct group_rules *rules, uint32_t model, char *text, size_t size);
