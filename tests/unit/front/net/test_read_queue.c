/* test_read_queue.c - when a thread is behind, and whom it reads next. */
#include "unit/test.h"

#include "core/util/container.h"
#include "front/net/read_queue.h"

#define SLO_NS      (16 * NS_PER_MS)
#define LONG_NS     (SLO_NS / READ_QUEUE_LONG_PART)
#define INTERVAL_NS (LONG_NS / READ_QUEUE_INTERVAL_PART)

static struct read_queue queue;
static int64_t now_ns;

static int set_up(void **state) {
    read_queue_init(&queue);
    read_queue_limit(&queue, SLO_NS, 1);
    now_ns = 1000 * NS_PER_S;
    read_queue_note(&queue, 0, now_ns); /* the first interval begins */
    return 0;
}

/* Reads once in `step_ns`, for `for_ns`, what has waited for `waited_ns`. */
static void reads(int64_t step_ns, int64_t for_ns, int64_t waited_ns) {
    for (int64_t until_ns = now_ns + for_ns; now_ns < until_ns;)
        read_queue_note(&queue, waited_ns, now_ns += step_ns);
}

TEST_WITH(it_is_behind_once_most_has_waited_for_long, set_up, NULL) {
    reads(10 * NS_PER_US, SLO_NS, LONG_NS - 1);
    assert_false(queue.behind);
    reads(10 * NS_PER_US, INTERVAL_NS / 2, LONG_NS);
    assert_false(queue.behind); /* not yet: for less than an interval */
    reads(10 * NS_PER_US, 2 * INTERVAL_NS, LONG_NS);
    assert_true(queue.behind);
    reads(10 * NS_PER_US, SLO_NS, 0); /* what it reads now came last: that says nothing */
    assert_true(queue.behind);
    assert_null(read_queue_next(&queue, now_ns, false)); /* but nothing waits */
    assert_false(queue.behind);
}

/* Bodies that come while they are read, among requests that wait. */
TEST_WITH(some_that_did_not_wait_do_not_hide_it, set_up, NULL) {
    for (int i = 0; i < 1000; i++) {
        read_queue_note(&queue, i % 3 == 0 ? 0 : LONG_NS, now_ns += 10 * NS_PER_US);
        if (queue.behind)
            return;
    }
    fail();
}

TEST_WITH(few_that_waited_do_not_matter, set_up, NULL) {
    for (int i = 0; i < 10000; i++)
        read_queue_note(&queue, i % 3 == 0 ? SLO_NS : 0, now_ns += 10 * NS_PER_US);
    assert_false(queue.behind);
}

/* The thread did not run for a while: what waited meanwhile is read in order. */
TEST_WITH(a_stall_is_no_overload, set_up, NULL) {
    for (int i = 0; i < 100; i++) {
        reads(10 * NS_PER_US, SLO_NS, 0);
        now_ns += i * NS_PER_MS;
        reads(10 * NS_PER_US, INTERVAL_NS / 3, i * NS_PER_MS);
        assert_false(queue.behind);
    }
}

TEST_WITH(the_shortest_slo_counts_down_to_a_limit, set_up, NULL) {
    read_queue_limit(&queue, 1000, 300);
    assert_int_equal(queue.long_ns, 500);
    read_queue_limit(&queue, 400, 300);
    assert_int_equal(queue.long_ns, 300);
}

struct connection {
    struct read_place place;
    int64_t since; /* reads before it came */
};

TEST_WITH(the_newest_first_and_in_between_the_oldest, set_up, NULL) {
    struct connection c[40] = {0};
    for (uint32_t i = 0; i < ARRAY_COUNT(c); i++)
        read_queue_add(&queue, &c[i].place, i, now_ns);
    read_queue_remove(&c[39].place);
    read_queue_remove(&c[39].place); /* not there: nothing happens */
    uint32_t oldest = 0, newest = 39;
    for (uint32_t n = 1; n < ARRAY_COUNT(c); n++) {
        struct read_place *place = read_queue_next(&queue, now_ns, false);
        assert_ptr_equal(place, &c[n % READ_QUEUE_OLDEST_EVERY == 0 ? oldest++ : --newest].place);
        assert_int_equal(place->events, (struct connection *)place - c);
        assert_false(place->waits);
    }
    assert_null(read_queue_next(&queue, now_ns, false));
}

/* What has waited for long is left unread, but for the oldest now and then, unless the thread has slept for half of an
 * interval. */
TEST_WITH(what_has_waited_for_long_is_left_until_there_is_time, set_up, NULL) {
    struct connection c[4] = {0};
    queue.behind = true;
    for (uint32_t i = 0; i < ARRAY_COUNT(c); i++)
        read_queue_add(&queue, &c[i].place, 1, now_ns);
    assert_ptr_equal(read_queue_next(&queue, now_ns + LONG_NS - 1, false), &c[3].place);
    assert_null(read_queue_next(&queue, now_ns + LONG_NS, false));
    assert_ptr_equal(read_queue_next(&queue, now_ns + LONG_NS, true), &c[0].place);
    queue.turn = READ_QUEUE_OLDEST_EVERY - 1; /* the next read is of the oldest, but not before something new comes */
    now_ns += LONG_NS;
    assert_null(read_queue_next(&queue, now_ns, false));
    read_queue_add(&queue, &c[3].place, 1, now_ns);
    assert_ptr_equal(read_queue_next(&queue, now_ns, false), &c[1].place);
    read_queue_remove(&c[3].place);
    read_queue_slept(&queue, 0, now_ns); /* a new interval */
    read_queue_slept(&queue, INTERVAL_NS / 2 - 1, now_ns += INTERVAL_NS);
    assert_null(read_queue_next(&queue, now_ns, false));
    read_queue_slept(&queue, INTERVAL_NS / 4, now_ns += INTERVAL_NS / 2);
    read_queue_slept(&queue, INTERVAL_NS / 4, now_ns += INTERVAL_NS / 2);
    assert_ptr_equal(read_queue_next(&queue, now_ns, false), &c[2].place); /* the newest of them */
    assert_true(queue.behind && queue.has_time);
    assert_null(read_queue_next(&queue, now_ns, false));
    assert_false(queue.behind || queue.has_time);
}

TEST_WITH(in_order, set_up, NULL) {
    struct connection c[40] = {0};
    for (uint32_t i = 0; i < ARRAY_COUNT(c); i++)
        read_queue_add(&queue, &c[i].place, 1, now_ns);
    for (uint32_t i = 0; i < ARRAY_COUNT(c); i++)
        assert_ptr_equal(read_queue_next(&queue, now_ns, true), &c[i].place);
    assert_false(read_queue_waits(&queue));
}

/* Clients that ask again as soon as they are answered leave none unread for ever: with N connections that wait, each is
 * read within READ_QUEUE_OLDEST_EVERY * N reads. */
TEST_WITH(nobody_waits_for_ever, set_up, NULL) {
    enum { CONNECTIONS = 200 };
    struct connection c[CONNECTIONS] = {0};
    for (int i = 0; i < CONNECTIONS; i++)
        read_queue_add(&queue, &c[i].place, 1, now_ns);
    for (int64_t reads = 0; reads < 100000; reads++) {
        struct connection *next = (struct connection *)read_queue_next(&queue, now_ns, false);
        assert_true(reads - next->since <= READ_QUEUE_OLDEST_EVERY * CONNECTIONS);
        next->since = reads;
        read_queue_add(&queue, &next->place, 1, now_ns);
    }
}
