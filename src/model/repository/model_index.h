/* model_index.h - the models that are served, and those that are only known, by name, as clients ask for them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"
#include "model/config/served_model.h"

/* A model that is known and not served. */
struct model_absent {
    char name[MODEL_NAME_MAX];
    uint32_t version;       /* version of the model; 0: not known */
    enum model_state state; /* state of the model: LOADING, UNLOADING or UNAVAILABLE */
    bool failed;            /* UNAVAILABLE: whether the model was to be served; false: nobody wants it */
    char reason[512];
};

/* A model that has a place, as one that is not served; if UNAVAILABLE, it was to be served. The reason is copied. */
struct model_absent model_absent_of(const struct served_model *model, enum model_state state, const char *reason);

/* The models by name, as of one moment. An index is constant. */
struct model_index {
    struct served_model *models; /* models by place; a place is a model's number everywhere */
    uint32_t *listed, count;     /* [count] numbers of models that are served, or were set aside at the start */
    struct model_absent *absent;
    uint32_t absent_count;
    bool partial; /* whether a frontend has not heard of all models yet: a model that is not known may be soon */
    uint32_t *slots, mask; /* hash table with open addressing: number + 1; 0: free */
};

/* Makes an index of all of `models`, which must outlive the index. 0 or -ENOMEM; call model_index_destroy() in either
 * case. */
int model_index_init(struct model_index *index, struct served_model *models, uint32_t count);
/* As model_index_init(), for the models `listed`, and those in `absent`, which are not served. `listed` is copied.
 * `absent`, of malloc() or NULL, is the index's in either case: thousands of them take megabytes. */
int model_index_init_listed(struct model_index *index, struct served_model *models, const uint32_t *listed,
                            uint32_t count, struct model_absent *absent, uint32_t absent_count);
void model_index_destroy(struct model_index *index);

/* The current index, at which frontends look once a turn. Whoever replaces it may free the old index once every
 * frontend has seen the new one (frontend_models()). */
struct model_publication {
    _Atomic(const struct model_index *) now;
};

/* The models of one name. */
struct model_versions {
    const struct model_index *index;
    const char *name;
    size_t length;
    uint32_t slot; /* where the next one is looked for */
};

struct model_versions model_index_versions(const struct model_index *index, const char *name, size_t length);
/* The number of the next one, as they are listed; -1: there is none. */
int model_versions_next(struct model_versions *versions);

/* The number of the model with this name and version; with `version` 0, of the highest version that is ready, but none
 * that `begins` if another one is. -1: there
 * is no such model. */
int model_index_number(const struct model_index *index, const char *name, size_t length, uint32_t version);

/* As model_index_number(), with the version as it stands in a request: digits, or of length 0 for the highest. A
 * negative status with a sentence: -404: there is no such model; -503: the model is not there now, or may be there
 * soon. */
int model_index_find(const struct model_index *index, const char *name, size_t length, const char *version,
                     size_t version_length, struct sy_error *err);
/* The place for a request that names no version, and for which model_index_number() has found `place`: another
 * version's, if two share such requests and it is that one's turn. Turns are spread evenly: with 1000 of 10000 parts it
 * is each tenth request's. Any thread. */
uint32_t model_index_turn(const struct model_index *index, uint32_t place);
/* Whether `model` is asked rather than `other`, of the same name, where no version is named: a ready version goes
 * first, then one that does not `begin`, then the higher one. */
bool model_version_precedes(const struct served_model *model, const struct served_model *other);
/* The name of the model in this place; NULL: none is served there. */
const char *model_index_name(const struct model_index *index, uint32_t place);
/* Whether the model can be asked now; if not, the sentence says why. *retry: whether trying again soon is worth it. */
bool served_model_ready(const struct served_model *model, bool *retry, struct sy_error *err);
