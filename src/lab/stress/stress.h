/* stress.h - the live scheduler threads alone, at full speed: requests and accelerators are objects of this process,
 * and nothing is sent, copied or computed (Symphony, arXiv 2308.07470, section 5.4).
 *
 *     world --requests--> model threads <--> rank threads
 *       ^ plans, refusals -----|
 *
 * The scheduler's threads are those of the server, joined by the same rings. Around them, worlds stand for frontends
 * and backends: each feeds some of the model threads, and owns some of the accelerators (lab/stress/world.h). Who takes
 * whose turns on which core: lab/stress/driver.h. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"
#include "sched/core/policy.h"

struct stress_config {
    uint32_t models, model_threads, rank_threads, accelerators;
    int64_t alpha_ns, beta_ns, slo_ns; /* of every model: l(b) = alpha*b + beta; alpha + beta < slo */
    double deaths_per_s;               /* accelerators that die, and join again after 5 ms */
    double moves_per_s;                /* models that change their rank thread, at random */
    double rate;                       /* requests per second over all models, Poisson; or, if 0, */
    uint32_t outstanding;              /* a closed loop of so many requests */
    uint32_t feed_batch;               /* requests handed over at once */
    uint64_t record_bytes;             /* of each model thread, for the last requests (core/data/recorder.h) */
    bool sleep;                        /* the scheduler's threads sleep when idle; else they look again at once */
    double warmup_s, seconds;          /* how long the load lasts before it is measured, and how long it is measured */
    uint64_t seed;
    const struct policy_ops *policy; /* not a central one */
    const struct policy_options *policy_options;
    cpu_set_t cores; /* model threads get one each, then the rank threads, then the worlds. Those for whom none is left
                        share the last one: they take turns, or with `sleep` the kernel shares it out. Empty: as many as
                        the process may use, shared likewise, but nobody is pinned */
};

/* Of one kind of time: nanoseconds. */
struct stress_times {
    int64_t p50, p99, p999;
};

struct histogram;
/* The quantiles of what was added to `until` since `from`, an earlier copy of it. Subtracts `from` from `until`. */
struct stress_times stress_times_between(const struct histogram *from, struct histogram *until);

/* Times over PAUSE_NS in which threads did not run although they never sleep. */
struct stress_pauses {
    uint32_t count;
    int64_t total_ns, longest_ns;
};

/* Of model threads, of rank threads, or of worlds. */
struct stress_kind {
    double work_ns; /* for each request: the time of turns that had something to do; with `sleep` the CPU time */
    double busy;    /* share of the time that such turns took, in the mean; with `sleep` 1 */
    double ran;     /* share of the time that the kernel let their threads run */
    struct stress_pauses pauses; /* of the threads they are on; not known with `sleep` */
};

/* Over slices of time that no pause touched (lab/stress/slices.h). Not known with `sleep`. */
struct stress_undisturbed {
    double seconds, share; /* of the requests that were offered */
    double bad_rate, offered_per_s;
    struct stress_times decision;
};

struct stress_result {
    double seconds;                       /* really measured */
    double offered_per_s, requests_per_s; /* due by the Poisson process, or asked by the loop; taken by the scheduler */
    double grants_per_s, batch_mean;
    double bad_rate, dropped_rate, late_rate, lost_rate; /* of what was finished */
    struct stress_times candidate, grant, plan, decision;
    bool pauses_known;
    struct stress_undisturbed undisturbed;
    uint32_t threads; /* that all this ran on */
    struct stress_kind model, rank, feeder;
    double rank_ns_per_grant;
    uint64_t deaths; /* of accelerators */
    uint64_t moves;  /* of models from one rank thread to another */
    uint64_t requests, batches, checked_requests;
    uint32_t batch_max;
    uint64_t request_bytes, accelerator_bytes; /* of memory: of a queued request, of an accelerator in the rank core */
    bool wrong;                                /* the checks found something wrong; the first of it: */
    char wrong_text[256];
};

/* Runs the threads for as long as the configuration says, then lets everything come to an end. 0 or -errno with a
 * sentence if they could not be started. */
int stress_run(const struct stress_config *config, struct stress_result *result, struct sy_error *err);

/* Whether a rate held: at most so much bad, and decisions under so much at the 99th percentile. */
enum stress_held { STRESS_FAILED, STRESS_HELD, STRESS_DISTURBED };

struct stress_goal {
    double rate, bad_most;
    int64_t decision_ns;
    double undisturbed_least; /* share of the requests: if undisturbed slices have less, they decide nothing */
};

/* Judges by the undisturbed slices; STRESS_DISTURBED if they have too few requests. If pauses are not known, or
 * something was wrong, as stress_held_anyway(). */
enum stress_held stress_held(const struct stress_goal *goal, const struct stress_result *result);
/* Judges by everything, pauses included. */
enum stress_held stress_held_anyway(const struct stress_goal *goal, const struct stress_result *result);
