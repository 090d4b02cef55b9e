/* ensemble_run.h - an ensemble's request while it runs: each step is a request of another model, begun when the steps
 * before it have ended, with their outputs as its inputs.
 *
 *     inference_submit() -> ensemble_run_begin() -> port_submit() for each step that can begin
 *     port_next() -> ensemble_run_returned() -> the next steps, or the end: the inference is finished
 *
 * What a query of several models may do when, and by when each stage is due, is decided by pipeline/query.h, as in the
 * simulator. Here are the tensors: outputs stay in the blocks in which their runs left them, and are given back with
 * their last reader. A step that is refused, a failure, or a client that leaves ends the request: what still waits of
 * it is taken back, and nothing behind it begins.
 *
 * Memory comes from the frontend's slab. Called by the frontend's thread only. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "request/request.h"

struct inference;
struct inferences;
struct ensemble_run;

/* Begins the request of an inference whose model is an ensemble, and whose deadlines are set. 0: it comes back through
 * ensemble_run_returned() or ensemble_runs_next(). Or a status with a sentence: nothing of it has begun. */
int ensemble_run_begin(struct inference *inference, struct sy_error *err);
/* A request whose `run` is set came back. The inference, if all of it is over; NULL: it goes on. */
struct inference *ensemble_run_returned(struct request *request);
/* An inference that was over before a request of it came back; NULL: none. */
struct inference *ensemble_runs_next(struct inferences *home);
/* The client has left. */
void ensemble_run_cancel(struct ensemble_run *run);
/* Why an inference that is over has no outputs: a status with a sentence; 200: it has. */
unsigned ensemble_run_result(const struct ensemble_run *run, bool *retry, struct sy_error *err);
/* Whether a run that was given up may still read inputs of a step. */
bool ensemble_run_is_read(const struct ensemble_run *run);
/* Gives everything back, once nothing reads it. NULL is allowed. */
void ensemble_run_free(struct ensemble_run *run);
