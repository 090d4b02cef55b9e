/* error.h - the one clear sentence that goes with an error code. */
#pragma once

#include <stdarg.h>
#include <stdio.h>

/* An error's sentence. The caller owns the struct, usually on its stack. Functions that take a struct sy_error may be
 * given NULL. */
struct sy_error {
    char text[512];
};

/* Writes the sentence (what and where, no trailing newline) and returns `code`, a negative errno, so that a function
 * can `return error_set(err, -EINVAL, ...)`. */
static inline int __attribute__((format(printf, 3, 4)))
error_set(struct sy_error *err, int code, const char *fmt, ...) {
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, ap);
        va_end(ap);
    }
    return code;
}
