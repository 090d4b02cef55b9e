/* stress.h - the live scheduler threads alone, at full speed: requests and accelerators are objects of this process,
 * and nothing is sent, copied or computed (Symphony, arXiv 2308.07470, section 5.4).
 *
 *     world thread --requests--> model threads <--> rank threads
 *          ^ plans, refusals --------|
 *
 * The scheduler's threads are those of the server, joined by the same rings. Around them, worlds stand for frontends
 * and backends: each feeds some of the model threads, and owns some of the accelerators (stress/world.h). */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/policy.h"

struct stress_config {
    uint32_t models, model_threads, rank_threads, accelerators;
    int64_t alpha_ns, beta_ns, slo_ns; /* of every model: l(b) = alpha*b + beta; alpha + beta < slo */
    double deaths_per_s;               /* accelerators that die, and join again after 5 ms */
    double moves_per_s;                /* models that change their rank thread, at random */
    double rate;                       /* requests per second over all models, Poisson; or, if 0, */
    uint32_t outstanding;              /* a closed loop of so many requests */
    uint32_t feed_batch;               /* requests handed over at once */
    bool sleep;                        /* the scheduler's threads sleep when idle; else they look again at once */
    double warmup_s, seconds;          /* what is measured begins after the warm-up */
    uint64_t seed;
    const struct policy_ops *policy; /* not a central one */
    const struct policy_options *policy_options;
    cpu_set_t cores; /* model threads get one each, then the rank threads, then the worlds; the last is shared by those
                      * for whom none is left. Empty: not pinned */
};

/* Of one kind of time: nanoseconds. */
struct stress_times {
    int64_t p50, p99, p999;
};

struct stress_result {
    double seconds;                       /* really measured */
    double offered_per_s, requests_per_s; /* due by the Poisson process, or asked by the loop; taken by the scheduler */
    double grants_per_s, batch_mean;
    double bad_rate, dropped_rate, late_rate, lost_rate; /* of what was finished */
    struct stress_times candidate, grant, plan, decision;
    double model_cpu_ns, rank_cpu_ns, world_cpu_ns; /* a request, without what threads spun for */
    double rank_cpu_ns_per_grant;
    double model_busy, rank_busy; /* share of their CPU time that was not spun away; of model threads the mean */
    double model_ran, rank_ran;   /* share of the time that the kernel let them run */
    uint64_t deaths;              /* of accelerators */
    uint64_t moves;               /* of models from one rank thread to another */
    uint64_t requests, batches, checked_requests;
    uint32_t batch_max;
    uint64_t request_bytes, accelerator_bytes; /* of memory: of a queued request, of an accelerator in the rank core */
    bool wrong;                                /* the checks found something; first: */
    char wrong_text[256];
};

/* Runs the threads for as long as the configuration says, then lets everything come to an end. 0 or -errno with a
 * sentence if they could not be started. */
int stress_run(const struct stress_config *config, struct stress_result *result, struct sy_error *err);
