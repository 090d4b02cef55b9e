/* catalogue.h - the models that the backends of a cluster bring, and the types of accelerators that run them. Pure.
 *
 * A model's identity is its name, its version, and all that its requests and answers depend on. A class is a type of
 * accelerators whose backends have the same models, and run batches of them that are at least as large as the first
 * backend's, at the same speed (speed.h). The scheduler treats each class as a type, so that a model runs only on
 * backends that have it. The number of a class without backends is used for the next new class, once no place uses it
 * any more. Where the scheduler orders loads it knows itself which accelerator has which model, and backends of one
 * class may have different ones. Ensembles run nowhere, so they are in no class: their steps' models are. */
#pragma once

#include "cluster/membership/rollouts.h"
#include "core/data/numbers.h"
#include "core/data/profile.h"
#include "model/config/served_model.h"
#include "model/repository/model_description.h"
#include "sched/core/central.h"

#define CATALOGUE_MODELS_MAX 4096
#define CATALOGUE_NONE       UINT32_MAX

/* A model that backends have. */
struct known_model {
    struct served_model *model; /* model; NULL: the number is free. If its SLO was chosen, that is the longest that a
                                   backend has chosen since there is the model */
    uint64_t hash;              /* hash of the description */
    char *description;          /* description by the first backend */
    uint32_t description_bytes;
    struct described_profile profiles_brought[ACCELERATOR_TYPES_MAX]; /* profiles of the first backend */
    uint32_t profiles_brought_count;
    uint32_t backends;      /* backends that have the model now */
    uint32_t ending;        /* backends that end it, and were not told yet that nothing needs it there */
    uint64_t weights_bytes; /* most that the weights take on a backend, as these have described it */
    uint32_t place;         /* place that serves the model, or soon will; CATALOGUE_NONE: none */
    uint32_t counted;       /* `backends` when `begins` was last set */
    bool begins;            /* requests that name no version go to another version that is served */
    uint32_t share;   /* parts of ROLLOUT_SHARE_ALL of these requests that go to this version, where two versions share
                         them; else 0 */
    bool begins_told; /* `begins` as frontends know it */
    uint32_t share_told; /* the same of `share` */
    int64_t slo_told_ns; /* the model's SLO as frontends know it */
    bool told;           /* frontends know the model; only for ensembles, which have no place */
    bool unloaded;       /* the last backend unloaded the model, and did not just vanish */
    const char *waits;   /* reason why a model that backends could run has no place; NULL: none */
    struct profile *profiles[CENTRAL_TYPES_MAX]; /* profiles by class; NULL: the class does not run the model */
};

struct accelerator_class {
    char type[64];
    double factor;     /* how many times as long its runs take as the profiles of its type say */
    uint32_t backends; /* backends that have accelerators of the class; 0: the number is free */
    uint64_t models[CATALOGUE_MODELS_MAX / 64]; /* a bit for each known model that the class runs */
};

struct catalogue {
    bool by_type; /* a class is a type, whatever models its backends have: each accelerator's models are told to the
                     rank threads (scheduler_memory.c) */
    struct known_model known[CATALOGUE_MODELS_MAX];
    uint32_t names[CATALOGUE_MODELS_MAX]; /* model_name_hash() of each known model: looked through without the models */
    uint32_t known_count;                 /* first of the numbers that were never used */
    bool many; /* there may be CENTRAL_TYPES_MAX classes, for a central policy; else ACCELERATOR_TYPES_MAX */
    struct accelerator_class classes[CENTRAL_TYPES_MAX];
    struct rollouts rollouts; /* stated versions */
};

/* One model of a backend, as it described it. */
struct brought_model {
    struct remote_id remote; /* number that the backend gives the model */
    uint32_t known;          /* number in `known`, set by catalogue_bring() */
    bool ends;               /* the backend ends the model, which counts for no class any more */
    struct described_profile profiles[ACCELERATOR_TYPES_MAX];
    uint32_t profile_count;
    bool shared; /* the profiles belong to the known model, since the same description was brought before */
};

/* Notes that a backend has a model. Fills `brought`. 0, or -EINVAL: the description is wrong; -EEXIST: a backend has
 * another model of that name and version; -ENOSPC; -ENOMEM; with a sentence. */
int catalogue_bring(struct catalogue *catalogue, const char *description, size_t bytes, struct brought_model *brought,
                    struct sy_error *err);
/* Frees the profiles of a brought model when the whole catalogue ends. */
void catalogue_brought_free(struct brought_model *brought);
/* The backend ends the model: marks it `ends` and frees its profiles. */
void catalogue_take(struct catalogue *catalogue, struct brought_model *brought);
/* The backend has no more to do with a model that it has ended. */
void catalogue_put_down(struct catalogue *catalogue, const struct brought_model *brought);
/* How many classes there may be. */
static inline uint32_t catalogue_classes(const struct catalogue *catalogue) {
    return catalogue->many ? CENTRAL_TYPES_MAX : ACCELERATOR_TYPES_MAX;
}
/* The class of a backend's accelerators of a type and factor; adds the backend to it. `used`: a bit for each class that
 * some place still uses; `closed`: for each class that nobody may join now. CATALOGUE_NONE: there are too many classes.
 */
uint32_t catalogue_class(struct catalogue *catalogue, const char *type, double factor,
                         const struct brought_model *brought, uint32_t count, uint64_t used, uint64_t closed);
/* Whether two backends have the same models for accelerators of a type. */
bool catalogue_alike(const char *type, const struct brought_model *a, uint32_t a_count, const struct brought_model *b,
                     uint32_t b_count);
/* Whether a backend with these models may be in a class: the class runs the same ones, in no larger batches. */
bool catalogue_class_fits(const struct catalogue *catalogue, uint32_t class, const struct brought_model *brought,
                          uint32_t count);
/* Gives a class these models, which all its backends have now. False, and nothing has changed: a backend of another
 * class still has one of the models that the class is to lose, or the batches of a model would have to be smaller. */
bool catalogue_class_change(struct catalogue *catalogue, uint32_t class, const struct brought_model *brought,
                            uint32_t count);
/* With `by_type`: a backend of the class has these models now. */
void catalogue_class_grow(struct catalogue *catalogue, uint32_t class, const struct brought_model *brought,
                          uint32_t count);
/* The backend has no accelerators of the class any more. */
void catalogue_class_leave(struct catalogue *catalogue, uint32_t class);
/* The classes that run a model now, a bit each. */
uint64_t catalogue_runs_on(const struct catalogue *catalogue, uint32_t known);
/* The model that takes over from a model that no backend has any more: one of the same name and version that a backend
 * has, else one of the same name that is not served yet. CATALOGUE_NONE: there is none. */
uint32_t catalogue_successor(const struct catalogue *catalogue, uint32_t known);
/* Sets `begins` and `share` of all versions of a model's name that are served. Of these, the oldest one carries the
 * requests that name no version, until as many backends have a newer one as have it; then that carries them, and so on.
 * A stated rollout goes before that rule, while enough backends have its version: as many as have the version before,
 * times the share. Otherwise the version before gets all; if that is not served, the rule holds. */
void catalogue_versions(struct catalogue *catalogue, uint32_t known);
/* The number of a served version of a model; CATALOGUE_NONE: it is not served. */
uint32_t catalogue_served(const struct catalogue *catalogue, const char *model, uint32_t version);
/* Whether enough backends have the version of a stated rollout. */
bool catalogue_rolls(const struct catalogue *catalogue, const struct rollout *rollout);
/* The version that carries most of a model's requests without a version; 0: none is served. */
uint32_t catalogue_carries(const struct catalogue *catalogue, const char *model);
/* Forgets the model if no backend has it or ends it, no place serves it, and frontends do not know it. False: it is
 * kept. */
bool catalogue_forget(struct catalogue *catalogue, uint32_t known);
void catalogue_free(struct catalogue *catalogue);
