/* memory_file.c - data as a file in memory. */
#include "core/system/memory_file.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

int memory_file(const char *name, const void *data, size_t bytes) {
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    const char *from = data;
    for (size_t at = 0; at < bytes;) {
        ssize_t wrote = pwrite(fd, from, bytes - at, (off_t)at);
        if (wrote <= 0) {
            int rc = wrote < 0 ? -errno : -ENOSPC;
            close(fd);
            return rc;
        }
        at += (size_t)wrote;
        from += wrote;
    }
    return fd;
}
