/* watched_files.h - notices that files have changed: certificates, keys, tokens. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WATCHED_FILES_MAX 8

struct watched_files {
    const char *paths[WATCHED_FILES_MAX];
    uint32_t count;
    uint64_t read;  /* state of the files when they were last read */
    uint64_t found; /* state at the last look */
};

/* Adds a file, whose name stays in place. NULL: nothing is added. Call it before the files are read. */
void watched_files_add(struct watched_files *watched, const char *path);
/* Whether the files are to be read again: they have changed, but not since the look before, so that nobody is just
 * writing them. Call it now and then. */
bool watched_files_look(struct watched_files *watched);
/* The files are being read. */
void watched_files_read(struct watched_files *watched);
