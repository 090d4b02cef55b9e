/* shared_prefixes.h - which of the models to be served begin with the same layers, cut in two, tried and profiled, so
 * that the server can run these layers once for all of them (shared_groups.h).
 *
 * All is found before the server starts, while the process has one thread. */
#pragma once

#include "model/prefix/shared_groups.h"

/* Finds the groups among models that have their profiles (profiles[i] of models[i]; NULL: it is not served). Graphs are
 * compared; cuts are tried in child processes, the deepest first; the parts are kept beside the models, or in the cache
 * folder, with the outcome of the trial; and both parts are profiled. A group that does not answer bit by bit as its
 * models do, or is slower, is no group; the refusals have the reasons. Folders of parts that belong to earlier files of
 * these models are removed. Only errors that concern all are returned: -ENOMEM, -EINTR. Free it in either case. */
int shared_prefixes_find(struct shared_prefixes *shared, struct served_model *const *models,
                         const struct profile *const *profiles, uint32_t count, const struct profile_options *how,
                         struct sy_error *err);

/* Why this model, of this file, was served whole when the groups were formed; NULL: it was not. */
const char *shared_refusal_find(const struct shared_prefixes *shared, const struct served_model *model);
