/* watched_files.h - notices that files have changed: certificates, keys, tokens. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WATCHED_FILES_MAX   8
#define WATCHED_FILES_AGAIN 60 /* looks after which files that could not be used are read again */

struct watched_files {
    const char *paths[WATCHED_FILES_MAX];
    uint32_t count;
    uint64_t read;  /* state of the files when they were last read */
    uint64_t found; /* state at the last look */
    uint32_t again; /* looks until they are read again; 0: they could be used */
};

/* Adds a file, whose name stays in place. NULL: nothing is added. Call it before the files are read. */
void watched_files_add(struct watched_files *watched, const char *path);
/* Whether the files are to be read again: they have changed, but not since the look before, so that nobody is just
 * writing them; or they could not be used, and it may have been for want of memory or descriptors. Call it now and
 * then. */
bool watched_files_look(struct watched_files *watched);
/* The files are being read. */
void watched_files_read(struct watched_files *watched);
/* What was read cannot be used. */
void watched_files_failed(struct watched_files *watched);
