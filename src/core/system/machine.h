/* machine.h - how much memory and how many cores this process may use. */
#pragma once

#include <stdint.h>

/* The memory in bytes that this process may use: the machine's, or the limit of the process's control group (v2 or v1)
 * or of a group above it, if that is less. Any thread; reads files. */
uint64_t machine_memory_bytes(void);
/* The memory limit in bytes of the control group `path` ("/kubepods/pod1") and of the groups above it, where groups are
 * mounted at `mount`. UINT64_MAX: there is no limit, or none that can be read. */
uint64_t machine_group_memory_bytes(const char *mount, const char *path);

/* The number of whole cores, at least 1, that this process may use: the cores that it may run on, or the quota of the
 * process's control group (v2 or v1) or of a group above it, if that is less. Reads files. */
uint32_t machine_cores(void);
/* The quota, in cores, of the control group `path` and of the groups above it, where groups are mounted at `mount`.
 * INFINITY: there is no quota, or none that can be read. */
double machine_group_cores(const char *mount, const char *path);
