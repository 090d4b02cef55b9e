/* sidecar.h - where files derived from a model are kept: in `.symphony/` beside it, so that they travel with it, or in
 * a cache folder if that place cannot be written.
 *
 * Who can write such a file decides what a model answers. So only files are read that belong to the process's user or
 * to root, and that nobody else may write, in folders of the same kind; and what is written is for that user alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/util/error.h"

#define SIDECAR_PATH_MAX 4096

/* The processor (or GPU) and what it can do, e.g. "cpu AMD EPYC family 25 model 1 avx2": derived files are of no use on
 * another one. `provider` as in engine_options. */
void accelerator_type(const char *provider, int device, char *text, size_t size);

/* The path of a derived file that is to be written: "FOLDER/.symphony/STEM-TAG" + suffix, where TAG is eight digits of
 * a hash of `key` (who made it, on what). Makes the folder. -EACCES or another errno if neither place can be written,
 * or others may write there, too. `cache_dir` may be NULL: $XDG_CACHE_HOME/symphony or ~/.cache/symphony is taken then.
 * In a cache folder that others may write it is the folder `symphony-UID`. */
int sidecar_path(const char *model_path, const char *cache_dir, const char *key, const char *suffix,
                 char path[SIDECAR_PATH_MAX], struct sy_error *err);
/* The path of such a file if there is one that may be believed, beside the model or in the cache folder; else -ENOENT.
 */
int sidecar_find(const char *model_path, const char *cache_dir, const char *key, const char *suffix,
                 char path[SIDECAR_PATH_MAX]);
/* Whether there is a file at the path that may be believed: nobody but the process's user and root may write it, or the
 * folder that it lies in. One that may not is logged. */
bool sidecar_believed(const char *path);
/* To which model the derived file at `path` belongs: "" for a file beside the model, with which it travels; else the
 * model's real path. The path is kept in the file and compared, since the names of two models in a shared folder may
 * have the same tag. */
void sidecar_owner(const char *model_path, const char *path, char owner[SIDECAR_PATH_MAX]);
/* Writes a whole file, with the mode 0600, by way of a temporary one and rename(), so that readers see the old or the
 * new, never a part. */
int sidecar_write(const char *path, const char *text, struct sy_error *err);
