/* repository_look.h - what repositories hold, at a glance: names, and stamps that change when a model's files do.
 *
 * Opens no file. For the thread that loads and unloads models while the server runs; a repository here is a directory
 * of models, not one model's own folder. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "core/util/error.h"
#include "model/config/served_model.h"
#include "model/repository/repositories.h"

/* A model's folder, or its flat file. */
struct repository_entry {
    char name[MODEL_NAME_MAX];
};

/* Where repositories were when they last held models: the file system of each, 0 where none was seen. */
struct repositories_seen {
    dev_t devices[REPOSITORIES_MAX];
};

/* Finds the entries. *entries: sorted by name; the caller frees them by free(). A folder and a flat file of one name
 * are one entry, and so are those of several repositories. Names that no model may have are passed over. 0; -errno with
 * a sentence about a repository that cannot be read (-ENOTDIR: it is no directory; -ENODEV: it is empty, and on another
 * file system than it was, as where one is no longer mounted), and *entries of the other repositories. `seen`: NULL on
 * the first look. */
int repository_look(const struct repositories *from, struct repositories_seen *seen, struct repository_entry **entries,
                    uint32_t *count, struct sy_error *err);
/* Calls mark() with NULL, and then with the name of each model that the repositories hold. A repository that cannot be
 * read is logged, and the call with NULL is left out, so that no model is taken for gone. */
void repository_mark(const struct repositories *from, struct repositories_seen *seen,
                     void (*mark)(void *context, const char *name), void *context);

/* The stamp of the names, sizes, both times and inodes of all files but hidden ones of the model with this name.
 * 0: there is no such entry. */
uint64_t repository_stamp(const struct repositories *from, const char *name);
/* The number of repositories that have an entry of this name. *path becomes the path of the first one. */
uint32_t repository_holders(const struct repositories *from, const char *name, const char **path);
