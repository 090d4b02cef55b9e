/* preparation.h - a request whose model prepares inputs: what is checked and reserved before it is submitted.
 *
 *     file's header -> size checked -> memory for the pixels -> request submitted, inputs promised -> decoded meanwhile
 *
 * The frontend's thread. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct inference;
struct preparation;

/* Reads the headers of the images that a request brings, refuses what is too large or does not fit its model, and puts
 * the tensors that they will become in the place of the strings in `call`. 0: inference->preparation is set. Else a
 * status with a sentence: 400 for an image, 503 for memory, 501 where nobody prepares. */
int preparation_make(struct inference *inference, struct sy_error *err);
/* Submits the request, and its preparation. As port_submit(); also -ENOBUFS: PREPARATIONS_MAX are under way. */
int preparation_submit(struct inference *inference);
/* One has come back: tells the port, and counts. It may free the inference, if that has ended. */
void preparation_returned(struct preparation *preparation);
/* Nobody waits for it any more. */
void preparation_drop(struct preparation *preparation);
/* Whether it has failed: then the sentence says why. */
bool preparation_failed(const struct preparation *preparation, struct sy_error *err);
