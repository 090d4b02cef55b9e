/* bearer.c - reads the token that a command shows a server. */
#include "server/commands/bearer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/util/lines.h"

static void header_set(char header[BEARER_BYTES], const char *token) {
    snprintf(header, BEARER_BYTES, "Authorization: Bearer %.*s", AUTH_TOKEN_BYTES_MAX, token);
}

int bearer_read(const char *text, char header[BEARER_BYTES], struct sy_error *err) {
    if (*text != '@') {
        header_set(header, text);
        return 0;
    }
    struct lines *lines = malloc(sizeof(*lines));
    int rc = lines ? lines_open(lines, text + 1, err) : error_set(err, -ENOMEM, "no memory for tokens");
    if (rc == 0) {
        rc = lines_next(lines, err);
        if (rc > 0)
            header_set(header, lines->text);
        else if (rc == 0)
            rc = error_set(err, -EINVAL, "'%s' holds no token", text + 1);
        lines_close(lines);
    }
    free(lines);
    return rc < 0 ? rc : 0;
}
