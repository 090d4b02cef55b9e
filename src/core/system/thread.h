/* thread.h - names, cores and promptness of the program's threads. */
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include "core/util/error.h"

enum thread_kind {
    THREAD_PROMPT,  /* short turns that other threads wait for: frontend, model, rank */
    THREAD_COMPUTE, /* work of milliseconds: running batches, on a core that prompt threads keep off, or preparing
                       inputs, which others wait for */
    THREAD_SHARED,  /* work of milliseconds on a core that prompt threads may need: a nice value lets those go first */
    THREAD_BACKGROUND, /* work in the time that all other threads leave; also for processes that the thread starts */
};

/* Call it first in every thread. Names the thread ("model-0") and asks the kernel for wake-ups without slack. For
 * prompt threads that may share a core with compute threads, also asks for a short slice, so that they run as soon as
 * they wake (Linux 6.12 and later). If the kernel refuses something, the thread runs without it. */
void thread_begin(const char *name, uint32_t index, enum thread_kind kind);

/* Initialises a condition whose times are those of clock_sleep_end(): nobody waits longer if the time of day is set. */
void thread_condition_init(pthread_cond_t *condition);

/* Reads a list such as "0,2-3" into a set. 0, or -EINVAL and a sentence if the text is no such list or names a core
 * that this process may not use. */
int thread_cores_parse(const char *text, cpu_set_t *cores, struct sy_error *err);
/* The cores this process may use. */
void thread_cores_allowed(cpu_set_t *cores);
/* The n-th core of a set, counting from 0 and starting again after the last; -1 if the set is empty. */
int thread_core_nth(const cpu_set_t *cores, unsigned n);
/* CPU time in nanoseconds that a running thread has taken; 0: the kernel does not tell. */
int64_t thread_cpu_ns(pthread_t thread);
/* Time in nanoseconds that the calling thread has run, or waited for a core to run on; where the kernel does not tell
 * the latter, only the former. Reads a file of /proc. */
int64_t thread_busy_ns(void);
/* Keeps the calling thread on the given cores. 0 or -errno. */
int thread_pin(const cpu_set_t *cores);
