/* infer_counters.h - a frontend's counts of infer requests. Its thread writes them, any thread reads them: relaxed
 * atomics, since nothing else is inferred from them. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/counter.h"
#include "base/fine_histogram.h"
#include "base/histogram.h"
#include "request/preparer.h"

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
    _Atomic uint64_t in_time;  /* answered OK by the deadline: the goodput */
    _Atomic uint64_t items;    /* of OK ones */
    _Atomic uint64_t run_ns;   /* of OK ones: the runs of their batches, added up */
    _Atomic uint64_t reply_ns; /* of OK ones: from the end of the run until the kernel had the answer, added up */
    _Atomic uint64_t fail_ns;  /* of those refused or failed: from the first byte to the answer, added up */
    _Atomic uint32_t held;     /* requests not freed yet, which refer to the model */
    _Atomic int64_t last_ns;   /* when the last one was answered; 0: none was */
    struct fine_histogram latency_ns; /* of OK ones: from arrival until the kernel had the answer */
    struct histogram queue_ns;        /* of OK ones: from arrival to the start of the run */
    _Atomic uint64_t preparations[PREPARATION_ENDS]; /* by enum preparation_end */
    struct histogram prepare_ns;      /* of those done: the preparing thread's time */
};

struct infer_counters {
    struct model_infer_counters *models; /* [model_count] */
    uint32_t model_count;
    _Atomic uint64_t body_bytes;
    _Atomic uint64_t inputs_bytes_taken, inputs_bytes_mapped;
    _Atomic uint32_t in_flight;
};

int infer_counters_init(struct infer_counters *counters, uint32_t model_count);
void infer_counters_destroy(struct infer_counters *counters);
