/* items_flow.h - what the walk of items.c knows of a tensor, and what the rules of operators tell it. For the files
 * items*.c. */
#pragma once

#include "model/onnx/items.h"
#include "model/onnx/onnx_attribute.h"

#define FLOW_DIMS_MAX 8
#define DIMS_UNKNOWN  (-1)

/* A size, or a number computed from sizes: the product of times, (the number of items)^items, and sizes that are not
 * known. Each unknown size has a random code, and `unknown` is the sum of the codes in the product. So equal sums mean
 * equal products of unknown sizes. */
struct extent {
    int64_t times;
    uint64_t unknown;
    uint32_t items; /* power of the number of items, 0 or 1; EXTENT_OTHERWISE: another dependence on that number */
};
#define EXTENT_OTHERWISE 2 /* extent.items: neither power, but some dependence */

enum flow_kind {
    FLOW_SAME,  /* tensor that is the same for every item and every batch */
    FLOW_ITEMS, /* items lie along dimension `axis`, each in a piece of its own; the size is a multiple of the number */
    FLOW_JOINED, /* elements depend on several items, or it is not known whether they do */
};

struct flow {
    enum flow_kind kind;
    bool counts;         /* SAME: whether the elements depend on the number of items */
    int dim_count, axis; /* number of dimensions, DIMS_UNKNOWN only of SAME; ITEMS: dimension of the items */
    struct extent dims[FLOW_DIMS_MAX];
    struct extent *values; /* [value_count] elements of a short list of numbers, or a single number; NULL: not known */
    uint32_t value_count;
    uint32_t cause; /* JOINED: number of the node that is the cause */
};

struct walk {
    struct onnx_graph *graph;
    struct flow *flows; /* [tensor_count] what is known of each tensor */
    uint64_t codes;     /* state of the generator of codes for unknown sizes */
    int64_t opset;      /* version of the standard operators */
    struct cause {
        enum items_verdict verdict;
        const char *what;
    } * causes;                   /* [node_count] verdict on each node, and what the node does */
    const struct onnx_node *node; /* node that is looked at */
    const char *what;
    bool out_of_memory;
};

/* A rule: what an operator does to its inputs. Fills in `out`, the outputs, which are SAME of unknown dimensions
 * before. Returns walk_joined(), walk_unknown(), or ITEMS_APART. */
typedef enum items_verdict flow_rule(struct walk *w, const struct flow *const *in, uint32_t in_count, struct flow *out,
                                     uint32_t out_count);

struct flow_operator {
    const char *name;
    flow_rule *rule;
    uint32_t sizes; /* inputs that only give sizes, axes or positions, a bit each */
};

/* The rule of a node's operator; NULL: there is none here. */
const struct flow_operator *flow_operator_find(const struct onnx_node *node);

enum items_verdict walk_joined(struct walk *w, const char *what);
enum items_verdict walk_unknown(struct walk *w, const char *what);

/* ---- numbers ---- */

static inline struct extent extent_of(int64_t times) {
    return (struct extent){.times = times};
}
static inline bool extent_is_number(struct extent e) {
    return !e.items && !e.unknown;
}
static inline bool extent_is(struct extent e, int64_t number) {
    return extent_is_number(e) && e.times == number;
}
static inline bool extent_equal(struct extent a, struct extent b) {
    return a.times == b.times && a.unknown == b.unknown && a.items == b.items && a.items != EXTENT_OTHERWISE;
}
/* A new unknown size; `items` says how it depends on the number of items. */
struct extent extent_new(struct walk *w, uint32_t items);
struct extent extent_product(struct walk *w, struct extent a, struct extent b);
/* a / b if the quotient is exact, else a new unknown size. */
struct extent extent_quotient(struct walk *w, struct extent a, struct extent b);

/* The elements of a list of numbers: the known ones, or new unknown ones where only their count is known. NULL: neither
 * is known. */
const struct extent *flow_numbers(struct walk *w, const struct flow *flow, uint32_t *count);
/* The elements of a list of plain numbers. Returns how many; -1: an element is no plain number, or not known. */
int flow_plain(struct walk *w, const struct flow *flow, int64_t numbers[ONNX_LIST_MAX]);
/* Fills a flow from a TensorProto: its sizes and, of a short list, the elements. */
void flow_weights(struct walk *w, struct onnx_bytes tensor, struct flow *flow);
/* Makes the flow a list of `count` numbers (one dimension), or one number (no dimension, `count` 1). */
void flow_set_numbers(struct walk *w, struct flow *flow, int dim_count, const struct extent *numbers, uint32_t count);
