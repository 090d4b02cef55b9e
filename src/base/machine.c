/* machine.c - the machine's memory, and the limits of control groups. */
#include "base/machine.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GROUP_MOUNT "/sys/fs/cgroup"

/* The limit in a group's file; "max" is none. */
static uint64_t limit_read(const char *mount, const char *path) {
    char name[PATH_MAX];
    uint64_t bytes = UINT64_MAX;
    if ((size_t)snprintf(name, sizeof(name), "%s%s/memory.max", mount, path) >= sizeof(name))
        return UINT64_MAX;
    FILE *file = fopen(name, "re");
    if (!file)
        return UINT64_MAX;
    if (fscanf(file, "%" SCNu64, &bytes) != 1)
        bytes = UINT64_MAX;
    fclose(file);
    return bytes;
}

uint64_t machine_group_memory_bytes(const char *mount, const char *path) {
    char group[PATH_MAX];
    if ((size_t)snprintf(group, sizeof(group), "%s", path) >= sizeof(group))
        return UINT64_MAX;
    uint64_t least = limit_read(mount, group);
    for (char *slash; (slash = strrchr(group, '/'));) {
        *slash = '\0';
        uint64_t bytes = limit_read(mount, group);
        least = bytes < least ? bytes : least;
    }
    return least;
}

/* The group of this process; "" if it cannot be read. The line of version 2 begins with "0::". */
static void own_group(char *path, size_t room) {
    char line[PATH_MAX];
    path[0] = '\0';
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0)
            snprintf(path, room, "%s", line + 3);
    }
    if (file)
        fclose(file);
}

uint64_t machine_memory_bytes(void) {
    char path[PATH_MAX];
    own_group(path, sizeof(path));
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t group = machine_group_memory_bytes(GROUP_MOUNT, path);
    return group < all ? group : all;
}
