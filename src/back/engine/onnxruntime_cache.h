/* onnxruntime_cache.h - optimised models on disk, and the verdict that says which of them may be trusted.
 *
 * Beside the model lie STEM-TAG.cache.json, the verdict, and what it names: STEM-TAG.cache.onnx with .cache.weights
 * (format "prepacked": weights laid out as the kernels want them, which sessions map and so share), or
 * STEM-TAG.cache.ort (format "ort"). A verdict holds the sizes and fingerprints of the model and of the cache's files;
 * load() uses a cache only if all of them are still right. In a folder that many models share, a verdict also names its
 * model, since TAG is a hash of only 32 bits. For the files onnxruntime*.c only. */
#pragma once

#include <stdbool.h>

#include "back/engine/onnxruntime_session.h"
#include "core/system/temporary_folder.h"
#include "model/engine/sidecar.h"

enum cache_format { CACHE_PREPACKED, CACHE_ORT, CACHE_NONE, CACHE_FORMATS };

const char *cache_format_name(enum cache_format format);

/* A cache being made: files in a folder of their own until they are tried. */
struct cache_draft {
    enum cache_format format;
    char verdict[SIDECAR_PATH_MAX]; /* where the verdict is to be */
    struct temporary_folder folder; /* makers die, which is why they are child processes */
    char model[PATH_MAX + 512];     /* in the folder; what sessions open */
    char weights[256];              /* name of the second file, or "" */
    struct json_t *contents;        /* the model's files as they were before it was read */
};

/* Makes an empty folder for a cache of the model, and notes what its files are: call it before they are read. 0 or
 * -errno with a sentence; then there is nothing to close. */
int cache_draft_open(struct cache_draft *draft, const char *model_path, const struct engine_options *options,
                     enum cache_format format, struct sy_error *err);
/* Moves the draft's files to where load() looks, and writes the verdict. With CACHE_NONE there are no files, and
 * `reason` says why. -EBUSY: the model's files have changed since the draft was opened. */
int cache_draft_commit(struct cache_draft *draft, const char *model_path, const struct engine_options *options,
                       const char *reason, struct sy_error *err);
/* Removes the folder and what is left in it. */
void cache_draft_close(struct cache_draft *draft);

/* Looks for a cache that may be used: CACHE_NONE, or its format with the path to open. A cache that is stale or damaged
 * is logged and not used. */
enum cache_format cache_find(const char *model_path, const struct engine_options *options, char path[SIDECAR_PATH_MAX]);
