/* test_health.c - a peer that says nothing counts as dead in time, but is not blamed for a pause of this process. */
#include "cluster/peer/health.h"

#include "unit/test.h"

#define BEAT_NS ((int64_t)1000)

TEST(test_silence_counts_after_three_beats) {
    struct peer peer = {.heard_ns = 0};
    struct health health;
    health_init(&health, BEAT_NS, 0);
    int64_t now_ns = 0, until_ns = INT64_MAX, looks = 0;
    while (health_hears(&health, &peer, now_ns, &until_ns)) {
        assert_true(until_ns > now_ns && until_ns <= now_ns + BEAT_NS);
        now_ns = until_ns;
        until_ns = INT64_MAX;
        looks++;
    }
    assert_int_equal(now_ns, HEALTH_BEATS * BEAT_NS + 1);
    assert_int_equal(looks, HEALTH_BEATS + 1);
}

TEST(test_looks_that_are_a_little_late_forgive_nothing) {
    struct peer peer = {.heard_ns = 0};
    struct health health;
    int64_t now_ns = 0, until_ns = INT64_MAX;
    health_init(&health, BEAT_NS, 0);
    while (health_hears(&health, &peer, now_ns, &until_ns))
        now_ns += BEAT_NS * 3 / 2;
    assert_int_equal(now_ns, 2 * (BEAT_NS * 3 / 2) + BEAT_NS * 3 / 2);
}

TEST(test_own_pause_is_not_the_silence_of_the_peer) {
    struct peer peer = {.heard_ns = 0};
    struct health health;
    int64_t now_ns = 50 * BEAT_NS, until_ns = INT64_MAX;
    health_init(&health, BEAT_NS, 0);
    assert_true(health_hears(&health, &peer, now_ns, &until_ns));
    assert_int_equal(until_ns, now_ns + BEAT_NS);
    assert_true(health_hears(&health, &peer, until_ns - 1, &until_ns));

    /* Nothing came: it is dead a beat later. */
    until_ns = INT64_MAX;
    assert_false(health_hears(&health, &peer, now_ns + BEAT_NS, &until_ns));

    /* Something came: it has its three beats from then. */
    peer.heard_ns = now_ns + BEAT_NS / 2;
    for (int beat = 1; beat <= HEALTH_BEATS; beat++)
        assert_true(health_hears(&health, &peer, now_ns + beat * BEAT_NS, &until_ns));
    assert_false(health_hears(&health, &peer, now_ns + (HEALTH_BEATS + 1) * BEAT_NS, &until_ns));
}
