/* repository_look.c - looks at names, sizes and times of repositories' files. */
#include "model/repository/repository_look.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/log.h"
#include "core/util/array.h"
#include "model/config/model_name.h"

#define ONNX_SUFFIX ".onnx"
#define DEPTH_MAX   3 /* levels of folders: model, version, a folder of the version's weights */

/* FNV-1a, 64 bits. */
static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3;
    return hash;
}

static uint64_t mix_file(const char *name, const struct stat *st) {
    /* the time of change, too: whoever writes a file can set the time of modification */
    const int64_t facts[] = {st->st_size,        st->st_mtim.tv_sec,  st->st_mtim.tv_nsec,
                             st->st_ctim.tv_sec, st->st_ctim.tv_nsec, (int64_t)st->st_ino};
    uint64_t hash = mix(0xcbf29ce484222325, name, strlen(name) + 1);
    return mix(hash, facts, sizeof(facts));
}

/* Adds up the stamps of a folder's files, so that the order in which the files are found makes no difference. Hidden
 * files are left out: what Symphony itself keeps beside a model is in a hidden folder (model/engine/sidecar.h). */
static uint64_t folder_stamp(int parent, const char *folder, int depth) {
    int fd = openat(parent, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    uint64_t sum = mix(0xcbf29ce484222325, folder, strlen(folder));
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return sum;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat st;
        if (entry->d_name[0] == '.' || fstatat(fd, entry->d_name, &st, 0) != 0)
            continue;
        if (S_ISREG(st.st_mode))
            sum += mix_file(entry->d_name, &st);
        else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            sum += folder_stamp(fd, entry->d_name, depth + 1);
    }
    closedir(dir);
    return mix(0xcbf29ce484222325, &sum, sizeof(sum)); /* equal files in another folder give another stamp */
}

/* Finds the name of the model that an entry holds. False: the entry holds none. */
static bool entry_name(const char *file, bool folder, char name[MODEL_NAME_MAX]) {
    size_t length = strlen(file), suffix = strlen(ONNX_SUFFIX);
    if (file[0] == '.')
        return false;
    if (!folder) {
        if (length <= suffix || strcmp(file + length - suffix, ONNX_SUFFIX) != 0)
            return false;
        length -= suffix;
    }
    if (length >= MODEL_NAME_MAX)
        return false;
    memcpy(name, file, length);
    name[length] = '\0';
    return model_name_is_valid(name);
}

static uint64_t path_stamp(const char *path, const char *name) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char flat[MODEL_NAME_MAX + sizeof(ONNX_SUFFIX)];
    uint64_t stamp = 0;
    struct stat st;
    if (fd < 0)
        return 0;
    if (model_name_is_valid(name) && fstatat(fd, name, &st, 0) == 0 && S_ISDIR(st.st_mode))
        stamp += folder_stamp(fd, name, 1) | 1;
    snprintf(flat, sizeof(flat), "%s" ONNX_SUFFIX, name);
    if (model_name_is_valid(name) && fstatat(fd, flat, &st, 0) == 0 && S_ISREG(st.st_mode))
        stamp += 2 * (mix_file(flat, &st) | 1);
    close(fd);
    return stamp;
}

uint64_t repository_stamp(const struct repositories *from, const char *name) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        uint64_t stamp = path_stamp(from->paths[i], name);
        sum += stamp ? mix(stamp, &i, sizeof(i)) | 1 : 0; /* equal files in another repository give another stamp */
    }
    return sum;
}

uint32_t repository_holders(const struct repositories *from, const char *name, const char **path) {
    uint32_t holders = 0;
    for (uint32_t i = from->count; i-- > 0;)
        if (path_stamp(from->paths[i], name)) {
            *path = from->paths[i];
            holders++;
        }
    return holders;
}

static int entry_compare(const void *a, const void *b) {
    return strcmp(((const struct repository_entry *)a)->name, ((const struct repository_entry *)b)->name);
}

static int entry_add(struct repository_entry **entries, uint32_t *count, const char *name) {
    struct repository_entry *grown = array_room(*entries, *count, sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    *entries = grown;
    strcpy((*entries)[(*count)++].name, name);
    return 0;
}

/* Whether an entry is a folder. -errno: it is neither a folder nor a file, or not there. One of which the system does
 * not say what it is may be the folder of a model that is served: it is not taken for gone. */
static int entry_is_folder(int folder, const char *entry) {
    struct stat st;
    if (fstatat(folder, entry, &st, 0) == 0)
        return S_ISDIR(st.st_mode) || S_ISREG(st.st_mode) ? S_ISDIR(st.st_mode) : -EINVAL;
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? -errno : true;
}

/* Adds the entries of one repository. `device`: its file system when it last held models; NULL: nothing is known. */
static int path_look(const char *path, dev_t *device, struct repository_entry **entries, uint32_t *count,
                     struct sy_error *err) {
    DIR *dir = opendir(path);
    uint32_t before = *count;
    struct stat st;
    int rc = 0;
    if (!dir)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    for (struct dirent *entry; rc == 0 && (errno = 0, entry = readdir(dir));) {
        char name[MODEL_NAME_MAX];
        int is_folder = entry_is_folder(dirfd(dir), entry->d_name);
        if (is_folder >= 0 && entry_name(entry->d_name, is_folder, name))
            rc = entry_add(entries, count, name);
    }
    rc = rc ? rc : -errno; /* of readdir() */
    if (rc == 0 && device && fstat(dirfd(dir), &st) == 0) {
        if (*count > before)
            *device = st.st_dev;
        else if (*device && st.st_dev != *device)
            rc = -ENODEV;
    }
    closedir(dir);
    if (rc == -ENODEV)
        return error_set(err, rc, "%s: it is empty, and its file system is another one than before", path);
    return rc ? error_set(err, rc, "%s: %s", path, strerror(-rc)) : 0;
}

int repository_look(const struct repositories *from, struct repositories_seen *seen, struct repository_entry **entries,
                    uint32_t *count, struct sy_error *err) {
    int rc = 0;
    *entries = NULL;
    *count = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        struct sy_error why;
        int failed = path_look(from->paths[i], seen ? &seen->devices[i] : NULL, entries, count, &why);
        if (failed && !rc)
            rc = error_set(err, failed, "%s", why.text);
    }
    if (*count > 0)
        qsort(*entries, *count, sizeof(**entries), entry_compare);
    uint32_t kept = 0; /* one entry of each name */
    for (uint32_t i = 0; i < *count; i++)
        if (kept == 0 || strcmp((*entries)[kept - 1].name, (*entries)[i].name) != 0)
            (*entries)[kept++] = (*entries)[i];
    *count = kept;
    return rc;
}

void repository_mark(const struct repositories *from, struct repositories_seen *seen,
                     void (*mark)(void *context, const char *name), void *context) {
    struct repository_entry *entries;
    struct sy_error err;
    uint32_t count;
    if (repository_look(from, seen, &entries, &count, &err) < 0)
        log_warn("repository not looked at", "reason=\"%s\"", err.text);
    else
        mark(context, NULL);
    for (uint32_t i = 0; i < count; i++)
        mark(context, entries[i].name);
    free(entries);
}
