/* temporary_folder.c - makes folders with unique names, under a lock. */
#include "core/system/temporary_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/folder.h"
#include "core/util/container.h"

#define PREFIX   ".symphony-temporary-"
#define ATTEMPTS 10

static const char *of_environment(const char *otherwise) {
    const char *path = getenv("TMPDIR");
    return path && *path ? path : otherwise;
}

const char *temporary_parent(unsigned i) {
    const char *const parents[] = {of_environment("/var/tmp"), "/var/tmp", "/tmp", "/dev/shm"};
    return i < ARRAY_COUNT(parents) ? parents[i] : NULL;
}

static void sweep(const char *prefix) {
    char path[PATH_MAX];
    struct stat st;
    const char *name = strrchr(prefix, '/') + 1;
    snprintf(path, sizeof(path), "%.*s", (int)(name - prefix), prefix);
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, name, strlen(name)) != 0 ||
            snprintf(path, sizeof(path), "%.*s%s", (int)(name - prefix), prefix, entry->d_name) >= (int)sizeof(path) ||
            lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
            continue;
        int lock = folder_lock(path);
        if (lock >= 0) {
            folder_remove(path);
            close(lock);
        }
    }
    if (dir)
        closedir(dir);
}

void temporary_folders_sweep(void) {
    char prefix[PATH_MAX];
    for (unsigned i = 0; temporary_parent(i); i++)
        if (snprintf(prefix, sizeof(prefix), "%s/" PREFIX, temporary_parent(i)) < (int)sizeof(prefix))
            sweep(prefix);
}

int temporary_folder_begin(struct temporary_folder *folder, const char *prefix, struct sy_error *err) {
    int parent = (int)(strrchr(prefix, '/') - prefix); /* bytes of the parent's path, which errors name */
    int shown = parent < 400 ? parent : 400;
    sweep(prefix);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) { /* a folder may be swept before it is locked */
        if (snprintf(folder->path, sizeof(folder->path), "%sXXXXXX", prefix) >= (int)sizeof(folder->path))
            return error_set(err, -ENAMETOOLONG, "%.400s: the path is too long", prefix);
        if (!mkdtemp(folder->path))
            return error_set(err, -errno, "%.*s: no folder for temporary files: %s", shown, prefix, strerror(errno));
        folder->lock = folder_lock(folder->path);
        if (folder->lock >= 0)
            return 0;
    }
    return error_set(err, -EBUSY, "%.*s: no folder for temporary files stays", shown, prefix);
}

int temporary_folder_make(struct temporary_folder *folder, const char *parent, struct sy_error *err) {
    char prefix[PATH_MAX];
    parent = parent ? parent : of_environment("/tmp");
    if (snprintf(prefix, sizeof(prefix), "%s/" PREFIX, parent) >= (int)sizeof(prefix))
        return error_set(err, -ENAMETOOLONG, "%.400s: the path is too long", parent);
    return temporary_folder_begin(folder, prefix, err);
}

void temporary_folder_remove(struct temporary_folder *folder) {
    folder_remove(folder->path);
    close(folder->lock);
}
