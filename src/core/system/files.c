/* files.c - the soft limit of open files; a trial of writing; names within a folder; reading; who may write. */
#include "core/system/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t files_allow(uint64_t wanted) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return wanted; /* code that opens too many files is told so then */
    if (files.rlim_cur < wanted) {
        files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_NOFILE, &files);
    }
    return files.rlim_cur;
}

int files_private(const char *path, struct sy_error *err) {
    struct stat about;
    if (stat(path, &about))
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    if (about.st_uid != geteuid() && about.st_uid != 0)
        return error_set(err, -EPERM, "%s belongs to user %u", path, (unsigned)about.st_uid);
    if (about.st_mode & (S_IWGRP | S_IWOTH))
        return error_set(err, -EPERM, "%s may be written by others than its owner", path);
    return 0;
}

int files_writable(const char *option, const char *path, struct sy_error *err) {
    struct stat about;
    if (stat(path, &about) == 0 && S_ISFIFO(about.st_mode))
        return 0; /* the FIFO's reader would take an open and a close for the end of the data */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool fresh = fd >= 0;
    if (!fresh && errno == EEXIST)
        fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "%s: cannot write '%s': %s", option, path, strerror(errno));
    close(fd);
    if (fresh)
        unlink(path);
    return 0;
}

bool file_is_pipe(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

bool file_name_inside(const char *name, size_t length) {
    if (!length || length >= PATH_MAX || name[0] == '/' || memchr(name, '\0', length))
        return false;
    for (size_t i = 0; i < length; i++)
        if ((i == 0 || name[i - 1] == '/') && length - i >= 2 && memcmp(name + i, "..", 2) == 0)
            return false;
    return true;
}

ssize_t files_read(int fd, void *data, size_t bytes) {
    size_t have = 0;
    while (have < bytes) {
        ssize_t got = read(fd, (char *)data + have, bytes - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}
