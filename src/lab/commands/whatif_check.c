/* whatif_check.c - makes the logged decisions of a server's threads again. */
#include "lab/commands/whatif_check.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab/sim/decision_replay.h"
#include "server/commands/cli.h"
#include "server/threads/decision_files.h"

static int log_check(const char *path, struct decision_replay *result, struct sy_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (fd < 0 || fstat(fd, &about) < 0) {
        int rc = error_set(err, -errno, "%s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return rc;
    }
    size_t bytes = (size_t)about.st_size;
    char *memory = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int rc;
    if (memory == MAP_FAILED)
        rc = error_set(err, -errno, "%s", strerror(errno));
    else
        rc = decision_replay(memory, bytes, result, err);
    if (bytes && memory != MAP_FAILED)
        munmap(memory, bytes);
    close(fd);
    return rc;
}

static void result_print(const char *path, const struct decision_replay *result) {
    const char *name = strrchr(path, '/');
    printf("%s: %llu steps decided again as they were, ", path, (unsigned long long)result->steps);
    if (result->looks || (name && strcmp(name + 1, DECISION_ADVICE_FILE) == 0))
        printf("%llu looks at the load", (unsigned long long)result->looks);
    else
        printf("%llu grants, %llu refusals", (unsigned long long)result->grants, (unsigned long long)result->refused);
    if (result->missed)
        printf("; %llu steps were not logged, as the file was full", (unsigned long long)result->missed);
    putchar('\n');
}

int whatif_check(const char *folder) {
    char pattern[4096];
    glob_t found;
    int status = CLI_OK;
    snprintf(pattern, sizeof(pattern), "%s/*" DECISION_FILE_END, folder);
    if (glob(pattern, 0, NULL, &found) != 0) {
        fprintf(stderr, "symphony whatif: --check: %s: there are no files *" DECISION_FILE_END "\n", folder);
        return CLI_USAGE;
    }
    struct decision_replay *results = calloc(found.gl_pathc, sizeof(*results));
    if (!results) {
        fprintf(stderr, "symphony whatif: out of memory\n");
        globfree(&found);
        return CLI_FAILURE;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct sy_error err;
        int rc = log_check(found.gl_pathv[i], &results[i], &err);
        if (rc) {
            fprintf(stderr, "symphony whatif: %s: %s\n", found.gl_pathv[i], err.text);
            status = rc == -EBADMSG || status == CLI_FAILURE ? CLI_FAILURE : CLI_USAGE;
            continue;
        }
        result_print(found.gl_pathv[i], &results[i]);
    }
    /* the loads at which advice looked are to be those that the rank threads' cores put out */
    for (size_t i = 0; status == CLI_OK && i < found.gl_pathc; i++) {
        struct sy_error err;
        if (results[i].looks && decision_loads_check(&results[i], results, found.gl_pathc, &err)) {
            fprintf(stderr, "symphony whatif: %s: %s\n", found.gl_pathv[i], err.text);
            status = CLI_FAILURE;
        }
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        free(results[i].loads);
    free(results);
    globfree(&found);
    return status;
}
