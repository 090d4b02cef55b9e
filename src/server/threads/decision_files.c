/* decision_files.c - maps the files of the decision logs. */
#include "server/threads/decision_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/log.h"
#include "sched/core/decision_log.h"

struct decision_files {
    uint32_t count;
    int *fds;                  /* [count] */
    struct decision_log *logs; /* [count] */
};

/* The whole file is allocated now, so that a full disk is an error here instead of a signal later. */
static int file_map(struct decision_files *f, uint32_t i, const char *path, uint64_t bytes, struct sy_error *err) {
    f->fds[i] = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int rc = f->fds[i] < 0 ? errno : posix_fallocate(f->fds[i], 0, (off_t)bytes);
    if (rc)
        return error_set(err, -rc, "--record-decisions: %s: %s", path, strerror(rc));
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fds[i], 0);
    if (memory == MAP_FAILED)
        return error_set(err, -errno, "--record-decisions: %s: %s", path, strerror(errno));
    decision_log_init(&f->logs[i], memory, bytes);
    return 0;
}

int decision_files_create(struct decision_files **files, struct wiring *w, const char *folder, uint64_t bytes,
                          struct sy_error *err) {
    struct decision_files *f = calloc(1, sizeof(*f));
    uint32_t threads = w->model_threads + w->rank_threads, count = threads + 1;
    char path[4096];
    int rc = f ? 0 : error_set(err, -ENOMEM, "no memory for the logs of decisions");
    *files = f;
    if (rc)
        return rc;
    f->fds = calloc(count, sizeof(*f->fds));
    f->logs = calloc(count, sizeof(*f->logs));
    if (!f->fds || !f->logs)
        return error_set(err, -ENOMEM, "no memory for the logs of decisions");
    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        return error_set(err, -errno, "--record-decisions: %s: %s", folder, strerror(errno));
    for (; f->count < count && !rc; f->count++) {
        bool rank = f->count >= w->model_threads, advice = f->count == threads;
        if (advice)
            snprintf(path, sizeof(path), "%s/" DECISION_ADVICE_FILE, folder);
        else
            snprintf(path, sizeof(path), "%s/%s-%u" DECISION_FILE_END, folder, rank ? "rank" : "model",
                     rank ? f->count - w->model_threads : f->count);
        rc = file_map(f, f->count, path, advice ? bytes / DECISION_ADVICE_PART : bytes, err);
    }
    if (!rc)
        w->decisions = f->logs;
    return rc;
}

void decision_files_close(struct decision_files *f) {
    for (uint32_t i = 0; f && i < f->count; i++) {
        const struct decision_log *log = &f->logs[i];
        if (log->memory) {
            uint64_t missed = ((const struct decision_head *)(const void *)log->memory)->missed;
            if (missed)
                log_warn("a log of decisions was full", "thread=%u steps_not_logged=%" PRIu64, i, missed);
            munmap(log->memory, log->bytes);
            if (ftruncate(f->fds[i], (off_t)log->used) < 0)
                log_warn("a log of decisions keeps its length", "reason=\"%s\"", strerror(errno));
        }
        if (f->fds[i] >= 0)
            close(f->fds[i]);
    }
    if (f) {
        free(f->fds);
        free(f->logs);
    }
    free(f);
}
