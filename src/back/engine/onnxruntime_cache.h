/* onnxruntime_cache.h - optimised models on disk (caches), and the verdict that says which cache may be used.
 *
 * Beside the model lie STEM-TAG.cache.json, which is the verdict, and the files that the verdict names. With format
 * "prepacked" these are STEM-TAG.cache.onnx and STEM-TAG.cache.weights: the weights are laid out as the kernels want
 * them, and sessions map and so share them. With format "ort" the file is STEM-TAG.cache.ort. A verdict holds the sizes
 * and fingerprints of the model's and the cache's files; load() uses a cache only if all of them are still right. In a
 * folder that many models share, a verdict also names its model, since TAG is a hash of only 32 bits. For the files
 * onnxruntime*.c only. */
#pragma once

#include <stdbool.h>

#include "back/engine/onnxruntime_session.h"
#include "core/system/temporary_folder.h"
#include "model/engine/sidecar.h"

enum cache_format { CACHE_PREPACKED, CACHE_ORT, CACHE_NONE, CACHE_FORMATS };

const char *cache_format_name(enum cache_format format);

/* A cache that is being made: its files are in a folder of their own until they have been tried. */
struct cache_draft {
    enum cache_format format;
    char verdict[SIDECAR_PATH_MAX]; /* path of the verdict to be written */
    struct temporary_folder folder; /* folder of the files; goes even if the process that makes the cache dies */
    char model[PATH_MAX + 512];     /* path in the folder of the file that sessions open */
    char weights[256];              /* name of the file of weights; "": none */
    struct json_t *contents;        /* stamps (sizes, times, fingerprints) of the model's files before they were read */
};

/* Makes an empty folder for a cache of the model, and notes the model's files. Called before the files are read. 0 or
 * -errno with a sentence; then there is nothing to close. */
int cache_draft_open(struct cache_draft *draft, const char *model_path, const struct engine_options *options,
                     enum cache_format format, struct sy_error *err);
/* Moves the draft's files to where load() looks, and writes the verdict. With CACHE_NONE there are no files, and
 * `reason` says why. -EBUSY: the model's files have changed since the draft was opened. */
int cache_draft_commit(struct cache_draft *draft, const char *model_path, const struct engine_options *options,
                       const char *reason, struct sy_error *err);
/* Removes the folder and the files that are left in it. */
void cache_draft_close(struct cache_draft *draft);

/* Looks for a cache that may be used. Returns its format, with the path to open, or CACHE_NONE. A cache that is stale
 * or damaged is logged and not used. */
enum cache_format cache_find(const char *model_path, const struct engine_options *options, char path[SIDECAR_PATH_MAX]);
