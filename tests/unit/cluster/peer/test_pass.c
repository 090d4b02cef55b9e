/* test_pass.c - the scheduler and a frontend make the same passes; others, without the key, do not. */
#include <stdlib.h>
#include <string.h>

#include "cluster/peer/pass.h"
#include "unit/test.h"

#define BACKEND  0xbeef
#define REQUESTS 6

static const struct siphash_key keys[] = {{{1, 2}}, {{3, 4}}};
static struct pass_maker maker;

static uint64_t handle(uint32_t frontend, uint32_t slot) {
    return handle_of(frontend * HELLO_LANES_MAX, slot, 7 + slot);
}

/* A plan of two frontends' requests, in turns. */
TEST(the_passes_of_a_plan_are_each_frontends) {
    _Alignas(8) char memory[sizeof(struct batch_plan) + REQUESTS * sizeof(uint64_t)] = {0};
    struct batch_plan *plan = (struct batch_plan *)memory;
    struct wire_plan_pass passes[2];
    uint64_t own[2][REQUESTS];
    maker.of[5].key = keys[0];
    maker.of[4095].key = keys[1];
    for (int round = 0; round < 2; round++) { /* nothing is left of a plan before */
        plan->request_count = round ? REQUESTS : REQUESTS - 2;
        for (uint32_t i = 0; i < plan->request_count; i++)
            own[i % 2][i / 2] = plan->handles[i] = handle(i % 2 ? 4095 : 5, i);
        assert_int_equal(pass_maker_begin(&maker, BACKEND, plan), 2);
        pass_maker_end(&maker, passes);
        for (uint32_t f = 0; f < 2; f++) {
            struct pass made = pass_of_requests(&keys[f], BACKEND, own[f], plan->request_count / 2);
            assert_int_equal(passes[f].frontend, f ? 4095 : 5);
            assert_int_equal(passes[f].requests, plan->request_count / 2);
            assert_true(pass_equal(made, (struct pass){{passes[f].pass[0], passes[f].pass[1]}}));
        }
    }
}

TEST(a_pass_is_of_one_key_one_backend_and_these_requests) {
    const uint64_t handles[] = {handle(5, 0), handle(5, 1)}, turned[] = {handle(5, 1), handle(5, 0)}, word = BACKEND;
    struct pass pass = pass_of_requests(&keys[0], BACKEND, handles, 2);
    assert_true(pass_equal(pass, pass_of_requests(&keys[0], BACKEND, handles, 2)));
    assert_false(pass_equal(pass, pass_of_requests(&keys[1], BACKEND, handles, 2)));
    assert_false(pass_equal(pass, pass_of_requests(&keys[0], BACKEND + 1, handles, 2)));
    assert_false(pass_equal(pass, pass_of_requests(&keys[0], BACKEND, turned, 2)));
    assert_false(pass_equal(pass, pass_of_requests(&keys[0], BACKEND, handles, 1)));
    /* that of a connection is none of requests */
    pass = pass_of_backend(&keys[0], BACKEND);
    assert_false(pass_equal(pass, pass_of_requests(&keys[0], BACKEND, handles, 0)));
    assert_false(pass_equal(pass, pass_of_requests(&keys[0], 1, &word, 1)));
    assert_false(pass_equal(pass, pass_of_backend(&keys[0], BACKEND + 1)));
}

/* A backend hears of the frontend neither its token nor its key. */
TEST(an_introduction_has_the_pass_instead_of_the_key) {
    const struct hello frontend = {
        .role = ROLE_FRONTEND, .secret = {1, 2}, .name = "f", .token = "secret", .incarnation = 9};
    struct hello told = pass_introduction(&frontend, BACKEND);
    assert_string_equal(told.token, "");
    assert_string_equal(told.name, "f");
    assert_int_equal(told.incarnation, 9);
    assert_true(pass_equal(pass_of_backend(&keys[0], BACKEND), (struct pass){{told.secret[0], told.secret[1]}}));
    char *text = hello_write(&told);
    assert_null(strstr(text, "00000000000000010000000000000002"));
    free(text);
}
