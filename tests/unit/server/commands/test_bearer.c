/* test_bearer.c - the token of --token, on the command line or in a file. */
#include "unit/test.h"

#include "server/commands/bearer.h"

#include <errno.h>
#include <stdio.h>

#include "unit/text_file.h"

static int read_file(const char *text, char header[BEARER_BYTES], struct sy_error *err) {
    char path[sizeof(TEXT_FILE)], at[sizeof(TEXT_FILE) + 1];
    text_file(path, text, strlen(text));
    snprintf(at, sizeof(at), "@%s", path);
    int rc = bearer_read(at, header, err);
    unlink(path);
    return rc;
}

TEST(tokens_become_headers) {
    char header[BEARER_BYTES];
    struct sy_error err;
    assert_int_equal(bearer_read("secret", header, &err), 0);
    assert_string_equal(header, "Authorization: Bearer secret");
    assert_int_equal(read_file("first\nsecond\n", header, &err), 0);
    assert_string_equal(header, "Authorization: Bearer first");
}

TEST(files_without_a_token_are_refused) {
    char header[BEARER_BYTES];
    struct sy_error err = {""};
    assert_int_equal(bearer_read("@/nowhere/token", header, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nowhere/token"));
    assert_int_equal(read_file("", header, &err), -EINVAL);
    assert_non_null(strstr(err.text, "holds no token"));
    assert_int_equal(read_file("\n\n", header, &err), -EINVAL);
}
