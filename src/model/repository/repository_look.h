/* repository_look.h - what repositories hold, at a glance: names, and stamps that change when a model's files do.
 *
 * Opens no file. For the thread that loads and unloads models while the server runs; a repository here is a directory
 * of models, not one model's own folder. */
#pragma once

#include <stdint.h>

#include "core/util/error.h"
#include "model/config/served_model.h"
#include "model/repository/repositories.h"

/* A model's folder, or its flat file. */
struct repository_entry {
    char name[MODEL_NAME_MAX];
    uint64_t stamp; /* of names, sizes, both times and inodes of all its files except hidden ones; never 0 */
};

/* Gives them sorted by name, for the caller to free(). A folder and a flat file of one name are one entry, and so are
 * those of several repositories. Names that no model may have are passed over. 0, or -errno with a sentence about a
 * repository that cannot be read (-ENOTDIR: it is no directory), and then the entries of the others. */
int repository_look(const struct repositories *from, struct repository_entry **entries, uint32_t *count,
                    struct sy_error *err);
/* Calls mark() with NULL, and then with the name of each model that the repositories hold. What cannot be read is
 * logged; then the call with NULL is left out, so that no model is taken for gone. */
void repository_mark(const struct repositories *from, void (*mark)(void *context, const char *name), void *context);

/* The stamp of one of them; 0: there is no such entry. */
uint64_t repository_stamp(const struct repositories *from, const char *name);
/* Of the repositories that have an entry of this name: *path becomes that of the first. Returns how many there are. */
uint32_t repository_holders(const struct repositories *from, const char *name, const char **path);
