/* classify.c - finds the highest elements of each item, with a heap of the wanted number of classes. */
#include "front/request/classify.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/strings.h"
#include "core/system/yield.h"
#include "model/config/labels.h"

#define SLICE_ELEMENTS 4096 /* elements between yield points: some 50 us */

/* An element, and its key for sorting: a number that grows with the element's value. */
struct score {
    uint64_t sort_key;
    uint32_t index;
};

/* The bits of a float as a number in the floats' order: a negative one has its bits inverted, a positive one lies above
 * all negative ones. */
static uint64_t sort_key_float(double value) {
    uint64_t bits;
    if (isnan(value))
        return 0;
    value += 0.0; /* -0.0 becomes 0.0 */
    memcpy(&bits, &value, sizeof(bits));
    return bits >> 63 ? ~bits : bits | 1ULL << 63;
}

static uint64_t sort_key_signed(int64_t value) {
    return (uint64_t)value ^ 1ULL << 63;
}

#define LOAD(ctype)                                                                                                    \
    ctype value;                                                                                                       \
    memcpy(&value, at, sizeof(value))

static uint64_t sort_key_of(enum datatype type, const char *at) {
    uint64_t whole = 0;
    switch (type) {
    case DATATYPE_INT8: {
        LOAD(int8_t);
        return sort_key_signed(value);
    }
    case DATATYPE_INT16: {
        LOAD(int16_t);
        return sort_key_signed(value);
    }
    case DATATYPE_INT32: {
        LOAD(int32_t);
        return sort_key_signed(value);
    }
    case DATATYPE_INT64: {
        LOAD(int64_t);
        return sort_key_signed(value);
    }
    case DATATYPE_FP32: {
        LOAD(float);
        return sort_key_float(value);
    }
    case DATATYPE_FP64: {
        LOAD(double);
        return sort_key_float(value);
    }
    default:
        memcpy(&whole, at, datatype_bytes(type)); /* little-endian */
        return whole;
    }
}

static void score_put(struct text *text, enum datatype type, const char *at) {
    uint64_t sort_key = sort_key_of(type, at);
    if (type == DATATYPE_FP32) {
        LOAD(float);
        text_printf(text, "%f", (double)value);
    } else if (type == DATATYPE_FP64) {
        LOAD(double);
        text_printf(text, "%f", value);
    } else if (type >= DATATYPE_INT8) {
        text_printf(text, "%" PRId64, (int64_t)(sort_key ^ 1ULL << 63));
    } else {
        text_printf(text, "%" PRIu64, sort_key);
    }
}
#undef LOAD

/* Whether a comes after b. */
static bool lower(const struct score *a, const struct score *b) {
    return a->sort_key < b->sort_key || (a->sort_key == b->sort_key && a->index > b->index);
}

static int compare(const void *a, const void *b) {
    return lower(a, b) ? 1 : -1;
}

/* Restores a heap whose first element is the lowest, from `i` down. */
static void sift(struct score *heap, uint32_t count, uint32_t i) {
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= count)
            return;
        if (child + 1 < count && lower(&heap[child + 1], &heap[child]))
            child++;
        if (!lower(&heap[child], &heap[i]))
            return;
        struct score moved = heap[i];
        heap[i] = heap[child];
        heap[child] = moved;
        i = child;
    }
}

/* The `wanted` highest of `count` elements, highest first. */
static void highest(enum datatype type, const char *data, uint32_t count, struct score *scores, uint32_t wanted) {
    size_t bytes = datatype_bytes(type);
    for (uint32_t i = 0; i < wanted; i++)
        scores[i] = (struct score){sort_key_of(type, data + i * bytes), i};
    for (uint32_t i = wanted / 2; i-- > 0;)
        sift(scores, wanted, i);
    for (uint32_t i = wanted; i < count && wanted > 0; i++) {
        if (i % SLICE_ELEMENTS == 0)
            yield_point();
        struct score score = {sort_key_of(type, data + i * bytes), i};
        if (lower(&scores[0], &score)) {
            scores[0] = score;
            sift(scores, wanted, 0);
        }
    }
    qsort(scores, wanted, sizeof(*scores), compare);
}

static void class_put(struct text *text, enum datatype type, const char *data, const struct labels *labels,
                      uint32_t index) {
    size_t lead_at = text->length, length;
    text_append(text, "\0\0\0\0", STRING_LEAD_BYTES);
    score_put(text, type, data + index * datatype_bytes(type));
    text_printf(text, ":%" PRIu32, index);
    const char *label = labels_get(labels, index, &length);
    if (label) {
        text_put_char(text, ':');
        text_append(text, label, length);
    }
    if (!text->failed)
        strings_lead(text->data + lead_at, text->length - lead_at - STRING_LEAD_BYTES);
}

static int classify(struct infer_output *wanted, const struct served_model *model, const struct labels *labels,
                    const struct tensor_view *part, struct text *text, struct sy_error *err) {
    const struct tensor_spec *spec = &model->signature.outputs[wanted->index];
    bool batched = model->signature.batched;
    int64_t elements = dims_product(part->dims, batched ? 1 : 0, part->dim_count);
    uint32_t items = batched ? (uint32_t)part->dims[0] : 1;
    if (elements < 0 || !datatype_fits(spec->type, (uint64_t)dims_product(part->dims, 0, part->dim_count), part->bytes))
        return error_set(err, -EINVAL, "output '%s' does not have the bytes of its shape", spec->name);
    if (elements > CLASSIFY_ELEMENTS_MAX)
        return error_set(err, -E2BIG,
                         "output '%s' has %" PRId64 " elements an item, of which at most %d are classified", spec->name,
                         elements, CLASSIFY_ELEMENTS_MAX);
    wanted->classes = wanted->classes < elements ? wanted->classes : (uint32_t)elements;
    if ((uint64_t)wanted->classes * items > CLASSIFY_CLASSES_MAX)
        return error_set(err, -E2BIG, "output '%s': %" PRIu32 " classes of each of %" PRIu32 " items are more than %d",
                         spec->name, wanted->classes, items, CLASSIFY_CLASSES_MAX);
    struct score *scores = malloc((wanted->classes + 1) * sizeof(*scores));
    if (!scores)
        return error_set(err, -ENOMEM, "out of memory for the answer");
    wanted->classes_at = text->length;
    for (uint32_t i = 0; i < items; i++) {
        const char *data = (const char *)part->data + i * (part->bytes / items);
        highest(spec->type, data, (uint32_t)elements, scores, wanted->classes);
        yield_point();
        for (uint32_t k = 0; k < wanted->classes; k++)
            class_put(text, spec->type, data, labels, scores[k].index);
    }
    wanted->classes_bytes = text->length - wanted->classes_at;
    free(scores);
    return 0;
}

int classify_outputs(struct infer_call *call, const struct served_model *model, struct labels *const *labels,
                     const struct tensor_view *outputs, uint32_t output_count, uint32_t first_item, struct text *text,
                     struct sy_error *err) {
    for (uint32_t i = 0; i < call->output_count; i++) {
        struct tensor_view part;
        if (!call->outputs[i].classified)
            continue;
        int rc = infer_output_slice(&part, model, call, &call->outputs[i], outputs, output_count, first_item, err);
        if (!rc && model->signature.batched && (part.dim_count == 0 || part.dims[0] != call->items))
            rc = error_set(err, -EINVAL,
                           "output '%s' has not as many rows as there are items, which could be classified",
                           model->signature.outputs[call->outputs[i].index].name);
        rc = rc ? rc : classify(&call->outputs[i], model, labels[call->outputs[i].index], &part, text, err);
        if (rc)
            return rc;
    }
    if (text->failed)
        return error_set(err, -ENOMEM, "out of memory for the answer");
    call->classes = text->data ? text->data : "";
    return 0;
}
