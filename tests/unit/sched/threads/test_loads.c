/* test_loads.c - accelerators with room for one model of four, under the live threads (rig.h), while some drain, fail
 * and join: every request comes back once, and nothing runs without its weights. Executors stop at once if memory is
 * exceeded, or if what runs is unloaded (core/data/residency.h); what the cores decided is decided again.
 *
 * How many comings and goings: histories.h. */
/* Starts threads. */
#include "histories.h"
#include "unit/sched/threads/rig.h"

#define CHANGES 100
#define ROOM    1

static uint64_t sum(const struct rig *rig, size_t counter) {
    uint64_t all = 0;
    for (uint32_t m = 0; m < MODELS; m++)
        all += *(const _Atomic uint64_t *)(const void *)((const char *)&rig->memory_counters[m] + counter);
    return all;
}

static uint64_t absent_batches(const struct rig *rig) {
    uint64_t absent = 0;
    for (uint32_t a = 0; a < rig->wiring.accelerators; a++)
        absent += executor_counters(rig->executors[rig->executor_of[a]], a)->absent_batches;
    return absent;
}

static void limited(const struct policy_ops *policy, uint32_t rank_threads, uint32_t changes) {
    struct rig *rig = rig_start_all(policy, ACCELERATORS, 200e3, rank_threads, 0, ROOM);
    struct crowd c;
    uint32_t sent = 0;

    crowd_init(&c, 2000);
    for (uint32_t i = 0; i < changes; i++) {
        static const enum accelerator_order orders[] = {ACCELERATOR_DRAIN, ACCELERATOR_FAIL, ACCELERATOR_JOIN,
                                                        ACCELERATOR_JOIN};
        uint32_t a = (uint32_t)rng_below(&c.rng, ACCELERATORS);
        (void)wiring_command(&rig->wiring, a, orders[rng_below(&c.rng, 4)]); /* or it has too many orders already */
        crowd_send_some(&c, rig, &sent, 20);
        pause_us((int64_t)rng_below(&c.rng, 400));
    }
    crowd_finish(&c, rig, &sent, 50);
    uint64_t loads = sum(rig, offsetof(struct memory_counters, loads));
    print_message("%s: %u requests, %u ran, %llu loads, %llu cold\n", policy->name, c.count, c.ran,
                  (unsigned long long)loads, (unsigned long long)sum(rig, offsetof(struct memory_counters, cold)));
    assert_true(c.ran > 0 && loads > 0);
    if (!changes) /* though a machine that stands still makes loads late, which are refused */
        assert_int_equal(absent_batches(rig), 0);
    rig_stop(rig);
    crowd_free(&c);
}

TEST(test_nothing_runs_without_its_weights) {
    limited(&policy_deferred, 1, 0);
    limited(&policy_deferred, RANKS_MAX, 0);
}

TEST(test_nothing_is_lost) {
    for (int i = 0; policies[i]; i++)
        if (!policies[i]->central)
            limited(policies[i], 1 + (uint32_t)i % RANKS_MAX, (uint32_t)histories_count(CHANGES));
}
