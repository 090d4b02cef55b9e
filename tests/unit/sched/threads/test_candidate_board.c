/* test_candidate_board.c - what is announced is found once, what is read is never torn, and the newest is never missed.
 */
/* Starts threads. */
#include <pthread.h>
#include <sched.h>

#include "sched/threads/candidate_board.h"
#include "unit/test.h"

#define MODELS 130

static struct candidate candidate_of(int64_t value) {
    struct candidate c = {
        .start_ns = {value, value + 1, value + 2},
        .order_ns = value + 3,
        .invalid_after_ns = value + 4,
        .best_effort_run_ns = value + 5,
    };
    return c;
}

static bool any_pending(const struct candidate_board *board) {
    return candidate_board_pending(board, 0) || candidate_board_pending(board, 1);
}

TEST(test_news_are_found_once) {
    struct candidate_board board = {.types = 2, .models = MODELS, .lanes = 2};
    struct candidate candidates[2], read[2];
    int64_t origin_ns;

    assert_int_equal(candidate_board_init(&board), 0);
    assert_false(any_pending(&board));
    assert_true(candidate_board_read(&board, (struct variant_id){1}, read, &origin_ns));
    assert_int_equal(read[0].start_ns[0], TIME_NEVER); /* no candidate yet */
    assert_int_equal(read[1].best_effort_run_ns, 0);
    for (uint32_t m = 0; m < MODELS; m += 3) {
        candidates[0] = candidate_of(100 + m);
        candidates[1] = candidate_of(1000 + m);
        candidate_board_write(&board, (struct variant_id){m}, candidates, 7 + m);
        assert_int_equal(any_pending(&board), m > 0);
        candidate_board_announce(&board, m % 2, m / 64, 1ULL << m % 64);
    }
    for (uint32_t m = 0; m < MODELS; m++) {
        static uint64_t taken[2][3];
        if (m % 64 == 0)
            for (uint32_t t = 0; t < 2; t++)
                taken[t][m / 64] = candidate_board_take(&board, t, m / 64);
        assert_int_equal(taken[m % 2][m / 64] >> m % 64 & 1, m % 3 == 0);
        assert_int_equal(taken[(m + 1) % 2][m / 64] >> m % 64 & 1, 0);
        if (m % 3)
            continue;
        assert_true(candidate_board_read(&board, (struct variant_id){m}, read, &origin_ns));
        assert_int_equal(origin_ns, 7 + m);
        assert_int_equal(read[0].start_ns[0], 100 + m);
        assert_int_equal(read[1].best_effort_run_ns, 1005 + m);
    }
    assert_false(any_pending(&board));
    candidate_board_free(&board);
}

#define WRITES 200000

static void *writer_main(void *argument) {
    struct candidate_board *board = argument;

    for (int64_t i = 1; i <= WRITES; i++) {
        struct candidate candidates[3] = {candidate_of(i), candidate_of(2 * i), candidate_of(3 * i)};
        candidate_board_write(board, (struct variant_id){1}, candidates, -i);
        if (i % 5 == 0)
            candidate_board_announce(board, 0, 0, 1ULL << 1);
        if (i % 1000 == 0)
            sched_yield();
    }
    return NULL;
}

TEST(test_a_reader_beside_the_writer_sees_whole_candidates) {
    struct candidate_board board = {.types = 3, .models = 2, .lanes = 1};
    struct candidate read[3];
    int64_t origin_ns, newest = 0;
    pthread_t writer;

    assert_int_equal(candidate_board_init(&board), 0);
    assert_int_equal(pthread_create(&writer, NULL, writer_main, &board), 0);
    while (newest < WRITES) {
        if (!candidate_board_take(&board, 0, 0)) {
            sched_yield();
            continue;
        }
        if (!candidate_board_read(&board, (struct variant_id){1}, read, &origin_ns))
            continue; /* what is being written will be announced: WRITES is a multiple of 5 */
        for (int t = 0; t < 3; t++) {
            struct candidate whole = candidate_of(-origin_ns * (t + 1));
            assert_int_equal(read[t].start_ns[0], whole.start_ns[0]);
            assert_int_equal(read[t].best_effort_run_ns, whole.best_effort_run_ns);
            assert_int_equal(read[t].start_ns[SUPPLY_AMPLE], whole.start_ns[SUPPLY_AMPLE]);
        }
        assert_true(-origin_ns >= newest);
        newest = -origin_ns;
    }
    pthread_join(writer, NULL);
    candidate_board_free(&board);
}
