/* query.h - the keys and values of a target's query. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

#define QUERY_KEY_MAX   32
#define QUERY_VALUE_MAX 256

struct query {
    const char *at, *end;
    char key[QUERY_KEY_MAX], value[QUERY_VALUE_MAX]; /* terminated; what is longer is cut off */
    size_t value_length;                             /* bytes of the value, which may have zeros in it */
};

/* `text` is what stands behind the '?'. */
static inline struct query query_of(const char *text, size_t length) {
    return (struct query){.at = text, .end = text + length};
}
/* Takes the next key=value, decoded; without a '=' the value is empty. False: there is none. */
bool query_next(struct query *query);
/* Reads the value as a whole number from `min` to `max`. 0; or 400 with a sentence. */
int query_number(const struct query *query, uint32_t min, uint32_t max, uint32_t *number, struct sy_error *err);
