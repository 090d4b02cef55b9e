/* served_model.h - a model as the server offers it: settings of the repository, completed from the model file.
 *
 * A model is one small record. Texts, tensors, labels, preparations and an ensemble's graph, to which the record
 * points, belong to its pool. What is in the pool does not change while others may read the model. Whoever has a record
 * gives it back with served_model_release(). A record that moves (served_model_move()) takes its pool along; two
 * records of one model (served_model_share()) hold one pool, and the last one that is released frees it.
 *
 *     repository_scan()      settings      -> profile_prepare(), for each type: tensors, batch_max, slo_ns -> served
 *     ensembles                            -> served_model_make_ensemble()                                -> served
 *     a cluster's frontend   model_description_read(): settings and tensors                               -> served
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/data/tensor.h"
#include "core/util/error.h"
#include "core/util/mem_pool.h"
#include "core/util/siphash.h"
#include "model/config/instance_groups.h"
#include "model/config/queue_rules.h"
#include "model/config/served_part.h"
#include "model/engine/op_libraries.h"

struct ensemble;
struct ensemble_plan;

enum model_state {
    MODEL_LOADING, /* clients are not told of the model yet */
    MODEL_READY,
    MODEL_UNAVAILABLE,
    MODEL_UNLOADING, /* only in lists: the model's last requests are being answered */
};

#define TYPE_NAME_MAX 64 /* bytes of the name of a type of accelerators, terminator included */

/* The accelerators of one type that run a model. */
struct served_on {
    const char *type; /* name of the type, as the server calls it; NULL: there is no such type */
    uint32_t count;   /* number of accelerators; 0: the model does not run on this type */
    bool gpu;         /* whether the type is a GPU, or stands for one (`emulated`) */
    bool emulated;
};

/* An input that the frontend makes of what a client sends, while the request waits (front/request/preparation.h). A
 * JPEG or PNG that is sent as a string becomes UINT8 [height,width,3]. A model of its own, whose file lies beside the
 * served model's, makes another tensor of that image, or of a tensor that the client sends. */
#define PREPARE_IMAGE_STEP     "decode_image"
#define PREPARE_ONNX_STEP      "onnx"
#define PREPARE_STEPS          PREPARE_IMAGE_STEP " and " PREPARE_ONNX_STEP
#define PREPARE_STEPS_MAX      (2 * TENSORS_MAX) /* steps of a model */
#define PREPARE_FILE_MAX       128               /* bytes of the name of a file, terminator included */
#define PREPARE_BYTES_DEFAULT  ((int64_t)16 << 20)
#define PREPARE_BYTES_MAX      ((int64_t)1 << 30)
#define PREPARE_PIXELS_DEFAULT ((int64_t)16 << 20)
#define PREPARE_PIXELS_MAX     ((int64_t)1 << 28)

/* Bytes of all files that prepare, of a model that is described to other processes. */
#define PREPARE_CARRIED_MAX ((uint32_t)2 << 20)

struct transform;

/* The contents of a file that prepares, in a process that describes the model to others, or was told of the model. */
struct prepared_file {
    uint32_t bytes;
    unsigned char data[];
};

struct served_preparation {
    uint32_t bytes_max;             /* most bytes of an image's file; 0: no image is decoded */
    uint32_t pixels_max;            /* most pixels of one image */
    char file[PREPARE_FILE_MAX];    /* file of the model that prepares; "": none does */
    uint32_t image_at, file_at;     /* numbers of the two steps in symphony.yaml, from 0 */
    uint32_t image_line, file_line; /* lines of the two steps in symphony.yaml */
    struct prepared_file *contents; /* contents of `file`; NULL: they are read where the file lies */
    struct transform *transform;    /* open file (preparations_open()) */
    bool lead;                      /* whether `file` takes and gives a batch dimension, which is 1 */
    uint32_t made_dim_count;        /* number of dimensions that `file` makes of an item, without the batch's */
    int64_t made_dims[TENSOR_DIMS_MAX];
};

struct served_model {
    struct mem_pool *memory; /* what the pointers below lead to, where nothing else is said */

    /* ---- found in the repository ---- */
    char name[MODEL_NAME_MAX];
    uint32_t version;   /* number of the version folder; 1 for a flat file */
    char platform[24];  /* "onnxruntime_onnx", "emulated" or "ensemble" */
    const char *path;   /* path of the model file; NULL: the model is emulated, an ensemble or another process's */
    const char *folder; /* folder of config.pbtxt and symphony.yaml; NULL: there are none */
    const char *profile_path; /* path of the profile in symphony.yaml; NULL: the profile is measured and cached */
    const struct op_libraries *op_libraries; /* libraries with the model's own operators; NULL: none */
    struct ensemble *ensemble;               /* graph of an ensemble; NULL: the model is none, and has a file */
    struct instance_groups instances;        /* kinds of accelerators that the model is to run on */
    struct queue_rules queue;
    double weight;              /* weight of the model's share under overload, relative to other models; 0 means 1 */
    bool pinned;                /* whether one accelerator keeps it, where memory is limited */
    bool best_effort;           /* whether requests without a timeout of their own have no SLO */
    bool batch_told;            /* whether the configuration says that items may be batched */
    struct signature signature; /* signature of the model itself */
    struct signature offered;   /* signature that clients see if inputs are prepared: served_model_offered() */
    tensor_set prepared;        /* inputs that are prepared; they have `preparations`, and differ in `offered` */
    struct served_preparation *preparations; /* [input_count] ways in which inputs are prepared (preparations.h); NULL:
                                                no input is prepared */
    int64_t (*reference_dims)[TENSOR_DIMS_MAX]; /* [input_count] dims of the profiled item, batch dimension 1; 0: open,
                                                   the profiler chooses */
    uint8_t *formats;                           /* [input_count] enum image_format (model_config.h) */
    const char **label_files;                   /* [output_count] files of labels, in `folder`; NULL: none */
    struct labels **labels;                     /* [output_count] labels, read from label_files; NULL: none */

    /* ---- decided when the model is prepared ---- */
    char contents[40]; /* fingerprint of the model file and its weights (model/engine/fingerprint.h); "" until the model
                          is profiled, and for an emulated model */
    const char *mixes; /* how items were seen to change each other's outputs in a model that is batched all the same;
                          NULL: they do not */
    uint32_t batch_max;  /* greatest batch, in items; 1 for a model without a batch dimension */
    uint32_t values;     /* way in which the profiler filled inputs: input_values.step (model/profile/values.h) */
    int64_t slo_ns;      /* default SLO; 0: not given, until one is chosen from the profile */
    bool slo_chosen;     /* whether slo_ns was chosen, since none was given */
    bool weights_shared; /* whether all sessions map the same file of weights */
    uint64_t weights_bytes, batch_bytes; /* memory of a session on a CPU; what the largest batch adds; 0: not known */
    int64_t load_ns;                 /* time to load the weights onto an emulated accelerator whose memory is limited */
    int64_t item_elements;           /* input elements of the profiled item, the unit of `work` with
                                        variable_shapes */
    struct siphash_key shape_secret; /* key of the hash that tells requests of different shapes apart */
    /* accelerators that the model runs on, by type (server/models/instances.h); the names are the server's own, or in
     * `memory` */
    struct served_on on[ACCELERATOR_TYPES_MAX];

    /* ---- of models that share their first layers; the group's, which outlives the model ---- */
    const struct served_part *part; /* part that is loaded; NULL: the whole file is loaded */
    /* [PART_SUFFIXES_MAX] places of a prefix's models, by the suffix that a request's card names; NULL: the model is no
     * prefix. An entry changes only while no request names it */
    const uint32_t *suffixes;
    uint32_t host;  /* place of the prefix, of a model with a suffix */
    uint8_t suffix; /* number of the suffix among those of its prefix */

    /* ---- changes while the model is served ---- */
    _Atomic bool lone; /* whether requests run one at a time: an output had more or fewer rows than its batch */
    _Atomic int state; /* enum model_state */
    char reason[512];  /* reason why the model is unavailable; written before `state` */
    _Atomic uint32_t items_max; /* in a cluster's frontend, the least of the backends' greatest batches, if less than
                                   batch_max; else 0 */
    _Atomic int64_t slo_cluster_ns; /* in a cluster's frontend, the SLO that the cluster has chosen; 0: slo_ns counts */
    _Atomic bool begins;    /* in a cluster's frontend, whether requests that name no version go to another version */
    _Atomic uint32_t share; /* in a cluster's frontend, parts of 10000 of these requests that go to this version, where
                               two versions share them; else 0 */
    _Atomic uint32_t turns; /* count of these requests (model_index_turn()) */
    _Atomic(struct ensemble_plan *) plan; /* plan of an ensemble: which steps run, and when they are due
                                             (front/request/ensemble_plan.h); ensemble_release() frees it */
};
_Static_assert(sizeof(struct served_model) < 2048, "a record is small; what may be long is in the pool");

/* The SLO that counts; 0: none was given, and none is chosen yet. */
static inline int64_t served_model_slo_ns(const struct served_model *model) {
    int64_t slo_ns = atomic_load_explicit(&model->slo_cluster_ns, memory_order_relaxed); /* a lone number */
    return slo_ns > 0 ? slo_ns : model->slo_ns;
}

/* Whether the place holds a prefix: the first layers of several models. No client asks for such a place. */
static inline bool served_model_is_prefix(const struct served_model *model) {
    return model->suffixes != NULL;
}

/* Whether the model has only a suffix: another place runs its first layers. */
static inline bool served_model_is_suffix(const struct served_model *model) {
    return model->part && !model->suffixes;
}

/* Whether the scheduler has a queue for the model. Ensembles have none, nor have models whose prefix is scheduled. */
static inline bool served_model_is_scheduled(const struct served_model *model) {
    return !model->ensemble && !served_model_is_suffix(model);
}

/* Takes the batch dimension away: requests may then differ in it as in any other dimension. */
void signature_unbatch(struct signature *signature);

/* The greatest number of items that a request may have. */
static inline uint32_t served_model_items_max(const struct served_model *model) {
    uint32_t most = atomic_load_explicit(&model->items_max, memory_order_relaxed); /* a lone number */
    return most && most < model->batch_max ? most : model->batch_max;
}

/* The signature of the file that is loaded. *dims: the dims of its inputs, of the profiled item. */
static inline const struct signature *served_model_loaded(const struct served_model *model,
                                                          int64_t (**dims)[TENSOR_DIMS_MAX]) {
    *dims = model->part ? model->part->dims : model->reference_dims;
    return model->part ? &model->part->signature : &model->signature;
}

/* The signature that clients see; for prepared inputs it has what clients send. */
static inline const struct signature *served_model_offered(const struct served_model *model) {
    return model->prepared ? &model->offered : &model->signature;
}

/* Hands a model over to `to`, which holds none. `from` keeps its name and version, but holds no model. */
void served_model_move(struct served_model *to, struct served_model *from);
/* Makes `to`, which holds no model, a second record of a model that is not served yet. */
void served_model_share(struct served_model *to, const struct served_model *from);
/* Gives a model back. Its record then holds none. */
void served_model_release(struct served_model *model);
/* As served_model_release(), of `count` models, whose array is freed, too. */
void served_models_free(struct served_model *models, uint32_t count);

/* Completes a model that repository_scan() found: checks its configuration against `signature`, and fills signature,
 * batch_max, reference_dims, item_elements, and what is prepared. `signature` is that of the model file
 * (engine_ops.signature; a broken file may crash the engine, so read it in a child process). -EINVAL for a mismatch,
 * with both values; the model is then as it was. */
int served_model_apply(struct served_model *model, const struct signature *signature, struct sy_error *err);
/* Gives a model a copy of a complete signature, and room for what there is of each tensor. -ENOMEM with a sentence. */
int served_model_tensors_set(struct served_model *model, const struct signature *signature, struct sy_error *err);

struct model_config;
/* As served_model_apply(), for an ensemble, which has no file. Takes over config->ensemble, adds what symphony.yaml
 * says, and fills signature and batch_max. -EINVAL with a sentence; config->ensemble is then as it was. */
int served_model_make_ensemble(struct served_model *model, struct model_config *config, struct sy_error *err);
/* Takes over the graph of an ensemble. -ENOMEM with a sentence; the graph is then still the caller's. */
int served_model_ensemble_take(struct served_model *model, struct ensemble *ensemble, struct sy_error *err);

/* Reads the labels of a completed model that is to be served. -errno with a sentence. */
int served_model_labels_read(struct served_model *model, struct sy_error *err);
/* Takes over the labels of an output; NULL is allowed. -ENOMEM with a sentence: the labels are freed. */
int served_model_labels_take(struct served_model *model, uint32_t output, struct labels *labels, struct sy_error *err);

/* Bytes of one item's inputs, for the profiled shape if shapes vary. */
double served_model_item_bytes(const struct served_model *model);

/* Draws shape_secret; without randomness the model becomes unavailable. Call it before anybody asks for the model. */
void served_model_draw_secret(struct served_model *model);

/* Makes the model unavailable, with the sentence as its reason. Call it before other threads see the model. */
void served_model_refuse(struct served_model *model, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A number for the model's name and version, the key of its places (model/repository/model_life.h). Never 0. */
uint64_t served_model_key(const struct served_model *model);
/* The model's enum model_state. After the call `reason` may be read. Any thread. */
int served_model_state(const struct served_model *model);
