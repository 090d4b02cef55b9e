/* onnx_digest.h - what each node of a graph computes, as a digest: nodes with equal digests compute the same from a
 * model's inputs. The digest is SHA-256, so that nobody can make two unlike nodes with the same digest.
 *
 * The digest of a node is made of its operator, the version of the operator's set, its attributes, which of its outputs
 * are wanted, and the digests of the tensors that it takes. That of a tensor is made of the node that gives it and the
 * place among the node's outputs; that of an initialiser of type, shape and elements, whichever field or file they are
 * in; that of an input of its number, type and shape. Names (but those of attributes) and documentation strings do not
 * count.
 *
 * Some nodes are never taken to be equal to another model's: those that draw random numbers, have subgraphs, call a
 * function of the model or an operator that is not ONNX's own, or depend on a value that clients may replace. */
#pragma once

#include "model/onnx/onnx_graph.h"

struct onnx_digest {
    uint64_t words[4]; /* words of the digest; all 0: equal to no other */
};

struct onnx_digests {
    struct onnx_digest *nodes;   /* [node_count] digests of the nodes */
    struct onnx_digest *tensors; /* [tensor_count] digests; 0 for initialisers and inputs that no node takes */
    bool *from_input; /* [tensor_count] whether the tensor depends on an input, or counts so since it equals no other */
    bool *live;       /* [node_count] whether an output of the graph depends on the node */
    uint64_t *weights_bytes; /* [tensor_count] bytes of initialisers */
    const char *unequal;     /* reason why the first node that equals no other does so; NULL: there is no such node */
};

/* Computes the digests; reads all weights, at about 1 GB a second. onnx_digests_free() frees them. -errno with a
 * sentence. */
int onnx_digests_make(struct onnx_graph *graph, struct onnx_digests *digests, struct sy_error *err);
void onnx_digests_free(struct onnx_digests *digests);

static inline bool onnx_digest_none(const struct onnx_digest *d) {
    return !(d->words[0] | d->words[1] | d->words[2] | d->words[3]);
}

static inline bool onnx_digest_equal(const struct onnx_digest *a, const struct onnx_digest *b) {
    return !onnx_digest_none(a) && __builtin_memcmp(a, b, sizeof(*a)) == 0;
}
