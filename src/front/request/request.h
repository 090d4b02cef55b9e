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

struct request_kind;

struct request {
    /* set before port_submit() */
    uint32_t model; /* index of the served model */
    uint32_t items; /* rows of the batch dimension; 1 for models without one */
    int64_t arrival_ns,
        deadline_ns;       /* arrival, and deadline for the client's answer; port_submit() subtracts the reply margin */
    int64_t due_ns;        /* deadline for an answer in time; stays when deadline_ns moves */
    int64_t late_until_ns; /* end of the request as best effort, if it misses a deadline_ns that nobody asked for
                              (port_next()); 0: it is then refused */
    int64_t complete_ns;   /* time at which the last byte came, or a bulk thread had unpacked all */
    uint32_t ahead;        /* requests of the model that the frontend already had */
    uint64_t shape_key;    /* hash of the inputs' dimensions but the batch; 0: the model has one shape only */
    uint8_t priority;      /* priority as the scheduler counts it (core/data/messages.h) */
    bool delay;            /* the request may run after its deadline, as best effort */
    uint16_t batch_most;   /* most items that its batch should have; 0: any number */
    float work;            /* elements of an item's inputs, divided by the profiled item's */
    const struct tensor_view *inputs; /* [input_count] inputs in the signature's order; the array and the data stay in
                                         place until the request comes back, the data also while request_is_read() */
    uint32_t input_count;
    bool preparing; /* the inputs are still being written, until port_prepared() */
    bool step; /* the request is of an ensemble's step: its deadline excludes the way back already, and its inputs may
                  lie anywhere in this process */
    int64_t ready_ns;                /* time for which the inputs are promised, if `preparing` */
    int64_t prepared_ns;             /* time at which port_prepared() said that they are there; 0: it did not */
    const struct request_kind *kind; /* kind of the request, for who takes it from port_next(); not for the port */

    /* set by the port */
    uint32_t slot;    /* slot in the port */
    uint32_t readers; /* users of the inputs: hanging runs that may still read them, and the preparation */

    /* set when it has come back */
    uint32_t left_out; /* batches that ran without the request, since its inputs were not there yet */
    enum request_status status;
    enum refusal refusal;
    enum refusal_cause cause;       /* cause of a refusal for the deadline */
    struct refusal_figures figures; /* figures of a cause */
    struct batch_past past;         /* how the request's batch came to its run, if it has been in one */
    struct output_block *block; /* outputs, or the reason of a failure: a reference, if OK or FAILED; the frontend gives
                                   it back after sending */
    uint32_t first_item;  /* first item of this request in the block's outputs; ITEMS_WHOLE: all outputs are its own */
    uint32_t batch_items; /* items of the batch that the request ran in */
    int64_t run_start_ns, run_end_ns; /* 0: the request has been in no batch */
};

/* Whether a hanging run that was given up may still read the inputs, or a preparation may still write them. As long as
 * that is so, the memory of the inputs and the request's model stay as they are. */
static inline bool request_is_read(const struct request *request) {
    return request->readers > 0;
}

/* Why a request failed: a sentence. */
static inline const char *request_failure(const struct request *request) {
    return request->block && request->block->failure ? request->block->failure : "no memory for the reason";
}
