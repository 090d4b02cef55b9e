/* sidecar.h - where files derived from a model are kept: in `.symphony/` beside it, so that they travel with it, or in
 * a cache folder if that place cannot be written. */
#pragma once

#include <stddef.h>

#include "base/error.h"

#define SIDECAR_PATH_MAX 4096

/* The processor (or GPU) and what it can do, e.g. "cpu AMD EPYC family 25 model 1 avx2": derived files are of no use on
 * another one. `provider` as in engine_options. */
void accelerator_type(const char *provider, int device, char *text, size_t size);

/* The path of a derived file that is to be written: "FOLDER/.symphony/STEM-TAG" + suffix, where TAG is eight digits of
 * a hash of `key` (who made it, on what). Makes the folder. -EACCES or another errno if neither place can be written.
 * `cache_dir` may be NULL: $XDG_CACHE_HOME/symphony or ~/.cache/symphony is taken then. */
int sidecar_path(const char *model_path, const char *cache_dir, const char *key, const char *suffix,
                 char path[SIDECAR_PATH_MAX], struct sy_error *err);
/* The path of such a file if there is one, beside the model or in the cache folder; else -ENOENT. */
int sidecar_find(const char *model_path, const char *cache_dir, const char *key, const char *suffix,
                 char path[SIDECAR_PATH_MAX]);
/* To which model the derived file at `path` belongs: "" for a file beside the model, with which it travels; else the
 * model's real path. The path is kept in the file and compared, since the names of two models in a shared folder may
 * have the same tag. */
void sidecar_owner(const char *model_path, const char *path, char owner[SIDECAR_PATH_MAX]);
/* Writes a whole file by way of a temporary one and rename(), so that readers see the old or the new, never a part. */
int sidecar_write(const char *path, const char *text, struct sy_error *err);
