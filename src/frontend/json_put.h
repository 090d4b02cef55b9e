/* json_put.h - writes strings and whole numbers as JSON. */
#pragma once

#include <stdint.h>

#include "base/text.h"

/* The string in quotes, escaped where JSON asks for it; a byte that is not UTF-8 becomes '?'. */
void json_put_string(struct text *text, const char *string);
void json_put_unsigned(struct text *text, uint64_t value);
/* {"error":"..."}, the form of every error of the protocol. */
void json_put_error(struct text *text, const char *sentence);
