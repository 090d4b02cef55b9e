/* files.h - how many files the process may have open at once; whether a file can be written, and by whom; names within
 * a folder; reading. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/util/error.h"

/* Raises the limit to `wanted`, or as far as the process may; a higher limit stays. Returns the limit then. Any thread,
 * at set-up. */
uint64_t files_allow(uint64_t wanted);
/* Whether the file that an option names can be written, before work is done for it: 0, or -errno and a sentence with
 * the option's name ("--plot"). An old file stays as it is, and no new one is left. */
int files_writable(const char *option, const char *path, struct sy_error *err);
/* Whether the name, relative to a folder, is that of something within it: no absolute path, and none that leads
 * upwards.
 */
bool file_name_inside(const char *name, size_t length);
/* Reads so many bytes of a file, or up to its end: returns how many, or -errno. Files that others may write are read:
 * one that is cut short while it is mapped ends the process. Any thread. */
ssize_t files_read(int fd, void *data, size_t bytes);
/* Whether nobody but the process's user and root may write the file or folder: it belongs to one of them, and neither
 * its group nor others may. 0; -EPERM with a sentence; or -errno. Links are followed. */
int files_private(const char *path, struct sy_error *err);
