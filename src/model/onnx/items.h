/* items.h - whether the items of a batch stay apart in a model: whether each item's rows of the outputs depend on that
 * item alone, whatever it is batched with.
 *
 * The graph is walked from its inputs, whose first dimension counts the items. Of every tensor it is known along which
 * dimension the items lie. An operator that works along that dimension joins them; one that is not known here, or whose
 * sizes are not known, shows nothing. Shapes that a model computes from its inputs' shapes are followed as numbers, so
 * that reshaping keeps what lies where. Nothing is run and no weight is read but short lists of numbers. */
#pragma once

#include "model/onnx/onnx_graph.h"

enum items_verdict {
    ITEMS_APART,   /* shown: nothing joins them */
    ITEMS_JOINED,  /* shown: an operator works along the items */
    ITEMS_UNKNOWN, /* not shown */
};

/* Walks a graph. `why`: which node and what it does, unless they stay apart. Without memory: ITEMS_UNKNOWN. Any
 * thread. */
enum items_verdict items_walk(struct onnx_graph *graph, struct sy_error *why);
