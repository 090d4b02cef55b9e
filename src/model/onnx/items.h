/* items.h - whether the items of a batch stay apart in a model: whether each item's rows of the outputs depend on that
 * item alone, whatever other items are in the batch.
 *
 * The walk goes through the graph from its inputs, whose first dimension counts the items. Of every tensor the walk
 * knows along which dimension the items lie. An operator that works along that dimension joins items. An operator that
 * has no rule here, or whose sizes are not known, shows nothing. Shapes that a model computes from its inputs' shapes
 * are followed as numbers, so that reshaping keeps the items where they are. Nothing is run, and of the weights only
 * short lists of numbers are read. */
#pragma once

#include "model/onnx/onnx_graph.h"

enum items_verdict {
    ITEMS_APART,   /* shown: no operator joins items */
    ITEMS_JOINED,  /* shown: an operator works along the items */
    ITEMS_UNKNOWN, /* shown: neither */
};

/* Walks a graph. `why`, unless the items stay apart: which node it is, and what that node does. Without memory:
 * ITEMS_UNKNOWN. Any thread. */
enum items_verdict items_walk(struct onnx_graph *graph, struct sy_error *why);
