/* decision_files.h - the files in which a server's scheduling threads log what they decide (sched/decision_log.h):
 * mapped memory, so that logging makes no system call, and what a process that crashed had logged is there. */
#pragma once

#include "base/error.h"
#include "sched/wiring.h"

#define DECISION_FILE_END ".decisions" /* of their names: model-0.decisions, rank-0.decisions, ... */

struct decision_files;

/* Makes a file of `bytes` in `folder` for each model and rank thread of the wiring, whose `decisions` it sets; the
 * folder is made if need be. 0 or -errno with a sentence. */
int decision_files_create(struct decision_files **files, struct wiring *wiring, const char *folder, uint64_t bytes,
                          struct sy_error *err);
/* When the threads have ended: cuts the files to what was logged. NULL is allowed. */
void decision_files_close(struct decision_files *files);
