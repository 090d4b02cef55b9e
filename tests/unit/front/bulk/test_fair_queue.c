/* test_fair_queue.c - who waits for how many slices of the others: counted in virtual time. */
#include "unit/test.h"

#include <string.h>

#include "front/bulk/fair_queue.h"

#define SLICE  1000
#define JOBS   64
#define MEMORY 100

/* One worker's slices, until `stop` is over (NULL: all jobs). Job i takes needs[i] slices; order[] has whose slices
 * they were. */
struct run {
    struct fair_queue queue;
    struct fair_job jobs[JOBS];
    int needs[JOBS];
    int count;
    int order[100000], slices;
};

static struct run run;

static void begin(uint32_t begun_max) {
    memset(&run, 0, sizeof(run));
    fair_queue_init(&run.queue, begun_max, MEMORY);
}

static int come_with(uint32_t client, int slices, size_t bytes) {
    run.needs[run.count] = slices;
    fair_queue_add(&run.queue, &run.jobs[run.count], client, bytes);
    return run.count++;
}

static int come(uint32_t client, int slices) {
    return come_with(client, slices, 1);
}

/* The next slice; returns whose it was, -1: nobody's. */
static int slice(void) {
    struct fair_job *job = fair_queue_next(&run.queue, true);
    if (!job)
        return -1;
    int i = (int)(job - run.jobs);
    run.order[run.slices++] = i;
    fair_queue_charge(&run.queue, job, SLICE);
    if (--run.needs[i] == 0)
        fair_queue_end(&run.queue, job);
    else
        fair_queue_wait(&run.queue, job);
    return i;
}

/* How many slices pass until the job is over. */
static int until_over(int job) {
    int from = run.slices;
    while (run.needs[job] > 0)
        assert_int_not_equal(slice(), -1);
    return run.slices - from;
}

TEST(a_small_body_waits_for_no_large_one) {
    begin(128);
    for (int i = 0; i < 10; i++)
        come(1, 3000);
    for (int i = 0; i < 100; i++)
        slice();
    assert_true(until_over(come(2, 1)) <= 2); /* one of the others', and its own */
    assert_true(until_over(come(2, 1)) <= 3); /* it has had more than its part just now */
}

TEST(a_large_body_shares_with_a_client_not_with_its_bodies) {
    begin(128);
    for (int i = 0; i < 10; i++)
        come(1, 3000);
    for (int i = 0; i < 100; i++)
        slice();
    int passed = until_over(come(2, 500));
    assert_true(passed >= 998 && passed <= 1001);
    for (int i = run.slices - passed + 2; i < run.slices; i++) /* each second slice is its */
        assert_true((run.order[i] < 10) != (run.order[i - 1] < 10));
}

TEST(bodies_of_a_client_share_its_part) {
    begin(128);
    for (int i = 0; i < 4; i++)
        come(1, 3000);
    for (int i = 0; i < 100; i++)
        slice();
    assert_true(until_over(come(1, 1)) <= 5);
    int passed = until_over(come(1, 100));
    assert_true(passed >= 490 && passed <= 510);
}

TEST(who_was_away_has_saved_nothing) {
    begin(128);
    come(2, 1);
    slice();
    int large = come(1, 1000);
    for (int i = 0; i < 500; i++)
        slice();
    int other = come(2, 500);
    until_over(large);
    assert_true(run.needs[other] <= 1);
}

TEST(small_bodies_without_end_hold_up_nobody) {
    begin(128);
    int large = come(1, 100), slices = 0;
    while (run.needs[large] > 0) { /* of another client, one always waits */
        run.count = 1 + run.count % (JOBS - 1);
        come(2, 1);
        slice();
        slices++;
    }
    assert_true(slices <= 210);
}

/* A client of a hundred bodies does not take all that may begin. */
TEST(there_is_room_for_the_bodies_of_others) {
    begin(8);
    for (int i = 0; i < 40; i++)
        come(1, 1000);
    for (int i = 0; i < 400; i++)
        slice();
    assert_int_equal(run.queue.begun_jobs, 4);
    assert_true(until_over(come(2, 1)) <= 2);
    come(2, 1000);
    come(2, 1000);
    come(2, 1000);
    for (int i = 0; i < 400; i++)
        slice();
    assert_int_equal(run.queue.begun_jobs, 6);
    assert_true(until_over(come(3, 1)) <= 3); /* at most one of each of the others' */
}

/* What needs much memory begins when others have ended; what needs little, before it. */
TEST(jobs_begin_while_there_is_memory) {
    begin(128);
    int first = come_with(1, 10, 2 * MEMORY), second = come_with(1, 10, MEMORY);
    slice();
    int third = come_with(1, 3, MEMORY / 2);
    assert_int_equal(run.queue.begun_jobs, 1);
    until_over(first);
    assert_int_equal(run.queue.begun_jobs, 0);
    assert_int_equal(slice(), second);
    for (int i = 0; i < 4; i++)
        assert_int_equal(slice(), second);
    int small = come_with(1, 1, 0);
    until_over(small);
    assert_true(run.needs[second] > 0 && run.needs[third] == 3);
    until_over(third);
    assert_int_equal(run.needs[second], 0);
    assert_int_equal(run.queue.begun_bytes, 0);
}

TEST(no_job_begins_without_a_thread) {
    begin(128);
    int first = come(1, 10), second = come(1, 10);
    assert_int_equal(slice(), first);
    assert_ptr_equal(fair_queue_next(&run.queue, false), &run.jobs[first]);
    assert_null(fair_queue_next(&run.queue, false));
    assert_false(fair_queue_yields(&run.queue, &run.jobs[first], false));
    assert_true(fair_queue_yields(&run.queue, &run.jobs[first], true));
    assert_ptr_equal(fair_queue_next(&run.queue, true), &run.jobs[second]);
}

/* With several workers none has its next slice while others that have had less wait. */
TEST(several_workers) {
    struct fair_job *on[2] = {NULL, NULL};
    int shares[4] = {0};
    begin(128);
    come(1, 100000);
    come(1, 100000);
    come(2, 100000);
    come(3, 100000);
    for (int i = 0; i < 6000; i++) {
        struct fair_job **worker = &on[i % 2];
        if (*worker) {
            shares[(*worker)->client]++;
            fair_queue_charge(&run.queue, *worker, SLICE);
            if (!fair_queue_yields(&run.queue, *worker, true))
                continue;
            fair_queue_wait(&run.queue, *worker);
        }
        *worker = fair_queue_next(&run.queue, true);
    }
    for (int client = 1; client <= 3; client++)
        assert_true(shares[client] >= 1990 && shares[client] <= 2010);
}
