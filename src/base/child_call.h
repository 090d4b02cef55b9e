/* child_call.h - calls a function in a child process, so that what crashes does so there. */
#pragma once

#include "base/error.h"

/* Forks, calls `call` in the child, and waits for it. Returns what it returned (0 or a negative errno), with its
 * sentence; -ECANCELED and "killed by signal 11 (Segmentation fault)" if it did not return. Of what the child changes
 * only files stay. The process must have a single thread. -errno if there is no child. */
int child_call(int (*call)(void *context, struct sy_error *err), void *context, struct sy_error *err);
