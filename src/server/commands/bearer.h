/* bearer.h - the token that a command shows a server, for its --token. */
#pragma once

#include "core/util/error.h"
#include "front/net/auth.h"

#define BEARER_BYTES (AUTH_TOKEN_BYTES_MAX + 32)

/* Writes "Authorization: Bearer TOKEN" into `header`. `text` is TOKEN or @FILE; of a file with one token a line, as for
 * `symphony serve --auth-token-file`, the first one is taken. 0 or -errno with a sentence. */
int bearer_read(const char *text, char header[BEARER_BYTES], struct sy_error *err);
