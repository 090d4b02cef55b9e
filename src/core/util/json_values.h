/* json_values.h - how many values a JSON text may have, before it is parsed.
 *
 * jansson takes some 130 bytes of memory for each value, and a value may be two bytes long: `1,`. Bodies of clients may
 * be long, since they carry files. So code counts the values of a client's JSON before jansson parses it. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_VALUES_MAX 100000 /* values of a text */

/* An upper bound of the number of values in a text, if the text is JSON: each value but the first follows one of the
 * characters below. Such characters inside strings are counted, too. */
static inline size_t json_values_most(const char *json, size_t bytes) {
    static const bool leads[UINT8_MAX + 1] = {['['] = true, ['{'] = true, [','] = true, [':'] = true};
    size_t values = 1;
    for (size_t i = 0; i < bytes; i++)
        values += leads[(uint8_t)json[i]];
    return values;
}
