/* watched_files.c - notices that files have changed, by what the file system says of them. Links are followed, since
 * Kubernetes changes a secret by changing a link. */
#include "server/commands/watched_files.h"

#include <sys/stat.h>

#include "core/util/assert.h"
#include "core/util/container.h"

/* A number that differs if a file is another one, was written, or may be read by others than before: FNV-1a. A missing
 * file has a state, too. */
static uint64_t state_of(const struct watched_files *watched) {
    uint64_t state = 14695981039346656037u;
    for (uint32_t i = 0; i < watched->count; i++) {
        struct stat s = {.st_size = -1};
        if (stat(watched->paths[i], &s) < 0)
            s = (struct stat){.st_size = -1};
        const uint64_t words[] = {s.st_dev, s.st_ino, (uint64_t)s.st_size, (uint64_t)s.st_ctim.tv_sec,
                                  (uint64_t)s.st_ctim.tv_nsec};
        for (uint32_t w = 0; w < ARRAY_COUNT(words); w++)
            state = (state ^ words[w]) * 1099511628211u;
    }
    return state;
}

void watched_files_add(struct watched_files *watched, const char *path) {
    if (!path)
        return;
    CHECK_LT(watched->count, WATCHED_FILES_MAX);
    watched->paths[watched->count++] = path;
    watched_files_read(watched);
}

bool watched_files_look(struct watched_files *watched) {
    uint64_t found = state_of(watched);
    bool rests = found == watched->found, due = watched->again > 0 && --watched->again == 0;
    watched->found = found;
    return rests && (due || found != watched->read);
}

void watched_files_read(struct watched_files *watched) {
    watched->read = watched->found = state_of(watched);
    watched->again = 0;
}

void watched_files_failed(struct watched_files *watched) {
    watched->again = WATCHED_FILES_AGAIN;
}
