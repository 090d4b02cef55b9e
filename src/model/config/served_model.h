/* served_model.h - a model as the server offers it: what the repository says completed by what the model file says. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/data/tensor.h"
#include "core/util/error.h"
#include "core/util/siphash.h"
#include "model/config/instance_groups.h"
#include "model/config/queue_rules.h"
#include "model/config/served_part.h"
#include "model/engine/op_libraries.h"

struct ensemble;
struct ensemble_plan;

enum model_state {
    MODEL_LOADING, /* nobody is told of it yet */
    MODEL_READY,
    MODEL_UNAVAILABLE,
    MODEL_UNLOADING, /* in lists: its last requests are being answered */
};

#define TYPE_NAME_MAX 64 /* bytes of the name of a type of accelerators, terminator included */

/* The accelerators of one type that run a model. */
struct served_on {
    char type[TYPE_NAME_MAX]; /* the server's */
    uint32_t count;           /* 0: it does not run on this type */
    bool gpu;                 /* a GPU, or stands for one (`emulated`) */
    bool emulated;
};

/* An input that the frontend makes of what a client sends, while the request waits (front/request/preparation.h). A
 * JPEG or PNG, sent as a string, becomes UINT8 [height,width,3]; a model of its own, which lies beside the model, makes
 * another tensor of that, or of a tensor that the client sends. */
#define PREPARE_IMAGE_STEP     "decode_image"
#define PREPARE_ONNX_STEP      "onnx"
#define PREPARE_STEPS          PREPARE_IMAGE_STEP " and " PREPARE_ONNX_STEP
#define PREPARE_STEPS_MAX      (2 * TENSORS_MAX) /* of a model */
#define PREPARE_FILE_MAX       128               /* bytes of the name of a file, terminator included */
#define PREPARE_BYTES_DEFAULT  ((int64_t)16 << 20)
#define PREPARE_BYTES_MAX      ((int64_t)1 << 30)
#define PREPARE_PIXELS_DEFAULT ((int64_t)16 << 20)
#define PREPARE_PIXELS_MAX     ((int64_t)1 << 28)

#define PREPARE_CARRIED_MAX ((uint32_t)2 << 20) /* bytes of all such files of a model that is described to others */

struct transform;

/* The bytes of a file that prepares, in a process that describes its model to others, or was told of it. */
struct prepared_file {
    uint32_t bytes;
    unsigned char data[];
};

struct served_preparation {
    uint32_t bytes_max;             /* of an image's file; 0: it begins with what the client sends */
    uint32_t pixels_max;            /* of one image */
    char file[PREPARE_FILE_MAX];    /* of the model that prepares; "": none does */
    uint32_t image_at, file_at;     /* which steps of symphony.yaml these are, */
    uint32_t image_line, file_line; /* and in which lines: for mistakes */
    struct prepared_file *contents; /* the file's, if they are not read where it lies; NULL: they are */
    struct transform *transform;    /* the open file (preparations_open()) */
    bool lead;                      /* it takes and gives a batch dimension, which is 1 */
    uint32_t made_rank;             /* what it makes of an item, without that dimension */
    int64_t made_dims[TENSOR_DIMS_MAX];
};

struct served_model {
    char name[MODEL_NAME_MAX];
    uint32_t version;   /* the number of its folder; 1 for a flat file */
    char path[4096];    /* the model file; "" for an emulated model */
    char folder[4096];  /* where its config.pbtxt and symphony.yaml lie, if it has them; "" for a flat file */
    char platform[64];  /* "onnxruntime_onnx", or "emulated" */
    char contents[40];  /* fingerprint of the model file and its weights (model/engine/fingerprint.h); "" until it is
                         * profiled,  and for an emulated model */
    bool batch_told;    /* the configuration says that its items may be batched */
    char mixes[256];    /* how items of a batch change each other's outputs, which was
                           seen, but batched it is; "": they do not */
    uint32_t batch_max; /* items a batch; 1 for a model without a batch dimension */
    _Atomic uint32_t items_max; /* of a cluster's frontend: the greatest batch of the backend whose greatest batch is
                                   smallest, if that is less; else 0. It may change while the model is served */
    int64_t slo_ns;             /* default SLO; 0: not given (then chosen from the profile) */
    bool slo_chosen;            /* slo_ns was chosen, since none was given */
    bool best_effort;           /* requests without a timeout of their own have no SLO */
    struct queue_rules queue;
    struct instance_groups instances; /* where it is to run, */
    struct served_on
        on[ACCELERATOR_TYPES_MAX];        /* and by type of accelerator where it does (server/process/instances.h) */
    uint64_t weights_bytes, batch_bytes;  /* memory of a CPU's session, and what its largest batch adds; 0: not known */
    bool weights_shared;                  /* sessions map the same file */
    struct ensemble *ensemble;            /* its steps are other models', and it has no file; NULL: it has one.
                                           * Whoever holds the model frees it; a copy made with memcpy does not own it
                                           * unless the original is given up */
    _Atomic(struct ensemble_plan *) plan; /* of an ensemble that is served: which steps run, and when they are due
                                           * (front/request/ensemble_plan.h) */
    struct served_part
        *part; /* what is loaded of it, if its first layers are shared; NULL: its whole file. Not owned */
    const uint32_t
        *suffixes;  /* of a prefix: [PART_SUFFIXES_MAX] the places of its models, by the suffix that a request's card
                       names; NULL: it is no prefix. An entry changes only while no request names it */
    uint32_t host;  /* of a model with a suffix: the place of its prefix, */
    uint8_t suffix; /* and its number there */
    double weight;  /* of its share under overload, relative to other models; 0 means 1 */
    char profile_path[4096];          /* from symphony.yaml; "": measured and cached */
    struct op_libraries op_libraries; /* with operators of its own */
    int64_t item_elements; /* input elements of the profiled item; with variable_shapes the measure of `work` */
    uint32_t values;       /* how the profiler filled inputs: input_values.step (model/profile/values.h) */
    struct siphash_key shape_secret; /* key of the hash that tells requests of different shapes apart */
    _Atomic bool lone;   /* an output had another number of rows than its batch: requests run one at a time */
    _Atomic int state;   /* enum model_state */
    char reason[512];    /* why it is unavailable; written before `state` */
    tensor_set prepared; /* inputs that are prepared: preparations, offered */
    /* What is found in the model file. Of the arrays only so much is ever touched as the model has inputs and outputs
     * (served_model_copy()). */
    struct signature signature;                           /* of the model itself */
    int64_t reference_dims[TENSORS_MAX][TENSOR_DIMS_MAX]; /* inputs' dims of the profiled item (batch dimension 1); 0:
                                                           * open, the profiler chooses */
    uint8_t formats[TENSORS_MAX];                         /* of inputs: enum image_format (model_config.h) */
    struct labels *labels[TENSORS_MAX];                   /* read from label_files; NULL: none */
    char label_files[TENSORS_MAX][128];                   /* of outputs, in `folder`; "": none */
    struct served_preparation preparations[TENSORS_MAX];  /* how inputs are prepared (preparations.h), */
    struct signature offered;                             /* and what clients see then: served_model_offered() */
};

/* A place that holds the shared layers of others; no client asks for it. */
static inline bool served_model_is_prefix(const struct served_model *model) {
    return model->suffixes != NULL;
}

/* A model whose first layers are another place's. */
static inline bool served_model_is_suffix(const struct served_model *model) {
    return model->part && !model->suffixes;
}

/* Whether the scheduler has a queue for it: not for ensembles, nor for models that are scheduled with their prefix. */
static inline bool served_model_is_scheduled(const struct served_model *model) {
    return !model->ensemble && !served_model_is_suffix(model);
}

/* Takes the batch dimension away: requests may differ in it as in any other. */
void signature_unbatch(struct signature *signature);

/* Most items that a request may have. */
static inline uint32_t served_model_items_max(const struct served_model *model) {
    uint32_t most = atomic_load_explicit(&model->items_max, memory_order_relaxed); /* a lone number */
    return most && most < model->batch_max ? most : model->batch_max;
}

/* What the loaded file takes and gives, and its inputs of the profiled item. */
static inline const struct signature *served_model_loaded(struct served_model *model,
                                                          int64_t (**dims)[TENSOR_DIMS_MAX]) {
    *dims = model->part ? model->part->dims : model->reference_dims;
    return model->part ? &model->part->signature : &model->signature;
}

/* The signature as clients see it, with what they send for prepared inputs. */
static inline const struct signature *served_model_offered(const struct served_model *model) {
    return model->prepared ? &model->offered : &model->signature;
}

/* Completes a model that repository_scan() found with the signature that its file has (engine_ops.signature, which a
 * broken file may crash: read it in a child process): checks the configuration against it and fills signature,
 * batch_max, reference_dims, item_elements, and what is prepared. -EINVAL for a mismatch, with both values; `model` is
 * then as it was. */
int served_model_apply(struct served_model *model, const struct signature *signature, struct sy_error *err);

/* Copies what a model has. `to` is zeros, or a model whose labels and preparations were freed. */
void served_model_copy(struct served_model *to, const struct served_model *from);

struct model_config;
/* The same for an ensemble, which has no file: takes over config->ensemble, adds what symphony.yaml says and fills
 * signature and batch_max. -EINVAL with a sentence; config->ensemble is then as it was. */
int served_model_make_ensemble(struct served_model *model, struct model_config *config, struct sy_error *err);
/* Frees the ensembles of `count` models that are given up, before the array itself. */
void served_model_ensembles_free(struct served_model *models, uint32_t count);

/* Reads the labels of a completed model that is to be served. -errno with a sentence. */
int served_model_labels_read(struct served_model *model, struct sy_error *err);
void served_model_labels_free(struct served_model *model);

/* Bytes of one item's inputs, for the profiled shape if shapes vary. */
double served_model_item_bytes(const struct served_model *model);

/* Draws shape_secret; without randomness the model becomes unavailable. Before anybody asks for the model. */
void served_model_draw_secret(struct served_model *model);

/* Makes the model unavailable; the sentence is its reason. Before other threads see the model. */
void served_model_refuse(struct served_model *model, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Its enum model_state; `reason` may be read after it. Any thread. */
int served_model_state(const struct served_model *model);
