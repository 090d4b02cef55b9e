/* child_call.h - calls a function in a child process, so that what crashes does so there. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/util/error.h"

#define CHILD_FD 3 /* of a program started by child_spawn(): where it answers */

/* Forks, calls `call` in the child, and waits for it. Returns what it returned (0 or a negative errno), with its
 * sentence; -ECANCELED and "killed by signal 11 (Segmentation fault)" if it did not return. Of what the child changes,
 * only changes to files remain. The process must have a single thread. -errno if there is no child. */
int child_call(int (*call)(void *context, struct sy_error *err), void *context, struct sy_error *err);

/* In a child that runs what clients may have brought, before it starts threads: no new privileges, no core files;
 * without `network`, no sockets but those within this machine; without `gpu`, no more memory of its own than
 * machine_memory_bytes() and 1 GiB (RLIMIT_DATA). */
void child_limit(bool network, bool gpu);

/* Starts a program with `requests` as its standard input and `answers` as CHILD_FD; its standard output goes to
 * standard error, since engines print. It gets signals as a fresh program does, and a process group of its own: a
 * terminal's Ctrl-C goes to the parent, which decides what becomes of it. 0 or -errno. */
int child_spawn(pid_t *pid, const char *program, char *const argv[], int requests, int answers);
