/* store.h - the record of what profiling a model found, and its file: JSON, meant to be read by people as well. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/data/profile.h"
#include "core/data/tensor.h"
#include "core/util/error.h"

#define PROFILE_POINTS_MAX 40

struct profile_record {
    /* what the record is valid for */
    char of[4096];        /* sidecar_owner(): path of the model; "": the record lies beside the model */
    char fingerprint[40]; /* fingerprint of the model file and its weights */
    char graph[40];       /* graph_fingerprint() of the model; "": not known, or its profile is of no use for others */
    char engine[64];      /* name and version of the engine: "onnxruntime 1.31.1" */
    char accelerator[256];
    int64_t item_dims[TENSORS_MAX][TENSOR_DIMS_MAX]; /* dims of the profiled item's inputs, batch dimension 1 */
    uint32_t batch_asked;                            /* greatest batch that was wanted */
    char warmup[40];                                 /* warmup_fingerprint() of the samples that ran; "": none did */

    /* what was found */
    struct signature_room file; /* signature of the file, before any configuration; signature_room_open() */
    bool judged;                /* whether the record has `told` to `mixes`, which a record may lack */
    bool told;                  /* whether the configuration said that items may be batched */
    bool batched;               /* whether items are run together */
    char mixes[256]; /* how items that are run together change each other's outputs; "": they were shown not to, or are
                        not run together */
    uint32_t batch_max; /* greatest batch that the accelerator's memory and a bound on l(b) allow, up to batch_asked */
    uint32_t values;    /* way in which inputs were filled: input_values.step (values.h) */
    bool values_given;  /* whether some inputs had values of model_warmup or symphony.yaml */
    char note[256];     /* reason why items are not batched, or batch_max is less than batch_asked; "": neither */
    uint32_t point_count;
    uint32_t batch[PROFILE_POINTS_MAX];
    int64_t latency_ns[PROFILE_POINTS_MAX];
    uint64_t weights_bytes; /* growth of the process by loading the model and running one item */
    uint64_t batch_bytes;   /* further growth by the largest batch that was measured */
    int64_t load_ns;
    char cache[16]; /* form of the optimised model that load() finds: "prepacked", "ort", "none" */
};

/* Writes a record as a file, whole or not at all. */
int profile_store_save(const char *path, const struct profile_record *record, struct sy_error *err);
/* Reads a record from a file. -ENOENT: there is no file; -EINVAL: the file is no profile, and the sentence says what is
 * wrong. */
int profile_store_load(const char *path, struct profile_record *record, struct sy_error *err);
/* Turn a record into the JSON (a json_t of jansson) that the file holds, and back. The caller releases what
 * profile_record_pack() returns; NULL: out of memory. */
struct json_t *profile_record_pack(const struct profile_record *record);
int profile_record_unpack(const struct json_t *json, const char *origin, struct profile_record *record,
                          struct sy_error *err);

/* Whether the record has the model's signature, so that nobody needs to open the model to learn it. Records that people
 * wrote have none. */
static inline bool profile_record_has_signature(const struct profile_record *record) {
    return record->file.signature.output_count > 0;
}

/* The table of a record for batches up to `batch_max`. The caller frees it; NULL: out of memory. Beyond the last
 * measured point each item costs what it costs at that point. */
struct profile *profile_from_record(const struct profile_record *record, uint32_t batch_max);
