/* test_fetch.c - addresses of servers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/container.h"
#include "load/fetch.h"

static void addresses_are_taken_apart(void **state) {
    (void)state;
    static const struct {
        const char *url, *host, *port, *path, *authority;
    } cases[] = {
        {"localhost", "localhost", "8000", "", "localhost"},
        {"localhost:19300", "localhost", "19300", "", "localhost:19300"},
        {"http://h", "h", "80", "", "h"},
        {"HTTP://h:8000/", "h", "8000", "", "h:8000"},
        {"http://10.0.0.1:8000/prefix/x//", "10.0.0.1", "8000", "/prefix/x", "10.0.0.1:8000"},
        {"[::1]:8000", "::1", "8000", "", "[::1]:8000"},
        {"http://[fe80::1]/p", "fe80::1", "80", "/p", "[fe80::1]"},
        {"h:8002/metrics", "h", "8002", "/metrics", "h:8002"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct server s;
        assert_int_equal(server_parse(cases[i].url, &s, NULL), 0);
        assert_string_equal(s.host, cases[i].host);
        assert_string_equal(s.port, cases[i].port);
        assert_string_equal(s.path, cases[i].path);
        assert_string_equal(s.authority, cases[i].authority);
    }
}

static void mistakes_are_named(void **state) {
    (void)state;
    static const struct {
        const char *url, *want;
    } cases[] = {
        {"https://h", "https is not supported"},
        {"ftp://h", "is not an http:// address"},
        {"", "names no host"},
        {"http://", "names no host"},
        {":8000", "names no host"},
        {"h:0", "no port number"},
        {"h:65536", "no port number"},
        {"h:80x", "no port number"},
        {"h:", "no port number"},
        {"[::1", "has no ']'"},
        {"[::1]8000", "a port or nothing"},
        {"h/p?q", "may not hold"},
        {"h/a b", "may not hold"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct server s;
        struct sy_error err = {""};
        assert_int_equal(server_parse(cases[i].url, &s, &err), -EINVAL);
        assert_non_null(strstr(err.text, cases[i].want));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_taken_apart),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
