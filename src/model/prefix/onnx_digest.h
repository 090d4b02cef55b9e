/* onnx_digest.h - what each node of a graph computes, as a digest: equal digests are equal computations of a model's
 * inputs, by SHA-256, so that nobody can make two that differ.
 *
 * A node's digest is of its operator, the version of the operator's set, its attributes, which of its outputs are
 * wanted, and the digests of the tensors that it takes. A tensor's is of the node and its place; an initialiser's of
 * its type, shape and elements, whichever field or file they are in; an input's of its number, type and shape. Names
 * are not looked at (but those of attributes), nor are documentation strings.
 *
 * Some nodes are never taken to be equal to another model's: those that draw random numbers, have subgraphs, call a
 * function of the model or an operator that is not ONNX's own, or depend on a value that clients may replace. */
#pragma once

#include "model/onnx/onnx_graph.h"

struct onnx_digest {
    uint64_t words[4]; /* all 0: equal to no other */
};

struct onnx_digests {
    struct onnx_digest *nodes;   /* [node_count] */
    struct onnx_digest *tensors; /* [tensor_count]; of initialisers and inputs that no node takes, 0 */
    bool *from_input; /* [tensor_count] whether it depends on an input, or counts as if, since it equals no other */
    bool *live;       /* [node_count] whether an output of the graph depends on it */
    uint64_t *weights_bytes; /* [tensor_count] of initialisers */
    const char *unequal;     /* why the first node that equals no other does not; NULL: there is none */
};

/* Computes them; reads all weights, at about 1 GB a second. -errno with a sentence. Free with onnx_digests_free(). */
int onnx_digests_make(struct onnx_graph *graph, struct onnx_digests *digests, struct sy_error *err);
void onnx_digests_free(struct onnx_digests *digests);

static inline bool onnx_digest_none(const struct onnx_digest *d) {
    return !(d->words[0] | d->words[1] | d->words[2] | d->words[3]);
}

static inline bool onnx_digest_equal(const struct onnx_digest *a, const struct onnx_digest *b) {
    return !onnx_digest_none(a) && __builtin_memcmp(a, b, sizeof(*a)) == 0;
}
