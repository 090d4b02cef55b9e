/* items_rules.c - what the operators of ONNX (docs/Operators.md of the ONNX project), of its machine-learning domain
 * and of ONNX Runtime do to the dimension along which items lie. */
#include <errno.h>

#include "core/util/container.h"
#include "model/onnx/items_rules.h"

/* ---- element by element ---- */

/* The first input counts; the other inputs, if any, are the same for all items. */
RULE(element) {
    const struct flow *x = in_count ? in[0] : NULL;
    if (!x)
        return walk_unknown(w, no_dims);
    if (items_behind(in, in_count, 1))
        return walk_unknown(w, from_items);
    for (uint32_t o = 0; o < out_count; o++)
        shape_copy(&out[o], x);
    if (x->values && (op_is(w, "Cast") || op_is(w, "Identity") || op_is(w, "Floor") || op_is(w, "Ceil")))
        flow_set_numbers(w, &out[0], x->dim_count, x->values, x->value_count);
    return ITEMS_APART;
}

static struct extent number_of_two(struct walk *w, struct extent a, struct extent b) {
    bool plain = extent_is_number(a) && extent_is_number(b), alike = a.unknown == b.unknown && a.items == b.items;
    struct extent result = a;
    if (op_is(w, "Mul"))
        return extent_product(w, a, b);
    if (op_is(w, "Div"))
        return plain && b.times && b.times != -1 ? extent_of(a.times / b.times) : extent_quotient(w, a, b);
    if (op_is(w, "Add") || op_is(w, "Sub")) {
        bool sub = op_is(w, "Sub");
        if (extent_is(b, 0))
            return a;
        if (!sub && extent_is(a, 0))
            return b;
        if (alike && a.items < EXTENT_OTHERWISE &&
            !(sub ? __builtin_sub_overflow(a.times, b.times, &result.times)
                  : __builtin_add_overflow(a.times, b.times, &result.times)))
            return result.times ? result : extent_of(0);
    }
    if (op_is(w, "Equal")) {
        if (plain || (alike && a.items < EXTENT_OTHERWISE))
            return extent_of(a.times == b.times);
        if ((extent_is_number(a) && a.times < 0 && b.times > 0) || (extent_is_number(b) && b.times < 0 && a.times > 0))
            return extent_of(0); /* sizes are not negative */
    }
    if (plain && (op_is(w, "Max") || op_is(w, "Min")))
        return (a.times > b.times) == op_is(w, "Max") ? a : b;
    if (plain && op_is(w, "Less"))
        return extent_of(a.times < b.times);
    if (plain && op_is(w, "Greater"))
        return extent_of(a.times > b.times);
    return extent_new(w, a.items || b.items ? EXTENT_OTHERWISE : 0);
}

static struct extent number_chosen(struct walk *w, struct extent which, struct extent yes, struct extent no) {
    if (extent_is_number(which))
        return which.times ? yes : no;
    return extent_equal(yes, no) ? yes : extent_new(w, which.items || yes.items || no.items ? EXTENT_OTHERWISE : 0);
}

/* Computes the numbers where all inputs are short lists of numbers. False: they are not. */
static bool numbers_compute(struct walk *w, const struct flow *const *in, uint32_t in_count, struct flow *out) {
    const struct extent *lists[3];
    uint32_t counts[3], count = 1;
    int dim_count = 0;
    bool any = false;
    if (in_count < 1 || in_count > 3 || (in_count == 3 && !op_is(w, "Where")) || (in_count == 1))
        return false;
    for (uint32_t i = 0; i < in_count; i++) {
        if (!in[i] || in[i]->kind != FLOW_SAME || in[i]->dim_count > 1)
            return false;
        any |= in[i]->values != NULL;
        if (!(lists[i] = flow_numbers(w, in[i], &counts[i])))
            return false;
        dim_count = in[i]->dim_count > dim_count ? in[i]->dim_count : dim_count;
        if (counts[i] != 1 && count != 1 && counts[i] != count)
            return false;
        count = counts[i] != 1 ? counts[i] : count;
    }
    struct extent result[ONNX_LIST_MAX];
    if (!any || count > ONNX_LIST_MAX)
        return false;
    for (uint32_t n = 0; n < count; n++) {
        struct extent e[3] = {{0}};
        for (uint32_t i = 0; i < in_count; i++)
            e[i] = lists[i][counts[i] == 1 ? 0 : n];
        result[n] = in_count == 3 ? number_chosen(w, e[0], e[1], e[2]) : number_of_two(w, e[0], e[1]);
    }
    flow_set_numbers(w, out, dim_count, result, count);
    return true;
}

enum items_verdict flow_stretch(struct walk *w, const struct flow *const *in, uint32_t in_count, struct flow *out) {
    int dim_count = 0, axis = -1;
    bool known = true;
    for (uint32_t i = 0; i < in_count; i++) {
        known &= !in[i] || has_dims(in[i]);
        dim_count = in[i] && in[i]->dim_count > dim_count ? in[i]->dim_count : dim_count;
    }
    if (!known)
        return items_behind(in, in_count, 0) ? walk_unknown(w, no_dims) : ITEMS_APART;
    for (uint32_t i = 0; i < in_count; i++) {
        if (!is_items(in[i]))
            continue;
        int at = in[i]->axis + dim_count - in[i]->dim_count;
        if (axis >= 0 && at != axis)
            return walk_joined(w, elsewhere);
        axis = at;
    }
    *out = (struct flow){.kind = axis >= 0 ? FLOW_ITEMS : FLOW_SAME, .dim_count = dim_count, .axis = axis};
    for (int d = 0; d < dim_count; d++) {
        struct extent size = extent_of(1);
        for (uint32_t i = 0; i < in_count; i++) {
            int at = in[i] ? d - (dim_count - in[i]->dim_count) : -1;
            if (at < 0 || extent_is(in[i]->dims[at], 1))
                continue;
            if (d == axis && !is_items(in[i]))
                return walk_unknown(w, "takes, where the items lie, what is of another size");
            if (extent_is(size, 1))
                size = in[i]->dims[at];
            else if (!extent_equal(size, in[i]->dims[at])) /* one of the two sizes is 1, or both are equal */
                size = d == axis ? extent_new(w, 1) : extent_new(w, 0);
        }
        if (d == axis && (size.items != 1))
            return walk_unknown(w, no_sizes);
        out->dims[d] = size;
    }
    return ITEMS_APART;
}

RULE(elements) {
    if (numbers_compute(w, in, in_count, out))
        return ITEMS_APART;
    return flow_stretch(w, in, in_count, out);
}

/* ---- within one dimension ---- */

/* Normalises or sums up along `axis` and keeps all sizes. */
static enum items_verdict along(struct walk *w, const struct flow *x, int64_t axis, bool to_the_end, struct flow *out) {
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    int at = axis_at(axis, x->dim_count);
    if (is_items(x) && (at < 0 || at == x->axis || (to_the_end && at < x->axis)))
        return walk_joined(w, along_items);
    shape_copy(out, x);
    return ITEMS_APART;
}

/* Before version 13 softmax takes all dimensions from its axis on as one dimension. */
RULE(softmax) {
    return along(w, given(in, in_count, 0), onnx_attribute_int(w->node, "axis", w->opset < 13 ? 1 : -1), w->opset < 13,
                 out);
}

RULE(cumulated) {
    int64_t axis[ONNX_LIST_MAX];
    if (in_count < 2 || !in[1] || flow_plain(w, in[1], axis) != 1)
        return walk_unknown(w, no_sizes);
    return along(w, in[0], axis[0], false, out);
}

/* Normalises each row over its last dimensions; scale and bias are the same for all rows. */
RULE(layer_normalised) {
    if (items_behind(in, in_count, 1))
        return walk_unknown(w, from_items);
    enum items_verdict verdict = along(w, given(in, in_count, 0), onnx_attribute_int(w->node, "axis", -1), true, out);
    for (uint32_t o = 1; o < out_count && verdict == ITEMS_APART; o++) { /* means, deviations: not to be taken */
        out[o].kind = FLOW_JOINED;
        w->what = "has means that are given on";
    }
    return verdict;
}

RULE(lp_normalised) {
    return along(w, given(in, in_count, 0), onnx_attribute_int(w->node, "axis", -1), false, out);
}

/* Rows are normalised; a lone dimension would be the row. */
RULE(rows) {
    const struct flow *x = given(in, in_count, 0);
    if (!is_items(x)) {
        if (items_behind(in, in_count, 0))
            return walk_unknown(w, from_items);
        return ITEMS_APART;
    }
    if (x->dim_count < 2 || x->axis != 0)
        return walk_joined(w, along_items);
    if (items_behind(in, in_count, 1))
        return walk_unknown(w, from_items);
    for (uint32_t o = 0; o < out_count; o++) {
        out[o] = (struct flow){.kind = FLOW_ITEMS, .dim_count = 2, .axis = 0, .dims = {x->dims[0], extent_new(w, 0)}};
        if (o == 0 && (op_is(w, "TreeEnsembleClassifier") || op_is(w, "LinearClassifier") || op_is(w, "SVMClassifier")))
            out[o].dim_count = 1; /* the label */
    }
    return ITEMS_APART;
}

bool flow_axes_read(struct walk *w, const struct flow *list, int dim_count, bool *axes, bool *none) {
    int64_t numbers[ONNX_LIST_MAX];
    int count = list ? flow_plain(w, list, numbers) : onnx_attribute_ints(w->node, "axes", numbers);
    *none = (!list && count == -ENOENT) || count == 0;
    if (*none)
        return true;
    for (int i = 0; i < count; i++) {
        int at = axis_at(numbers[i], dim_count);
        if (at < 0)
            return false;
        axes[at] = true;
    }
    return count > 0;
}

RULE(reduced) {
    const struct flow *x = given(in, in_count, 0), *list = given(in, in_count, 1);
    bool axes[FLOW_DIMS_MAX] = {false}, none = false;
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    if (!flow_axes_read(w, list, x->dim_count, axes, &none))
        return is_items(x) ? walk_unknown(w, no_sizes) : ITEMS_APART;
    if (none && onnx_attribute_int(w->node, "noop_with_empty_axes", 0)) {
        shape_copy(out, x);
        return ITEMS_APART;
    }
    bool keep = onnx_attribute_int(w->node, "keepdims", 1);
    for (int d = 0; d < x->dim_count; d++)
        axes[d] |= none;
    if (is_items(x) && axes[x->axis])
        return walk_joined(w, "reduces over the items");
    if (x->values && x->dim_count == 1 && op_is(w, "ReduceProd")) {
        struct extent product = extent_of(1);
        for (uint32_t i = 0; i < x->value_count; i++)
            product = extent_product(w, product, x->values[i]);
        flow_set_numbers(w, out, keep, &product, 1);
        return ITEMS_APART;
    }
    shape_copy(out, x);
    for (int d = x->dim_count - 1; d >= 0; d--) {
        if (axes[d] && keep)
            out->dims[d] = extent_of(1);
        else if (axes[d])
            dim_remove(out, d);
    }
    return ITEMS_APART;
}

RULE(greatest_at) {
    const struct flow *x = given(in, in_count, 0);
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    int at = axis_at(onnx_attribute_int(w->node, "axis", 0), x->dim_count);
    if (is_items(x) && at == x->axis)
        return walk_joined(w, "reduces over the items");
    if (at < 0)
        return walk_unknown(w, no_dims);
    shape_copy(out, x);
    if (onnx_attribute_int(w->node, "keepdims", 1))
        out->dims[at] = extent_of(1);
    else
        dim_remove(out, at);
    return ITEMS_APART;
}

RULE(top) {
    const struct flow *x = given(in, in_count, 0);
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    int at = axis_at(onnx_attribute_int(w->node, "axis", -1), x->dim_count);
    if (is_items(x) && (at < 0 || at == x->axis))
        return walk_joined(w, "sorts the items");
    for (uint32_t o = 0; o < out_count; o++) {
        shape_copy(&out[o], x);
        if (at >= 0)
            out[o].dims[at] = extent_new(w, 0);
    }
    return ITEMS_APART;
}

/* ---- products ---- */

/* Multiplies rows of the left input with columns of the right input. */
static enum items_verdict product_of(struct walk *w, const struct flow *a, const struct flow *b, struct flow *out) {
    struct flow left, right, sides[2];
    if (!a || !b)
        return walk_unknown(w, no_dims);
    if (!has_dims(a) || !has_dims(b) || a->dim_count == 0 || b->dim_count == 0)
        return is_items(a) || is_items(b) ? walk_unknown(w, no_dims) : ITEMS_APART;
    shape_copy(&left, a);
    shape_copy(&right, b);
    if ((is_items(a) && a->axis == a->dim_count - 1) ||
        (is_items(b) && b->axis == (b->dim_count > 1 ? b->dim_count - 2 : 0)))
        return walk_joined(w, "sums products over the items");
    if ((left.dim_count == 1 && !dim_insert(&left, 0, extent_of(1))) ||
        (right.dim_count == 1 && !dim_insert(&right, 1, extent_of(1))))
        return walk_unknown(w, no_dims);
    /* as tensors of which each has the result's last two dimensions */
    sides[0] = left;
    sides[1] = right;
    sides[0].dims[left.dim_count - 1] = extent_of(1);
    sides[1].dims[right.dim_count - 2] = extent_of(1);
    enum items_verdict verdict = flow_stretch(w, (const struct flow *const[]){&sides[0], &sides[1]}, 2, out);
    if (verdict != ITEMS_APART)
        return verdict;
    if (b->dim_count == 1 && !(is_items(out) && out->axis == out->dim_count - 1))
        dim_remove(out, out->dim_count - 1);
    if (a->dim_count == 1)
        dim_remove(out, out->dim_count - 1 - (b->dim_count != 1));
    return ITEMS_APART;
}

RULE(product) {
    if (items_behind(in, in_count, 2))
        return walk_unknown(w, from_items);
    return product_of(w, given(in, in_count, 0), given(in, in_count, 1), out);
}

/* FusedMatMul of com.microsoft may take its inputs transposed. */
RULE(product_fused) {
    const struct flow *a = given(in, in_count, 0), *b = given(in, in_count, 1);
    if (onnx_attribute_int(w->node, "transBatchA", 0) || onnx_attribute_int(w->node, "transBatchB", 0) || !a || !b ||
        (onnx_attribute_int(w->node, "transA", 0) && is_items(a) && a->axis >= a->dim_count - 2) ||
        (onnx_attribute_int(w->node, "transB", 0) && is_items(b) && b->axis >= b->dim_count - 2))
        return walk_unknown(w, "may take its inputs transposed");
    return product(w, in, in_count, out, out_count);
}

/* Inputs: left, its scale and zero; right, its scale and zero; the result's scale and zero. */
RULE(product_quantised) {
    for (uint32_t i = 0; i < in_count; i++)
        if (i != 0 && i != 3 && is_items(in[i]))
            return walk_unknown(w, from_items);
    return product_of(w, given(in, in_count, 0), given(in, in_count, 3), out);
}

/* The right input has been packed: of the result's sizes only the last one differs from the left input's. */
RULE(product_packed) {
    const struct flow *x = given(in, in_count, 0);
    if (items_behind(in, in_count, 1))
        return walk_unknown(w, from_items);
    if (!x || !has_dims(x) || x->dim_count < 1)
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    if (is_items(x) && x->axis == x->dim_count - 1)
        return walk_joined(w, "sums products over the items");
    shape_copy(out, x);
    out->dims[out->dim_count - 1] = extent_new(w, 0);
    return ITEMS_APART;
}

RULE(general_product) {
    const struct flow *a = given(in, in_count, 0), *b = given(in, in_count, 1), *c = given(in, in_count, 2);
    bool across = onnx_attribute_int(w->node, "transA", 0);
    if (!is_items(a) && !is_items(b) && !is_items(c)) {
        *out = (struct flow){.kind = FLOW_SAME, .dim_count = 2, .dims = {extent_new(w, 0), extent_new(w, 0)}};
        return ITEMS_APART;
    }
    if (!is_items(a) || is_items(b))
        return walk_unknown(w, from_items);
    if (a->dim_count != 2 || a->axis != (across ? 1 : 0))
        return walk_joined(w, "sums products over the items");
    if (is_items(c) && (c->dim_count != 2 || c->axis != 0))
        return walk_joined(w, elsewhere);
    *out = (struct flow){.kind = FLOW_ITEMS, .dim_count = 2, .dims = {a->dims[a->axis], extent_new(w, 0)}};
    if (c && !is_items(c) && has_dims(c) && c->dim_count == 2 && !extent_is(c->dims[0], 1))
        return walk_unknown(w, "takes, where the items lie, what is of another size");
    return ITEMS_APART;
}

/* Einsum, "bij,bjk->bik": the letter of the items' dimension must be in all inputs that have items, in no other input,
 * and in the result. */
RULE(einsum) {
    struct onnx_bytes equation = onnx_attribute_string(w->node, "equation");
    uint32_t term = 0, at = 0;
    char letter = 0;
    int dim_count = 0, axis = -1, seen = 0;
    if (!items_behind(in, in_count, 0))
        return ITEMS_APART;
    for (uint32_t pass = 0; pass < 2; pass++) { /* the first pass finds the letter, the second one looks where it is */
        term = at = 0;
        dim_count = 0, axis = -1, seen = 0;
        bool result = false;
        for (size_t i = 0; i < equation.length; i++) {
            char c = (char)equation.data[i];
            if (c == ' ')
                continue;
            if (c == '.')
                return walk_unknown(w, "has an equation with dots");
            if (c == ',' || c == '-') {
                if (pass && term < in_count && is_items(in[term]) != (seen == 1))
                    return walk_joined(w, elsewhere);
                term++, at = 0, seen = 0;
                continue;
            }
            if (c == '>') {
                result = true;
                continue;
            }
            if (!pass && !result && term < in_count && is_items(in[term]) && (int)at == in[term]->axis) {
                if (letter && letter != c)
                    return walk_joined(w, elsewhere);
                letter = c;
            }
            if (pass && c == letter) {
                if (!result && term < in_count && is_items(in[term]) && (int)at != in[term]->axis)
                    return walk_joined(w, elsewhere);
                axis = result ? dim_count : axis;
                seen++;
            }
            dim_count += result;
            at++;
        }
        if (!result)
            return walk_unknown(w, "has an equation without '->'");
    }
    if (axis < 0)
        return walk_joined(w, "sums products over the items");
    if (dim_count > FLOW_DIMS_MAX)
        return walk_unknown(w, no_dims);
    *out = (struct flow){.kind = FLOW_ITEMS, .dim_count = dim_count, .axis = axis};
    dims_forget(w, out, 0);
    out->dims[axis] = extent_new(w, 1);
    for (uint32_t i = 0; i < in_count; i++)
        if (is_items(in[i]))
            out->dims[axis] = in[i]->dims[in[i]->axis];
    return ITEMS_APART;
}

/* ---- images ---- */

/* Dimensions are N, C, and others behind. The operator works on each item by itself; weights are the same for all
 * items. */
RULE(image) {
    const struct flow *x = given(in, in_count, 0);
    if (items_behind(in, in_count, 1))
        return walk_unknown(w, from_items);
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    if (is_items(x) && (x->axis != 0 || x->dim_count < 2))
        return walk_joined(w, along_items);
    shape_copy(out, x);
    dims_forget(w, out, 1);
    for (uint32_t o = 1; o < out_count; o++) { /* MaxPool: positions in the whole batch */
        out[o].kind = FLOW_JOINED;
        w->what = "gives positions in the whole batch";
    }
    return ITEMS_APART;
}

/* As `image`, and the sizes stay. No node may take the further outputs, a mask or means. */
RULE(image_same) {
    const struct flow *x = given(in, in_count, 0);
    enum items_verdict verdict = image(w, in, in_count, out, 1);
    if (verdict != ITEMS_APART)
        return verdict;
    for (uint32_t o = 1; o < out_count; o++) {
        out[o].kind = FLOW_JOINED;
        w->what = "has a mask or means that are given on";
    }
    if (x && has_dims(x))
        shape_copy(out, x);
    return ITEMS_APART;
}

RULE(batch_normalised) {
    bool training = onnx_attribute_int(w->node, "training_mode", 0) || (w->opset < 14 && out_count > 1) ||
                    (w->opset < 7 && !onnx_attribute_int(w->node, "is_test", 0));
    if (training && items_behind(in, in_count, 0))
        return walk_joined(w, "normalises by the statistics of the batch");
    const struct flow *x = given(in, in_count, 0);
    if (is_items(x) && x->axis == 0 && x->dim_count == 1)
        return walk_joined(w, along_items);
    return image_same(w, in, in_count, out, out_count);
}

RULE(mean_variance_normalised) {
    const struct flow *x = given(in, in_count, 0);
    int64_t axes[ONNX_LIST_MAX];
    int count = onnx_attribute_ints(w->node, "axes", axes);
    if (!is_items(x))
        return ITEMS_APART;
    if (count < 0)
        axes[0] = 0, count = 1; /* default axes: 0, 2, 3 */
    for (int i = 0; i < count; i++)
        if (axis_at(axes[i], x->dim_count) == x->axis)
            return walk_joined(w, "normalises by the statistics of the batch");
    shape_copy(out, x);
    return ITEMS_APART;
}

/* Upsample takes scales as its second input, Resize from version 11 on as its third, or sizes as its fourth. */
RULE(resized) {
    const struct flow *x = given(in, in_count, 0), *list = NULL;
    int64_t axes[ONNX_LIST_MAX];
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    shape_copy(out, x);
    dims_forget(w, out, 0);
    if (!is_items(x))
        return ITEMS_APART;
    bool sizes = given(in, in_count, 3) != NULL;
    list = sizes ? in[3] : in_count == 2 ? in[1] : given(in, in_count, 2);
    int axis_count = onnx_attribute_ints(w->node, "axes", axes), at = x->axis;
    for (int i = 0; axis_count >= 0; i++) {
        if (i == axis_count)
            return ITEMS_APART; /* the items' dimension is not resized */
        if (axis_at(axes[i], x->dim_count) == x->axis) {
            at = i;
            break;
        }
    }
    uint32_t count = 0;
    const struct extent *values = list ? flow_numbers(w, list, &count) : NULL;
    if (!values || at >= (int)count)
        return walk_unknown(w, no_sizes);
    if (sizes ? !extent_equal(values[at], x->dims[x->axis]) : !extent_is(values[at], 1))
        return walk_unknown(w, "may be resized where the items lie");
    return ITEMS_APART;
}

/* Inputs: images, and positions to look at in them. */
RULE(sampled) {
    const struct flow *x = given(in, in_count, 0), *grid = given(in, in_count, 1);
    if (!is_items(x) && !is_items(grid))
        return ITEMS_APART;
    if (!is_items(x) || !is_items(grid) || x->axis != 0 || grid->axis != 0)
        return walk_unknown(w, elsewhere);
    shape_copy(out, x);
    dims_forget(w, out, 2);
    return ITEMS_APART;
}

/* ---- others ---- */

/* X is [sequence, item, features], or with `layout` 1 [item, sequence, features]. */
RULE(recurrent) {
    const struct flow *x = given(in, in_count, 0), *lengths = given(in, in_count, 4);
    bool first = onnx_attribute_int(w->node, "layout", 0);
    if (!items_behind(in, in_count, 0))
        return ITEMS_APART;
    if (!is_items(x) || x->dim_count != 3 || is_items(given(in, in_count, 1)) || is_items(given(in, in_count, 2)) ||
        is_items(given(in, in_count, 3)) || is_items(given(in, in_count, 7)))
        return walk_unknown(w, from_items);
    if (x->axis != (first ? 0 : 1))
        return walk_joined(w, along_items);
    if (is_items(lengths) && lengths->axis != 0)
        return walk_unknown(w, elsewhere);
    for (uint32_t i = 5; i <= 6; i++)
        if (is_items(given(in, in_count, i)) && in[i]->axis != (first ? 0 : 1))
            return walk_joined(w, elsewhere);
    for (uint32_t o = 0; o < out_count; o++) {
        out[o] = (struct flow){.kind = FLOW_ITEMS, .dim_count = o == 0 ? 4 : 3};
        out[o].axis = first ? 0 : o == 0 ? 2 : 1;
        dims_forget(w, &out[o], 0);
        out[o].dims[out[o].axis] = x->dims[x->axis];
        if (o == 0)
            out[o].dims[first ? 1 : 0] = x->dims[first ? 1 : 0];
    }
    return ITEMS_APART;
}

/* Scale and zero are the same for all items. With one scale for each channel, the items must lie along another
 * dimension. */
RULE(quantised) {
    const struct flow *x = given(in, in_count, 0), *scale = given(in, in_count, 1);
    if (items_behind(in, in_count, 1))
        return walk_joined(w, "quantises by a scale taken from the items");
    if (!x || !has_dims(x))
        return is_items(x) ? walk_unknown(w, no_dims) : ITEMS_APART;
    bool channels = !scale || !has_dims(scale) || (scale->dim_count > 0 && !extent_is(scale->dims[0], 1));
    if (is_items(x) && channels && axis_at(onnx_attribute_int(w->node, "axis", 1), x->dim_count) == x->axis)
        return walk_unknown(w, along_items);
    shape_copy(out, x);
    return ITEMS_APART;
}

RULE(dynamically_quantised) {
    return items_behind(in, in_count, 0)
               ? walk_joined(w, "quantises by the range of the whole batch (dynamic quantisation)")
               : ITEMS_APART;
}

RULE(joins) {
    return items_behind(in, in_count, 0) ? walk_joined(w, "looks at all items together") : ITEMS_APART;
}

/* StringNormalizer works on strings one by one, unless it drops some strings. */
RULE(normalised_strings) {
    return onnx_attribute_has(w->node, "stopwords") ? joins(w, in, in_count, out, out_count)
                                                    : element(w, in, in_count, out, out_count);
}

/* Attention and what ONNX Runtime fuses: [item, ...] in, [item, ...] out, weights the same for all. */
RULE(fused) {
    const struct flow *x = NULL;
    for (uint32_t i = 0; i < in_count; i++) {
        if (!is_items(in[i]))
            continue;
        if (in[i]->axis != 0)
            return walk_unknown(w, elsewhere);
        x = x ? x : in[i];
    }
    if (!x)
        return ITEMS_APART;
    for (uint32_t o = 0; o < out_count; o++) {
        out[o].kind = o ? FLOW_JOINED : FLOW_ITEMS;
        w->what = "has further outputs whose dimensions are not known";
    }
    shape_copy(&out[0], x);
    dims_forget(w, &out[0], 1);
    return ITEMS_APART;
}

/* Inputs: rows, and what is added to them. */
RULE(skip_normalised) {
    const struct flow *x = given(in, in_count, 0), *skip = given(in, in_count, 1);
    if (!is_items(x) && !is_items(skip))
        return ITEMS_APART;
    if (!is_items(x) || items_behind(in, in_count, 2) || x->axis == x->dim_count - 1)
        return walk_unknown(w, from_items);
    enum items_verdict verdict = flow_stretch(w, (const struct flow *const[]){x, skip}, skip ? 2 : 1, out);
    for (uint32_t o = 1; o < out_count && verdict == ITEMS_APART; o++) {
        if (o == 3)
            shape_copy(&out[o], &out[0]); /* the sum */
        else
            out[o].kind = FLOW_JOINED;
        w->what = "has further outputs whose dimensions are not known";
    }
    return verdict;
}

static const struct flow_operator standard[] = {
    {"Abs", element, 0},
    {"Acos", element, 0},
    {"Acosh", element, 0},
    {"Add", elements, 0},
    {"And", elements, 0},
    {"ArgMax", greatest_at, 0},
    {"ArgMin", greatest_at, 0},
    {"Asin", element, 0},
    {"Asinh", element, 0},
    {"Atan", element, 0},
    {"Atanh", element, 0},
    {"AveragePool", image, 0},
    {"BatchNormalization", batch_normalised, 0},
    {"BitShift", elements, 0},
    {"BitwiseAnd", elements, 0},
    {"BitwiseNot", element, 0},
    {"BitwiseOr", elements, 0},
    {"BitwiseXor", elements, 0},
    {"Cast", element, 0},
    {"CastLike", element, 2},
    {"Ceil", element, 0},
    {"Celu", element, 0},
    {"Clip", element, 0},
    {"Compress", joins, 0},
    {"Conv", image, 0},
    {"ConvInteger", image, 0},
    {"ConvTranspose", image, 0},
    {"Cos", element, 0},
    {"Cosh", element, 0},
    {"CumSum", cumulated, SIZES(1, 1)},
    {"DepthToSpace", image, 0},
    {"DequantizeLinear", quantised, 0},
    {"Div", elements, 0},
    {"Dropout", image_same, 0},
    {"DynamicQuantizeLinear", dynamically_quantised, 0},
    {"Einsum", einsum, 0},
    {"Elu", element, 0},
    {"Equal", elements, 0},
    {"Erf", element, 0},
    {"Exp", element, 0},
    {"Floor", element, 0},
    {"GRU", recurrent, 0},
    {"Gelu", element, 0},
    {"Gemm", general_product, 0},
    {"GlobalAveragePool", image, 0},
    {"GlobalLpPool", image, 0},
    {"GlobalMaxPool", image, 0},
    {"Greater", elements, 0},
    {"GreaterOrEqual", elements, 0},
    {"GridSample", sampled, 0},
    {"GroupNormalization", image_same, 0},
    {"HardSigmoid", element, 0},
    {"HardSwish", element, 0},
    {"Hardmax", softmax, 0},
    {"Identity", element, 0},
    {"InstanceNormalization", image_same, 0},
    {"IsInf", element, 0},
    {"IsNaN", element, 0},
    {"LRN", image_same, 0},
    {"LSTM", recurrent, 0},
    {"LayerNormalization", layer_normalised, 0},
    {"LeakyRelu", element, 0},
    {"Less", elements, 0},
    {"LessOrEqual", elements, 0},
    {"Log", element, 0},
    {"LogSoftmax", softmax, 0},
    {"LpNormalization", lp_normalised, 0},
    {"LpPool", image, 0},
    {"MatMul", product, 0},
    {"MatMulInteger", product, 0},
    {"Max", elements, 0},
    {"MaxPool", image, 0},
    {"Mean", elements, 0},
    {"MeanVarianceNormalization", mean_variance_normalised, 0},
    {"Min", elements, 0},
    {"Mish", element, 0},
    {"Mod", elements, 0},
    {"Mul", elements, 0},
    {"Neg", element, 0},
    {"NonMaxSuppression", joins, 0},
    {"NonZero", joins, 0},
    {"Not", element, 0},
    {"Or", elements, 0},
    {"PRelu", elements, 0},
    {"Pow", elements, 0},
    {"QLinearConv", image, 0},
    {"QLinearMatMul", product_quantised, 0},
    {"QuantizeLinear", quantised, 0},
    {"RMSNormalization", layer_normalised, 0},
    {"RNN", recurrent, 0},
    {"Reciprocal", element, 0},
    {"ReduceL1", reduced, SIZES(1, 1)},
    {"ReduceL2", reduced, SIZES(1, 1)},
    {"ReduceLogSum", reduced, SIZES(1, 1)},
    {"ReduceLogSumExp", reduced, SIZES(1, 1)},
    {"ReduceMax", reduced, SIZES(1, 1)},
    {"ReduceMean", reduced, SIZES(1, 1)},
    {"ReduceMin", reduced, SIZES(1, 1)},
    {"ReduceProd", reduced, SIZES(1, 1)},
    {"ReduceSum", reduced, SIZES(1, 1)},
    {"ReduceSumSquare", reduced, SIZES(1, 1)},
    {"RegexFullMatch", element, 0},
    {"Relu", element, 0},
    {"Resize", resized, SIZES(1, 3)},
    {"Round", element, 0},
    {"Selu", element, 0},
    {"Shrink", element, 0},
    {"Sigmoid", element, 0},
    {"Sign", element, 0},
    {"Sin", element, 0},
    {"Sinh", element, 0},
    {"Softmax", softmax, 0},
    {"Softplus", element, 0},
    {"Softsign", element, 0},
    {"SpaceToDepth", image, 0},
    {"Sqrt", element, 0},
    {"StringConcat", elements, 0},
    {"StringNormalizer", normalised_strings, 0},
    {"StringSplit", joins, 0},
    {"Sub", elements, 0},
    {"Sum", elements, 0},
    {"Swish", element, 0},
    {"Tan", element, 0},
    {"Tanh", element, 0},
    {"TfIdfVectorizer", rows, 0},
    {"ThresholdedRelu", element, 0},
    {"TopK", top, SIZES(1, 1)},
    {"Unique", joins, 0},
    {"Upsample", resized, SIZES(1, 1)},
    {"Where", elements, 0},
    {"Xor", elements, 0},
};

static const struct flow_operator learning[] = {
    {"Binarizer", element, 0},    {"CategoryMapper", element, 0},      {"Imputer", element, 0},
    {"LabelEncoder", element, 0}, {"LinearClassifier", rows, 0},       {"LinearRegressor", rows, 0},
    {"Normalizer", rows, 0},      {"SVMClassifier", rows, 0},          {"SVMRegressor", rows, 0},
    {"Scaler", rows, 0},          {"TreeEnsembleClassifier", rows, 0}, {"TreeEnsembleRegressor", rows, 0},
};

static const struct flow_operator runtime[] = {
    {"Attention", fused, 0},
    {"BiasGelu", element, 0},
    {"DynamicQuantizeLSTM", dynamically_quantised, 0},
    {"DynamicQuantizeMatMul", dynamically_quantised, 0},
    {"EmbedLayerNormalization", fused, 0},
    {"FastGelu", element, 0},
    {"FusedConv", fused, 0},
    {"FusedMatMul", product_fused, 0},
    {"Gelu", element, 0},
    {"MatMulIntegerToFloat", product, 0},
    {"MatMulNBits", product_packed, 0},
    {"MultiHeadAttention", fused, 0},
    {"QLinearAveragePool", image, 0},
    {"QLinearGlobalAveragePool", image, 0},
    {"QLinearLeakyRelu", element, 0},
    {"QLinearSigmoid", element, 0},
    {"QuickGelu", element, 0},
    {"SimplifiedLayerNormalization", layer_normalised, 0},
    {"SkipLayerNormalization", skip_normalised, 0},
    {"SkipSimplifiedLayerNormalization", skip_normalised, 0},
    {"Tokenizer", joins, 0},
    {"Unique", joins, 0},
};

const struct flow_operator *flow_operator_find(const struct onnx_node *node) {
    static const struct flow_operators rules[] = {
        {standard, ARRAY_COUNT(standard)}, {learning, ARRAY_COUNT(learning)}, {runtime, ARRAY_COUNT(runtime)}};
    static const struct {
        const char *name;
        const struct flow_operators *operators;
    } domains[] = {{"", &rules[0]},
                   {"", &moving_standard},
                   {"ai.onnx", &rules[0]},
                   {"ai.onnx", &moving_standard},
                   {"ai.onnx.ml", &rules[1]},
                   {"ai.onnx.ml", &moving_learning},
                   {"com.microsoft", &rules[2]}};
    for (size_t d = 0; d < ARRAY_COUNT(domains); d++)
        for (size_t i = 0; i < domains[d].operators->count && onnx_bytes_are(node->domain, domains[d].name); i++)
            if (onnx_bytes_are(node->op, domains[d].operators->at[i].name))
                return &domains[d].operators->at[i];
    return NULL;
}
