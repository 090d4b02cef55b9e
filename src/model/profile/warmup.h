/* warmup.h - the samples of a model's model_warmup (config.pbtxt): batches that are run before it is served.
 *
 * As Triton has it: a sample is one request, whose inputs are zeros, random or a file's under the model's folder
 * `warmup`; it is run as a batch of batch_size of them, `count` times. The configuration is read anew, so that no
 * samples are kept. Set-up only; any thread; no state. */
#pragma once

#include "model/config/pbtxt.h"
#include "model/config/served_model.h"
#include "model/engine/engine.h"
#include "model/engine/fingerprint.h"

#define WARMUP_FOLDER    "warmup"
#define WARMUP_RUNS_MAX  1000         /* of a sample */
#define WARMUP_BYTES_MAX (1ULL << 30) /* of a sample's inputs */

struct warmup_sample {
    const char *name;   /* "" if it has none */
    const char *origin; /* where it is written */
    uint32_t line, column;
    uint32_t runs, items;
    tensor_set files, zeros; /* inputs that have a file's data, and those with zero_data */
    struct tensor_view
        inputs[TENSORS_MAX]; /* in the signature's order; optional ones that it leaves out have no data */
};

/* Gets a sample, which lasts for the call only. Anything but 0 ends the walk. */
typedef int warmup_visit(void *context, const struct warmup_sample *sample, struct sy_error *err);

/* Calls `each` for every sample of a model that served_model_apply() has completed. Stops at the first error, of `each`
 * or of a sample that is wrong: -EINVAL (or what reading a file gave) with file, line and column. A sample with more
 * items than the model's batch_max, which a profile may have lowered, is cut to batch_max items. */
int warmup_each(const struct served_model *model, warmup_visit *each, void *context, struct sy_error *err);
/* The same of a configuration in memory, which model_config_check() has seen. `folder`: the model's; `bytes_max`: what
 * the inputs of a sample may take. */
int warmup_each_of(const char *origin, const struct pbtxt_node *root, const char *folder,
                   const struct signature *signature, uint32_t batch_max, uint64_t bytes_max, warmup_visit *each,
                   void *context, struct sy_error *err);

/* Runs a sample once and drops the outputs. -errno with where it is written and the engine's sentence. */
int warmup_run(const struct engine_ops *ops, struct engine_model *model, const struct warmup_sample *sample,
               struct sy_error *err);

/* A fingerprint of all that runs beside a model before it is served: its samples with their data, the models that
 * prepare its inputs, and the libraries with its own operators. "" if it has none. Errors as of warmup_each(). */
int warmup_fingerprint(const struct served_model *model, char text[FINGERPRINT_TEXT], struct sy_error *err);
