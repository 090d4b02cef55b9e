/* test_membership.c - accelerators drain, fail and join while the live threads (rig.h) serve: nothing is lost.
 *
 * usage: unit_sched_membership [CHANGES], or SYMPHONY_CHANGES in the environment: how many comings and goings. */
#include "unit/sched/rig.h"

#define CHANGES 2000

static uint32_t changes = CHANGES;

/* Waits until an accelerator is in a state. */
static void await_state(const struct rig *rig, uint32_t accelerator, enum accelerator_state state) {
    while (wiring_accelerator_state(&rig->wiring, accelerator) != state)
        pause_us(100);
}

static void change(struct rig *rig, struct rng *rng) {
    uint32_t a = (uint32_t)rng_below(rng, rig->wiring.accelerators);
    enum accelerator_order order = (enum accelerator_order)rng_below(rng, 3);
    int rc;

    while ((rc = wiring_command(&rig->wiring, a, order)) == -EAGAIN)
        pause_us(100);
    assert_int_equal(rc, 0);
}

static uint64_t batches_of(const struct rig *rig, uint32_t accelerator) {
    return executor_counters(rig->executors[rig->executor_of[accelerator]], accelerator)->batches;
}

/* More than one accelerator can do. */
static void burst(struct rig *rig) {
    struct crowd c;

    crowd_init(&c, 300);
    for (uint32_t i = 0; i < c.count; i++)
        assert_int_equal(port_submit(rig->ports[0], crowd_request(&c, rig, i, i % (MODELS - 1), 50 * NS_PER_MS)), 0);
    crowd_wait(&c, rig, 0);
    crowd_free(&c);
}

/* All accelerators come back, and every one of them runs something. */
static void all_serve(struct rig *rig) {
    uint64_t before[ACCELERATORS];

    for (uint32_t a = 0; a < rig->wiring.accelerators; a++) {
        while (wiring_command(&rig->wiring, a, ACCELERATOR_JOIN) == -EAGAIN)
            pause_us(100);
        await_state(rig, a, ACCELERATOR_SERVING);
        before[a] = batches_of(rig, a);
    }
    burst(rig);
    for (uint32_t a = 0; a < rig->wiring.accelerators && !rig->wiring.central; a++)
        while (batches_of(rig, a) == before[a]) /* or the test's time is over */
            burst(rig);
}

static void comings_and_goings(const struct policy_ops *policy, uint32_t count) {
    struct rig *rig = rig_start_with(policy, ACCELERATORS, 300e3);
    struct crowd c;
    uint32_t sent = 0;

    crowd_init(&c, 10 * count);
    for (uint32_t i = 0; i < count; i++) {
        change(rig, &c.rng);
        crowd_send_some(&c, rig, &sent, 20);
        pause_us((int64_t)rng_below(&c.rng, 600));
    }
    for (uint32_t a = 0; a < ACCELERATORS; a++) /* or requests without a deadline that matters would wait for ever */
        while (wiring_command(&rig->wiring, a, ACCELERATOR_JOIN) == -EAGAIN)
            pause_us(100);
    while (c.done < c.count) {
        crowd_send_some(&c, rig, &sent, 200);
        pause_us(200);
    }
    for (uint32_t i = 0; i < c.count; i++)
        assert_int_equal(c.back[i], 1);
    uint64_t lost = 0;
    for (uint32_t a = 0; a < ACCELERATORS; a++)
        lost += executor_counters(rig->executors[rig->executor_of[a]], a)->lost_batches;
    all_serve(rig);
    print_message("%s: %u changes, %u requests, %u ran, %llu batches lost on the way\n", policy->name, count, c.count,
                  c.ran, (unsigned long long)lost);
    assert_true(c.ran > 0 && lost > 0);
    rig_stop(rig);
    crowd_free(&c);
}

static void test_nothing_is_lost(void **state) {
    (void)state;
    for (int i = 0; policies[i]; i++)
        comings_and_goings(policies[i], policies[i] == &policy_deferred ? changes : changes / 10);
}

static void test_what_drains_ends_what_it_has_and_leaves(void **state) {
    (void)state;
    struct rig *rig = rig_start(ACCELERATORS, 20e6);
    struct crowd c;

    crowd_init(&c, 8);
    for (uint32_t i = 0; i < c.count; i++)
        assert_int_equal(port_submit(rig->ports[0], crowd_request(&c, rig, i, i % (MODELS - 1), 10 * NS_PER_S)), 0);
    port_flush(rig->ports[0]);
    pause_us(10000); /* they run */
    for (uint32_t a = 0; a < ACCELERATORS; a++)
        assert_int_equal(wiring_command(&rig->wiring, a, ACCELERATOR_DRAIN), 0);
    for (uint32_t a = 0; a < ACCELERATORS; a++) {
        await_state(rig, a, ACCELERATOR_GONE);
        assert_int_equal(executor_counters(rig->executors[rig->executor_of[a]], a)->lost_batches, 0);
    }
    pause_us(30000); /* what ended is answered */
    crowd_collect(&c, rig, 0);
    uint32_t ran = c.ran;
    pause_us(50000);
    crowd_collect(&c, rig, 0);
    assert_int_equal(c.ran, ran); /* nothing runs any more */
    all_serve(rig);
    crowd_wait(&c, rig, 0);
    assert_int_equal(c.ran, c.count);
    rig_stop(rig);
    crowd_free(&c);
}

/* No accelerator is left, and no time: refused as lost or for the deadline, not kept. */
static void test_without_accelerators_requests_are_refused_in_time(void **state) {
    (void)state;
    struct rig *rig = rig_start(1, 20e6);
    struct crowd c;

    crowd_init(&c, 4);
    for (uint32_t i = 0; i < c.count; i++)
        assert_int_equal(port_submit(rig->ports[0], crowd_request(&c, rig, i, i % (MODELS - 1), 200 * NS_PER_MS)), 0);
    port_flush(rig->ports[0]);
    pause_us(5000);
    assert_int_equal(wiring_command(&rig->wiring, 0, ACCELERATOR_FAIL), 0);
    crowd_wait(&c, rig, 0);
    assert_int_equal(c.ran, 0);
    rig_stop(rig);
    crowd_free(&c);
}

int main(int argc, char **argv) {
    const char *text = argc > 1 ? argv[1] : getenv("SYMPHONY_CHANGES");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_what_drains_ends_what_it_has_and_leaves),
        cmocka_unit_test(test_without_accelerators_requests_are_refused_in_time),
    };

    if (text)
        changes = (uint32_t)strtoul(text, NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
