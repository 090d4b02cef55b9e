/* temporary_folder.h - folders for files that nobody needs after the process that makes them. Such a folder is locked
 * while its maker lives, so that others can tell what one that was killed has left. Any thread. */
#pragma once

#include <limits.h>

#include "core/util/error.h"

struct temporary_folder {
    char path[PATH_MAX];
    int lock;
};

/* Makes one that only this user can enter, in `parent`; NULL: in $TMPDIR, or /tmp. Before that, removes those there
 * that processes which live no more have left. 0 or -errno with a sentence. */
int temporary_folder_make(struct temporary_folder *folder, const char *parent, struct sy_error *err);
/* The same with a name that begins with `prefix`, a path: beside what the folder is to become, or files in it. */
int temporary_folder_begin(struct temporary_folder *folder, const char *prefix, struct sy_error *err);
/* Removes it with all that lies in it. */
void temporary_folder_remove(struct temporary_folder *folder);

/* Where there may be room, a disk if possible, for temporary_folder_make(): `i` from 0 on. NULL after the last. */
const char *temporary_parent(unsigned i);
/* Removes what was left in all of them. Call it when the program starts. */
void temporary_folders_sweep(void);
