/* model_index.h - the models that are served and those that are known, by name, as clients ask for them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"
#include "model/config/served_model.h"

/* A model that is known and not served. */
struct model_absent {
    char name[MODEL_NAME_MAX];
    uint32_t version;       /* 0: not known */
    enum model_state state; /* LOADING, UNLOADING or UNAVAILABLE */
    bool failed;            /* UNAVAILABLE: it was to be served; false: nobody wants it */
    char reason[512];
};

/* The models by name, as of one moment: constant. */
struct model_index {
    struct served_model *models; /* a model's index in it is its number everywhere */
    uint32_t *listed, count;     /* numbers of those that are served, or were set aside at the start */
    struct model_absent *absent;
    uint32_t absent_count;
    bool partial;          /* of a frontend that has not heard of all models yet: who is not known may be soon */
    uint32_t *slots, mask; /* open addressing: number + 1, 0: free */
};

/* An index of all of `models`, which must outlive it. 0 or -ENOMEM; destroy it in either case. */
int model_index_init(struct model_index *index, struct served_model *models, uint32_t count);
/* The same for the models listed, and others that are not served; both lists are copied. */
int model_index_init_listed(struct model_index *index, struct served_model *models, const uint32_t *listed,
                            uint32_t count, const struct model_absent *absent, uint32_t absent_count);
void model_index_destroy(struct model_index *index);

/* Where frontends look, once a turn, for the models as they are now. Whoever replaces them may free the old ones once
 * every frontend has seen the new ones (frontend_models()). */
struct model_publication {
    _Atomic(const struct model_index *) now;
};

/* The number of the model of this name and version, or with `version` 0 of the one of the highest version that is
 * ready; -1: there is none. */
int model_index_number(const struct model_index *index, const char *name, size_t length, uint32_t version);

/* The same with the version as it stands in a request: digits, or of length 0 for the highest. A negative status with a
 * sentence: -404 there is none, -503 it is not there now, or may be soon. */
int model_index_find(const struct model_index *index, const char *name, size_t length, const char *version,
                     size_t version_length, struct sy_error *err);
/* Whether the model can be asked now; if not, the sentence says why. *retry: worth trying again soon. */
bool served_model_ready(const struct served_model *model, bool *retry, struct sy_error *err);
