/* assert.c - prints a broken invariant, or that there is no memory, and stops. */
#include "core/util/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void assert_fail(const char *file, int line, const char *what) {
    fprintf(stderr, "symphony: %s:%d: broken invariant: %s\n", file, line, what);
    abort();
}

void assert_fail_values(const char *file, int line, const char *what, int64_t a, int64_t b) {
    fprintf(stderr, "symphony: %s:%d: broken invariant: %s (%" PRId64 " and %" PRId64 ")\n", file, line, what, a, b);
    abort();
}

void memory_fail(const char *file, int line) {
    fprintf(stderr, "symphony: %s:%d: out of memory\n", file, line);
    abort();
}
