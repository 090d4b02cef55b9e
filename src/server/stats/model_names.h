/* model_names.h - the names of models by the low bits of their keys, as timelines note them. */
#pragma once

#include "server/threads/model_list.h"

struct model_names {
    struct model_name *rows; /* by key */
    uint32_t count;
};

/* Of the models of the list, which stays locked (model_list_lock()) until the names are freed, and of those that have
 * gone. Without memory there are no names. */
void model_names_make(struct model_names *names, const struct model_list *list);
void model_names_free(struct model_names *names);
/* The name of a model; "?": it is not known any more. */
const char *model_names_find(const struct model_names *names, uint32_t key);
