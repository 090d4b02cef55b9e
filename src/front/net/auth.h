/* auth.h - the tokens that let clients in, read from a file. The time that a comparison takes tells nothing but the
 * tokens' lengths. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

#define AUTH_TOKENS_MAX      256
#define AUTH_TOKEN_BYTES_MAX 512
#define AUTH_HEADERS_MAX     4 /* headers of a request that are compared: with many tokens that takes time */

/* The sentence for an HTTP client without a token. */
#define AUTH_NEEDED "a token is needed: Authorization: Bearer TOKEN, or X-Api-Key: TOKEN"

struct auth;

/* Reads a file of tokens, one a line: printable ASCII without blanks. Blank lines and lines that begin with # do not
 * count. 0 or -errno with a sentence that names the file. For the thread that starts the server; `path` outlives the
 * tokens. */
int auth_create(struct auth **auth, const char *path, struct sy_error *err);
/* Call it when no thread uses the tokens any more. NULL is allowed. */
void auth_destroy(struct auth *auth);
/* Reads the file again, but for a pipe. If it holds mistakes, everything stays as it was. One thread at a time. */
int auth_reload(struct auth *auth, struct sy_error *err);

/* Copies the first token, terminated, for a caller that sends it to others; `room` is greater than
 * AUTH_TOKEN_BYTES_MAX. Any thread. */
void auth_first(const struct auth *auth, char *token, size_t room);
/* Whether this is one of the tokens. Any thread. */
bool auth_allows(const struct auth *auth, const char *token, size_t length);
/* Whether the value of an `authorization` header, "Bearer TOKEN", has one of the tokens. Any thread. */
bool auth_allows_bearer(const struct auth *auth, const char *value, size_t length);
/* Whether a header carries one of the tokens: `Authorization: Bearer TOKEN` or `X-Api-Key: TOKEN`, with the name in
 * upper or lower case. `*compared`, 0 at first, counts the request's headers that were compared. */
bool auth_header_allows(const struct auth *auth, const char *name, size_t name_length, const char *value, size_t length,
                        uint32_t *compared);
