/* extract.h - writes a part of an ONNX model as a model of its own: the nodes between given tensors and wanted ones,
 * with their weights. */
#pragma once

#include "core/util/text.h"
#include "model/prefix/cut.h"

/* A tensor at which a part begins or ends. */
struct extract_end {
    uint32_t tensor;
    const struct tensor_spec *spec; /* type and shape of the tensor; NULL: the library that loads the part finds out */
};

struct extract_part {
    const char *name;                    /* name of the part's graph */
    const struct extract_end *from, *to; /* begin and end of the part; tensors in both are handed through */
    uint32_t from_count, to_count;
    bool own_outputs; /* whether `to` are the model's own outputs, described as in the model */
};

/* Appends the part, a model of its own, to `text`. The part's inputs are `from`, then those of the model's inputs that
 * the part takes, in the model's order. An input that is also an output has another name, which extract_input_name()
 * gives. Weights in files of their own become part of the text. -ENOMEM; -EFBIG: over 2 GB, which protobuf cannot hold;
 * errors of onnx_weights_read(). */
int extract_write(struct onnx_graph *graph, const struct extract_part *part, struct text *text, struct sy_error *err);

/* The name that a `from` tensor has as an input of the part: the tensor's own name, or that name with ".prefix" behind
 * it. -ENAMETOOLONG; -EEXIST: another tensor has this name. */
int extract_input_name(const struct onnx_graph *graph, const struct extract_part *part, uint32_t tensor, char *name,
                       size_t size, struct sy_error *err);
