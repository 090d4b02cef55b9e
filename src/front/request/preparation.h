/* preparation.h - a request whose model prepares inputs: what is checked and reserved before it is submitted.
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

/* Looks at what a call brings for prepared inputs (of images, at their headers), refuses what is too large or does not
 * fit its model, and puts the tensors that will be made of it in its place in `call`. 0: *made is the preparation. Else
 * a status with a sentence: 400 for an image, 503 for memory, 501 where nobody prepares. */
int preparation_make(struct inferences *home, const struct served_model *model, struct infer_call *call,
                     struct preparation **made, struct sy_error *err);
/* Submits the request, and its preparation. Its deadline moves by what the preparation is promised to take, up to
 * deadline_most_ns (0: it does not). As port_submit(); also -ENOBUFS: PREPARATIONS_MAX are under way. */
int preparation_submit(struct inferences *home, struct request *request, struct preparation *preparation,
                       int64_t deadline_most_ns);
/* Gives its memory back; not while it is under way. NULL is allowed. */
void preparation_free(struct preparation *preparation);
/* A preparation has come back: tells the port, and counts it. If its request has ended, this may free the preparation.
 */
void preparation_returned(struct preparation *preparation);
/* Gives up requests whose time is over while they wait for their inputs, so that nobody waits for a preparation that
 * takes too long. Call it often while inferences.preparing. */
void preparations_look(struct inferences *home, int64_t now_ns);
/* Nobody waits for the preparation any more: ends it soon, unless it has come back (preparer_drop()). */
void preparation_drop(struct preparation *preparation);
/* The status if it has failed, with a sentence: 400 for an image, 500 for a model that prepares. Else 0. */
unsigned preparation_failed(const struct preparation *preparation, struct sy_error *err);
