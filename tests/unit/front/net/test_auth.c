/* test_auth.c - tokens: which files will do, and whom they let in. */
#include "unit/test.h"

#include "front/net/auth.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "unit/text_file.h"

static char path[] = TEXT_FILE;

static int created(struct auth **auth, const char *text, struct sy_error *err) {
    text_file(path, text, strlen(text));
    return auth_create(auth, path, err);
}

static bool allows(const struct auth *auth, const char *token) {
    return auth_allows(auth, token, strlen(token));
}

static bool allows_bearer(const struct auth *auth, const char *value) {
    return auth_allows_bearer(auth, value, strlen(value));
}

TEST(only_the_tokens_of_the_file_are_let_in) {
    struct auth *auth;
    struct sy_error err;
    assert_int_equal(created(&auth, "# clients\n\n  first-token  \r\nsecond~token==\nab", &err), 0);
    assert_true(allows(auth, "first-token"));
    assert_true(allows(auth, "second~token=="));
    assert_true(allows(auth, "ab"));
    static const char *const others[] = {"", "a", "abc", "first-toke", "first-token ", "First-token", "# clients"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(allows(auth, others[i]));
    auth_destroy(auth);
    unlink(path);
}

TEST(a_bearer_is_named_in_any_case) {
    struct auth *auth;
    struct sy_error err;
    assert_int_equal(created(&auth, "token", &err), 0);
    assert_true(allows_bearer(auth, "Bearer token"));
    assert_true(allows_bearer(auth, "bearer  token"));
    static const char *const others[] = {
        "", "Bearer", "Bearer ", "token", "Basic token", "Bearertoken", "Bearer tokens"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(allows_bearer(auth, others[i]));
    auth_destroy(auth);
    unlink(path);
}

TEST(tokens_come_in_two_headers) {
    static const struct {
        const char *name, *value;
        bool allowed;
    } rows[] = {
        {"authorization", "Bearer secret", true},
        {"Authorization", "bearer secret", true},
        {"authorization", "secret", false},
        {"x-api-key", "secret", true},
        {"X-API-Key", "secret", true},
        {"x-api-key", "Bearer secret", false},
        {"x-api-key", "other", false},
        {"x-api-ke", "secret", false},
        {"cookie", "secret", false},
    };
    struct auth *auth;
    struct sy_error err;
    assert_int_equal(created(&auth, "secret", &err), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *name = rows[i].name, *value = rows[i].value;
        uint32_t compared = 0;
        assert_int_equal(auth_header_allows(auth, name, strlen(name), value, strlen(value), &compared),
                         rows[i].allowed);
    }
    unlink(path);
    auth_destroy(auth);
}

/* Else a request of a thousand headers would be compared with each token a thousand times. */
TEST(a_request_has_few_tokens) {
    struct auth *auth;
    struct sy_error err;
    uint32_t compared = 0;
    assert_int_equal(created(&auth, "secret", &err), 0);
    for (int i = 0; i < AUTH_HEADERS_MAX - 1; i++)
        assert_false(auth_header_allows(auth, "x-api-key", 9, "wrongs", 6, &compared));
    assert_false(auth_header_allows(auth, "cookie", 6, "secret", 6, &compared));
    assert_true(auth_header_allows(auth, "authorization", 13, "Bearer secret", 13, &compared));
    assert_false(auth_header_allows(auth, "authorization", 13, "Bearer secret", 13, &compared));
    assert_false(auth_header_allows(auth, "x-api-key", 9, "secret", 6, &compared));
    unlink(path);
    auth_destroy(auth);
}

TEST(files_that_will_not_do_are_named) {
    struct auth *auth;
    struct sy_error err;
    static const struct {
        const char *text, *sentence;
    } rows[] = {{"", "holds no token"},
                {"# nothing\n", "holds no token"},
                {"one\ntwo words\n", ":2: a token holds no blank"},
                {"t\xc3\xb6ken", ":1: a token is printable ASCII"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(created(&auth, rows[i].text, &err), -EINVAL);
        assert_non_null(strstr(err.text, rows[i].sentence));
        assert_non_null(strstr(err.text, path));
        unlink(path);
    }
    char text[(AUTH_TOKENS_MAX + 1) * 8], *at = text;
    for (int i = 0; i <= AUTH_TOKENS_MAX; i++)
        at += sprintf(at, "t%d\n", i);
    assert_int_equal(created(&auth, text, &err), -EINVAL);
    unlink(path);
    char longer[AUTH_TOKEN_BYTES_MAX + 2];
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(created(&auth, longer, &err), -EINVAL);
    unlink(path);
    assert_int_equal(auth_create(&auth, "/nonexistent/tokens", &err), -ENOENT);
}

TEST(a_reload_replaces_all_or_nothing) {
    struct auth *auth;
    struct sy_error err;
    assert_int_equal(created(&auth, "old", &err), 0);
    FILE *file = fopen(path, "w");
    fputs("new\n", file);
    fclose(file);
    assert_int_equal(auth_reload(auth, &err), 0);
    assert_true(allows(auth, "new") && !allows(auth, "old"));
    unlink(path);
    assert_int_equal(auth_reload(auth, &err), -ENOENT);
    assert_true(allows(auth, "new"));
    assert_int_equal(mkfifo(path, 0600), 0); /* it waits for nobody who writes */
    assert_int_equal(auth_reload(auth, &err), 0);
    assert_true(allows(auth, "new"));
    unlink(path);
    auth_destroy(auth);
}
