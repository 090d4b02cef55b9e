/* bearer.h - the token that a command shows a server, for its --token. */
#pragma once

#include "core/util/error.h"
#include "front/net/auth.h"

#define BEARER_BYTES (AUTH_TOKEN_BYTES_MAX + 32)

/* "Authorization: Bearer TOKEN". With @FILE the token is the first of a file with one a line, as for `symphony serve
 * --auth-token-file`. -errno with a sentence. */
int bearer_read(const char *text, char header[BEARER_BYTES], struct sy_error *err);
