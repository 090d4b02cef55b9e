/* machine.h - how much memory this process may use. */
#pragma once

#include <stdint.h>

/* Bytes: the machine's memory, or what the process's control group (v2) or one above it may take, if that is less. Any
 * thread; reads files. */
uint64_t machine_memory_bytes(void);
/* What the control group `path` ("/kubepods/pod1") and those above it may take, where groups are mounted at `mount`.
 * UINT64_MAX: no limit, or none that can be read. */
uint64_t machine_group_memory_bytes(const char *mount, const char *path);
