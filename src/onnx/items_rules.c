/* items_rules.c - what the operators of ONNX (docs/Operators.md of the ONNX project), of its machine-learning domain
 * and of ONNX Runtime do to the dimension along which items lie. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "onnx/items_flow.h"

#define RULE(name)                                                                                                     \
    static enum items_verdict name(struct walk *w, const struct flow *const *in, uint32_t in_count, struct flow *out,  \
                                   uint32_t out_count)

static const char no_rank[] = "takes a tensor whose dimensions are not known";
static const char along_items[] = "works along the items";
static const char elsewhere[] = "takes tensors whose items lie along different dimensions";
static const char no_sizes[] = "has sizes that are not known";
static const char from_items[] = "takes weights, or an axis, from the items";

static const struct flow *given(const struct flow *const *in, uint32_t in_count, uint32_t i) {
    return i < in_count ? in[i] : NULL;
}

static bool is_items(const struct flow *flow) {
    return flow && flow->kind == FLOW_ITEMS;
}

static bool has_rank(const struct flow *flow) {
    return flow->rank != RANK_UNKNOWN;
}

static bool op_is(const struct walk *w, const char *name) {
    return onnx_bytes_are(w->node->op, name);
}

/* An axis counted from the front; -1: there is none such. */
static int axis_at(int64_t axis, int rank) {
    axis += axis < 0 ? rank : 0;
    return axis >= 0 && axis < rank ? (int)axis : -1;
}

/* All but its numbers. */
static void shape_copy(struct flow *to, const struct flow *from) {
    *to = *from;
    to->values = NULL;
    to->value_count = 0;
    to->counts = false;
}

/* Whether any input behind the first `from` has items. */
static bool items_behind(const struct flow *const *in, uint32_t in_count, uint32_t from) {
    for (uint32_t i = from; i < in_count; i++)
        if (is_items(in[i]))
            return true;
    return false;
}

static void dim_remove(struct flow *flow, int d) {
    memmove(&flow->dims[d], &flow->dims[d + 1], (size_t)(flow->rank - d - 1) * sizeof(flow->dims[0]));
    flow->rank--;
    flow->axis -= d < flow->axis;
}

static bool dim_insert(struct flow *flow, int d, struct extent size) {
    if (flow->rank == FLOW_RANK_MAX)
        return false;
    memmove(&flow->dims[d + 1], &flow->dims[d], (size_t)(flow->rank - d) * sizeof(flow->dims[0]));
    flow->dims[d] = size;
    flow->rank++;
    flow->axis += flow->kind == FLOW_ITEMS && d <= flow->axis;
    return true;
}

/* Sizes of all dimensions but that of the items are no longer known. */
static void dims_forget(struct walk *w, struct flow *flow, int from) {
    for (int d = from; d < flow->rank; d++)
        if (flow->kind != FLOW_ITEMS || d != flow->axis)
            flow->dims[d] = extent_new(w, 0);
}

/* ---- element by element ---- */

/* One input counts; the others, if any, are the same for all items. */
RULE(element) {
    const struct flow *x = in_count ? in[0] : NULL;
    if (!x)
        return walk_unknown(w, no_rank);
    if (items_behind(in, in_count, 1))
        return walk_unknown(w, from_items);
    for (uint32_t o = 0; o < out_count; o++)
        shape_copy(&out[o], x);
    if (x->values && (op_is(w, "Cast") || op_is(w, "Identity") || op_is(w, "Floor") || op_is(w, "Ceil")))
        flow_set_numbers(w, &out[0], x->rank, x->values, x->value_count);
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

/* Of short lists of numbers, the numbers; whether they are that. */
static bool numbers_compute(struct walk *w, const struct flow *const *in, uint32_t in_count, struct flow *out) {
    const struct extent *lists[3];
    uint32_t counts[3], count = 1;
    int rank = 0;
    bool any = false;
    if (in_count < 1 || in_count > 3 || (in_count == 3 && !op_is(w, "Where")) || (in_count == 1))
        return false;
    for (uint32_t i = 0; i < in_count; i++) {
        if (!in[i] || in[i]->kind != FLOW_SAME || in[i]->rank > 1)
            return false;
        any |= in[i]->values != NULL;
        if (!(lists[i] = flow_numbers(w, in[i], &counts[i])))
            return false;
        rank = in[i]->rank > rank ? in[i]->rank : rank;
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
    flow_set_numbers(w, out, rank, result, count);
    return true;
}

/* Numpy's rule: shapes are aligned at their ends, and a size of 1 is stretched. */
static enum items_verdict stretched(struct walk *w, const struct flow *const *in, uint32_t in_count, struct flow *out) {
    int rank = 0, axis = -1;
    bool known = true;
    for (uint32_t i = 0; i < in_count; i++) {
        known &= !in[i] || has_rank(in[i]);
        rank = in[i] && in[i]->rank > rank ? in[i]->rank : rank;
    }
    if (!known)
        return items_behind(in, in_count, 0) ? walk_unknown(w, no_rank) : ITEMS_APART;
    for (uint32_t i = 0; i < in_count; i++) {
        if (!is_items(in[i]))
            continue;
        int at = in[i]->axis + rank - in[i]->rank;
        if (axis >= 0 && at != axis)
            return walk_joined(w, elsewhere);
        axis = at;
    }
    *out = (struct flow){.kind = axis >= 0 ? FLOW_ITEMS : FLOW_SAME, .rank = rank, .axis = axis};
    for (int d = 0; d < rank; d++) {
        struct extent size = extent_of(1);
        for (uint32_t i = 0; i < in_count; i++) {
            int at = in[i] ? d - (rank - in[i]->rank) : -1;
            if (at < 0 || extent_is(in[i]->dims[at], 1))
                continue;
            if (d == axis && !is_items(in[i]))
                return walk_unknown(w, "takes, where the items lie, what is of another size");
            if (extent_is(size, 1))
                size = in[i]->dims[at];
            else if (!extent_equal(size, in[i]->dims[at])) /* one of them is 1, or they are equal */
                size = d == axis ? extent_new(w, 1) : extent_new(w, 0);
        }
        if (d == axis && (size.items != 1))
            return walk_unknown(w, no_sizes);
        out->dims[d] = size;
    }
    return ITEMS_APART;
}

RULE(elements) {
    (void)out_count;
    if (numbers_compute(w, in, in_count, out))
        return ITEMS_APART;
    return stretched(w, in, in_count, out);
}

/* ---- within one dimension ---- */

/* Normalises or sums up along `axis` and keeps all sizes. */
static enum items_verdict along(struct walk *w, const struct flow *x, int64_t axis, bool to_the_end, struct flow *out) {
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    int at = axis_at(axis, x->rank);
    if (is_items(x) && (at < 0 || at == x->axis || (to_the_end && at < x->axis)))
        return walk_joined(w, along_items);
    shape_copy(out, x);
    return ITEMS_APART;
}

/* Before version 13 softmax takes everything from its axis on as one. */
RULE(softmax) {
    (void)out_count;
    return along(w, given(in, in_count, 0), onnx_attribute_int(w->node, "axis", w->opset < 13 ? 1 : -1), w->opset < 13,
                 out);
}

RULE(cumulated) {
    int64_t axis[ONNX_LIST_MAX];
    (void)out_count;
    if (in_count < 2 || !in[1] || flow_plain(w, in[1], axis) != 1)
        return walk_unknown(w, no_sizes);
    return along(w, in[0], axis[0], false, out);
}

/* Normalises each row over its last dimensions; scale and bias are the same for all. */
RULE(layer_normalised) {
    if (items_behind(in, in_count, 1))
        return walk_unknown(w, from_items);
    enum items_verdict verdict = along(w, given(in, in_count, 0), onnx_attribute_int(w->node, "axis", -1), true, out);
    for (uint32_t o = 1; o < out_count && verdict == ITEMS_APART; o++) { /* means and deviations: never taken further */
        out[o].kind = FLOW_JOINED;
        w->what = "has means that are given on";
    }
    return verdict;
}

RULE(lp_normalised) {
    (void)out_count;
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
    if (x->rank < 2 || x->axis != 0)
        return walk_joined(w, along_items);
    if (items_behind(in, in_count, 1))
        return walk_unknown(w, from_items);
    for (uint32_t o = 0; o < out_count; o++) {
        out[o] = (struct flow){.kind = FLOW_ITEMS, .rank = 2, .axis = 0, .dims = {x->dims[0], extent_new(w, 0)}};
        if (o == 0 && (op_is(w, "TreeEnsembleClassifier") || op_is(w, "LinearClassifier") || op_is(w, "SVMClassifier")))
            out[o].rank = 1; /* the label */
    }
    return ITEMS_APART;
}

/* The axes of a reduction; false: they are not known. None given: all, or by `noop_with_empty_axes` none. */
static bool axes_read(struct walk *w, const struct flow *list, int rank, bool *axes, bool *none) {
    int64_t numbers[ONNX_LIST_MAX];
    int count = list ? flow_plain(w, list, numbers) : onnx_attribute_ints(w->node, "axes", numbers);
    *none = (!list && count == -ENOENT) || count == 0;
    if (*none)
        return true;
    for (int i = 0; i < count; i++) {
        int at = axis_at(numbers[i], rank);
        if (at < 0)
            return false;
        axes[at] = true;
    }
    return count > 0;
}

RULE(reduced) {
    const struct flow *x = given(in, in_count, 0), *list = given(in, in_count, 1);
    bool axes[FLOW_RANK_MAX] = {false}, none = false;
    (void)out_count;
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    if (!axes_read(w, list, x->rank, axes, &none))
        return is_items(x) ? walk_unknown(w, no_sizes) : ITEMS_APART;
    if (none && onnx_attribute_int(w->node, "noop_with_empty_axes", 0)) {
        shape_copy(out, x);
        return ITEMS_APART;
    }
    bool keep = onnx_attribute_int(w->node, "keepdims", 1);
    for (int d = 0; d < x->rank; d++)
        axes[d] |= none;
    if (is_items(x) && axes[x->axis])
        return walk_joined(w, "reduces over the items");
    if (x->values && x->rank == 1 && op_is(w, "ReduceProd")) {
        struct extent product = extent_of(1);
        for (uint32_t i = 0; i < x->value_count; i++)
            product = extent_product(w, product, x->values[i]);
        flow_set_numbers(w, out, keep, &product, 1);
        return ITEMS_APART;
    }
    shape_copy(out, x);
    for (int d = x->rank - 1; d >= 0; d--) {
        if (axes[d] && keep)
            out->dims[d] = extent_of(1);
        else if (axes[d])
            dim_remove(out, d);
    }
    return ITEMS_APART;
}

RULE(greatest_at) {
    const struct flow *x = given(in, in_count, 0);
    (void)out_count;
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    int at = axis_at(onnx_attribute_int(w->node, "axis", 0), x->rank);
    if (is_items(x) && at == x->axis)
        return walk_joined(w, "reduces over the items");
    if (at < 0)
        return walk_unknown(w, no_rank);
    shape_copy(out, x);
    if (onnx_attribute_int(w->node, "keepdims", 1))
        out->dims[at] = extent_of(1);
    else
        dim_remove(out, at);
    return ITEMS_APART;
}

RULE(top) {
    const struct flow *x = given(in, in_count, 0);
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    int at = axis_at(onnx_attribute_int(w->node, "axis", -1), x->rank);
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

/* Rows of the left times columns of the right. */
static enum items_verdict product_of(struct walk *w, const struct flow *a, const struct flow *b, struct flow *out) {
    struct flow left, right, sides[2];
    if (!a || !b)
        return walk_unknown(w, no_rank);
    if (!has_rank(a) || !has_rank(b) || a->rank == 0 || b->rank == 0)
        return is_items(a) || is_items(b) ? walk_unknown(w, no_rank) : ITEMS_APART;
    shape_copy(&left, a);
    shape_copy(&right, b);
    if ((is_items(a) && a->axis == a->rank - 1) || (is_items(b) && b->axis == (b->rank > 1 ? b->rank - 2 : 0)))
        return walk_joined(w, "sums products over the items");
    if ((left.rank == 1 && !dim_insert(&left, 0, extent_of(1))) ||
        (right.rank == 1 && !dim_insert(&right, 1, extent_of(1))))
        return walk_unknown(w, no_rank);
    /* as tensors of which each has the result's last two dimensions */
    sides[0] = left;
    sides[1] = right;
    sides[0].dims[left.rank - 1] = extent_of(1);
    sides[1].dims[right.rank - 2] = extent_of(1);
    enum items_verdict verdict = stretched(w, (const struct flow *const[]){&sides[0], &sides[1]}, 2, out);
    if (verdict != ITEMS_APART)
        return verdict;
    if (b->rank == 1 && !(is_items(out) && out->axis == out->rank - 1))
        dim_remove(out, out->rank - 1);
    if (a->rank == 1)
        dim_remove(out, out->rank - 1 - (b->rank != 1));
    return ITEMS_APART;
}

RULE(product) {
    (void)out_count;
    if (items_behind(in, in_count, 2))
        return walk_unknown(w, from_items);
    return product_of(w, given(in, in_count, 0), given(in, in_count, 1), out);
}

/* com.microsoft: may take its sides transposed. */
RULE(product_fused) {
    const struct flow *a = given(in, in_count, 0), *b = given(in, in_count, 1);
    if (onnx_attribute_int(w->node, "transBatchA", 0) || onnx_attribute_int(w->node, "transBatchB", 0) || !a || !b ||
        (onnx_attribute_int(w->node, "transA", 0) && is_items(a) && a->axis >= a->rank - 2) ||
        (onnx_attribute_int(w->node, "transB", 0) && is_items(b) && b->axis >= b->rank - 2))
        return walk_unknown(w, "may take its inputs transposed");
    return product(w, in, in_count, out, out_count);
}

/* Left, its scale and zero, right, its scale and zero, the result's scale and zero. */
RULE(product_quantised) {
    (void)out_count;
    for (uint32_t i = 0; i < in_count; i++)
        if (i != 0 && i != 3 && is_items(in[i]))
            return walk_unknown(w, from_items);
    return product_of(w, given(in, in_count, 0), given(in, in_count, 3), out);
}

/* The right side has been packed: only its result's last size differs. */
RULE(product_packed) {
    const struct flow *x = given(in, in_count, 0);
    (void)out_count;
    if (items_behind(in, in_count, 1))
        return walk_unknown(w, from_items);
    if (!x || !has_rank(x) || x->rank < 1)
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    if (is_items(x) && x->axis == x->rank - 1)
        return walk_joined(w, "sums products over the items");
    shape_copy(out, x);
    out->dims[out->rank - 1] = extent_new(w, 0);
    return ITEMS_APART;
}

RULE(general_product) {
    const struct flow *a = given(in, in_count, 0), *b = given(in, in_count, 1), *c = given(in, in_count, 2);
    (void)out_count;
    bool across = onnx_attribute_int(w->node, "transA", 0);
    if (!is_items(a) && !is_items(b) && !is_items(c)) {
        *out = (struct flow){.kind = FLOW_SAME, .rank = 2, .dims = {extent_new(w, 0), extent_new(w, 0)}};
        return ITEMS_APART;
    }
    if (!is_items(a) || is_items(b))
        return walk_unknown(w, from_items);
    if (a->rank != 2 || a->axis != (across ? 1 : 0))
        return walk_joined(w, "sums products over the items");
    if (is_items(c) && (c->rank != 2 || c->axis != 0))
        return walk_joined(w, elsewhere);
    *out = (struct flow){.kind = FLOW_ITEMS, .rank = 2, .dims = {a->dims[a->axis], extent_new(w, 0)}};
    if (c && !is_items(c) && has_rank(c) && c->rank == 2 && !extent_is(c->dims[0], 1))
        return walk_unknown(w, "takes, where the items lie, what is of another size");
    return ITEMS_APART;
}

/* "bij,bjk->bik": the letter at which items lie is in all that have items, in nothing else, and in the result. */
RULE(einsum) {
    struct onnx_bytes equation = onnx_attribute_string(w->node, "equation");
    uint32_t term = 0, at = 0;
    char letter = 0;
    int rank = 0, axis = -1, seen = 0;
    (void)out_count;
    if (!items_behind(in, in_count, 0))
        return ITEMS_APART;
    for (uint32_t pass = 0; pass < 2; pass++) { /* finds the letter, then looks where it is */
        term = at = 0;
        rank = 0, axis = -1, seen = 0;
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
                axis = result ? rank : axis;
                seen++;
            }
            rank += result;
            at++;
        }
        if (!result)
            return walk_unknown(w, "has an equation without '->'");
    }
    if (axis < 0)
        return walk_joined(w, "sums products over the items");
    if (rank > FLOW_RANK_MAX)
        return walk_unknown(w, no_rank);
    *out = (struct flow){.kind = FLOW_ITEMS, .rank = rank, .axis = axis};
    dims_forget(w, out, 0);
    out->dims[axis] = extent_new(w, 1);
    for (uint32_t i = 0; i < in_count; i++)
        if (is_items(in[i]))
            out->dims[axis] = in[i]->dims[in[i]->axis];
    return ITEMS_APART;
}

/* ---- images ---- */

/* Of N, C, and what lies behind: each item by itself. Weights are the same for all. */
RULE(image) {
    const struct flow *x = given(in, in_count, 0);
    if (items_behind(in, in_count, 1))
        return walk_unknown(w, from_items);
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    if (is_items(x) && (x->axis != 0 || x->rank < 2))
        return walk_joined(w, along_items);
    shape_copy(out, x);
    dims_forget(w, out, 1);
    for (uint32_t o = 1; o < out_count; o++) { /* MaxPool: positions in the whole batch */
        out[o].kind = FLOW_JOINED;
        w->what = "gives positions in the whole batch";
    }
    return ITEMS_APART;
}

/* The same, and sizes stay. Its second output, a mask or means, says nothing that is used. */
RULE(image_same) {
    const struct flow *x = given(in, in_count, 0);
    enum items_verdict verdict = image(w, in, in_count, out, 1);
    for (uint32_t o = 1; o < out_count; o++)
        out[o].kind = FLOW_JOINED;
    if (verdict == ITEMS_APART && x && has_rank(x))
        shape_copy(out, x);
    return verdict;
}

RULE(batch_normalised) {
    bool training = onnx_attribute_int(w->node, "training_mode", 0) || (w->opset < 14 && out_count > 1) ||
                    (w->opset < 7 && !onnx_attribute_int(w->node, "is_test", 0));
    if (training && items_behind(in, in_count, 0))
        return walk_joined(w, "normalises by the statistics of the batch");
    const struct flow *x = given(in, in_count, 0);
    if (is_items(x) && x->axis == 0 && x->rank == 1)
        return walk_joined(w, along_items);
    return image_same(w, in, in_count, out, out_count);
}

RULE(mean_variance_normalised) {
    const struct flow *x = given(in, in_count, 0);
    int64_t axes[ONNX_LIST_MAX];
    (void)out_count;
    int count = onnx_attribute_ints(w->node, "axes", axes);
    if (!is_items(x))
        return ITEMS_APART;
    if (count < 0)
        axes[0] = 0, count = 1; /* otherwise 0, 2, 3 */
    for (int i = 0; i < count; i++)
        if (axis_at(axes[i], x->rank) == x->axis)
            return walk_joined(w, "normalises by the statistics of the batch");
    shape_copy(out, x);
    return ITEMS_APART;
}

/* Upsample takes scales as its second input, Resize from version 11 on as its third, or sizes as its fourth. */
RULE(resized) {
    const struct flow *x = given(in, in_count, 0), *list = NULL;
    int64_t axes[ONNX_LIST_MAX];
    (void)out_count;
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    shape_copy(out, x);
    dims_forget(w, out, 0);
    if (!is_items(x))
        return ITEMS_APART;
    bool sizes = given(in, in_count, 3) != NULL;
    list = sizes ? in[3] : in_count == 2 ? in[1] : given(in, in_count, 2);
    int axis_count = onnx_attribute_ints(w->node, "axes", axes), at = x->axis;
    for (int i = 0; axis_count >= 0; i++) {
        if (i == axis_count)
            return ITEMS_APART; /* not resized there */
        if (axis_at(axes[i], x->rank) == x->axis) {
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

/* Images and where to look in them. */
RULE(sampled) {
    const struct flow *x = given(in, in_count, 0), *grid = given(in, in_count, 1);
    (void)out_count;
    if (!is_items(x) && !is_items(grid))
        return ITEMS_APART;
    if (!is_items(x) || !is_items(grid) || x->axis != 0 || grid->axis != 0)
        return walk_unknown(w, elsewhere);
    shape_copy(out, x);
    dims_forget(w, out, 2);
    return ITEMS_APART;
}

/* ---- moving ---- */

RULE(transposed) {
    const struct flow *x = given(in, in_count, 0);
    int64_t order[ONNX_LIST_MAX];
    (void)out_count;
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    int count = onnx_attribute_ints(w->node, "perm", order);
    for (int d = 0; count < 0 && d < x->rank; d++)
        order[d] = x->rank - 1 - d;
    shape_copy(out, x);
    for (int d = 0; d < x->rank; d++) {
        int from = axis_at(order[d], x->rank);
        if (from < 0 || (count >= 0 && count != x->rank))
            return walk_unknown(w, no_rank);
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
 * others; -1: none. Items stay apart if what lies before them is as large as it was: a piece of it is then a whole
 * number of items' elements, or a single item would not fit these sizes either. */
static enum items_verdict reshape_to(struct walk *w, const struct flow *x, struct extent *dims, int rank, int open,
                                     struct flow *out) {
    int axis = -1;
    if (!is_items(x)) {
        *out = (struct flow){.kind = FLOW_SAME, .rank = rank};
        memcpy(out->dims, dims, (size_t)rank * sizeof(*dims));
        if (open >= 0) {
            dims[open] = extent_of(1);
            struct extent rest = dims_multiplied(w, dims, 0, rank);
            out->dims[open] =
                has_rank(x) ? extent_quotient(w, dims_multiplied(w, x->dims, 0, x->rank), rest) : extent_new(w, 0);
        }
        return ITEMS_APART;
    }
    for (int d = 0; d < rank; d++) {
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
        struct extent whole = dims_multiplied(w, x->dims, 0, x->rank), rest = dims_multiplied(w, dims, 0, rank);
        dims[open] = extent_quotient(w, whole, rest);
        if (dims[open].items == EXTENT_OTHERWISE || dims[open].items != (axis < 0))
            dims[open] = extent_new(w, axis < 0);
    }
    axis = axis < 0 ? open : axis;
    if (!extent_equal(dims_multiplied(w, x->dims, 0, x->axis), dims_multiplied(w, dims, 0, axis)))
        return walk_unknown(w, "may put elements of different items into one row");
    *out = (struct flow){.kind = FLOW_ITEMS, .rank = rank, .axis = axis};
    memcpy(out->dims, dims, (size_t)rank * sizeof(*dims));
    return ITEMS_APART;
}

RULE(reshaped) {
    const struct flow *x = given(in, in_count, 0), *shape = given(in, in_count, 1);
    struct extent dims[ONNX_LIST_MAX];
    int64_t fixed[ONNX_LIST_MAX];
    uint32_t count = 0;
    int open = -1;
    (void)out_count;
    const struct extent *sizes = shape ? flow_numbers(w, shape, &count) : NULL;
    if (!shape) { /* version 1 */
        int n = onnx_attribute_ints(w->node, "shape", fixed);
        for (int i = 0; i < n; i++)
            dims[i] = extent_of(fixed[i]);
        count = n > 0 ? (uint32_t)n : 0;
    }
    if (!x || (shape && !sizes) || count > FLOW_RANK_MAX)
        return is_items(x) ? walk_unknown(w, no_sizes) : ITEMS_APART;
    bool zeros = onnx_attribute_int(w->node, "allowzero", 0);
    for (uint32_t d = 0; d < count; d++) {
        dims[d] = sizes ? sizes[d] : dims[d];
        if (extent_is(dims[d], 0) && !zeros) {
            if (!has_rank(x) || d >= (uint32_t)x->rank)
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
        for (int d = 0; d < out->rank; d++)
            if (out->dims[d].items)
                return walk_unknown(w, no_sizes);
    return verdict;
}

RULE(flattened) {
    const struct flow *x = given(in, in_count, 0);
    (void)out_count;
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    int64_t axis = onnx_attribute_int(w->node, "axis", 1);
    axis += axis < 0 ? x->rank : 0;
    if (axis < 0 || axis > x->rank)
        return walk_unknown(w, no_rank);
    struct extent dims[2] = {dims_multiplied(w, x->dims, 0, (int)axis),
                             dims_multiplied(w, x->dims, (int)axis, x->rank)};
    return reshape_to(w, x, dims, 2, -1, out);
}

RULE(squeezed) {
    const struct flow *x = given(in, in_count, 0), *list = given(in, in_count, 1);
    bool axes[FLOW_RANK_MAX] = {false}, none = false;
    (void)out_count;
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    if (!axes_read(w, list, x->rank, axes, &none))
        return is_items(x) ? walk_unknown(w, no_sizes) : ITEMS_APART;
    for (int d = 0; none && d < x->rank; d++) {
        axes[d] = extent_is(x->dims[d], 1);
        if (!axes[d] && !extent_is_number(x->dims[d])) /* its size may be 1, too: that of the items is, of one */
            return is_items(x) ? walk_joined(w, "drops the items' dimension when there is one") : ITEMS_APART;
    }
    if (is_items(x) && axes[x->axis])
        return walk_joined(w, "drops the items' dimension");
    if (x->values && x->rank == 1 && axes[0]) {
        flow_set_numbers(w, out, 0, x->values, 1);
        return ITEMS_APART;
    }
    shape_copy(out, x);
    for (int d = x->rank - 1; d >= 0; d--)
        if (axes[d])
            dim_remove(out, d);
    return ITEMS_APART;
}

RULE(unsqueezed) {
    const struct flow *x = given(in, in_count, 0), *list = given(in, in_count, 1);
    bool axes[FLOW_RANK_MAX] = {false};
    int64_t numbers[ONNX_LIST_MAX];
    (void)out_count;
    int count = list ? flow_plain(w, list, numbers) : onnx_attribute_ints(w->node, "axes", numbers);
    if (!x || !has_rank(x) || count < 0 || x->rank + count > FLOW_RANK_MAX)
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    for (int i = 0; i < count; i++) {
        int at = axis_at(numbers[i], x->rank + count);
        if (at < 0)
            return walk_unknown(w, no_rank);
        axes[at] = true;
    }
    if (x->values && x->rank == 0 && count == 1) {
        flow_set_numbers(w, out, 1, x->values, 1);
        return ITEMS_APART;
    }
    shape_copy(out, x);
    for (int d = 0; d < x->rank + count; d++)
        if (axes[d])
            dim_insert(out, d, extent_of(1));
    return ITEMS_APART;
}

RULE(concatenated) {
    uint32_t count = 0, items = 0;
    struct extent numbers[ONNX_LIST_MAX];
    bool list = true;
    const struct flow *first = NULL;
    (void)out_count;
    for (uint32_t i = 0; i < in_count; i++) {
        if (!in[i])
            return walk_unknown(w, no_rank);
        items += is_items(in[i]);
        first = is_items(in[i]) ? in[i] : first;
        uint32_t n = 0;
        const struct extent *values = list && !is_items(in[i]) && in[i]->rank == 1 ? flow_numbers(w, in[i], &n) : NULL;
        list &= values && count + n <= ONNX_LIST_MAX;
        for (uint32_t k = 0; list && k < n; k++)
            numbers[count++] = values[k];
    }
    if (list && in_count) {
        flow_set_numbers(w, out, 1, numbers, count);
        return ITEMS_APART;
    }
    first = first ? first : given(in, in_count, 0);
    if (!first || !has_rank(first))
        return items ? walk_unknown(w, no_rank) : ITEMS_APART;
    int axis = axis_at(onnx_attribute_int(w->node, "axis", 1), first->rank);
    if (axis < 0)
        return walk_unknown(w, no_rank);
    if (items && axis == first->axis)
        return walk_joined(w, "puts further rows behind the items");
    for (uint32_t i = 0; items && i < in_count; i++)
        if (!is_items(in[i]) || in[i]->axis != first->axis || in[i]->rank != first->rank)
            return walk_unknown(w, elsewhere);
    shape_copy(out, first);
    struct extent size = extent_of(0);
    for (uint32_t i = 0; i < in_count; i++) {
        bool plain = has_rank(in[i]) && axis < in[i]->rank && extent_is_number(in[i]->dims[axis]);
        if (!plain || !extent_is_number(size) ||
            __builtin_add_overflow(size.times, in[i]->dims[axis].times, &size.times))
            size = extent_new(w, 0);
    }
    out->dims[axis] = size;
    return ITEMS_APART;
}

RULE(split) {
    const struct flow *x = given(in, in_count, 0);
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    int axis = axis_at(onnx_attribute_int(w->node, "axis", 0), x->rank);
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

/* Of a list of numbers, those from `begin` to before `end`. */
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

#define MORE_THAN_ANY 1000000 /* no dimension that items lie along is as large; converters write 10^9 or INT_MAX */

/* Begins, ends, axes and steps; up to version 9 as attributes. */
RULE(sliced) {
    const struct flow *x = given(in, in_count, 0);
    static const char *const names[4] = {"starts", "ends", "axes", "steps"};
    int64_t fixed[4][ONNX_LIST_MAX];
    const struct extent *lists[4] = {NULL, NULL, NULL, NULL};
    struct extent from_attribute[2][ONNX_LIST_MAX];
    int counts[4];
    (void)out_count;
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
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    bool known = counts[0] >= 0 && counts[1] == counts[0];
    int64_t step = counts[3] > 0 ? fixed[3][0] : 1;
    if (x->values && x->rank == 1 && known && counts[0] == 1 && extent_is_number(lists[0][0]) &&
        extent_is_number(lists[1][0]) && step > 0) {
        numbers_slice(w, x, lists[0][0].times, lists[1][0].times, step, out);
        return ITEMS_APART;
    }
    shape_copy(out, x);
    if (!known && counts[2] < 0) { /* it cannot even be told which dimensions are sliced */
        if (is_items(x))
            return walk_unknown(w, no_sizes);
        dims_forget(w, out, 0);
        return ITEMS_APART;
    }
    int n = counts[2] >= 0 ? counts[2] : counts[0];
    for (int i = 0; i < n; i++) {
        int axis = axis_at(counts[2] >= 0 ? fixed[2][i] : i, x->rank);
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
    (void)out_count;
    bool items = is_items(x) || is_items(at);
    if (!x || !at || !has_rank(x) || !has_rank(at))
        return items ? walk_unknown(w, no_rank) : ITEMS_APART;
    int axis = axis_at(onnx_attribute_int(w->node, "axis", 0), x->rank), count;
    if (axis < 0 || x->rank - 1 + at->rank > FLOW_RANK_MAX)
        return items ? walk_unknown(w, no_rank) : ITEMS_APART;
    if (x->values && x->rank == 1 && !items && at->rank <= 1 && (count = flow_plain(w, at, plain)) >= 0) {
        struct extent numbers[ONNX_LIST_MAX];
        for (int i = 0; i < count; i++) {
            int from = axis_at(plain[i], (int)x->value_count);
            if (from < 0)
                return walk_unknown(w, no_sizes);
            numbers[i] = x->values[from];
        }
        flow_set_numbers(w, out, at->rank, numbers, (uint32_t)count);
        return ITEMS_APART;
    }
    if (is_items(x) && is_items(at))
        return walk_joined(w, "takes rows by the items' own numbers");
    if (is_items(x) && axis == x->axis)
        return walk_joined(w, "takes some of the items");
    *out = (struct flow){.kind = items ? FLOW_ITEMS : FLOW_SAME, .rank = x->rank - 1 + at->rank};
    memcpy(out->dims, x->dims, (size_t)axis * sizeof(x->dims[0]));
    memcpy(out->dims + axis, at->dims, (size_t)at->rank * sizeof(x->dims[0]));
    memcpy(out->dims + axis + at->rank, x->dims + axis + 1, (size_t)(x->rank - 1 - axis) * sizeof(x->dims[0]));
    if (is_items(at))
        out->axis = axis + at->axis;
    else if (is_items(x))
        out->axis = x->axis < axis ? x->axis : x->axis - 1 + at->rank;
    return ITEMS_APART;
}

/* Data, and positions of the same rank (and what is to be written there): all have items, at the same dimension. */
RULE(gathered_elements) {
    const struct flow *x = given(in, in_count, 0), *at = given(in, in_count, 1);
    (void)out_count;
    if (!items_behind(in, in_count, 0))
        return ITEMS_APART;
    for (uint32_t i = 0; i < in_count; i++)
        if (!is_items(in[i]) || in[i]->axis != in[0]->axis || in[i]->rank != in[0]->rank)
            return walk_unknown(w, elsewhere);
    if (axis_at(onnx_attribute_int(w->node, "axis", 0), x->rank) == x->axis)
        return walk_joined(w, "takes rows by the items' own numbers");
    shape_copy(out, op_is(w, "GatherElements") ? at : x);
    return ITEMS_APART;
}

RULE(gathered_nd) {
    const struct flow *x = given(in, in_count, 0), *at = given(in, in_count, 1);
    (void)out_count;
    if (!is_items(x) && !is_items(at))
        return ITEMS_APART;
    int64_t batch = onnx_attribute_int(w->node, "batch_dims", 0);
    if (!x || !at || !is_items(at) || at->axis >= at->rank - 1 ||
        (is_items(x) ? x->axis >= batch || at->axis != x->axis : batch > 0))
        return is_items(x) ? walk_joined(w, "takes rows by the items' own numbers") : walk_unknown(w, elsewhere);
    int64_t taken = extent_is_number(at->dims[at->rank - 1]) ? at->dims[at->rank - 1].times : -1;
    if (taken < 0 || taken > FLOW_RANK_MAX || batch < 0 || batch > FLOW_RANK_MAX || !has_rank(x) ||
        at->rank - 1 + x->rank - taken - batch > FLOW_RANK_MAX)
        return walk_unknown(w, no_sizes);
    *out = (struct flow){.kind = FLOW_ITEMS, .rank = (int)(at->rank - 1 + x->rank - taken - batch), .axis = at->axis};
    if (out->rank < at->rank - 1)
        return walk_unknown(w, no_sizes);
    dims_forget(w, out, 0);
    memcpy(out->dims, at->dims, (size_t)(at->rank - 1) * sizeof(at->dims[0]));
    return ITEMS_APART;
}

RULE(one_hot) {
    const struct flow *x = given(in, in_count, 0);
    (void)out_count;
    if (items_behind(in, in_count, 1))
        return walk_unknown(w, from_items);
    if (!x || !has_rank(x) || x->rank == FLOW_RANK_MAX)
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    int axis = axis_at(onnx_attribute_int(w->node, "axis", -1), x->rank + 1);
    if (axis < 0)
        return walk_unknown(w, no_rank);
    shape_copy(out, x);
    dim_insert(out, axis, extent_new(w, 0));
    return ITEMS_APART;
}

/* Of the machine-learning domain: one more dimension behind the others. */
RULE(encoded) {
    const struct flow *x = given(in, in_count, 0);
    (void)out_count;
    if (!x || !has_rank(x) || x->rank == FLOW_RANK_MAX)
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    shape_copy(out, x);
    dim_insert(out, x->rank, extent_new(w, 0));
    return ITEMS_APART;
}

RULE(columns_taken) {
    const struct flow *x = given(in, in_count, 0);
    (void)out_count;
    if (items_behind(in, in_count, 1))
        return walk_joined(w, "takes rows by the items' own numbers");
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    if (is_items(x) && x->axis == x->rank - 1)
        return walk_joined(w, "takes some of the items");
    shape_copy(out, x);
    out->dims[x->rank - 1] = extent_new(w, 0);
    return ITEMS_APART;
}

/* Vectors of features, one behind the other. */
RULE(columns_joined) {
    (void)out_count;
    if (!items_behind(in, in_count, 0))
        return ITEMS_APART;
    for (uint32_t i = 0; i < in_count; i++)
        if (!is_items(in[i]) || in[i]->axis != 0 || in[i]->rank != 2)
            return walk_unknown(w, elsewhere);
    shape_copy(out, in[0]);
    out->dims[1] = extent_new(w, 0);
    return ITEMS_APART;
}

RULE(padded) {
    const struct flow *x = given(in, in_count, 0), *list = given(in, in_count, 1), *of = given(in, in_count, 3);
    int64_t fixed[ONNX_LIST_MAX], axes[ONNX_LIST_MAX];
    (void)out_count;
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
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
    if (!pads || count % 2 || (of && axis_count != (int)count / 2) || (!of && count != 2 * (uint32_t)x->rank))
        return walk_unknown(w, no_sizes);
    for (uint32_t i = 0; i < count / 2; i++) {
        bool zero = extent_is(pads[i], 0) && extent_is(pads[i + count / 2], 0);
        int d = of ? axis_at(axes[i], x->rank) : (int)i;
        if (d == x->axis && !zero)
            return walk_joined(w, "puts further rows around the items");
        if (d >= 0 && zero)
            out->dims[d] = x->dims[d];
    }
    return ITEMS_APART;
}

RULE(triangle) {
    const struct flow *x = given(in, in_count, 0);
    (void)out_count;
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    if (is_items(x) && x->axis >= x->rank - 2)
        return walk_joined(w, along_items);
    shape_copy(out, x);
    return ITEMS_APART;
}

RULE(reversed) {
    const struct flow *x = given(in, in_count, 0), *lengths = given(in, in_count, 1);
    (void)out_count;
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
    (void)out_count;
    if (!x || !has_rank(x)) {
        out->rank = 1;
        out->dims[0] = extent_new(w, 0);
        return ITEMS_APART;
    }
    int64_t from = onnx_attribute_int(w->node, "start", 0), to = onnx_attribute_int(w->node, "end", x->rank);
    from += from < 0 ? x->rank : 0;
    to += to < 0 ? x->rank : 0;
    from = from < 0 ? 0 : from > x->rank ? x->rank : from;
    to = to > x->rank ? x->rank : to < from ? from : to;
    flow_set_numbers(w, out, 1, x->dims + from, (uint32_t)(to - from));
    return ITEMS_APART;
}

RULE(size) {
    const struct flow *x = given(in, in_count, 0);
    (void)out_count;
    out->rank = 0;
    if (x && has_rank(x)) {
        struct extent elements = dims_multiplied(w, x->dims, 0, x->rank);
        flow_set_numbers(w, out, 0, &elements, 1);
    }
    return ITEMS_APART;
}

/* Sets the sizes of what is the same everywhere: if one grows with the items, each has an equal piece. */
static enum items_verdict uniform(struct walk *w, const struct extent *dims, uint32_t rank, struct flow *out) {
    *out = (struct flow){.kind = FLOW_SAME, .rank = (int)rank};
    for (uint32_t d = 0; d < rank; d++) {
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
    struct flow value = {.rank = RANK_UNKNOWN};
    (void)out_count;
    const struct extent *dims = in_count && in[0] ? flow_numbers(w, in[0], &count) : NULL;
    if (!dims || count > FLOW_RANK_MAX)
        return in_count && in[0] && in[0]->counts ? walk_unknown(w, no_sizes) : ITEMS_APART;
    struct onnx_bytes tensor = onnx_attribute_tensor(w->node, "value");
    enum items_verdict verdict = uniform(w, dims, count, out);
    if (verdict == ITEMS_APART && count <= 1 && (count == 0 || extent_is_number(dims[0]))) {
        uint32_t n = count ? (uint32_t)dims[0].times : 1;
        struct extent numbers[ONNX_LIST_MAX];
        if (tensor.data)
            flow_weights(w, tensor, &value);
        if (n <= ONNX_LIST_MAX && (!tensor.data || (value.values && value.value_count == 1))) {
            for (uint32_t i = 0; i < n; i++)
                numbers[i] = tensor.data ? value.values[0] : extent_of(0);
            flow_set_numbers(w, out, (int)count, numbers, n);
        }
        free(value.values);
    }
    return verdict;
}

/* Stretches, as element by element with a tensor of these sizes. */
RULE(expanded) {
    const struct flow *x = given(in, in_count, 0), *shape = given(in, in_count, 1);
    uint32_t count = 0;
    struct flow wanted;
    (void)out_count;
    const struct extent *dims = shape ? flow_numbers(w, shape, &count) : NULL;
    if (!x || !has_rank(x) || !dims || count > FLOW_RANK_MAX)
        return is_items(x) || (shape && shape->counts) ? walk_unknown(w, no_sizes) : ITEMS_APART;
    enum items_verdict verdict = uniform(w, dims, count, &wanted);
    return verdict != ITEMS_APART ? verdict : stretched(w, (const struct flow *const[]){x, &wanted}, 2, out);
}

RULE(tiled) {
    const struct flow *x = given(in, in_count, 0), *times = given(in, in_count, 1);
    uint32_t count = 0;
    (void)out_count;
    const struct extent *numbers = times ? flow_numbers(w, times, &count) : NULL;
    if (!x || !has_rank(x) || !numbers || (int)count != x->rank)
        return is_items(x) || (times && times->counts) ? walk_unknown(w, no_sizes) : ITEMS_APART;
    struct extent dims[FLOW_RANK_MAX];
    for (int d = 0; d < x->rank; d++) {
        dims[d] = extent_product(w, x->dims[d], numbers[d]);
        if (is_items(x) && d == x->axis && !extent_is(numbers[d], 1))
            return walk_unknown(w, "repeats the items");
    }
    if (!is_items(x))
        return uniform(w, dims, count, out);
    for (int d = 0; d < x->rank; d++)
        if (d != x->axis && dims[d].items)
            return walk_unknown(w, "repeats the items");
    shape_copy(out, x);
    memcpy(out->dims, dims, count * sizeof(*dims));
    return ITEMS_APART;
}

/* Begin, end, step. Numbers that count the items differ between them. */
RULE(range) {
    int64_t begin[ONNX_LIST_MAX], end[ONNX_LIST_MAX], step[ONNX_LIST_MAX], whole;
    struct extent numbers[ONNX_LIST_MAX];
    uint32_t count = 0;
    (void)out_count;
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
    out->rank = 1;
    out->dims[0] = extent_new(w, 0);
    return ITEMS_APART;
}

RULE(constant) {
    struct onnx_bytes tensor = onnx_attribute_tensor(w->node, "value");
    int64_t plain[ONNX_LIST_MAX];
    (void)in;
    (void)in_count;
    (void)out_count;
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
        out->rank = 0;
    } else { /* a list of fractions or strings */
        out->rank = 1;
        out->dims[0] = extent_new(w, 0);
    }
    return ITEMS_APART;
}

/* ---- others ---- */

/* X is [sequence, item, features], or with `layout` 1 [item, sequence, features]. */
RULE(recurrent) {
    const struct flow *x = given(in, in_count, 0), *lengths = given(in, in_count, 4);
    bool first = onnx_attribute_int(w->node, "layout", 0);
    if (!items_behind(in, in_count, 0))
        return ITEMS_APART;
    if (!is_items(x) || x->rank != 3 || is_items(given(in, in_count, 1)) || is_items(given(in, in_count, 2)) ||
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
        out[o] = (struct flow){.kind = FLOW_ITEMS, .rank = o == 0 ? 4 : 3};
        out[o].axis = first ? 0 : o == 0 ? 2 : 1;
        dims_forget(w, &out[o], 0);
        out[o].dims[out[o].axis] = x->dims[x->axis];
        if (o == 0)
            out[o].dims[first ? 1 : 0] = x->dims[first ? 1 : 0];
    }
    return ITEMS_APART;
}

/* Scale and zero are the same for all; with one for each channel the items lie along another dimension. */
RULE(quantised) {
    const struct flow *x = given(in, in_count, 0), *scale = given(in, in_count, 1);
    (void)out_count;
    if (items_behind(in, in_count, 1))
        return walk_joined(w, "quantises by a scale taken from the items");
    if (!x || !has_rank(x))
        return is_items(x) ? walk_unknown(w, no_rank) : ITEMS_APART;
    bool channels = !scale || !has_rank(scale) || (scale->rank > 0 && !extent_is(scale->dims[0], 1));
    if (is_items(x) && channels && axis_at(onnx_attribute_int(w->node, "axis", 1), x->rank) == x->axis)
        return walk_unknown(w, along_items);
    shape_copy(out, x);
    return ITEMS_APART;
}

RULE(dynamically_quantised) {
    (void)out;
    (void)out_count;
    return items_behind(in, in_count, 0)
               ? walk_joined(w, "quantises by the range of the whole batch (dynamic quantisation)")
               : ITEMS_APART;
}

RULE(joins) {
    (void)out;
    (void)out_count;
    return items_behind(in, in_count, 0) ? walk_joined(w, "looks at all items together") : ITEMS_APART;
}

/* Strings, one by one, unless it drops some. */
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

/* Rows, and what is added to them. */
RULE(skip_normalised) {
    const struct flow *x = given(in, in_count, 0), *skip = given(in, in_count, 1);
    if (!is_items(x) && !is_items(skip))
        return ITEMS_APART;
    if (!is_items(x) || items_behind(in, in_count, 2) || x->axis == x->rank - 1)
        return walk_unknown(w, from_items);
    enum items_verdict verdict = stretched(w, (const struct flow *const[]){x, skip}, skip ? 2 : 1, out);
    for (uint32_t o = 1; o < out_count && verdict == ITEMS_APART; o++)
        if (o == 3)
            shape_copy(&out[o], &out[0]); /* the sum */
        else
            out[o].kind = FLOW_JOINED;
    w->what = "has further outputs whose dimensions are not known";
    return verdict;
}

#define SIZES(first, last) ((1u << (last + 1)) - (1u << (first)))

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
    {"Concat", concatenated, 0},
    {"Constant", constant, 0},
    {"ConstantOfShape", constant_of_shape, 1},
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
    {"Expand", expanded, SIZES(1, 1)},
    {"Flatten", flattened, 0},
    {"Floor", element, 0},
    {"GRU", recurrent, 0},
    {"Gather", gathered, 0},
    {"GatherElements", gathered_elements, 0},
    {"GatherND", gathered_nd, 0},
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
    {"OneHot", one_hot, 0},
    {"Or", elements, 0},
    {"PRelu", elements, 0},
    {"Pad", padded, SIZES(1, 1) | SIZES(3, 3)},
    {"Pow", elements, 0},
    {"QLinearConv", image, 0},
    {"QLinearMatMul", product_quantised, 0},
    {"QuantizeLinear", quantised, 0},
    {"RMSNormalization", layer_normalised, 0},
    {"RNN", recurrent, 0},
    {"Range", range, SIZES(0, 2)},
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
    {"Reshape", reshaped, SIZES(1, 1)},
    {"Resize", resized, SIZES(1, 3)},
    {"ReverseSequence", reversed, 0},
    {"Round", element, 0},
    {"ScatterElements", gathered_elements, 0},
    {"Selu", element, 0},
    {"Shape", shape, 0},
    {"Shrink", element, 0},
    {"Sigmoid", element, 0},
    {"Sign", element, 0},
    {"Sin", element, 0},
    {"Sinh", element, 0},
    {"Size", size, 0},
    {"Slice", sliced, SIZES(1, 4)},
    {"Softmax", softmax, 0},
    {"Softplus", element, 0},
    {"Softsign", element, 0},
    {"SpaceToDepth", image, 0},
    {"Split", split, SIZES(1, 1)},
    {"Sqrt", element, 0},
    {"Squeeze", squeezed, SIZES(1, 1)},
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
    {"Tile", tiled, SIZES(1, 1)},
    {"TopK", top, SIZES(1, 1)},
    {"Transpose", transposed, 0},
    {"Trilu", triangle, SIZES(1, 1)},
    {"Unique", joins, 0},
    {"Unsqueeze", unsqueezed, SIZES(1, 1)},
    {"Upsample", resized, SIZES(1, 1)},
    {"Where", elements, 0},
    {"Xor", elements, 0},
};

static const struct flow_operator learning[] = {
    {"ArrayFeatureExtractor", columns_taken, 0},
    {"Binarizer", element, 0},
    {"CategoryMapper", element, 0},
    {"FeatureVectorizer", columns_joined, 0},
    {"Imputer", element, 0},
    {"LabelEncoder", element, 0},
    {"LinearClassifier", rows, 0},
    {"LinearRegressor", rows, 0},
    {"Normalizer", rows, 0},
    {"OneHotEncoder", encoded, 0},
    {"SVMClassifier", rows, 0},
    {"SVMRegressor", rows, 0},
    {"Scaler", rows, 0},
    {"TreeEnsembleClassifier", rows, 0},
    {"TreeEnsembleRegressor", rows, 0},
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
    static const struct {
        const char *name;
        const struct flow_operator *operators;
        size_t count;
    } domains[] = {{"", standard, ARRAY_COUNT(standard)},
                   {"ai.onnx", standard, ARRAY_COUNT(standard)},
                   {"ai.onnx.ml", learning, ARRAY_COUNT(learning)},
                   {"com.microsoft", runtime, ARRAY_COUNT(runtime)}};
    for (size_t d = 0; d < ARRAY_COUNT(domains); d++)
        for (size_t i = 0; i < domains[d].count && onnx_bytes_are(node->domain, domains[d].name); i++)
            if (onnx_bytes_are(node->op, domains[d].operators[i].name))
                return &domains[d].operators[i];
    return NULL;
}
