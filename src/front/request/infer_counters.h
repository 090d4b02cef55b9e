/* infer_counters.h - a frontend's counts of infer requests. The frontend's thread writes them, any thread reads them.
 * They are relaxed atomics, since they order no other data; only `held` is released and acquired. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/data/messages.h"
#include "core/util/counter.h"
#include "core/util/histogram.h"
#include "front/request/fine_histogram.h"
#include "front/request/preparer.h"
#include "model/config/ensemble.h"

enum outcome {
    OUTCOME_OK,
    OUTCOME_REFUSED, /* refused by the scheduler or for want of memory: 503 or 504 */
    OUTCOME_CLIENT_ERROR,
    OUTCOME_FAILED,
    OUTCOME_CANCELLED, /* the client went away before its answer was sent */
    OUTCOME_COUNT,
};

struct model_infer_counters {
    _Atomic uint64_t outcomes[OUTCOME_COUNT];
    _Atomic uint64_t refused[REFUSAL_COUNT]; /* those of OUTCOME_REFUSED; REFUSAL_NONE: refused by the frontend */
    _Atomic uint64_t in_time;                /* OK answers by the deadline: the goodput */
    _Atomic uint64_t items;                  /* items of OK requests */
    _Atomic uint64_t run_ns;                 /* sum over OK requests of their batches' run times */
    _Atomic uint64_t reply_ns; /* sum over OK requests, from the end of the run until the kernel had the answer */
    _Atomic uint64_t fail_ns;  /* sum over requests refused or failed, from the first byte to the answer */
    _Atomic uint32_t held;     /* references of requests to the model */
    _Atomic int64_t last_ns;   /* time of the last OK answer; 0: none */
    struct fine_histogram latency_ns;                /* OK requests: from arrival until the kernel had the answer */
    struct histogram queue_ns;                       /* OK requests: from arrival to the start of the run */
    _Atomic uint64_t preparations[PREPARATION_ENDS]; /* preparations by enum preparation_end */
    _Atomic uint64_t left_out;   /* times that a batch ran without a request whose inputs were not prepared yet */
    struct histogram prepare_ns; /* preparations that are DONE: time of the preparing thread */
};

/* Counts of an ensemble's steps, each array by step. */
struct step_counters {
    _Atomic uint64_t whole[ENSEMBLE_STEPS_MAX];   /* items of the ensemble's requests that have reached the step */
    _Atomic uint64_t items[ENSEMBLE_STEPS_MAX];   /* items of the requests that were sent to the step's model */
    _Atomic uint64_t ended[ENSEMBLE_STEPS_MAX];   /* times that the step has ended */
    _Atomic uint64_t took_ns[ENSEMBLE_STEPS_MAX]; /* sum of the times from the step's begin to its end */
};

struct infer_counters {
    struct model_infer_counters *models;    /* [model_count] */
    _Atomic(struct step_counters *) *steps; /* [model_count] counters of ensembles that had requests; else NULL */
    uint32_t model_count;
    _Atomic uint64_t body_bytes;                              /* bytes of bodies received */
    _Atomic uint64_t inputs_bytes_taken, inputs_bytes_mapped; /* bytes of the slab: in blocks taken, and mapped */
    _Atomic uint32_t in_flight;                               /* slots taken: requests that are read, run or answered */
};

int infer_counters_init(struct infer_counters *counters, uint32_t model_count);
/* The counters of an ensemble's steps, created by the first call; NULL: no memory. The frontend's thread. */
struct step_counters *infer_counters_steps(struct infer_counters *counters, uint32_t model);
/* The counters of an ensemble's steps; NULL: not created yet. Any thread. */
static inline struct step_counters *infer_counters_steps_of(const struct infer_counters *counters, uint32_t model) {
    return atomic_load_explicit(&counters->steps[model], memory_order_acquire); /* with infer_counters_steps() */
}
void infer_counters_destroy(struct infer_counters *counters);
