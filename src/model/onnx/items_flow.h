/* items_flow.h - what items.c knows of a tensor, and the rules of operators have to tell. For the files items*.c. */
#pragma once

#include "model/onnx/items.h"
#include "model/onnx/onnx_attribute.h"

#define FLOW_RANK_MAX 8
#define RANK_UNKNOWN  (-1)

/* A size, or a number computed from sizes: times * (the number of items)^items * a product of sizes that are not
 * known. These have random codes, and `unknown` is the sum of those in the product: so equal sums are equal products.
 */
struct extent {
    int64_t times;
    uint64_t unknown;
    uint32_t items; /* 0; 1: it grows with the items; EXTENT_OTHERWISE: it depends on their number in some other way */
};
#define EXTENT_OTHERWISE 2

enum flow_kind {
    FLOW_SAME,   /* the same for every item and every batch */
    FLOW_ITEMS,  /* items lie along dimension `axis`, which is a multiple of their number, each in a piece of its own */
    FLOW_JOINED, /* something depends on several items, or it is not known whether */
};

struct flow {
    enum flow_kind kind;
    bool counts;    /* SAME, but its numbers depend on how many items there are */
    int rank, axis; /* RANK_UNKNOWN only of SAME */
    struct extent dims[FLOW_RANK_MAX];
    struct extent *values; /* [value_count] the elements of a short list of numbers, or one number; NULL: not known */
    uint32_t value_count;
    uint32_t cause; /* JOINED: the node */
};

struct walk {
    struct onnx_graph *graph;
    struct flow *flows; /* of each tensor */
    uint64_t codes;     /* given to unknown sizes so far */
    int64_t opset;      /* version of the standard operators */
    struct cause {
        enum items_verdict verdict;
        const char *what;
    } * causes; /* [node_count] */
    const struct onnx_node *node;
    const char *what;
    bool out_of_memory;
};

/* What an operator does to its inputs. Fills in `out`, the outputs, which are SAME of unknown rank before. Returns
 * walk_joined(), walk_unknown(), or ITEMS_APART. */
typedef enum items_verdict flow_rule(struct walk *w, const struct flow *const *in, uint32_t in_count, struct flow *out,
                                     uint32_t out_count);

struct flow_operator {
    const char *name;
    flow_rule *rule;
    uint32_t sizes; /* a bit for each input that only says sizes, axes or positions */
};

/* The rule of a node's operator; NULL: it is not known here. */
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
/* A size of which nothing is known but how it depends on the number of items. */
struct extent extent_new(struct walk *w, uint32_t items);
struct extent extent_product(struct walk *w, struct extent a, struct extent b);
/* a / b where it is exact, else one that is not known. */
struct extent extent_quotient(struct walk *w, struct extent a, struct extent b);

/* The elements of a list of numbers: known ones, or new unknown ones where only the count is known. NULL: neither. */
const struct extent *flow_numbers(struct walk *w, const struct flow *flow, uint32_t *count);
/* The same if each is a plain number: how many, or -1. */
int flow_plain(struct walk *w, const struct flow *flow, int64_t numbers[ONNX_LIST_MAX]);
/* Sizes of a TensorProto, and of short lists the elements. */
void flow_weights(struct walk *w, struct onnx_bytes tensor, struct flow *flow);
/* Sets a list of `count` numbers (rank 1), or one number (rank 0, `count` 1). */
void flow_set_numbers(struct walk *w, struct flow *flow, int rank, const struct extent *numbers, uint32_t count);
