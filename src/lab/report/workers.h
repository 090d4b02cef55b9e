/* workers.h - several threads do independent pieces of work; the results are taken in order. */
#pragma once

#include <stdint.h>

struct workers_job {
    uint32_t count, threads; /* pieces, at least 1; threads, at least 1 */
    /* Does one piece; on any of the threads. Not 0: no further pieces are begun. */
    int (*work)(void *context, uint32_t piece);
    /* Takes a piece that is done, in order; on the caller's thread. A failed piece is taken, too, and is the last. */
    void (*take)(void *context, uint32_t piece, int rc);
    /* Called at least five times a second meanwhile, with how many pieces are done; on the caller's thread. */
    void (*tick)(void *context, uint32_t done);
    void *context;
};

/* Runs the job. 0, or the result of the first piece that failed, or -errno if no thread could be started. */
int workers_run(const struct workers_job *job);
