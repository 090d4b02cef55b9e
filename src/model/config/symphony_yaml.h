/* symphony_yaml.h - a model folder's symphony.yaml: settings of a model that Triton's config.pbtxt does not have. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/data/tensor.h"
#include "core/util/error.h"
#include "model/config/ensemble.h"
#include "model/config/served_model.h"

#define SAMPLE_TEXT_MAX 1024 /* bytes of an input's values as text, terminators included */

struct symphony_yaml_shape {
    char input[TENSOR_NAME_MAX];
    uint32_t dim_count;
    int64_t dims[TENSOR_DIMS_MAX]; /* sizes, positive; without the batch dimension */
};

/* Values of an input, for one item, as they are written. */
struct symphony_yaml_sample {
    char input[TENSOR_NAME_MAX];
    uint32_t line, count;
    char texts[SAMPLE_TEXT_MAX]; /* `count` strings, each terminated */
};

/* Settings of a step of an ensemble. */
struct symphony_yaml_step {
    char step[MODEL_NAME_MAX];                             /* number of the step in config.pbtxt, or its model */
    char for_each[TENSOR_NAME_MAX], when[TENSOR_NAME_MAX]; /* names of tensors; "": not given */
    int64_t limit;                                         /* limit of for_each; 0: not given */
    bool beyond_given;
    enum ensemble_beyond beyond;
    uint32_t line;
};

/* A step by which an input is made of what clients send (served_model.h). */
struct symphony_yaml_prepare {
    char input[TENSOR_NAME_MAX];   /* name of the input; "": the model's only input */
    char step[32];                 /* PREPARE_IMAGE_STEP or PREPARE_ONNX_STEP */
    int64_t max_bytes, max_pixels; /* most bytes and pixels of an image; 0: not given */
    char model[PREPARE_FILE_MAX];  /* name of the file, of PREPARE_ONNX_STEP */
    uint32_t line;
};

struct symphony_yaml {
    char path[4096];         /* path of the file, for error sentences */
    int64_t slo_ns;          /* default SLO; 0: not given */
    bool best_effort;        /* whether slo_ms is `none` */
    int64_t batch_max;       /* greatest batch; 0: not given */
    bool batch_given, batch; /* whether `batch` is given; whether items of several requests are run together */
    double weight;           /* weight of the model's share; 0: not given */
    bool pinned;
    char profile_path[4096]; /* path of the profile, resolved against the file's folder; "": not given */
    struct symphony_yaml_shape shapes[TENSORS_MAX]; /* shapes of the profiled item's inputs */
    uint32_t shape_count;
    struct symphony_yaml_sample samples[TENSORS_MAX]; /* values of inputs while the model is measured */
    uint32_t sample_count;
    struct symphony_yaml_step steps[ENSEMBLE_STEPS_MAX];
    uint32_t step_count;
    struct symphony_yaml_prepare prepare[PREPARE_STEPS_MAX];
    uint32_t prepare_count;
};

#define SYMPHONY_YAML_FILE "symphony.yaml"

/* Reads a symphony.yaml. -EINVAL with "PATH:LINE: KEY: sentence". Set-up only; any thread. */
int symphony_yaml_read(const char *path, struct symphony_yaml *yaml, struct sy_error *err);
/* Reads FOLDER/symphony.yaml if there is such a file; *found says whether there is. */
int symphony_yaml_read_folder(const char *folder, struct symphony_yaml *yaml, bool *found, struct sy_error *err);
