/* test_near.c - names that somebody may have meant. */
#include "unit/test.h"

#include <string.h>

#include "core/util/container.h"
#include "core/util/near.h"

TEST(names_are_near) {
    static const struct {
        const char *typed, *name;
        unsigned wrong;
    } cases[] = {
        {"http-prot", "http-port", 1},
        {"http_port", "http-port", 0},
        {"HTTP-Port", "http-port", 0},
        {"http-por", "http-port", 0},
        {"repo", "repository", 0},
        {"re", "repository", NEAR_NOT},
        {"pim", "pin", 1},
        {"x", "pin", NEAR_NOT},
        {"sever", "serve", 2},
        {"", "pin", NEAR_NOT},
        {"metrics-prt", "metrics-port", 1},
        {"grpc-port", "http-port", NEAR_NOT},
        {"model-name", "server-name", NEAR_NOT},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        if (near_distance(cases[i].typed, strlen(cases[i].typed), cases[i].name) != cases[i].wrong)
            fail_msg("%s, %s", cases[i].typed, cases[i].name);
    char longest[200];
    memset(longest, 'x', sizeof(longest));
    assert_int_equal(near_distance(longest, sizeof(longest), "pin"), NEAR_NOT);
}
