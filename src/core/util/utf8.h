/* utf8.h - what is UTF-8, and how text from outside is cleaned before it is passed on. Pure.
 *
 * One string that is not UTF-8 makes a whole page of metrics, or a whole message of gRPC, unreadable for its reader. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the UTF-8 sequence of several bytes at `at` (RFC 3629: no surrogates, no longer form than needed), or 0. */
size_t utf8_length(const char *at, const char *end);
bool utf8_is_valid(const char *text);
/* Makes any text one line of UTF-8 without control characters: ends of lines and tabs become blanks, every other byte
 * that does not belong there becomes a question mark. */
void utf8_clean(char *text, size_t length);
