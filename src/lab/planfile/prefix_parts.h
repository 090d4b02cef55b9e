/* prefix_parts.h - the parts of models that share a prefix, as files: a model repository that serves them. */
#pragma once

#include "model/config/served_model.h"
#include "model/prefix/groups.h"

struct prefix_parts {
    bool written; /* whether the files of the parts stay */
    uint32_t cut; /* index of the cut that is taken among the group's cuts */
    char prefix_name[MODEL_NAME_MAX];
    char (*suffix_names)[MODEL_NAME_MAX]; /* [members] */
};

/* Splits a group at the deepest of its cuts whose parts answer as the models do. With a folder, writes there
 * PREFIX/1/model.onnx, for each member SUFFIX/1/model.onnx, and an ensemble of the member's name, that takes `items`
 * items at most and has the SLO of its symphony.yaml; without a folder no files stay. Files that are there already are
 * an error (-EEXIST). On failure no files stay, and the sentence is the reason. `deepest`: as in parts_make(). */
int prefix_parts_make(struct prefix_parts *parts, const char *folder, struct cut_model *models,
                      const struct served_model *served, const struct group *group, uint32_t items,
                      struct sy_error *deepest, struct sy_error *err);
void prefix_parts_free(struct prefix_parts *parts);
