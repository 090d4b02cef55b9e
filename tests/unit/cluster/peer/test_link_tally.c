/* test_link_tally.c - a peer keeps its tally; of too many peers the last are counted together. */
#include "cluster/peer/link_tally.h"

#include <stdio.h>

#include "unit/test.h"

TEST(test_peers_are_told_apart) {
    struct link_tallies tallies = {.count = 0};
    char name[16];
    uint32_t apart = 0;
    for (uint32_t i = 0; i < LINK_TALLIES_MOST + 10; i++) {
        snprintf(name, sizeof(name), "b-%u", i);
        uint32_t number = link_tally_of(&tallies, ROLE_BACKEND, name);
        apart += number > 0;
        link_tally_at(&tallies, number)->counts[LINK_LATE]++;
    }
    assert_int_equal(apart, LINK_TALLIES_MOST);
    assert_int_equal(tallies.others.counts[LINK_LATE], 10);
    uint32_t again = link_tally_of(&tallies, ROLE_BACKEND, "b-77");
    assert_string_equal(link_tally_at(&tallies, again)->name, "b-77");
    assert_int_equal(link_tally_at(&tallies, again)->counts[LINK_LATE], 1);
    assert_int_equal(link_tally_of(&tallies, ROLE_FRONTEND, "b-77"), 0);
    link_tallies_free(&tallies);
}
