/* links.h - a cluster's scheduler alone over real links: the live one, its link thread included, joined through sockets
 * by emulated frontends and backends (lab/stress/feeder.h).
 *
 *     feeders: frontends --requests--> link thread --> model threads <--> rank threads
 *              backends  <----plans--- (cluster/roles/scheduler_link.h)
 *
 * The scheduler is that of `symphony scheduler` (server/process/server.h), in this process, so that its own figures can
 * be read; scheduler and feeders share no other memory. All threads sleep when they have nothing to do. */
#pragma once

#include <sched.h>

#include "core/data/messages.h"
#include "core/data/tensor.h"
#include "core/util/error.h"
#include "lab/stress/stress.h"
#include "sched/core/policy.h"

struct scenario; /* lab/scenario/scenario.h */

#define LINKS_OUTSTANDING_MAX 262144 /* requests that all frontends together may have outstanding */

struct links_config {
    const struct scenario *scenario; /* models, their shares, the policy, the reply margin; one type of accelerators */
    uint32_t model_threads, rank_threads;
    uint32_t frontends, backends, accelerators; /* numbers of members, and accelerators of each backend */
    uint32_t feeders;                           /* threads that stand for frontends and backends */
    double rate;                                /* requests per second over all models, Poisson; 0: a closed loop */
    uint32_t outstanding;                       /* requests outstanding in a closed loop */
    uint32_t feed_batch;                        /* most requests handed over at once */
    uint64_t record_bytes;                      /* memory of the scheduler for the last requests */
    double warmup_s, seconds;
    uint64_t seed;
    cpu_set_t cores; /* cores of all threads: feeders keep to the last ones, other threads to the rest; with one core
                      * all keep to it; empty: threads are not pinned */
};

/* The CPU time of the threads of one kind. */
struct links_kind {
    uint32_t threads;
    double cpu_ns; /* CPU time for a request */
    double ran;    /* mean share of the time in which a thread ran */
};

/* Counts of the scheduler's link thread, per second. */
struct links_traffic {
    double turns, reads, sends, frames_in, frames_out, bytes_in, bytes_out;
};

struct links_result {
    double joined_s;                      /* time until all members had joined and were in service */
    double seconds;                       /* measured time */
    double offered_per_s, requests_per_s; /* requests due by the Poisson process, or by the closed loop; requests
                                           * sent */
    double batches_per_s, batch_mean;
    double goodput_per_s; /* requests that ended in time */
    double bad_rate, refused_rate, late_rate, expired_rate, lost_rate,
        unsent_rate;                     /* shares of the finished requests */
    double refused_rates[REFUSAL_COUNT]; /* shares of the finished requests, by enum refusal */
    double worst_bad_rate;               /* highest bad rate of a model */
    struct stress_times candidate, grant, plan, decision, way;
    struct links_kind link, model, rank, feeder;
    struct links_traffic traffic;
    uint64_t requests, batches;
    char worst_model[MODEL_NAME_MAX];
    bool wrong; /* whether the checks found a mistake; wrong_text says the first */
    char wrong_text[256];
};

/* Runs for the configured time, then waits until all requests have come back. 0, or -errno with a sentence if the run
 * could not be started. */
int links_run(const struct links_config *config, struct links_result *result, struct sy_error *err);
