/* test_ring.c - the single-producer single-consumer ring, alone and between two threads with doorbells. */
/* Starts threads. */
#include <pthread.h>
#include <sched.h>

#include "core/system/doorbell.h"
#include "core/util/ring.h"
#include "core/util/time.h"
#include "unit/test.h"

TEST(test_fills_and_empties) {
    struct ring ring;
    assert_int_equal(ring_init(&ring, 5, sizeof(uint32_t)), 0); /* rounds up to 8 */
    for (uint32_t lap = 0; lap < 3; lap++) {
        assert_null(ring_peek(&ring));
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t *slot = ring_reserve(&ring);
            assert_non_null(slot);
            *slot = lap * 100 + i;
            ring_push(&ring);
        }
        assert_null(ring_reserve(&ring));
        assert_false(ring_fits(&ring, 1));
        assert_null(ring_peek(&ring)); /* nothing is visible before it is published */
        assert_false(ring_pending(&ring));
        assert_true(ring_publish(&ring));
        assert_false(ring_publish(&ring)); /* nothing new */
        assert_true(ring_pending(&ring));
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t *slot = ring_peek(&ring);
            assert_non_null(slot);
            assert_int_equal(*slot, lap * 100 + i);
            ring_pop(&ring);
        }
        assert_null(ring_reserve(&ring)); /* slots come back at the release only */
        ring_release(&ring);
        assert_true(ring_fits(&ring, 8));
        assert_false(ring_fits(&ring, 9));
    }
    ring_destroy(&ring);
}

/* Runs of 1 to 4 slots lie in one piece wherever they begin, and keep what was written to them. */
TEST(test_runs_lie_in_one_piece) {
    struct ring ring;
    uint32_t written = 0, read = 0;
    assert_int_equal(ring_init_runs(&ring, 8, sizeof(uint32_t), 4), 0);
    while (read < 500) {
        uint32_t *run;
        for (; (run = ring_reserve_run(&ring, 1 + written % 4)); written++) {
            for (uint32_t i = 0; i <= written % 4; i++)
                run[i] = written * 10 + i;
            ring_push_run(&ring, 1 + written % 4);
        }
        assert_false(ring_fits(&ring, 1 + written % 4));
        ring_publish(&ring);
        for (int take = 0; take < 2; take++, read++) { /* of about three: so that runs begin everywhere */
            run = ring_peek(&ring);
            assert_non_null(run);
            for (uint32_t i = 0; i <= read % 4; i++)
                assert_int_equal(run[i], read * 10 + i);
            ring_pop_run(&ring, 1 + read % 4);
        }
        ring_release(&ring);
    }
    ring_destroy(&ring);
}

#define MESSAGES 200000

struct pair {
    struct ring ring;
    struct doorbell bell;
};

static void *produce(void *argument) {
    struct pair *pair = argument;
    for (uint64_t i = 0; i < MESSAGES;) {
        for (int batch = 0; batch < 7 && i < MESSAGES; batch++) {
            uint64_t *slot = ring_reserve(&pair->ring);
            if (!slot)
                break;
            slot[0] = i;
            slot[1] = ~i;
            ring_push(&pair->ring);
            i++;
        }
        if (ring_publish(&pair->ring))
            doorbell_ring(&pair->bell);
        else
            sched_yield();
    }
    return NULL;
}

/* The consumer sleeps whenever it finds nothing: a lost wake-up would hang the test until its time limit. */
TEST(test_two_threads_lose_nothing) {
    struct pair pair;
    pthread_t producer;
    assert_int_equal(ring_init(&pair.ring, 64, 2 * sizeof(uint64_t)), 0);
    assert_int_equal(doorbell_init(&pair.bell, false, false), 0);
    assert_int_equal(pthread_create(&producer, NULL, produce, &pair), 0);
    for (uint64_t expected = 0; expected < MESSAGES;) {
        uint64_t *slot = ring_peek(&pair.ring);
        if (slot) {
            assert_int_equal(slot[0], expected);
            assert_int_equal(slot[1], ~expected);
            expected++;
            ring_pop(&pair.ring);
            ring_release(&pair.ring);
            continue;
        }
        doorbell_arm(&pair.bell);
        if (ring_pending(&pair.ring))
            doorbell_cancel(&pair.bell);
        else
            doorbell_sleep(&pair.bell, TIME_NEVER);
    }
    pthread_join(producer, NULL);
    assert_null(ring_peek(&pair.ring));
    ring_destroy(&pair.ring);
}
