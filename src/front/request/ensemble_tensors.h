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
    struct ensemble_run *run;
    uint32_t step;                   /* number of the step */
    struct preparation *preparation; /* preparation of the inputs; NULL: the inputs are used as they are */
    bool returned;                   /* the request has come back for good */
    bool again;                      /* the request was sent once more, with a later deadline */
    struct tensor_view inputs[];     /* [input_count of the step's model] */
};

struct run_step {
    struct tensor_view *outputs; /* [output_count] outputs, once the step has ended; `requests` lie in the same block of
                                    the slab; NULL: the step has not begun */
    char *requests;              /* [count] struct step_request of request_bytes each */
    size_t request_bytes;
    uint32_t count;
    void *joined; /* block of the slab with outputs of several requests, or outputs that other processes read; NULL:
                     none */
    bool put;     /* the step's outputs have been given back */
};

struct ensemble_run {
    struct inference *inference;
    struct ensemble_plan *plan;
    struct inference_times *times;
    const struct ensemble *ensemble; /* graph of the plan */
    struct query *query;
    struct step_counters *counters;
    struct ensemble_run *next;           /* next run in `inferences.runs_over` */
    uint32_t models[ENSEMBLE_STEPS_MAX]; /* numbers of the steps' models */
    uint32_t held;                       /* number of steps whose models are held, from step 0 on */
    bool over;                           /* the run has ended, and its requests that still waited were taken back */
    bool read;            /* some request came back while a hanging run, or a preparation, could still use its inputs */
    bool retry;           /* the client may try again soon; for `status` not 0 */
    enum refusal refusal; /* refusal of a step; CANCELLED: no step was refused */
    unsigned status;      /* status with which the run has failed; 0: it has not */
    struct sy_error reason;        /* reason of the failure */
    int64_t start_ns, end_ns;      /* start of the first batch, and end of the last */
    struct output_block *composed; /* outputs of the ensemble: views of steps' outputs, which this run holds */
    struct run_step steps[];
};

/* A tensor of the client, or of a step that has ended. No data: the client left the tensor out. */
struct tensor_view ensemble_tensor(const struct ensemble_run *run, uint32_t tensor, enum datatype *type);
/* A tensor with as many dimensions as the step's input has. */
struct tensor_view ensemble_step_input(const struct ensemble_run *run, uint32_t step, const struct ensemble_flow *flow,
                                       enum datatype *type);
/* Whether the tensor is an output of a step that had nothing to do. */
bool ensemble_tensor_none(const struct ensemble_run *run, uint32_t tensor);
/* Sets the outputs of a step that had nothing to do: tensors without rows. */
void ensemble_step_empty(struct ensemble_run *run, uint32_t step, const struct served_model *model);
/* Finds the outputs of a step whose requests have all run. 0, or a status with a sentence. */
int ensemble_step_outputs(struct ensemble_run *run, uint32_t step, const struct served_model *model,
                          struct sy_error *err);
/* Gives back the outputs of steps that have ended, unless another step or the ensemble's answer still needs them. */
void ensemble_outputs_put(struct ensemble_run *run);
/* Gives a step's outputs back, unless that was done already. */
void ensemble_step_put(struct ensemble_run *run, uint32_t step);
/* Fills `composed` with the ensemble's outputs. False with a sentence: the outputs are not as the ensemble's
 * configuration says. */
bool ensemble_compose(struct ensemble_run *run, struct sy_error *err);
