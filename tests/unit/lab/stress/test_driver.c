/* test_driver.c - drivers take the turns of all that sit in them, know what these took, and see when they were away.
 * Passengers count turns and make time pass; nothing waits for a machine to be quick. */
/* Starts threads. */
#include <sched.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/counter.h"
#include "lab/stress/driver.h"
#include "unit/test.h"

#define SEATS  3
#define SLICES 4

/* Busy for so long in each turn. */
struct passenger {
    _Atomic uint64_t turns;
    int64_t busy_ns;
    struct histogram times;
};

static int64_t turn(void *context) {
    struct passenger *p = context;

    counter_add(&p->turns, 1);
    histogram_add(&p->times, 1);
    for (int64_t until_ns = clock_now_ns() + p->busy_ns; clock_now_ns() < until_ns;)
        ;
    return p->busy_ns ? 0 : clock_now_ns() + NS_PER_MS;
}

struct ride {
    struct passenger passengers[SEATS];
    struct driver_seat seats[SEATS];
    struct histogram until[SLICES];
    struct driver_config config;
    struct driver *driver;
};

static void ride_begin(struct ride *r, bool sleeps) {
    struct sy_error err;

    memset(r->until, 0, sizeof(r->until));
    for (int i = 0; i < SEATS; i++)
        r->seats[i] = (struct driver_seat){.turn = turn, .passenger = &r->passengers[i]};
    r->seats[0].times = &r->passengers[0].times;
    r->seats[0].times_until = r->until;
    r->config = (struct driver_config){.sleeps = sleeps,
                                       .epoch_ns = clock_now_ns(),
                                       .slicing = {.slice_ns = NS_PER_MS, .count = SLICES},
                                       .seats = r->seats,
                                       .seat_count = SEATS};
    assert_int_equal(driver_start(&r->driver, &r->config, &err), 0);
}

static void ride_until(struct ride *r, uint64_t turns) {
    while (counter_get(&r->passengers[SEATS - 1].turns) < turns || clock_now_ns() < r->config.epoch_ns + 5 * NS_PER_MS)
        sched_yield();
    driver_stop(r->driver);
}

TEST(test_all_take_turns) {
    for (int sleeps = 0; sleeps < 2; sleeps++) {
        struct ride r = {.driver = NULL};
        ride_begin(&r, sleeps);
        ride_until(&r, 20);
        for (int i = 0; i < SEATS; i++) {
            assert_int_equal(counter_get(&r.passengers[i].turns), counter_get(&r.passengers[0].turns));
            assert_int_equal(counter_get(&r.seats[i].work_ns), 0); /* they had nothing to do */
        }
        driver_free(r.driver);
    }
}

/* Work is whose turn it was. Where turns were interrupted, it is left out: so at most what passed. */
TEST(test_work_is_told_apart) {
    struct ride r = {.passengers = {[1] = {.busy_ns = 20 * NS_PER_US}}};
    uint32_t pauses;

    ride_begin(&r, false);
    ride_until(&r, 50);
    uint64_t work_ns = counter_get(&r.seats[1].work_ns), turns = counter_get(&r.passengers[1].turns);
    driver_pauses(r.driver, &pauses);
    assert_true(work_ns + pauses * 20 * (uint64_t)NS_PER_US >= turns * 20 * (uint64_t)NS_PER_US);
    assert_true(work_ns <= (uint64_t)(clock_now_ns() - r.config.epoch_ns));
    assert_int_equal(counter_get(&r.seats[0].work_ns) + counter_get(&r.seats[2].work_ns), 0);
    driver_free(r.driver);
}

/* A turn that takes longer than turns may is time in which the thread was away. */
TEST(test_pauses_are_seen) {
    struct ride r = {.passengers = {[2] = {.busy_ns = 2 * PAUSE_NS}}};
    uint32_t count;

    ride_begin(&r, false);
    ride_until(&r, 3);
    const struct pause *pauses = driver_pauses(r.driver, &count);
    assert_true(count >= 3); /* others may have been the machine's */
    for (uint32_t i = 0; i < count; i++) {
        assert_true(pauses[i].to_ns - pauses[i].from_ns > PAUSE_NS);
        assert_true(i == 0 || pauses[i].from_ns >= pauses[i - 1].to_ns);
    }
    assert_int_equal(counter_get(&r.seats[2].work_ns), 0);
    driver_free(r.driver);
}

/* What was counted until the end of each slice only grows, and is all there. */
TEST(test_times_are_kept_by_slices) {
    struct ride r = {.driver = NULL};

    ride_begin(&r, false);
    ride_until(&r, 1); /* and until the slices are over */
    for (int i = 0; i < SLICES; i++)
        assert_true(counter_get(&r.until[i].count) >= (i ? counter_get(&r.until[i - 1].count) : 0));
    assert_true(counter_get(&r.until[SLICES - 1].count) > 0);
    assert_true(counter_get(&r.until[SLICES - 1].count) <= counter_get(&r.passengers[0].times.count));
    driver_free(r.driver);
}
