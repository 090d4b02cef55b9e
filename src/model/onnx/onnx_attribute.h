/* onnx_attribute.h - the attributes of a node that say what its operator does. Pure. */
#pragma once

#include "model/onnx/onnx_graph.h"

#define ONNX_LIST_MAX 64 /* most elements of a list that is read */

/* The integer attribute `name`; `otherwise`, if the node has no attribute of this name. */
int64_t onnx_attribute_int(const struct onnx_node *node, const char *name, int64_t otherwise);
/* Reads a list of integers. Returns how many, at most ONNX_LIST_MAX; -ENOENT: the node has no attribute of this name;
 * -E2BIG: the list is longer; -EINVAL: the attribute is malformed. */
int onnx_attribute_ints(const struct onnx_node *node, const char *name, int64_t values[ONNX_LIST_MAX]);
bool onnx_attribute_has(const struct onnx_node *node, const char *name);
/* A string, and the TensorProto of a tensor; no data: the node has no attribute of this name. */
struct onnx_bytes onnx_attribute_string(const struct onnx_node *node, const char *name);
struct onnx_bytes onnx_attribute_tensor(const struct onnx_node *node, const char *name);
