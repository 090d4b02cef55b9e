/* workers.h - several threads do independent pieces of work; the results are taken in order. */
#pragma once

#include <stdint.h>

struct workers_job {
    uint32_t count, threads; /* numbers of pieces and of threads, at least 1 each */
    /* Does one piece, on any of the threads. If it does not return 0, no further pieces are begun. */
    int (*work)(void *context, uint32_t piece);
    /* Takes the result of a piece, in order, on the caller's thread. The result of a failed piece is taken, too, and is
     * the last. */
    void (*take)(void *context, uint32_t piece, int rc);
    /* Called at least five times a second while the job runs, on the caller's thread, with the number of pieces that
     * are done. */
    void (*tick)(void *context, uint32_t done);
    void *context;
};

/* Runs the job. 0, or the result of the first piece that failed, or -errno if no thread could be started. */
int workers_run(const struct workers_job *job);
