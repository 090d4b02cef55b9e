/* repository_look.h - what a repository holds, at a glance: names, and stamps that change when a model's files do.
 *
 * Opens no file. For the thread that loads and unloads models while the server runs; a repository here is a directory
 * of models, not one model's own folder. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "repository/served_model.h"

/* A model's folder, or its flat file. */
struct repository_entry {
    char name[MODEL_NAME_MAX];
    uint64_t stamp; /* of names, sizes, both times and inodes of all its files except hidden ones; never 0 */
};

/* Gives them sorted by name, for the caller to free(). A folder and a flat file of one name are one entry. Names that
 * no model may have are passed over. 0, or -errno with a sentence; -ENOTDIR when the path is no directory. */
int repository_look(const char *path, struct repository_entry **entries, uint32_t *count, struct sy_error *err);
/* The stamp of one of them; 0: there is no such entry. */
uint64_t repository_stamp(const char *path, const char *name);
