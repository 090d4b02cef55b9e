/* decimal.c - numbers in texts. */
#include "core/util/decimal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int decimal_int(const char *text, int64_t min, int64_t max, int64_t *value) {
    if (!text || !*text || text[strspn(text, "0123456789+-")])
        return -EINVAL;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*end)
        return -EINVAL;
    if (errno || number < min || number > max)
        return -ERANGE;
    *value = number;
    return 0;
}

int decimal_double(const char *text, double min, double max, double *value) {
    if (!text || !*text || text[strspn(text, "0123456789+-.eE")]) /* strtod() also takes nan, inf, hexadecimal digits */
        return -EINVAL;
    char *end;
    double number = strtod(text, &end);
    if (*end)
        return -EINVAL;
    if (!isfinite(number) || number < min || number > max)
        return -ERANGE;
    *value = number;
    return 0;
}
