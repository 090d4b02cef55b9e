/* rank_thread.h - a thread that holds the rank core of a sub-cluster: candidates in, grants out. */
#pragma once

#include <pthread.h>

#include "core/util/histogram.h"
#include "core/util/margin.h"
#include "sched/core/rank_core.h"
#include "sched/threads/wiring.h"

#define RANK_GRACE_NS NS_PER_MS /* rank_core_config.grace_ns of live threads */

struct rank_thread;

/* Starts the wiring's rank thread number `subcluster`. `config` (but for its sub-clusters, which the wiring knows) and
 * what it points to are copied or outlive the thread. 0 or -errno with a sentence. */
int rank_thread_start(struct rank_thread **thread, struct wiring *wiring, uint32_t subcluster,
                      const struct rank_core_config *config, struct sy_error *err);
/* Makes what rank_thread_start() makes, but no thread: the caller calls rank_thread_turn() again and again, from one
 * thread. Only where no thread sleeps (wiring_init()'s busy_poll), since nothing wakes the caller. */
int rank_thread_make(struct rank_thread **thread, struct wiring *wiring, uint32_t subcluster,
                     const struct rank_core_config *config, struct sy_error *err);
/* One turn. Returns 0 if the turn had something to do, else until when the thread may sleep (INT64_MIN: it is to stop).
 * A doorbell_turn. */
int64_t rank_thread_turn(void *thread);
/* Ends the thread and frees it. */
void rank_thread_stop(struct rank_thread *thread);

/* The policy is to decide by the way `way` from now on. One thread at a time. */
void rank_thread_way_set(struct rank_thread *thread, uint32_t way);

/* Any thread: statistics. */
const struct margin *rank_thread_wake_margin(const struct rank_thread *thread);
uint64_t rank_thread_grants(const struct rank_thread *thread);
/* The times from when a batch could have started, and its requests had been handed over, to its grant. */
const struct histogram *rank_thread_grant_times(const struct rank_thread *thread);
int64_t rank_thread_cpu_ns(const struct rank_thread *thread);
/* How many accelerators the load needs, as of the newest parameters. */
double rank_thread_accelerators_needed(const struct rank_thread *thread);
/* How far loads were from the time that they were expected to take. */
const struct histogram *rank_thread_load_errors(const struct rank_thread *thread);
/* The accelerator time that the load has needed so far, in nanoseconds. */
double rank_thread_needed_ns(const struct rank_thread *thread);
