/* stress.h - the live scheduler threads alone, at full speed: requests and accelerators are objects of this process,
 * and nothing is sent, copied or computed (Symphony, arXiv 2308.07470, section 5.4).
 *
 *     world --requests--> model threads <--> rank threads
 *       ^ plans, refusals -----|
 *
 * The scheduler's threads are those of the server, joined by the same rings. Around them, worlds stand for frontends
 * and backends: each world feeds some of the model threads, and owns some of the accelerators (lab/stress/world.h).
 * Drivers take the turns of threads and worlds (lab/stress/driver.h). */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"
#include "sched/core/policy.h"

struct stress_config {
    uint32_t models, model_threads, rank_threads, accelerators;
    int64_t alpha_ns, beta_ns, slo_ns; /* latency l(b) = alpha*b + beta and SLO of every model; alpha + beta < slo */
    double deaths_per_s;               /* accelerators a second that die, and join again after 5 ms */
    double moves_per_s;                /* models a second, chosen at random, that change their rank thread */
    double rate;                       /* requests per second over all models, Poisson; 0: a closed loop */
    uint32_t outstanding;              /* requests outstanding in a closed loop */
    uint32_t feed_batch;               /* most requests handed over at once */
    uint64_t record_bytes;             /* memory of each model thread for the last requests (core/data/recorder.h) */
    bool sleep;               /* whether the scheduler's threads sleep when idle; else they look again at once */
    double warmup_s, seconds; /* length of the load before it is measured, and length of the measurement */
    uint64_t seed;
    const struct policy_ops *policy; /* policy, which is not central */
    const struct policy_options *policy_options;
    cpu_set_t cores; /* cores, one for each model thread, then for each rank thread, then for each world. Passengers
                      * without a core of their own share the last core: they take turns, or with `sleep` the kernel
                      * shares it out. Empty: as many as the process may use, shared in the same way, but no thread is
                      * pinned */
};

/* Quantiles of one kind of time, in nanoseconds. */
struct stress_times {
    int64_t p50, p99, p999;
};

struct histogram;
/* The quantiles of the times added to `until` since `from`, an earlier copy of `until`. Subtracts `from` from `until`.
 */
struct stress_times stress_times_between(const struct histogram *from, struct histogram *until);

/* Pauses: times over PAUSE_NS in which threads did not run although they never sleep. */
struct stress_pauses {
    uint32_t count;
    int64_t total_ns, longest_ns;
};

/* The figures of model threads, of rank threads, or of worlds. */
struct stress_kind {
    double work_ns; /* time for each request in turns that had something to do; with `sleep` the CPU time */
    double busy;    /* mean share of the time in turns that had something to do; with `sleep` 1 */
    double ran;     /* share of the time in which the kernel let the threads run */
    struct stress_pauses pauses; /* pauses of the threads that take the turns; not known with `sleep` */
};

/* The figures of undisturbed slices (lab/stress/slices.h). Not known with `sleep`. */
struct stress_undisturbed {
    double seconds, share; /* length of these slices; their share of the offered requests */
    double bad_rate, offered_per_s;
    struct stress_times decision;
};

struct stress_result {
    double seconds;                       /* measured time */
    double offered_per_s, requests_per_s; /* requests due by the Poisson process, or by the closed loop; requests that
                                           * the scheduler took */
    double grants_per_s, batch_mean;
    double bad_rate, dropped_rate, late_rate, lost_rate; /* shares of the finished requests */
    struct stress_times candidate, grant, plan, decision;
    bool pauses_known;
    struct stress_undisturbed undisturbed;
    uint32_t threads; /* number of threads of the run */
    struct stress_kind model, rank, feeder;
    double rank_ns_per_grant;
    uint64_t deaths; /* deaths of accelerators */
    uint64_t moves;  /* moves of models from one rank thread to another */
    uint64_t requests, batches, checked_requests;
    uint32_t batch_max;
    uint64_t request_bytes, accelerator_bytes; /* memory of a queued request, and of an accelerator in the rank core */
    bool wrong;                                /* whether the checks found a mistake; wrong_text says the first */
    char wrong_text[256];
};

/* Runs the threads for the configured time, then waits until all requests have come back. 0, or -errno with a sentence
 * if the threads could not be started. */
int stress_run(const struct stress_config *config, struct stress_result *result, struct sy_error *err);

/* Whether a rate held: a bad rate of at most bad_most, and a 99th percentile of decisions under decision_ns. */
enum stress_held { STRESS_FAILED, STRESS_HELD, STRESS_DISTURBED };

struct stress_goal {
    double rate, bad_most;
    int64_t decision_ns;
    double undisturbed_least; /* least share of the requests in undisturbed slices for a judgement */
};

/* Judges by the undisturbed slices; STRESS_DISTURBED if they have too few requests. Judges as stress_held_anyway() if
 * pauses are not known, or if the checks found a mistake. */
enum stress_held stress_held(const struct stress_goal *goal, const struct stress_result *result);
/* Judges by all requests, with pauses. */
enum stress_held stress_held_anyway(const struct stress_goal *goal, const struct stress_result *result);
