/* sidecar.h - where files derived from a model are kept: in `.symphony/` beside the model, so that they travel with it,
 * or in a cache folder if that place cannot be written.
 *
 * Who can write such a file decides what a model answers. So a file is read only if it belongs to the process's user or
 * to root and nobody else may write it, and if the same holds for its folder. Files that are written are for that user
 * alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/util/error.h"

#define SIDECAR_PATH_MAX 4096

/* Describes the processor (or GPU) and its abilities, e.g. "cpu AMD EPYC family 25 model 1 avx2": on another one,
 * derived files are of no use. `provider` as in engine_options. */
void accelerator_type(const char *provider, int device, char *text, size_t size);

/* The path of a derived file that is to be written: "FOLDER/.symphony/STEM-TAG" + suffix, where TAG is eight digits of
 * a hash of `key` (who made it, on what). Makes the folder. -EACCES or another errno if neither place can be written,
 * or others may write there, too. `cache_dir` may be NULL: $XDG_CACHE_HOME/symphony or ~/.cache/symphony is taken then.
 * In a cache folder that others may write it is the folder `symphony-UID`. */
int sidecar_path(const char *model_path, const char *cache_dir, const char *key, const char *suffix,
                 char path[SIDECAR_PATH_MAX], struct sy_error *err);
/* The path of a derived file that may be believed, beside the model or in the cache folder. -ENOENT: there is none. */
int sidecar_find(const char *model_path, const char *cache_dir, const char *key, const char *suffix,
                 char path[SIDECAR_PATH_MAX]);
/* Whether there is a regular file at the path that may be believed: nobody but the process's user and root may write
 * the file or its folder. A file that may not be believed is logged. */
bool sidecar_believed(const char *path);
/* The model that the derived file at `path` belongs to: "" for a file beside the model, with which it travels; else the
 * model's real path. Derived files hold this text, and readers compare it, since the names of two models in a shared
 * folder may have the same tag. */
void sidecar_owner(const char *model_path, const char *path, char owner[SIDECAR_PATH_MAX]);
/* Writes a whole file, with the mode 0600, by way of a temporary file and rename(). So readers see the old file or the
 * new one, never a part. */
int sidecar_write(const char *path, const char *text, struct sy_error *err);
