/* assert.h - broken invariants stop the program, in release builds too, and print both values. */
#pragma once

#include <stdint.h>

/* Prints where and what to standard error and aborts. For a peer's or client's mistake return an error instead. */
void assert_fail(const char *file, int line, const char *what) __attribute__((noreturn, cold));
void assert_fail_values(const char *file, int line, const char *what, int64_t a, int64_t b)
    __attribute__((noreturn, cold));

/* Says that there was no memory, and where, and aborts. */
void memory_fail(const char *file, int line) __attribute__((noreturn, cold));

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (__builtin_expect(!(x), 0))                                                                                 \
            assert_fail(__FILE__, __LINE__, #x);                                                                       \
    } while (0)

#define CHECK_OP(a, op, b)                                                                                             \
    do {                                                                                                               \
        int64_t check_a_ = (int64_t)(a), check_b_ = (int64_t)(b);                                                      \
        if (__builtin_expect(!(check_a_ op check_b_), 0))                                                              \
            assert_fail_values(__FILE__, __LINE__, #a " " #op " " #b, check_a_, check_b_);                             \
    } while (0)
#define CHECK_EQ(a, b) CHECK_OP(a, ==, b)
#define CHECK_LE(a, b) CHECK_OP(a, <=, b)
#define CHECK_LT(a, b) CHECK_OP(a, <, b)
#define CHECK_GE(a, b) CHECK_OP(a, >=, b)

/* For memory without which the process cannot go on: a user would wait for ever, or a command has no result. */
#define CHECK_MEMORY(p)                                                                                                \
    do {                                                                                                               \
        if (__builtin_expect(!(p), 0))                                                                                 \
            memory_fail(__FILE__, __LINE__);                                                                           \
    } while (0)
