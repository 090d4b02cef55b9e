/* store.h - what profiling a model found, and the file it is kept in: JSON, meant to be read by people as well. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/data/profile.h"
#include "core/data/tensor.h"
#include "core/util/error.h"

#define PROFILE_POINTS_MAX 40

struct profile_record {
    /* what it is valid for */
    char of[4096];        /* sidecar_owner(): the model's path if others' records lie beside this one, else "" */
    char fingerprint[40]; /* of the model file and its weights */
    char engine[64];      /* "onnxruntime 1.31.1" */
    char accelerator[256];
    int64_t item_dims[TENSORS_MAX][TENSOR_DIMS_MAX]; /* of the profiled item's inputs, batch dimension 1 */
    uint32_t batch_asked;                            /* greatest batch that was wanted */
    char warmup[40];                                 /* warmup_fingerprint() of the samples that ran; "": none did */

    /* what was found */
    struct signature signature; /* as the file has it, before any configuration */
    bool judged;                /* it says what follows: records of before it was looked for do not */
    bool told;                  /* the configuration said that it may be batched */
    bool batched;               /* items are run together */
    char mixes[256];            /* how items that are run together change each other's outputs; "": it was shown that
                                   they do not, or they are not */
    uint32_t batch_max;         /* what the accelerator's memory and a bound on l(b) allow of what was asked for */
    uint32_t values;            /* how inputs were filled: input_values.step (values.h) */
    bool values_given;          /* some inputs had values of model_warmup or symphony.yaml */
    char note[256];             /* why it is not batched, or batch_max is less than asked for; "" */
    uint32_t point_count;
    uint32_t batch[PROFILE_POINTS_MAX];
    int64_t latency_ns[PROFILE_POINTS_MAX];
    uint64_t weights_bytes; /* the process's growth by loading the model and running one item */
    uint64_t batch_bytes;   /* further growth by the largest batch measured */
    int64_t load_ns;
    char cache[16]; /* the optimised model that load() finds: "prepacked", "ort", "none" */
};

/* Writes a record as a file, whole or not at all. */
int profile_store_save(const char *path, const struct profile_record *record, struct sy_error *err);
/* Reads one. -ENOENT if there is no file, -EINVAL and what is wrong if it is not a profile. */
int profile_store_load(const char *path, struct profile_record *record, struct sy_error *err);
/* JSON of a record and back, as a json_t (jansson), which is what the file holds. The caller releases what
 * profile_record_pack() returns; NULL: out of memory. */
struct json_t *profile_record_pack(const struct profile_record *record);
int profile_record_unpack(const struct json_t *json, const char *origin, struct profile_record *record,
                          struct sy_error *err);

/* Whether the record has the signature of a model, so that nobody needs to open the model to learn it. Those written by
 * hand have none. */
static inline bool profile_record_has_signature(const struct profile_record *record) {
    return record->signature.output_count > 0;
}

/* The table of a record for batches up to `batch_max`, which the caller frees; NULL: out of memory. Beyond the last
 * point measured an item costs what it costs there. */
struct profile *profile_from_record(const struct profile_record *record, uint32_t batch_max);
