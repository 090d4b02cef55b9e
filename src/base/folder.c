/* folder.c - a folder is removed behind what lies in it. */
#include "base/folder.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>

#define FOLDERS_OPEN 16 /* at once */

static int entry_remove(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

int folder_remove(const char *path) {
    return nftw(path, entry_remove, FOLDERS_OPEN, FTW_DEPTH | FTW_PHYS) ? -errno : 0;
}
