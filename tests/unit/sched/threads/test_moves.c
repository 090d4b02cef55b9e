/* test_moves.c - models move between two rank threads while the live threads (rig.h) serve, and accelerators come and
 * go: nothing is lost.
 *
 * How many moves: histories.h. */
/* Starts threads. */
#include "histories.h"
#include "unit/sched/threads/rig.h"

#define MOVES 3000

static uint32_t moves;

static void move(struct rig *rig, uint32_t model, uint32_t subcluster) {
    while (wiring_move(&rig->wiring, (struct variant_id){model}, subcluster) == -EAGAIN)
        pause_us(100);
}

static void await_subcluster(const struct rig *rig, uint32_t model, uint32_t subcluster) {
    while (wiring_subcluster(&rig->wiring, (struct variant_id){model}) != subcluster) /* or the test's time is over */
        pause_us(100);
}

/* Requests of every model run where it is now, on the accelerators of that sub-cluster alone. */
static void check_settled(struct rig *rig, uint32_t subcluster) {
    uint64_t before[ACCELERATORS], elsewhere = 0, here = 0;
    struct crowd c;

    for (uint32_t m = 0; m < rig->wiring.models; m++)
        move(rig, m, subcluster);
    for (uint32_t m = 0; m < rig->wiring.models; m++)
        await_subcluster(rig, m, subcluster);
    for (uint32_t a = 0; a < ACCELERATORS; a++)
        before[a] = executor_counters(rig->executors[rig->executor_of[a]], a)->batches;
    for (uint32_t ran = 0; ran == 0;) { /* or the test's time is over */
        crowd_init(&c, 200);
        for (uint32_t i = 0; i < c.count; i++)
            assert_int_equal(port_submit(rig->ports[0], crowd_request(&c, rig, i, i % MODELS, 100 * NS_PER_MS)), 0);
        crowd_wait(&c, rig, 0);
        ran = c.ran;
        crowd_free(&c);
    }
    for (uint32_t a = 0; a < ACCELERATORS; a++)
        *(rig->subcluster_of_accelerator[a] == subcluster ? &here : &elsewhere) +=
            executor_counters(rig->executors[rig->executor_of[a]], a)->batches - before[a];
    assert_int_equal(elsewhere, 0);
    assert_true(here > 0);
}

static void moving(const struct policy_ops *policy, uint32_t count) {
    struct rig *rig = rig_start_subclusters(policy, ACCELERATORS, 300e3, RANKS_MAX);
    struct crowd c;
    uint32_t sent = 0;

    crowd_init(&c, 10 * count);
    for (uint32_t i = 0; i < count; i++) {
        move(rig, (uint32_t)rng_below(&c.rng, MODELS + 2), (uint32_t)rng_below(&c.rng, RANKS_MAX));
        if (rng_below(&c.rng, 4) == 0)
            wiring_command(&rig->wiring, (uint32_t)rng_below(&c.rng, ACCELERATORS),
                           (enum accelerator_order)rng_below(&c.rng, 3)); /* or it has too much to do */
        crowd_send_some(&c, rig, &sent, 20);
        pause_us((int64_t)rng_below(&c.rng, 400));
    }
    crowd_finish(&c, rig, &sent, 200);
    assert_true(c.ran > 0);
    for (uint32_t subcluster = 0; subcluster < RANKS_MAX; subcluster++)
        check_settled(rig, subcluster);
    print_message("%s: %u moves, %u requests, %u ran\n", policy->name, count, c.count, c.ran);
    rig_stop(rig);
    crowd_free(&c);
}

TEST(test_nothing_is_lost) {
    for (int i = 0; policies[i]; i++)
        if (!policies[i]->central)
            moving(policies[i], policies[i] == &policy_deferred ? moves : moves / 10);
}

/* Its queue goes with it: requests that wait for an accelerator find one elsewhere. */
TEST(test_a_queue_moves_with_its_model) {
    struct rig *rig = rig_start_subclusters(&policy_deferred, 2, 5e6, RANKS_MAX);
    struct crowd c;

    assert_int_equal(wiring_command(&rig->wiring, 0, ACCELERATOR_DRAIN), 0);
    while (wiring_accelerator_state(&rig->wiring, 0) != ACCELERATOR_GONE)
        pause_us(100);
    assert_int_equal(wiring_subcluster(&rig->wiring, (struct variant_id){0}), 0);
    crowd_init(&c, 4);
    for (uint32_t i = 0; i < c.count; i++)
        assert_int_equal(port_submit(rig->ports[0], crowd_request(&c, rig, i, 0, 60 * NS_PER_S)), 0);
    port_flush(rig->ports[0]);
    pause_us(20000);
    crowd_collect(&c, rig, 0);
    assert_int_equal(c.done, 0);
    move(rig, 0, 1);
    crowd_wait(&c, rig, 0);
    assert_int_equal(c.ran, c.count);
    rig_stop(rig);
    crowd_free(&c);
}

int main(void) {
    moves = (uint32_t)histories_count(MOVES);
    return tests_run(NULL, NULL);
}
