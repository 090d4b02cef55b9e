/* infer_call.h - what an infer request asks for, whatever it was written in, checked against the model it is for.
 *
 * Pure: no clock, no I/O, no state; any thread. A reader of one wire format names the inputs and outputs as it meets
 * them; what is wrong is the client's mistake: one clear sentence, and the status to answer it with. Statuses are
 * HTTP's throughout the frontends (400, 404, 413, 415, 500, 501, 503); grpc_status.h says what gRPC makes of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "repository/served_model.h"
#include "tensor/tensor.h"

#define INFER_TENSOR_BYTES_MAX ((int64_t)1 << 32)

/* Of an input whose bytes are not those of its shape and datatype: its name, the model's, and then both. Sentences
 * about requests begin as Triton's do, which clients look for. */
#define INFER_MISMATCH "input byte size mismatch for input '%.64s' for model '%.64s'. Expected"

/* Where a reader gets memory for inputs that cannot stay where they were received. At most one call an input. NULL:
 * there is none. The caller frees it when the request is over. */
struct infer_memory {
    void *(*take)(void *context, size_t bytes);
    void *context;
};

/* A tensor's place in shared memory, as the request gives it. */
struct infer_shared {
    const char *region; /* name, in the body; NULL: the tensor is not in shared memory */
    size_t region_length;
    uint64_t offset, bytes;
};

struct infer_output {
    uint32_t index;                   /* in the signature */
    bool binary;                      /* of an answer in JSON: beside it */
    bool classified;                  /* its highest classes are wanted (classify.h) */
    uint32_t classes;                 /* how many of each item */
    size_t classes_at, classes_bytes; /* those made, in the call's `classes` */
    struct infer_shared shared;
};

struct infer_call {
    struct tensor_view inputs[TENSORS_MAX];   /* in the signature's order; data lie in the body or in taken memory */
    struct infer_output outputs[TENSORS_MAX]; /* wanted, in the order to answer in */
    uint32_t output_count;
    struct infer_shared shared[TENSORS_MAX]; /* of inputs; those in `inputs_shared` */
    uint32_t inputs_named, outputs_named;    /* bits by the signature's index */
    uint32_t inputs_shared;                  /* their data are not read yet */
    uint32_t items;
    uint64_t shape_key; /* 0 for models of one shape, never 0 for others */
    float work;         /* 1 for models of one shape */
    int64_t timeout_us; /* 0: not given */
    uint64_t priority;  /* as Triton counts: 1 is the highest; 0: not given */
    bool best_effort;   /* it has no SLO; `timeout` is how long it waits for a gap */
    const char *id;     /* as it stands in the body; NULL: none given */
    size_t id_length;
    bool classified;     /* some output is */
    const char *classes; /* BYTES of those outputs; NULL: not made yet */
};

void infer_call_begin(struct infer_call *call);

/* Each: 0 or a status with a sentence; then `call` is undefined. */

/* An input of this name comes: which one it is. */
int infer_call_input(struct infer_call *call, const struct served_model *model, const char *name, size_t length,
                     uint32_t *index, struct sy_error *err);
/* The name of a datatype: which one it is. */
int infer_call_datatype(const char *name, size_t length, enum datatype *type, struct sy_error *err);
/* Its type and shape: the view's rank, dims and bytes (of BYTES the least they can be) are set. */
int infer_call_shape(struct infer_call *call, const struct served_model *model, uint32_t index, enum datatype type,
                     const int64_t *dims, uint32_t rank, struct sy_error *err);
/* Its data, as they came: whether they are what its type and shape take. */
int infer_call_data(struct infer_call *call, const struct served_model *model, uint32_t index, void *data, size_t bytes,
                    struct sy_error *err);
/* Its data are in shared memory; once they are read, infer_call_data() is due. */
int infer_call_shared(struct infer_call *call, const struct served_model *model, uint32_t index,
                      const struct infer_shared *shared, struct sy_error *err);
/* An output of this name is asked for. */
int infer_call_output(struct infer_call *call, const struct served_model *model, const char *name, size_t length,
                      struct infer_output **output, struct sy_error *err);
/* Its highest classes are asked for; 0: the output itself. */
int infer_call_classify(struct infer_call *call, const struct served_model *model, struct infer_output *output,
                        int64_t classes, struct sy_error *err);
/* `timeout`, microseconds. */
int infer_call_timeout(struct infer_call *call, int64_t timeout_us, struct sy_error *err);
/* `priority`; negative: it was no whole number. */
int infer_call_priority(struct infer_call *call, int64_t priority, struct sy_error *err);
/* The request is complete: all inputs are there, but for optional ones, whose views then have no data, and of one
 * batch; all outputs if none was asked for. */
int infer_call_finish(struct infer_call *call, const struct served_model *model, struct sy_error *err);

/* What an output is answered as. */
enum datatype infer_output_type(const struct served_model *model, const struct infer_output *wanted);
/* A request's part of an output of its batch: its items, or all of it when the model has no batch dimension; or the
 * classes made of that. 0 or -EINVAL: the outputs are not what the signature says. */
int infer_output_slice(struct tensor_view *part, const struct served_model *model, const struct infer_call *call,
                       const struct infer_output *wanted, const struct tensor_view *outputs, uint32_t output_count,
                       uint32_t first_item, struct sy_error *err);
