/* ensemble.h - Triton's ensembles (ModelEnsembling): an ensemble is a model whose requests are run by other models,
 * step by step; the steps hand tensors on by name.
 *
 * ensemble_read() reads config.pbtxt into a graph; ensemble_settings() adds what symphony.yaml says. ensemble_check()
 * then checks the graph against the models that its steps name. Mistakes name file, line and step. Set-up only, one
 * thread; afterwards the graph is constant, and any thread reads it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/data/tensor.h"
#include "core/util/error.h"
#include "model/config/pbtxt.h"

struct model_config;
struct served_model;
struct symphony_yaml;

#define ENSEMBLE_STEPS_MAX   64
#define ENSEMBLE_TENSORS_MAX 1024       /* tensors that an ensemble names, its inputs and outputs included */
#define ENSEMBLE_EACH_MAX    1024       /* greatest limit of a step that runs once for each row of a tensor */
#define ENSEMBLE_EACH        64         /* limit of a step with for_each where symphony.yaml gives none */
#define ENSEMBLE_NONE        UINT32_MAX /* no step, no tensor, no output */
#define ENSEMBLE_DEPTH_MAX   8          /* levels of ensembles within each other, the outermost included */
#define ENSEMBLE_LABEL_MAX   32         /* bytes of a step's label: "64." eight times at most */

/* What happens to the rows of a tensor beyond a step's limit. */
enum ensemble_beyond {
    ENSEMBLE_REFUSE, /* the request fails, with a sentence that says how many there were */
    ENSEMBLE_CUT,    /* the rows beyond the limit are left out */
};

/* A tensor that a step takes or gives. */
struct ensemble_flow {
    char name[TENSOR_NAME_MAX]; /* name of the input or output of the step's model */
    uint32_t tensor;            /* number of the ensemble's tensor */
    uint32_t line, column;      /* place of the entry in config.pbtxt */
};

struct ensemble_step {
    char model[MODEL_NAME_MAX];
    uint32_t version;               /* version of the model; 0: the highest that is ready */
    uint32_t written;               /* number of the step in the file, from 1 */
    char label[ENSEMBLE_LABEL_MAX]; /* number of the step, for sentences; "2.1": step 1 of an ensemble that is step 2 */
    uint32_t line, column;
    struct ensemble_flow *inputs, *outputs; /* [input_count], [output_count], at most TENSORS_MAX; owned by the step */
    uint32_t input_count, output_count;
    uint64_t after;     /* bits of the steps whose tensors this step takes; they have lower numbers */
    uint32_t each;      /* tensor for each of whose rows the step runs once; ENSEMBLE_NONE: the step runs once */
    uint32_t each_most; /* most rows of `each` that the step runs for */
    enum ensemble_beyond beyond; /* treatment of rows beyond each_most */
    uint32_t when; /* BOOL tensor: the step runs only if its first element is true; ENSEMBLE_NONE: always */
};

struct ensemble_tensor {
    char name[TENSOR_NAME_MAX];
    uint32_t step;         /* step that gives the tensor; ENSEMBLE_NONE: the client gives it */
    uint32_t place;        /* place in the giving step's outputs; of a client's tensor, in the signature's inputs */
    uint32_t output;       /* number among the signature's outputs; ENSEMBLE_NONE: the tensor is no output */
    uint32_t line, column; /* place in config.pbtxt of a tensor that is an input of the ensemble */
};

struct ensemble {
    char path[4096]; /* path of config.pbtxt, for sentences */
    uint32_t step_count, tensor_count;
    uint32_t input_count;        /* number of tensors that the client gives; they come first in `tensors` */
    struct ensemble_step *steps; /* [step_count] steps in an order in which they may run */
    struct ensemble_tensor tensors[ENSEMBLE_TENSORS_MAX];
};

/* Reads `ensemble_scheduling` of a tree that model_config_check() has passed; `config` has the ensemble's inputs and
 * outputs. The caller frees the ensemble. -EINVAL, "FILE:LINE:COLUMN: step N (MODEL): sentence": there is no step; a
 * step lacks model, input_map or output_map; two steps give one tensor, or a step and the client do; nobody gives a
 * tensor; steps form a circle; no step gives an output of the ensemble. */
int ensemble_read(const char *origin, const struct pbtxt_node *root, const struct model_config *config,
                  struct ensemble **ensemble, struct sy_error *err);
/* Adds the `steps` of symphony.yaml (for_each, limit, beyond, when), and sorts the steps anew. The call completes the
 * ensemble: make it also without such a file (`yaml` all zeros). It finds a mistake that is known only now: an input of
 * the ensemble, or an output of a step, that nobody takes. -EINVAL with a sentence. */
int ensemble_settings(struct ensemble *ensemble, const struct symphony_yaml *yaml, struct sy_error *err);
/* The signature of the ensemble by its configuration; with max_batch_size it has a batch dimension in front. It is that
 * of a signature_room. -EINVAL: an input or output has no data type or no dims. */
int ensemble_signature(const struct model_config *config, struct signature *signature, struct sy_error *err);

/* Checks that the steps' models take what they are given and give what is asked of them: inputs and outputs exist; all
 * required inputs are given; types and shapes fit (a dimension that either side leaves open fits anything; so does the
 * number of rows of a step with for_each); `when` is a BOOL. `whole` is the ensemble as a model, models[v] the model of
 * step v. -EINVAL with a sentence like those of ensemble_read(). */
int ensemble_check(const struct served_model *whole, const struct ensemble *ensemble,
                   const struct served_model *const *models, struct sy_error *err);

/* Makes the graph that runs if some steps' models are ensembles themselves. inner[s] is the graph of step s, whose
 * steps take the place of step s; NULL: the model of step s is a file. The inner steps get the `when` of step s.
 * -EINVAL with a sentence: there are too many steps or tensors, or two conditions for one step. The caller frees the
 * graph. */
int ensemble_flatten(const struct ensemble *ensemble, const struct ensemble *const *inner, struct ensemble **flat,
                     struct sy_error *err);
/* Whether both run the same steps. */
bool ensemble_same(const struct ensemble *a, const struct ensemble *b);

/* ---- for the files of this module ---- */

/* Puts the steps into an order in which they may run: each behind the steps in its `after`, otherwise as in the file.
 * Renumbers the bits of `after` and the steps of tensors. 0, or -EINVAL with a sentence that names the steps of a
 * circle. */
int ensemble_sort(struct ensemble *ensemble, struct sy_error *err);
/* The number of the tensor `name`; ENSEMBLE_NONE: there is none. */
uint32_t ensemble_tensor_find(const struct ensemble *ensemble, const char *name);
/* As ensemble_tensor_find(), but adds the tensor if there is none. ENSEMBLE_NONE: there are too many tensors. */
uint32_t ensemble_tensor_of(struct ensemble *ensemble, const char *name);
/* Notes which step gives each tensor, and sets `after`. All steps must have their flows. -EINVAL with a sentence. */
int ensemble_link(struct ensemble *ensemble, struct sy_error *err);
/* Allocates the flows of a step that has none yet, at least one input and one output. 0, or -ENOMEM with a sentence. */
int ensemble_step_room(const struct ensemble *ensemble, struct ensemble_step *step, uint32_t inputs, uint32_t outputs,
                       struct sy_error *err);
/* Makes the step run only if the tensor's first element is true. */
void ensemble_when(const struct ensemble *ensemble, struct ensemble_step *step, uint32_t tensor);
/* Ends the reading: sorts the steps. -EINVAL: nobody takes an input of the ensemble, or an output of a step. */
int ensemble_finish(struct ensemble *ensemble, struct sy_error *err);
/* Writes "FILE:LINE:COLUMN: step N (MODEL): sentence". Returns -EINVAL. */
int ensemble_step_error(const struct ensemble *ensemble, const struct ensemble_step *step, uint32_t line,
                        uint32_t column, struct sy_error *err, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

/* ---- for all ---- */

/* Whether the step takes the tensor. */
bool ensemble_step_takes(const struct ensemble_step *step, uint32_t tensor);
/* NULL is allowed. */
void ensemble_free(struct ensemble *ensemble);
