/* infer_call.h - what an infer request asks for, in whichever wire format it came, checked against its model.
 *
 * Pure: no clock, no I/O, no state; any thread. The reader of a wire format calls these functions as it meets inputs
 * and outputs. What is wrong is the client's mistake: it gets one clear sentence and a status. All frontends use HTTP's
 * statuses (400, 404, 413, 415, 500, 501, 503); grpc_status.h says what gRPC makes of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/data/tensor.h"
#include "core/util/error.h"
#include "model/config/served_model.h"

struct shared_region;

#define INFER_TENSOR_BYTES_MAX ((int64_t)1 << 32)
#define INFER_FEW              16 /* inputs, and outputs, that find room in a call itself */

/* For an input whose bytes do not fit its shape and datatype: the input's name, the model's, then both numbers of
 * bytes. Sentences about requests begin as Triton's do: clients look for that. */
#define INFER_MISMATCH "input byte size mismatch for input '%.64s' for model '%.64s'. Expected"

/* Where a reader gets memory for inputs that cannot stay where they were received, and for what is known of many of
 * them. At most one call an input, and one more. NULL: no memory. The reader's caller frees it when the request is
 * over. */
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
    bool binary;                      /* in binary behind an answer's JSON */
    bool classified;                  /* its highest classes are wanted (classify.h) */
    uint32_t classes;                 /* how many an item */
    size_t classes_at, classes_bytes; /* where they lie in the call's `classes`, once made */
    struct infer_shared shared;
    struct shared_region *held; /* that region; for inference.c */
};

struct infer_call {
    uint32_t output_count;
    tensor_set inputs_named, outputs_named;
    tensor_set inputs_shared; /* inputs in shared memory, whose data are not read yet */
    uint32_t items;
    uint64_t shape_key; /* 0 for models of one shape, never 0 for others */
    float work;         /* 1 for models of one shape */
    int64_t timeout_us; /* 0: not given */
    uint64_t priority;  /* as Triton counts: 1 is the highest; 0: not given */
    bool best_effort;   /* it has no SLO; `timeout` is how long it waits for free time */
    const char *id;     /* as it stands in the body; NULL: none given */
    size_t id_length;
    bool classified;     /* some output is classified */
    const char *classes; /* of those outputs, as BYTES; NULL: not made yet */
    /* One behind the other, for as many inputs and outputs as the model has: */
    struct tensor_view *inputs;   /* in the signature's order, as clients see it (served_model_offered()); data lie in
                                   * the body or in taken memory */
    struct infer_output *outputs; /* those wanted, in the order of the answer */
    struct infer_shared *shared;  /* places of the inputs in `inputs_shared` */
    _Alignas(8) char few[INFER_FEW *
                         (sizeof(struct tensor_view) + sizeof(struct infer_output) + sizeof(struct infer_shared))];
};

/* What an infer_call takes beside itself; 0: nothing. */
size_t infer_call_room(const struct served_model *model);

/* Each returns 0, or a status with a sentence; after a status the content of `call` is undefined. */

/* The call stays where it is from then on. `memory` gives the room that the model needs. */
int infer_call_begin(struct infer_call *call, const struct served_model *model, struct infer_memory memory,
                     struct sy_error *err);
/* Finds the input of this name, whose data come next. */
int infer_call_input(struct infer_call *call, const struct served_model *model, const char *name, size_t length,
                     uint32_t *index, struct sy_error *err);
/* Finds the datatype of this name. */
int infer_call_datatype(const char *name, size_t length, enum datatype *type, struct sy_error *err);
/* Checks an input's type and shape, and sets its view's rank, dims and bytes (of BYTES: the least possible). */
int infer_call_shape(struct infer_call *call, const struct served_model *model, uint32_t index, enum datatype type,
                     const int64_t *dims, uint32_t rank, struct sy_error *err);
/* Checks that an input's data fit its type and shape. */
int infer_call_data(struct infer_call *call, const struct served_model *model, uint32_t index, void *data, size_t bytes,
                    struct sy_error *err);
/* An input's data lie in shared memory. Call infer_call_data() once they are read. */
int infer_call_shared(struct infer_call *call, const struct served_model *model, uint32_t index,
                      const struct infer_shared *shared, struct sy_error *err);
/* The client asks for the output of this name. */
int infer_call_output(struct infer_call *call, const struct served_model *model, const char *name, size_t length,
                      struct infer_output **output, struct sy_error *err);
/* The client asks for so many of an output's highest classes; 0: for the output itself. */
int infer_call_classify(struct infer_call *call, const struct served_model *model, struct infer_output *output,
                        int64_t classes, struct sy_error *err);
/* `timeout`, microseconds. */
int infer_call_timeout(struct infer_call *call, int64_t timeout_us, struct sy_error *err);
/* `priority`; negative: the client gave no whole number. */
int infer_call_priority(struct infer_call *call, int64_t priority, struct sy_error *err);
/* The request is complete: checks that all inputs are there and have the same number of items. The views of optional
 * inputs that are missing have no data. If no output was asked for, all are. */
int infer_call_finish(struct infer_call *call, const struct served_model *model, struct sy_error *err);

/* Sets shape_key and work by the inputs' shapes. infer_call_finish() does it; call it again when prepared inputs have
 * replaced those that the client sent. */
void infer_call_shapes(struct infer_call *call, const struct served_model *model);

/* The datatype that an output is answered in. */
enum datatype infer_output_type(const struct served_model *model, const struct infer_output *wanted);
/* A request's part of an output of its batch: its items, or the whole output if the model has no batch dimension or
 * `first_item` is ITEMS_WHOLE, or the classes made of that. 0 or -EINVAL: the outputs are not what the signature says.
 */
int infer_output_slice(struct tensor_view *part, const struct served_model *model, const struct infer_call *call,
                       const struct infer_output *wanted, const struct tensor_view *outputs, uint32_t output_count,
                       uint32_t first_item, struct sy_error *err);
