/* items_rules.h - what the rules of operators have in common. For items_rules.c and items_moving.c. */
#pragma once

#include <string.h>

#include "model/onnx/items_flow.h"

#define UNUSED __attribute__((unused))
#define RULE(name)                                                                                                     \
    static enum items_verdict name(UNUSED struct walk *w, UNUSED const struct flow *const *in,                         \
                                   UNUSED uint32_t in_count, UNUSED struct flow *out, UNUSED uint32_t out_count)

static const char no_dims[] = "takes a tensor whose dimensions are not known";
static const char along_items[] = "works along the items";
static const char elsewhere[] = "takes tensors whose items lie along different dimensions";
static const char no_sizes[] = "has sizes that are not known";
static const char from_items[] = "takes weights, or an axis, from the items";

static inline const struct flow *given(const struct flow *const *in, uint32_t in_count, uint32_t i) {
    return i < in_count ? in[i] : NULL;
}

static inline bool is_items(const struct flow *flow) {
    return flow && flow->kind == FLOW_ITEMS;
}

static inline bool has_dims(const struct flow *flow) {
    return flow->dim_count != DIMS_UNKNOWN;
}

static inline bool op_is(const struct walk *w, const char *name) {
    return onnx_bytes_are(w->node->op, name);
}

/* An axis, counted from the front; -1: the tensor has no such axis. */
static inline int axis_at(int64_t axis, int dim_count) {
    axis += axis < 0 ? dim_count : 0;
    return axis >= 0 && axis < dim_count ? (int)axis : -1;
}

/* Copies a flow without its numbers. */
static inline void shape_copy(struct flow *to, const struct flow *from) {
    *to = *from;
    to->values = NULL;
    to->value_count = 0;
    to->counts = false;
}

/* Whether any input behind the first `from` has items. */
static inline bool items_behind(const struct flow *const *in, uint32_t in_count, uint32_t from) {
    for (uint32_t i = from; i < in_count; i++)
        if (is_items(in[i]))
            return true;
    return false;
}

static inline void dim_remove(struct flow *flow, int d) {
    memmove(&flow->dims[d], &flow->dims[d + 1], (size_t)(flow->dim_count - d - 1) * sizeof(flow->dims[0]));
    flow->dim_count--;
    flow->axis -= d < flow->axis;
}

static inline bool dim_insert(struct flow *flow, int d, struct extent size) {
    if (flow->dim_count == FLOW_DIMS_MAX)
        return false;
    memmove(&flow->dims[d + 1], &flow->dims[d], (size_t)(flow->dim_count - d) * sizeof(flow->dims[0]));
    flow->dims[d] = size;
    flow->dim_count++;
    flow->axis += flow->kind == FLOW_ITEMS && d <= flow->axis;
    return true;
}

/* Makes the sizes of dimensions from `from` on unknown, but not that of the items. */
static inline void dims_forget(struct walk *w, struct flow *flow, int from) {
    for (int d = from; d < flow->dim_count; d++)
        if (flow->kind != FLOW_ITEMS || d != flow->axis)
            flow->dims[d] = extent_new(w, 0);
}

/* The output of an operator that stretches its inputs by Numpy's rule: shapes are aligned at their ends, and a size of
 * 1 becomes the other's size. */
enum items_verdict flow_stretch(struct walk *w, const struct flow *const *in, uint32_t in_count, struct flow *out);
/* Reads the axes of a reduction. If none are given, all are meant, or with `noop_with_empty_axes` none. False: the axes
 * are not known. */
bool flow_axes_read(struct walk *w, const struct flow *list, int dim_count, bool *axes, bool *none);

/* ---- tables ---- */

/* Bits of the inputs `first` to `last`, which only give sizes. */
#define SIZES(first, last) ((1u << (last + 1)) - (1u << (first)))

struct flow_operators {
    const struct flow_operator *at;
    size_t count;
};

/* The operators of items_moving.c: of ONNX's standard domain, and of its machine-learning domain. */
extern const struct flow_operators moving_standard, moving_learning;
