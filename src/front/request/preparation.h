/* preparation.h - a request whose model prepares inputs: checks and memory before the request is submitted.
 *
 *     sizes read and checked -> memory for what is made -> request submitted, inputs promised -> prepared meanwhile
 *
 * The frontend's thread. */
#pragma once

#include <stdint.h>

#include "core/util/error.h"

struct infer_call;
struct inferences;
struct preparation;
struct request;
struct served_model;

/* Checks the inputs of a call that are to be prepared (of images, the headers), and refuses those that are too large or
 * do not fit the model. Replaces them in `call` by the tensors that will be made of them. 0: *made is the preparation.
 * Else a status with a sentence: 400 for an image, 503 for memory, 501 if nobody prepares inputs. */
int preparation_make(struct inferences *home, const struct served_model *model, struct infer_call *call,
                     struct preparation **made, struct sy_error *err);
/* Submits the request and its preparation, for inferences_submit(). The request's deadline moves by the promised time
 * of the preparation, up to deadline_most_ns (0: it does not move). Returns as port_submit(), or -ENOBUFS:
 * PREPARATIONS_MAX are under way. */
int preparation_submit(struct inferences *home, struct request *request, struct preparation *preparation,
                       int64_t deadline_most_ns);
/* Gives the preparation's memory back; not while the preparation is under way. NULL is allowed. */
void preparation_free(struct preparation *preparation);
/* A preparation has come back: counts it, and tells the port. If the request has ended, the preparation may be freed.
 */
void preparation_returned(struct preparation *preparation);
/* Gives up requests whose time is over while they wait for their inputs, so that nobody waits for a preparation that
 * takes too long. Call it often while inferences.preparing is not 0. */
void preparations_look(struct inferences *home, int64_t now_ns);
/* Nobody waits for the preparation any more: has it end soon (preparer_drop()), unless it has come back. */
void preparation_drop(struct preparation *preparation);
/* The request has come back for good: as preparation_drop(), and counts. NULL is allowed. */
void preparation_waited(struct preparation *preparation);
/* The status of a failed preparation with a sentence: 400 for an image, 500 for a model that prepares. 0: it has not
 * failed, or is NULL. */
unsigned preparation_failed(const struct preparation *preparation, struct sy_error *err);
