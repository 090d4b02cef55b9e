/* utf8.h - writes UTF-8, checks whether text is UTF-8, and cleans text from outside before it is passed on. Pure.
 *
 * One string that is not UTF-8 makes a whole page of metrics, or a whole message of gRPC, unreadable for its reader. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length in bytes of the UTF-8 sequence of two to four bytes at `at` (RFC 3629: no surrogates, no longer form than
 * needed). 0: there is no such sequence at `at`. */
size_t utf8_length(const char *at, const char *end);
bool utf8_is_valid(const char *text);
/* Turns any text into one line of UTF-8 without control characters: ends of lines and tabs become blanks; every other
 * control character, and every byte that is no part of UTF-8, becomes a question mark. */
void utf8_clean(char *text, size_t length);
/* Writes a character, of at most four bytes. Returns how many they are. */
size_t utf8_write(uint32_t character, char *out);
