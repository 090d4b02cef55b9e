/* tensor.h - data types, shapes and signatures of models, as the Open Inference Protocol names them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TENSOR_DIMS_MAX 8   /* dimensions of a tensor */
#define TENSOR_NAME_MAX 128 /* bytes of a tensor's name, terminator included */
#define TENSORS_MAX     128 /* inputs of a model; also its outputs */
#define MODEL_NAME_MAX  128 /* bytes of a model's name, terminator included */

enum datatype {
    DATATYPE_INVALID,
    DATATYPE_BOOL,
    DATATYPE_UINT8,
    DATATYPE_UINT16,
    DATATYPE_UINT32,
    DATATYPE_UINT64,
    DATATYPE_INT8,
    DATATYPE_INT16,
    DATATYPE_INT32,
    DATATYPE_INT64,
    DATATYPE_FP16,
    DATATYPE_FP32,
    DATATYPE_FP64,
    DATATYPE_BF16,
    DATATYPE_BYTES, /* strings: elements of any size (core/data/strings.h) */
    DATATYPE_COUNT,
};

/* The name of a type: "FP32" and so on; "INVALID" for a value that is no type. */
const char *datatype_name(enum datatype type);
/* The type of a name; DATATYPE_INVALID: the name is not known. */
enum datatype datatype_parse(const char *name, size_t length);
/* Bytes of an element; 0 for BYTES and INVALID. */
size_t datatype_bytes(enum datatype type);
#define STRING_LEAD_BYTES 4 /* bytes of the length that leads a BYTES element */
/* The fewest bytes that an element takes: for BYTES those of an empty string, which is all zeros. */
size_t datatype_bytes_min(enum datatype type);
/* Whether so many elements take so many bytes; for BYTES, whether they may. However many there are said to be. */
bool datatype_fits(enum datatype type, uint64_t elements, uint64_t bytes);
/* The number of a type in ONNX's models (TensorProto.DataType) and in ONNX Runtime; 0 for INVALID. */
int datatype_onnx(enum datatype type);

struct tensor_spec {
    char name[TENSOR_NAME_MAX];
    enum datatype type;
    uint32_t dim_count;
    int64_t dims[TENSOR_DIMS_MAX];      /* sizes; -1: any. With `batched` the first is -1, the batch dimension */
    bool reshaped;                      /* whether the model file has this tensor in another shape */
    uint32_t file_dim_count;            /* number of dimensions in the model file, if `reshaped` */
    int64_t file_dims[TENSOR_DIMS_MAX]; /* sizes in the model file, if `reshaped`; each -1 is the size of the -1 of the
                                           same number in `dims` */
};

/* The number of the spec that has this name of `length` bytes; -1: no spec has it. */
static inline int tensor_spec_find(const struct tensor_spec *specs, uint32_t count, const char *name, size_t length) {
    for (uint32_t i = 0; i < count && length < TENSOR_NAME_MAX; i++)
        if (memcmp(specs[i].name, name, length) == 0 && specs[i].name[length] == '\0')
            return (int)i;
    return -1;
}

/* A bit for each input, or each output, of a model. */
__extension__ typedef unsigned __int128 tensor_set;
_Static_assert(8 * sizeof(tensor_set) >= TENSORS_MAX, "a bit for each");

static inline tensor_set tensor_bit(uint32_t i) {
    return (tensor_set)1 << i;
}

/* The set of the first `count` inputs, or outputs. */
static inline tensor_set tensor_set_first(uint32_t count) {
    return count < 8 * sizeof(tensor_set) ? tensor_bit(count) - 1 : ~(tensor_set)0;
}

static inline uint32_t tensor_set_count(tensor_set set) {
    return (uint32_t)(__builtin_popcountll((uint64_t)set) + __builtin_popcountll((uint64_t)(set >> 64)));
}

/* The inputs and outputs of a model. Copies share the specs, which nobody writes once the signature is complete. */
struct signature {
    uint32_t input_count, output_count;
    tensor_set inputs_optional; /* inputs that a request may leave out, since the model has values for them; their views
                                   may have no data */
    bool batched;               /* whether every input and output has a leading batch dimension of any size */
    bool variable_shapes; /* whether requests may differ in another dimension of an input, or in the inputs that they
                             give */
    bool outputs_chosen;  /* whether the outputs are not all of the model file's, or in another order */
    struct tensor_spec *inputs, *outputs; /* [input_count], [output_count] */
};

/* A signature while it is made, with room for any number of specs. */
struct signature_room {
    struct signature signature; /* its specs are those that follow: signature_room_open() */
    struct tensor_spec inputs[TENSORS_MAX], outputs[TENSORS_MAX];
};

/* Points the signature to the room's own specs. For a room that was filled, too, if its bytes were copied. */
static inline struct signature *signature_room_open(struct signature_room *room) {
    room->signature.inputs = room->inputs;
    room->signature.outputs = room->outputs;
    return &room->signature;
}

/* Makes the room's signature a copy, whose specs may be changed. */
static inline struct signature *signature_room_fill(struct signature_room *room, const struct signature *from) {
    room->signature = *from;
    for (uint32_t i = 0; i < from->input_count; i++)
        room->inputs[i] = from->inputs[i];
    for (uint32_t i = 0; i < from->output_count; i++)
        room->outputs[i] = from->outputs[i];
    return signature_room_open(room);
}

/* The place and shape of a tensor. The view does not own the memory. */
struct tensor_view {
    void *data;
    size_t bytes;
    uint32_t dim_count;
    int64_t dims[TENSOR_DIMS_MAX];
    const size_t *row_at; /* [dims[0] + 1] bytes in the data at which rows begin, then the end of the last row; NULL:
                             rows are equally long */
};

/* The first dimension; 0 for a tensor without dimensions. */
static inline int64_t tensor_row_count(const struct tensor_view *view) {
    return view->dim_count > 0 ? view->dims[0] : 0;
}

/* Rows [first, first + count) of a tensor that has a dimension. -EINVAL: the tensor has fewer rows. */
int tensor_rows(const struct tensor_view *whole, uint32_t first, uint32_t count, struct tensor_view *rows);

/* Takes a view from the shape `from` to the shape `to`. The first -1 of `to` has the size of the first -1 of `from`,
 * and so on. -EINVAL: the view is not of the shape `from`, or has another number of elements in the shape `to`. */
int tensor_reshape(struct tensor_view *view, const int64_t *from, uint32_t from_rank, const int64_t *to,
                   uint32_t to_rank);

/* The product of dims[from..dim_count). -1: a dimension is negative, or the product passes 2^62. */
int64_t dims_product(const int64_t *dims, uint32_t from, uint32_t dim_count);
/* As dims_product(), of those dimensions that are not zero. Use it to bound a shape that somebody else chooses: if one
 * dimension is zero, dims_product() is 0 however large the others are. */
int64_t dims_extent(const int64_t *dims, uint32_t from, uint32_t dim_count);
/* Writes dims[from..dim_count) as "[1,3,224]"; text that does not fit is cut off. */
void dims_format(const int64_t *dims, uint32_t from, uint32_t dim_count, char *text, size_t bytes);
