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
#define WARMUP_RUNS_MAX  1000         /* runs of a sample */
#define WARMUP_BYTES_MAX (1ULL << 30) /* bytes of a sample's inputs */

struct warmup_sample {
    const char *name;   /* name of the sample; "": none */
    const char *origin; /* file that the sample is written in */
    uint32_t line, column;
    uint32_t runs, items;
    tensor_set files, zeros;                /* inputs with a file's data, and inputs with zero_data */
    struct tensor_view inputs[TENSORS_MAX]; /* inputs in the signature's order; optional ones may have no data */
};

/* Visits a sample, which lasts for the call only. A return value other than 0 ends the walk. */
typedef int warmup_visit(void *context, const struct warmup_sample *sample, struct sy_error *err);

/* Calls `each` for every sample of a model that served_model_apply() has completed. Stops at the first error, of `each`
 * or of a sample that is wrong: -EINVAL (or what reading a file gave) with file, line and column. A sample with more
 * items than the model's batch_max, which a profile may have lowered, is cut to batch_max items. */
int warmup_each(const struct served_model *model, warmup_visit *each, void *context, struct sy_error *err);
/* As warmup_each(), of a configuration in memory that model_config_check() has passed. `folder`: the model's folder;
 * `bytes_max`: the most bytes of a sample's inputs. */
int warmup_each_of(const char *origin, const struct pbtxt_node *root, const char *folder,
                   const struct signature *signature, uint32_t batch_max, uint64_t bytes_max, warmup_visit *each,
                   void *context, struct sy_error *err);

/* Runs a sample once and drops the outputs. -errno with the sample's place in its file and the engine's sentence. */
int warmup_run(const struct engine_ops *ops, struct engine_model *model, const struct warmup_sample *sample,
               struct sy_error *err);

/* Makes a fingerprint of all that runs with a model before it is served: its samples with their data, the models that
 * prepare its inputs, and the libraries with its own operators. "": the model has none of these. Errors as of
 * warmup_each(). */
int warmup_fingerprint(const struct served_model *model, char text[FINGERPRINT_TEXT], struct sy_error *err);
