/* model_names.h - the names of models by the low bits of their keys, as timelines note them. */
#pragma once

#include "model/repository/model_index.h"

struct model_names {
    struct model_name *rows; /* by key */
    uint32_t count;
};

/* Of the models that are listed, whose list must stay until the names are freed. Without memory there are no names. */
void model_names_make(struct model_names *names, const struct model_index *listed);
void model_names_free(struct model_names *names);
/* The name of a model; "?": it is not listed. */
const char *model_names_find(const struct model_names *names, uint32_t key);
