/* infer_call.h - what an infer request asks for, in whichever wire format it came, checked against its model.
 *
 * Pure: no clock, no I/O, no state; any thread. The reader of a wire format calls these functions as it meets inputs
 * and outputs. Any fault is the client's mistake: the client gets one clear sentence and a status. All frontends use
 * HTTP's statuses (400, 404, 413, 415, 500, 501, 503); grpc_status.h says what gRPC makes of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/data/tensor.h"
#include "core/util/error.h"
#include "model/config/served_model.h"

struct shared_region;

#define INFER_TENSOR_BYTES_MAX ((int64_t)1 << 32)
#define INFER_FEW              16 /* inputs and outputs for which there is room in struct infer_call itself */

/* Sentence for an input whose bytes do not fit its shape and datatype: the names of input and model, then both numbers
 * of bytes. Sentences about requests begin as Triton's do, since clients look for these. */
#define INFER_MISMATCH "input byte size mismatch for input '%.64s' for model '%.64s'. Expected"

/* Memory for inputs that cannot stay where they were received, and for the views of many inputs. take() is called at
 * most once for each input, and once more; it returns NULL without memory. The reader's caller frees the memory when
 * the request is over. */
struct infer_memory {
    void *(*take)(void *context, size_t bytes);
    void *context;
};

/* A tensor's place in shared memory, as the request gives it. */
struct infer_shared {
    const char *region; /* name of the region, in the body; NULL: the tensor is not in shared memory */
    size_t region_length;
    uint64_t offset, bytes;
};

struct infer_output {
    uint32_t index;                   /* number of the output in the signature */
    bool binary;                      /* the output goes out in binary, behind the answer's JSON */
    bool classified;                  /* the client asked for the highest classes (classify.h) */
    uint32_t classes;                 /* highest classes for each item */
    size_t classes_at, classes_bytes; /* place of the output's classes in the call's `classes` */
    struct infer_shared shared;
    struct shared_region *held; /* region of `shared`, with a reference; for inference.c */
};

struct infer_call {
    uint32_t output_count;
    tensor_set inputs_named, outputs_named; /* inputs, outputs that the request names */
    tensor_set inputs_shared;               /* inputs in shared memory, whose data are not read yet */
    uint32_t items;                         /* rows of the batch dimension; 1 for models without one */
    uint64_t shape_key; /* hash of the inputs' dimensions but the batch; 0: the model has one shape only */
    float work;         /* elements of an item's inputs, divided by the profiled item's; 1 for models of one shape */
    int64_t timeout_us; /* `timeout` of the request; 0: not given */
    uint64_t priority;  /* `priority` of the request, 1 the highest as in Triton; 0: not given */
    bool trail;         /* the client wants its request's times with the answer */
    bool best_effort;   /* the request has no SLO; `timeout` is the longest wait for free time */
    const char *id;     /* id of the request, as it stands in the body; NULL: none given */
    size_t id_length;
    bool classified;     /* at least one output is classified */
    const char *classes; /* classes of all classified outputs, as BYTES; NULL: not made yet */
    /* Three arrays one behind the other, in `few` or in taken memory, for all inputs and outputs of the model: */
    struct tensor_view *inputs; /* inputs in the order of the signature that clients see (served_model_offered()); data
                                   lie in the body or in taken memory */
    struct infer_output *outputs; /* [output_count] outputs of the answer, in its order */
    struct infer_shared *shared;  /* places of the inputs in `inputs_shared` */
    _Alignas(8) char few[INFER_FEW *
                         (sizeof(struct tensor_view) + sizeof(struct infer_output) + sizeof(struct infer_shared))];
};

/* Bytes that an infer_call takes from infer_memory; 0: none. */
size_t infer_call_room(const struct served_model *model);

/* Each of the next functions returns 0, or a status with a sentence; `call` is undefined after a status. */

/* Begins a call, which must not be moved afterwards. Takes infer_call_room() bytes of `memory`. */
int infer_call_begin(struct infer_call *call, const struct served_model *model, struct infer_memory memory,
                     struct sy_error *err);
/* Finds the input of this name, whose data come next. */
int infer_call_input(struct infer_call *call, const struct served_model *model, const char *name, size_t length,
                     uint32_t *index, struct sy_error *err);
/* Finds the datatype of this name. */
int infer_call_datatype(const char *name, size_t length, enum datatype *type, struct sy_error *err);
/* Checks an input's type and shape, and sets its view's dim_count, dims and bytes (for BYTES: the least possible
 * number). */
int infer_call_shape(struct infer_call *call, const struct served_model *model, uint32_t index, enum datatype type,
                     const int64_t *dims, uint32_t dim_count, struct sy_error *err);
/* Checks that an input's data fit its type and shape. */
int infer_call_data(struct infer_call *call, const struct served_model *model, uint32_t index, void *data, size_t bytes,
                    struct sy_error *err);
/* Notes that an input's data lie in shared memory. Call infer_call_data() once they are read. */
int infer_call_shared(struct infer_call *call, const struct served_model *model, uint32_t index,
                      const struct infer_shared *shared, struct sy_error *err);
/* The client asks for the output of this name. */
int infer_call_output(struct infer_call *call, const struct served_model *model, const char *name, size_t length,
                      struct infer_output **output, struct sy_error *err);
/* The client asks for the `classes` highest classes of an output; 0: for the output itself. */
int infer_call_classify(struct infer_call *call, const struct served_model *model, struct infer_output *output,
                        int64_t classes, struct sy_error *err);
/* Sets the request's `timeout`. */
int infer_call_timeout(struct infer_call *call, int64_t timeout_us, struct sy_error *err);
/* Sets the request's `priority`; negative: the client gave no whole number. */
int infer_call_priority(struct infer_call *call, int64_t priority, struct sy_error *err);
/* The request is complete: checks that all inputs are there and have the same number of items. The views of optional
 * inputs that are missing have no data. If the client asked for no output, it gets all. */
int infer_call_finish(struct infer_call *call, const struct served_model *model, struct sy_error *err);

/* Sets shape_key and work by the inputs' shapes. infer_call_finish() does it; call it again when prepared inputs have
 * replaced those that the client sent. */
void infer_call_shapes(struct infer_call *call, const struct served_model *model);

/* The datatype of an output in the answer. */
enum datatype infer_output_type(const struct served_model *model, const struct infer_output *wanted);
/* A request's part of an output of its batch: its items, or the whole output if the model has no batch dimension or
 * `first_item` is ITEMS_WHOLE, or the classes of these. 0 or -EINVAL: the outputs are not what the signature says.
 */
int infer_output_slice(struct tensor_view *part, const struct served_model *model, const struct infer_call *call,
                       const struct infer_output *wanted, const struct tensor_view *outputs, uint32_t output_count,
                       uint32_t first_item, struct sy_error *err);
