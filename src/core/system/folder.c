/* folder.c - removes what lies in a folder, and then the folder; locks folders by flock(). */
#include "core/system/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDERS_OPEN 16 /* folders that are open at a time */

static int entry_remove(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

int folder_remove(const char *path) {
    return nftw(path, entry_remove, FOLDERS_OPEN, FTW_DEPTH | FTW_PHYS) ? -errno : 0;
}

int folder_lock(const char *path) {
    struct stat locked, named;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &locked) == 0 && stat(path, &named) == 0 &&
        locked.st_ino == named.st_ino)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}
