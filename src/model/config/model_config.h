/* model_config.h - Triton's config.pbtxt: reads the fields that have an effect here, and checks them against the model.
 *
 * Honoured: name, platform, backend, max_batch_size, input and output (name, data_type, dims, reshape, label_filename),
 * default_model_filename, dynamic_batching (queue_rules.h), version_policy (version_choice.h), model_warmup
 * (model/profile/warmup.h, which reads it itself), instance_group (instance_groups.h), model_operations; of an ensemble
 * name, platform, max_batch_size, input, output and ensemble_scheduling (ensemble.h). Other fields of ModelConfig have
 * no effect; one warning a file lists them. Fields that ModelConfig does not have are warned of. What is wrong is
 * refused with file, line and column. Set-up only; any thread. */
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

/* The meaning of the dimensions of an input that is an image: ModelInput.Format, which clients are told. */
enum image_format { IMAGE_NONE, IMAGE_NHWC, IMAGE_NCHW };

struct model_config_tensor {
    char name[TENSOR_NAME_MAX];
    enum datatype type; /* data type; DATATYPE_INVALID: not given */
    bool has_dims;
    uint32_t dim_count;
    int64_t dims[TENSOR_DIMS_MAX]; /* sizes; -1: any; without the batch dimension if max_batch_size > 0 */
    bool has_reshape;
    uint32_t reshape_dim_count;
    int64_t reshape[TENSOR_DIMS_MAX]; /* sizes in the model file; -1: any; without the batch dimension if max_batch_size
                                         > 0 */
    bool optional;                    /* whether an input is optional */
    enum image_format format;         /* image format of an input */
    char label_file[128];             /* label_filename of an output, a path within the model's folder; "": none */
    uint32_t line, column;            /* place of the entry in the file */
};

#define VERSIONS_SPECIFIC_MAX 64

enum version_choice { VERSIONS_LATEST, VERSIONS_ALL, VERSIONS_SPECIFIC };

/* version_policy; all zeros: not given, which means the latest version. */
struct version_policy {
    enum version_choice choice;
    uint32_t latest; /* number of highest versions to serve; 0: not given, which means one */
    uint32_t specific[VERSIONS_SPECIFIC_MAX], specific_count; /* versions to serve, if SPECIFIC */
};

struct model_config {
    char path[4096]; /* path of the file, for error sentences */
    char name[MODEL_NAME_MAX];
    char model_file[256]; /* default_model_filename; "": model.onnx */
    int64_t max_batch_size;
    uint32_t max_batch_size_line, max_batch_size_column; /* place of max_batch_size in the file; line 0: not given */
    struct model_config_tensor inputs[TENSORS_MAX], outputs[TENSORS_MAX];
    uint32_t input_count, output_count;
    struct queue_rules queue; /* dynamic_batching */
    struct version_policy versions;
    struct instance_groups instances;                /* instance_group */
    struct op_libraries op_libraries;                /* op_library_filename of model_operations, as written */
    uint32_t op_libraries_line, op_libraries_column; /* place of op_library_filename in the file */
    struct ensemble *ensemble; /* ensemble_scheduling, owned until somebody takes it; NULL: the model is no ensemble */
};

/* Frees what a configuration owns, not the struct itself. A configuration of all zeros is allowed. */
void model_config_release(struct model_config *config);

/* Checks a tree against ModelConfig: kinds, enum words, ranges, and that no field is repeated which may be given only
 * once. Fields that ModelConfig does not have are not mistakes (newer files have newer fields): unknown() is called for
 * each, with its dotted place. `unknown` may be NULL. */
int model_config_check(const char *origin, const struct pbtxt_node *root,
                       void (*unknown)(void *context, const struct pbtxt_node *node, const char *place), void *context,
                       struct sy_error *err);

/* The type of a word like TYPE_FP32; DATATYPE_INVALID if this server has no such type. */
enum datatype model_config_datatype(const char *word);

#define MODEL_CONFIG_FILE "config.pbtxt"

/* Reads FOLDER/config.pbtxt if there is such a file; *found says whether there is. Warnings go to the log unless
 * `quiet`. After success call model_config_release(); after an error there is nothing to release. */
int model_config_read_folder(const char *folder, bool quiet, struct model_config *config, bool *found,
                             struct sy_error *err);
/* As model_config_read_folder(), from memory; `origin` is the name of the text in error messages. */
int model_config_read_text(const char *origin, const char *text, size_t bytes, bool quiet, struct model_config *config,
                           struct sy_error *err);

/* Checks the configuration (all zeros: there is none) against `signature`, which the model file has, and narrows
 * `signature`, that of a signature_room, to the configuration. Optional inputs that the configuration does not name are
 * left to the model. Of the outputs, those that it names stay, in its order. A dimension that the model leaves open and
 * the configuration fixes becomes fixed. max_batch_size 0 takes the batch dimension away. Every mismatch is refused
 * with both values. */
int model_config_apply(const struct model_config *config, struct signature *signature, struct sy_error *err);
