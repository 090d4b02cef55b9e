/* test_names.c - addresses are known at once, names after a while, and nobody waits. That names change is tested end to
 * end (tests/e2e/test_names.py). */
/* Starts threads. */
#include "cluster/peer/names.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>

#include "core/system/clock.h"
#include "core/util/container.h"
#include "unit/test.h"

static struct name_address found[NAME_ADDRESSES_MAX];

TEST(what_is_no_host_and_port_is_refused) {
    static const char *const wrong[] = {"",       "nonsense", ":7700",   "host:",    "host:0",     "host:65536",
                                        "host:x", "host:7x",  "host:-1", "host: 77", "host:+7700", "[::1]"};
    static const char *const right[] = {"host:1", "a.b-c:65535", "10.0.0.1:7700", "[::1]:7700"};
    struct sy_error err;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        assert_int_equal(name_check(wrong[i], &err), -EINVAL);
        assert_int_equal(name_look_up(wrong[i], found, &err), -EINVAL);
        assert_non_null(strstr(err.text, "is not HOST:PORT"));
    }
    for (size_t i = 0; i < ARRAY_COUNT(right); i++)
        assert_int_equal(name_check(right[i], &err), 0);
}

TEST(addresses_are_known_at_once) {
    struct names *names = names_create();
    assert_int_equal(names_find(names, "127.0.0.9:7700", 0, found), 1);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&found[0].at;
    assert_int_equal(ntohs(v4->sin_port), 7700);
    assert_int_equal(ntohl(v4->sin_addr.s_addr), 0x7f000009);
    assert_int_equal(names_find(names, "[::1]:80", 0, found), 1);
    assert_int_equal(found[0].at.ss_family, AF_INET6);
    assert_int_equal(names_find(names, "nonsense", 0, found), 0);
    names_destroy(names);
}

TEST(names_are_known_after_a_while) {
    const struct timespec a_little = {.tv_nsec = NS_PER_MS};
    struct names *names = names_create();
    uint32_t count = 0;
    for (int64_t until_ns = clock_now_ns() + 60 * NS_PER_S; !count && clock_now_ns() < until_ns;) {
        count = names_find(names, "localhost:7700", clock_now_ns(), found);
        nanosleep(&a_little, NULL);
    }
    assert_true(count > 0);
    assert_true(found[0].bytes > 0);
    names_destroy(names);
}

TEST(nobody_waits_for_a_look_up) {
    struct names *names = names_create();
    for (int i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof(name), "host-%d.invalid:7700", i);
        assert_int_equal(names_find(names, name, (int64_t)i * 100 * NS_PER_S, found), 0);
    }
    names_destroy(names);
    names_destroy(NULL);
}
