/* model_override.h - a model that a client wants loaded with a configuration, or with files, other than the
 * repository's.
 *
 * What the client gives is written into a new folder below the directory for temporary files, laid out as a repository
 * of that one model. All other files there are links to the model's own files. For the thread that loads models. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/system/temporary_folder.h"
#include "core/util/error.h"
#include "model/config/served_model.h"

#define OVERRIDE_FILES_MAX 64

struct override_file {
    char version[12], name[128]; /* version folder and name of the file: "1", "model.onnx" */
    void *data;
    size_t bytes;
};

struct model_override {
    char *config; /* ModelConfig as JSON, in place of the model's own; NULL: the model's own */
    size_t config_bytes;
    struct override_file files[OVERRIDE_FILES_MAX]; /* all files of the model, and `config` is needed; none: its own */
    uint32_t file_count;
    bool unload_dependents; /* order to unload an ensemble: whether the models of its steps go, too */
};

/* Frees what the override points to. */
void model_override_free(struct model_override *override);

/* Makes the folder, in which repository_find() then finds the model. 0: the caller removes the folder by
 * temporary_folder_remove(). After an error there is no folder, and a sentence: -EINVAL: the override makes no sense;
 * -ENOENT: the override gives no files, and the repository has none either; another -errno. */
int override_folder_make(const struct model_override *override, const char *repository, const char *name,
                         struct temporary_folder *folder, struct sy_error *err);
