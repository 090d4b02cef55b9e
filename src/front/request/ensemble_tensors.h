/* ensemble_tensors.h - the tensors that steps of an ensemble's request hand on; for ensemble_run.c only.
 *
 * The outputs of a step that has one request stay in the block of its run; those of a step with several requests are
 * joined, row behind row, in memory of the frontend's slab. In a cluster outputs come over a link, and those that other
 * steps take are copied into the slab, too: backends can read no other memory. */
#pragma once

#include "front/request/inference.h"
#include "model/config/ensemble.h"
#include "sched/plan/query.h"

struct step_request {
    struct request request;
    struct preparation *preparation; /* of its inputs; NULL: they are as they were given */
    bool returned;
    bool again;                  /* it was sent once more, with a later deadline */
    struct tensor_view inputs[]; /* [its model's input_count] */
};

struct run_step {
    struct tensor_view *outputs; /* [output_count] once it has ended; in one block of the slab with its requests; NULL:
                                  * it has not begun */
    char *requests;              /* [count] struct step_request, of request_bytes each */
    size_t request_bytes;
    uint32_t count;
    void *joined; /* outputs of several requests, or those that other processes are to read */
    bool put;     /* its outputs have been given back */
};

struct ensemble_run {
    struct inference *inference;
    struct ensemble_plan *plan;
    struct inference_times *times;
    const struct ensemble *ensemble; /* the plan's */
    struct query *query;
    struct step_counters *counters;
    struct ensemble_run *next;           /* in `inferences.runs_over` */
    uint32_t models[ENSEMBLE_STEPS_MAX]; /* numbers of the steps' models; the first `held` are held */
    uint32_t held;
    bool over;                     /* it has ended, and what waited was taken back */
    bool read;                     /* a request came back while a run that was given up could still read its inputs */
    bool retry;                    /* if `status` is set: worth trying again soon */
    unsigned status;               /* not 0: the request has failed with this status */
    struct sy_error reason;        /* why it has failed */
    int64_t start_ns, end_ns;      /* of the first run, and of the last one */
    struct output_block *composed; /* the ensemble's outputs: views of those of steps, which the run holds */
    struct run_step steps[];
};

/* A tensor as it is now: of the client, or of a step that has ended. Without data: the client left it out. */
struct tensor_view ensemble_tensor(const struct ensemble_run *run, uint32_t tensor, enum datatype *type);
/* Makes it a tensor of another rank: a batch dimension of one is added in front, or one that is not more than one is
 * taken off. A tensor that would need more stays as it is. */
void ensemble_tensor_as(struct tensor_view *view, uint32_t rank);
/* A tensor as the step takes it, by ensemble_tensor_as(). */
struct tensor_view ensemble_step_input(const struct ensemble_run *run, uint32_t step, const struct ensemble_flow *flow,
                                       enum datatype *type);
/* Whether the tensor is an output of a step that had nothing to do. */
bool ensemble_tensor_none(const struct ensemble_run *run, uint32_t tensor);
/* Makes the outputs of a step that had nothing to do: no rows. */
void ensemble_step_empty(struct ensemble_run *run, uint32_t step, const struct served_model *model);
/* Finds the outputs of a step whose requests have all run. 0, or a status with a sentence. */
int ensemble_step_outputs(struct ensemble_run *run, uint32_t step, const struct served_model *model,
                          struct sy_error *err);
/* Gives back the outputs of steps that have ended, unless a step will still read them or the ensemble's answer has
 * them. */
void ensemble_outputs_put(struct ensemble_run *run);
/* Gives a step's outputs back, unless that was done already. */
void ensemble_step_put(struct ensemble_run *run, uint32_t step);
/* Puts the ensemble's outputs together. False with a sentence: they are not what its configuration says. */
bool ensemble_compose(struct ensemble_run *run, struct sy_error *err);
