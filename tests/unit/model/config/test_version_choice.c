/* test_version_choice.c - which versions a policy wants. */
#include "unit/test.h"

#include <string.h>

#include "core/util/container.h"
#include "model/config/version_choice.h"

TEST(versions_are_chosen) {
    static const struct {
        struct version_policy policy;
        uint32_t count, versions[6];
        uint32_t chosen_count, chosen[6];
    } cases[] = {
        {{VERSIONS_LATEST, 0, {0}, 0}, 4, {2, 10, 9, 1}, 1, {10}},
        {{VERSIONS_LATEST, 2, {0}, 0}, 4, {2, 10, 9, 1}, 2, {9, 10}},
        {{VERSIONS_LATEST, 7, {0}, 0}, 2, {2, 1}, 2, {1, 2}},
        {{VERSIONS_ALL, 0, {0}, 0}, 3, {3, 1, 2}, 3, {1, 2, 3}},
        {{VERSIONS_SPECIFIC, 0, {4, 1, 4}, 3}, 3, {3, 1, 2}, 2, {1, 4}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint32_t versions[6], chosen[VERSIONS_MAX];
        memcpy(versions, cases[i].versions, sizeof(versions));
        assert_int_equal(versions_choose(&cases[i].policy, versions, cases[i].count, chosen), cases[i].chosen_count);
        assert_memory_equal(chosen, cases[i].chosen, cases[i].chosen_count * sizeof(*chosen));
    }
}
