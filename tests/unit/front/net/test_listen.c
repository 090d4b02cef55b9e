/* test_listen.c - what sockets listen at. */
#include "unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/net/listen.h"

/* Whether somebody listens there. -EAFNOSUPPORT or -EADDRNOTAVAIL: there is no such address here. */
static int reaches(int family, int port) {
    struct sockaddr_in four = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(family, SOCK_STREAM, 0), rc;
    if (fd < 0)
        return -errno;
    rc = family == AF_INET ? connect(fd, (struct sockaddr *)&four, sizeof(four))
                           : connect(fd, (struct sockaddr *)&six, sizeof(six));
    rc = rc < 0 ? -errno : 0;
    close(fd);
    return rc;
}

TEST(at_all_addresses_or_one) {
    static const struct {
        const char *host;
        int four, six;
    } cases[] = {{"", 0, 0}, {"::", 0, 0}, {"::1", -ECONNREFUSED, 0}, {"127.0.0.1", 0, -ECONNREFUSED}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sy_error err;
        int fd, again, port;
        if (listen_open(cases[i].host, 0, "test", &fd, &port, &err) < 0) {
            assert_int_equal(cases[i].host[0], ':'); /* there is no IPv6 here */
            continue;
        }
        int six = reaches(AF_INET6, port);
        assert_int_equal(reaches(AF_INET, port), cases[i].four);
        assert_true(six == cases[i].six || six == -EAFNOSUPPORT || six == -EADDRNOTAVAIL);
        assert_int_equal(listen_open(cases[i].host, port, "test", &again, &port, &err), -EADDRINUSE);
        close(fd);
    }
}

TEST(mistakes_say_where) {
    struct sy_error err;
    int fd, port;
    assert_true(listen_open("no such host", 0, "test", &fd, &port, &err) < 0);
    assert_non_null(strstr(err.text, "cannot listen on 'no such host'"));
    assert_true(listen_open("192.0.2.1", 0, "test", &fd, &port, &err) < 0); /* nobody's (RFC 5737) */
    assert_non_null(strstr(err.text, "cannot listen on '192.0.2.1', test port 0: "));
}

TEST(only_this_machine_reaches_loopback) {
    static const struct {
        const char *host;
        bool names, is;
    } cases[] = {{"", false, false},         {"127.0.0.1", true, true},   {"127.9.9.9", true, true},
                 {"::1", true, true},        {"0.0.0.0", false, false},   {"::", false, false},
                 {"10.0.0.1", false, false}, {"128.0.0.1", false, false}, {"a name", false, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(listen_names_loopback(cases[i].host), cases[i].names);
        assert_int_equal(listen_is_loopback(cases[i].host), cases[i].is);
    }
    assert_true(listen_names_loopback("localhost"));
}
