/* thread.h - names, cores and promptness of the program's threads. */
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include "core/util/error.h"

enum thread_kind {
    THREAD_PROMPT,     /* short turns that others wait for: frontend, model, rank */
    THREAD_COMPUTE,    /* works for milliseconds: runs batches, on a core that prompt threads keep off, or prepares
                        * inputs, which others wait for */
    THREAD_SHARED,     /* the same on a core that prompt threads may need: its nice value lets them go first */
    THREAD_BACKGROUND, /* gets the time that the others leave; so do the processes it starts */
};

/* Called first in every thread. Names it ("model-0") and asks the kernel for wake-ups without slack. For prompt threads
 * that may share a core with compute ones it also asks for a short slice, so that they run as soon as they wake (Linux
 * 6.12 and later). If the kernel refuses something, the thread runs without it. */
void thread_begin(const char *name, uint32_t index, enum thread_kind kind);

/* Reads "0,2-3" into a set. -EINVAL and a sentence if it is not such a list or names a core that this process may not
 * use. */
int thread_cores_parse(const char *text, cpu_set_t *cores, struct sy_error *err);
/* The cores this process may use. */
void thread_cores_allowed(cpu_set_t *cores);
/* The n-th core of a set, counting from 0 and starting again after the last; -1 if the set is empty. */
int thread_core_nth(const cpu_set_t *cores, unsigned n);
/* CPU time that a running thread has taken, in nanoseconds; 0 if the kernel does not tell. */
int64_t thread_cpu_ns(pthread_t thread);
/* Keeps the calling thread on the given cores. 0 or -errno. */
int thread_pin(const cpu_set_t *cores);
