/* near.h - how alike two names are: for "did you mean". Any thread; no state. */
#pragma once

#include <limits.h>
#include <stddef.h>

#define NEAR_NOT UINT_MAX

/* How many letters of `typed` (its first `length` bytes) are wrong, missing, too many or swapped if `name` was meant;
 * NEAR_NOT if that are more than two, or more than half of them. A beginning of three letters or more is 0 wrong.
 * Capitals and underscores count as small letters and dashes. */
unsigned near_distance(const char *typed, size_t length, const char *name);
