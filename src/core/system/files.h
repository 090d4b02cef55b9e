/* files.h - the limit of open files; whether a file can be written, and by whom; names within a folder; reading. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/util/error.h"

/* Raises the limit of open files to `wanted`, or as far as the process may; a higher limit stays. Returns the limit
 * that holds then. Any thread, at set-up. */
uint64_t files_allow(uint64_t wanted);
/* Whether the file that an option names can be written: for a check before the work whose result goes there. 0, or
 * -errno and a sentence with the option's name ("--plot"). A file that is there stays as it is; no new file is left. */
int files_writable(const char *option, const char *path, struct sy_error *err);
/* Whether the path is a pipe: it can be read once, and who opens it again may wait for ever. */
bool file_is_pipe(const char *path);
/* Whether a name, relative to a folder, names something within the folder: the name is not absolute and does not lead
 * upwards. */
bool file_name_inside(const char *name, size_t length);
/* Reads `bytes` bytes of a file, or as many as come before its end. Returns how many, or -errno. Use it for files that
 * others may write; do not map these: if a file is cut short while it is mapped, the process ends. Any thread. */
ssize_t files_read(int fd, void *data, size_t bytes);
/* Whether only the process's user and root may write the file or folder: it belongs to one of these two, and neither
 * its group nor others may write it. 0; -EPERM with a sentence; or -errno with a sentence. Links are followed. */
int files_private(const char *path, struct sy_error *err);
