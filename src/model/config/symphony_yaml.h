/* symphony_yaml.h - a model folder's symphony.yaml: what Symphony wants to know that Triton's config.pbtxt lacks. */
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
    uint32_t rank;
    int64_t dims[TENSOR_DIMS_MAX]; /* positive; without the batch dimension */
};

/* Values of an input, of one item, as they are written. */
struct symphony_yaml_sample {
    char input[TENSOR_NAME_MAX];
    uint32_t line, count;
    char texts[SAMPLE_TEXT_MAX]; /* `count` strings, each terminated */
};

/* Of an ensemble. */
struct symphony_yaml_step {
    char step[MODEL_NAME_MAX];                             /* the number in config.pbtxt, or the model */
    char for_each[TENSOR_NAME_MAX], when[TENSOR_NAME_MAX]; /* tensors; "": not given */
    int64_t limit;                                         /* of for_each; 0: not given */
    bool beyond_given;
    enum ensemble_beyond beyond;
    uint32_t line;
};

/* A step by which an input is made of what clients send (served_model.h). */
struct symphony_yaml_prepare {
    char input[TENSOR_NAME_MAX];   /* "": the model's only one */
    char step[32];                 /* PREPARE_IMAGE_STEP or PREPARE_ONNX_STEP */
    int64_t max_bytes, max_pixels; /* of an image; 0: not given */
    char model[PREPARE_FILE_MAX];  /* of ONNX: the file's name */
    uint32_t line;
};

struct symphony_yaml {
    char path[4096];                                /* of the file, for mistakes */
    int64_t slo_ns;                                 /* 0: not given */
    bool best_effort;                               /* slo_ms: none */
    int64_t batch_max;                              /* 0: not given */
    bool batch_given, batch;                        /* whether items of several requests are run together */
    double weight;                                  /* 0: not given */
    char profile_path[4096];                        /* resolved against the file's folder; "": not given */
    struct symphony_yaml_shape shapes[TENSORS_MAX]; /* of the item that is profiled */
    uint32_t shape_count;
    struct symphony_yaml_sample samples[TENSORS_MAX]; /* what inputs hold while the model is measured */
    uint32_t sample_count;
    struct symphony_yaml_step steps[ENSEMBLE_STEPS_MAX];
    uint32_t step_count;
    struct symphony_yaml_prepare prepare[PREPARE_STEPS_MAX];
    uint32_t prepare_count;
};

#define SYMPHONY_YAML_FILE "symphony.yaml"

/* Reads a file. -EINVAL with "PATH:LINE: KEY: sentence". Set-up only; any thread. */
int symphony_yaml_read(const char *path, struct symphony_yaml *yaml, struct sy_error *err);
/* Reads FOLDER/symphony.yaml if there is one; *found says. */
int symphony_yaml_read_folder(const char *folder, struct symphony_yaml *yaml, bool *found, struct sy_error *err);
