/* test_membership.c - accelerators drain, fail and join while the live threads (rig.h) serve: nothing is lost.
 *
 * How many comings and goings: histories.h. */
/* Starts threads. */
#include "histories.h"
#include "unit/sched/threads/rig.h"

#define CHANGES 2000

static uint32_t changes;

/* Waits until an accelerator is in a state. */
static void await_state(const struct rig *rig, uint32_t accelerator, enum accelerator_state state) {
    while (wiring_accelerator_state(&rig->wiring, accelerator) != state)
        pause_us(100);
}

static void command(struct rig *rig, uint32_t accelerator, enum accelerator_order order) {
    int rc;

    while ((rc = wiring_command(&rig->wiring, accelerator, order)) == -EAGAIN)
        pause_us(100);
    assert_int_equal(rc, 0);
}

static void command_all(struct rig *rig, enum accelerator_order order) {
    for (uint32_t a = 0; a < rig->wiring.accelerators; a++)
        command(rig, a, order);
}

static const struct executor_counters *counters_of(const struct rig *rig, uint32_t accelerator) {
    return executor_counters(rig->executors[rig->executor_of[accelerator]], accelerator);
}

static uint64_t lost_batches(const struct rig *rig) {
    uint64_t lost = 0;

    for (uint32_t a = 0; a < rig->wiring.accelerators; a++)
        lost += counters_of(rig, a)->lost_batches;
    return lost;
}

/* More than one accelerator can do, over the port that the tests' own crowds leave alone; all accelerators may fail
 * meanwhile. */
static void burst(struct rig *rig, bool failing) {
    struct crowd c;

    crowd_init(&c, 300);
    for (uint32_t i = 0; i < c.count; i++)
        assert_int_equal(port_submit(rig->ports[1], crowd_request(&c, rig, i, i % (MODELS - 1), 50 * NS_PER_MS)), 0);
    port_flush(rig->ports[1]);
    if (failing) {
        pause_us(200);
        command_all(rig, ACCELERATOR_FAIL);
        command_all(rig, ACCELERATOR_JOIN);
    }
    crowd_wait(&c, rig, 1);
    crowd_free(&c);
}

/* All accelerators come back, and every one of them runs something. */
static void all_serve(struct rig *rig) {
    uint64_t before[ACCELERATORS];

    command_all(rig, ACCELERATOR_JOIN);
    for (uint32_t a = 0; a < rig->wiring.accelerators; a++) {
        await_state(rig, a, ACCELERATOR_SERVING);
        before[a] = counters_of(rig, a)->batches;
    }
    burst(rig, false);
    for (uint32_t a = 0; a < rig->wiring.accelerators && !rig->wiring.central; a++)
        while (counters_of(rig, a)->batches == before[a]) /* or the test's time is over */
            burst(rig, false);
}

static void comings_and_goings(const struct policy_ops *policy, uint32_t count) {
    struct rig *rig = rig_start_with(policy, ACCELERATORS, 300e3);
    struct crowd c;
    uint32_t sent = 0;

    crowd_init(&c, 10 * count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t accelerator = (uint32_t)rng_below(&c.rng, rig->wiring.accelerators);
        command(rig, accelerator, (enum accelerator_order)rng_below(&c.rng, 3));
        crowd_send_some(&c, rig, &sent, 20);
        pause_us((int64_t)rng_below(&c.rng, 600));
    }
    crowd_finish(&c, rig, &sent, 200);
    while (lost_batches(rig) == 0) /* none by chance; or the test's time is over */
        burst(rig, true);
    all_serve(rig);
    print_message("%s: %u changes, %u requests, %u ran, %llu batches lost on the way\n", policy->name, count, c.count,
                  c.ran, (unsigned long long)lost_batches(rig));
    assert_true(c.ran > 0);
    rig_stop(rig);
    crowd_free(&c);
}

TEST(test_nothing_is_lost) {
    for (int i = 0; policies[i]; i++)
        comings_and_goings(policies[i], policies[i] == &policy_deferred ? changes : changes / 10);
}

TEST(test_what_drains_ends_what_it_has_and_leaves) {
    struct rig *rig = rig_start(ACCELERATORS, 20e6);
    struct crowd c;
    uint64_t sealed = 0;

    crowd_init(&c, 8);
    for (uint32_t i = 0; i < c.count; i++)
        assert_int_equal(port_submit(rig->ports[0], crowd_request(&c, rig, i, i % (MODELS - 1), 60 * NS_PER_S)), 0);
    port_flush(rig->ports[0]);
    pause_us(10000); /* they run, unless the machine is slow */
    command_all(rig, ACCELERATOR_DRAIN);
    for (uint32_t a = 0; a < ACCELERATORS; a++) {
        await_state(rig, a, ACCELERATOR_GONE);
        sealed += counters_of(rig, a)->requests;
    }
    assert_int_equal(lost_batches(rig), 0);
    while (c.done < sealed) { /* what ended is answered */
        crowd_collect(&c, rig, 0);
        pause_us(500);
    }
    pause_us(50000);
    crowd_collect(&c, rig, 0);
    assert_int_equal(c.done, sealed); /* nothing runs any more */
    all_serve(rig);
    crowd_wait(&c, rig, 0);
    assert_int_equal(c.ran, c.count);
    rig_stop(rig);
    crowd_free(&c);
}

/* No accelerator is left, and no time: refused as lost or for the deadline, not kept. The run that is lost would have
 * taken a minute. */
TEST(test_without_accelerators_requests_are_refused_in_time) {
    struct rig *rig = rig_start(1, 60e9);
    struct crowd c;

    crowd_init(&c, 4);
    for (uint32_t i = 0; i < c.count; i++) {
        struct request *r = crowd_request(&c, rig, i, i % (MODELS - 1), 200 * NS_PER_MS);
        r->deadline_ns += (int64_t)(rig->fixed_ns * (1 + r->items / 5.0));
        assert_int_equal(port_submit(rig->ports[0], r), 0);
    }
    port_flush(rig->ports[0]);
    pause_us(5000);
    command(rig, 0, ACCELERATOR_FAIL);
    crowd_wait(&c, rig, 0);
    assert_int_equal(c.ran, 0);
    rig_stop(rig);
    crowd_free(&c);
}

int main(void) {
    changes = (uint32_t)histories_count(CHANGES);
    return tests_run(NULL, NULL);
}
