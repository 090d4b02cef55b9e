/* machine.h - how much memory and how many cores this process may use. */
#pragma once

#include <stdint.h>

/* Bytes: the machine's memory, or what the process's control group (v2) or one above it may take, if that is less. Any
 * thread; reads files. */
uint64_t machine_memory_bytes(void);
/* What the control group `path` ("/kubepods/pod1") and those above it may take, where groups are mounted at `mount`.
 * UINT64_MAX: no limit, or none that can be read. */
uint64_t machine_group_memory_bytes(const char *mount, const char *path);

/* Whole cores, at least 1: those that the process may run on, or what the quota of the process's control group
 * (v2 or v1) or of one above it comes to, if that is less. Reads files. */
uint32_t machine_cores(void);
/* The cores that the quota of the control group `path` and of those above it comes to, where groups are mounted at
 * `mount`. INFINITY: no quota, or none that can be read. */
double machine_group_cores(const char *mount, const char *path);
