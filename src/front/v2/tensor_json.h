/* tensor_json.h - reads tensors' `data` from JSON straight into binary elements, and writes elements as JSON.
 *
 * Reading rounds correctly (to nearest, ties to even) for FP32 and FP64; FP16 and BF16 are rounded from FP32. Writing
 * gives the fewest digits that read back to the same element. */
#pragma once

#include "core/data/tensor.h"
#include "core/util/text.h"
#include "front/v2/json_scan.h"

/* Reads the array at the cursor into `out`, which has room for all elements of `dims`: either flat, in row-major order,
 * or nested just as `dims` says. `type` is not BYTES. 0, or -EINVAL with the reason: a number out of the type's range,
 * a fraction for a whole number's type, too few or too many elements, a wrong shape, or what is not JSON. */
int tensor_json_read(struct json_scan *scan, enum datatype type, const int64_t *dims, uint32_t dim_count, void *out);
/* Reads the array of BYTES: strings, whose elements are their UTF-8 bytes. `out` has room for all that the text can
 * hold; *bytes is the length written. */
int tensor_json_read_strings(struct json_scan *scan, const int64_t *dims, uint32_t dim_count, void *out, size_t *bytes);

/* Appends "[a,b,...]". NaN and infinities are the words that Triton writes, which JSON does not have: NaN, Infinity and
 * -Infinity. 0; -EDOM: JSON cannot carry an element, whose bytes are not UTF-8; -EINVAL: the data do not hold
 * `elements` elements. */
int tensor_json_write(struct text *text, enum datatype type, const void *data, size_t bytes, int64_t elements);

/* The number's value; infinite when it is out of range. */
double tensor_json_double(const struct json_number *number);
float tensor_json_float(const struct json_number *number);
