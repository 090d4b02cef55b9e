/* temporary_folder.h - folders for files that nobody needs after the process that makes them. A folder is locked while
 * its maker lives, so that other processes can tell which folders were left by processes that were killed. Any
 * thread. */
#pragma once

#include <limits.h>

#include "core/util/error.h"

struct temporary_folder {
    char path[PATH_MAX];
    int lock; /* descriptor of the lock */
};

/* Makes a folder that only this user can enter, in `parent`; NULL: in $TMPDIR, or /tmp. First removes the temporary
 * folders there whose makers live no more. 0, or -errno with a sentence. */
int temporary_folder_make(struct temporary_folder *folder, const char *parent, struct sy_error *err);
/* As temporary_folder_make(), for a folder whose path begins with the path `prefix`: a place from which the folder, or
 * files in it, can later be renamed to their own names. */
int temporary_folder_begin(struct temporary_folder *folder, const char *prefix, struct sy_error *err);
/* Removes a temporary folder with all that lies in it. */
void temporary_folder_remove(struct temporary_folder *folder);

/* The parent number `i`, from 0 on, to try in temporary_folder_make(); parents that are more likely on a disk come
 * first. NULL: there are no more. */
const char *temporary_parent(unsigned i);
/* Removes the temporary folders that dead processes have left in all these parents. Call it when the program starts. */
void temporary_folders_sweep(void);
