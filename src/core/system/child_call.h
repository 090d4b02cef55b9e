/* child_call.h - calls a function, or starts a program, in a child process, so that a crash ends only the child. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/util/error.h"

#define CHILD_FD 3 /* descriptor on which a program that child_spawn() started answers */

/* Forks, calls `call` in the child, and waits for the child. Returns what `call` returned (0 or a negative errno), with
 * its sentence; -ECANCELED and "killed by signal 11 (Segmentation fault)" if `call` did not return; -errno if no child
 * could be started. Of what the child changes, only changes to files remain. The process must have a single thread. */
int child_call(int (*call)(void *context, struct sy_error *err), void *context, struct sy_error *err);

/* Limits a child that runs files which clients may have brought; call it in the child, before it starts threads. The
 * child gets no new privileges, writes no core files, opens no sockets but Unix ones, and gets no more memory of its
 * own than machine_memory_bytes() and 1 GiB (RLIMIT_DATA); with `gpu`, whose driver reserves memory as it likes, as
 * much as it wants. */
void child_limit(bool gpu);

/* Starts a program with `requests` as its standard input and `answers` as CHILD_FD; its standard output goes to
 * standard error, since engines print. The program gets signals as a fresh program does, and a process group of its
 * own: a terminal's Ctrl-C goes to the parent alone, which decides what becomes of the program. 0 or -errno. */
int child_spawn(pid_t *pid, const char *program, char *const argv[], int requests, int answers);
