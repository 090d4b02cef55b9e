/* test_workers.c - every piece once, taken in order, none begun after a failure. */
/* Starts threads. */
#include "lab/report/workers.h"

#include <sched.h>
#include <stdatomic.h>

#include "unit/test.h"

#define PIECES 200

struct record {
    _Atomic int worked[PIECES];
    uint32_t taken, fails;
    int last_rc;
};

static int work(void *context, uint32_t piece) {
    struct record *r = context;
    for (uint32_t i = 0; i < (PIECES - piece) % 7; i++) /* done out of order */
        sched_yield();
    atomic_fetch_add(&r->worked[piece], 1);
    return piece == r->fails ? -5 : 0;
}

static void take(void *context, uint32_t piece, int rc) {
    struct record *r = context;
    assert_int_equal(piece, r->taken);
    assert_int_equal(atomic_load(&r->worked[piece]), 1);
    r->taken++;
    r->last_rc = rc;
}

static void tick(void *context, uint32_t done) {
    (void)context;
    assert_in_range(done, 0, PIECES);
}

static int run(struct record *r, uint32_t count, uint32_t threads) {
    return workers_run(&(struct workers_job){
        .count = count, .threads = threads, .work = work, .take = take, .tick = tick, .context = r});
}

TEST(test_every_piece_once_and_in_order) {
    for (uint32_t threads = 1; threads < 9; threads++) {
        struct record r = {.fails = PIECES};
        assert_int_equal(run(&r, PIECES, threads), 0);
        assert_int_equal(r.taken, PIECES);
        for (uint32_t i = 0; i < PIECES; i++)
            assert_int_equal(r.worked[i], 1);
    }
    struct record one = {.fails = PIECES};
    assert_int_equal(run(&one, 1, 8), 0);
    assert_int_equal(one.taken, 1);
}

TEST(test_a_failure_is_the_last_to_be_taken) {
    for (uint32_t threads = 1; threads < 9; threads++) {
        struct record r = {.fails = 50};
        int begun = 0;
        assert_int_equal(run(&r, PIECES, threads), -5);
        assert_int_equal(r.taken, 51);
        assert_int_equal(r.last_rc, -5);
        for (uint32_t i = 0; i < PIECES; i++)
            begun += r.worked[i];
        assert_in_range(begun, 51, PIECES);
        if (threads == 1)
            assert_int_equal(begun, 51);
    }
}
