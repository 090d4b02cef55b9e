/* ensemble_run.h - an ensemble's request while it runs: each step is a request of another model, begun when the steps
 * before it have ended, with their outputs as its inputs.
 *
 *     inference_submit() -> request_ensemble.submit() -> port_submit() for each step that can begin
 *     port_next() -> returned() of the step's request -> the next steps, or the end: the inference is finished
 *
 * sched/plan/query.h decides which step may begin when, and by when it must end, as in the simulator. This file has the
 * tensors: outputs stay in the blocks in which their runs left them, and are given back after their last reader has
 * ended. A step that is refused, a failure, or a client that leaves ends the ensemble's request: the steps' requests
 * that still wait are taken back, and no further step begins.
 *
 * Memory comes from the frontend's slab. Called by the frontend's thread only. */
#pragma once

#include "front/request/request_kind.h"

struct inferences;

/* The kind of requests whose model is an ensemble. */
extern const struct request_kind request_ensemble;

/* The next inference that was over already when it was submitted; NULL: none. */
struct inference *ensemble_runs_next(struct inferences *home);
