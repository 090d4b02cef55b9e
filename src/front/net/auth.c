/* auth.c - reads the file of tokens, and compares tokens. */
#include "front/net/auth.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/system/files.h"
#include "core/util/lines.h"

struct token {
    uint32_t length;
    char bytes[AUTH_TOKEN_BYTES_MAX];
};

struct token_set {
    struct token_set *before; /* set that this one replaced */
    uint32_t count;
    struct token tokens[];
};

/* Frontends read `current` without a lock, so a set that was replaced is kept until the end: 20 KiB for 40 tokens, each
 * time that an operator changes them. */
struct auth {
    const char *path;
    _Atomic(struct token_set *) current;
};

static int set_read(struct token_set *set, struct lines *lines, struct sy_error *err) {
    int rc;
    while ((rc = lines_next(lines, err)) > 0) {
        if (set->count == AUTH_TOKENS_MAX)
            return lines_error(lines, err, "there are more than %d tokens", AUTH_TOKENS_MAX);
        char *text = lines->text + strspn(lines->text, " \t");
        size_t length = strcspn(text, " \t\r");
        if (text[length + strspn(text + length, " \t\r")] != '\0')
            return lines_error(lines, err, "a token holds no blank");
        if (length > AUTH_TOKEN_BYTES_MAX)
            return lines_error(lines, err, "a token has at most %d characters", AUTH_TOKEN_BYTES_MAX);
        for (size_t i = 0; i < length; i++)
            if (text[i] <= ' ' || text[i] > '~')
                return lines_error(lines, err, "a token is printable ASCII");
        struct token *token = &set->tokens[set->count++];
        token->length = (uint32_t)length;
        memcpy(token->bytes, text, length);
    }
    if (rc == 0 && set->count == 0)
        return error_set(err, -EINVAL, "'%s' holds no token", lines->path);
    return rc;
}

int auth_reload(struct auth *auth, struct sy_error *err) {
    /* relaxed: written by this thread */
    struct token_set *current = atomic_load_explicit(&auth->current, memory_order_relaxed);
    if (current && file_is_pipe(auth->path))
        return 0;
    struct token_set *set = calloc(1, sizeof(*set) + AUTH_TOKENS_MAX * sizeof(struct token)), *fitted;
    struct lines *lines = malloc(sizeof(*lines));
    int rc = set && lines ? lines_open(lines, auth->path, err) : error_set(err, -ENOMEM, "no memory for tokens");
    if (rc == 0) {
        rc = set_read(set, lines, err);
        lines_close(lines);
    }
    free(lines);
    if (rc < 0) {
        free(set);
        return rc;
    }
    if (current && current->count == set->count &&
        memcmp(current->tokens, set->tokens, set->count * sizeof(struct token)) == 0) {
        free(set);
        return 0;
    }
    fitted = realloc(set, sizeof(*set) + set->count * sizeof(struct token));
    set = fitted ? fitted : set;
    set->before = current;
    atomic_store_explicit(&auth->current, set, memory_order_release); /* with auth_allows() */
    return 0;
}

int auth_create(struct auth **auth, const char *path, struct sy_error *err) {
    struct auth *a = calloc(1, sizeof(*a));
    if (!a)
        return error_set(err, -ENOMEM, "no memory for tokens");
    a->path = path;
    int rc = auth_reload(a, err);
    if (rc < 0)
        auth_destroy(a);
    else
        *auth = a;
    return rc;
}

void auth_destroy(struct auth *auth) {
    if (!auth)
        return;
    struct token_set *set = atomic_load_explicit(&auth->current, memory_order_relaxed), *before;
    for (; set; set = before) {
        before = set->before;
        free(set);
    }
    free(auth);
}

void auth_first(const struct auth *auth, char *token, size_t room) {
    const struct token_set *set = atomic_load_explicit(&auth->current, memory_order_acquire); /* with auth_reload() */
    snprintf(token, room, "%.*s", (int)set->tokens[0].length, set->tokens[0].bytes);
}

bool auth_allows(const struct auth *auth, const char *token, size_t length) {
    /* acquire: with auth_reload() */
    const struct token_set *set = atomic_load_explicit(&auth->current, memory_order_acquire);
    bool allowed = false;
    for (uint32_t i = 0; i < set->count; i++)
        if (set->tokens[i].length == length)
            allowed |= gnutls_memcmp(set->tokens[i].bytes, token, length) == 0;
    return allowed;
}

bool auth_allows_bearer(const struct auth *auth, const char *value, size_t length) {
    static const char scheme[] = "Bearer ";
    size_t at = sizeof(scheme) - 1;
    if (length < at || strncasecmp(value, scheme, at) != 0)
        return false;
    while (at < length && value[at] == ' ')
        at++;
    return auth_allows(auth, value + at, length - at);
}

static bool name_is(const char *name, size_t length, const char *header) {
    return length == strlen(header) && strncasecmp(name, header, length) == 0;
}

bool auth_header_allows(const struct auth *auth, const char *name, size_t name_length, const char *value, size_t length,
                        uint32_t *compared) {
    bool bearer = name_is(name, name_length, "authorization");
    if ((!bearer && !name_is(name, name_length, "x-api-key")) || *compared == AUTH_HEADERS_MAX)
        return false;
    ++*compared;
    return bearer ? auth_allows_bearer(auth, value, length) : auth_allows(auth, value, length);
}
