/* histories.h - which of its drawn histories, or of the cases of a long table, a test runs. The environment says:
 *
 *   SYMPHONY_SEED=S     the first history (1); ./run test takes a number from the commit
 *   SYMPHONY_LENGTH=P   per cent of the test's own number of histories or cases (100); ./run test: 25
 *   SYMPHONY_RUNS=N     exactly so many histories
 *
 * With a sanitizer, which makes them several times slower, SYMPHONY_LENGTH is of a quarter. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline uint64_t histories_setting(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static inline uint64_t histories_first(void) {
    return histories_setting("SYMPHONY_SEED", 1);
}

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define HISTORIES_SANITIZED
#endif
#endif

/* How many of a test that has `whole` of them. */
static inline uint64_t histories_count(uint64_t whole) {
#ifdef HISTORIES_SANITIZED
    whole = (whole + 3) / 4;
#endif
    return histories_setting("SYMPHONY_RUNS", (whole * histories_setting("SYMPHONY_LENGTH", 100) + 99) / 100);
}

/* Whether case i of a table is among those that are run; the seed says which ones. */
static inline bool histories_have(uint64_t i) {
    uint64_t length = histories_setting("SYMPHONY_LENGTH", 100), every = length && length < 100 ? 100 / length : 1;
    return (i + histories_first()) % every == 0;
}
