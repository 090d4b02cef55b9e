/* cut.h - where models that begin with the same nodes can be cut: the prefix before the cut is the same for all of
 * them, the suffix behind it is each one's own (Nexus, SOSP 2019, section 6.3).
 *
 *     input -> conv -> relu -> conv -> relu ==cut==> fully connected -> A's output
 *                                           \======> fully connected -> B's output
 *
 * A cut is a set of nodes with all that they depend on. Few tensors cross the cut, since they are kept between the runs
 * of both parts. A tensor that depends on no input (a constant, or what is computed of constants) never crosses the
 * cut: each part has its own copy. */
#pragma once

#include "model/prefix/onnx_digest.h"

#define CUT_TENSORS_MAX 8
#define CUTS_MAX        16

struct cut_model {
    struct onnx_graph graph;
    struct onnx_digests digests;
    uint32_t node_count;    /* number of live nodes */
    uint64_t weights_bytes; /* bytes of the initialisers that live nodes take */
};

struct cut {
    uint32_t node_count;    /* number of nodes of the prefix */
    uint64_t weights_bytes; /* bytes of weights that the prefix takes */
    uint32_t tensor_count;
    struct onnx_digest tensors[CUT_TENSORS_MAX]; /* tensors that cross the cut; cut_tensors() finds them in a model */
};

/* Reads a model, and the digests of what its nodes compute. cut_model_free() frees it after success. -errno with a
 * sentence. */
int cut_model_read(const char *path, struct cut_model *model, struct sy_error *err);
/* As cut_model_read(), from memory that outlives the model. */
int cut_model_parse(const char *path, const void *data, size_t bytes, struct cut_model *model, struct sy_error *err);
void cut_model_free(struct cut_model *model);

/* The number of live nodes that depend on inputs and that both models have. 0: out of memory. */
uint32_t cut_common(const struct cut_model *a, const struct cut_model *b);

/* Finds the cuts of two or more models through at most `tensors_max` tensors: at most CUTS_MAX, the deepest (with the
 * most nodes) first. *count may be 0. The search looks at two kinds of sets: a node with all nodes that come before it,
 * and the first nodes in the first model's order. It does not find other cuts through several tensors. 0 or -ENOMEM. */
int cuts_find(const struct cut_model *const *models, uint32_t model_count, uint32_t tensors_max,
              struct cut cuts[CUTS_MAX], uint32_t *count, struct sy_error *err);

/* The numbers of the tensors that cross the cut, in a model for which the cut was found. Of several tensors with the
 * same digest, the first counts. */
void cut_tensors(const struct cut_model *model, const struct cut *cut, uint32_t tensors[CUT_TENSORS_MAX]);

/* Marks what computes the tensors `goals`: nodes, and the inputs and initialisers that they take. Of a tensor in
 * `stops`, goal or not, only the tensor itself is marked, and not what computes it. `nodes` has node_count entries,
 * `tensors` and `stops` have tensor_count; `stops` may be NULL. */
void cut_needed(const struct onnx_graph *graph, const uint32_t *goals, uint32_t goal_count, const bool *stops,
                bool *nodes, bool *tensors);
