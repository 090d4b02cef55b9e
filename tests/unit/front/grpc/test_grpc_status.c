/* test_grpc_status.c - codes, timeouts and messages of gRPC's headers. */
#include "unit/test.h"

#include <string.h>

#include "core/util/container.h"
#include "core/util/time.h"
#include "front/grpc/grpc_status.h"

TEST(statuses_have_codes) {
    assert_int_equal(grpc_code_of(200), GRPC_OK);
    assert_int_equal(grpc_code_of(404), GRPC_NOT_FOUND);
    assert_int_equal(grpc_code_of(503), GRPC_UNAVAILABLE);
    assert_int_equal(grpc_code_of(504), GRPC_DEADLINE_EXCEEDED);
    assert_int_equal(grpc_code_of(500), GRPC_INTERNAL);
    assert_string_equal(grpc_code_name(GRPC_RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
    assert_string_equal(grpc_code_name(16), "UNAUTHENTICATED");
    assert_string_equal(grpc_code_name(99), "UNKNOWN");
}

TEST(timeouts) {
    static const struct {
        const char *value;
        int64_t ns; /* negative: wrong */
    } cases[] = {
        {"1n", 1},
        {"20u", 20 * NS_PER_US},
        {"99999999m", 99999999 * NS_PER_MS},
        {"3S", 3 * NS_PER_S},
        {"2M", 120 * NS_PER_S},
        {"1H", 3600 * NS_PER_S},
        {"0S", 0},
        {"99999999H", GRPC_TIMEOUT_NONE},
        {"", -1},
        {"S", -1},
        {"5", -1},
        {"123456789S", -1},
        {"-1S", -1},
        {"1s", -1},
        {"1.5S", -1},
        {" 1S", -1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t ns = grpc_timeout_parse(cases[i].value, strlen(cases[i].value));
        if (cases[i].ns < 0 ? ns >= 0 : ns != cases[i].ns)
            fail_msg("'%s': %lld", cases[i].value, (long long)ns);
    }
}

TEST(messages_are_percent_encoded) {
    char out[32];
    size_t n = grpc_message_encode("50% of\n\xc3\xa9", out, sizeof(out));
    assert_int_equal(n, strlen("50%25 of%0A%C3%A9"));
    assert_memory_equal(out, "50%25 of%0A%C3%A9", n);
    assert_int_equal(grpc_message_encode("abcdef", out, 5), 3); /* cut where another might not fit */
    assert_int_equal(grpc_message_encode("", out, sizeof(out)), 0);
}
