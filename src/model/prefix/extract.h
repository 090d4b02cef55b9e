/* extract.h - writes a part of an ONNX model as a model of its own: the nodes between given tensors and wanted ones,
 * with their weights. */
#pragma once

#include "core/util/text.h"
#include "model/prefix/cut.h"

/* A tensor at which a part begins or ends. */
struct extract_end {
    uint32_t tensor;
    const struct tensor_spec *spec; /* its type and shape; NULL: not known, so the library that loads it finds out */
};

struct extract_part {
    const char *name;                    /* of the graph */
    const struct extract_end *from, *to; /* `to` may have tensors that `from` has, too: they are handed through */
    uint32_t from_count, to_count;
    bool own_outputs; /* `to` are the model's own outputs, described as there */
};

/* Appends the model to `text`. Its inputs are `from`, then those of the model's own that the part takes, in its order.
 * An input that is also an output has another name, which extract_input_name() says. Weights in files of their own
 * become part of it. -ENOMEM; -EFBIG beyond 2 GB, which protobuf cannot hold; errors of onnx_weights_read(). */
int extract_write(struct onnx_graph *graph, const struct extract_part *part, struct text *text, struct sy_error *err);

/* The name of a `from` tensor as the part's input: the tensor's own, or that with ".prefix" behind it. -ENAMETOOLONG;
 * -EEXIST: another tensor has this name. */
int extract_input_name(const struct onnx_graph *graph, const struct extract_part *part, uint32_t tensor, char *name,
                       size_t size, struct sy_error *err);
