/* separable.c - runs unlike items together and alone, and compares their outputs. */
#include "model/profile/separable.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/floats.h"
#include "core/util/assert.h"
#include "core/util/container.h"
#include "model/profile/measure.h"

/* Kinds of items. Integers and booleans are 0 or 1 in all kinds, since they may be indices. Batches of 2, 3 and 4 have
 * the kinds in this order. The two ordinary items show any effect of one item on the other, in either direction. An
 * effect that is too weak for them shows beside NaN and huge numbers. These kinds come last in the batch of 3 and first
 * in the batch of 4, so that the effect shows in either direction, too. */
enum {
    PLAIN, /* first of the batch of 2 */
    PLAIN_TOO,
    ZERO, /* first of the batch of 3 */
    TINY,
    NAN_ONE,
    HUGE_ONE, /* first of the batch of 4, whose last item is PLAIN */
    WIDE,
    NEGATIVE
};

#define KINDS       SEPARABLE_KINDS
#define KINDS_ALIKE 3 /* kinds to make where all inputs are integers or booleans, or have given values */
/* Kinds in a large batch, from NAN_ONE on: they differ most. Each kind may need a further large run. */
#define KINDS_OF_MANY 5

/* Greatest difference that counts as rounding, relative to the greatest element. */
#define ROUNDING_MOST 0.01

struct item {
    void *data[TENSORS_MAX]; /* data of each input that is given */
    size_t bytes[TENSORS_MAX];
    struct output_block *alone; /* outputs of the item alone; NULL: the model does not take the item */
};

struct separable {
    const struct separable_trial *trial;
    struct item kinds[KINDS];
    uint32_t taken[KINDS], taken_count; /* kinds that the model takes */
    uint32_t next; /* number of items in all batches so far; the next small batch takes the kinds that follow */
    struct output_block *alike[KINDS]; /* outputs of a batch of this kind alone, of the tried size; NULL: not run */
    struct sy_error *why;
};

/* ---- items ---- */

/* Turns ordinary numbers, of [0.5, 1), into numbers of a kind. FP16 reaches from 6e-8 to 65504. */
static void numbers_make(void *data, size_t count, enum datatype type, int kind) {
    double huge = type == DATATYPE_FP16 ? 3e4 : 1e30, tiny = type == DATATYPE_FP16 ? 1e-4 : 1e-30;
    char *at = data;
    for (size_t i = 0; i < count; i++, at += datatype_bytes(type)) {
        double x = float_get(type, at);
        x = kind == HUGE_ONE   ? x * huge
            : kind == NAN_ONE  ? (double)NAN
            : kind == NEGATIVE ? -3 * x
            : kind == TINY     ? x * tiny
            : kind == ZERO     ? 0
            : kind == WIDE     ? (i % 2 ? -1 : 1) * ldexp(x, (int)(i * 7 % 20) - 10)
                               : x;
        float_put(type, x, at);
    }
}

/* Makes strings of a kind, element behind element (core/data/strings.h). */
static void *strings_make(size_t count, int kind, size_t *bytes) {
    static const char *const texts[KINDS] = {[PLAIN] = "1",
                                             [HUGE_ONE] =
                                                 "a text of several words, longer than all the others of the batch",
                                             [NAN_ONE] = "",
                                             [NEGATIVE] = "-17.5",
                                             [TINY] = "a b c d",
                                             [ZERO] = "0",
                                             [WIDE] = "two lines\nand \xc3\xa9",
                                             [PLAIN_TOO] = "word"};
    uint32_t length = (uint32_t)strlen(texts[kind]);
    char *data = malloc(count * (STRING_LEAD_BYTES + length) + 1), *at = data;
    for (size_t i = 0; data && i < count; i++) {
        memcpy(at, &length, STRING_LEAD_BYTES);
        memcpy(at + STRING_LEAD_BYTES, texts[kind], length);
        at += STRING_LEAD_BYTES + length;
    }
    *bytes = (size_t)(at - data);
    return data;
}

static void item_free(struct item *item) {
    for (uint32_t i = 0; i < TENSORS_MAX; i++)
        free(item->data[i]);
    output_block_put(item->alone);
    *item = (struct item){.alone = NULL};
}

/* Whether any value may be given to an input. */
static bool takes_any(const struct separable_trial *trial, uint32_t input) {
    const struct input_values *values = trial->values;
    return !values || (!values->given[input].data && !values->step);
}

/* Makes an item of a kind; `plain`: with ordinary strings, which can be read as numbers. */
static int item_make(struct separable *t, int kind, bool plain, struct item *item) {
    const struct signature *s = t->trial->signature;
    struct tensor_view inputs[TENSORS_MAX];
    const struct input_values *values = t->trial->values;
    int rc = measure_inputs(s, t->trial->item_dims, 1, values, t->trial->seed + (uint64_t)kind, inputs);
    void *data = inputs[0].data;
    for (uint32_t i = 0; i < s->input_count && !rc; i++) {
        enum datatype type = s->inputs[i].type;
        if (!inputs[i].data)
            continue;
        size_t count = (size_t)dims_product(inputs[i].dims, 0, inputs[i].dim_count);
        bool any = takes_any(t->trial, i);
        if (type == DATATYPE_BYTES && any && !plain) {
            item->data[i] = strings_make(count, kind, &item->bytes[i]);
        } else if ((item->data[i] = malloc(inputs[i].bytes + 1))) {
            memcpy(item->data[i], inputs[i].data, inputs[i].bytes);
            item->bytes[i] = inputs[i].bytes;
            if (datatype_is_float(type) && any)
                numbers_make(item->data[i], count, type, kind);
        }
        rc = item->data[i] ? 0 : -ENOMEM;
    }
    free(data);
    return rc ? error_set(t->why, rc, "no memory for items to be tried together") : 0;
}

/* ---- runs ---- */

/* Runs items of these kinds together. */
static int together(struct separable *t, const uint32_t *kinds, uint32_t items, struct output_block **block) {
    const struct separable_trial *trial = t->trial;
    const struct signature *s = trial->signature;
    struct tensor_view inputs[TENSORS_MAX];
    int rc = 0;
    memset(inputs, 0, sizeof(inputs));
    for (uint32_t i = 0; i < s->input_count; i++) {
        struct tensor_view *view = &inputs[i];
        view->dim_count = s->inputs[i].dim_count;
        memcpy(view->dims, trial->item_dims[i], sizeof(view->dims));
        view->dims[0] = items;
        for (uint32_t n = 0; n < items; n++)
            view->bytes += t->kinds[kinds[n]].bytes[i];
        if (!t->kinds[kinds[0]].data[i]) /* optional, and left out */
            continue;
        char *at = view->data = aligned_alloc(CACHE_LINE, (view->bytes + CACHE_LINE) / CACHE_LINE * CACHE_LINE);
        if (!at)
            rc = error_set(t->why, -ENOMEM, "no memory for %u items to be tried together", items);
        for (uint32_t n = 0; n < items && at; n++) {
            memcpy(at, t->kinds[kinds[n]].data[i], t->kinds[kinds[n]].bytes[i]);
            at += t->kinds[kinds[n]].bytes[i];
        }
    }
    if (trial->progress)
        trial->progress(trial->context, "trying", items);
    if (!rc)
        rc = trial->ops->run(trial->model, inputs, items, block, t->why);
    for (uint32_t i = 0; i < s->input_count; i++)
        free(inputs[i].data);
    return rc;
}

/* ---- comparing ---- */

/* Finds the greatest difference of two rows, and the greatest number in them. False: the rows differ in elements that
 * are no numbers, or in their bytes. */
static bool rows_differ_by(const struct tensor_view *a, const struct tensor_view *b, enum datatype type,
                           double *difference, double *greatest) {
    if (a->bytes != b->bytes)
        return false;
    if (memcmp(a->data, b->data, a->bytes) == 0)
        return true;
    if (!datatype_is_float(type))
        return false;
    for (size_t at = 0; at < a->bytes; at += datatype_bytes(type)) {
        double x = float_get(type, (const char *)a->data + at), y = float_get(type, (const char *)b->data + at);
        if (isfinite(x) && isfinite(y)) {
            *greatest = fmax(*greatest, fmax(fabs(x), fabs(y)));
            *difference = fmax(*difference, fabs(x - y));
        } else if (isnan(x) != isnan(y) || (!isnan(x) && x != y)) {
            return false;
        }
    }
    return true;
}

static int mixed(struct separable *t, uint32_t o) {
    return error_set(t->why, -EXDEV, "output '%s' of an item depends on what it is batched with",
                     t->trial->signature->outputs[o].name);
}

/* Whether row `n` of output `o` of a batch of one kind, `twin`, is that of the item alone, but for rounding. */
static bool rounding_find(const struct separable *t, uint32_t kind, uint32_t o, uint32_t n, struct tensor_view *twin,
                          double *rounding, double *scale) {
    *rounding = *scale = 0;
    CHECK(tensor_rows(&t->alike[kind]->outputs[o], n, 1, twin) == 0); /* alike_run() has counted the rows */
    return rows_differ_by(&t->kinds[kind].alone->outputs[o], twin, t->trial->signature->outputs[o].type, rounding,
                          scale) &&
           *rounding <= ROUNDING_MOST * *scale;
}

/* Runs a batch of items of one kind, if that was not done. An ordinary item does not depend on how many there are, or
 * on where it stands. */
static int alike_run(struct separable *t, uint32_t kind, uint32_t items) {
    const struct signature *s = t->trial->signature;
    struct tensor_view twin;
    double rounding, scale;
    if (t->alike[kind])
        return 0;
    uint32_t *kinds = malloc(items * sizeof(*kinds));
    int rc = kinds ? 0 : error_set(t->why, -ENOMEM, "no memory for %u items to be tried together", items);
    for (uint32_t i = 0; i < items && kinds; i++)
        kinds[i] = kind;
    if (!rc)
        rc = together(t, kinds, items, &t->alike[kind]);
    bool ordinary = kind == PLAIN || kind == PLAIN_TOO;
    for (uint32_t o = 0; o < s->output_count && !rc; o++) {
        rc = tensor_row_count(&t->alike[kind]->outputs[o]) == items ? 0 : mixed(t, o);
        for (uint32_t n = 0; n < items && !rc && ordinary && datatype_is_float(s->outputs[o].type); n++)
            rc = rounding_find(t, kind, o, n, &twin, &rounding, &scale) ? 0 : mixed(t, o);
    }
    free(kinds);
    return rc;
}

/* Judges an item's row `n` of output `o` of a batch. 0: the row is that of the item alone, but for rounding. The
 * rounding is that of a batch of the first kind, in proportion; where that is not enough, that of a batch of the item's
 * own kind. */
static int row_judge(struct separable *t, const struct output_block *batch, uint32_t o, uint32_t n, uint32_t items,
                     uint32_t kind) {
    enum datatype type = t->trial->signature->outputs[o].type;
    const uint32_t references[] = {t->taken[0], kind};
    struct tensor_view row, twin;
    double difference = 0, greatest = 0, rounding, scale, beside = 0;
    if (tensor_rows(&batch->outputs[o], n, 1, &row) < 0)
        return mixed(t, o);
    bool alike = rows_differ_by(&t->kinds[kind].alone->outputs[o], &row, type, &difference, &greatest), sane = false;
    if (alike && difference == 0)
        return 0;
    if (!datatype_is_float(type))
        return mixed(t, o);
    for (uint32_t i = alike ? 0 : 1; i < ARRAY_COUNT(references); i++) {
        int rc = alike_run(t, references[i], items);
        if (rc)
            return rc;
        sane = rounding_find(t, references[i], o, n, &twin, &rounding, &scale);
        if (alike && sane && rounding > 0 && difference * scale <= 2 * rounding * greatest)
            return 0;
        if (references[i] == kind && rows_differ_by(&twin, &row, type, &beside, &scale) && beside <= 2 * rounding)
            return 0;
    }
    return sane ? mixed(t, o) : 0; /* this kind gives noise even in a batch of its own: it says nothing */
}

/* An item that the model does not take is tried once more with ordinary strings, and then left out. */
int separable_begin(const struct separable_trial *trial, struct separable **separable, struct sy_error *why) {
    struct separable *t = *separable = calloc(1, sizeof(*t));
    uint32_t kinds = KINDS_ALIKE;
    int rc = 0;
    if (!t)
        return error_set(why, -ENOMEM, "no memory for items to be tried together");
    t->trial = trial;
    t->why = why;
    for (uint32_t i = 0; i < trial->signature->input_count; i++) {
        enum datatype type = trial->signature->inputs[i].type;
        if (takes_any(trial, i) && (datatype_is_float(type) || type == DATATYPE_BYTES))
            kinds = KINDS;
    }
    for (uint32_t kind = 0; kind < kinds && rc != -ENOMEM; kind++) {
        for (int plain = 0; plain <= 1 && !t->kinds[kind].alone; plain++) {
            item_free(&t->kinds[kind]);
            rc = item_make(t, (int)kind, plain, &t->kinds[kind]);
            if (!rc)
                rc = together(t, &kind, 1, &t->kinds[kind].alone);
        }
        if (t->kinds[kind].alone)
            t->taken[t->taken_count++] = kind;
    }
    if (rc != -ENOMEM && t->taken_count > 0)
        return 0;
    separable_end(t);
    *separable = NULL;
    return rc;
}

int separable_try(struct separable *t, uint32_t items, struct sy_error *why) {
    const struct signature *s = t->trial->signature;
    struct output_block *batch = NULL;
    bool many = items > KINDS;
    uint32_t *kinds = malloc(items * sizeof(*kinds)), first = many ? 0 : t->next, most = many ? KINDS_OF_MANY : items;
    int rc = kinds ? 0 : error_set(why, -ENOMEM, "no memory for %u items to be tried together", items);
    t->why = why;
    while (many && first + 1 < t->taken_count && t->taken[first] < NAN_ONE)
        first++;
    for (uint32_t n = 0; n < items && kinds; n++) /* beyond 4 in reverse order, so that other kinds stand last */
        kinds[items > 4 ? items - 1 - n : n] = t->taken[(first + n % most) % t->taken_count];
    if (!rc)
        rc = together(t, kinds, items, &batch);
    for (uint32_t o = 0; o < s->output_count && !rc; o++) {
        if (tensor_row_count(&batch->outputs[o]) != items)
            rc = error_set(why, -EMSGSIZE, "output '%s' has %lld rows for a batch of %u", s->outputs[o].name,
                           (long long)tensor_row_count(&batch->outputs[o]), items);
        for (uint32_t n = 0; n < items && !rc; n++)
            rc = row_judge(t, batch, o, n, items, kinds[n]);
    }
    output_block_put(batch);
    t->next += items;
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        output_block_put(t->alike[kind]);
        t->alike[kind] = NULL;
    }
    free(kinds);
    return rc;
}

bool separable_all_tried(const struct separable *t) {
    return t->next >= t->taken_count;
}

void separable_end(struct separable *t) {
    for (uint32_t kind = 0; t && kind < KINDS; kind++)
        item_free(&t->kinds[kind]);
    free(t);
}
