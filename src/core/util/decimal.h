/* decimal.h - numbers that people, clients and files write: decimal, finite, without blanks around them. Pure. */
#pragma once

#include <stdint.h>

/* Reads a text that is one whole number and nothing else. 0; -EINVAL: it is something else, as a NULL text is; -ERANGE:
 * the number is not in [min, max]. *value is set only with 0. */
int decimal_int(const char *text, int64_t min, int64_t max, int64_t *value);
/* As decimal_int(), for a number that need not be whole. */
int decimal_double(const char *text, double min, double max, double *value);
