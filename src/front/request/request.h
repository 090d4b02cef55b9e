/* request.h - one inference request, from parsed to answered.
 *
 * Only its frontend reads and writes it. The scheduler and an executor know its handle and its card (core/data/card.h),
 * which the port writes; they report its result in a message. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/data/messages.h"
#include "core/data/output_block.h"
#include "core/data/tensor.h"

/* A request whose runs have broken so many accelerators is not sent to another. */
#define REQUEST_BREAKS_MAX 2
/* A request that so many accelerators have given back, because its model was not resident, is not sent to another. */
#define REQUEST_ABSENT_MAX 3
/* A request whose inputs so many backends did not take is not sent to another. */
#define REQUEST_MISFIT_MAX 3
/* A request that so many backends had when they were lost is not sent to another: it may be why, and would end all of
 * them. */
#define REQUEST_GONE_MAX 3
/* From so many lost backends on, such a request runs alone. Not from the first on: else all requests of a backend that
 * ended for another reason would run one by one. */
#define REQUEST_GONE_DOUBTFUL 2

struct ensemble_run;

struct request {
    /* set before port_submit() */
    uint32_t model;                   /* served model's index */
    uint32_t items;                   /* batch dimension of its inputs; 1 for models without one */
    int64_t arrival_ns, deadline_ns;  /* the client's own deadline; port_submit() takes the reply margin off */
    int64_t due_ns;                   /* the deadline as it was submitted: answered by then, it is in time */
    int64_t late_until_ns;            /* if it misses deadline_ns, which nobody asked for, it goes on as best effort
                                       * until then (port_next()). 0: it is refused */
    uint64_t shape_key;               /* 0 for models of one shape, else a hash of the inputs' other dimensions */
    uint8_t priority;                 /* as the scheduler counts (core/data/messages.h) */
    bool delay;                       /* it may run after its deadline: best effort from then on */
    uint16_t batch_most;              /* items that batches with it should have at most; 0: any */
    float work;                       /* elements of an item's inputs, divided by the profiled item's */
    const struct tensor_view *inputs; /* [input_count] in the signature's order; they and their data stay in place until
                                       * it comes back, and the data while request_is_read() */
    uint32_t input_count;
    bool preparing;           /* the inputs are still being written, until port_prepared() */
    int64_t ready_ns;         /* if `preparing`: when the inputs are promised to be there */
    struct ensemble_run *run; /* the ensemble's request of which this is a step (front/request/ensemble_run.h); */
    uint32_t step;            /* its number. NULL: it is a client's request */

    /* for the port */
    uint32_t slot;             /* of its port */
    int64_t deadline_sched_ns; /* for the scheduler: the deadline less the reply margin */
    bool cancelled;            /* by port_cancel() */
    bool alone;                /* a batch failed, and this request may be why: it shares no run any more */
    uint8_t breaks;            /* accelerators that failed while they ran it */
    uint8_t absent;            /* accelerators that gave it back: its model was not resident */
    uint8_t misfits;           /* backends that gave it back: they do not take its inputs */
    uint8_t gone;              /* backends that were lost while they had it */
    uint32_t readers;          /* runs that were given up and may still read the inputs, and the preparation */
    bool back;                 /* it has come back */
    bool held;                 /* the scheduler does not have it: it waits for its inputs */
    bool unprepared;           /* its inputs will never be there */
    uint32_t left_out;         /* batches that ran without it, since its inputs were not there yet */
    struct request *over_next; /* the next one of those that ended while they were held */

    /* set when it has come back */
    enum request_status status;
    enum refusal refusal;
    struct output_block *block; /* a reference, if OK or FAILED; the frontend puts it after sending */
    uint32_t first_item;        /* of this request in the block's outputs; ITEMS_WHOLE: they are all its own */
    uint32_t batch_items;       /* of the batch it ran in */
    int64_t run_start_ns, run_end_ns;
};

/* Whether a run that was given up may still read the inputs, or a preparation write them. While one may, their memory
 * stays as it is, and so does the request's model. */
static inline bool request_is_read(const struct request *request) {
    return request->readers > 0;
}

/* Why a request failed: a sentence. */
static inline const char *request_failure(const struct request *request) {
    return request->block && request->block->failure ? request->block->failure : "no memory for the reason";
}
