/* shared_groups.h - groups of served models that begin with the same layers: these layers, the prefix, as a place of
 * their own, and each member's suffix (docs/prefixes.md, model/config/served_part.h).
 *
 * Groups are formed before the server starts, while the process has one thread (shared_prefixes.h). Then the
 * repository's thread alone uses them: models of a group may be unloaded, and loaded again. */
#pragma once

#include "model/config/served_part.h"
#include "model/prefix/part_folders.h"
#include "model/prefix/split.h"

#define SHARED_KIND "parts" /* of folders (part_folder_place()) */

/* A model of a group: a file as it was when it was cut. */
struct shared_member {
    char name[MODEL_NAME_MAX];
    char path[4096];         /* its file, */
    char contents[40];       /* and that file's fingerprint */
    struct served_part part; /* the suffix */
    struct profile *profile; /* of the suffix, up to the group's greatest batch */
    uint64_t weights_bytes, batch_bytes;
};

/* Models that share their first layers. */
struct shared_group {
    struct served_model *host; /* what the prefix's place becomes: a model of its own, complete but for its state */
    struct served_part prefix;
    uint32_t node_count; /* of the prefix */
    uint64_t weights_bytes;
    char tag[FINGERPRINT_TEXT]; /* of the models that the prefix was found in: a fingerprint of all files */
    struct profile *prefix_profile;
    struct profile *profile; /* of a batch to all of them, divided among them in the slowest way (core/data/shared.h) */
    struct shared_member *members[PART_SUFFIXES_MAX];
    uint32_t count;
    int held;                           /* the folder of the parts */
    uint32_t places[PART_SUFFIXES_MAX]; /* of models by their number in requests' cards: host->suffixes */
    /* of a server whose models come and go */
    bool taken[PART_SUFFIXES_MAX]; /* numbers of places that are loaded */
    uint32_t users;                /* such places */
    uint32_t place;                /* of the prefix, while there are any */
};

/* Why a model was served whole when the groups were formed. */
struct shared_refusal {
    char name[MODEL_NAME_MAX], path[4096], contents[40], reason[512];
    uint32_t version;
};

struct shared_prefixes {
    struct shared_group **groups; /* [count] allocated, each */
    uint32_t count;
    struct shared_refusal *refusals; /* [refusal_count] */
    uint32_t refusal_count;
    bool searched;
};

void shared_prefixes_free(struct shared_prefixes *shared);

/* ---- members ---- */

/* -ENOTSUP with a sentence for a model that is served whole whatever its layers are. */
int shared_model_check(const struct served_model *model, struct sy_error *err);
/* Whether two models may have one queue: what their settings say of it is the same. */
bool shared_models_alike(const struct served_model *a, const struct served_model *b);

/* The member that a completed model is, if its file is as it was when it was cut; *group is the member's group. NULL:
 * it is none. The sentence says why if its file is a member's, and its settings no longer fit; else it is "". */
struct shared_member *shared_member_find(struct shared_prefixes *shared, const struct served_model *model,
                                         struct shared_group **group, struct sy_error *why);
/* Makes a completed model a member: what is loaded of it is its suffix from now on. */
void shared_member_apply(struct served_model *model, const struct shared_group *group, struct shared_member *member,
                         uint32_t host_place, uint8_t number);
/* ---- for those that make groups and members ---- */

void shared_group_free(struct shared_group *group);

/* Why a model is served whole, in the log. */
void shared_whole_log(const char *name, uint32_t version, const char *reason);
void shared_member_log(const struct shared_group *group, const struct shared_member *member);

/* Makes the table of all members, whose profiles and prefix's are there. -ENOMEM. */
int shared_table_make(struct shared_group *group, uint32_t batch_max, struct sy_error *err);
/* Checks that a lone request takes hardly longer in parts than whole, in view of its SLO: else -EINVAL with a sentence.
 */
int shared_lone_check(int64_t parts_ns, int64_t whole_ns, int64_t slo_ns, struct sy_error *err);
/* A copy of the group's table, allocated; NULL without memory. */
struct profile *shared_profile_copy(const struct shared_group *group);
