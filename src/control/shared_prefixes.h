/* shared_prefixes.h - which of the models to be served begin with the same layers, cut in two, tried and profiled, so
 * that the server can run these layers once for all of them (docs/prefixes.md, repository/served_part.h).
 *
 * All is found before the server starts, while the process has one thread. Then the repository's thread alone uses it.
 */
#pragma once

#include "profile/child.h"
#include "repository/served_part.h"

/* A model of a group. */
struct shared_member {
    char path[4096];         /* its file */
    char contents[40];       /* that was cut: its fingerprint */
    struct served_part part; /* the suffix */
    uint64_t weights_bytes, batch_bytes;
};

/* Models that share their first layers. */
struct shared_group {
    struct served_model *host; /* what the prefix's place becomes: a model of its own, complete but for its state */
    struct served_part prefix;
    struct profile *profile; /* of a batch to all of them, divided among them in the dearest way (table/shared.h) */
    struct shared_member *members;
    uint32_t count;
    uint32_t places[PART_SUFFIXES_MAX]; /* of models by their number in requests' cards: host->suffixes */
    /* of a server whose models come and go */
    bool taken[PART_SUFFIXES_MAX]; /* numbers of places that are loaded */
    uint32_t users;                /* such places */
    uint32_t place;                /* of the prefix, while there are any */
};

struct shared_prefixes {
    struct shared_group *groups;
    uint32_t count;
    bool searched;
};

/* Finds the groups among models that have their profiles (profiles[i] of models[i]; NULL: it is not served). Graphs are
 * compared; cuts are tried in child processes, the deepest first; the parts are kept beside the models, or in the cache
 * folder, with the outcome of the trial; and both parts are profiled. A group that does not answer bit by bit as its
 * models do, or is slower, is no group; the log has the reasons. Only errors that concern all are returned: -ENOMEM,
 * -EINTR. Free it in either case. */
int shared_prefixes_find(struct shared_prefixes *shared, struct served_model *const *models,
                         const struct profile *const *profiles, uint32_t count, const struct profile_options *how,
                         struct sy_error *err);
void shared_prefixes_free(struct shared_prefixes *shared);

/* The group that a model belongs to, whose file and settings are as they were when the groups were found; *member is
 * which one of it. NULL: it is served whole; a model of another file or other settings than then is logged. */
struct shared_group *shared_prefixes_group(struct shared_prefixes *shared, const struct served_model *model,
                                           struct shared_member **member);

/* Makes a completed model a member: what is loaded of it is its suffix from now on. */
void shared_member_apply(struct served_model *model, const struct shared_group *group, struct shared_member *member,
                         uint32_t host_place, uint8_t number);
/* A copy of the group's table, allocated; NULL without memory. */
struct profile *shared_profile_copy(const struct shared_group *group);
