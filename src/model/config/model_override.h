/* model_override.h - a model that a client wants loaded with a configuration, or with files, other than the
 * repository's.
 *
 * What the client gives is written into a folder of its own below the directory for temporary files, laid out as a
 * repository of that one model. The rest links to the model's own files. For the thread that loads models. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/system/temporary_folder.h"
#include "core/util/error.h"
#include "model/config/served_model.h"

#define OVERRIDE_FILES_MAX 64

struct override_file {
    char version[12], name[128]; /* "1", "model.onnx" */
    void *data;
    size_t bytes;
};

struct model_override {
    char *config; /* a ModelConfig as JSON, instead of the model's own; NULL: the model's own */
    size_t config_bytes;
    struct override_file
        files[OVERRIDE_FILES_MAX]; /* if there are any, the model has no other files, and config is needed */
    uint32_t file_count;
    bool unload_dependents; /* of an order to unload an ensemble: the models of its steps, too */
};

/* Frees what the override points to. */
void model_override_free(struct model_override *override);

/* Makes the folder, in which repository_find() then finds the model. 0: the caller removes it by
 * temporary_folder_remove(). -EINVAL: the override makes no sense; -ENOENT: it gives no files, and the repository has
 * none either; another -errno; each with a sentence, and then there is no folder. */
int override_folder_make(const struct model_override *override, const char *repository, const char *name,
                         struct temporary_folder *folder, struct sy_error *err);
