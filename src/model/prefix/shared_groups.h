/* shared_groups.h - groups of served models that begin with the same layers: these layers, the prefix, as a place of
 * their own, and each member's suffix (docs/prefixes.md, model/config/served_part.h).
 *
 * Groups are formed before the server starts, while the process has one thread (shared_prefixes.h). Then the
 * repository's thread alone uses them: models of a group may be unloaded, and loaded again. */
#pragma once

#include "model/config/served_part.h"
#include "model/prefix/part_folders.h"
#include "model/prefix/split.h"

#define SHARED_KIND "parts" /* kind of folders (part_folder_place()) */

/* A member of a group: a model whose file is as it was when it was cut. */
struct shared_member {
    char name[MODEL_NAME_MAX];
    char path[4096];         /* path of the model's file */
    char contents[40];       /* fingerprint of the model's file */
    struct served_part part; /* suffix of the model */
    struct profile *profile; /* profile of the suffix, up to the group's greatest batch */
    uint64_t weights_bytes, batch_bytes;
};

/* Models that share their first layers. */
struct shared_group {
    struct served_model *host; /* model that the prefix's place gets, complete but for its state */
    struct served_part prefix;
    uint32_t node_count; /* number of nodes of the prefix */
    uint64_t weights_bytes;
    char tag[FINGERPRINT_TEXT]; /* fingerprint of all files of the models that the prefix was found in */
    struct profile *prefix_profile;
    struct profile *profile; /* profile of batches for all members, in the slowest division (core/data/shared.h) */
    struct shared_member *members[PART_SUFFIXES_MAX];
    uint32_t count;
    int held;                           /* number of the held folder of parts (part_folder_hold()) */
    uint32_t places[PART_SUFFIXES_MAX]; /* places of the models, by the suffix in requests' cards: host->suffixes */
    /* for a server whose models come and go */
    bool taken[PART_SUFFIXES_MAX]; /* suffix numbers whose places are loaded */
    uint32_t users;                /* number of places that are loaded */
    uint32_t place;                /* place of the prefix, while there are users */
};

/* Why a model was served whole when the groups were formed. */
struct shared_refusal {
    char name[MODEL_NAME_MAX], path[4096], contents[40], reason[512];
    uint32_t version;
};

struct shared_prefixes {
    struct shared_group **groups; /* [count] groups, each allocated */
    uint32_t count;
    struct shared_refusal *refusals; /* [refusal_count] refusals */
    uint32_t refusal_count;
    bool searched; /* whether groups were looked for */
};

void shared_prefixes_free(struct shared_prefixes *shared);

/* ---- members ---- */

/* Checks that a model may share layers at all. -ENOTSUP with a sentence: the model is served whole, whatever its layers
 * are. */
int shared_model_check(const struct served_model *model, struct sy_error *err);
/* Whether two models may have one queue: their settings for queues are the same. */
bool shared_models_alike(const struct served_model *a, const struct served_model *b);

/* The member that a completed model is, if its file is as it was when it was cut; *group is the member's group. NULL:
 * the model is no member. `why` is then "", or says why the settings no longer fit, if the file is a member's. */
struct shared_member *shared_member_find(struct shared_prefixes *shared, const struct served_model *model,
                                         struct shared_group **group, struct sy_error *why);
/* Makes a completed model a member: from now on only the model's suffix is loaded. */
void shared_member_apply(struct served_model *model, const struct shared_group *group, struct shared_member *member,
                         uint32_t host_place, uint8_t number);
/* ---- for those that make groups and members ---- */

void shared_group_free(struct shared_group *group);

/* Writes to the log why a model is served whole. */
void shared_whole_log(const char *name, uint32_t version, const char *reason);
void shared_member_log(const struct shared_group *group, const struct shared_member *member);

/* Makes the table of the group's batches from the profiles of the prefix and of all members, which are there. 0 or
 * -ENOMEM. */
int shared_table_make(struct shared_group *group, uint32_t batch_max, struct sy_error *err);
/* Checks that a lone request takes hardly longer in parts than in the whole model, in view of its SLO. 0, or -EINVAL
 * with a sentence. */
int shared_lone_check(int64_t parts_ns, int64_t whole_ns, int64_t slo_ns, struct sy_error *err);
/* An allocated copy of the group's table; NULL: out of memory. */
struct profile *shared_profile_copy(const struct shared_group *group);
