/* values.h - the values of a model's inputs while it is profiled and tried.
 *
 * Some inputs are sizes, splits, divisors or lengths, and the model runs only with some values of them. A user may give
 * such values: `sample` in symphony.yaml goes before the files of model_warmup. Other inputs are filled by steps, one
 * after the other, until the model runs:
 *
 *     step 0       random: floats in [0.5, 1), integers and booleans 0 or 1, strings "0" or "1"
 *     step 1       zeros where model_warmup says zero_data, the others as in step 0
 *     step 2       all integers, and floats of small inputs, are 1
 *     step 3 to 9  integers and floats of small inputs are 2 to 8; other integers are 1
 *     step 10      random as in step 0, in place of given values, too
 *
 * An input is small if an item has at most VALUES_SMALL elements of it. Set-up only; any thread. */
#pragma once

#include "core/data/tensor.h"
#include "core/util/rng.h"
#include "model/config/served_model.h"

#define VALUES_SMALL   16 /* elements an item of a small input */
#define VALUES_STEPS   11
#define VALUES_UNGIVEN 10 /* step in which given values are not used */

struct input_values {
    uint32_t step;
    struct tensor_view given[TENSORS_MAX]; /* given values of an item, owned by this struct; no data: none are given.
                                              Rank 0: values that are repeated until the input is full */
    tensor_set zeros;                      /* inputs with zero_data in model_warmup */
};

/* Reads the values that a completed model's folder gives. -EINVAL with a sentence that names the file; nothing is
 * allocated then. */
int values_read(const struct served_model *model, struct input_values *values, struct sy_error *err);
void values_free(struct input_values *values);
bool values_any_given(const struct input_values *values);

/* Whether a step fills some input otherwise than the step before it. `item_dims`: dims of the item that is filled;
 * NULL: they are not known yet, and inputs with open dimensions count as small. */
bool values_step_differs(const struct input_values *values, const struct signature *signature,
                         int64_t item_dims[][TENSOR_DIMS_MAX], uint32_t step);
/* Gives open dimensions of an item the sizes of the given values. `fixed`: dimensions that stay, where not 0. */
void values_item_dims(const struct input_values *values, const struct signature *signature,
                      int64_t fixed[][TENSOR_DIMS_MAX], int64_t item_dims[][TENSOR_DIMS_MAX]);

/* Bytes of an input of `elements` elements. `values` may be NULL: random values. */
size_t values_bytes(const struct input_values *values, uint32_t input, enum datatype type, int64_t elements);
/* Fills an input of `items` items, of values_bytes(). Given values are repeated for each item. Further items get the
 * large floats of the first item times a random factor in [0.5, 1), so that items that are mixed up are noticed. */
void values_fill(const struct input_values *values, uint32_t input, enum datatype type, int64_t elements,
                 uint32_t items, struct rng *rng, void *data);

/* Describes for the log how inputs are filled: "orig_im_size given, ratio 2"; "": all are random. */
void values_format(const struct input_values *values, const struct signature *signature, char *text, size_t bytes);
