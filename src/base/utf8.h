/* utf8.h - what is UTF-8, and text of others that is to be passed on. Pure.
 *
 * One string that is not UTF-8 makes a whole page of metrics, or a whole message of gRPC, unreadable for its reader. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the UTF-8 sequence of several bytes at `at` (RFC 3629: no surrogates, no longer form than needed), or 0. */
size_t utf8_length(const char *at, const char *end);
bool utf8_is_valid(const char *text);
/* Makes text of whatever origin one line of UTF-8 without control characters: ends of lines and tabs become blanks,
 * what else does not belong there a question mark a byte. */
void utf8_clean(char *text, size_t length);
