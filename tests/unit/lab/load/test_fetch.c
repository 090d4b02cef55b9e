/* test_fetch.c - addresses of servers. */
#include "unit/test.h"

#include <errno.h>
#include <string.h>

#include "core/util/container.h"
#include "lab/load/fetch.h"

TEST(addresses_are_taken_apart) {
    static const struct {
        const char *url, *host, *port, *path, *authority;
        bool secure;
    } cases[] = {
        {"localhost", "localhost", "8000", "", "localhost", false},
        {"localhost:19300", "localhost", "19300", "", "localhost:19300", false},
        {"http://h", "h", "80", "", "h", false},
        {"HTTP://h:8000/", "h", "8000", "", "h:8000", false},
        {"http://10.0.0.1:8000/prefix/x//", "10.0.0.1", "8000", "/prefix/x", "10.0.0.1:8000", false},
        {"[::1]:8000", "::1", "8000", "", "[::1]:8000", false},
        {"http://[fe80::1]/p", "fe80::1", "80", "/p", "[fe80::1]", false},
        {"h:8002/metrics", "h", "8002", "/metrics", "h:8002", false},
        {"https://h", "h", "443", "", "h", true},
        {"HTTPS://[::1]:8443/p/", "::1", "8443", "/p", "[::1]:8443", true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct server s;
        assert_int_equal(server_parse(cases[i].url, &s, NULL), 0);
        assert_string_equal(s.host, cases[i].host);
        assert_string_equal(s.port, cases[i].port);
        assert_string_equal(s.path, cases[i].path);
        assert_string_equal(s.authority, cases[i].authority);
        assert_string_equal(s.headers, "");
        assert_int_equal(s.secure, cases[i].secure);
        assert_null(s.tls);
    }
}

TEST(mistakes_are_named) {
    static const struct {
        const char *url, *want;
    } cases[] = {
        {"ftp://h", "is neither an http:// nor an https:// address"},
        {"https://", "names no host"},
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
