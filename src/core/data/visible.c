/* visible.c - files without a name, as memory. */
#include "core/data/visible.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int visible_create(size_t bytes) {
    int fd = memfd_create("symphony", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)bytes) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

void *visible_map(int fd, size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

const void *visible_look(int fd, size_t bytes) {
    struct stat stat;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &stat) < 0 || (size_t)stat.st_size < bytes || bytes == 0)
        return NULL;
    const void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}
