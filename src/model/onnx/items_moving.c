/* items_moving.c - operators that move elements and give tensors other sizes, and those whose numbers are sizes: what
 * they do to the dimension along which items lie. */
#include <stdlib.h>

#include "core/util/container.h"
#include "model/onnx/items_rules.h"

/* ---- moving ---- */

RULE(transposed) {
    const struct flow *x = given(in, in_count, 0);
    int64_t order[ONNX_LIST_MAX];
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    int count = onnx_attribute_ints(w->node, "perm", order);
    for (int d = 0; count < 0 && d < x->dim_count; d++)
        order[d] = x->dim_count - 1 - d;
    shape_copy(out, x);
    for (int d = 0; d < x->dim_count; d++) {
        int from = axis_at(order[d], x->dim_count);
        if (from < 0 || (count >= 0 && count != x->dim_count))
            return walk_unknown(w, no_dims);
        out->dims[d] = x->dims[from];
        if (is_items(x) && from == x->axis)
            out->axis = d;
    }
    return ITEMS_APART;
}

static struct extent dims_multiplied(struct walk *w, const struct extent *dims, int from, int to) {
    struct extent product = extent_of(1);
    for (int d = from; d < to; d++)
        product = extent_product(w, product, dims[d]);
    return product;
}

/* Gives a tensor other sizes; the order of its elements stays. `open`: the dimension whose size follows from the
 * others; -1: none. Items stay apart if the product of the sizes before their dimension stays the same: each piece of
 * the new dimension then holds the elements of a whole number of items, or a single item would not fit these sizes
 * either. */
static enum items_verdict reshape_to(struct walk *w, const struct flow *x, struct extent *dims, int dim_count, int open,
                                     struct flow *out) {
    int axis = -1;
    if (!is_items(x)) {
        *out = (struct flow){.kind = FLOW_SAME, .dim_count = dim_count};
        memcpy(out->dims, dims, (size_t)dim_count * sizeof(*dims));
        if (open >= 0) {
            dims[open] = extent_of(1);
            struct extent rest = dims_multiplied(w, dims, 0, dim_count);
            out->dims[open] =
                has_dims(x) ? extent_quotient(w, dims_multiplied(w, x->dims, 0, x->dim_count), rest) : extent_new(w, 0);
        }
        return ITEMS_APART;
    }
    for (int d = 0; d < dim_count; d++) {
        if (d == open || !dims[d].items)
            continue;
        if (axis >= 0 || dims[d].items == EXTENT_OTHERWISE)
            return walk_unknown(w, "has a size that depends on the items in an unknown way");
        axis = d;
    }
    if (axis < 0 && open < 0)
        return walk_joined(w, "puts all items into a fixed shape");
    if (open >= 0) {
        dims[open] = extent_of(1);
        struct extent whole = dims_multiplied(w, x->dims, 0, x->dim_count),
                      rest = dims_multiplied(w, dims, 0, dim_count);
        dims[open] = extent_quotient(w, whole, rest);
        if (dims[open].items == EXTENT_OTHERWISE || dims[open].items != (axis < 0))
            dims[open] = extent_new(w, axis < 0);
    }
    axis = axis < 0 ? open : axis;
    if (!extent_equal(dims_multiplied(w, x->dims, 0, x->axis), dims_multiplied(w, dims, 0, axis)))
        return walk_unknown(w, "may put elements of different items into one row");
    *out = (struct flow){.kind = FLOW_ITEMS, .dim_count = dim_count, .axis = axis};
    memcpy(out->dims, dims, (size_t)dim_count * sizeof(*dims));
    return ITEMS_APART;
}

RULE(reshaped) {
    const struct flow *x = given(in, in_count, 0), *shape = given(in, in_count, 1);
    struct extent dims[ONNX_LIST_MAX];
    int64_t fixed[ONNX_LIST_MAX];
    uint32_t count = 0;
    int open = -1;
    const struct extent *sizes = shape ? flow_numbers(w, shape, &count) : NULL;
    if (!shape) { /* version 1 */
        int n = onnx_attribute_ints(w->node, "shape", fixed);
        for (int i = 0; i < n; i++)
            dims[i] = extent_of(fixed[i]);
        count = n > 0 ? (uint32_t)n : 0;
    }
    if (!x || (shape && !sizes) || count > FLOW_DIMS_MAX)
        return is_items(x) ? walk_unknown(w, no_sizes) : ITEMS_APART;
    bool zeros = onnx_attribute_int(w->node, "allowzero", 0);
    for (uint32_t d = 0; d < count; d++) {
        dims[d] = sizes ? sizes[d] : dims[d];
        if (extent_is(dims[d], 0) && !zeros) {
            if (!has_dims(x) || d >= (uint32_t)x->dim_count)
                return is_items(x) ? walk_unknown(w, no_sizes) : ITEMS_APART;
            dims[d] = x->dims[d];
        } else if (extent_is(dims[d], -1)) {
            open = (int)d;
        }
    }
    if (!is_items(x) && x->values && count <= 1 && (open >= 0 || count == 0 || extent_is(dims[0], x->value_count))) {
        flow_set_numbers(w, out, (int)count, x->values, x->value_count);
        return ITEMS_APART;
    }
    enum items_verdict verdict = reshape_to(w, x, dims, (int)count, open, out);
    if (verdict == ITEMS_APART && !is_items(x)) /* a shape that grows with the items would need a tensor that does */
        for (int d = 0; d < out->dim_count; d++)
            if (out->dims[d].items)
                return walk_unknown(w, no_sizes);
    return verdict;
}

RULE(flattened) {
    const struct flow *x = given(in, in_count, 0);
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    int64_t axis = onnx_attribute_int(w->node, "axis", 1);
    axis += axis < 0 ? x->dim_count : 0;
    if (axis < 0 || axis > x->dim_count)
        return walk_unknown(w, no_dims);
    struct extent dims[2] = {dims_multiplied(w, x->dims, 0, (int)axis),
                             dims_multiplied(w, x->dims, (int)axis, x->dim_count)};
    return reshape_to(w, x, dims, 2, -1, out);
}

RULE(squeezed) {
    const struct flow *x = given(in, in_count, 0), *list = given(in, in_count, 1);
    bool axes[FLOW_DIMS_MAX] = {false}, none = false;
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    if (!flow_axes_read(w, list, x->dim_count, axes, &none))
        return is_items(x) ? walk_unknown(w, no_sizes) : ITEMS_APART;
    for (int d = 0; none && d < x->dim_count; d++) {
        axes[d] = extent_is(x->dims[d], 1);
        if (!axes[d] && !extent_is_number(x->dims[d])) /* the size may be 1: that of the items is, in a batch of 1 */
            return is_items(x) ? walk_joined(w, "drops the items' dimension when there is one") : ITEMS_APART;
    }
    if (is_items(x) && axes[x->axis])
        return walk_joined(w, "drops the items' dimension");
    if (x->values && x->dim_count == 1 && axes[0]) {
        flow_set_numbers(w, out, 0, x->values, 1);
        return ITEMS_APART;
    }
    shape_copy(out, x);
    for (int d = x->dim_count - 1; d >= 0; d--)
        if (axes[d])
            dim_remove(out, d);
    return ITEMS_APART;
}

RULE(unsqueezed) {
    const struct flow *x = given(in, in_count, 0), *list = given(in, in_count, 1);
    bool axes[FLOW_DIMS_MAX] = {false};
    int64_t numbers[ONNX_LIST_MAX];
    int count = list ? flow_plain(w, list, numbers) : onnx_attribute_ints(w->node, "axes", numbers);
    if (!x || !has_dims(x) || count < 0 || x->dim_count + count > FLOW_DIMS_MAX)
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    for (int i = 0; i < count; i++) {
        int at = axis_at(numbers[i], x->dim_count + count);
        if (at < 0 || axes[at]) /* or named twice */
            return walk_unknown(w, no_dims);
        axes[at] = true;
    }
    if (x->values && x->dim_count == 0 && count == 1) {
        flow_set_numbers(w, out, 1, x->values, 1);
        return ITEMS_APART;
    }
    shape_copy(out, x);
    for (int d = 0; d < x->dim_count + count; d++)
        if (axes[d])
            dim_insert(out, d, extent_of(1));
    return ITEMS_APART;
}

RULE(concatenated) {
    uint32_t count = 0, items = 0;
    struct extent numbers[ONNX_LIST_MAX];
    bool list = true;
    const struct flow *first = NULL;
    for (uint32_t i = 0; i < in_count; i++) {
        if (!in[i])
            return walk_unknown(w, no_dims);
        items += is_items(in[i]);
        first = is_items(in[i]) ? in[i] : first;
        uint32_t n = 0;
        const struct extent *values =
            list && !is_items(in[i]) && in[i]->dim_count == 1 ? flow_numbers(w, in[i], &n) : NULL;
        list &= values && count + n <= ONNX_LIST_MAX;
        for (uint32_t k = 0; list && k < n; k++)
            numbers[count++] = values[k];
    }
    if (list && in_count) {
        flow_set_numbers(w, out, 1, numbers, count);
        return ITEMS_APART;
    }
    first = first ? first : given(in, in_count, 0);
    if (!first || !has_dims(first))
        return items ? walk_unknown(w, no_dims) : ITEMS_APART;
    int axis = axis_at(onnx_attribute_int(w->node, "axis", 1), first->dim_count);
    if (axis < 0)
        return walk_unknown(w, no_dims);
    if (items && axis == first->axis)
        return walk_joined(w, "puts further rows behind the items");
    for (uint32_t i = 0; items && i < in_count; i++)
        if (!is_items(in[i]) || in[i]->axis != first->axis || in[i]->dim_count != first->dim_count)
            return walk_unknown(w, elsewhere);
    shape_copy(out, first);
    struct extent size = extent_of(0);
    for (uint32_t i = 0; i < in_count; i++) {
        bool plain = has_dims(in[i]) && axis < in[i]->dim_count && extent_is_number(in[i]->dims[axis]);
        if (!plain || !extent_is_number(size) ||
            __builtin_add_overflow(size.times, in[i]->dims[axis].times, &size.times))
            size = extent_new(w, 0);
    }
    out->dims[axis] = size;
    return ITEMS_APART;
}

RULE(split) {
    const struct flow *x = given(in, in_count, 0);
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    int axis = axis_at(onnx_attribute_int(w->node, "axis", 0), x->dim_count);
    if (axis < 0 || (is_items(x) && axis == x->axis))
        return walk_joined(w, "splits the items");
    for (uint32_t o = 0; o < out_count; o++) {
        shape_copy(&out[o], x);
        if (extent_is_number(x->dims[axis]) && in_count < 2 && x->dims[axis].times % out_count == 0)
            out[o].dims[axis] = extent_of(x->dims[axis].times / out_count);
        else
            out[o].dims[axis] = extent_new(w, 0);
    }
    return ITEMS_APART;
}

/* Takes a list's numbers from `begin` to before `end`. */
static void numbers_slice(struct walk *w, const struct flow *x, int64_t begin, int64_t end, int64_t step,
                          struct flow *out) {
    int64_t count = x->value_count;
    struct extent numbers[ONNX_LIST_MAX];
    uint32_t n = 0;
    begin += begin < 0 ? count : 0;
    end += end < 0 ? count : 0;
    begin = begin < 0 ? 0 : begin > count ? count : begin;
    end = end < 0 ? 0 : end > count ? count : end;
    for (int64_t i = begin; i < end && n < ONNX_LIST_MAX; i += step < count ? step : count)
        numbers[n++] = x->values[i];
    flow_set_numbers(w, out, 1, numbers, n);
}

#define MORE_THAN_ANY 1000000 /* size above all dimensions that items lie along; converters write 10^9 or INT_MAX */

/* Inputs: data, begins, ends, axes and steps; up to version 9 the latter are attributes. */
RULE(sliced) {
    const struct flow *x = given(in, in_count, 0);
    static const char *const names[4] = {"starts", "ends", "axes", "steps"};
    int64_t fixed[4][ONNX_LIST_MAX];
    const struct extent *lists[4] = {NULL, NULL, NULL, NULL};
    struct extent from_attribute[2][ONNX_LIST_MAX];
    int counts[4];
    for (uint32_t i = 0; i < 4; i++) {
        const struct flow *list = given(in, in_count, i + 1);
        uint32_t count = 0;
        counts[i] = -1;
        if (list && (lists[i] = flow_numbers(w, list, &count)))
            counts[i] = (int)count;
        if (list && !lists[i] && i >= 2)
            return is_items(x) ? walk_unknown(w, no_sizes) : ITEMS_APART;
        if (i >= 2 && list && flow_plain(w, list, fixed[i]) < 0)
            return is_items(x) ? walk_unknown(w, no_sizes) : ITEMS_APART;
        if (in_count < 2 && (counts[i] = onnx_attribute_ints(w->node, names[i], fixed[i])) >= 0 && i < 2) {
            for (int k = 0; k < counts[i]; k++)
                from_attribute[i][k] = extent_of(fixed[i][k]);
            lists[i] = from_attribute[i];
        }
    }
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    bool known = counts[0] >= 0 && counts[1] == counts[0];
    int64_t step = counts[3] > 0 ? fixed[3][0] : 1;
    if (x->values && x->dim_count == 1 && known && counts[0] == 1 && extent_is_number(lists[0][0]) &&
        extent_is_number(lists[1][0]) && step > 0) {
        numbers_slice(w, x, lists[0][0].times, lists[1][0].times, step, out);
        return ITEMS_APART;
    }
    shape_copy(out, x);
    if (!known && counts[2] < 0) { /* it is not even known which dimensions are sliced */
        if (is_items(x))
            return walk_unknown(w, no_sizes);
        dims_forget(w, out, 0);
        return ITEMS_APART;
    }
    int n = counts[2] >= 0 ? counts[2] : counts[0];
    if ((known && counts[0] != n) || (counts[3] >= 0 && counts[3] != n)) /* lists of different lengths: it cannot run */
        return walk_unknown(w, no_sizes);
    for (int i = 0; i < n; i++) {
        int axis = axis_at(counts[2] >= 0 ? fixed[2][i] : i, x->dim_count);
        if (axis < 0)
            return walk_unknown(w, no_sizes);
        bool to_the_end = known && (extent_equal(lists[1][i], x->dims[axis]) ||
                                    (extent_is_number(lists[1][i]) && lists[1][i].times >= MORE_THAN_ANY));
        if (to_the_end && extent_is(lists[0][i], 0) && (counts[3] < 0 || fixed[3][i] == 1))
            continue;
        if (is_items(x) && axis == x->axis)
            return walk_joined(w, "takes some of the items");
        if (known && (lists[0][i].items || lists[1][i].items))
            return walk_unknown(w, "takes as much as there are items");
        int64_t size = -1;
        if (known && extent_is_number(lists[0][i]) && extent_is_number(lists[1][i]) &&
            extent_is_number(x->dims[axis]) && (counts[3] < 0 || fixed[3][i] == 1)) {
            int64_t whole_size = x->dims[axis].times, begin = lists[0][i].times, end = lists[1][i].times;
            begin += begin < 0 ? whole_size : 0;
            end += end < 0 ? whole_size : 0;
            begin = begin < 0 ? 0 : begin > whole_size ? whole_size : begin;
            end = end < 0 ? 0 : end > whole_size ? whole_size : end;
            size = end > begin ? end - begin : 0;
        }
        out->dims[axis] = size >= 0 ? extent_of(size) : extent_new(w, 0);
    }
    return ITEMS_APART;
}

RULE(gathered) {
    const struct flow *x = given(in, in_count, 0), *at = given(in, in_count, 1);
    int64_t plain[ONNX_LIST_MAX];
    bool items = is_items(x) || is_items(at);
    if (!x || !at || !has_dims(x) || !has_dims(at))
        return items ? walk_unknown(w, no_dims) : ITEMS_APART;
    int axis = axis_at(onnx_attribute_int(w->node, "axis", 0), x->dim_count), count;
    if (axis < 0 || x->dim_count - 1 + at->dim_count > FLOW_DIMS_MAX)
        return items ? walk_unknown(w, no_dims) : ITEMS_APART;
    if (x->values && x->dim_count == 1 && !items && at->dim_count <= 1 && (count = flow_plain(w, at, plain)) >= 0) {
        struct extent numbers[ONNX_LIST_MAX];
        for (int i = 0; i < count; i++) {
            int from = axis_at(plain[i], (int)x->value_count);
            if (from < 0)
                return walk_unknown(w, no_sizes);
            numbers[i] = x->values[from];
        }
        flow_set_numbers(w, out, at->dim_count, numbers, (uint32_t)count);
        return ITEMS_APART;
    }
    if (is_items(x) && is_items(at))
        return walk_joined(w, "takes rows by the items' own numbers");
    if (is_items(x) && axis == x->axis)
        return walk_joined(w, "takes some of the items");
    *out = (struct flow){.kind = items ? FLOW_ITEMS : FLOW_SAME, .dim_count = x->dim_count - 1 + at->dim_count};
    memcpy(out->dims, x->dims, (size_t)axis * sizeof(x->dims[0]));
    memcpy(out->dims + axis, at->dims, (size_t)at->dim_count * sizeof(x->dims[0]));
    memcpy(out->dims + axis + at->dim_count, x->dims + axis + 1,
           (size_t)(x->dim_count - 1 - axis) * sizeof(x->dims[0]));
    if (is_items(at))
        out->axis = axis + at->axis;
    else if (is_items(x))
        out->axis = x->axis < axis ? x->axis : x->axis - 1 + at->dim_count;
    return ITEMS_APART;
}

/* Inputs: data, positions with as many dimensions, and sometimes what is to be written there. All must have items,
 * along the same dimension. */
RULE(gathered_elements) {
    const struct flow *x = given(in, in_count, 0), *at = given(in, in_count, 1);
    if (!items_behind(in, in_count, 0))
        return ITEMS_APART;
    for (uint32_t i = 0; i < in_count; i++)
        if (!is_items(in[i]) || in[i]->axis != in[0]->axis || in[i]->dim_count != in[0]->dim_count)
            return walk_unknown(w, elsewhere);
    if (axis_at(onnx_attribute_int(w->node, "axis", 0), x->dim_count) == x->axis)
        return walk_joined(w, "takes rows by the items' own numbers");
    shape_copy(out, op_is(w, "GatherElements") ? at : x);
    return ITEMS_APART;
}

RULE(gathered_nd) {
    const struct flow *x = given(in, in_count, 0), *at = given(in, in_count, 1);
    if (!is_items(x) && !is_items(at))
        return ITEMS_APART;
    int64_t batch = onnx_attribute_int(w->node, "batch_dims", 0);
    if (!x || !at || !is_items(at) || at->axis >= at->dim_count - 1 ||
        (is_items(x) ? x->axis >= batch || at->axis != x->axis : batch > 0))
        return is_items(x) ? walk_joined(w, "takes rows by the items' own numbers") : walk_unknown(w, elsewhere);
    int64_t taken = extent_is_number(at->dims[at->dim_count - 1]) ? at->dims[at->dim_count - 1].times : -1;
    if (taken < 0 || taken > FLOW_DIMS_MAX || batch < 0 || batch > FLOW_DIMS_MAX || !has_dims(x) ||
        at->dim_count - 1 + x->dim_count - taken - batch > FLOW_DIMS_MAX)
        return walk_unknown(w, no_sizes);
    *out = (struct flow){
        .kind = FLOW_ITEMS, .dim_count = (int)(at->dim_count - 1 + x->dim_count - taken - batch), .axis = at->axis};
    if (out->dim_count < at->dim_count - 1)
        return walk_unknown(w, no_sizes);
    dims_forget(w, out, 0);
    memcpy(out->dims, at->dims, (size_t)(at->dim_count - 1) * sizeof(at->dims[0]));
    return ITEMS_APART;
}

RULE(one_hot) {
    const struct flow *x = given(in, in_count, 0);
    if (items_behind(in, in_count, 1))
        return walk_unknown(w, from_items);
    if (!x || !has_dims(x) || x->dim_count == FLOW_DIMS_MAX)
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    int axis = axis_at(onnx_attribute_int(w->node, "axis", -1), x->dim_count + 1);
    if (axis < 0)
        return walk_unknown(w, no_dims);
    shape_copy(out, x);
    dim_insert(out, axis, extent_new(w, 0));
    return ITEMS_APART;
}

/* OneHotEncoder adds a dimension behind the others. */
RULE(encoded) {
    const struct flow *x = given(in, in_count, 0);
    if (!x || !has_dims(x) || x->dim_count == FLOW_DIMS_MAX)
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    shape_copy(out, x);
    dim_insert(out, x->dim_count, extent_new(w, 0));
    return ITEMS_APART;
}

RULE(columns_taken) {
    const struct flow *x = given(in, in_count, 0);
    if (items_behind(in, in_count, 1))
        return walk_joined(w, "takes rows by the items' own numbers");
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    if (is_items(x) && x->axis == x->dim_count - 1)
        return walk_joined(w, "takes some of the items");
    shape_copy(out, x);
    out->dims[x->dim_count - 1] = extent_new(w, 0);
    return ITEMS_APART;
}

/* FeatureVectorizer puts vectors of features behind each other. */
RULE(columns_joined) {
    if (!items_behind(in, in_count, 0))
        return ITEMS_APART;
    for (uint32_t i = 0; i < in_count; i++)
        if (!is_items(in[i]) || in[i]->axis != 0 || in[i]->dim_count != 2)
            return walk_unknown(w, elsewhere);
    shape_copy(out, in[0]);
    out->dims[1] = extent_new(w, 0);
    return ITEMS_APART;
}

RULE(padded) {
    const struct flow *x = given(in, in_count, 0), *list = given(in, in_count, 1), *of = given(in, in_count, 3);
    int64_t fixed[ONNX_LIST_MAX], axes[ONNX_LIST_MAX];
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    shape_copy(out, x);
    dims_forget(w, out, 0);
    if (!is_items(x))
        return ITEMS_APART;
    uint32_t count = 0;
    const struct extent *pads = list ? flow_numbers(w, list, &count) : NULL;
    struct extent from_attribute[ONNX_LIST_MAX];
    if (!list) {
        int n = onnx_attribute_ints(w->node, w->opset < 2 ? "paddings" : "pads", fixed);
        for (int i = 0; i < n; i++)
            from_attribute[i] = extent_of(fixed[i]);
        pads = n > 0 ? from_attribute : NULL;
        count = n > 0 ? (uint32_t)n : 0;
    }
    int axis_count = of ? flow_plain(w, of, axes) : -1;
    if (!pads || count % 2 || (of && axis_count != (int)count / 2) || (!of && count != 2 * (uint32_t)x->dim_count))
        return walk_unknown(w, no_sizes);
    for (uint32_t i = 0; i < count / 2; i++) {
        bool zero = extent_is(pads[i], 0) && extent_is(pads[i + count / 2], 0);
        int d = of ? axis_at(axes[i], x->dim_count) : (int)i;
        if (d == x->axis && !zero)
            return walk_joined(w, "puts further rows around the items");
        if (d >= 0 && zero)
            out->dims[d] = x->dims[d];
    }
    return ITEMS_APART;
}

RULE(triangle) {
    const struct flow *x = given(in, in_count, 0);
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    if (is_items(x) && x->axis >= x->dim_count - 2)
        return walk_joined(w, along_items);
    shape_copy(out, x);
    return ITEMS_APART;
}

RULE(reversed) {
    const struct flow *x = given(in, in_count, 0), *lengths = given(in, in_count, 1);
    if (!is_items(x) && !is_items(lengths))
        return ITEMS_APART;
    if (!is_items(x) || x->axis != onnx_attribute_int(w->node, "batch_axis", 1) ||
        (is_items(lengths) && lengths->axis != 0))
        return walk_joined(w, along_items);
    shape_copy(out, x);
    return ITEMS_APART;
}

/* ---- shapes as numbers ---- */

RULE(shape) {
    const struct flow *x = given(in, in_count, 0);
    if (!x || !has_dims(x)) {
        out->dim_count = 1;
        out->dims[0] = extent_new(w, 0);
        return ITEMS_APART;
    }
    int64_t from = onnx_attribute_int(w->node, "start", 0), to = onnx_attribute_int(w->node, "end", x->dim_count);
    from += from < 0 ? x->dim_count : 0;
    to += to < 0 ? x->dim_count : 0;
    from = from < 0 ? 0 : from > x->dim_count ? x->dim_count : from;
    to = to > x->dim_count ? x->dim_count : to < from ? from : to;
    flow_set_numbers(w, out, 1, x->dims + from, (uint32_t)(to - from));
    return ITEMS_APART;
}

RULE(size) {
    const struct flow *x = given(in, in_count, 0);
    out->dim_count = 0;
    if (x && has_dims(x)) {
        struct extent elements = dims_multiplied(w, x->dims, 0, x->dim_count);
        flow_set_numbers(w, out, 0, &elements, 1);
    }
    return ITEMS_APART;
}

/* Sets the sizes of a tensor whose elements are all the same: if a size grows with the items, each item has an equal
 * piece. */
static enum items_verdict uniform(struct walk *w, const struct extent *dims, uint32_t dim_count, struct flow *out) {
    *out = (struct flow){.kind = FLOW_SAME, .dim_count = (int)dim_count};
    for (uint32_t d = 0; d < dim_count; d++) {
        out->dims[d] = dims[d];
        if (!dims[d].items)
            continue;
        if (dims[d].items == EXTENT_OTHERWISE || out->kind == FLOW_ITEMS)
            return walk_unknown(w, "has a size that depends on the items in an unknown way");
        out->kind = FLOW_ITEMS;
        out->axis = (int)d;
    }
    return ITEMS_APART;
}

RULE(constant_of_shape) {
    uint32_t count = 0;
    struct flow value = {.dim_count = DIMS_UNKNOWN};
    const struct extent *dims = in_count && in[0] ? flow_numbers(w, in[0], &count) : NULL;
    if (!dims || count > FLOW_DIMS_MAX)
        return in_count && in[0] && in[0]->counts ? walk_unknown(w, no_sizes) : ITEMS_APART;
    struct onnx_bytes tensor = onnx_attribute_tensor(w->node, "value");
    enum items_verdict verdict = uniform(w, dims, count, out);
    if (verdict == ITEMS_APART && count <= 1 && (count == 0 || extent_is_number(dims[0]))) {
        int64_t n = count ? dims[0].times : 1;
        struct extent numbers[ONNX_LIST_MAX];
        if (tensor.data)
            flow_weights(w, tensor, &value);
        if (n >= 0 && n <= ONNX_LIST_MAX && (!tensor.data || (value.values && value.value_count == 1))) {
            for (int64_t i = 0; i < n; i++)
                numbers[i] = tensor.data ? value.values[0] : extent_of(0);
            flow_set_numbers(w, out, (int)count, numbers, (uint32_t)n);
        }
        free(value.values);
    }
    return verdict;
}

/* Stretches a tensor, as an operation by elements with a tensor of these sizes would. */
RULE(expanded) {
    const struct flow *x = given(in, in_count, 0), *shape = given(in, in_count, 1);
    uint32_t count = 0;
    struct flow wanted;
    const struct extent *dims = shape ? flow_numbers(w, shape, &count) : NULL;
    if (!x || !has_dims(x) || !dims || count > FLOW_DIMS_MAX)
        return is_items(x) || (shape && shape->counts) ? walk_unknown(w, no_sizes) : ITEMS_APART;
    enum items_verdict verdict = uniform(w, dims, count, &wanted);
    return verdict != ITEMS_APART ? verdict : flow_stretch(w, (const struct flow *const[]){x, &wanted}, 2, out);
}

RULE(tiled) {
    const struct flow *x = given(in, in_count, 0), *times = given(in, in_count, 1);
    uint32_t count = 0;
    const struct extent *numbers = times ? flow_numbers(w, times, &count) : NULL;
    if (!x || !has_dims(x) || !numbers || (int)count != x->dim_count)
        return is_items(x) || (times && times->counts) ? walk_unknown(w, no_sizes) : ITEMS_APART;
    struct extent dims[FLOW_DIMS_MAX];
    for (int d = 0; d < x->dim_count; d++) {
        dims[d] = extent_product(w, x->dims[d], numbers[d]);
        if (is_items(x) && d == x->axis && !extent_is(numbers[d], 1))
            return walk_unknown(w, "repeats the items");
    }
    if (!is_items(x))
        return uniform(w, dims, count, out);
    for (int d = 0; d < x->dim_count; d++)
        if (d != x->axis && dims[d].items)
            return walk_unknown(w, "repeats the items");
    shape_copy(out, x);
    memcpy(out->dims, dims, count * sizeof(*dims));
    return ITEMS_APART;
}

/* Inputs: begin, end, step. A range that counts the items would give each item another number. */
RULE(range) {
    int64_t begin[ONNX_LIST_MAX], end[ONNX_LIST_MAX], step[ONNX_LIST_MAX], whole;
    struct extent numbers[ONNX_LIST_MAX];
    uint32_t count = 0;
    if (in_count < 3 || !in[0] || !in[1] || !in[2])
        return walk_unknown(w, no_sizes);
    if (in[0]->counts || in[1]->counts || in[2]->counts)
        return walk_unknown(w, "numbers the items");
    if (flow_plain(w, in[0], begin) == 1 && flow_plain(w, in[1], end) == 1 && flow_plain(w, in[2], step) == 1 &&
        step[0] > 0 && !__builtin_sub_overflow(end[0], begin[0], &whole) && whole >= 0 &&
        whole / step[0] < ONNX_LIST_MAX) {
        for (int64_t from = 0; from < whole; from += step[0] < whole ? step[0] : whole)
            numbers[count++] = extent_of(begin[0] + from);
        flow_set_numbers(w, out, 1, numbers, count);
        return ITEMS_APART;
    }
    out->dim_count = 1;
    out->dims[0] = extent_new(w, 0);
    return ITEMS_APART;
}

RULE(constant) {
    struct onnx_bytes tensor = onnx_attribute_tensor(w->node, "value");
    int64_t plain[ONNX_LIST_MAX];
    int count = onnx_attribute_ints(w->node, "value_ints", plain);
    if (tensor.data) {
        flow_weights(w, tensor, out);
    } else if (count >= 0) {
        struct extent numbers[ONNX_LIST_MAX];
        for (int i = 0; i < count; i++)
            numbers[i] = extent_of(plain[i]);
        flow_set_numbers(w, out, 1, numbers, (uint32_t)count);
    } else if (onnx_attribute_int(w->node, "value_int", INT64_MIN) != INT64_MIN) {
        struct extent number = extent_of(onnx_attribute_int(w->node, "value_int", 0));
        flow_set_numbers(w, out, 0, &number, 1);
    } else if (onnx_attribute_has(w->node, "value_float") || onnx_attribute_has(w->node, "value_string")) {
        out->dim_count = 0;
    } else { /* a list of fractions or strings */
        out->dim_count = 1;
        out->dims[0] = extent_new(w, 0);
    }
    return ITEMS_APART;
}

/* ---- tables ---- */

static const struct flow_operator standard[] = {
    {"Concat", concatenated, 0},
    {"Constant", constant, 0},
    {"ConstantOfShape", constant_of_shape, 1},
    {"Expand", expanded, SIZES(1, 1)},
    {"Flatten", flattened, 0},
    {"Gather", gathered, 0},
    {"GatherElements", gathered_elements, 0},
    {"GatherND", gathered_nd, 0},
    {"OneHot", one_hot, 0},
    {"Pad", padded, SIZES(1, 1) | SIZES(3, 3)},
    {"Range", range, SIZES(0, 2)},
    {"Reshape", reshaped, SIZES(1, 1)},
    {"ReverseSequence", reversed, 0},
    {"ScatterElements", gathered_elements, 0},
    {"Shape", shape, 0},
    {"Size", size, 0},
    {"Slice", sliced, SIZES(1, 4)},
    {"Split", split, SIZES(1, 1)},
    {"Squeeze", squeezed, SIZES(1, 1)},
    {"Tile", tiled, SIZES(1, 1)},
    {"Transpose", transposed, 0},
    {"Trilu", triangle, SIZES(1, 1)},
    {"Unsqueeze", unsqueezed, SIZES(1, 1)},
};

static const struct flow_operator learning[] = {
    {"ArrayFeatureExtractor", columns_taken, 0},
    {"FeatureVectorizer", columns_joined, 0},
    {"OneHotEncoder", encoded, 0},
};

const struct flow_operators moving_standard = {standard, ARRAY_COUNT(standard)};
const struct flow_operators moving_learning = {learning, ARRAY_COUNT(learning)};
