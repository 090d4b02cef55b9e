/* ensemble.h - Triton's ensembles (ModelEnsembling): a model whose requests are run by other models, step by step, that
 * hand tensors on by name.
 *
 * What config.pbtxt says is read into a graph by ensemble_read(), what symphony.yaml adds by ensemble_settings().
 * ensemble_check() then checks the graph against the models that its steps name. Mistakes name file, line and step.
 * Set-up only, one thread; afterwards constant, and any thread reads it. */
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
#define ENSEMBLE_TENSORS_MAX 1024       /* that an ensemble names, its inputs and outputs included */
#define ENSEMBLE_EACH_MAX    1024       /* the most items of a step that runs once for each row of a tensor */
#define ENSEMBLE_EACH        64         /* where symphony.yaml gives no limit */
#define ENSEMBLE_NONE        UINT32_MAX /* no step, no tensor, no output */
#define ENSEMBLE_DEPTH_MAX   8          /* of ensembles within each other, the outermost included */
#define ENSEMBLE_LABEL_MAX   32         /* "64.", eight times */

/* What happens to the rows of a tensor beyond a step's limit. */
enum ensemble_beyond {
    ENSEMBLE_REFUSE, /* the request fails, with a sentence that says how many there were */
    ENSEMBLE_CUT,    /* they are left out */
};

/* A tensor that a step takes or gives. */
struct ensemble_flow {
    char name[TENSOR_NAME_MAX]; /* of the step's model's input or output */
    uint32_t tensor;            /* of the ensemble */
    uint32_t line, column;      /* of the entry in config.pbtxt */
};

struct ensemble_step {
    char model[MODEL_NAME_MAX];
    uint32_t version;               /* 0: the highest that is ready */
    uint32_t written;               /* its number in the file, from 1 */
    char label[ENSEMBLE_LABEL_MAX]; /* the same, for sentences; of a step of an ensemble that is step 2: "2.1" */
    uint32_t line, column;
    struct ensemble_flow *inputs, *outputs; /* [input_count], [output_count], at most TENSORS_MAX; its own */
    uint32_t input_count, output_count;
    uint64_t after;              /* bits of the steps whose tensors it takes; they have lower numbers */
    uint32_t each;               /* the tensor whose rows are items of their own; ENSEMBLE_NONE: it is one request */
    uint32_t each_most;          /* items */
    enum ensemble_beyond beyond; /* what happens to more */
    uint32_t when;               /* a BOOL tensor: it runs only if the first element is true; ENSEMBLE_NONE: always */
};

struct ensemble_tensor {
    char name[TENSOR_NAME_MAX];
    uint32_t step;         /* that gives it, as its outputs[place]; ENSEMBLE_NONE: the client gives it, */
    uint32_t place;        /* as the signature's inputs[place] */
    uint32_t output;       /* of the ensemble's signature; ENSEMBLE_NONE: it stays inside */
    uint32_t line, column; /* of the ensemble's input */
};

struct ensemble {
    char path[4096]; /* of its config.pbtxt, for sentences */
    uint32_t step_count, tensor_count;
    uint32_t input_count;        /* the first tensors are what the client gives */
    struct ensemble_step *steps; /* [step_count] in an order in which they may run */
    struct ensemble_tensor tensors[ENSEMBLE_TENSORS_MAX];
};

/* Reads `ensemble_scheduling` of a tree that model_config_check() has passed; `config` has its inputs and outputs.
 * -EINVAL, "FILE:LINE:COLUMN: step N (MODEL): sentence": no step; a step without model, input_map or output_map; a
 * tensor that two steps give, or a step and the client; one that nobody gives; steps in a circle; an output of the
 * ensemble that no step gives. The caller frees it. */
int ensemble_read(const char *origin, const struct pbtxt_node *root, const struct model_config *config,
                  struct ensemble **ensemble, struct sy_error *err);
/* Adds the `steps` of symphony.yaml: for_each, limit, beyond, when, and sorts the steps anew. It completes the
 * ensemble, so call it also without such a file (`yaml` all zeros). It finds what is known only now: an input of the
 * ensemble, or an output of a step, that nobody takes. -EINVAL with a sentence. */
int ensemble_settings(struct ensemble *ensemble, const struct symphony_yaml *yaml, struct sy_error *err);
/* What the ensemble takes and gives, by its configuration: with max_batch_size a batch dimension in front. -EINVAL if
 * an input or output has no data type or no dims. */
int ensemble_signature(const struct model_config *config, struct signature *signature, struct sy_error *err);

/* Whether the steps' models take what they are given and give what is asked of them: inputs and outputs that exist, all
 * required inputs, types, shapes (a dimension that either side leaves open fits anything; so does the number of rows of
 * a step with for_each), a BOOL for `when`. `whole` is the ensemble as a model, models[v] the model of step v. -EINVAL,
 * as ensemble_read(). */
int ensemble_check(const struct served_model *whole, const struct ensemble *ensemble,
                   const struct served_model *const *models, struct sy_error *err);

/* The graph that runs if some steps' models are ensembles themselves: inner[s] is the graph of step s, in whose place
 * its steps are put; NULL: the step's model is a file. A `when` of the step becomes theirs. -EINVAL with a sentence:
 * there are too many steps or tensors, or two conditions for one step. The caller frees it. */
int ensemble_flatten(const struct ensemble *ensemble, const struct ensemble *const *inner, struct ensemble **flat,
                     struct sy_error *err);
/* Whether both run the same steps. */
bool ensemble_same(const struct ensemble *a, const struct ensemble *b);

/* ---- for the files of this module ---- */

/* Puts the steps into an order in which they may run: each behind the steps in its `after`, otherwise as in the file.
 * Renumbers the bits of `after` and the steps of tensors. -EINVAL that names the steps of a circle. */
int ensemble_sort(struct ensemble *ensemble, struct sy_error *err);
/* The tensor of that name, or ENSEMBLE_NONE. */
uint32_t ensemble_tensor_find(const struct ensemble *ensemble, const char *name);
/* The same; adds it if there is none. ENSEMBLE_NONE: there are too many. */
uint32_t ensemble_tensor_of(struct ensemble *ensemble, const char *name);
/* Notes which step gives each tensor, and sets `after`, once all steps have their flows. -EINVAL with a sentence. */
int ensemble_link(struct ensemble *ensemble, struct sy_error *err);
/* Memory for the flows of a step that has none, at least one of each. 0 or -ENOMEM with a sentence. */
int ensemble_step_room(const struct ensemble *ensemble, struct ensemble_step *step, uint32_t inputs, uint32_t outputs,
                       struct sy_error *err);
/* Makes the step run only if the tensor's first element is true. */
void ensemble_when(const struct ensemble *ensemble, struct ensemble_step *step, uint32_t tensor);
/* The last step of reading: -EINVAL if nobody takes an input or an output; sorts the steps. */
int ensemble_finish(struct ensemble *ensemble, struct sy_error *err);
/* -EINVAL with "FILE:LINE:COLUMN: step N (MODEL): sentence". */
int ensemble_step_error(const struct ensemble *ensemble, const struct ensemble_step *step, uint32_t line,
                        uint32_t column, struct sy_error *err, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

/* ---- for all ---- */

/* Whether the step takes the tensor. */
bool ensemble_step_takes(const struct ensemble_step *step, uint32_t tensor);
/* NULL is allowed. */
void ensemble_free(struct ensemble *ensemble);
