/* cut.h - where models that begin with the same nodes can be cut: the prefix before the cut is the same for all of
 * them, the suffix behind it is each one's own (Nexus, SOSP 2019, section 6.3).
 *
 *     input -> conv -> relu -> conv -> relu ==cut==> fully connected -> A's output
 *                                           \======> fully connected -> B's output
 *
 * A cut is a set of nodes with all that they depend on. The tensors that cross it are few, since they are kept between
 * the runs. What does not depend on an input (constants, and what is computed of them) never crosses it: each side has
 * its own. */
#pragma once

#include "model/prefix/onnx_digest.h"

#define CUT_TENSORS_MAX 8
#define CUTS_MAX        16

struct cut_model {
    struct onnx_graph graph;
    struct onnx_digests digests;
    uint32_t node_count;    /* those that are live */
    uint64_t weights_bytes; /* of the initialisers that they take */
};

struct cut {
    uint32_t node_count;    /* of the prefix */
    uint64_t weights_bytes; /* that they take */
    uint32_t tensor_count;
    struct onnx_digest tensors[CUT_TENSORS_MAX]; /* that cross it; cut_tensors() says which they are in a model */
};

/* Reads a model and what its nodes compute. -errno with a sentence. Free it with cut_model_free() after success. */
int cut_model_read(const char *path, struct cut_model *model, struct sy_error *err);
/* The same from memory that outlives it. */
int cut_model_parse(const char *path, const void *data, size_t bytes, struct cut_model *model, struct sy_error *err);
void cut_model_free(struct cut_model *model);

/* Live nodes that depend on inputs and that both models have. 0 without memory. */
uint32_t cut_common(const struct cut_model *a, const struct cut_model *b);

/* The cuts of two or more models through at most `tensors_max` tensors, the deepest (with the most nodes) first, at
 * most CUTS_MAX; *count may be 0. It looks at two kinds of sets: a node with all nodes that come before it, and the
 * first nodes in the first model's order. Other cuts through several tensors are not found. -ENOMEM. */
int cuts_find(const struct cut_model *const *models, uint32_t model_count, uint32_t tensors_max,
              struct cut cuts[CUTS_MAX], uint32_t *count, struct sy_error *err);

/* The tensors of a model that cross the cut, by number; the model is one of those that it was found for. Of several
 * tensors with the same digest, the first. */
void cut_tensors(const struct cut_model *model, const struct cut *cut, uint32_t tensors[CUT_TENSORS_MAX]);

/* Marks what of the model computes the tensors `goals`: nodes, and the inputs and initialisers they take. Of a tensor
 * that `stops` has, goal or not, only the tensor itself is marked, and not what computes it. Arrays of node_count and
 * tensor_count; `stops` may be NULL. */
void cut_needed(const struct onnx_graph *graph, const uint32_t *goals, uint32_t goal_count, const bool *stops,
                bool *nodes, bool *tensors);
