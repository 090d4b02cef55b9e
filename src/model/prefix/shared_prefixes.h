/* shared_prefixes.h - finds models that begin with the same layers, among those to be served, so that the server can
 * run these layers once for all of them (shared_groups.h). The models are cut in two, tried and profiled.
 *
 * All is found before the server starts, while the process has one thread. */
#pragma once

#include "model/prefix/shared_groups.h"

/* Finds the groups among models that have their profiles (profiles[i] of models[i]; NULL: the model is not served).
 * Graphs are compared; cuts are tried in child processes, the deepest first; the parts are kept beside the models, or
 * in the cache folder, with the outcome of the trial; and both parts are profiled. Models whose parts do not answer bit
 * by bit as the models do, or are slower, are no group; the refusals have the reasons. Folders of parts that belong to
 * earlier files of these models are removed. Only errors that concern all models are returned: -ENOMEM, -EINTR. Call
 * shared_prefixes_free() in either case. */
int shared_prefixes_find(struct shared_prefixes *shared, struct served_model *const *models,
                         const struct profile *const *profiles, uint32_t count, const struct profile_options *how,
                         struct sy_error *err);

/* The reason why this model, with this file, was served whole when the groups were formed; NULL: it was not served
 * whole. */
const char *shared_refusal_find(const struct shared_prefixes *shared, const struct served_model *model);
