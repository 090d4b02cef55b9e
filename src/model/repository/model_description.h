/* model_description.h - a model as JSON, by which one process tells another of the model: what a backend knows of a
 * model that it has loaded and profiled, what the scheduler keeps, and what frontends need to check, answer and
 * describe requests.
 *
 * A description has no paths: with it a frontend does all that a server does with a model of its own, labels of classes
 * included, and reads no file. It holds the model's secret (shape_secret), so it is for processes of one cluster only.
 *
 * `format` is 1 for a model; 2 for an ensemble, whose description has the graph, may have an SLO of 0 (then frontends
 * choose it), and has no profiles; 3 for a model whose inputs frontends prepare: its description has the steps of
 * preparation, and the files that prepare in base64. The process that prepares must still open these files
 * (preparations_open()), which may fail. Later versions may add fields: fields that are not known are ignored. A field
 * that is missing is a mistake. All integers and doubles survive exactly. Slow path; any thread; no state. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/data/profile.h"
#include "core/util/error.h"
#include "model/config/served_model.h"

#define MODEL_DESCRIPTION_FORMAT 1
/* Bytes of the text. A ResNet-50 with labels, on two types of accelerators, has 45 KB. */
#define MODEL_DESCRIPTION_BYTES_MAX (4 << 20)

/* A model's latencies on the accelerators of one type. */
struct described_profile {
    char type[TYPE_NAME_MAX];
    struct profile *profile;
};

/* The text that a scheduler puts behind a description's first byte if a request may have fewer items than `batch_max`:
 * the most items. It is read into items_max, and does not count when models are compared. */
#define MODEL_DESCRIPTION_ITEMS_MAX "\"items_max\":%u,"

/* The same if requests without a version go to another version; read into `begins`. And the parts of 10000 of such
 * requests that go to this one, if two versions share them; read into `share`. */
#define MODEL_DESCRIPTION_BEGINS "\"begins\":true,"
#define MODEL_DESCRIPTION_SHARE  "\"share\":%u,"

/* The same of a model whose SLO was chosen: the one that the cluster has chosen, read into slo_cluster_ns. */
#define MODEL_DESCRIPTION_SLO "\"slo_cluster_ns\":%lld,"

/* Writes the description of a model that is ready, with its profiles. Returns terminated text, which the caller frees
 * by free(). NULL with a sentence: out of memory, over MODEL_DESCRIPTION_BYTES_MAX, or a name that is not UTF-8.
 * *bytes: the length without the terminator; `bytes` and `err` may be NULL. */
char *model_description_write(const struct served_model *model, const struct described_profile *profiles,
                              uint32_t count, size_t *bytes, struct sy_error *err);

/* Reads a description into a model, which must be all zeros (it has no paths then; the state is MODEL_LOADING, which
 * the caller changes), and into profiles[ACCELERATOR_TYPES_MAX], of types that all differ. Everything is bounded and
 * checked against the rest: what is accepted can be served. model_description_release() frees what was allocated.
 * -EINVAL with a sentence that names the field; nothing is allocated then, and model and profiles are not to be
 * used. */
int model_description_read(const char *text, size_t bytes, struct served_model *model,
                           struct described_profile *profiles, uint32_t *count, struct sy_error *err);
/* Gives back a model that was read, and frees the profiles; `profiles` may be NULL. */
void model_description_release(struct served_model *model, struct described_profile *profiles, uint32_t count);

/* A hash that is equal for two models if either can answer the other's requests. Left out: the secret, the accelerators
 * that the model is to run on and does run on, and what was measured: profiles, memory, an SLO that was chosen from the
 * profile, and batch_max, which depends on the accelerator, too. Compare only hashes that one process has computed:
 * another version of this program may have another hash. 0: out of memory. */
uint64_t model_description_hash(const struct served_model *model);

/* Writes the first difference of two models whose hashes differ, with both values: "inputs[0].shape[1] is 3 here and 4
 * there" (here: `a`). "": the models do not differ. */
void model_description_difference(const struct served_model *a, const struct served_model *b, char *text, size_t bytes);
