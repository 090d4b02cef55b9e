/* decision_files.h - the files in which a server's scheduling threads, and the thread that looks at the load, log their
 * decisions (sched/core/decision_log.h): mapped memory, so that logging makes no system call, and the log of a process
 * that crashed is complete up to the crash. */
#pragma once

#include "core/util/error.h"
#include "sched/threads/wiring.h"

#define DECISION_FILE_END    ".decisions" /* suffix of their names: model-0.decisions, rank-0.decisions, ... */
#define DECISION_ADVICE_FILE "advice" DECISION_FILE_END
/* Divisor: the log of advice, with one look a second, gets this part of a thread's room. */
#define DECISION_ADVICE_PART 16

struct decision_files;

/* Makes a file of `bytes` in `folder` for each model and rank thread of the wiring, and a smaller one for advice, which
 * is the last in the wiring's `decisions`. Sets these. Makes the folder if it does not exist. 0 or -errno with a
 * sentence. */
int decision_files_create(struct decision_files **files, struct wiring *wiring, const char *folder, uint64_t bytes,
                          struct sy_error *err);
/* Call it when the threads have ended: truncates the files to the logged bytes. NULL is allowed. */
void decision_files_close(struct decision_files *files);
