/* ensemble_run.h - an ensemble's request while it runs: each step is a request of another model, begun when the steps
 * before it have ended, with their outputs as its inputs.
 *
 *     inference_submit() -> ensemble_run_begin() -> port_submit() for each step that can begin
 *     port_next() -> ensemble_run_returned() -> the next steps, or the end: the inference is finished
 *
 * sched/plan/query.h decides which step may begin when, and by when it must end, as in the simulator. This file has the
 * tensors: outputs stay in the blocks in which their runs left them, and are given back after their last reader has
 * ended. A step that is refused, a failure, or a client that leaves ends the ensemble's request: the steps' requests
 * that still wait are taken back, and no further step begins.
 *
 * Memory comes from the frontend's slab. Called by the frontend's thread only. */
#pragma once

#include <stdbool.h>

#include "core/util/error.h"
#include "front/request/request.h"

struct inference;
struct inferences;
struct ensemble_run;
struct labels;

/* Begins the request of an inference whose model is an ensemble, and whose deadlines are set. 0: the inference comes
 * back through ensemble_run_returned() or ensemble_runs_next(). Or a status with a sentence: no step has begun. */
int ensemble_run_begin(struct inference *inference, struct sy_error *err);
/* A step's request (its `run` is set) came back. Returns the inference if the whole ensemble's request is over; NULL:
 * it goes on. */
struct inference *ensemble_run_returned(struct request *request);
/* The next inference that was over already when ensemble_run_begin() returned; NULL: none. */
struct inference *ensemble_runs_next(struct inferences *home);
/* The client has left. */
void ensemble_run_cancel(struct ensemble_run *run);
/* Why an inference that is over has no outputs: a status with a sentence, and *retry: worth trying again soon. 200: it
 * has outputs. */
unsigned ensemble_run_result(const struct ensemble_run *run, bool *retry, struct sy_error *err);
/* The labels of an output of the ensemble: those of the nearest ensemble around the step that gives the output, else
 * those of the step's model. NULL: none. A bulk thread may call it, too, while it has the inference. */
struct labels *ensemble_run_labels(const struct ensemble_run *run, uint32_t output);
/* Whether a run that was given up may still read inputs of a step. */
bool ensemble_run_is_read(const struct ensemble_run *run);
/* Frees the run, its outputs and its references to models; only when no run reads inputs of a step any more. NULL is
 * allowed. */
void ensemble_run_free(struct ensemble_run *run);
