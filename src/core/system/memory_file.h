/* memory_file.h - data as a file in memory: for a child's standard input, and for code that reads files. */
#pragma once

#include <stddef.h>

/* Makes a file in memory that holds a copy of `data`. Returns its descriptor, which is closed on exec and stands at the
 * beginning of the file, or -errno. `name` is seen in /proc only. Any thread. */
int memory_file(const char *name, const void *data, size_t bytes);
