/* links.h - a cluster's scheduler alone over real links: the live one, its link thread included, joined through sockets
 * by emulated frontends and backends (lab/stress/feeder.h).
 *
 *     feeders: frontends --requests--> link thread --> model threads <--> rank threads
 *              backends  <----plans--- (cluster/roles/scheduler_link.h)
 *
 * The scheduler is what `symphony scheduler` runs (server/process/server.h), in this process, so that its own figures
 * can be read; no memory but theirs is between it and the feeders. All threads sleep when they have nothing to do. */
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
    const struct scenario *scenario; /* models, their shares, the policy, the reply margin; of one type */
    uint32_t model_threads, rank_threads;
    uint32_t frontends, backends, accelerators; /* members, and accelerators of each backend */
    uint32_t feeders;                           /* threads that stand for them */
    double rate;                                /* requests per second over all models, Poisson; or, if 0, */
    uint32_t outstanding;                       /* a closed loop of so many requests */
    uint32_t feed_batch;                        /* requests handed over at once */
    uint64_t record_bytes;                      /* of the scheduler, for the last requests */
    double warmup_s, seconds;
    uint64_t seed;
    cpu_set_t cores; /* feeders keep to the last of them, all other threads to the rest; if there is one, all to that;
                        if none, threads are not pinned */
};

/* What threads of one kind took. */
struct links_kind {
    uint32_t threads;
    double cpu_ns; /* a request */
    double ran;    /* share of the time that each ran, in the mean */
};

/* What the scheduler's link thread did, a second. */
struct links_traffic {
    double turns, reads, sends, frames_in, frames_out, bytes_in, bytes_out;
};

struct links_result {
    double joined_s;                      /* until all had joined and were in service */
    double seconds;                       /* really measured */
    double offered_per_s, requests_per_s; /* due by the Poisson process, or asked by the loop; sent */
    double batches_per_s, batch_mean;
    double goodput_per_s; /* requests that ended in time */
    double bad_rate, refused_rate, late_rate, expired_rate, lost_rate, turned_away_rate; /* of what was finished */
    double refused_rates[REFUSAL_COUNT];                                                 /* by enum refusal */
    double worst_bad_rate; /* of the model where it is worst */
    struct stress_times candidate, grant, plan, decision, way;
    struct links_kind link, model, rank, feeder;
    struct links_traffic traffic;
    uint64_t requests, batches;
    char worst_model[MODEL_NAME_MAX];
    bool wrong; /* the checks found something wrong; the first of it: */
    char wrong_text[256];
};

/* Runs it for as long as the configuration says, then lets everything come to an end. 0 or -errno with a sentence if it
 * could not be started. */
int links_run(const struct links_config *config, struct links_result *result, struct sy_error *err);
