/* infer_counters.h - a frontend's counts of infer requests. Its thread writes them, any thread reads them: relaxed
 * atomics, since nothing else is inferred from them; only `held` is released and acquired. */
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
    OUTCOME_REFUSED, /* by the scheduler or for want of memory: 503 */
    OUTCOME_CLIENT_ERROR,
    OUTCOME_FAILED,
    OUTCOME_CANCELLED, /* the client went away before its answer was sent */
    OUTCOME_COUNT,
};

struct model_infer_counters {
    _Atomic uint64_t outcomes[OUTCOME_COUNT];
    _Atomic uint64_t refused[REFUSAL_COUNT]; /* by enum refusal: those that came back with that reason */
    _Atomic uint64_t in_time;                /* answered OK by the deadline: the goodput */
    _Atomic uint64_t items;                  /* of OK ones */
    _Atomic uint64_t run_ns;                 /* of OK ones: the runs of their batches, added up */
    _Atomic uint64_t reply_ns; /* of OK ones: from the end of the run until the kernel had the answer, added up */
    _Atomic uint64_t fail_ns;  /* of those refused or failed: from the first byte to the answer, added up */
    _Atomic uint32_t held;     /* requests not freed yet, which refer to the model */
    _Atomic int64_t last_ns;   /* when the last one was answered; 0: none was */
    struct fine_histogram latency_ns;                /* of OK ones: from arrival until the kernel had the answer */
    struct histogram queue_ns;                       /* of OK ones: from arrival to the start of the run */
    _Atomic uint64_t preparations[PREPARATION_ENDS]; /* by enum preparation_end */
    _Atomic uint64_t left_out;   /* times that a batch ran without a request, since its inputs were not prepared yet */
    struct histogram prepare_ns; /* of those done: the preparing thread's time */
};

/* What an ensemble's requests come to, step by step. */
struct step_counters {
    _Atomic uint64_t whole[ENSEMBLE_STEPS_MAX];   /* items of the ensemble's requests that have reached the step, */
    _Atomic uint64_t items[ENSEMBLE_STEPS_MAX];   /* and items that its model was then asked for */
    _Atomic uint64_t ended[ENSEMBLE_STEPS_MAX];   /* times that the step has ended, */
    _Atomic uint64_t took_ns[ENSEMBLE_STEPS_MAX]; /* and the time from its beginning to its end, added up */
};

struct infer_counters {
    struct model_infer_counters *models;    /* [model_count] */
    _Atomic(struct step_counters *) *steps; /* [model_count] of ensembles that were asked for; else NULL */
    uint32_t model_count;
    _Atomic uint64_t body_bytes;
    _Atomic uint64_t inputs_bytes_taken, inputs_bytes_mapped;
    _Atomic uint32_t in_flight;
};

int infer_counters_init(struct infer_counters *counters, uint32_t model_count);
/* The counters of an ensemble's steps, made when they are first asked for; NULL: no memory. The owner's thread. */
struct step_counters *infer_counters_steps(struct infer_counters *counters, uint32_t model);
/* The same, if they have been made. Any thread. */
static inline struct step_counters *infer_counters_steps_of(const struct infer_counters *counters, uint32_t model) {
    return atomic_load_explicit(&counters->steps[model], memory_order_acquire); /* with infer_counters_steps() */
}
void infer_counters_destroy(struct infer_counters *counters);
