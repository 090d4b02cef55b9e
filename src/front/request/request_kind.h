/* request_kind.h - what the kinds of requests do differently, from their submission to the end of their memory.
 *
 *     plain     the inputs go to the scheduler as the client sent them          inference.c
 *     prepared  other threads make the inputs while the request waits           inference.c, preparation.h
 *     ensemble  the steps are requests of their own                             ensemble_run.c
 *     step      a request of an ensemble's step; it has only returned()         ensemble_run.c
 *
 * inference_submit() chooses the kind of a client's request by its model. Tensors in shared memory are no kind: those
 * of all kinds may lie there. The frontend's thread calls these functions; a bulk thread calls failed() and labels(),
 * too, while it has the inference. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"

struct inference;
struct labels;
struct request;

struct request_kind {
    /* Submits an inference whose deadlines are set, and whose inputs in shared memory were read. 0: it comes back by
     * inferences_next(); or a status with a sentence. */
    int (*submit)(struct inference *inference, struct sy_error *err);
    /* The client no longer waits for an inference that was submitted and has not come back. */
    void (*cancel)(struct inference *inference);
    /* port_next() has returned the request. Returns the inference that has now come back; NULL: none has. */
    struct inference *(*returned)(struct request *request);
    /* Why an inference that has come back has no outputs: a status with a sentence, and *retry: worth trying again
     * soon. 0: it has outputs. */
    unsigned (*failed)(const struct inference *inference, bool *retry, struct sy_error *err);
    /* The labels of an output; NULL: none. */
    struct labels *(*labels)(const struct inference *inference, uint32_t output);
    /* Whether a run that was given up, or a preparation, may still use the inputs. */
    bool (*is_read)(const struct inference *inference);
    /* Gives back memory of the inputs that is not among the inference's blocks, if that was not done yet. NULL: there
     * is none. */
    void (*inputs_give)(struct inference *inference);
    /* Gives back what is held until the answer was sent. NULL: there is nothing. */
    void (*end)(struct inference *inference);
    /* Whether the outputs may lie in one block with those of other requests (inference_detach()). */
    bool shares_outputs;
};

/* The kind of a client's request until it is submitted. */
extern const struct request_kind request_plain;
