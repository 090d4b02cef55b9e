/* machine.c - the machine's memory and cores, and the limits of control groups. */
#include "core/system/machine.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/system/thread.h"

#define GROUP_MOUNT "/sys/fs/cgroup"
/* Folders of version 1's groups, for CPUs and for memory. */
#define CPU_MOUNT    GROUP_MOUNT "/cpu"
#define MEMORY_MOUNT GROUP_MOUNT "/memory"

/* Opens a file of a group. NULL: there is none. */
static FILE *group_open(const char *mount, const char *path, const char *file) {
    char name[PATH_MAX];
    bool fits = (size_t)snprintf(name, sizeof(name), "%s%s/%s", mount, path, file) < sizeof(name);
    return fits ? fopen(name, "re") : NULL;
}

/* The number in a group's file; 0: it has none; -1: there is no such file. */
static double number_read(const char *mount, const char *path, const char *name) {
    double number = -1;
    FILE *file = group_open(mount, path, name);
    if (file && fscanf(file, "%lf", &number) != 1)
        number = 0;
    if (file)
        fclose(file);
    return number;
}

/* The limit of one group, in bytes ("max" is none). Version 2 and version 1 have it in different files. */
static double limit_read(const char *mount, const char *path) {
    double bytes = number_read(mount, path, "memory.max");
    bytes = bytes >= 0 ? bytes : number_read(mount, path, "memory.limit_in_bytes");
    return bytes > 0 ? bytes : INFINITY;
}

/* The quota of one group, in cores. Version 2 has quota and period in one file ("max" is no quota), version 1 in two
 * (-1 is none). */
static double quota_read(const char *mount, const char *path) {
    double quota = 0, period = 0;
    FILE *file = group_open(mount, path, "cpu.max");
    if (!file) {
        quota = number_read(mount, path, "cpu.cfs_quota_us");
        period = number_read(mount, path, "cpu.cfs_period_us");
    } else if (fscanf(file, "%lf %lf", &quota, &period) != 2) {
        quota = 0;
    }
    if (file)
        fclose(file);
    return quota > 0 && period > 0 ? quota / period : INFINITY;
}

/* The least that is read of a group and of the groups above it. */
static double groups_least(const char *mount, const char *path, double (*group_read)(const char *, const char *)) {
    char group[PATH_MAX];
    if ((size_t)snprintf(group, sizeof(group), "%s", path) >= sizeof(group))
        return INFINITY;
    double least = group_read(mount, group);
    for (char *slash; (slash = strrchr(group, '/'));) {
        *slash = '\0';
        least = fmin(least, group_read(mount, group));
    }
    return least;
}

uint64_t machine_group_memory_bytes(const char *mount, const char *path) {
    double least = groups_least(mount, path, limit_read);
    return least < 0x1p64 ? (uint64_t)least : UINT64_MAX;
}

double machine_group_cores(const char *mount, const char *path) {
    return groups_least(mount, path, quota_read);
}

/* Whether a word is in a list with commas. */
static bool list_has(const char *list, size_t length, const char *word) {
    size_t part = 0;
    for (const char *at = list; at < list + length; at += part + 1) {
        part = strcspn(at, ",:");
        if (part == strlen(word) && strncmp(at, word, part) == 0)
            return true;
    }
    return false;
}

/* The group of this process; "" if it cannot be read. A line is "number:controllers:path"; that of version 2 begins
 * with "0::", those of version 1 name their controllers. `controller`: NULL for version 2. */
static void own_group(const char *controller, char *path, size_t room) {
    char line[PATH_MAX];
    path[0] = '\0';
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        const char *list = line + strcspn(line, ":"), *end = *list ? strchr(list + 1, ':') : NULL;
        if (!end)
            continue;
        if (controller ? list_has(list + 1, (size_t)(end - list - 1), controller) : strncmp(line, "0::", 3) == 0)
            snprintf(path, room, "%s", end + 1);
    }
    if (file)
        fclose(file);
}

uint64_t machine_memory_bytes(void) {
    char path[PATH_MAX];
    uint64_t least = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    own_group(NULL, path, sizeof(path));
    uint64_t group = machine_group_memory_bytes(GROUP_MOUNT, path);
    least = group < least ? group : least;
    own_group("memory", path, sizeof(path));
    group = machine_group_memory_bytes(MEMORY_MOUNT, path);
    return group < least ? group : least;
}

uint32_t machine_cores(void) {
    char path[PATH_MAX];
    cpu_set_t allowed;
    thread_cores_allowed(&allowed);
    own_group(NULL, path, sizeof(path));
    double cores = fmin(CPU_COUNT(&allowed), machine_group_cores(GROUP_MOUNT, path));
    own_group("cpu", path, sizeof(path));
    cores = fmin(cores, machine_group_cores(CPU_MOUNT, path));
    return cores > 1 ? (uint32_t)cores : 1;
}
