/* request.h - one inference request, from parsed to answered.
 *
 * It has one owner at a time. Its frontend owns it until port_submit(); then the scheduler (as the handle of its
 * messages) and, once it is in a batch plan, the executor, which reads `inputs` and writes the result; port_next()
 * gives it back to its frontend, always exactly once. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "link/messages.h"
#include "tensor/tensor.h"

struct output_block;

enum request_status {
    REQUEST_OK,      /* `block` holds the outputs */
    REQUEST_REFUSED, /* `refusal` says why; never run */
    REQUEST_FAILED,  /* the engine failed; `failure` says how */
    REQUEST_LOST,    /* its accelerator failed, or had no time to run it apart: port_next() sends it again, or not */
};

/* A request whose runs have broken so many accelerators is not sent to another. */
#define REQUEST_BREAKS_MAX 2

struct request {
    /* written by the frontend before port_submit() */
    uint32_t model;                         /* served model's index */
    uint32_t items;                         /* batch dimension of its inputs; 1 for models without one */
    int64_t arrival_ns, deadline_ns;        /* the client's own deadline; port_submit() takes the reply margin off */
    int64_t due_ns;                         /* answered by then it is in time: the deadline as it was submitted */
    int64_t late_until_ns;                  /* of a deadline that nobody asked for: who misses it goes on as best effort
                                             * with this one instead (port_next()). 0: refused then */
    uint64_t shape_key;                     /* 0 for models of one shape, else a hash of the inputs' other dimensions */
    uint8_t priority;                       /* as the scheduler counts (link/messages.h) */
    bool delay;                             /* runs after its deadline, too: best effort from then on */
    float work;                             /* elements of an item's inputs over the profiled item's */
    struct tensor_view inputs[TENSORS_MAX]; /* in the signature's order; data stay in place until it is given back */
    uint32_t port;                          /* which frontend; set by port_submit() */
    int64_t deadline_sched_ns;              /* the scheduler's: less the reply margin; set by port_submit() */
    bool cancelled;                         /* by port_cancel() */

    /* set by port_submit(), then by executors */
    bool alone;     /* a batch failed, and this request may be why: it shares no run any more */
    uint8_t breaks; /* accelerators that failed while they ran it */

    /* written by who finishes it */
    enum request_status status;
    enum refusal refusal;
    struct output_block *block; /* a reference; the frontend puts it after sending */
    uint32_t first_item;        /* of this request in the block's outputs */
    uint32_t batch_items;       /* of the batch it ran in */
    int64_t run_start_ns, run_end_ns;
    char failure[160];

    /* Runs that were given up and may still read `inputs`: the executor adds them before it gives the request back,
     * and they take themselves off. Until there are none the memory of the inputs stays as it is, and so does the
     * request's model. */
    _Atomic uint32_t readers;
};

/* Whether a run that was given up may still read it. Its owner, once it has it back. */
static inline bool request_is_read(const struct request *request) {
    return atomic_load_explicit(&request->readers, memory_order_acquire) > 0; /* with the run's end */
}
