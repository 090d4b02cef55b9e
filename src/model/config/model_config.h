/* model_config.h - Triton's config.pbtxt: what of it is honoured, and its check against the model itself.
 *
 * Honoured: name, platform, backend, max_batch_size, input and output (name, data_type, dims, reshape, label_filename),
 * default_model_filename, dynamic_batching (queue_rules.h), version_policy (version_choice.h), model_warmup
 * (model/profile/warmup.h, which reads it itself), instance_group (instance_groups.h), model_operations; of an ensemble
 * name, platform, max_batch_size, input, output and ensemble_scheduling (ensemble.h). Other fields of ModelConfig have
 * no effect yet and are listed in one warning a file; fields that ModelConfig does not have are warned of; what is
 * wrong is refused with file, line and column. Set-up only; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/data/tensor.h"
#include "core/util/error.h"
#include "model/config/instance_groups.h"
#include "model/config/pbtxt.h"
#include "model/config/queue_rules.h"
#include "model/engine/op_libraries.h"

struct ensemble;

/* What an input's dimensions mean, where it is an image: ModelInput.Format, for clients to know. */
enum image_format { IMAGE_NONE, IMAGE_NHWC, IMAGE_NCHW };

struct model_config_tensor {
    char name[TENSOR_NAME_MAX];
    enum datatype type; /* DATATYPE_INVALID: not said */
    bool has_dims;
    uint32_t rank;
    int64_t dims[TENSOR_DIMS_MAX]; /* -1: any size; without the batch dimension if max_batch_size > 0 */
    bool has_reshape;
    uint32_t reshape_rank;
    int64_t reshape[TENSOR_DIMS_MAX]; /* the model's own dims, the same way */
    bool optional;                    /* of an input */
    enum image_format format;         /* of an input */
    char label_file[128];             /* of an output: label_filename, a path within the model's folder; "": none */
    uint32_t line, column;
};

#define VERSIONS_SPECIFIC_MAX 64

enum version_choice { VERSIONS_LATEST, VERSIONS_ALL, VERSIONS_SPECIFIC };

/* version_policy; all zero: not given, which means the latest version. */
struct version_policy {
    enum version_choice choice;
    uint32_t latest; /* so many of the highest; 0: not given, which means one */
    uint32_t specific[VERSIONS_SPECIFIC_MAX], specific_count;
};

struct model_config {
    char path[4096]; /* of the file, for mistakes */
    char name[MODEL_NAME_MAX];
    char model_file[256]; /* default_model_filename; "": model.onnx */
    int64_t max_batch_size;
    uint32_t max_batch_size_line, max_batch_size_column; /* line 0: not given */
    struct model_config_tensor inputs[TENSORS_MAX], outputs[TENSORS_MAX];
    uint32_t input_count, output_count;
    struct queue_rules queue; /* dynamic_batching */
    struct version_policy versions;
    struct instance_groups instances;                /* instance_group */
    struct op_libraries op_libraries;                /* model_operations: op_library_filename, as they are written, */
    uint32_t op_libraries_line, op_libraries_column; /* and where */
    struct ensemble *ensemble; /* ensemble_scheduling; its own, to be freed or taken; NULL: it is none */
};

/* Frees what a configuration that was read owns, not the struct itself. All zeros are allowed. */
void model_config_release(struct model_config *config);

/* Checks a tree against ModelConfig: kinds, enum words, ranges, and that what may be given once is given once. Fields
 * that ModelConfig does not have are not mistakes (newer files have newer fields): `unknown` is told of each, with its
 * dotted place; it may be NULL. */
int model_config_check(const char *origin, const struct pbtxt_node *root,
                       void (*unknown)(void *context, const struct pbtxt_node *node, const char *place), void *context,
                       struct sy_error *err);

/* The type of a word like TYPE_FP32; DATATYPE_INVALID if this server has no such type. */
enum datatype model_config_datatype(const char *word);

#define MODEL_CONFIG_FILE "config.pbtxt"

/* Reads a file. Warnings go to the log unless `quiet`. After success call model_config_release(); after an error there
 * is nothing to release. */
int model_config_read(const char *path, bool quiet, struct model_config *config, struct sy_error *err);
/* Reads FOLDER/config.pbtxt if there is one; *found says. */
int model_config_read_folder(const char *folder, bool quiet, struct model_config *config, bool *found,
                             struct sy_error *err);
/* The same from memory; `origin` is what error messages call it. */
int model_config_read_text(const char *origin, const char *text, size_t bytes, bool quiet, struct model_config *config,
                           struct sy_error *err);

/* Checks the configuration (all zeros: there is none) against what the model file says and narrows `signature` to it:
 * optional inputs that it does not name are left to the model; of the outputs those that it names stay, in its order; a
 * dimension that the model leaves open and the configuration fixes becomes fixed; max_batch_size 0 takes the batch
 * dimension away. Every mismatch is refused with both values. */
int model_config_apply(const struct model_config *config, struct signature *signature, struct sy_error *err);
